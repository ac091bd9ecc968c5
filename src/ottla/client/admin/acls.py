"""ACLs of a cluster: listed, created and deleted."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ottla.client.cluster_requests import ClusterRequests, refusal, require_success
from ottla.client.errors import ClusterError
from ottla.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_acls_response import CreateAclsResponse
from ottla.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.delete_acls_response import DeleteAclsResponse
from ottla.protocol.messages.describe_acls_request import DescribeAclsRequest
from ottla.protocol.messages.describe_acls_response import DescribeAclsResponse

CLUSTER_NAME: Final = "kafka-cluster"
ANY_HOST: Final = "*"
ACLS_A_REQUEST: Final = 1_000


class _Word(enum.IntEnum):
    """A number of the protocol with the word that commands have for it; others count as UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> _Word | None:
        return cls(0) if isinstance(value, int) else None

    @property
    def word(self) -> str:
        """As people write it."""
        return self.name.lower().replace("_", "-")


class ResourceType(_Word):
    """The kinds of resources."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Word):
    """How a pattern's name is compared. ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Word):
    """The operations on resources."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Word):
    """Whether an ACL allows or denies. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One access control entry with the pattern of resources that it is for."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        where = "" if self.host == ANY_HOST else f" from {self.host}"
        name = f"{self.resource_name}*" if self.pattern_type is PatternType.PREFIXED else self.resource_name
        what = "the cluster" if name == CLUSTER_NAME else f"{self.resource_type.word} {name}"
        return f"{self.principal}: {self.permission.word} {self.operation.word} on {what}{where}"


class AclFilter(NamedTuple):
    """A filter over ACLs; None and ANY match everything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY


async def list_acls(requests: ClusterRequests, wanted: AclFilter) -> list[Acl]:
    """The ACLs that a filter selects, sorted. Raises ClusterError."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    answer = await requests.ask(request, DescribeAclsResponse)
    require_success(answer.error_code, answer.error_message)
    return sorted(
        Acl(
            ResourceType(resource.resource_type),
            resource.resource_name,
            PatternType(resource.pattern_type),
            acl.principal,
            acl.host,
            Operation(acl.operation),
            Permission(acl.permission_type),
        )
        for resource in answer.resources
        for acl in resource.acls
    )


async def create_acls(requests: ClusterRequests, acls: Sequence[Acl]) -> dict[Acl, ClusterError | None]:
    """Create ACLs; one that is there already is no error. None, or the error, of each.

    Raises ClusterError where no broker answers.
    """
    done: dict[Acl, ClusterError | None] = {}
    wanted = list(dict.fromkeys(acls))
    for first in range(0, len(wanted), ACLS_A_REQUEST):
        page = wanted[first : first + ACLS_A_REQUEST]
        creations = [
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in page
        ]
        answer = await requests.ask_controller(CreateAclsRequest(creations=creations), CreateAclsResponse)
        for acl, result in zip(page, answer.results, strict=True):
            code = result.error_code
            done[acl] = refusal(code, result.error_message, str(acl)) if code else None
    return done


async def delete_acls(requests: ClusterRequests, filters: Iterable[AclFilter]) -> list[Acl]:
    """Delete the ACLs that filters select. Returns them. Raises ClusterError."""
    wanted = [
        DeleteAclsFilter(
            resource_type_filter=each.resource_type,
            resource_name_filter=each.resource_name,
            pattern_type_filter=each.pattern_type,
            principal_filter=each.principal,
            host_filter=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in filters
    ]
    deleted: dict[Acl, None] = {}
    for first in range(0, len(wanted), ACLS_A_REQUEST):
        request = DeleteAclsRequest(filters=wanted[first : first + ACLS_A_REQUEST])
        answer = await requests.ask_controller(request, DeleteAclsResponse)
        for result in answer.filter_results:
            require_success(result.error_code, result.error_message)
            for acl in result.matching_acls:
                require_success(acl.error_code, acl.error_message)
                found = Acl(
                    ResourceType(acl.resource_type),
                    acl.resource_name,
                    PatternType(acl.pattern_type),
                    acl.principal,
                    acl.host,
                    Operation(acl.operation),
                    Permission(acl.permission_type),
                )
                deleted[found] = None
    return sorted(deleted)
