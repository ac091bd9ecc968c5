"""The authorizer's rules one by one, and its cache."""

from __future__ import annotations

import uuid

import pytest

from ottla.core.security import authorizer as module
from ottla.core.security.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from ottla.core.security.authorizer import ALL_OPERATIONS, Authorizer

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
ALICE, HERE, ELSEWHERE = "User:alice", "10.0.0.1", "10.0.0.2"
ALL, READ, WRITE = AclOperation.ALL, AclOperation.READ, AclOperation.WRITE
DESCRIBE, DESCRIBE_CONFIGS = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def allow(operation: AclOperation, name: str = "orders", kind: PatternType = LITERAL) -> Acl:
    return Acl(TOPIC, name, kind, ALICE, "*", operation, AclPermission.ALLOW)


def deny(operation: AclOperation, name: str = "orders", kind: PatternType = LITERAL) -> Acl:
    return allow(operation, name, kind)._replace(permission=AclPermission.DENY)


def with_acls(*acls: Acl, allow_if_no_acl: bool = False) -> Authorizer:
    made = Authorizer(["User:admin"], allow_if_no_acl=allow_if_no_acl)
    for number, acl in enumerate(acls):
        made.add(uuid.UUID(int=number), acl)
    return made


def allowed(made: Authorizer, operation: AclOperation, name: str = "orders", host: str = HERE) -> bool:
    return made.authorize(ALICE, host, operation, TOPIC, name)


@pytest.mark.parametrize(
    ("acl", "name", "expected"),
    [
        (allow(READ), "orders", True),
        (allow(READ), "orders-eu", False),
        (allow(READ, "orders", PREFIXED), "orders-eu", True),
        (allow(READ, "orders", PREFIXED), "orders", True),
        (allow(READ, "orders", PREFIXED), "order", False),
        (allow(READ, "*"), "orders", True),
        (allow(READ, "*", PREFIXED), "orders", False),
        (allow(READ)._replace(resource_type=GROUP), "orders", False),
        (allow(READ)._replace(principal="User:*"), "orders", True),
        (allow(READ)._replace(principal="User:bob"), "orders", False),
        (allow(READ)._replace(principal="Group:alice"), "orders", False),
        (allow(READ)._replace(host=HERE), "orders", True),
        (allow(READ)._replace(host=ELSEWHERE), "orders", False),
        (allow(ALL), "orders", True),
    ],
)
def test_patterns_principals_and_hosts(acl: Acl, name: str, expected: bool) -> None:
    assert allowed(with_acls(acl), READ, name) is expected


@pytest.mark.parametrize("denial", [deny(READ), deny(ALL), deny(READ, "*"), deny(READ, "o", PREFIXED)])
def test_a_denial_wins_over_every_permission(denial: Acl) -> None:
    assert not allowed(with_acls(allow(READ), allow(ALL, "*"), denial), READ)


def test_super_users_are_denied_nothing() -> None:
    made = with_acls(deny(ALL)._replace(principal="User:*"))
    assert made.allowed_operations("User:admin", HERE, TOPIC, "orders") == ALL_OPERATIONS


@pytest.mark.parametrize("operation", [READ, WRITE, AclOperation.DELETE, AclOperation.ALTER, DESCRIBE])
def test_describe_is_implied_by_permissions_but_not_by_denials(operation: AclOperation) -> None:
    assert allowed(with_acls(allow(operation)), DESCRIBE)
    denied = allowed(with_acls(allow(DESCRIBE), deny(operation)), DESCRIBE)
    assert denied is (operation is not DESCRIBE)


def test_describe_configs_is_implied_by_alter_configs_alone() -> None:
    assert allowed(with_acls(allow(AclOperation.ALTER_CONFIGS)), DESCRIBE_CONFIGS)
    assert not allowed(with_acls(allow(AclOperation.ALTER)), DESCRIBE_CONFIGS)
    assert not allowed(with_acls(allow(AclOperation.ALTER_CONFIGS)), DESCRIBE)


@pytest.mark.parametrize(
    "acl",
    [
        allow(WRITE)._replace(principal="User:bob"),
        allow(WRITE, "*"),
        allow(WRITE, "or", PREFIXED),
        deny(WRITE),
    ],
)
def test_any_acl_of_the_resource_ends_the_permission_of_everyone(acl: Acl) -> None:
    assert allowed(with_acls(allow_if_no_acl=True), READ)
    assert not allowed(with_acls(acl, allow_if_no_acl=True), READ)
    elsewhere = acl._replace(resource_type=GROUP)
    assert allowed(with_acls(elsewhere, allow_if_no_acl=True), READ)


