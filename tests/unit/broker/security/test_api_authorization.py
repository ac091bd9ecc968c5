"""Every API's authorization, with real requests through the node's dispatch: each row of the table with every
operation.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.broker import Broker
from ottla.broker.config import STANDARD_AUTHORIZER, BrokerConfig
from ottla.broker.handlers.apis import CONTROLLER_FAMILIES, FAMILIES
from ottla.broker.network.context import Session
from ottla.broker.security.acl_authorization import AclAuthorization
from ottla.core.security.acls import Acl, AclOperation, AclPermission, PatternType, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.schema import Message
from support.core.authorized_requests import (
    CASES,
    CONTROLLER_CASES,
    NAMES,
    REFUSALS,
    TOPIC_NAME,
    Case,
    Step,
    errors_of,
)
from support.nodes.in_process import create_topic

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
ALICE = "User:alice"
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
#: What leaves out silently, or tells by topic what it leaves out: tests of their own.
FILTERED = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DELETE_TOPICS, ApiKey.ENVELOPE}


class Node:
    """A broker with an authorizer, and the way to ask it as anyone."""

    def __init__(self, runner: asyncio.Runner, broker: Broker, topic_id: uuid.UUID) -> None:
        self.runner = runner
        self.broker = broker
        self.topic_id = topic_id

    @property
    def acls(self) -> AclAuthorization:
        return cast(AclAuthorization, self.broker.authorization)

    def allow(self, *permissions: tuple[ResourceType, AclOperation]) -> None:
        """Give alice these permissions, and no other."""
        authorizer = self.acls._authorizer
        for acl_id in list(authorizer._acls):
            authorizer.remove(acl_id)
        for number, (resource, operation) in enumerate(permissions):
            self.add(number, resource, NAMES[resource], operation)

    def add(
        self,
        number: int,
        resource: ResourceType,
        name: str,
        operation: AclOperation,
        permission: AclPermission = AclPermission.ALLOW,
    ) -> None:
        """One ACL of alice's."""
        pattern = PatternType.PREFIXED if resource is ResourceType.GROUP else PatternType.LITERAL
        acl = Acl(resource, name, pattern, ALICE, "*", operation, permission)
        self.acls._authorizer.add(uuid.UUID(int=number), acl)

    def ask(
        self, request: Message, version: int, *, principal: str = ALICE, at_controller: bool = False
    ) -> Any:
        """The answer to a request that this principal sends."""
        return self.runner.run(self._ask(request, version, principal, at_controller))

    async def _ask(self, request: Message, version: int, principal: str, at_controller: bool) -> Any:
        key = request.API_KEY
        assert key is not None
        broker = self.broker
        dispatch = broker._controllers_requests if at_controller else broker._clients_requests
        connection = SimpleNamespace(session=Session("127.0.0.1", "PLAINTEXT", principal))
        frame = bytearray(encode_request(key, version, 1, "test", request))
        reply: Any = dispatch(connection, memoryview(frame))
        if inspect.isawaitable(reply):
            async with asyncio.timeout(20):
                reply = await reply
        _, answer = decode_response(key, version, b"".join(reply)[4:])
        return answer

    def errors(self, case: Case) -> set[ErrorCode]:
        """The errors of refusals in the answer to alice."""
        answer = self.ask(case.request(self.topic_id), case.version, at_controller=case.at_controller)
        return errors_of(answer) & REFUSED


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    data: Path = tmp_path_factory.mktemp("authorized")
    with asyncio.Runner() as runner:

        async def start() -> tuple[Broker, uuid.UUID]:
            config = BrokerConfig.from_mapping({"log.dirs": str(data), **SETTINGS})
            broker = await Broker.start(config, on_failure=lambda: None)
            await create_topic(broker, TOPIC_NAME)
            return broker, broker.image.topics[TOPIC_NAME].topic_id

        broker, topic_id = runner.run(start())
        made = Node(runner, broker, topic_id)
        for key_type in (0, 1):
            request = FindCoordinatorRequest(coordinator_keys=["any"], key_type=key_type)
            made.ask(request, 4, principal="User:admin")
        (commit,) = [case for case in CASES if case.name == "OFFSET_COMMIT 8"]
        made.ask(commit.request(topic_id), 8, principal="User:admin")  # the group is there
        yield made
        runner.run(broker.stop())


def granting(step: Step) -> Iterator[tuple[ResourceType, AclOperation]]:
    """Every permission that lets a request pass the step."""
    for resource, operation in step:
        yield resource, operation
        yield resource, AclOperation.ALL
        for implying in IMPLYING.get(operation, ()):
            yield resource, implying


ALL_CASES = [*CASES, *CONTROLLER_CASES]


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_each_step_takes_its_operation_and_no_other(node: Node, case: Case) -> None:
    for at, step in enumerate(case.steps):
        passed = [each[0] for each in (*case.steps[:at], *case.steps[at + 1 :])]
        # without a permission for this step
        node.allow(*passed)
        assert node.errors(case) == {case.refusal(step)}, (step, "nothing")
        resources = dict.fromkeys(resource for resource, _ in step)
        ways_in = set(granting(step))
        for resource, operation in itertools.product(resources, [AclOperation.ALL, *OPERATIONS]):
            node.allow(*passed, (resource, operation))
            expected = set() if (resource, operation) in ways_in else {case.refusal(step)}
            assert node.errors(case) == expected, (step, resource, operation)


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_super_users_pass_every_step(node: Node, case: Case) -> None:
    node.allow()
    answer = node.ask(
        case.request(node.topic_id), case.version, principal="User:admin", at_controller=case.at_controller
    )
    assert not errors_of(answer) & REFUSED


def test_the_table_has_every_api() -> None:
    named = {case.key for case in CASES}
    assert named | OPEN | FILTERED >= set(FAMILIES)
    at_controllers = {case.key for case in CONTROLLER_CASES}
    assert at_controllers | named | OPEN | FILTERED >= set(CONTROLLER_FAMILIES)
