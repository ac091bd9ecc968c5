"""HTTP/2 on a service's listener: requests side by side, bodies both ways, and clients that do no good."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable

import h2.config
import h2.connection
import h2.errors
import h2.events
import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ottla.web import http2_protocol
from ottla.web.application import json_application
from ottla.web.front_settings import FrontOptions
from ottla.web.http_protocol import PREFACE
from ottla.web.request_figures import RequestFigures
from ottla.web.running import run_alone
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed
from support.clients.confluent import TIMEOUT_S

LONG = os.urandom(1 << 16)
Story = Callable[[HttpAddress, "EchoService"], Awaitable[None]]


class EchoService:
    """Echoes bodies, streams without end, and tells what it was asked."""

    name = "echo"

    def __init__(self, *, http2: bool) -> None:
        self.left = asyncio.Event()
        """A client of /endless is gone."""

        async def echo(request: Request) -> Response:
            return Response(await request.body(), headers={"x-told": request.url.query})

        async def told(request: Request) -> Response:
            version, host = request.scope["http_version"], request.headers["host"]
            return Response(f"{request.method} {request.url.path} {version} {host}")

        async def long(_: Request) -> Response:
            return Response(LONG * 200)

        async def endless(_: Request) -> Response:
            async def parts() -> AsyncIterator[bytes]:
                try:
                    while True:
                        yield b"row\n"
                        await asyncio.sleep(0.01)
                finally:
                    self.left.set()

            return StreamingResponse(parts())

        async def unread(_: Request) -> Response:
            return Response(b"no need", 403)

        async def broken(_: Request) -> Response:
            raise RuntimeError("meant to be")

        self.front = FrontOptions(http2=http2)
        self.app = json_application(
            [
                Route("/echo", echo, methods=["POST"]),
                Route("/told/{rest:path}", told),
                Route("/long", long),
                Route("/endless", endless),
                Route("/unread", unread, methods=["POST"]),
                Route("/broken", broken),
            ]
        )
        self.address: asyncio.Future[HttpAddress] = asyncio.get_running_loop().create_future()
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def start(self, address: HttpAddress) -> None:
        self.address.set_result(address)

    def observed(self, figures: RequestFigures) -> Observed:
        return Observed()

    def end_requests(self) -> None:
        pass

    async def failed(self) -> str:
        return await self.end

    async def stop(self) -> None:
        pass


def play(story: Story, *, http2: bool = True) -> None:
    async def run() -> None:
        service = EchoService(http2=http2)
        ready = asyncio.Event()
        running = asyncio.create_task(
            run_alone(service, [HttpAddress("127.0.0.1", 0)], lambda line: ready.set(), None)
        )
        address = await service.address
        async with asyncio.timeout(TIMEOUT_S):
            await ready.wait()
            await story(address, service)
            service.end.set_result("told to")
            assert await running == 1

    asyncio.run(run())


def client_of(address: HttpAddress) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        http1=False, http2=True, base_url=address.url, timeout=TIMEOUT_S, trust_env=False
    )


def test_requests_go_side_by_side_over_one_connection() -> None:
    async def story(address: HttpAddress, _: EchoService) -> None:
        async with client_of(address) as client:
            bodies = [os.urandom(size) for size in (0, 1, 16_384, 65_535, 65_536, 300_000, 2_000_000)] * 4
            asked = [client.post("/echo?n=1", content=each) for each in bodies]
            long = client.get("/long")
            *answers, last = await asyncio.gather(*asked, long)
            for body, answer in zip(bodies, answers, strict=True):
                assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
                assert answer.content == body
                assert answer.headers["x-told"] == "n=1"
            assert last.content == LONG * 200
            told = await client.get("/told/a%20b")
            assert told.text == f"GET /told/a b 2 {address.host}:{address.port}"
            head = await client.head("/told/x")
            assert (head.status_code, head.content) == (200, b"")

    play(story)


def test_http_1_goes_on_beside_it_and_nothing_else_begins_so() -> None:
    async def story(address: HttpAddress, _: EchoService) -> None:
        async with httpx.AsyncClient(base_url=address.url, trust_env=False) as client:
            assert (await client.get("/told/x")).text.startswith("GET /told/x 1.1")
        reader, writer = await asyncio.open_connection(address.host, address.port)
        for at in range(len(b"PROPFIND / HTTP/1.1\r\n\r\n")):  # its first letters are the preface's
            writer.write(b"PROPFIND / HTTP/1.1\r\n\r\n"[at : at + 1])
            await writer.drain()
            await asyncio.sleep(0)
        assert (await reader.readuntil(b"\r\n")).split()[1] in (b"405", b"404", b"400")
        writer.close()

    play(story)


def test_other_services_take_http_1_alone() -> None:
    async def story(address: HttpAddress, _: EchoService) -> None:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(PREFACE)
        assert (await reader.readuntil(b"\r\n")).split()[1] == b"400"
        writer.close()

    play(story, http2=False)


def test_a_client_that_leaves_ends_its_request_alone() -> None:
    async def story(address: HttpAddress, service: EchoService) -> None:
        raw = await Raw.to(address)
        number = raw.ask("/endless")
        await raw.until(h2.events.DataReceived)
        raw.h2.reset_stream(number)
        raw.flush()
        await service.left.wait()
        service.left.clear()
        raw.ask("/endless")
        raw.events.clear()
        await raw.until(h2.events.DataReceived)
        raw.writer.close()
        await service.left.wait()  # the connection is closed

    play(story)


def test_answers_that_need_no_body_and_those_that_fail() -> None:
    async def story(address: HttpAddress, _: EchoService) -> None:
        async with client_of(address) as client:
            refused = await client.post("/unread", content=b"z" * 10_000)
            assert (refused.status_code, refused.content) == (403, b"no need")
            failed = await client.get("/broken")
            assert failed.status_code == 500
            assert (await client.get("/nowhere")).status_code == 404

    play(story)


class Raw:
    """A client that does as it is told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.events: list[h2.events.Event] = []

    @classmethod
    async def to(cls, address: HttpAddress) -> Raw:
        made = cls(*await asyncio.open_connection(address.host, address.port))
        made.h2.initiate_connection()
        made.flush()
        return made

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def ask(self, path: str, *, end: bool = True) -> int:
        number = self.h2.get_next_available_stream_id()
        names = {":method": "GET", ":path": path, ":scheme": "http", ":authority": "localhost"}
        self.h2.send_headers(number, list(names.items()), end_stream=end)
        self.flush()
        return number

    async def until(self, kind: type[h2.events.Event]) -> h2.events.Event | None:
        """The first event of a kind; None at the end of the connection."""
        while True:
            for event in self.events:
                if isinstance(event, kind):
                    return event
            try:
                data = await self.reader.read(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                return None
            self.events += self.h2.receive_data(data)
            with contextlib.suppress(ConnectionError):
                self.flush()


def test_a_client_that_resets_without_end_is_sent_away() -> None:
    async def story(address: HttpAddress, _: EchoService) -> None:
        raw = await Raw.to(address)
        for _at in range(2 * http2_protocol.RESETS):
            number = raw.ask("/endless")
            raw.h2.reset_stream(number)
            raw.flush()
        ended = await raw.until(h2.events.ConnectionTerminated)
        assert ended is None or ended.error_code == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM  # type: ignore[attr-defined]
        async with client_of(address) as client:
            assert (await client.post("/echo", content=b"others")).content == b"others"

    play(story)


def test_an_answer_waits_for_a_client_that_takes_nothing() -> None:
    async def story(address: HttpAddress, service: EchoService) -> None:
        raw = await Raw.to(address)
        raw.h2.increment_flow_control_window(1 << 20)  # of the connection, so that one stream alone waits
        raw.ask("/long")
        raw.ask("/told/x")  # goes on beside the one that waits for its window
        while not any(isinstance(each, h2.events.StreamEnded) and each.stream_id == 3 for each in raw.events):
            raw.events += raw.h2.receive_data(await raw.reader.read(1 << 16))
        taken = sum(len(each.data or b"") for each in raw.events if isinstance(each, h2.events.DataReceived))
        assert taken <= 65_535 + 100
        raw.writer.close()

    play(story)


@pytest.mark.parametrize(
    "garbage", [b"\x00" * 100, b"\xff" * 300_000, b"\x00\x00\x04\x08\x00\x00\x00\x00\x00" + b"\0" * 4]
)
def test_bytes_that_are_no_frames_end_the_connection(garbage: bytes) -> None:
    async def story(address: HttpAddress, _: EchoService) -> None:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        for at in range(len(PREFACE)):
            writer.write(PREFACE[at : at + 1])
            await writer.drain()
        writer.write(garbage)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    play(story)


def test_silent_clients_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_protocol, "SILENT_SECONDS", 1.0)
    monkeypatch.setattr(http2_protocol, "LOOK_SECONDS", 0.05)

    async def story(address: HttpAddress, _: EchoService) -> None:
        idle, owing, waiting = await Raw.to(address), await Raw.to(address), await Raw.to(address)
        owing.ask("/echo", end=False)
        waiting.ask("/endless")
        assert await idle.until(h2.events.ConnectionTerminated) is None
        assert await owing.until(h2.events.ConnectionTerminated) is None
        for _at in range(250):  # its rows come for longer than others may be silent
            raw = await waiting.reader.read(1 << 16)
            assert raw

    play(story)


def test_a_stop_lets_answers_come_to_their_end() -> None:
    async def story(address: HttpAddress, service: EchoService) -> None:
        raw = await Raw.to(address)
        raw.ask("/told/x")
        assert await raw.until(h2.events.StreamEnded) is not None
        service.end.set_result("told to")
        ended = await raw.until(h2.events.ConnectionTerminated)
        assert ended is None or ended.error_code == h2.errors.ErrorCodes.NO_ERROR  # type: ignore[attr-defined]
        service.end = asyncio.get_running_loop().create_future()

    play(story)