def test_a_change_of_the_acls_counts_at_once() -> None:
    made = with_acls(allow(READ))
    assert allowed(made, READ)
    made.add(uuid.UUID(int=7), allow(READ))  # the same one again, under another id
    made.remove(uuid.UUID(int=7))
    assert allowed(made, READ)
    made.remove(uuid.UUID(int=0))
    assert not allowed(made, READ)
    assert len(made) == 0
    made.remove(uuid.UUID(int=0))
    made.add(uuid.UUID(int=0), allow(READ))
    made.add(uuid.UUID(int=0), allow(WRITE))  # in place of the one before
    assert not allowed(made, READ) and allowed(made, WRITE)


def test_nothing_is_left_of_acls_that_were_removed() -> None:
    made = with_acls(allow(READ), deny(ALL, "or", PREFIXED), allow(READ, "*"))
    for number in range(3):
        made.remove(uuid.UUID(int=number))
    assert not made._patterns and not made._principals and not made._prefixes_of_length
    assert made._prefix_lengths == {TOPIC: []}


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHED_SETS", 10)
    made = with_acls(allow(READ, "o", PREFIXED))
    for _ in range(2):
        for number in range(100):
            assert allowed(made, READ, f"o{number}")
            assert len(made._recent) + len(made._older) <= 20


def test_long_names_are_not_cached() -> None:
    made = with_acls(allow(READ, "o", PREFIXED))
    assert allowed(made, READ, "o" * 32_000) and not allowed(made, READ, "p" * 32_000)
    assert not made._recent and not made._older


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([allow(WRITE)], True),
        ([allow(READ)], False),
        ([allow(WRITE, "*")], True),
        ([allow(WRITE), deny(WRITE, "*")], False),
        ([allow(WRITE), deny(WRITE)], False),
        ([allow(WRITE), deny(WRITE, "payments")], True),
        ([allow(WRITE), deny(ALL, "or", PREFIXED)], False),
        ([allow(WRITE, "orders", PREFIXED), deny(WRITE, "or", PREFIXED)], False),
        ([allow(WRITE, "or", PREFIXED), deny(WRITE, "orders", PREFIXED)], True),
        ([allow(WRITE, "orders", PREFIXED), deny(WRITE)], True),
        ([allow(WRITE)._replace(host=ELSEWHERE)], False),
        ([allow(WRITE)._replace(resource_type=GROUP)], False),
    ],
)
def test_whether_some_resource_of_a_type_is_allowed(acls: list[Acl], expected: bool) -> None:
    assert with_acls(*acls).authorize_by_resource_type(ALICE, HERE, WRITE, TOPIC) is expected


def test_implied_operations_are_not_enough_for_a_type() -> None:
    assert not with_acls(allow(WRITE)).authorize_by_resource_type(ALICE, HERE, DESCRIBE, TOPIC)
    assert with_acls(allow(WRITE, "*")).authorize_by_resource_type(ALICE, HERE, DESCRIBE, TOPIC)


@pytest.mark.parametrize(
    ("acl_filter", "expected"),
    [
        (AclFilter(), 3),
        (AclFilter(resource_name="orders"), 1),
        (AclFilter(resource_name="orders", pattern_type=PatternType.MATCH), 3),
        (AclFilter(resource_name="o", pattern_type=PatternType.MATCH), 1),
        (AclFilter(resource_name="or", pattern_type=PREFIXED), 1),
        (AclFilter(pattern_type=LITERAL), 2),
        (AclFilter(resource_type=GROUP), 0),
        (AclFilter(principal=ALICE, operation=WRITE), 1),
        (AclFilter(principal="User:*"), 0),
        (AclFilter(host="*", permission=AclPermission.DENY), 0),
    ],
)
def test_filters_select_acls(acl_filter: AclFilter, expected: int) -> None:
    made = with_acls(allow(READ), allow(READ, "or", PREFIXED), allow(WRITE, "*"))
    assert len(list(made.matching(acl_filter))) == expected


def test_numbers_of_a_newer_kafka_are_kept_and_match_nothing() -> None:
    assert AclOperation(77) is AclOperation.UNKNOWN
    assert not allowed(with_acls(allow(AclOperation(77))), READ)
