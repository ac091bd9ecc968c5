"""A blocking client of Kafka's protocol: one connection a broker, requests tried again for a bounded time.

Requests go out in versions that Apache Kafka 3.0 and later have, so that the helpers work on any cluster. Any
thread may ask: one request is on its way at a time.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.schema import Message
from ottla.testing.errors import KafkaTestError

T = TypeVar("T")

VERSIONS: Final[Mapping[ApiKey, int]] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.CREATE_TOPICS: 7,
}
CLIENT_ID: Final = "ottla-testing"
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
CONNECT_SECONDS: Final = 5.0
FIRST_PAUSE_SECONDS: Final = 0.002
LAST_PAUSE_SECONDS: Final = 0.1
_SIZE: Final = struct.Struct(">i")


class NotYet(Exception):
    """The request failed in a way that passes: no connection, no leader; the message says which."""


class Deadline:
    """The end of a helper's patience."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    def left_seconds(self) -> float:
        """The seconds that are left, never fewer than 0."""
        return max(0.0, self._at - time.monotonic())


def insist(attempt: Callable[[], T], wanted: str, deadline: Deadline) -> T:
    """The attempt's result; it is made again while it raises NotYet. Raises KafkaTestError."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return attempt()
        except NotYet as problem:
            if deadline.left_seconds() <= pause:
                raise KafkaTestError(
                    f"could not {wanted} within {deadline.seconds:g} s: {problem}"
                ) from problem
        time.sleep(pause)
        pause = min(2 * pause, LAST_PAUSE_SECONDS)


class Wire:
    """Connections to the brokers of one cluster, opened when they are first used."""

    def __init__(self, bootstrap: str) -> None:
        """`bootstrap`: HOST:PORT,…"""
        self._bootstrap = [_address(each) for each in bootstrap.split(",")]
        self._connections: dict[tuple[str, int], socket.socket] = {}
        self._correlation_ids = itertools.count(1)
        self._one_at_a_time = threading.Lock()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def metadata(self, topics: list[str] | None, deadline: Deadline) -> Any:
        """A broker's Metadata response about some topics, none of which it creates. Raises NotYet."""
        asked = None if topics is None else [MetadataRequestTopic(name=topic) for topic in topics]
        return self.ask_any(MetadataRequest(topics=asked, allow_auto_topic_creation=False), deadline)

    def ask_any(self, request: Message, deadline: Deadline) -> Any:
        """The response of the first bootstrap server that answers. Raises NotYet."""
        problems = []
        for position, address in enumerate(self._bootstrap):
            others = len(self._bootstrap) - position
            try:
                # A broker that is paused must not use up the time of the others.
                return self.ask(address, request, Deadline(deadline.left_seconds() / others))
            except NotYet as problem:
                problems.append(str(problem))
        raise NotYet("; ".join(problems))

    def ask(self, address: tuple[str, int], request: Message, deadline: Deadline) -> Any:
        """The response of the broker at an address. Raises NotYet."""
        if not self._one_at_a_time.acquire(timeout=deadline.left_seconds()):
            raise NotYet("another thread's request has not been answered yet")
        try:
            return self._ask(address, request, deadline)
        except (OSError, ProtocolError) as problem:
            self._forget(address)
            host, port = address
            told = "no answer in time" if isinstance(problem, TimeoutError) else problem
            raise NotYet(f"{host}:{port}: {told}") from problem
        finally:
            self._one_at_a_time.release()

    def _ask(self, address: tuple[str, int], request: Message, deadline: Deadline) -> Any:
        assert request.API_KEY is not None
        key = ApiKey(request.API_KEY)
        connection = self._connection(address, deadline)
        correlation_id = next(self._correlation_ids)
        frame = encode_request(key, VERSIONS[key], correlation_id, CLIENT_ID, request)
        _set_timeout(connection, deadline)
        connection.sendall(_SIZE.pack(len(frame)) + frame)
        (size_bytes,) = _SIZE.unpack(_receive(connection, 4, deadline))
        if not 4 <= size_bytes <= MAX_ANSWER_BYTES:
            raise ConnectionError(f"a response of {size_bytes} bytes")
        received, response = decode_response(key, VERSIONS[key], _receive(connection, size_bytes, deadline))
        if received != correlation_id:
            raise ConnectionError(f"the response to request {received}, where {correlation_id} was sent")
        return response

    def _connection(self, address: tuple[str, int], deadline: Deadline) -> socket.socket:
        connection = self._connections.get(address)
        if connection is None:
            timeout = min(CONNECT_SECONDS, max(0.001, deadline.left_seconds()))
            connection = socket.create_connection(address, timeout=timeout)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[address] = connection
        return connection

    def _forget(self, address: tuple[str, int]) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()


def require(error_code: int, wanted: str, detail: str | None = None) -> None:
    """Raises NotYet for an error that passes, KafkaTestError for any other but NONE."""
    code = ErrorCode(error_code)
    if code == ErrorCode.NONE:
        return
    told = f"{code.name} ({detail or code.message})"
    if code.retriable:
        raise NotYet(told)
    raise KafkaTestError(f"could not {wanted}: {told}")


def _set_timeout(connection: socket.socket, deadline: Deadline) -> None:
    connection.settimeout(max(0.001, deadline.left_seconds()))


def _receive(connection: socket.socket, size_bytes: int, deadline: Deadline) -> bytearray:
    received = bytearray(size_bytes)
    view, position = memoryview(received), 0
    while position < size_bytes:
        _set_timeout(connection, deadline)
        count = connection.recv_into(view[position:])
        if not count:
            raise ConnectionError("the broker closed the connection")
        position += count
    return received


def _address(server: str) -> tuple[str, int]:
    host, _, port = server.strip().rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"the bootstrap server {server!r} is not HOST:PORT")
    return host.strip("[]"), int(port)
