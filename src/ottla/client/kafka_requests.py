"""Requests to single nodes: messages of ottla.protocol, which no client library sends, over its connections.

A connection is opened when a node is first asked, shared by requests, and opened again after it broke. A
request goes out in the newest version that both sides speak.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import KafkaError, SaslAuthenticationFailed, UnsupportedSaslMechanismError

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.errors import ProtocolError
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.schema import Message

T = TypeVar("T")

IDLE_MS: Final = 540_000
DEFAULT_TIMEOUT_MS: Final = 30_000
NEWEST: Final = {ApiKey.OFFSET_FETCH: 9, ApiKey.OFFSET_COMMIT: 9}
"""The newest version to ask in, where later ones have other fields: version 10 names topics by id."""


class NodeUnreachable(Exception):
    """The node takes no connection, or does not answer; the message is a sentence."""


class NodeRefusesUser(Exception):
    """The node refuses the client's credentials."""


class UnsupportedRequest(Exception):
    """The node does not serve the request, or only in versions that ottla.protocol does not have."""


@dataclass(frozen=True, slots=True)
class RequestByVersion:
    """A request whose fields depend on the version that the node speaks."""

    key: ApiKey
    at: Callable[[int], Message]

    def __repr__(self) -> str:
        return self.key.name


Request = Message | RequestByVersion


class NodeConnections:
    """Connections to nodes, at most one to each address. Requests end within the access's timeout.

    A node answers the requests of a connection in their order, so requests that may wait at the node, fetches
        above all, need connections of their own.
    """

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._timeout_seconds = (access.request_timeout_ms or DEFAULT_TIMEOUT_MS) / 1_000
        self._connections: dict[tuple[str, int], AIOKafkaConnection] = {}
        self._opening: dict[tuple[str, int], asyncio.Lock] = {}

    async def reach(self, host: str, port: int, seconds: float) -> None:
        """Connect to a node within `seconds`. Raises NodeUnreachable, NodeRefusesUser."""
        await self._within(host, port, self._connection(host, port), min(seconds, self._timeout_seconds))

    async def ask(self, host: str, port: int, request: Request, seconds: float | None = None) -> Any:
        """The node's response, within `seconds` if that is less than the access's timeout.

        Raises NodeUnreachable, NodeRefusesUser, UnsupportedRequest.
        """
        seconds = self._timeout_seconds if seconds is None else min(seconds, self._timeout_seconds)
        return await self._within(host, port, self._asked(host, port, request), seconds)

    async def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            closed = connection.close()
            if closed is not None:
                await asyncio.wait([closed], timeout=1)
        self._connections.clear()

    async def _asked(self, host: str, port: int, request: Request) -> Any:
        connection = await self._connection(host, port)
        return await connection.send(_Sendable(request))

    async def _within(self, host: str, port: int, asking: Awaitable[T], seconds: float) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await asking
        except TimeoutError:
            # the node may be frozen, and the next request would wait as long
            self._hang_up(host, port)
            raise NodeUnreachable(f"The broker at {host}:{port} did not answer in time.") from None
        except (SaslAuthenticationFailed, UnsupportedSaslMechanismError) as problem:
            raise NodeRefusesUser(str(problem)) from None
        except (KafkaError, OSError, ProtocolError, ClientOptionError) as problem:
            raise NodeUnreachable(f"The broker at {host}:{port} cannot be reached: {problem}") from None

    def _hang_up(self, host: str, port: int) -> None:
        connection = self._connections.pop((host, port), None)
        if connection is not None:
            connection.close()

    async def _connection(self, host: str, port: int) -> AIOKafkaConnection:
        address = host, port
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or not connection.connected():
                arguments = self._access.aiokafka()
                arguments.pop("bootstrap_servers")
                connection = await create_conn(host, port, max_idle_ms=IDLE_MS, **arguments)
                self._forget_closed()
                self._connections[address] = connection
            return connection

    def _forget_closed(self) -> None:
        """Forget connections that were closed: in time, brokers have had many addresses."""
        self._connections = {
            address: connection for address, connection in self._connections.items() if connection.connected()
        }
        self._opening = {
            address: lock
            for address, lock in self._opening.items()
            if lock.locked() or address in self._connections
        }


class _Sendable:
    """A message of ottla.protocol with the methods that aiokafka's connection calls on a request."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def prepare(self, versions: dict[int, tuple[int, int]]) -> _Prepared:
        """The request in the newest common version. Raises UnsupportedRequest when there is none."""
        request = self._request
        key = request.key if isinstance(request, RequestByVersion) else request.API_KEY
        assert key is not None
        least, most = versions.get(key, (0, -1))
        version = min(most, NEWEST.get(ApiKey(key), APIS[ApiKey(key)].latest_stable_version))
        if version < max(least, APIS[ApiKey(key)].min_version):
            raise UnsupportedRequest(f"the node serves no version of {ApiKey(key).name} that this client has")
        message = request.at(version) if isinstance(request, RequestByVersion) else request
        return _Prepared(key, version, message)


class _Prepared:
    """A request in one version: its own header, whole frame, and reader of its response."""

    def __init__(self, key: int, version: int, request: Message) -> None:
        self._key = key
        self._version = version
        self._request = request
        self._frame = b""
        self._response: Any = None
        self.correlation_id = 0

    @property
    def RESPONSE_TYPE(self) -> _Prepared:
        """The decoder of the response."""
        return self

    def build_request_header(self, correlation_id: int, client_id: str) -> _Header:
        """Encode header and body together; the header that is returned is empty."""
        try:
            self._frame = encode_request(self._key, self._version, correlation_id, client_id, self._request)
        except ValueError as problem:
            raise UnsupportedRequest(f"the request can't be written: {problem}") from None
        return _Header()

    def encode(self) -> bytes:
        """The request's header and body."""
        return self._frame

    def parse_response_header(self, buffer: io.BytesIO) -> _Prepared:
        """Decode header and body; the returned object has the correlation id. Raises MalformedMessage."""
        self.correlation_id, self._response = decode_response(self._key, self._version, buffer.getvalue())
        return self

    def decode(self, _buffer: io.BytesIO) -> Any:
        """The response, which was decoded with its header."""
        return self._response


class _Header:
    def encode(self) -> bytes:
        """An empty header."""
        return b""
