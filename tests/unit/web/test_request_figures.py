"""The figures of requests through a front: exact counts by route, bounded for drawn paths."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections import Counter
from urllib.parse import quote

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message

from ottla.metrics.health import Check, Verdict
from ottla.web.application import json_answer, json_application
from ottla.web.bodies import read_body
from ottla.web.errors import ApiError
from ottla.web.front import Front
from ottla.web.front_settings import FrontOptions
from ottla.web.request_figures import (
    MAX_ERROR_CODES,
    NO_ANSWER,
    RATE_SECONDS,
    UNMATCHED,
    RecentEvents,
    Refusal,
    RequestFigures,
    RequestMeasure,
)
from ottla.web.service_metrics import Observed, ServicesMetrics
from support.metrics.samples import by_labels, sample

PORT = 8082
LIMIT_BYTES = 1_000


async def _named(request: Request) -> Response:
    return json_answer({"name": request.path_params["name"]})


async def _echo(request: Request) -> Response:
    return Response(await read_body(request, LIMIT_BYTES))


async def _error(request: Request) -> Response:
    code = int(request.path_params["code"])
    raise ApiError(code // 100 if code > 999 else code, code, "no")


async def _streamed(_request: Request) -> Response:
    async def pieces():  # type: ignore[no-untyped-def]
        for _ in range(3):
            yield b"12345"

    return StreamingResponse(pieces())


async def _broken(_request: Request) -> Response:
    raise RuntimeError("a fault")


ROUTES = (
    ("/names/{name:path}", _named, "GET"),
    ("/echo", _echo, "POST"),
    ("/errors/{code}", _error, "GET"),
    ("/stream", _streamed, "GET"),
    ("/broken", _broken, "GET"),
)


def front(figures: RequestFigures | None, options: FrontOptions | None = None) -> Front:
    routes = [Route(path, endpoint, methods=[method]) for path, endpoint, method in ROUTES]
    return Front(json_application(routes), options or FrontOptions(), [("127.0.0.1", PORT)], figures)


def asked(figures: RequestFigures, *requests: tuple[str, str], **given: object) -> list[httpx.Response]:
    async def run() -> list[httpx.Response]:
        transport = httpx.ASGITransport(front(figures), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{PORT}") as client:
            return [await client.request(method, path, **given) for method, path in requests]  # type: ignore[arg-type]

    return asyncio.run(run())


async def never() -> Message:
    raise AssertionError("nobody reads a body")


def test_requests_are_counted_by_route_method_and_status() -> None:
    figures = RequestFigures()
    asked(
        figures,
        *[("GET", f"/names/{each}") for each in range(5)],
        ("HEAD", "/names/a/b"),
        ("GET", "/stream"),
        ("GET", "/errors/40401"),
        ("GET", "/errors/40401"),
        ("GET", "/errors/429"),
        ("GET", "/nowhere"),
        ("DELETE", "/echo"),
        ("GET", "/broken"),
    )
    counted = {key: dict(each.statuses) for key, each in figures.operations.items()}
    assert counted == {
        ("/names/{name}", "GET"): {200: 5},
        ("/names/{name}", "HEAD"): {200: 1},
        ("/stream", "GET"): {200: 1},
        ("/errors/{code}", "GET"): {404: 2, 429: 1},
        (UNMATCHED, "GET"): {404: 1},
        (UNMATCHED, "DELETE"): {405: 1},
        ("/broken", "GET"): {500: 1},
    }
    assert dict(figures.errors) == {40401: 2, 429: 1, 404: 1, 405: 1, 50001: 1}
    assert dict(figures.refused) == {Refusal.BOUNDS: 1}
    assert figures.operations["/stream", "GET"].response_bytes == 15
    assert figures.in_flight == 0
    assert figures.times().count == figures.statuses().total() == 13


def test_bytes_are_counted_as_they_are_on_the_wire() -> None:
    figures = RequestFigures()
    folded = gzip.compress(b"x" * 900)
    asked(figures, ("POST", "/echo"), content=folded, headers={"content-encoding": "gzip"})
    asked(figures, ("POST", "/echo"), content=b"y" * (LIMIT_BYTES + 1))
    counted = figures.operations["/echo", "POST"]
    assert dict(counted.statuses) == {200: 1, 413: 1}
    # The second one was refused by its length, before a byte of it was read.
    assert counted.request_bytes == len(folded)
    assert counted.response_bytes > 900
    assert dict(figures.refused) == {Refusal.BODY_BYTES: 1}


def test_a_refused_host_is_counted_as_one() -> None:
    figures = RequestFigures()
    asked(figures, ("GET", "/names/a"), headers={"host": "evil.example.com"})
    assert dict(figures.refused) == {Refusal.HOST: 1}
    assert list(figures.operations) == [(UNMATCHED, "GET")]


def test_a_request_without_a_host_is_counted_as_refused_for_it() -> None:
    figures = RequestFigures()
    scope = {"type": "http", "method": "GET", "path": "/", "scheme": "http", "http_version": "1.1"}

    async def run() -> None:
        async def ignored(_message: Message) -> None:
            pass

        await front(figures)({**scope, "headers": []}, never, ignored)

    asyncio.run(run())
    assert dict(figures.refused) == {Refusal.HOST: 1}
    assert dict(figures.errors) == {400: 1}


def test_thousands_of_drawn_paths_make_a_handful_of_series() -> None:
    figures = RequestFigures()
    draw = random.Random(7)
    letters = 'abc/{}%é"\\\n?;=0123456789'
    methods_drawn = ["GET", "POST", "DELETE", "OPTIONS", "PROPFIND", "BREW"]
    requests: list[tuple[str, str]] = []
    for _ in range(3_000):
        path = quote("".join(draw.choice(letters) for _ in range(draw.randrange(1, 30))))
        method = draw.choice([*methods_drawn, f"X{draw.randrange(1_000_000)}"])
        requests.append((method, draw.choice(["/names/", "/errors/x", "/", "/echo"]) + path))
    answers = asked(figures, *requests)
    routes = {route for route, _ in figures.operations}
    methods = {method for _, method in figures.operations}
    assert routes <= {UNMATCHED, *(path.replace(":path", "") for path, _, _ in ROUTES)}
    assert methods <= {"GET", "POST", "DELETE", "OPTIONS", "other"}
    assert figures.statuses() == Counter(answer.status_code for answer in answers)
    assert figures.times().count == len(requests)


def test_error_codes_that_are_drawn_are_bounded() -> None:
    figures = RequestFigures()
    for code in range(10_000, 10_000 + 3 * MAX_ERROR_CODES):
        measure = figures.begin({})
        measure.sent({"type": "http.response.start", "status": 400, "headers": []})
        measure.sent({"type": "http.response.body", "body": b'{"error_code":%d,"message":"x"}' % code})
        figures.end("GET", measure)
    assert len(figures.errors) == MAX_ERROR_CODES + 1
    assert figures.errors.total() == 3 * MAX_ERROR_CODES
    assert figures.errors[0] == 2 * MAX_ERROR_CODES


def test_a_request_whose_client_went_away_has_a_status_of_its_own() -> None:
    figures = RequestFigures()
    figures.end("GET", figures.begin({}))
    assert dict(figures.operations[UNMATCHED, "GET"].statuses) == {NO_ANSWER: 1}


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [(401, 401, "authentication"), (403, 40301, "access"), (431, 431, "head_bytes"), (503, 503, "bounds"),
     (503, 50003, None), (404, 40401, None), (500, 50001, None)],
)  # fmt: skip
def test_refusals_are_told_from_other_errors(status: int, code: int, expected: str | None) -> None:
    figures = RequestFigures()
    measure = RequestMeasure()
    measure.status, measure.error_code = status, code
    figures.end("GET", measure)
    assert [str(each) for each in figures.refused] == ([] if expected is None else [expected])


def test_the_rate_is_that_of_the_window() -> None:
    second = 1_000_000_000
    events = RecentEvents()
    for at in range(100):
        for _ in range(3):
            events.add(at * second)
    assert events.rate(99 * second) == 3.0
    assert events.rate((99 + RATE_SECONDS // 2) * second) == 1.5
    assert events.rate((99 + RATE_SECONDS) * second) == 0.0


def test_without_metrics_nothing_is_kept() -> None:
    async def run() -> None:
        transport = httpx.ASGITransport(front(None))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{PORT}") as client:
            assert (await client.get("/names/a")).status_code == 200

    asyncio.run(run())


def test_counters_go_on_when_a_service_is_started_anew() -> None:
    metrics = ServicesMetrics("ottla test")
    for expected in (1, 2):
        with metrics.run_of("some", lambda figures: Observed()) as runs:
            runs.ready()
            asked(runs.figures, ("GET", "/names/x"))
            text = metrics.exposition.text()
            labels = {"service": "some", "route": "/names/{name}", "method": "GET", "status": "200"}
            assert sample(text, "ottla_http_requests_total", **labels) == expected
            assert sample(text, "ottla_service_up", service="some") == 1
            assert sample(text, "ottla_service_starts_total", service="some") == expected
    assert sample(metrics.exposition.text(), "ottla_service_up", service="some") == 0


def test_readiness_follows_a_service_through_its_life() -> None:
    async def story() -> None:
        metrics = ServicesMetrics("ottla test")
        metrics.add("some")

        async def reasons() -> dict[str, tuple[bool, str]]:
            report = await metrics.health.is_ready()
            return {name: tuple(verdict) for name, verdict in report.results}

        assert await reasons() == {"some": (False, "it has not been started yet")}
        own = Observed(checks=[Check("some-topic", lambda: Verdict(False, "at offset 3 of 9"))])
        with (
            pytest.raises(RuntimeError, match="no cluster"),
            metrics.run_of("some", lambda figures: own),
        ):
            starting = {"some": (False, "it starts"), "some-topic": (False, "at offset 3 of 9")}
            assert await reasons() == starting
            raise RuntimeError("no cluster")
        assert await reasons() == {"some": (False, "it could not be started, or has ended: no cluster")}
        with metrics.run_of("some", lambda figures: Observed()) as runs:
            runs.ready()
            assert await reasons() == {"some": (True, "it answers requests")}
        assert await reasons() == {"some": (False, "it has ended")}

    asyncio.run(story())


def test_one_service_that_fails_to_tell_does_not_hide_the_others() -> None:
    metrics = ServicesMetrics("ottla test")

    def failing():  # type: ignore[no-untyped-def]
        raise ValueError("no figures")

    with (
        metrics.run_of("bad", lambda figures: Observed(failing)),
        metrics.run_of("good", lambda _: Observed()),
    ):
        text = metrics.exposition.text()
    assert by_labels(text, "ottla_service_up", "service") == {("bad",): 0, ("good",): 0}
    assert sample(text, "ottla_metrics_source_errors_total") == 1
