"""Clients that stop amid a handshake, come in floods, or send nonsense: others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from ottla.web import http_protocol, tls_acceptor
from support.web.secured_service import Files, Running, running

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    made = Files(tmp_path_factory.mktemp("keys"))
    made.identity("server")
    return made


def given(files: Files) -> dict[str, str]:
    return {"ssl.keystore.location": str(files.directory / "server.pem")}


def on(loop: str, story: Callable[[], Any]) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(story())


async def served(one: Running, files: Files) -> bool:
    """Whether a client that does nothing wrong gets its answer."""
    context = ssl.create_default_context(cafile=files.ca)
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", one.port, ssl=context)
        writer.write(REQUEST)
        answer = await reader.read()
        writer.close()
    return answer.startswith(b"HTTP/1.1 200 ")


def client_hello(context: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def halves(one: Running, files: Files, count: int) -> list[socket.socket]:
    """Clients that have sent a part of their first message, and nothing more."""
    hello = client_hello(ssl.create_default_context(cafile=files.ca))
    draw = random.Random(count)
    made = []
    for _ in range(count):
        half = socket.create_connection(("127.0.0.1", one.port))
        half.setblocking(False)
        half.send(hello[: draw.randrange(len(hello))])
        made.append(half)
    return made


async def ended(connections: list[socket.socket], at_least: int) -> None:
    """Return when the service has ended so many of these connections; close all of them."""
    loop = asyncio.get_running_loop()

    async def end(connection: socket.socket) -> None:
        with contextlib.suppress(ConnectionError):
            while await loop.sock_recv(connection, 4_096):
                pass

    waiting = {asyncio.ensure_future(end(each)) for each in connections}
    async with asyncio.timeout(20):
        while len(connections) - len(waiting) < at_least:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    for each in connections:
        each.close()


@pytest.mark.parametrize("loop", LOOPS)
def test_half_handshakes_make_room_for_clients_that_go_on(
    loop: str, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_acceptor, "HANDSHAKES", 8)
    monkeypatch.setattr(tls_acceptor, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(tls_acceptor, "HANDSHAKE_SECONDS", 600.0)

    async def story() -> None:
        async with running(given(files)) as one:
            stuck = halves(one, files, 60)
            assert await served(one, files)
            await ended(stuck, 60 - 8)
            assert await served(one, files)

    on(loop, story)


@pytest.mark.parametrize("loop", LOOPS)
def test_half_handshakes_end_by_their_time(loop: str, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_acceptor, "HANDSHAKE_SECONDS", 0.3)

    async def story() -> None:
        async with running(given(files)) as one:
            await ended(halves(one, files, 20), 20)
            assert await served(one, files)

    on(loop, story)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_head_that_never_ends_is_ended(loop: str, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(http_protocol, "LOOK_SECONDS", 0.05)

    async def story() -> None:
        context = ssl.create_default_context(cafile=files.ca)
        async with running(given(files)) as one:
            for head in (b"", b"GET / HT", REQUEST[:-2], REQUEST[:-2] + b"X: y\r\n"):
                reader, writer = await asyncio.open_connection("127.0.0.1", one.port, ssl=context)
                writer.write(head)
                with contextlib.suppress(ConnectionError):
                    async with asyncio.timeout(20):
                        assert await reader.read() == b""
                writer.close()
            assert await served(one, files)

    on(loop, story)


@pytest.mark.parametrize("loop", LOOPS)
def test_many_clients_at_once_are_all_served(
    loop: str, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_acceptor, "HANDSHAKES", 4)

    async def story() -> None:
        async with running(given(files)) as one:
            assert all(await asyncio.gather(*(served(one, files) for _ in range(60))))

    on(loop, story)


@pytest.mark.parametrize("loop", LOOPS)
def test_nonsense_in_place_of_a_handshake_ends_the_connection(loop: str, files: Files) -> None:
    hello = client_hello(ssl.create_default_context(cafile=files.ca))
    draw = random.Random(2)

    def nonsense() -> bytes:
        changed = bytearray(hello)
        for _ in range(draw.randrange(1, 20)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        return draw.choice([REQUEST, draw.randbytes(300), bytes(changed), b"\x16\x03\x01\xff\xff" + bytes(9)])

    async def story() -> None:
        async with running(given(files)) as one:
            writers = []
            for _ in range(100):
                reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
                writer.write(nonsense())
                writer.write_eof()
                writers.append((reader, writer))
            for reader, writer in writers:
                with contextlib.suppress(ConnectionError):
                    async with asyncio.timeout(20):
                        assert b"HTTP" not in await reader.read()
                writer.close()
            assert await served(one, files)

    on(loop, story)


def test_a_stop_ends_handshakes_under_way(files: Files) -> None:
    async def story() -> None:
        async with running(given(files)) as one:
            half = socket.create_connection(("127.0.0.1", one.port))
            assert await served(one, files)
        half.settimeout(20)
        with contextlib.suppress(ConnectionError):
            assert half.recv(1) == b""
        half.close()

    asyncio.run(story())


def test_connections_beyond_the_descriptors_wait(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the process has no descriptor left: the client is served once there is one again."""

    class Scarce(tls_acceptor.TlsAcceptor):
        refused = 0

        def __init__(self, listening: Any, *rest: Any) -> None:
            super().__init__(_Scarce(listening), *rest)

    class _Scarce:
        def __init__(self, listening: socket.socket) -> None:
            self._listening = listening

        def accept(self) -> Any:
            if Scarce.refused < 3:
                Scarce.refused += 1
                raise OSError(24, "Too many open files")
            return self._listening.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._listening, name)

    monkeypatch.setattr("ottla.web.server.TlsAcceptor", Scarce)

    async def story() -> None:
        async with running(given(files)) as one:
            assert await served(one, files)
            assert Scarce.refused == 3

    asyncio.run(story())


@pytest.mark.system("openssl")
def test_a_client_can_t_renegotiate(files: Files) -> None:
    async def story() -> None:
        async with running({**given(files), "ssl.enabled.protocols": "TLSv1.2"}) as one:
            asked = ["openssl", "s_client", "-connect", f"127.0.0.1:{one.port}", "-tls1_2"]
            client = await asyncio.create_subprocess_exec(
                *asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            told, _ = await asyncio.wait_for(client.communicate(b"R\n" + REQUEST), 20)
            assert b"RENEGOTIATING" in told and b"HTTP/1.1 200" not in told
            assert await served(one, files)

    asyncio.run(story())


def test_idle_handshakes_leave_no_descriptors(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_acceptor, "HANDSHAKES", 4)
    monkeypatch.setattr(tls_acceptor, "PATIENCE_SECONDS", 0.01)

    async def story() -> None:
        async with running(given(files)) as one:
            assert await served(one, files)
            before = len(list(_descriptors()))
            for _ in range(50):
                socket.create_connection(("127.0.0.1", one.port)).close()
            halves = [socket.create_connection(("127.0.0.1", one.port)) for _ in range(30)]
            assert await served(one, files)
            for half in halves:
                half.close()
            async with asyncio.timeout(20):
                while len(list(_descriptors())) > before:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    asyncio.run(story())


def _descriptors() -> list[str]:
    return [path.name for path in Path("/proc/self/fd").iterdir()]
