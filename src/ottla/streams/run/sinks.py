"""The writers of an application's queries: exactly once, at least once, or a sink of Spark's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.pipeline.query.realtime import REAL_TIME_OUTPUT_MODE, ModeKind
from ottla.pipeline.sink.exactly_once import SinkError, check_sink, write_exactly_once
from ottla.streams.compile.compiler import Compiled
from ottla.streams.plan.node import Writes
from ottla.streams.plan.planner import PlannedQuery
from ottla.streams.run.admitted import Admitted
from ottla.streams.run.context import RunContext
from ottla.streams.run.settings import Place
from ottla.streams.run.state_check import checkpoint_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def writer_of(context: RunContext, admitted: Admitted, compiled: Compiled) -> DataStreamWriter:
    """The writer of a query's frame. Raises SinkError when its sink is not this query's."""
    query, place = admitted.query, context.settings.place
    if compiled.written.writer is not None:
        return compiled.written.writer(compiled.written.frame)
    if context.settings.pace.at_least_once and query.stateful is None:
        return _plain_writer(context, admitted, compiled)
    _check_sink(context, admitted.name)
    return write_exactly_once(
        _without_constants(query, compiled.written.frame, place.dead_letters),
        bootstrap=place.cluster.bootstrap,
        query_name=admitted.name,
        topic=_topic_of_marks(query, place),
        source_topic=next(iter(query.topics_read), None),
        output_mode=compiled.written.output_mode,
        client_options=place.cluster.properties,
    )


def dead_letter_writer(
    context: RunContext, admitted: Admitted, frames: Sequence[DataFrame]
) -> DataStreamWriter:
    """The writer of the poison records in front of a stateful node, which a query of their own writes."""
    place = context.settings.place
    first, *others = frames
    for other in others:
        first = first.unionByName(other)
    _check_sink(context, admitted.name)
    return write_exactly_once(
        first,
        bootstrap=place.cluster.bootstrap,
        query_name=admitted.name,
        topic=_topic_of_marks(admitted.query, place),
        client_options=place.cluster.properties,
    )


def _plain_writer(context: RunContext, admitted: Admitted, compiled: Compiled) -> DataStreamWriter:
    """Spark's own sink, which writes at least once and gives records the time of their writing."""
    writer = compiled.written.frame.drop("timestamp", "source").writeStream.format("kafka")
    options = context.settings.place.cluster.spark()
    if admitted.mode is not None and admitted.mode.kind is ModeKind.REAL_TIME:
        return writer.options(**options).outputMode(REAL_TIME_OUTPUT_MODE)
    return writer.options(**options)


def _check_sink(context: RunContext, name: str) -> None:
    place = context.settings.place
    checkpoint = checkpoint_of(context, name)
    if checkpoint is not None and not context.settings.beginning.forget_lost_state:
        check_sink(
            place.cluster.bootstrap,
            name,
            checkpoint.query_id,
            client_options=place.cluster.properties,
            begun_ms=checkpoint.unfinished_batch_ms,
        )


def _topic_of_marks(query: PlannedQuery, place: Place) -> str:
    """Where the sink keeps its marks: a topic that stays. Every row names the topic that it goes to."""
    writes = _writes(query)
    if writes.topic is not None:
        return writes.topic
    found = [topic for topic in (place.dead_letters, *query.topics_read) if topic is not None]
    if not found:
        raise SinkError(f"{query.name} reads a pattern and writes to topics by expression: give dead_letters")
    return found[0]


def _without_constants(query: PlannedQuery, frame: DataFrame, dead_letters: str | None) -> DataFrame:
    """A frame for the sink without the columns that the sink fills in itself: they would cost each row."""
    if dead_letters is not None:
        return frame  # a dead letter has a topic and a partition of its own
    return frame.drop(*_writes(query).constant)


def _writes(query: PlannedQuery) -> Writes:
    (sink,) = query.sinks
    writes = sink.facts.writes
    assert writes is not None, f"{sink.name} is no sink"
    return writes
