"""The work beside an application's queries: heartbeats, global tables, the purge of internal topics.

Each is a thread; its error is given to `failed`, for the application to end.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.pipeline.query.query import PipelineQuery, QueryRunner, QueryState
from ottla.streams.plan.node import Node, event_time_of
from ottla.streams.plan.planner import Plan, PlannedQuery, reads_of
from ottla.streams.plan.windowed_tables import windowed_aggregate
from ottla.streams.run.context import RunContext
from ottla.streams.run.global_snapshots import GlobalSnapshot, GlobalSnapshots
from ottla.streams.run.heartbeat import Heartbeat, heartbeat_topic, heartbeats
from ottla.streams.run.internal_topics import retention_ms
from ottla.streams.run.purge import Purge, Purged, Windows
from ottla.streams.run.state_check import has_heartbeats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Watchers:
    """Starts them. before, after: closed before and after the queries. snapshots: by table's name."""

    context: RunContext
    before: contextlib.ExitStack
    after: contextlib.ExitStack
    failed: Callable[[str], None]
    snapshots: dict[str, GlobalSnapshot] = field(default_factory=dict)

    def heartbeats_of(self, name: str, query: PlannedQuery) -> DataFrame | None:
        """The source of heartbeats, if the query has one; its topic is made."""
        if event_time_of(query.stateful) is None or not has_heartbeats(self.context, name):
            return None
        place = self.context.settings.place
        topic = heartbeat_topic(self.context.name, query.name)
        self.context.cluster.ensure_topics([topic])
        return heartbeats(self.context.spark, place.cluster.bootstrap, topic.name, place.cluster.properties)

    def start_heartbeat(self, query: PlannedQuery, started: PipelineQuery) -> None:
        """Send heartbeats to a query that has them for a source."""
        event_time, settings = event_time_of(query.stateful), self.context.settings
        idle_ms = settings.watching.heartbeat_ms
        if event_time is None or idle_ms is None or settings.pace.until_caught_up:
            return
        beat = Heartbeat.of(
            _SparkQuery(started),
            self.context.cluster,
            heartbeat_topic(self.context.name, query.name).name,
            idle_ms=idle_ms,
            waits=event_time,
            failed=lambda error: self.failed(f"heartbeats of {query.name}: {error}"),
        )
        self.before.callback(beat.stop)
        beat.start()

    def keep_global_tables(self, tables: Sequence[tuple[Node, DataFrame]]) -> None:
        """Each table is kept once; a query's plan finds the rows in Spark's cache."""
        settings = self.context.settings
        if settings.pace.until_caught_up:
            return
        new = []
        for table, rows in tables:
            if table.name not in self.snapshots:
                (topic,) = reads_of(table).topics.names
                ends = functools.partial(self.context.cluster.end_positions, topic)
                self.snapshots[table.name] = GlobalSnapshot(table.name, rows, ends)
                new.append(self.snapshots[table.name])
        if new:
            keeper = GlobalSnapshots(
                new,
                check_ms=settings.watching.global_table_check_ms,
                failed=lambda error: self.failed(f"global tables: {error}"),
            )
            self.after.callback(keeper.stop)
            keeper.start()

    def purge_internal_topics(self, plan: Plan) -> None:
        """Now and then while the application runs; where it is to catch up only, once."""
        purge = Purge(
            self.context.cluster,
            _purged(self.context, plan),
            failed=lambda error: self.failed(f"purge of internal topics: {error}"),
        )
        if self.context.settings.pace.until_caught_up:
            purge.once()
            return
        self.before.callback(purge.stop)
        purge.start()


@dataclass(frozen=True, slots=True)
class _SparkQuery:
    """A query as a heartbeat watches it: one that is to be started again is at work."""

    started: PipelineQuery

    @property
    def isActive(self) -> bool:
        return self.started.state is QueryState.RUNNING

    @property
    def lastProgress(self) -> Mapping[str, Any] | None:
        return self.started.query.lastProgress

    @property
    def status(self) -> Mapping[str, Any]:
        query = self.started.query
        return query.status if query.isActive else {"isTriggerActive": True, "isDataAvailable": True}


def _purged(context: RunContext, plan: Plan) -> list[Purged]:
    """The internal topics that are purged, with their readers and their windows."""
    readers: dict[str, list[str]] = {}
    for query in context.runner.queries:
        for names in query.admission.topics:
            for name in names:
                readers.setdefault(name, []).append(query.admission.spec.group_id)
    watermarks = {
        query.stateful.name: f"{context.name}-{query.name}"
        for query in plan.queries
        if query.stateful is not None
    }
    topics = []
    for sink in plan.internal_topics:
        windowed, kept_ms = windowed_aggregate(sink.input), retention_ms(sink.input)
        windows = None
        if windowed is not None and kept_ms is not None:
            windows = Windows(
                kept_ms,
                functools.partial(_watermark_ms, context.runner, watermarks[windowed.name]),
                context.directory / "queries" / f"{sink.topic}.windows",
            )
        elif sink.input.table:
            continue
        topics.append(Purged(sink.topic, tuple(readers.get(sink.topic, ())), windows))
    return topics


def _watermark_ms(runner: QueryRunner, query_name: str) -> int | None:
    """The watermark that a query has reached, by its progress so far."""
    told = [
        progress.watermark_ms
        for query in runner.queries
        if query.name == query_name
        for progress in query.recent_progress
        if progress.watermark_ms is not None
    ]
    return max(told, default=None)
