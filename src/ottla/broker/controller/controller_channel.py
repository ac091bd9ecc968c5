"""The way from this node to the active controller, wherever that is.

When this node is the active controller its own handlers are called, without a socket. Otherwise the request
goes to the controller listener of the quorum's leader: a node's own request as it is, a client's in an
envelope (KIP-590). A node that says that it is not the controller, can't be reached, or is not the leader any
more while an answer is awaited costs another attempt, until the time is over. So a request may arrive twice,
as from any client: the metadata decides on its outcome, not the number of attempts.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.network.context import RequestContext, Session
from ottla.broker.network.error_answers import error_answer, says_not_controller
from ottla.broker.peers.peers import PeerAddress, PeerConnections, PeerUnreachable
from ottla.core.settings import broker_settings
from ottla.protocol.apis import ApiKey, advertised_versions
from ottla.protocol.errors import (
    ErrorCode,
    KafkaError,
    NotController,
    ProtocolError,
    RequestTimedOut,
    UnknownServerError,
    UnsupportedVersion,
)
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.envelope_response import EnvelopeResponse
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig
    from ottla.broker.controller.controller import Controller

log = logging.getLogger("ottla.broker")

#: How often the channel looks for another leader: while there is none, and while one is silent.
FIRST_LOOK_SECONDS: Final = 0.01
LAST_LOOK_SECONDS: Final = 0.1
#: Requests that may not wait behind others have a connection of their own.
PURPOSES: Final = {
    ApiKey.BROKER_REGISTRATION: "controller-heartbeat",
    ApiKey.BROKER_HEARTBEAT: "controller-heartbeat",
    ApiKey.ALTER_PARTITION: "controller-alter-partition",
}
OTHER_PURPOSE: Final = "controller"
#: Time for a failover, also for a client that allows hardly any.
SHORTEST_PATIENCE_MS: Final = 1000
LOCAL_HOST: Final = "127.0.0.1"

#: The answer of this node's own controller to a request. Raises KafkaError.
Local = Callable[[RequestContext, Message], Message | Awaitable[Message]]


class ChannelNode(Protocol):
    """The members of a node that the channel uses."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def controller(self) -> Controller: ...
    @property
    def controller_peers(self) -> PeerConnections: ...
    def controller_address(self) -> PeerAddress | None:
        """Where the active controller listens; None while no leader is known, or when it is this node."""
        ...


class ControllerChannel:
    """This node's requests to the active controller. Used on the event loop only."""

    def __init__(self, node: ChannelNode, answer_locally: Local) -> None:
        self._node = node
        self._answer_locally = answer_locally
        self._session = Session(LOCAL_HOST, "", of_this_node=True)

    async def ask(self, request: Message, *, timeout_ms: int | None = None) -> Message:
        """The active controller's answer to a request of this node's own.

        Errors of the controller are in the answer. Raises RequestTimedOut when none has answered within
        `timeout_ms` (else request.timeout.ms), UnsupportedVersion when it does not know the request.
        """
        key = request.API_KEY
        assert key is not None
        _, version = advertised_versions(key)
        context = RequestContext(key, version, 0, None, self._session)

        async def local() -> Message:
            try:
                return await self._call(context, request)
            except NotController:
                raise
            except KafkaError as error:
                answer = error_answer(key, request, error)
                if answer is None:
                    raise
                return answer

        return await self._until_answered(local, request, timeout_ms)

    async def forward(self, context: RequestContext, request: Message) -> Message:
        """The active controller's answer to a client's request. Raises KafkaError.

        Tries for the time that the client's request allows, where it has one, and for request.timeout.ms at
        most.
        """
        from ottla.broker.controller import envelope

        header = RequestHeader(
            context.api_key, context.api_version, context.correlation_id, context.client_id
        )
        session = context.session
        enveloped: Message | None = None

        def wrapped() -> Message:
            nonlocal enveloped
            if enveloped is None:
                enveloped = envelope.wrap_request(
                    header,
                    request,
                    session.principal,
                    session.client_host,
                    token_authenticated=session.token_authenticated,
                )
            return enveloped

        async def local() -> Message:
            return await self._call(context, request)

        answer = await self._until_answered(local, wrapped, self._patience_ms(request))
        if not isinstance(answer, EnvelopeResponse):
            return answer
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise UnsupportedVersion("the active controller does not serve this version of the request")
        if answer.error_code != ErrorCode.NONE:
            log.warning(
                "a forwarded request was refused api=%d error=%s",
                context.api_key,
                ErrorCode(answer.error_code).name,
            )
            raise UnknownServerError("the active controller did not take the request")
        try:
            return envelope.unwrap_response(header, answer)
        except ProtocolError as error:
            raise UnknownServerError(f"the active controller's answer can't be read: {error}") from error

    def _patience_ms(self, request: Message) -> int:
        limit_ms: int = self._node.config[broker_settings.REQUEST_TIMEOUT_MS]
        asked_ms = getattr(request, "timeout_ms", 0)
        return min(limit_ms, max(asked_ms, SHORTEST_PATIENCE_MS)) if asked_ms > 0 else limit_ms

    # -- attempts -----------------------------------------------------------------------------------

    async def _call(self, context: RequestContext, request: Message) -> Message:
        """This node's own handler of the request."""
        response = self._answer_locally(context, request)
        return await response if inspect.isawaitable(response) else response

    async def _until_answered(
        self,
        local: Callable[[], Awaitable[Message]],
        remote: Message | Callable[[], Message],
        timeout_ms: int | None,
    ) -> Message:
        node = self._node
        budget_ms = node.config[broker_settings.REQUEST_TIMEOUT_MS] if timeout_ms is None else timeout_ms
        loop = node.loop
        deadline = loop.time() + budget_ms / 1000
        pause = FIRST_LOOK_SECONDS
        while True:
            if node.controller.active:
                try:
                    async with asyncio.timeout_at(deadline):
                        answer = await local()
                    if not says_not_controller(answer):
                        return answer
                except NotController:
                    pass
                except TimeoutError:
                    break
            else:
                leader = node.controller_address()
                if leader is not None:
                    request = remote if isinstance(remote, Message) else remote()
                    remote_answer = await self._ask_leader(leader, request, deadline)
                    if remote_answer is not None:
                        return remote_answer
            if loop.time() + pause >= deadline:
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_LOOK_SECONDS)
        raise RequestTimedOut(f"timed out: no active controller has answered within {budget_ms} ms")

    async def _ask_leader(self, leader: PeerAddress, request: Message, deadline: float) -> Message | None:
        """The answer of the controller at `leader`; None when it has none or is not the leader (any more)."""
        node = self._node
        assert request.API_KEY is not None
        purpose = PURPOSES.get(ApiKey(request.API_KEY), OTHER_PURPOSE)
        left_ms = max(1, int((deadline - node.loop.time()) * 1000))
        asking = asyncio.ensure_future(
            node.controller_peers.ask(purpose, leader, request, timeout_ms=left_ms)
        )
        try:
            while not asking.done():
                await asyncio.wait([asking], timeout=LAST_LOOK_SECONDS)
                if not asking.done() and node.controller_address() not in (None, leader):
                    return None  # a silent leader that has been replaced will not answer
            answer = asking.result()
        except PeerUnreachable as problem:
            log.info("controller not reached address=%s:%d reason=%s", *leader, problem)
            return None
        finally:
            asking.cancel()
        return None if says_not_controller(answer) else answer
