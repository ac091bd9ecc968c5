"""Requests that offer another protocol, as Java's and hyper's clients do, are answered over HTTP/1.1."""

from __future__ import annotations

import asyncio
import random

import orjson
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.web.application import json_answer
from ottla.web.bodies import read_body
from ottla.web.front_settings import FrontOptions
from support.web.routes_service import RoutesService, Story, with_connection

OFFER = (
    b"Connection: Upgrade, HTTP2-Settings, keep-alive\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
)


async def told(request: Request) -> Response:
    """The method, the body and some headers of a request."""
    body = await read_body(request, 10_000_000)
    headers = {name: value for name, value in request.headers.items() if name in ("upgrade", "x-number")}
    return json_answer({"method": request.method, "body": body.decode(), **headers})


def play(story: Story, *, takes_http2: bool = False) -> None:
    async def run() -> None:
        routes = [Route("/a b", told, methods=["GET", "POST", "PUT"])]
        await with_connection(RoutesService(routes, FrontOptions(http2=takes_http2)), story)

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

    play(story, takes_http2=takes_http2)


def test_offers_in_a_pipeline_and_without_bodies_are_declined() -> None:
    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        one = b"GET /a%20b HTTP/1.1\r\nHost: localhost\r\n" + OFFER
        writer.write(one + b"X-Number: 1\r\n\r\n" + one + b"X-Number: 2\r\nContent-Length: 2\r\n\r\nok")
        assert await answer(reader) == (200, {"method": "GET", "body": "", "x-number": "1"})
        assert await answer(reader) == (200, {"method": "GET", "body": "ok", "x-number": "2"})

    play(story)


def test_thousands_of_offers_at_once_are_declined_one_after_the_other() -> None:
    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        one = b"GET /a%20b HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: h2c\r\n"
        count = 3_000
        writer.write(b"".join(one + b"X-Number: %d\r\n\r\n" % number for number in range(count)))
        for number in range(count):
            assert await answer(reader) == (200, {"method": "GET", "body": "", "x-number": str(number)})

    play(story)


def test_a_connect_is_no_offer() -> None:
    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"CONNECT somewhere:443 HTTP/1.1\r\nHost: somewhere:443\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert int(head.split()[1]) in (400, 404, 405)

    play(story)
