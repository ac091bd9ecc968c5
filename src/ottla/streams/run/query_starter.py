"""Start one query of an application: admitted, compiled, checked against its state, written, watched.

The order matters. What can refuse the start comes before what changes anything: the query's group and
checkpoint (admission), the topology's expressions (compilation), the state's fingerprint, the sink's ledger.
Then the query runs, and with it its heartbeats and, for poison records in front of its state, a second query
over the same sources.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.client.client_options import java_client_options
from ottla.pipeline.query.checkpoints import Checkpoint, local_path
from ottla.pipeline.query.query import PipelineQuery, QueryRunner
from ottla.pipeline.query.query_spec import (
    Admission,
    AvailableNow,
    LostCheckpoint,
    ProcessingTime,
    QuerySpec,
    Trigger,
)
from ottla.pipeline.query.realtime import REAL_TIME_OUTPUT_MODE, Mode, ModeKind, Wanted
from ottla.pipeline.sink.exactly_once import SinkError, check_sink, write_exactly_once
from ottla.pipeline.spark.session import SparkPipelineSession
from ottla.streams.compile.compiler import Compiled, compile_query
from ottla.streams.compile.query_facts import event_time_of, mode_of
from ottla.streams.plan.planner import PlannedQuery
from ottla.streams.plan.topology import Source, ToSpark, ToTopic
from ottla.streams.run.cluster_environment import ClusterEnvironment, kafka_source
from ottla.streams.run.fingerprints import check_fingerprint, fingerprint, remembered_heartbeats
from ottla.streams.run.global_snapshots import GlobalSnapshot, GlobalSnapshots
from ottla.streams.run.heartbeat import Heartbeat, heartbeat_topic, heartbeats
from ottla.streams.run.state_stores import store_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ottla.streams.run.application import StreamsSettings


@dataclass(slots=True)
class QueryStarter:
    """Starts an application's queries, in the order of its plan.

    beats, resources: what is to be stopped before and after the queries. failed: told when something that
    belongs to a query ends. modes: filled with how each query runs.
    """

    application: str
    settings: StreamsSettings
    session: SparkPipelineSession
    runner: QueryRunner
    environment: ClusterEnvironment
    directory: Path
    beats: contextlib.ExitStack
    resources: contextlib.ExitStack
    failed: Callable[[str], None]
    modes: dict[str, Mode]
    snapshots: dict[str, GlobalSnapshot] = field(default_factory=dict)

    def start(self, query: PlannedQuery, names: set[str]) -> None:
        """Start a query. `names`: the nodes whose poison records it reports.

        Raises UserError.
        """
        name = f"{self.application}-{query.name}"
        mode = self.modes[name] = self._mode(query)
        admitted = self._admit(name, query, mode)
        self.environment.heartbeats = self._heartbeats(name, query)
        compiled = compile_query(query, self.environment, names)
        self.environment.types |= compiled.types
        self._check_state(name, query, compiled)
        self._keep_global_tables(compiled)
        (sink,) = query.sinks
        if isinstance(sink, ToSpark):
            writer = sink.writer(compiled.frame)
        elif self.settings.at_least_once and query.stateful is None:
            writer = self._plain_writer(compiled, mode)
        else:
            writer = self._writer(name, query, compiled)
        with store_settings(self.environment.spark, query.stateful):
            started = self._run(admitted, writer)
        self._start_heartbeat(query, started)
        if compiled.dead_letters:
            self._start_dead_letters(f"{name}-dead-letters", query, names)

    def _mode(self, query: PlannedQuery) -> Mode:
        partitions = None
        if not any(isinstance(source, Source) and source.pattern for source in query.sources):
            partitions = sum(len(self.environment.cluster.partitions(topic)) for topic in query.topics_read)
        return mode_of(
            query,
            self.environment.spark.version,
            Wanted.MICRO_BATCH if self.settings.until_caught_up else self.settings.mode,
            exactly_once=not self.settings.at_least_once,
            source_partitions=partitions,
        )

    def _heartbeats(self, name: str, query: PlannedQuery) -> DataFrame | None:
        """The heartbeats' source, if the query has one: as its checkpoint was made, else as is asked."""
        settings = self.settings
        if event_time_of(query.stateful) is None:
            return None
        has_one = remembered_heartbeats(self._fingerprint_file(name)) if self._has_checkpoint(name) else None
        if not (settings.heartbeat_ms is not None if has_one is None else has_one):
            return None
        topic = heartbeat_topic(self.application, query.name)
        self.environment.cluster.ensure_topics([topic])
        return heartbeats(self.environment.spark, settings.bootstrap, topic.name, settings.client_options)

    def _start_heartbeat(self, query: PlannedQuery, started: PipelineQuery) -> None:
        event_time, settings = event_time_of(query.stateful), self.settings
        if self.environment.heartbeats is None or event_time is None:
            return
        if settings.heartbeat_ms is None or settings.until_caught_up:
            return
        beat = Heartbeat(
            started.query,
            self.environment.cluster,
            heartbeat_topic(self.application, query.name).name,
            idle_ms=settings.heartbeat_ms,
            delay_ms=event_time.delay_ms,
            horizon_ms=event_time.horizon_ms,
            failed=lambda error: self.failed(f"heartbeats of {query.name}: {error}"),
        )
        self.beats.callback(beat.stop)
        beat.start()

    def _keep_global_tables(self, compiled: Compiled) -> None:
        """Each table is kept once; a query's plan finds the rows in Spark's cache."""
        if self.settings.until_caught_up:
            return
        new = []
        for table, rows in compiled.global_tables:
            if table.name not in self.snapshots:
                ends = functools.partial(self.environment.cluster.end_positions, table.topic)
                self.snapshots[table.name] = GlobalSnapshot(table.name, rows, ends)
                new.append(self.snapshots[table.name])
        if new:
            keeper = GlobalSnapshots(
                new,
                check_ms=self.settings.global_table_check_ms,
                failed=lambda error: self.failed(f"global tables: {error}"),
            )
            self.resources.callback(keeper.stop)
            keeper.start()

    def _start_dead_letters(self, name: str, query: PlannedQuery, names: set[str]) -> None:
        """The poison records in front of a stateful node, by a query of their own over the same sources."""
        admitted = self._admit(name, query, None)
        self.environment.heartbeats = None
        first, *others = compile_query(query, self.environment, names).dead_letters
        for other in others:
            first = first.unionByName(other)
        self._check_sink(name)
        writer = write_exactly_once(
            first,
            bootstrap=self.settings.bootstrap,
            query_name=name,
            topic=self._topic_of_marks(query),
            client_options=self.settings.client_options,
        )
        self._run(admitted, writer)

    def _admit(self, name: str, query: PlannedQuery, mode: Mode | None) -> Admission:
        lost = LostCheckpoint.FROM_BEGINNING if self.settings.forget_lost_state else LostCheckpoint.REFUSE
        trigger: Trigger = ProcessingTime(self.settings.trigger_interval_ms)
        if self.settings.until_caught_up:
            trigger = AvailableNow()
        elif mode is not None:
            trigger = mode.trigger(self.settings.trigger_interval_ms)
        sources = query.sources
        spec = QuerySpec(
            name,
            self.session.checkpoint_of(name),
            [kafka_source(source, self.settings, mode) for source in sources],
            trigger,
            on_lost_checkpoint=lost,
        )
        admitted = self.runner.admit(spec)
        self.environment.admitted = {
            id(node): source for node, source in zip(sources, admitted.sources, strict=True)
        }
        return admitted

    def _writer(self, name: str, query: PlannedQuery, compiled: Compiled) -> DataStreamWriter:
        settings = self.settings
        self._check_sink(name)
        return write_exactly_once(
            _without_constants(query, compiled.frame, settings.dead_letters),
            bootstrap=settings.bootstrap,
            query_name=name,
            topic=self._topic_of_marks(query),
            source_topic=next(iter(query.topics_read), None),
            output_mode=compiled.output_mode,
            client_options=settings.client_options,
        )

    def _check_sink(self, name: str) -> None:
        checkpoint = self._checkpoint(name)
        if checkpoint is not None and not self.settings.forget_lost_state:
            check_sink(
                self.settings.bootstrap,
                name,
                checkpoint.query_id,
                client_options=self.settings.client_options,
                begun_ms=checkpoint.unfinished_batch_ms,
            )

    def _topic_of_marks(self, query: PlannedQuery) -> str:
        """Where the sink keeps its marks: a topic that stays. Every row names the topic that it goes to."""
        (sink,) = query.sinks
        if not isinstance(sink, ToSpark) and isinstance(sink.topic, str):
            return sink.topic
        found = [topic for topic in (self.settings.dead_letters, *query.topics_read) if topic is not None]
        if not found:
            raise SinkError(
                f"{query.name} reads a pattern and writes to topics by expression: give dead_letters"
            )
        return found[0]

    def _plain_writer(self, compiled: Compiled, mode: Mode) -> DataStreamWriter:
        """Spark's own sink, which writes at least once and gives records the time of their writing."""
        frame = compiled.frame.drop("timestamp", "source")
        writer = frame.writeStream.format("kafka")
        options = {
            "kafka.bootstrap.servers": self.settings.bootstrap,
            **{
                f"kafka.{name}": value
                for name, value in java_client_options(self.settings.client_options).items()
            },
        }
        if mode.kind is ModeKind.REAL_TIME:
            return writer.options(**options).outputMode(REAL_TIME_OUTPUT_MODE)
        return writer.options(**options)

    def _check_state(self, name: str, query: PlannedQuery, compiled: Compiled) -> None:
        if query.stateful is None or compiled.stateful is None:
            return
        beats = self.environment.heartbeats is not None
        asked = self.settings.heartbeat_ms is not None and event_time_of(query.stateful) is not None
        check_fingerprint(
            self._fingerprint_file(name),
            fingerprint(
                query.stateful,
                compiled.before_state,
                compiled.stateful,
                self.settings.partitions,
                heartbeats=beats or asked,
            ),
            has_checkpoint=self._has_checkpoint(name),
        )

    def _fingerprint_file(self, name: str) -> Path:
        return self.directory / "queries" / f"{name}.json"

    def _has_checkpoint(self, name: str) -> bool:
        checkpoint = self._checkpoint(name)
        return checkpoint is not None and checkpoint.exists

    def _checkpoint(self, name: str) -> Checkpoint | None:
        path = local_path(self.session.checkpoint_of(name))
        return None if path is None else Checkpoint(path)

    def _run(self, admitted: Admission, writer: DataStreamWriter) -> PipelineQuery:
        started = self.runner.start(admitted, writer)
        if self.settings.until_caught_up:
            started.await_termination()
        return started


def _without_constants(query: PlannedQuery, frame: DataFrame, dead_letters: str | None) -> DataFrame:
    """A frame for the sink without the columns that say what it does anyway: they would cost each row."""
    (sink,) = query.sinks
    if dead_letters is not None or isinstance(sink, ToSpark):
        return frame  # a dead letter has a topic and a partition of its own
    constant = [] if isinstance(sink, ToTopic) and sink.partition is not None else ["partition"]
    return frame.drop(*constant, *(["topic"] if isinstance(sink.topic, str) else []))
