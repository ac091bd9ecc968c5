"""Every API's authorization, with real requests through the node's dispatch: each row of the table with every
operation.
"""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.handlers.apis import CONTROLLER_FAMILIES, FAMILIES
from ottla.core.security.acls import Acl, AclOperation, AclPermission, PatternType, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from support.clients.named_states import seed_of_this_run
from support.core.authorized_requests import (
    CASES,
    CLUSTER_ACTION,
    CONTROLLER_CASES,
    GROUP_ID,
    NAMES,
    REFUSALS,
    Case,
    Step,
    errors_of,
)
from support.nodes.authorized import ADMIN, ALICE, AuthorizedNode, authorized_node

DRAWN = 300

REFUSED = frozenset(REFUSALS.values())
#: Operations that ACLs may name, of which some are implied by others.
OPERATIONS = [each for each in AclOperation if each > AclOperation.ALL]
IMPLYING = {
    AclOperation.DESCRIBE: {
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
#: What these ask of no authorizer, as in Apache Kafka.
OPEN = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    ApiKey.DESCRIBE_CLUSTER,  # but for the operations that it tells, and at a controller
}
#: They ask for permissions on users and tokens: test_logins_by_token.py.
TOKENS = {
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
#: What leaves out silently, or tells by topic what it leaves out: tests of their own.
FILTERED = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DELETE_TOPICS, ApiKey.ENVELOPE}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthorizedNode]:
    with authorized_node(tmp_path_factory.mktemp("authorized")) as made:
        yield made


def refusals(node: AuthorizedNode, case: Case) -> set[ErrorCode]:
    """The errors of refusals in the answer to alice."""
    answer = node.ask(case.request(node.topic_id), case.version, at_controller=case.at_controller)
    return errors_of(answer) & REFUSED


def granting(step: Step) -> Iterator[tuple[ResourceType, AclOperation]]:
    """Every permission that lets a request pass the step."""
    for resource, operation in step:
        yield resource, operation
        yield resource, AclOperation.ALL
        for implying in IMPLYING.get(operation, ()):
            yield resource, implying


LOGGERS = next(case for case in CASES if case.name == "levels of loggers are changed")
AT_CONTROLLER = [
    replace(
        case,
        name=f"{case.name}, at a controller",
        at_controller=True,
        # a controller's loggers, as in Kafka, are changed by who may act for the cluster
        steps=(CLUSTER_ACTION,) if case is LOGGERS else case.steps,
    )
    for case in CASES
    if case.key in CONTROLLER_FAMILIES and case.key not in {each.key for each in CONTROLLER_CASES}
]
ALL_CASES = [*CASES, *CONTROLLER_CASES, *AT_CONTROLLER]


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_each_step_takes_its_operation_and_no_other(node: AuthorizedNode, case: Case) -> None:
    for at, step in enumerate(case.steps):
        passed = [each[0] for each in (*case.steps[:at], *case.steps[at + 1 :])]
        # without a permission for this step
        node.allow(*passed)
        assert refusals(node, case) == {case.refusal(step)}, (step, "nothing")
        resources = dict.fromkeys(resource for resource, _ in step)
        ways_in = set(granting(step))
        for resource, operation in itertools.product(resources, [AclOperation.ALL, *OPERATIONS]):
            node.allow(*passed, (resource, operation))
            expected = set() if (resource, operation) in ways_in else {case.refusal(step)}
            assert refusals(node, case) == expected, (step, resource, operation)


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_super_users_pass_every_step(node: AuthorizedNode, case: Case) -> None:
    node.allow()
    answer = node.ask(
        case.request(node.topic_id), case.version, principal=ADMIN, at_controller=case.at_controller
    )
    assert not errors_of(answer) & REFUSED


def test_the_table_has_every_api() -> None:
    named = {case.key for case in CASES}
    assert named | OPEN | FILTERED | TOKENS >= set(FAMILIES)
    at_controllers = {case.key for case in CONTROLLER_CASES}
    assert at_controllers | named | OPEN | FILTERED | TOKENS >= set(CONTROLLER_FAMILIES)


def test_drawn_acls_are_decided_step_by_step(node: AuthorizedNode) -> None:
    """ACLs of several principals, patterns, hosts, permissions: the first step that they refuse is told."""
    rng = random.Random(seed_of_this_run())
    authorizer = node.acls._authorizer
    told = {True: 0, False: 0}
    for _ in range(DRAWN):
        node.allow()
        case = rng.choice(ALL_CASES)
        acls = [draw_acl(rng, case) for _ in range(rng.randrange(1, 12))]
        for number, acl in enumerate(acls):
            authorizer.add(uuid.UUID(int=number), acl)
        refused = [step for step in case.steps if not any(naive(acls, *way, case) for way in step)]
        expected = {case.refusal(refused[0])} if refused else set()
        assert refusals(node, case) == expected, (case.name, acls)
        told[bool(refused)] += 1
    assert min(told.values()) > DRAWN / 20, told
    node.allow()


def draw_acl(rng: random.Random, case: Case) -> Acl:
    resource, operation = rng.choice(rng.choice(case.steps))
    name = NAMES[resource]
    pattern = rng.choice((PatternType.LITERAL, PatternType.PREFIXED))
    return Acl(
        resource,
        rng.choice((name, name, "*", name[: rng.randrange(1, len(name) + 1)], f"{name}-other")),
        pattern,
        rng.choice((ALICE, ALICE, "User:*", "User:bob")),
        rng.choice(("*", "*", "127.0.0.1", "10.0.0.1")),
        rng.choice((operation, operation, AclOperation.ALL, rng.choice(OPERATIONS))),
        rng.choice((AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY)),
    )


def naive(acls: Sequence[Acl], resource: ResourceType, operation: AclOperation, case: Case) -> bool:
    """Whether alice may do it, read from the list of ACLs alone."""
    name = NAMES[resource] if resource is not ResourceType.GROUP else str(group_of(case))
    if by_type := (case.key is ApiKey.INIT_PRODUCER_ID and resource is ResourceType.TOPIC):
        name = ""
    mine = [
        acl
        for acl in acls
        if acl.resource_type is resource
        and (by_type or holds(acl, name))
        and acl.principal in (ALICE, "User:*")
        and acl.host in ("*", "127.0.0.1")
    ]
    denied = [
        acl
        for acl in mine
        if acl.permission is AclPermission.DENY and acl.operation in (operation, AclOperation.ALL)
    ]
    ways = {operation, AclOperation.ALL, *(() if by_type else IMPLYING.get(operation, ()))}
    allowed = [acl for acl in mine if acl.permission is AclPermission.ALLOW and acl.operation in ways]
    if not by_type:
        return bool(allowed) and not denied
    return any(not any(covers(other, acl) for other in denied) for acl in allowed)


def holds(acl: Acl, name: str) -> bool:
    if acl.pattern_type is PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def covers(denial: Acl, acl: Acl) -> bool:
    """Whether a denial takes back all that an ACL allows."""
    if denial.pattern_type is PatternType.LITERAL:
        same = denial.resource_name == acl.resource_name and acl.pattern_type is PatternType.LITERAL
        return same or denial.resource_name == "*"
    return acl.resource_name.startswith(denial.resource_name)


def group_of(case: Case) -> str:
    """The group that a case is about."""

    def search(value: Any) -> str | None:
        if isinstance(value, Mapping):
            return next(filter(None, map(search, value.values())), None)
        if isinstance(value, list):
            return next(filter(None, map(search, value)), None)
        return value if isinstance(value, str) and value.startswith(GROUP_ID) else None

    found = search(case.fields)
    assert found is not None
    return found
