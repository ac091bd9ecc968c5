"""A broker with an authorizer in the test's own process, whose dispatch any principal may be made to ask."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from ottla.broker.broker import Broker
from ottla.broker.config import STANDARD_AUTHORIZER, BrokerConfig
from ottla.broker.network.context import Session
from ottla.broker.security.acl_authorization import AclAuthorization
from ottla.core.security.acls import Acl, AclOperation, AclPermission, PatternType, ResourceType
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.schema import Message
from support.core.authorized_requests import CASES, NAMES, TOPIC_NAME
from support.nodes.in_process import create_topic

SETTINGS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
ALICE: Final = "User:alice"
ADMIN: Final = "User:admin"


class AuthorizedNode:
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


@contextmanager
def authorized_node(data: Path, settings: Mapping[str, str] | None = None) -> Iterator[AuthorizedNode]:
    """One that runs while the block does, with a topic, a group and the coordinators that the table needs."""
    with asyncio.Runner() as runner:

        async def start() -> tuple[Broker, uuid.UUID]:
            config = BrokerConfig.from_mapping({"log.dirs": str(data), **SETTINGS, **(settings or {})})
            broker = await Broker.start(config, on_failure=lambda: None)
            await create_topic(broker, TOPIC_NAME)
            return broker, broker.image.topics[TOPIC_NAME].topic_id

        broker, topic_id = runner.run(start())
        made = AuthorizedNode(runner, broker, topic_id)
        for key_type in (0, 1):
            request = FindCoordinatorRequest(coordinator_keys=["any"], key_type=key_type)
            made.ask(request, 4, principal=ADMIN)
        (commit,) = [case for case in CASES if case.name == "OFFSET_COMMIT 8"]
        made.ask(commit.request(topic_id), 8, principal=ADMIN)  # the group is there
        yield made
        runner.run(broker.stop())
