"""The context of a trace in headers: read, refused, written, current while a request is handled."""

from __future__ import annotations

import pytest

from ottla.tracing.trace_context import (
    TraceContext,
    current_context,
    parse_traceparent,
    request_headers,
    trace_headers,
    with_trace,
    within,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"


def test_a_context_is_written_as_it_was_read() -> None:
    context = parse_traceparent(f" {GOOD} ", "vendor=1")
    assert context == TraceContext(TRACE, SPAN, 1, "vendor=1")
    assert context.sampled and context.traceparent == GOOD
    assert trace_headers(context) == [("traceparent", GOOD.encode()), ("tracestate", b"vendor=1")]


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    found = parse_traceparent(f"cc-{TRACE}-{SPAN}-03-more")
    assert found is not None and found.traceparent == GOOD


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        GOOD + "\n" + GOOD,
    ],
)
def test_a_malformed_context_is_none(text: str) -> None:
    assert parse_traceparent(text) is None


@pytest.mark.parametrize("state", ["x" * 513, "a=\n", "a=é"])
def test_a_tracestate_that_can_not_be_passed_on_is_left_out(state: str) -> None:
    found = parse_traceparent(GOOD, state)
    assert found is not None and found.state == ""


def test_a_record_keeps_the_trace_that_it_names_itself() -> None:
    added = trace_headers(TraceContext(TRACE, SPAN, 1))
    assert with_trace(None, added) == added
    assert with_trace([("a", b"b")], added) == [("a", b"b"), *added]
    own = [("traceparent", b"mine")]
    assert with_trace(own, added) == own


def test_a_context_is_current_within_its_block_only() -> None:
    context = TraceContext(TRACE, SPAN, 1)
    assert current_context() is None
    with within(context):
        assert current_context() is context
    assert current_context() is None


def test_requests_that_are_sent_go_on_with_the_trace_under_way() -> None:
    assert request_headers() == {}
    with within(TraceContext(TRACE, SPAN, 1, "v=1")):
        assert request_headers() == {"traceparent": GOOD, "tracestate": "v=1"}
    with within(TraceContext(TRACE, SPAN, 0)):
        assert request_headers() == {"traceparent": f"00-{TRACE}-{SPAN}-00"}
