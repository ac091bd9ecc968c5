"""Many connections of TLS and SCRAM-SHA-256 from one thread: nothing but sockets, OpenSSL and an epoll.

Written against the protocol's tables alone: it shares no code with either broker. A connect is what Kafka's
clients do: TCP, TLS without resumption, ApiVersions v0, SaslHandshake v1, SaslAuthenticate v1 twice. The
server's signature is checked. PBKDF2 is computed once for a salt, as else the client would be most of the
time that is measured.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bench.errors import BenchError

TIMEOUT_SECONDS = 60.0
RECEIVE_BYTES = 256 << 10
POLL_SECONDS = 0.05
MECHANISM = b"SCRAM-SHA-256"
_API_VERSIONS, _SASL_HANDSHAKE, _SASL_AUTHENTICATE = 18, 17, 36
_SERVER_FIRST = re.compile(rb"r=([^,]+),s=([^,]+),i=(\d+)")

T = TypeVar("T")
# What a conversation waits for next, as epoll has it; it ends with the connection.
Conversation = Generator[int, None, ssl.SSLSocket]


def request_frame(api_key: int, version: int, body: bytes, correlation_id: int = 1) -> bytes:
    """A request with the header of version 1 (api key, version, correlation id, client id) and its size."""
    client_id = b"bench"
    header = struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id
    return struct.pack(">i", len(header) + len(body)) + header + body


def metadata_frame(topics: list[str]) -> bytes:
    """Metadata v8 of these topics, none to be created, without authorized operations."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return request_frame(3, 8, struct.pack(">i", len(topics)) + names + bytes(3))


def _answered(frame: bytes, api: str) -> bytes:
    """A response without its correlation id. Raises BenchError when it begins with an error's number."""
    (error,) = struct.unpack_from(">h", frame, 4)
    if error != 0:
        raise BenchError(f"{api} was answered by error {error}")
    return frame[4:]


@dataclass(slots=True)
class Login:
    """SCRAM-SHA-256 for one user; keys are kept by salt and iterations."""

    user: str
    password: str
    _keys: dict[tuple[bytes, int], tuple[bytes, bytes]] = field(default_factory=dict)

    def client_first(self, nonce: str) -> bytes:
        return f"n,,n={self.user},r={nonce}".encode()

    def client_final(self, nonce: str, server_first: bytes) -> tuple[bytes, bytes]:
        """The client's proof, and the server's last message that shows that it knows the credential."""
        found = _SERVER_FIRST.fullmatch(server_first)
        if found is None or not found[1].startswith(nonce.encode()):
            raise BenchError(f"not SCRAM: {server_first!r}")
        client_key, server_key = self._keys_of(base64.b64decode(found[2]), int(found[3]))
        bare = self.client_first(nonce)[3:]
        without_proof = b"c=biws,r=" + found[1]
        signed = b",".join((bare, server_first, without_proof))
        signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        expected = base64.b64encode(hmac.digest(server_key, signed, "sha256"))
        return without_proof + b",p=" + base64.b64encode(proof), b"v=" + expected

    def _keys_of(self, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
        if (salt, iterations) not in self._keys:
            salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), salt, iterations)
            keys = hmac.digest(salted, b"Client Key", "sha256"), hmac.digest(salted, b"Server Key", "sha256")
            self._keys[salt, iterations] = keys
        return self._keys[salt, iterations]


