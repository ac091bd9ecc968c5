"""Spans of a query's batches: one a batch, and one in the trace of each of a few records that it read.

Records carry the context of their trace in headers (tracing/trace_context.py), and queries that keep headers
carry it on to their output. A batch may read a million records of as many traces, so it is a span of its own
with links to SAMPLED of them at most, and each of these traces gets a span of the same time. Spark finds the
sample while it reads (`DataFrame.observe`): the smallest context of each of SAMPLED parts of the hash space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.tracing.trace_context import TRACEPARENT, TraceContext, parse_traceparent
from ottla.tracing.tracer import Attributes, SpanKind, Tracer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.pipeline.query.query_progress import QueryProgress

SAMPLED: Final = 8
OBSERVATION: Final = "ottla_traces"
"""How the observations of contexts are named, with the number of their source behind."""
_RECORDED: Final = "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]$"
_NS_A_MS: Final = 1_000_000


def with_observed_contexts(records: DataFrame, number: int) -> DataFrame:
    """The same records of a source (it has the column headers), whose recorded traces are sampled.

    number: of the source within its query.
    """
    from pyspark.sql import functions as F

    found = F.expr(f"CAST(try_element_at(filter(headers, h -> h.key = '{TRACEPARENT}'), -1).value AS STRING)")
    context = F.when(found.rlike(_RECORDED), found)
    part = F.pmod(F.xxhash64(context), F.lit(SAMPLED))
    samples = [F.min(F.when(part == index, context)).alias(f"context_{index}") for index in range(SAMPLED)]
    return records.observe(f"{OBSERVATION}_{number}", *samples)


class QueryTraces:
    """Makes spans of the progress of queries."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def batch(self, progress: QueryProgress) -> None:
        """Make the spans of a batch that is done."""
        if not progress.is_batch:
            return
        begin_ns = progress.timestamp_ms * _NS_A_MS
        end_ns = begin_ns + progress.batch_ms * _NS_A_MS
        contexts = sampled_contexts(progress)
        attributes: Attributes = {
            "messaging.system": "kafka",
            "messaging.operation.type": "process",
            "ottla.query": progress.name,
            "ottla.batch": progress.batch_id,
        }
        whole = self._tracer.begin(
            f"batch {progress.name}",
            SpanKind.CONSUMER,
            None,
            {**attributes, "messaging.batch.message_count": progress.input_rows},
            links=contexts,
            begin_ns=begin_ns,
        )
        for context in contexts:
            part = self._tracer.begin(
                f"process {progress.name}",
                SpanKind.CONSUMER,
                context,
                attributes,
                links=[whole.context],
                begin_ns=begin_ns,
            )
            part.end(end_ns)
        whole.end(end_ns)

    def close(self) -> None:
        """Send the spans that wait, for a moment at most, and end; blocks."""
        self._tracer.close()


def sampled_contexts(progress: QueryProgress) -> list[TraceContext]:
    """The contexts that Spark has sampled in a batch, SAMPLED at most, each once."""
    texts = {
        text
        for name, fields in progress.observed.items()
        if name.startswith(OBSERVATION)
        for text in fields.values()
        if isinstance(text, str)
    }
    parsed = [parse_traceparent(text) for text in sorted(texts)[:SAMPLED]]
    return [each for each in parsed if each is not None]
