"""What every request passes first: its host, CORS, gzip both ways, and the end of requests at a stop."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import random
import zlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from ottla.web import compression, front
from ottla.web.application import json_answer, json_application
from ottla.web.bodies import read_body
from ottla.web.compression import MIN_ANSWER_BYTES, UnfoldedBody, accepts_gzip
from ottla.web.errors import ApiError
from ottla.web.front import Front
from ottla.web.front_settings import FrontOptions
from ottla.web.hosts import AllowedHosts

LOOPBACK = "127.0.0.1"
PORT = 8082
LIMIT_BYTES = 1 << 20
ORIGIN = {"origin": "https://app.example.com"}


def application() -> ASGIApp:
    async def sized(request: Request) -> Response:
        return json_answer("x" * (int(request.path_params["size"]) - 2))

    async def echo(request: Request) -> Response:
        return Response(await read_body(request, LIMIT_BYTES), media_type="application/octet-stream")

    async def missing(_request: Request) -> Response:
        raise ApiError(404, 40401, "Topic not found.")

    async def stream(_request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            for place in range(3):
                yield b'{"offset":%d}\n' % place

        return StreamingResponse(pieces(), media_type="application/json")

    return json_application(
        [
            Route("/size/{size}", sized, methods=["GET", "POST"]),
            Route("/echo", echo, methods=["POST"]),
            Route("/missing", missing),
            Route("/stream", stream),
        ]
    )


def ask(
    method: str, path: str, options: FrontOptions | None = None, listener: str = LOOPBACK, **request: Any
) -> httpx.Response:
    """One request to a front, by default without any Accept-Encoding."""

    async def asked() -> httpx.Response:
        app = Front(application(), options or FrontOptions(), [(listener, PORT)])
        server = f"[{listener}]" if ":" in listener else listener
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{server}:{PORT}") as client:
            request["headers"] = {"accept-encoding": "identity", **request.get("headers", {})}
            return await client.request(method, path, **request)

    return asyncio.run(asked())


# -- hosts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost:8082",
        "rest.localhost:1",
        "localhost.:80",
        "127.0.0.1",
        "127.0.0.1:8082",
        "192.168.1.7:80",
        "[::1]:8082",
        "[fe80::1]",
        "the-machine",
        "THE-MACHINE:8082",
        "proxy.example:443",
        "a.b.inner.example",
        "given.example",
    ],
)
def test_hosts_that_a_listener_on_loopback_takes(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "The-Machine")
    options = FrontOptions(hosts=("proxy.example", "*.inner.example"), host_name="given.example")
    assert ask("GET", "/size/9", options, headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8082",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "notlocalhost",
        "inner.example",
        "evilinner.example",
        "",
        "127.0.0.1:8082:1",
        "[evil.example]",
        "localhost@evil.example",
        "local host",
    ],
)
def test_hosts_that_only_rebinding_or_a_proxy_can_name_are_refused_on_loopback(host: str) -> None:
    options = FrontOptions(hosts=("*.inner.example",))
    answer = ask("GET", "/size/9", options, headers={"host": host})
    assert (answer.status_code, answer.json()["error_code"]) == (421, 421)
    assert "ottla.http.hosts" in answer.json()["message"]


@pytest.mark.parametrize("listener", ["0.0.0.0", "::", "10.0.0.5"])
def test_other_listeners_take_every_host_unless_hosts_are_configured(listener: str) -> None:
    for host in ("rest", "rest.default.svc.cluster.local:8082", "evil.example"):
        assert ask("GET", "/size/9", None, listener, headers={"host": host}).status_code == 200
    configured = FrontOptions(hosts=("rest",))
    assert ask("GET", "/size/9", configured, listener, headers={"host": "rest:8082"}).status_code == 200
    assert ask("GET", "/size/9", configured, listener, headers={"host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(("listener", "loopback"), [("127.8.9.1", True), ("::1", True), ("x", False)])
def test_loopback_is_any_address_of_it(listener: str, loopback: bool) -> None:
    status = ask("GET", "/size/9", None, listener, headers={"host": "evil.example"}).status_code
    assert status == (421 if loopback else 200)


def test_each_of_several_listeners_has_its_own_rule() -> None:
    async def asked(server: str) -> int:
        app = Front(application(), FrontOptions(), [(LOOPBACK, PORT), ("10.0.0.5", PORT), ("0.0.0.0", 80)])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{server}") as client:
            return (await client.get("/size/9", headers={"host": "rest"})).status_code

    assert asyncio.run(asked(f"{LOOPBACK}:{PORT}")) == 421
    assert asyncio.run(asked(f"10.0.0.5:{PORT}")) == 200
    # reached through a loopback address, but open to others: a proxy on this machine may pass any name on
    assert asyncio.run(asked(f"{LOOPBACK}:80")) == 200


def test_any_host_may_be_configured() -> None:
    assert AllowedHosts.of(("*",), (), loopback=True).allows("evil.example")


def test_a_request_of_http_1_1_without_a_host_is_refused() -> None:
    async def asked(version: str) -> int:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "http_version": version,
            "method": "GET",
            "path": "/size/9",
            "raw_path": b"/size/9",
            "query_string": b"",
            "headers": [],
            "server": (LOOPBACK, PORT),
        }
        await Front(application(), FrontOptions(), [(LOOPBACK, PORT)])(scope, receive, send)
        found: int = sent[0]["status"]
        return found

    assert asyncio.run(asked("1.1")) == 400
    assert asyncio.run(asked("1.0")) == 200


# -- CORS --------------------------------------------------------------------------------------------


def allowed_origin(origins: tuple[str, ...], origin: str) -> str | None:
    answer = ask("GET", "/size/9", FrontOptions(origins=origins), headers={"origin": origin})
    assert answer.status_code == 200
    assert (answer.headers.get("vary") == "Origin") is bool(origins)
    found: str | None = answer.headers.get("access-control-allow-origin")
    assert (answer.headers.get("access-control-allow-credentials") == "true") is (found is not None)
    return found


def test_without_the_setting_no_answer_has_headers_of_cors() -> None:
    assert allowed_origin((), "https://app.example.com") is None
    preflight = {**ORIGIN, "access-control-request-method": "GET"}
    answer = ask("OPTIONS", "/size/9", headers=preflight)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        (("*",), "https://app.example.com", True),
        (("*",), "null", True),
        (("https://app.example.com",), "https://app.example.com", True),
        (("https://app.example.com",), "https://app.example.com:444", False),
        (("https://app.example.com",), "http://app.example.com", False),
        (("https://*.example.com", "http://localhost:3000"), "https://a.b.example.com", True),
        (("https://*.example.com", "http://localhost:3000"), "http://localhost:3000", True),
        (("https://*.example.com",), "https://example.com", False),
        (("https://*.example.com",), "https://evil.test/.example.com", False),
        (("https://*.example.com",), "https://xexample.com", False),
        (("https://app.example.com",), "https://appxexample.com", False),
    ],
)
def test_an_origin_is_allowed_by_its_name_or_a_pattern(
    origins: tuple[str, ...], origin: str, allowed: bool
) -> None:
    assert allowed_origin(origins, origin) == (origin if allowed else None)


def test_errors_and_streams_have_the_headers_too() -> None:
    options = FrontOptions(origins=("*",), exposed_headers=("Location", "X-Forward"))
    for path, status in (("/missing", 404), ("/stream", 200), ("/nothing", 404)):
        answer = ask("GET", path, options, headers=ORIGIN)
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == ORIGIN["origin"]
        assert answer.headers["access-control-expose-headers"] == "Location,X-Forward"


def test_a_preflight_request_is_answered_for_the_application() -> None:
    options = FrontOptions(origins=("https://app.example.com",), methods=("GET", "PUT"), headers=("X-One",))
    asked = {**ORIGIN, "access-control-request-method": "PUT", "access-control-request-headers": "x-one"}
    answer = ask("OPTIONS", "/nothing", options, headers=asked)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["access-control-allow-origin"] == ORIGIN["origin"]
    assert answer.headers["access-control-allow-methods"] == "GET,PUT"
    assert answer.headers["access-control-allow-headers"] == "X-One"
    assert answer.headers["access-control-max-age"] == "1800"


@pytest.mark.parametrize(
    "change",
    [
        {"access-control-request-method": "DELETE"},
        {"access-control-request-headers": "x-one, x-two"},
    ],
)
def test_a_preflight_request_for_more_than_is_allowed_gets_no_permission(change: dict[str, str]) -> None:
    options = FrontOptions(origins=("*",), methods=("GET", "PUT"), headers=("X-One",))
    asked = {**ORIGIN, "access-control-request-method": "PUT", **change}
    answer = ask("OPTIONS", "/size/9", options, headers=asked)
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_any_header_may_be_allowed() -> None:
    options = FrontOptions(origins=("*",), headers=("*",))
    asked = {
        **ORIGIN,
        "access-control-request-method": "POST",
        "access-control-request-headers": "x-a, authorization",
    }
    answer = ask("OPTIONS", "/size/9", options, headers=asked)
    assert answer.headers["access-control-allow-headers"] == "x-a,authorization"


# -- gzip --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("GZIP, deflate, br", True),
        ("br;q=1.0, gzip;q=0.5", True),
        ("*", True),
        ("x-gzip", True),
        ("gzip;q=0", False),
        ("*, gzip;q=0", False),
        ("identity", False),
        ("", False),
        ("br", False),
    ],
)
def test_accept_encoding(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted
    answer = ask("GET", "/size/4000", headers={"accept-encoding": header})
    assert (answer.headers.get("content-encoding") == "gzip") is accepted
    assert answer.json() == "x" * 3_998


def test_answers_are_compressed_from_a_size_on() -> None:
    accepting = {"accept-encoding": "gzip"}
    small = ask("GET", f"/size/{MIN_ANSWER_BYTES - 1}", headers=accepting)
    assert "content-encoding" not in small.headers
    assert int(small.headers["content-length"]) == MIN_ANSWER_BYTES - 1
    large = ask("POST", f"/size/{1 << 20}", headers=accepting)
    assert large.headers["content-encoding"] == "gzip" and large.headers["vary"] == "Accept-Encoding"
    assert "content-length" not in large.headers
    assert len(large.json()) == (1 << 20) - 2
    assert "content-encoding" not in ask("HEAD", "/size/9000", headers=accepting).headers
    off = FrontOptions(compression=False)
    assert "content-encoding" not in ask("GET", "/size/9000", off, headers=accepting).headers


def test_each_piece_of_a_stream_can_be_read_once_it_was_sent() -> None:
    async def run() -> None:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        answer = compression.GzippedAnswer(send)
        headers = [(b"content-type", b"application/json")]
        await answer.send({"type": "http.response.start", "status": 200, "headers": headers})
        reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
        for place in range(5):
            piece = b'{"offset":%d}\n' % place
            await answer.send({"type": "http.response.body", "body": piece, "more_body": True})
            assert reader.decompress(sent[-1]["body"]) == piece
        await answer.send({"type": "http.response.body", "body": b"", "more_body": False})
        assert reader.decompress(sent[-1]["body"]) == b"" and reader.eof
        assert not sent[-1]["more_body"]

    asyncio.run(run())


def unfolded(pieces: list[bytes]) -> tuple[list[bytes], bool]:
    """What a reader of these pieces of a body gets, and whether it was told the end."""

    async def run() -> tuple[list[bytes], bool]:
        waiting = list(pieces)

        async def receive() -> Message:
            piece = waiting.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(waiting)}

        body = UnfoldedBody(receive)
        found: list[bytes] = []
        while True:
            message = await body.receive()
            found.append(message["body"])
            if not message["more_body"]:
                return found, not waiting

    return asyncio.run(run())


@pytest.mark.parametrize("seed", range(20))
def test_a_body_in_gzip_is_unfolded_however_it_is_cut(seed: int) -> None:
    rng = random.Random(seed)
    plain = rng.choice([b"", b"x", bytes(1 << 20), rng.randbytes(300_000), b"0123456789" * 60_000])
    members = [plain] if seed % 3 else [plain[: len(plain) // 3], plain[len(plain) // 3 :]]
    folded = b"".join(gzip.compress(member, rng.randrange(10)) for member in members)
    cuts = sorted(rng.randrange(len(folded) + 1) for _ in range(rng.randrange(6)))
    pieces = [folded[low:high] for low, high in zip([0, *cuts], [*cuts, len(folded)], strict=True)]
    found, ended = unfolded(pieces)
    assert b"".join(found) == plain and ended
    assert max(map(len, found)) <= compression.UNFOLDED_PIECE_BYTES


def test_the_bound_on_a_body_counts_what_it_unfolds_to() -> None:
    headers = {"content-encoding": "gzip"}
    fits = ask("POST", "/echo", content=gzip.compress(bytes(LIMIT_BYTES)), headers=headers)
    assert fits.content == bytes(LIMIT_BYTES)
    bomb = gzip.compress(bytes(64 << 20))
    assert len(bomb) < LIMIT_BYTES // 10
    assert ask("POST", "/echo", content=bomb, headers=headers).status_code == 413


@pytest.mark.parametrize(
    "folded",
    [b"not gzip", gzip.compress(b"x" * 999)[:-1], gzip.compress(b"x") + b"more", gzip.compress(b"x")[:5]],
)
def test_a_body_that_is_not_gzip_is_refused(folded: bytes) -> None:
    answer = ask("POST", "/echo", content=folded, headers={"content-encoding": "gzip"})
    assert answer.status_code == 400 and "not gzip" in answer.json()["message"]


def test_other_encodings_of_bodies_are_refused() -> None:
    answer = ask("POST", "/echo", content=b"x", headers={"content-encoding": "br"})
    assert answer.status_code == 415 and answer.headers["accept-encoding"] == "gzip"
    assert ask("POST", "/echo", content=b"x", headers={"content-encoding": "identity"}).content == b"x"


# -- the end -----------------------------------------------------------------------------------------


def test_requests_that_do_not_end_are_answered_with_503_and_others_end_by_themselves(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(front, "DRAIN_SECONDS", 0.2)
    goes_on = asyncio.Event()
    begun = asyncio.Barrier(4)

    async def endless(_request: Request) -> Response:
        await begun.wait()
        await asyncio.Event().wait()
        raise AssertionError

    async def short(_request: Request) -> Response:
        await begun.wait()
        await goes_on.wait()
        return json_answer({})

    async def run() -> None:
        routes = [Route("/endless", endless), Route("/short", short)]
        app = Front(json_application(routes), FrontOptions(), [(LOOPBACK, PORT)])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            asked = [asyncio.create_task(client.get(path)) for path in ("/endless", "/endless", "/short")]
            await begun.wait()
            asyncio.get_running_loop().call_soon(goes_on.set)
            await app.drain()
            answers = [await each for each in asked]
        assert [answer.status_code for answer in answers] == [503, 503, 200]
        assert answers[0].json() == {"error_code": 503, "message": "The service is stopping"}
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(app.drain(), 5)

    asyncio.run(run())
    assert [record.getMessage() for record in caplog.records] == [
        "2 requests were cut off, as they did not end in time"
    ]
