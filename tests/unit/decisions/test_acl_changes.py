"""CreateAcls and DeleteAcls: records, answers, refusals."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ottla.core.decisions import acl_changes
from ottla.core.decisions.acl_changes import acl_of_record, create_acls, delete_acls
from ottla.core.image.image import MetadataImage
from ottla.core.security.acls import AclOperation, AclPermission, PatternType, ResourceType
from ottla.protocol.errors import ErrorCode, PolicyViolation
from ottla.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.records.access_control_entry_record import AccessControlEntryRecord
from ottla.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from support.core.metadata import SeededRandomness, apply

RANDOM = SeededRandomness()


def creation(**fields: Any) -> AclCreation:
    given: dict[str, Any] = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": "orders",
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": AclPermission.ALLOW,
    }
    return AclCreation(**(given | fields))


def any_acl(**fields: Any) -> DeleteAclsFilter:
    given: dict[str, Any] = {
        "resource_type_filter": ResourceType.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": AclOperation.ANY,
        "permission_type": AclPermission.ANY,
    }
    return DeleteAclsFilter(**(given | fields))


def with_acls(*creations: AclCreation) -> MetadataImage:
    image = MetadataImage()
    apply(image, create_acls(image, CreateAclsRequest(creations=list(creations)), RANDOM).records)
    return image


def test_an_acl_is_added_once() -> None:
    image = with_acls(creation(), creation())
    assert len(image.acls) == 1
    again = create_acls(image, CreateAclsRequest(creations=[creation(), creation(host="h")]), RANDOM)
    assert [result.error_code for result in again.response.results] == [0, 0]
    (record,) = again.records
    assert acl_of_record(record).host == "h"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"resource_type": ResourceType.ANY}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"operation": AclOperation.ANY}, "Invalid operation ANY"),
        ({"permission_type": AclPermission.ANY}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"principal": "alice"}, "Could not parse principal"),
        (
            {"resource_type": ResourceType.CLUSTER},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
    ],
)
def test_an_acl_that_can_not_be_is_refused_and_the_others_added(fields: dict[str, Any], problem: str) -> None:
    request = CreateAclsRequest(creations=[creation(), creation(**fields), creation(host="h")])
    decision = create_acls(MetadataImage(), request, RANDOM)
    first, refused, last = decision.response.results
    assert (first.error_code, last.error_code) == (0, 0)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message is not None and problem in refused.error_message
    assert len(decision.records) == 2


def test_the_acls_of_all_filters_are_removed_once() -> None:
    image = with_acls(creation(), creation(host="h"), creation(principal="User:bob"))
    request = DeleteAclsRequest(
        filters=[any_acl(principal_filter="User:alice"), any_acl(host_filter="*"), any_acl(operation=0)]
    )
    decision = delete_acls(image, request)
    of_alice, of_all_hosts, refused = decision.response.filter_results
    assert {acl.host for acl in of_alice.matching_acls} == {"*", "h"}
    assert {acl.principal for acl in of_all_hosts.matching_acls} == {"User:alice", "User:bob"}
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message == "Unknown entryFilter."
    assert len(decision.records) == 3
    apply(image, decision.records)
    assert not image.acls and not image.acl_counts


def test_more_records_than_a_request_may_cause_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    creations = [creation(host=str(number)) for number in range(6)]
    image = with_acls(*creations)
    monkeypatch.setattr(acl_changes, "MAX_RECORDS_PER_REQUEST", 5)
    with pytest.raises(PolicyViolation):
        create_acls(MetadataImage(), CreateAclsRequest(creations=creations), RANDOM)
    with pytest.raises(PolicyViolation):
        delete_acls(image, DeleteAclsRequest(filters=[any_acl()]))


def test_the_same_acl_under_two_ids_is_there_until_both_are_removed() -> None:
    """Another controller may have written it."""
    image = with_acls(creation())
    (record,) = image.acls.values()
    fields = {name: getattr(record, name) for name in ("resource_name", "principal", "host")}
    twin = AccessControlEntryRecord(
        id=uuid.UUID(int=1), resource_type=2, pattern_type=3, operation=3, permission_type=3, **fields
    )
    apply(image, [twin])
    assert len(image.acls) == 2
    first = next(iter(image.acls))
    delta = apply(image, [RemoveAccessControlEntryRecord(id=first)])
    assert delta.changed_acls == {first: None}
    assert list(image.acls) == [uuid.UUID(int=1)]
    assert not create_acls(image, CreateAclsRequest(creations=[creation()]), RANDOM).records
    apply(image, [RemoveAccessControlEntryRecord(id=uuid.UUID(int=1))])
    assert create_acls(image, CreateAclsRequest(creations=[creation()]), RANDOM).records
