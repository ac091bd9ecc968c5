"""Every API's authorization, with real requests through the node's dispatch: each row of the table with every
operation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from ottla.broker.handlers.apis import CONTROLLER_FAMILIES, FAMILIES
from ottla.core.security.acls import AclOperation, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from support.core.authorized_requests import CASES, CONTROLLER_CASES, REFUSALS, Case, Step, errors_of
from support.nodes.authorized import ADMIN, AuthorizedNode, authorized_node

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


ALL_CASES = [*CASES, *CONTROLLER_CASES]


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
