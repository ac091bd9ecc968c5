"""What a client may send without getting on, and how long it may be silent."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.metrics.endpoint import MetricsEndpoint
from ottla.metrics.settings import Address, EndpointOptions
from ottla.web import http_protocol
from ottla.web.application import json_answer
from ottla.web.bodies import parse_json, read_body
from ottla.web.errors import ApiError
from ottla.web.front_settings import FrontOptions
from ottla.web.running import Watched
from ottla.web.service_metrics import ServicesMetrics
from support.metrics.samples import by_labels, sample
from support.web.routes_service import RoutesService, Story, with_connection


async def echo(request: Request) -> Response:
    body = await read_body(request, 1_000_000)
    return json_answer(parse_json(body, ApiError(400, 40001, "not JSON")))


async def long(_request: Request) -> Response:
    return Response(b"x" * (64 << 20))


def play(story: Story, metrics: ServicesMetrics | None = None) -> None:
    """A story with a service that answers a POST with its body, JSON."""

    async def run() -> None:
        watched = None
        if metrics is not None:
            options = EndpointOptions(Address("127.0.0.1", 0))
            endpoint = MetricsEndpoint("ottla echo", options, metrics.exposition, metrics.health)
            watched = Watched(metrics, endpoint)
        routes = [Route("/", echo, methods=["POST"]), Route("/long", long)]
        await with_connection(RoutesService(routes, FrontOptions()), story, watched)

    asyncio.run(run())


async def status(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split()[1])


async def require_refusal(reader: asyncio.StreamReader) -> None:
    """The answer is 431 and then an end, with no reset, though the client never stopped sending."""
    assert await status(reader) == 431
    await reader.read()


@pytest.mark.parametrize(
    "piece", [b"x: y\r\n", b"z" * 1_000], ids=["headers without an end", "a header without an end"]
)
def test_endless_headers_end_the_connection(piece: bytes) -> None:
    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\n")
        writer.write(piece * (40 * http_protocol.HEAD_BYTES // len(piece)))
        await require_refusal(reader)

    play(story)


def test_an_endless_url_and_endless_trailers_end_the_connection() -> None:
    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"GET /" + b"a" * (40 * http_protocol.HEAD_BYTES))
        await require_refusal(reader)

    async def trailers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n7\r\n")
        writer.write(b"0\r\n")
        await writer.drain()
        for _ in range(100):
            writer.write(b"t: u\r\n" * 1_000)
            await asyncio.sleep(0)
        await require_refusal(reader)

    play(story)
    play(trailers)


def test_what_is_no_http_is_told_in_json() -> None:
    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x16\x03\x01 hello\r\n\r\n")
        assert await status(reader) == 400
        assert b'"error_code":400' in await reader.read()

    play(story)


def test_requests_that_go_on_meet_no_bound() -> None:
    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = b"[" + b",".join(b"1" for _ in range(400_000)) + b"]"
        for _ in range(3):
            writer.write(
                b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            )
            assert await status(reader) == 200
            assert await reader.readexactly(len(body)) == body

    play(story)


@pytest.mark.parametrize(
    "claimed",
    [b"Content-Length: 1000001\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"],
    ids=["said", "unsaid"],
)
def test_a_body_that_is_too_large_is_refused(claimed: bytes) -> None:
    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\n" + claimed)
        for _ in range(20):
            writer.write(b"%x\r\n" % 100_000 + b" " * 100_000 + b"\r\n")
        assert await status(reader) == 413

    play(story)


@pytest.mark.parametrize(
    "begun",
    [b"", b"POST / HT", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n[1"],
    ids=["nothing", "a part of a head", "a part of a body"],
)
def test_silence_ends_the_connection(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.1)
    monkeypatch.setattr(http_protocol, "BODY_SECONDS", 0.1)

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(begun)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)

    play(story)


def test_who_takes_no_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(http_protocol, "UNREAD_SECONDS", 0.2)

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()
        writer.write(b"GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n")
        # a write fails once the other side has gone
        with pytest.raises(ConnectionError):
            while True:
                writer.write(b"\r\n")
                await writer.drain()
                await asyncio.sleep(0.01)

    play(story)


def test_connections_and_refused_heads_are_counted() -> None:
    metrics = ServicesMetrics("ottla echo")

    def refused() -> dict[tuple[str, ...], float]:
        return by_labels(metrics.exposition.text(), "ottla_http_refused_total", "reason")

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert sample(metrics.exposition.text(), "ottla_http_connections", service="echo") == 1
        writer.write(b"GET /" + b"a" * (40 * http_protocol.HEAD_BYTES))
        await require_refusal(reader)
        assert refused() == {("head_bytes",): 1}

    async def malformed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"this is no HTTP\r\n\r\n")
        assert await status(reader) == 400
        assert refused() == {("head_bytes",): 1, ("malformed",): 1}

    for story in (endless, malformed):
        play(story, metrics)
    text = metrics.exposition.text()
    assert sample(text, "ottla_http_connections", service="echo") == 0
    assert sample(text, "ottla_http_connections_opened_total", service="echo") == 2
    assert sample(text, "ottla_service_starts_total", service="echo") == 2
