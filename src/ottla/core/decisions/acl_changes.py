"""CreateAcls 1-3 and DeleteAcls 1-3: the ACLs in the metadata, as Kafka's AclControlManager decides.

Each ACL of a request succeeds or fails by itself. One that is there already is not added again. Error texts
are Kafka's: its tools print them.
"""

from __future__ import annotations

from uuid import UUID

from ottla.core.decisions.decision import MAX_RECORDS_PER_REQUEST, Decision, Randomness
from ottla.core.image.image import AclFields, MetadataImage, acl_fields
from ottla.core.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from ottla.protocol.errors import ErrorCode, PolicyViolation
from ottla.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from ottla.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from ottla.protocol.records.access_control_entry_record import AccessControlEntryRecord
from ottla.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ottla.protocol.schema import Message

TOO_MANY = "Unable to perform excessively large batch operation."


def create_acls(
    image: MetadataImage, request: CreateAclsRequest, random: Randomness
) -> Decision[CreateAclsResponse]:
    """Add ACLs. Raises PolicyViolation for more than a request may cause."""
    records: list[Message] = []
    results: list[AclCreationResult] = []
    added: set[AclFields] = set()
    for creation in request.creations:
        acl = _acl_of(creation)
        problem = _request_problem(acl) or acl_problem(acl)
        if problem is not None:
            results.append(AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=problem))
            continue
        results.append(AclCreationResult())
        record = AccessControlEntryRecord(
            id=_new_id(image, random),
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        fields = acl_fields(record)
        if fields not in image.acl_counts and fields not in added:
            added.add(fields)
            records.append(record)
    if len(records) > MAX_RECORDS_PER_REQUEST:
        raise PolicyViolation(TOO_MANY)
    return Decision(records, CreateAclsResponse(results=results))


def delete_acls(image: MetadataImage, request: DeleteAclsRequest) -> Decision[DeleteAclsResponse]:
    """Remove the ACLs that filters select. Raises PolicyViolation for more than a request may cause."""
    removed: dict[UUID, None] = {}
    results: list[DeleteAclsFilterResult] = []
    acls = [(acl_id, acl_of_record(record)) for acl_id, record in image.acls.items()]
    for each in request.filters:
        acl_filter = _filter_of(each)
        problem = filter_problem(acl_filter)
        if problem is not None:
            results.append(
                DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message=problem)
            )
            continue
        matching = [(acl_id, acl) for acl_id, acl in acls if acl_filter.matches(acl)]
        removed.update(dict.fromkeys(acl_id for acl_id, _ in matching))
        if len(removed) > MAX_RECORDS_PER_REQUEST:
            raise PolicyViolation(TOO_MANY)
        results.append(DeleteAclsFilterResult(matching_acls=[_deleted(acl) for _, acl in matching]))
    records: list[Message] = [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in removed]
    return Decision(records, DeleteAclsResponse(filter_results=results))


def acl_of_record(record: Message) -> Acl:
    """The ACL of an AccessControlEntryRecord."""
    kind, name, pattern, principal, host, operation, permission = acl_fields(record)
    return Acl(
        ResourceType(kind),
        name,
        PatternType(pattern),
        principal,
        host,
        AclOperation(operation),
        AclPermission(permission),
    )


def acl_problem(acl: Acl) -> str | None:
    """Why an ACL can't be added, in Kafka's words; None if it can."""
    if acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"Invalid resourceType {acl.resource_type.name}"
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {acl.pattern_type.name}"
    if acl.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        return f"Invalid operation {acl.operation.name}"
    if acl.permission not in (AclPermission.DENY, AclPermission.ALLOW):
        return f"Invalid permissionType {acl.permission.name}"
    if not acl.resource_name:
        return "Resource name should not be empty"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal "
            "type from the principal name)"
        )
    return None


def filter_problem(acl_filter: AclFilter) -> str | None:
    """Why a filter can't be used, in Kafka's words; None if it can."""
    if acl_filter.pattern_is_unknown:
        return "Unknown patternFilter."
    if acl_filter.entry_is_unknown:
        return "Unknown entryFilter."
    return None


def _request_problem(acl: Acl) -> str | None:
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    return None if acl.resource_name else "Invalid empty resource name"


def _new_id(image: MetadataImage, random: Randomness) -> UUID:
    while True:
        candidate = random.new_id()
        if candidate not in image.acls:
            return candidate


def _acl_of(creation: AclCreation) -> Acl:
    return Acl(
        ResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        AclOperation(creation.operation),
        AclPermission(creation.permission_type),
    )


def _filter_of(each: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        ResourceType(each.resource_type_filter),
        each.resource_name_filter,
        PatternType(each.pattern_type_filter),
        each.principal_filter,
        each.host_filter,
        AclOperation(each.operation),
        AclPermission(each.permission_type),
    )


def _deleted(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
