"""Connections to other nodes: requests out, answers back, one connection for each purpose and address.

A connection is made at the first request, asks for the other node's API versions (which may be Apache
Kafka's) and is used until it fails or the node goes on without it. Requests on one connection are answered in
order, so a request that may wait there for long (a fetch) has a purpose, and so a connection, of its own. A
failure of any kind ends the connection and every request on it with `PeerUnreachable`; the next request
connects again, after a pause that grows while it fails.

Where the other node's listener asks for a login, the connection has one before its first request, and again
before the session's lifetime is over (KIP-368); requests wait meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from ottla.protocol.apis import advertised_versions
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.peers.login import NodeLogin

log = logging.getLogger("ottla.broker")

FIRST_BACKOFF_SECONDS: Final = 0.05
LAST_BACKOFF_SECONDS: Final = 1.0
#: A session is renewed when this part of its lifetime is over.
RENEWED_AFTER: Final = 0.85
MAX_ANSWER_BYTES: Final = 1 << 28
CONNECT_TIMEOUT_SECONDS: Final = 10.0
LOGIN_TIMEOUT_SECONDS: Final = 20.0
"""A server lets failed logins wait, and a fetch that was sent before is answered first."""


class PeerUnreachable(Exception):
    """No answer: the node can't be reached, hung up, did not answer in time, or sent a malformed answer."""


class PeerAddress(NamedTuple):
    """The address at which a node listens."""

    host: str
    port: int


def _no_tls() -> None:
    return None


class _Waiting(NamedTuple):
    correlation_id: int
    api_key: int
    api_version: int
    answer: asyncio.Future[Message]


class ByteCounts:
    """The bytes of frames on the connections of a purpose; those of TLS around them don't count."""

    __slots__ = ("received", "sent")

    def __init__(self) -> None:
        self.received = 0
        self.sent = 0


class PeerConnections:
    """All connections of this node to others. Used on the event loop only."""

    def __init__(
        self,
        client_id: str,
        login: NodeLogin | None = None,
        tls: Callable[[], ssl.SSLContext | None] = _no_tls,
    ) -> None:
        """login: for nodes whose listener asks for one. tls: gives that of a new connection, or None."""
        self._client_id = client_id
        self._login = login
        self._tls = tls
        self._connections: dict[tuple[str, PeerAddress], _Connection] = {}
        self._bytes: dict[str, ByteCounts] = {}
        self._closed = False

    def bytes_of(self, purpose: str) -> ByteCounts:
        """The bytes of all connections of a purpose since the start, also of those that are closed."""
        return self._bytes.setdefault(purpose, ByteCounts())

    async def ask(
        self,
        purpose: str,
        to: PeerAddress,
        request: Message,
        *,
        timeout_ms: int,
        version: int | None = None,
        client_id: str | None = None,
    ) -> Message:
        """The answer to `request`, in the newest version that both speak, or at most `version`.

        It is asked as this node, or as `client_id`. Raises PeerUnreachable, also when the other node does not
        serve the API, or not in a version that has all fields of the request. A cancelled call leaves the
        connection as it is; its late answer is passed over.
        """
        key = (purpose, PeerAddress(*to))
        connection = self._connections.get(key)
        if connection is None:
            if self._closed:
                raise PeerUnreachable("this node is stopping")
            connection = self._connections[key] = _Connection(
                self._client_id, key[1], self._login, self._tls, self.bytes_of(purpose)
            )
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await connection.ask(request, version, client_id)
        except TimeoutError:
            # Later answers can't be told from a lost one: the connection has to go.
            connection.fail(f"no answer within {timeout_ms} ms")
            raise PeerUnreachable(f"{to[0]}:{to[1]} did not answer within {timeout_ms} ms") from None

    def forget(self, to: PeerAddress) -> None:
        """A node has gone for good: close its connections."""
        for key in [key for key in self._connections if key[1] == to]:
            self._connections.pop(key).fail("the node has gone")

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for connection in self._connections.values():
            connection.fail("this node is stopping")
        self._connections.clear()


