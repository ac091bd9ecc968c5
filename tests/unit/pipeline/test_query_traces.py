"""Spans of a query's batches, made of Spark's progress."""

from __future__ import annotations

from typing import Any

from ottla.config.telemetry_settings import OtlpTarget
from ottla.pipeline.query.query_progress import QueryProgress, parse_progress
from ottla.pipeline.query.traces import SAMPLED, QueryTraces, sampled_contexts
from ottla.tracing.tracer import Tracer
from support.telemetry.collector import Collector, running_collector

SPAN = "00f067aa0ba902b7"


def progress(observed: dict[str, Any], **changed: Any) -> QueryProgress:
    raw = {
        "name": "words",
        "batchId": 7,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "numInputRows": 5,
        "durationMs": {"addBatch": 90, "triggerExecution": 100},
        "observedMetrics": observed,
    }
    return parse_progress({**raw, **changed})


def context(number: int) -> str:
    return f"00-{number:032x}-{SPAN}-01"


def traced(*batches: QueryProgress) -> Collector:
    with running_collector() as collector:
        traces = QueryTraces(Tracer("app", OtlpTarget(collector.url)))
        for batch in batches:
            traces.batch(batch)
        traces.close()
    return collector


def test_a_batch_is_a_span_of_its_time_with_links_and_a_span_in_each_linked_trace() -> None:
    observed = {
        "ottla_traces_0": {"context_0": context(1), "context_1": None},
        "ottla_traces_1": {"a": context(2)},
    }
    spans = {
        each.span.name: each for each in traced(progress(observed)).spans if each.trace_id != f"{2:032x}"
    }
    batch, process = spans["batch words"], spans["process words"]
    assert {link.trace_id.hex() for link in batch.span.links} == {f"{1:032x}", f"{2:032x}"}
    assert batch.span.end_time_unix_nano - batch.span.start_time_unix_nano == 100_000_000
    assert batch.attributes["messaging.batch.message_count"] == "5"
    assert batch.attributes["ottla.batch"] == "7"
    assert (process.trace_id, process.span.parent_span_id.hex()) == (f"{1:032x}", SPAN)
    assert process.span.links[0].span_id == batch.span.span_id
    assert process.span.end_time_unix_nano == batch.span.end_time_unix_nano


def test_a_look_that_found_nothing_is_no_span() -> None:
    assert traced(progress({}, durationMs={"triggerExecution": 1})).spans == []


def test_a_batch_without_traced_records_is_a_span_alone() -> None:
    (batch,) = traced(progress({"ottla_dead_letters": {"dead_letters": 1}})).spans
    assert batch.span.name == "batch words" and not batch.span.links


def test_the_sample_is_bounded_and_what_is_no_context_is_left_out() -> None:
    many = {f"ottla_traces_{number}": {"a": context(number + 1)} for number in range(3 * SAMPLED)}
    assert len(sampled_contexts(progress(many))) == SAMPLED
    odd = {"ottla_traces_0": {"a": "nonsense", "b": 5}, "other": {"a": context(1)}}
    assert sampled_contexts(progress(odd)) == []
