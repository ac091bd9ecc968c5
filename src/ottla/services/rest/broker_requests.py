"""Asks nodes what librdkafka has no call for: messages of ottla.protocol over aiokafka's connections.

A connection is opened when a node is first asked, shared by requests, and opened again after it broke. A
request goes out in the newest version that both sides speak.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Iterable
from typing import Any, Final, TypeVar

from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import KafkaError as AiokafkaError
from aiokafka.errors import SaslAuthenticationFailed, UnsupportedSaslMechanismError

from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.schema import Message
from ottla.services.kafka_access import KafkaAccess
from ottla.services.rest.kafka_errors import of_code, unreachable
from ottla.services.rest.model import Node
from ottla.services.web.errors import ApiError

T = TypeVar("T")

CLIENT_ID: Final = "ottla-rest-admin"
TRY_SECONDS: Final = 3.0
"""For a broker to answer where there are others to try."""
IDLE_MS: Final = 540_000
NEWEST: Final = {ApiKey.OFFSET_FETCH: 9}
"""Versions behind which a response is not what we read: offsets are of topics' ids from 10 on."""


class BrokerRequests:
    """Connections to nodes, at most one to each address. Requests end within `timeout_seconds`."""

    def __init__(self, access: KafkaAccess, timeout_seconds: float) -> None:
        self._access = access
        self._timeout_seconds = timeout_seconds
        self._connections: dict[tuple[str, int], AIOKafkaConnection] = {}
        self._opening: dict[tuple[str, int], asyncio.Lock] = {}

    async def reach(self, nodes: Iterable[Node]) -> Node:
        """The first of these that takes a connection. Raises ApiError when none does."""
        problem = unreachable("No broker of the cluster is known.")
        for node in nodes:
            try:
                await self._within(node, self._connection(node), min(TRY_SECONDS, self._timeout_seconds))
                return node
            except ApiError as refusal:
                problem = refusal
        raise problem

    async def ask(self, node: Node, request: Message, seconds: float | None = None) -> Any:
        """The node's response, within `seconds` if that is less than the timeout of all.

        Raises ApiError when it can't be reached or does not know such requests.
        """
        seconds = self._timeout_seconds if seconds is None else min(seconds, self._timeout_seconds)
        return await self._within(node, self._asked(node, request), seconds)

    async def _asked(self, node: Node, request: Message) -> Any:
        connection = await self._connection(node)
        return await connection.send(_Sendable(request))

    async def _within(self, node: Node, asking: Awaitable[T], seconds: float) -> T:
        place = f"{node.host}:{node.port}"
        try:
            async with asyncio.timeout(seconds):
                return await asking
        except TimeoutError:
            # it may be frozen, and what is sent to it next would wait as long
            self._hang_up(node)
            raise unreachable(f"The broker at {place} did not answer in time.") from None
        except (SaslAuthenticationFailed, UnsupportedSaslMechanismError) as problem:
            raise of_code(ErrorCode.SASL_AUTHENTICATION_FAILED, str(problem)) from None
        except (AiokafkaError, OSError, ProtocolError) as problem:
            raise unreachable(f"The broker at {place} cannot be reached: {problem}") from None

    async def close(self) -> None:
        """Hang up."""
        for connection in self._connections.values():
            closed = connection.close()
            if closed is not None:
                await asyncio.wait([closed], timeout=1)
        self._connections.clear()

    def _hang_up(self, node: Node) -> None:
        connection = self._connections.pop((node.host, node.port), None)
        if connection is not None:
            connection.close()

    async def _connection(self, node: Node) -> AIOKafkaConnection:
        address = node.host, node.port
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or not connection.connected():
                arguments = self._access.aiokafka()
                arguments.pop("bootstrap_servers")
                connection = await create_conn(
                    node.host,
                    node.port,
                    client_id=CLIENT_ID,
                    request_timeout_ms=int(self._timeout_seconds * 1_000),
                    max_idle_ms=IDLE_MS,
                    **arguments,
                )
                self._forget_closed()
                self._connections[address] = connection
            return connection

    def _forget_closed(self) -> None:
        """Brokers come and go, in time under many addresses."""
        self._connections = {
            address: connection for address, connection in self._connections.items() if connection.connected()
        }
        self._opening = {
            address: lock
            for address, lock in self._opening.items()
            if lock.locked() or address in self._connections
        }


class _Sendable:
    """A message of ottla.protocol, in the shape that aiokafka's connection asks of a request."""

    def __init__(self, request: Message) -> None:
        self._request = request

    def prepare(self, versions: dict[int, tuple[int, int]]) -> _Prepared:
        """In the newest common version. Raises ApiError when there is none."""
        key = self._request.API_KEY
        assert key is not None
        least, most = versions.get(key, (0, -1))
        version = min(most, NEWEST.get(ApiKey(key), APIS[ApiKey(key)].latest_stable_version))
        if version < max(least, APIS[ApiKey(key)].min_version):
            raise of_code(ErrorCode.UNSUPPORTED_VERSION)
        return _Prepared(key, version, self._request)


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
        """What decodes the response."""
        return self

    def build_request_header(self, correlation_id: int, client_id: str) -> _Header:
        """Header and body come as one, after this header of nothing."""
        self._frame = encode_request(self._key, self._version, correlation_id, client_id, self._request)
        return _Header()

    def encode(self) -> bytes:
        """The request, header and all."""
        return self._frame

    def parse_response_header(self, buffer: io.BytesIO) -> _Prepared:
        """Something with the response's correlation id. Raises MalformedMessage."""
        self.correlation_id, self._response = decode_response(self._key, self._version, buffer.getvalue())
        return self

    def decode(self, _buffer: io.BytesIO) -> Any:
        """The response, which was read with its header."""
        return self._response


class _Header:
    def encode(self) -> bytes:
        """Nothing."""
        return b""
