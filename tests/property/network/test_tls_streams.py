"""Bytes through a TlsConnection, in pieces of any size and with pauses anywhere, are those that were sent."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.network.connection import ClientConnection
from ottla.broker.network.context import ANONYMOUS, Session
from ottla.broker.network.flood_log import FloodLog
from ottla.broker.network.tls_connection import Handshakes, TlsConnection
from support.servers.tls_trial import Trial

SHARED = memoryview(bytearray(20_000))
"""The buffer that all connections read into."""


class Application:
    """What a ClientConnection is to TLS: it gives buffers, pauses now and then, and hears of the end."""

    client_host, listener_name = "here", "SSL"

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self.session = Session("here", "SSL")
        self.received = bytearray()
        self.transport: Any = None
        self.paused = self.resuming = self.ended = self.lost = False
        self._own: memoryview | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        assert not self.paused, "bytes come although reading is paused"
        assert not self.resuming, "bytes come before the call has returned"
        size = self._draw.choice((1, 5, 4096, 20_000))
        self._own = SHARED if self._draw.random() < 0.5 else memoryview(bytearray(size))
        return self._own

    def buffer_updated(self, count: int) -> None:
        assert self._own is not None and not self.paused and not self.ended
        self.received += self._own[:count]
        SHARED[:] = bytes(len(SHARED))  # another connection reads meanwhile
        if self._draw.random() < 0.3:
            self.paused = True
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self.ended = True
        return False

    def connection_lost(self, problem: Exception | None) -> None:
        self.lost = True


class Socket:
    """The transport under TLS; what is written to it goes to the client's side."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.reading, self.closed = True, False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.sent += data

    def writelines(self, parts: Sequence[bytes]) -> None:
        self.write(b"".join(parts))

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True

    abort = close


class Tls:
    def __init__(self, context: ssl.SSLContext) -> None:
        self.server_context = context

    def principal(self, certificate: bytes | None) -> str:
        return ANONYMOUS


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    path: Path = tmp_path_factory.mktemp("certs")
    trial = Trial.create(path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(trial.write("node", trial.node()))
    return server, trial.context()


async def story(contexts: tuple[ssl.SSLContext, ssl.SSLContext], seed: int, version: ssl.TLSVersion) -> None:
    draw = random.Random(seed)
    loop = asyncio.get_running_loop()
    application, socket = Application(draw), Socket()
    flood_log = FloodLog(loop, cast(Any, None))
    handshakes = Handshakes(loop, flood_log)
    connection = TlsConnection(cast(ClientConnection, application), Tls(contexts[0]), handshakes)
    await handshakes.begin(connection)
    connection.connection_made(cast(asyncio.BaseTransport, socket))

    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    contexts[1].minimum_version = contexts[1].maximum_version = version
    client = contexts[1].wrap_bio(to_client, to_server, server_hostname="localhost")
    wire = bytearray()
    told = bytearray()

    def listen() -> None:
        """The client reads what has come."""
        to_client.write(bytes(socket.sent))
        socket.sent.clear()
        try:
            while True:
                told.extend(client.read(1 << 16))
        except ssl.SSLWantReadError:
            pass

    async def deliver() -> None:
        """Give the connection what is on the wire, whenever it reads."""
        wire.extend(to_server.read())
        for _ in range(100_000):
            if application.paused and draw.random() < 0.5:
                application.paused, application.resuming = False, True
                connection.resume_reading()
                application.resuming = False
            if socket.reading and wire and not socket.closed:
                buffer = connection.get_buffer(-1)
                count = min(len(buffer), len(wire), draw.choice((1, 7, 1000, 30_000, 1 << 20)))
                buffer[:count] = wire[:count]
                del wire[:count]
                connection.buffer_updated(count)
            await asyncio.sleep(0)
            if (socket.closed or not wire) and not application.paused and (socket.reading or socket.closed):
                return
        raise AssertionError("the connection reads no more")

    while True:
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            await deliver()
            to_client.write(bytes(socket.sent))
            socket.sent.clear()
    await deliver()
    assert handshakes.count == 0

    sent, said = bytearray(), bytearray()
    for _ in range(draw.randint(1, 6)):
        if draw.random() < 0.6:
            data = draw.randbytes(draw.choice((1, 100, 16_384, 16_385, 60_000)))
            client.write(data)
            sent += data
        else:
            parts = [
                draw.randbytes(draw.choice((0, 1, 100, 16_384, 70_000))) for _ in range(draw.randint(1, 4))
            ]
            connection.writelines(parts)
            said += b"".join(parts)
        if draw.random() < 0.5:
            await deliver()
            listen()
    with pytest.raises(ssl.SSLWantReadError):
        client.unwrap()
    await deliver()
    assert application.received == sent
    assert application.ended and socket.closed
    with pytest.raises(ssl.SSLZeroReturnError):
        listen()
    assert told == said
    connection.connection_lost(None)
    assert application.lost


@given(st.integers(0, 1 << 32), st.sampled_from([ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]))
def test_no_byte_is_lost_or_told_twice(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], seed: int, version: ssl.TLSVersion
) -> None:
    asyncio.run(story(contexts, seed, version))