@dataclass(frozen=True, slots=True)
class SecuredClient:
    """Connects to one listener of SASL_SSL as one user."""

    address: tuple[str, int]
    context: ssl.SSLContext
    login: Login
    host_name: str

    @classmethod
    def of(cls, bootstrap: str, ca: Path, user: str, password: str, host_name: str) -> SecuredClient:
        """A client that trusts one authority and checks the certificate's name."""
        host, _, port = bootstrap.rpartition(":")
        context = ssl.create_default_context(cafile=str(ca))
        return cls((host, int(port)), context, Login(user, password), host_name)

    def connect(self, count: int, at_once: int) -> list[ssl.SSLSocket]:
        """`count` connections that have logged in, at most `at_once` of them on their way at a time.

        Raises BenchError when one fails, and when nothing happens for TIMEOUT_SECONDS.
        """
        connections: list[ssl.SSLSocket] = []
        under_way: dict[int, Conversation] = {}
        with select.epoll() as poll:
            while len(connections) < count:
                while len(under_way) < at_once and len(connections) + len(under_way) < count:
                    raw = socket.socket()
                    under_way[raw.fileno()] = self._establish(raw)
                    poll.register(raw.fileno(), next(under_way[raw.fileno()]))
                ready = poll.poll(TIMEOUT_SECONDS)
                if not ready:
                    raise BenchError(f"{len(connections)} of {count} connections, then nothing")
                for descriptor, _ in ready:
                    try:
                        poll.modify(descriptor, next(under_way[descriptor]))
                    except StopIteration as finished:
                        poll.unregister(descriptor)
                        del under_way[descriptor]
                        connections.append(finished.value)
                    except OSError as error:
                        raise BenchError(f"connection {len(connections)} of {count}: {error}") from error
        for connection in connections:
            connection.settimeout(TIMEOUT_SECONDS)
        return connections

    def _establish(self, raw: socket.socket) -> Conversation:
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.connect_ex(self.address)
        yield select.EPOLLOUT
        # The wrapped socket has the same descriptor, so the epoll needs to know nothing of it.
        secured = self.context.wrap_socket(
            raw, server_hostname=self.host_name, do_handshake_on_connect=False, suppress_ragged_eofs=False
        )
        yield from _until_done(secured.do_handshake)
        yield from _ask(secured, request_frame(_API_VERSIONS, 0, b""), "ApiVersions")
        mechanism = struct.pack(">h", len(MECHANISM)) + MECHANISM
        yield from _ask(secured, request_frame(_SASL_HANDSHAKE, 1, mechanism), "SaslHandshake")
        nonce = secrets.token_urlsafe(18)
        server_first = yield from _authenticate(secured, self.login.client_first(nonce))
        final, expected = self.login.client_final(nonce, server_first)
        if (yield from _authenticate(secured, final)) != expected:
            raise BenchError("the server does not know the credential")
        return secured


def ask(connection: ssl.SSLSocket, frame: bytes) -> bytes:
    """A response to a request, without its size; the connection waits for it."""
    connection.sendall(frame)
    (size,) = struct.unpack(">i", _receive(connection, 4))
    return _receive(connection, size)


def median_seconds(connection: ssl.SSLSocket, frame: bytes, count: int) -> float:
    """The median time of `count` answers to one request after the other."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        ask(connection, frame)
        taken.append(time.perf_counter() - began)
    return sorted(taken)[count // 2]


def wait_for_metadata(connection: ssl.SSLSocket, frame: bytes, topics: int) -> None:
    """Ask until the broker knows the topics, which are new. Raises BenchError after TIMEOUT_SECONDS."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            check_metadata(ask(connection, frame), topics)
            return
        except BenchError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)


def check_metadata(answer: bytes, topics: int) -> None:
    """Raises BenchError unless a Metadata v8 response has so many topics, the first without an error."""
    at = 8  # the correlation id, and the time of throttling
    (brokers,) = struct.unpack_from(">i", answer, at)
    at += 4
    for _ in range(brokers):
        at = _behind_string(answer, _behind_string(answer, at + 4) + 4)  # node id, host, port, rack
    at = _behind_string(answer, at) + 4  # cluster id, controller
    found, error = struct.unpack_from(">ih", answer, at)
    if (found, error) != (topics, 0):
        raise BenchError(f"{found} topics, the first with error {error}, of {topics}")


def _behind_string(data: bytes, at: int) -> int:
    """The place behind a nullable string."""
    return at + 2 + max(0, int(struct.unpack_from(">h", data, at)[0]))


def _receive(connection: ssl.SSLSocket, size: int) -> bytes:
    received, view = 0, memoryview(bytearray(size))
    while received < size:
        count = connection.recv_into(view[received : received + RECEIVE_BYTES])
        if count == 0:
            raise BenchError("closed before the answer")
        received += count
    return view.tobytes()


def _authenticate(secured: ssl.SSLSocket, message: bytes) -> Generator[int, None, bytes]:
    """Send a SASL message; the server's next one."""
    body = struct.pack(">i", len(message)) + message
    frame = yield from _ask(secured, request_frame(_SASL_AUTHENTICATE, 1, body), "SaslAuthenticate")
    at = 2
    (length,) = struct.unpack_from(">h", frame, at)  # of the error's message, -1 for none
    at += 2 + max(0, length)
    (size,) = struct.unpack_from(">i", frame, at)
    return frame[at + 4 : at + 4 + size]


def _ask(secured: ssl.SSLSocket, frame: bytes, api: str) -> Generator[int, None, bytes]:
    """Send a small request; the response behind its correlation id. Raises BenchError for an error."""
    yield from _until_done(lambda: secured.send(frame))
    received = b""
    while len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
        chunk = yield from _until_done(lambda: secured.recv(RECEIVE_BYTES))
        if not chunk:
            raise BenchError(f"closed at {api}")
        received += chunk
    return _answered(received[4:], api)


def _until_done(action: Callable[[], T]) -> Generator[int, None, T]:
    while True:
        try:
            return action()
        except ssl.SSLWantReadError:
            yield select.EPOLLIN
        except ssl.SSLWantWriteError:
            yield select.EPOLLOUT