class _Connection:
    """One connection, made again when it is needed."""

    def __init__(
        self,
        client_id: str,
        to: PeerAddress,
        login: NodeLogin | None,
        tls: Callable[[], ssl.SSLContext | None],
        counts: ByteCounts,
    ) -> None:
        self._client_id = client_id
        self._counts = counts
        self._login = login
        self._tls = tls
        self._told = ""
        self._to = to
        self._protocol: _PeerProtocol | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._connecting: asyncio.Task[None] | None = None
        self._backoff_seconds = 0.0
        self._not_before = 0.0
        self._renew_at: float | None = None

    async def ask(self, request: Message, version: int | None, client_id: str | None = None) -> Message:
        # One that was made may be closed before this request has its turn.
        while not self._is_ready():
            await self._connect()
        assert self._protocol is not None
        api_key = request.API_KEY
        assert api_key is not None
        return await self._protocol.ask(
            request, self._version(api_key, version), client_id or self._client_id
        )

    def _is_ready(self) -> bool:
        """Whether requests may be sent: not while the session is renewed, or has to be."""
        if self._protocol is None or self._protocol.closed:
            return False
        if self._connecting is not None and not self._connecting.done():
            return False
        return self._renew_at is None or asyncio.get_running_loop().time() < self._renew_at

    def _version(self, api_key: int, at_most: int | None) -> int:
        ours = advertised_versions(api_key)
        theirs = self._versions.get(api_key)
        if theirs is None:
            raise PeerUnreachable(f"{self._to.host}:{self._to.port} does not serve API key {api_key}")
        newest = min(ours[1], theirs[1], ours[1] if at_most is None else at_most)
        if newest < max(ours[0], theirs[0]):
            raise PeerUnreachable(
                f"{self._to.host}:{self._to.port} serves versions {theirs[0]} to {theirs[1]} of API key "
                f"{api_key}, this node {ours[0]} to {ours[1]}"
            )
        return newest

    async def _connect(self) -> None:
        """Make one attempt, to connect or to renew the session, for all requests that wait."""
        if self._connecting is None or self._connecting.done():
            is_closed = self._protocol is None or self._protocol.closed
            attempt = self._attempt() if is_closed else self._renew()
            self._connecting = asyncio.get_running_loop().create_task(attempt)
            self._connecting.add_done_callback(_look_at)
        connecting = self._connecting
        try:
            await asyncio.shield(connecting)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not connecting.cancelled() or (task is not None and task.cancelling()):
                raise
            # Another request gave the attempt up: this one was not cancelled, and must not end as if it were.
            raise PeerUnreachable(f"{self._to.host}:{self._to.port} could not be reached in time") from None

    async def _attempt(self) -> None:
        loop = asyncio.get_running_loop()
        delay = self._not_before - loop.time()
        if delay > 0:
            await asyncio.sleep(delay)
        protocol: _PeerProtocol | None = None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                tls = self._tls()
                _, protocol = await loop.create_connection(
                    lambda: _PeerProtocol(self._counts),
                    self._to.host,
                    self._to.port,
                    ssl=tls,
                    server_hostname=None if tls is None else self._to.host,
                )
                request = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
                answer = await protocol.ask(request, 3, self._client_id)
            if not isinstance(answer, ApiVersionsResponse) or answer.error_code != ErrorCode.NONE:
                raise PeerUnreachable(f"{self._to.host}:{self._to.port} does not say what it serves")
            self._versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
            await self._log_in(protocol)
        except (OSError, TimeoutError) as problem:
            self._given_up(protocol)
            if isinstance(problem, ssl.SSLError):
                self._tell(str(problem))
            raise PeerUnreachable(
                f"{self._to.host}:{self._to.port}: {str(problem) or 'timed out'}"
            ) from problem
        except BaseException:  # a cancelled attempt leaves no socket behind either
            self._given_up(protocol)
            raise
        self._protocol = protocol
        self._backoff_seconds = 0.0
        self._told = ""

    def _tell(self, problem: str) -> None:
        """Log a problem of TLS, which lasts until somebody acts, once."""
        if problem != self._told:
            self._told = problem
            log.error("no TLS connection to another node to=%s:%d reason=%s", *self._to, problem)

    async def _renew(self) -> None:
        """Log in again on the connection that is there; what it has been asked before is answered first.

        One that fails is closed, and the next attempt comes at once: it begins with a connection.
        """
        assert self._protocol is not None
        await self._log_in(self._protocol)

    async def _log_in(self, protocol: _PeerProtocol) -> None:
        """Log in, if the listener asks for that. Raises PeerUnreachable."""
        self._renew_at = None
        if self._login is None:
            return
        # Imported where it is used: a start without SASL does not pay for it.
        from ottla.broker.peers.login import log_in
        from ottla.core.security.sasl.client import LoginFailed

        async def ask(request: Message, version: int | None) -> Message:
            assert request.API_KEY is not None
            return await protocol.ask(request, self._version(request.API_KEY, version), self._client_id)

        try:
            async with asyncio.timeout(LOGIN_TIMEOUT_SECONDS):
                lifetime_ms = await log_in(self._login, ask)
        except (LoginFailed, PeerUnreachable, TimeoutError) as problem:
            reason = str(problem) or "timed out"
            protocol.fail(reason)
            raise PeerUnreachable(f"{self._to.host}:{self._to.port}: login failed: {reason}") from problem
        if lifetime_ms > 0:
            self._renew_at = asyncio.get_running_loop().time() + lifetime_ms / 1000 * RENEWED_AFTER

    def _given_up(self, protocol: _PeerProtocol | None) -> None:
        """Close the socket of an attempt that failed; the next one comes after a pause."""
        if protocol is not None:
            protocol.fail("the attempt was given up")
        self._backoff_seconds = min(
            max(FIRST_BACKOFF_SECONDS, self._backoff_seconds * 2), LAST_BACKOFF_SECONDS
        )
        self._not_before = asyncio.get_running_loop().time() + self._backoff_seconds

    def fail(self, reason: str) -> None:
        """End the connection and every request that waits on it."""
        if self._connecting is not None and not self._connecting.done():
            self._connecting.cancel()
        if self._protocol is not None:
            self._protocol.fail(reason)


