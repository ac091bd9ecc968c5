"""Admit a query of an application: its mode, its sources on the cluster, its group and its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.pipeline.query.checkpoints import Checkpoint
from ottla.pipeline.query.first_batch import FIRST_BATCH_RECORDS, can_be_raised
from ottla.pipeline.query.query_spec import (
    Admission,
    AvailableNow,
    LostCheckpoint,
    ProcessingTime,
    QuerySpec,
    Trigger,
    begin_positions,
)
from ottla.pipeline.query.realtime import Mode, ModeKind, Wanted
from ottla.pipeline.query.source import EARLIEST, LATEST, FromTimestamp, KafkaSource
from ottla.pipeline.query.source import Start as SourceStart
from ottla.pipeline.spark.paths import local_path
from ottla.streams.compile.query_facts import mode_of
from ottla.streams.plan.node import Node, event_time_of
from ottla.streams.plan.planner import PlannedQuery, reads_of
from ottla.streams.run.context import RunContext
from ottla.streams.run.settings import StreamsSettings


@dataclass(frozen=True, slots=True)
class Admitted:
    """A query that may start. name: of its checkpoint and its group. mode: None is micro-batches."""

    name: str
    query: PlannedQuery
    mode: Mode | None
    admission: Admission

    @property
    def sources(self) -> Mapping[Node, KafkaSource]:
        """The topics that each source reads, as the query was admitted."""
        return dict(zip(self.query.sources, self.admission.sources, strict=True))


def mode_for(context: RunContext, query: PlannedQuery, *, in_batches: bool) -> Mode:
    """How the query runs, by the settings, its plan and its topics. Raises ModeError.

    in_batches: its output is read by whole batches, so that it has to have batches.
    """
    pace = context.settings.pace
    partitions = None
    if not any(reads_of(source).topics.pattern for source in query.sources):
        partitions = sum(len(context.cluster.partitions(topic)) for topic in query.topics_read)
    return mode_of(
        query,
        context.spark.version,
        Wanted.MICRO_BATCH if pace.until_caught_up or in_batches else pace.mode,
        exactly_once=not pace.at_least_once,
        source_partitions=partitions,
    )


def admit(context: RunContext, name: str, query: PlannedQuery, mode: Mode | None) -> Admitted:
    """Check that the query may start, and from where. Raises SourceError, QueryError or ClusterError."""
    settings = context.settings
    lost = LostCheckpoint.FROM_BEGINNING if settings.beginning.forget_lost_state else LostCheckpoint.REFUSE
    trigger: Trigger = ProcessingTime(settings.pace.trigger_interval_ms)
    if settings.pace.until_caught_up:
        trigger = AvailableNow()
    elif mode is not None:
        trigger = mode.trigger(settings.pace.trigger_interval_ms)
    spec = QuerySpec(
        name,
        context.session.checkpoint_of(name),
        [kafka_source(source, settings, mode) for source in query.sources],
        trigger,
        on_lost_checkpoint=lost,
    )
    admission = context.runner.admit(spec)
    if isinstance(trigger, ProcessingTime) and _may_begin_small(context, query, admission):
        (source,) = admission.sources
        small = replace(source, first_batch_records=FIRST_BATCH_RECORDS)
        admission = replace(admission, sources=(small,))
    return Admitted(name, query, mode, admission)


def _may_begin_small(context: RunContext, query: PlannedQuery, admission: Admission) -> bool:
    """Whether the first batch may be smaller than the next ones without changing any result.

    Not where records of several sources meet: those of one batch are joined with all rows of that batch. Nor
    where event time decides, if one batch would hold all that is there: the watermark moves between batches.
    """
    if context.session.is_connect or not can_be_raised(context.spark.version) or len(query.sources) != 1:
        return False
    largest = context.settings.pace.batch_records
    if event_time_of(query.stateful) is None:
        return True
    return largest is not None and _backlog(context, admission) > largest


def _backlog(context: RunContext, admission: Admission) -> int:
    """The records that a query has before it, about: offsets of transactions' ends count as well."""
    (source,), (topics,) = admission.sources, admission.topics
    positions: dict[str, Mapping[int, int]] = dict(begin_positions(source, topics, context.cluster))
    checkpoint = local_path(admission.spec.checkpoint)
    if checkpoint is not None:
        positions |= Checkpoint(checkpoint).positions
    waiting = 0
    for topic in topics:
        begins = {**context.cluster.start_positions(topic), **positions.get(topic, {})}
        ends = context.cluster.end_positions(topic)
        waiting += sum(max(0, end - begins.get(partition, 0)) for partition, end in ends.items())
    return waiting


def kafka_source(source: Node, settings: StreamsSettings, mode: Mode | None = None) -> KafkaSource:
    """A source as Spark reads it."""
    reads = reads_of(source)
    start: SourceStart = EARLIEST
    if reads.start is not None:
        if reads.start.latest:
            start = LATEST
        if reads.start.timestamp_ms is not None:
            start = FromTimestamp(reads.start.timestamp_ms)
        if settings.beginning.replay_from_ms is not None:
            start = FromTimestamp(settings.beginning.replay_from_ms)
    flowing = mode is not None and mode.kind is ModeKind.REAL_TIME
    return KafkaSource(
        settings.place.cluster.bootstrap,
        reads.topics.names,
        reads.topics.pattern,
        start,
        max_offsets_per_trigger=None if flowing else settings.pace.batch_records,
        client_options=settings.place.cluster.properties,
        flowing=flowing,
    )
