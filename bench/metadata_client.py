"""Ask a broker for its metadata with nothing but a socket, as early as it can answer.

Written against the protocol's tables alone: it shares no code with either broker. Metadata v1 is spoken by
both: request: api_key int16, api_version int16, correlation_id int32, client_id nullable string, topics
array int32 (0 = none); response: correlation_id, brokers [node_id int32, host string, port int32, rack
nullable string], controller_id int32, topics.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

from bench.errors import BenchError

POLL_SECONDS = 0.001
ANSWER_TIMEOUT_SECONDS = 10.0
MAX_ANSWER_BYTES = 1 << 20
_METADATA, _VERSION, _CORRELATION_ID = 3, 1, 7
_CLIENT_ID = b"bench"


def encode_metadata_request() -> bytes:
    body = struct.pack(">hhih", _METADATA, _VERSION, _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID
    body += struct.pack(">i", 0)
    return struct.pack(">i", len(body)) + body


def broker_count(answer: bytes) -> int:
    """How many brokers a Metadata v1 response (without its size) names; BenchError for anything else."""
    try:
        correlation_id, brokers = struct.unpack_from(">ii", answer)
    except struct.error as error:
        raise BenchError(f"not a Metadata response: {answer[:64]!r}") from error
    if correlation_id != _CORRELATION_ID or not 0 <= brokers <= len(answer):
        raise BenchError(f"not a Metadata response: {answer[:64]!r}")
    return int(brokers)


def wait_for_metadata(port: int, *, timeout_seconds: float, still_running: Callable[[], None]) -> float:
    """Connect to 127.0.0.1 until a Metadata request is answered with at least one broker; return when
    (perf_counter).

    `still_running` raises when waiting is in vain. Raises BenchError after `timeout_seconds`.
    """
    deadline = time.perf_counter() + timeout_seconds
    while time.perf_counter() < deadline:
        still_running()
        try:
            answered_at = _ask(port)
        except OSError:
            answered_at = None
        if answered_at is not None:
            return answered_at
        time.sleep(POLL_SECONDS)
    raise BenchError(f"no answer to a Metadata request on port {port} after {timeout_seconds} s")


def _ask(port: int) -> float | None:
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_TIMEOUT_SECONDS) as connection:
        connection.sendall(encode_metadata_request())
        (size,) = struct.unpack(">i", _receive(connection, 4))
        if not 0 < size <= MAX_ANSWER_BYTES:
            raise BenchError(f"a Metadata response of {size} bytes")
        answer = _receive(connection, size)
        answered_at = time.perf_counter()
    return answered_at if broker_count(answer) > 0 else None


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionResetError("closed before the answer")
        received += chunk
    return bytes(received)
