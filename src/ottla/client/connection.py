"""One connection to a node: opened with TLS and SASL, frames out, frames in, each answer to its request.

Our own rather than a client library's: `ottla topic list` is to be done in a quarter of a second, of which
importing aiokafka's connection alone took a third. A frame is read into one buffer of its size, without
copies.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import os
import re
import ssl
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.client.access import Address, ConnectionSettings
from ottla.client.security import OAUTHBEARER, Credentials
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.headers import decode_response, encode_request_parts
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.client.bearer_login import BearerLogin

MAX_FRAME_BYTES: Final = 256 << 20
"""Above every answer of a broker. The first bytes of TLS, and of HTTP, look like larger frames."""
DEFAULT_CLIENT_ID: Final = "ottla"
CLOSING_SECONDS: Final = 1.0
IDLE_SECONDS: Final = 540.0
"""Brokers close a connection that was idle for ten minutes (connections.max.idle.ms)."""
DRAINED_BYTES: Final = 64 << 10
DRAIN_POLL_SECONDS: Final = 0.001
SESSION_PART: Final = 0.9
"""The part of a session's lifetime in which the connection is used."""
COLLECTOR_PAUSE_BYTES: Final = 1 << 16
_SIZE_BYTES: Final = 4
_CORRELATION_BYTES: Final = 4
_TLS_RECORDS: Final = (20, 21, 22, 23)
"""The types with which records of TLS begin: the answer to a client that does not speak TLS."""
_ERRNO: Final = re.compile(r"\[Errno (\d+)\] Connect call failed")


class NodeUnreachable(Exception):
    """The node takes no connection, or does not answer; the message is a sentence."""


class NodeRefusesUser(Exception):
    """The node refuses the client's credentials."""


class ConnectionLost(Exception):
    """The connection ended before the answer came."""


