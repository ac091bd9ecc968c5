"""Requests that offer another protocol, as Java's and hyper's clients do, are answered over HTTP/1.1."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import orjson
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.web.application import json_answer, json_application
from ottla.web.bodies import read_body
from ottla.web.front_settings import FrontOptions
from ottla.web.request_figures import RequestFigures
from ottla.web.running import run_alone
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed
from support.clients.confluent import TIMEOUT_S

OFFER = (
    b"Connection: Upgrade, HTTP2-Settings, keep-alive\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
)
Story = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Mirror:
    """Tells the method, the body and the headers of each request."""

    name = "mirror"

    def __init__(self, *, takes_http2: bool) -> None:
        async def told(request: Request) -> Response:
            body = await read_body(request, 10_000_000)
            headers = {
                name: value for name, value in request.headers.items() if name in ("upgrade", "x-number")
            }
            return json_answer({"method": request.method, "body": body.decode(), **headers})

        self.front = FrontOptions(http2=takes_http2)
        self.app = json_application([Route("/a b", told, methods=["GET", "POST", "PUT"])])
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


def with_connection(story: Story, *, takes_http2: bool = False) -> None:
    async def run() -> None:
        service = Mirror(takes_http2=takes_http2)
        running = asyncio.create_task(
            run_alone(service, [HttpAddress("127.0.0.1", 0)], lambda line: None, None)
        )
        address = await service.address
        while True:
            try:
                reader, writer = await asyncio.open_connection(address.host, address.port)
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)
        async with asyncio.timeout(TIMEOUT_S):
            await story(reader, writer)
        writer.close()
        service.end.set_result("told to")
        assert await running == 1

    asyncio.run(run())


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """A status and a body."""
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    return int(head.split()[1]), orjson.loads(await reader.readexactly(int(length.split()[1])))


def request_of(dice: random.Random, number: int, body: str) -> bytes:
    """A request with a body of any form, with an offer or without."""
    offer = OFFER if dice.random() < 0.7 else b""
    head = b"%s /a%%20b HTTP/1.1\r\nHost: localhost\r\nX-Number: %d\r\n%s" % (
        dice.choice([b"POST", b"PUT"]),
        number,
        offer,
    )
    content = body.encode()
    if dice.random() < 0.5:
        return head + b"Content-Length: %d\r\n\r\n%s" % (len(content), content)
    parts, rest = b"", content
    while rest:
        size = dice.randrange(1, len(rest) + 1)
        parts, rest = parts + b"%x\r\n%s\r\n" % (size, rest[:size]), rest[size:]
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n"


@pytest.mark.parametrize("takes_http2", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_bodies_behind_an_offer_arrive_whole(seed: int, takes_http2: bool) -> None:
    dice = random.Random(seed)
    sizes = [dice.choice([0, 1, 50, 5_000, 300_000]) for _ in range(6)]
    bodies = ["".join(dice.choices("aä\r\n: ", k=size)) for size in sizes]
    requests = [request_of(dice, number, body) for number, body in enumerate(bodies)]

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number, (body, data) in enumerate(zip(bodies, requests, strict=True)):
            while data:
                size = dice.choice([1, 60, 1_000, 100_000, len(data)])
                writer.write(data[:size])
                await writer.drain()
                data = data[size:]
            status, told = await answer(reader)
            assert (status, told["body"], told["x-number"]) == (200, body, str(number))
            assert "upgrade" not in told

    with_connection(story, takes_http2=takes_http2)


def test_offers_in_a_pipeline_and_without_bodies_are_declined() -> None:
    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        one = b"GET /a%20b HTTP/1.1\r\nHost: localhost\r\n" + OFFER
        writer.write(one + b"X-Number: 1\r\n\r\n" + one + b"X-Number: 2\r\nContent-Length: 2\r\n\r\nok")
        assert await answer(reader) == (200, {"method": "GET", "body": "", "x-number": "1"})
        assert await answer(reader) == (200, {"method": "GET", "body": "ok", "x-number": "2"})

    with_connection(story)


def test_thousands_of_offers_at_once_are_declined_one_after_the_other() -> None:
    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        one = b"GET /a%20b HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: h2c\r\n"
        count = 3_000
        writer.write(b"".join(one + b"X-Number: %d\r\n\r\n" % number for number in range(count)))
        for number in range(count):
            assert await answer(reader) == (200, {"method": "GET", "body": "", "x-number": str(number)})

    with_connection(story)


def test_a_connect_is_no_offer() -> None:
    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"CONNECT somewhere:443 HTTP/1.1\r\nHost: somewhere:443\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert int(head.split()[1]) in (400, 404, 405)

    with_connection(story)
