"""Requests of services as spans: the caller's trace, what a span tells, the context of the code within."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from ottla.config.errors import ConfigError
from ottla.config.telemetry_settings import OtlpTarget
from ottla.tracing import tracer
from ottla.tracing.trace_context import TraceContext, current_context
from ottla.tracing.tracer import Tracer
from ottla.web.traced_requests import traced
from support.telemetry.collector import Collector, running_collector

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


def ask(collector: Collector, *headers: tuple[bytes, bytes], status: int = 200, **scope: Any) -> Any:
    """One request; the context that its application saw."""
    seen: list[TraceContext | None] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(current_context())
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def send(_: Any) -> None:
        pass

    async def run() -> None:
        async with AsyncExitStack() as stack:
            wrapped = traced(app, Tracer("ottla-rest", OtlpTarget(collector.url)), stack)
            given = {
                "type": "http",
                "method": "POST",
                "path": "/topics/t",
                "query_string": b"secret=1",
                "scheme": "http",
                "headers": list(headers),
                **scope,
            }
            await wrapped(given, None, send)  # type: ignore[arg-type]

    asyncio.run(run())
    return seen[0]


def test_a_callers_trace_goes_on(collector: Collector) -> None:
    seen = ask(collector, (b"traceparent", f"00-{TRACE}-{SPAN}-01".encode()), (b"tracestate", b"v=1"))
    (taken,) = collector.wait_for(lambda: collector.spans)
    assert (taken.service, taken.span.name) == ("ottla-rest", "POST")
    assert (taken.trace_id, taken.span.parent_span_id.hex()) == (TRACE, SPAN)
    assert taken.attributes == {
        "http.request.method": "POST",
        "url.path": "/topics/t",
        "url.scheme": "http",
        "http.response.status_code": "200",
    }
    assert seen == TraceContext(TRACE, taken.span.span_id.hex(), 1, "v=1")


def test_without_a_caller_a_trace_begins(collector: Collector) -> None:
    seen = ask(collector)
    (taken,) = collector.wait_for(lambda: collector.spans)
    assert seen.trace_id == taken.trace_id and not taken.span.parent_span_id


@pytest.mark.parametrize(
    "headers",
    [
        [(b"traceparent", b"nonsense")],
        [(b"traceparent", f"00-{TRACE}-{SPAN}-01".encode())] * 2,
    ],
)
def test_a_malformed_caller_is_no_caller(collector: Collector, headers: list[tuple[bytes, bytes]]) -> None:
    seen = ask(collector, *headers)
    assert seen.trace_id != TRACE and seen.sampled


def test_a_caller_that_does_not_record_is_obeyed(collector: Collector) -> None:
    seen = ask(collector, (b"traceparent", f"00-{TRACE}-{SPAN}-00".encode()))
    assert seen.trace_id == TRACE and not seen.sampled
    ask(collector)
    collector.wait_for(lambda: collector.spans)
    assert TRACE not in {each.trace_id for each in collector.spans}


def test_an_error_is_marked_and_a_method_of_a_clients_own_makes_no_name(collector: Collector) -> None:
    ask(collector, status=500, method="BREW")
    (taken,) = collector.wait_for(lambda: collector.spans)
    assert taken.span.name == "HTTP" and taken.attributes["http.request.method"] == "_OTHER"
    assert taken.span.status.code == 2


def test_requests_are_answered_while_the_collector_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracer, "END_SECONDS", 0.1)
    away = Collector(port=9)
    assert ask(away) is not None


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import ottla.config.telemetry_settings as settings

    monkeypatch.setattr(settings.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'ottla\[telemetry\]'"):
        Tracer("x", OtlpTarget("http://127.0.0.1:1"))


def test_without_a_tracer_nothing_is_wrapped() -> None:
    async def run() -> None:
        async def app(*_: Any) -> None: ...

        async with AsyncExitStack() as stack:
            assert traced(app, None, stack) is app

    asyncio.run(run())