def _look_at(task: asyncio.Task[None]) -> None:
    """Mark the failure as seen: the requests that waited have been told, or are gone."""
    if not task.cancelled():
        task.exception()


class _PeerProtocol(asyncio.Protocol):
    """Frames of answers on one socket, in the order of the requests."""

    def __init__(self, counts: ByteCounts) -> None:
        self._counts = counts
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiting: deque[_Waiting] = deque()
        self._next_correlation_id = 0
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(f"connection lost: {error or 'closed by the other side'}")

    async def ask(self, request: Message, version: int, client_id: str) -> Message:
        if self.closed or self._transport is None:
            raise PeerUnreachable("the connection is closed")
        api_key = request.API_KEY
        assert api_key is not None
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        try:
            frame = encode_request(api_key, version, correlation_id, client_id, request)
        except ValueError as problem:  # old versions only, which lack a field that is set
            raise PeerUnreachable(f"the request can't be said in version {version}: {problem}") from problem
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(correlation_id, api_key, version, answer))
        self._counts.sent += 4 + len(frame)
        self._transport.write(len(frame).to_bytes(4, "big") + frame)
        return await answer

    def data_received(self, data: bytes) -> None:
        self._counts.received += len(data)
        self._received += data
        position = 0
        received = self._received
        while len(received) - position >= 4:
            size = int.from_bytes(received[position : position + 4], "big")
            if size > MAX_ANSWER_BYTES:
                self.fail(f"an answer of {size} bytes")
                return
            if len(received) - position - 4 < size:
                break
            frame = memoryview(bytes(memoryview(received)[position + 4 : position + 4 + size]))
            position += 4 + size
            if not self._answer(frame):
                return
        if position:
            del received[:position]

    def _answer(self, frame: memoryview) -> bool:
        if not self._waiting:
            self.fail("an answer that nobody asked for")
            return False
        waiting = self._waiting.popleft()
        try:
            correlation_id, response = decode_response(waiting.api_key, waiting.api_version, frame)
            if correlation_id != waiting.correlation_id:
                raise ProtocolError(f"answer {correlation_id} where {waiting.correlation_id} was expected")
        except ProtocolError as error:
            if not waiting.answer.done():
                waiting.answer.set_exception(PeerUnreachable(f"an answer that can't be read: {error}"))
            self.fail(str(error))
            return False
        if not waiting.answer.done():
            waiting.answer.set_result(response)
        return True

    def fail(self, reason: str) -> None:
        self._end(reason)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, reason: str) -> None:
        self.closed = True
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if not each.answer.done():
                each.answer.set_exception(PeerUnreachable(reason))