class NodeConnection:
    """A connection to one node, whose answers come in the order of the requests.

    versions: of each API that the node has, by key, the oldest and the newest.
    """

    def __init__(self, address: Address, client_id: str) -> None:
        self.versions: dict[int, tuple[int, int]] = {}
        self._address = address
        self._client_id = client_id
        self._loop = asyncio.get_running_loop()
        self._frames = _Frames()
        self._transport: asyncio.Transport | None = None
        self._correlation_id = 0
        self._last_used = 0.0
        self._session_end = math.inf

    @property
    def open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def outdated(self) -> bool:
        """Whether the node is about to close the connection, which no request waits for.

        It was idle for long, or the user's session is at its end (KIP-368).
        """
        now = self._loop.time()
        return not self._frames.waiting and (now > self._last_used + IDLE_SECONDS or now > self._session_end)

    @classmethod
    async def to(cls, address: Address, settings: ConnectionSettings) -> NodeConnection:
        """A new connection that is ready for requests. Raises NodeRefusesUser, ConnectionLost, OSError."""
        connection = cls(address, settings.client_id or DEFAULT_CLIENT_ID)
        try:
            await connection._open(settings)
        except BaseException:
            connection.hang_up()
            raise
        return connection

    async def ask(self, key: int, version: int, request: Message) -> Any:
        """The answer to a request. Raises ConnectionLost, ProtocolError, and ValueError as `encode`."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLost(self._frames.reason or "the connection is closed")
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        parts = encode_request_parts(key, version, correlation_id, self._client_id, request)
        answer: asyncio.Future[Any] = self._loop.create_future()

        def read(frame: bytearray) -> Any:
            given = int.from_bytes(frame[:_CORRELATION_BYTES], "big")
            if given != correlation_id:
                raise ProtocolError(f"the answer to request {given} comes in place of {correlation_id}")
            return _decoded(key, version, frame)

        self._frames.waiting.append((answer, read))
        self._transport.writelines((sum(map(len, parts)).to_bytes(_SIZE_BYTES, "big"), *parts))
        self._last_used = self._loop.time()
        return await answer

    def tell(self, key: int, version: int, request: Message) -> None:
        """Send a request that the node does not answer: Produce with acks=0. Raises ConnectionLost."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLost(self._frames.reason or "the connection is closed")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        parts = encode_request_parts(key, version, self._correlation_id, self._client_id, request)
        self._transport.writelines((sum(map(len, parts)).to_bytes(_SIZE_BYTES, "big"), *parts))
        self._last_used = self._loop.time()

    async def drained(self) -> None:
        """Return when the node has taken all but a little of what was sent. Raises ConnectionLost."""
        while self._transport is not None and self._transport.get_write_buffer_size() > DRAINED_BYTES:
            if self._transport.is_closing():
                raise ConnectionLost(self._frames.reason or "the connection is closed")
            await asyncio.sleep(DRAIN_POLL_SECONDS)

    def hang_up(self) -> None:
        """Close without waiting; requests that wait for an answer raise ConnectionLost."""
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close, and wait a moment until the socket is closed."""
        if self._transport is not None:
            self._transport.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._frames.closed.wait(), CLOSING_SECONDS)

    async def _open(self, settings: ConnectionSettings) -> None:
        host, port = self._address
        self._transport, _ = await self._loop.create_connection(
            lambda: self._frames, host, port, ssl=settings.tls
        )
        self.versions = await self._versions()
        if settings.credentials is not None:
            await self._authenticate(settings.credentials)

    async def _versions(self) -> dict[int, tuple[int, int]]:
        from ottla.protocol.messages.api_versions_request import ApiVersionsRequest

        answer = await self.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
        if answer.error_code:
            raise ConnectionLost(f"it does not tell its versions: {ErrorCode(answer.error_code).name}")
        return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    async def _authenticate(self, credentials: Credentials | BearerLogin) -> None:
        from ottla.client.sasl import BadServerMessage, bearer, exchange
        from ottla.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
        from ottla.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

        if isinstance(credentials, Credentials):
            mechanism, steps = credentials.mechanism, exchange(credentials)
        else:
            mechanism, steps = OAUTHBEARER, bearer(await _bearer_message(credentials))
        handshake = SaslHandshakeRequest(mechanism=mechanism)
        agreed = await self.ask(ApiKey.SASL_HANDSHAKE, 1, handshake)
        if agreed.error_code:
            offered = ", ".join(agreed.mechanisms) or "no mechanism"
            raise NodeRefusesUser(f"it takes {offered}, not {mechanism}")
        newest = self.versions.get(ApiKey.SASL_AUTHENTICATE, (0, 0))[1]
        try:
            message = next(steps)
            while True:
                request = SaslAuthenticateRequest(auth_bytes=message)
                answer = await self.ask(ApiKey.SASL_AUTHENTICATE, min(newest, 2), request)
                if answer.error_code:
                    raise NodeRefusesUser(answer.error_message or ErrorCode(answer.error_code).message)
                if answer.session_lifetime_ms > 0:
                    usable_seconds = answer.session_lifetime_ms / 1_000 * SESSION_PART
                    self._session_end = self._loop.time() + usable_seconds
                message = steps.send(answer.auth_bytes)
        except StopIteration:
            return
        except BadServerMessage as problem:
            raise NodeRefusesUser(str(problem)) from None


async def _bearer_message(login: BearerLogin) -> bytes:
    """The message of OAUTHBEARER. Raises ConnectionLost, as a token may be had later."""
    from ottla.security.token_source import TokenUnavailable

    try:
        return await asyncio.to_thread(login.first_message)
    except TokenUnavailable as problem:
        raise ConnectionLost(f"no token to log in with: {problem}") from None


class _Frames(asyncio.BufferedProtocol):
    """Cuts the bytes of a connection into frames; gives each to the request that waits the longest."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[asyncio.Future[Any], Callable[[bytearray], Any]]] = deque()
        self.closed = asyncio.Event()
        self.reason = ""
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(_SIZE_BYTES)
        self._filled = 0
        self._in_size = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is of no class of asyncio's

    def get_buffer(self, sizehint: int) -> memoryview:
        """The rest of the frame, or of its size."""
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come into the buffer."""
        self._filled += nbytes
        if self._filled < len(self._buffer):
            return
        if self._in_size:
            size = int.from_bytes(self._buffer, "big")
            if not _SIZE_BYTES <= size <= MAX_FRAME_BYTES:
                self._fail(ConnectionLost(_not_kafka(self._buffer)))
                return
            self._buffer, self._in_size = bytearray(size), False
        else:
            frame = self._buffer
            self._buffer, self._in_size = bytearray(_SIZE_BYTES), True
            self._take(frame)
        self._filled = 0

    def eof_received(self) -> None:
        """The node has closed the connection."""

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed, by whichever side."""
        told = "the node closed the connection before it answered"
        self._end(ConnectionLost(told if error is None else connect_problem(error)))
        self.closed.set()

    def _take(self, frame: bytearray) -> None:
        if not self.waiting:
            self._fail(ConnectionLost("the node sent an answer that belongs to no request"))
            return
        answer, read = self.waiting.popleft()
        if answer.done():  # its asker has gone
            return
        try:
            answer.set_result(read(frame))
        except ProtocolError as problem:
            answer.set_exception(problem)
            self._fail(ConnectionLost(str(problem)))

    def _fail(self, problem: ConnectionLost) -> None:
        self._end(problem)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, problem: ConnectionLost) -> None:
        self.reason = self.reason or str(problem)
        while self.waiting:
            answer, _ = self.waiting.popleft()
            if not answer.done():
                answer.set_exception(ConnectionLost(str(problem)))


def _decoded(key: int, version: int, frame: bytearray) -> Any:
    """The message in a frame.

    A large one is read without the garbage collector, which would look again and again through what has been
    read: half of the time that the 300,000 settings of 9,000 topics take.
    """
    pausing = len(frame) > COLLECTOR_PAUSE_BYTES and gc.isenabled()
    if pausing:
        gc.disable()
    try:
        return decode_response(key, version, frame)[1]
    finally:
        if pausing:
            gc.enable()


def _not_kafka(start: bytearray) -> str:
    if start[0] in _TLS_RECORDS and start[1] == 3:
        return "it speaks TLS there: set security.protocol to SSL or SASL_SSL"
    return f"it does not speak Kafka's protocol there: its answer begins with {bytes(start)!r}"


def connect_problem(problem: Exception) -> str:
    """The reason why a node can't be reached, in words."""
    if isinstance(problem, ssl.SSLError):
        return str(problem)
    # asyncio puts the addresses that it has tried into the text, which the caller names anyway
    tried = _ERRNO.search(str(problem))
    return os.strerror(int(tried[1])) if tried is not None else str(problem)
