"""Run an application on a cluster: its session, internal topics, queries, and what watches them.

The order of a start: the plan and its description are checked against what the last start left (`fingerprint`
of each stateful query); topics are checked and internal ones made; queries are started in the order of the
plan; then what only looks on: views of materialized tables, heartbeats, metrics. A stop goes the other way. A
query that fails ends the application: the others are stopped with their batches done.

Under `settings.state / name` lie Spark's directory (see session.py) with a checkpoint for each query, and
`queries/`: what each stateful query keeps, as it was when its checkpoint was made.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from ottla.config.errors import UserError
from ottla.pipeline.kafka import KafkaCluster
from ottla.pipeline.query.failures import Failure
from ottla.pipeline.query.metrics import QueryMetrics
from ottla.pipeline.query.query import PipelineQuery, QueryRunner
from ottla.pipeline.query.query_progress import QueryProgress
from ottla.pipeline.query.query_spec import (
    QueryError,
)
from ottla.pipeline.query.realtime import Mode, Wanted
from ottla.pipeline.query.source import SourceError, check_source
from ottla.pipeline.spark.session import SparkPipelineSession, SparkSettings, start_session
from ottla.streams.plan.planner import Plan, plan
from ottla.streams.plan.topology import GlobalTable, Source, Topology, ToSpark
from ottla.streams.plan.windowed_tables import windowed_aggregate
from ottla.streams.run.cluster_environment import ClusterEnvironment, kafka_source
from ottla.streams.run.internal_topics import retention_ms, topic_of
from ottla.streams.run.purge import Purge, Purged, Windows
from ottla.streams.run.query_starter import QueryStarter
from ottla.streams.run.reset import beginning_after_reset, forget_beginning
from ottla.streams.run.spark_settings import STATE_SETTINGS

if TYPE_CHECKING:
    from ottla.streams.views.serving import QueryServer

BOOTSTRAP_ENVIRONMENT = "OTTLA_BOOTSTRAP"
STATE_ENVIRONMENT = "OTTLA_STREAMS_STATE"

LOOK_SECONDS = 1.0

log = logging.getLogger("ottla.streams")


class StreamsError(UserError):
    """An application can't start, or has ended by a failure; the message is for the user."""


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """How an application runs; what it does is its topology.

    bootstrap: the cluster. state: where checkpoints and state are kept; it must outlive the process.
    dead_letters: the topic for records that can't be read; None: they end the application. partitions: of
    internal topics, and how many parts state has: fixed with the first start.
    batch_records: at most so many records of a source a batch. until_caught_up: end when all that was there
    at the start is done. heartbeat_ms: after so long without input, event time goes on with the clock, so
    that windows close; None: it stands still. mode and at_least_once: real-time mode, where Spark has it and
    the query allows it, needs the consent that records may come twice after a failure. replay_from_ms: where
    an application without checkpoints begins, in place of its sources' own starts. forget_lost_state: begin
    anew although checkpoints are gone.
    """

    bootstrap: str = "127.0.0.1:9092"
    state: Path = Path("ottla-streams")
    dead_letters: str | None = None
    master: str = "local[*]"
    partitions: int = 4
    driver_memory: str = "1g"
    batch_records: int | None = 1_000_000
    trigger_interval_ms: int = 0
    until_caught_up: bool = False
    heartbeat_ms: int | None = None
    mode: Wanted = Wanted.AUTO
    at_least_once: bool = False
    global_table_check_ms: int = 1_000
    replay_from_ms: int | None = None
    forget_lost_state: bool = False
    metrics_port: int | None = None
    queries_port: int | None = None
    client_options: Mapping[str, str] = field(default_factory=dict)
    spark_properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_environment(cls) -> StreamsSettings:
        """The defaults, with what OTTLA_BOOTSTRAP and OTTLA_STREAMS_STATE say."""
        default = cls()
        return cls(
            bootstrap=os.environ.get(BOOTSTRAP_ENVIRONMENT, default.bootstrap),
            state=Path(os.environ.get(STATE_ENVIRONMENT, str(default.state))),
        )


def start(
    topology: Topology,
    settings: StreamsSettings,
    *,
    session: SparkPipelineSession | None = None,
    on_progress: Callable[[PipelineQuery, QueryProgress], None] | None = None,
) -> RunningStreams:
    """Start an application. `session`: a Spark that is there already, which is not closed with it.

    Raises StreamsError with a message for the user; nothing runs then.
    """
    planned = plan(topology)
    running = RunningStreams(topology, planned, settings, session, on_progress)
    try:
        running.begin()
    except UserError as error:
        running.close()
        failure = error.failure if isinstance(error, QueryError) else None
        raise StreamsError(with_trace(f"{topology.name}: {error}", failure)) from error
    except BaseException:
        running.close()
        raise
    return running


class RunningStreams:
    """A started application; made by `start`. Closing it stops its queries after their batch."""

    def __init__(
        self,
        topology: Topology,
        planned: Plan,
        settings: StreamsSettings,
        session: SparkPipelineSession | None,
        on_progress: Callable[[PipelineQuery, QueryProgress], None] | None,
    ) -> None:
        self.topology = topology
        self.plan = planned
        self.settings = settings
        self.metrics = QueryMetrics()
        self.directory = settings.state / topology.name
        self.queries_url: str | None = None
        """Where materialized tables can be asked, once they can."""
        self._given_session = session
        self._session = session
        self._on_progress = on_progress
        self._runner: QueryRunner | None = None
        self._server: QueryServer | None = None
        self._resources = contextlib.ExitStack()
        self._beats = contextlib.ExitStack()
        self._stop = threading.Event()
        self._failure: str | None = None
        self.modes: dict[str, Mode] = {}
        """By a query's name: how it runs, and why."""

    def __enter__(self) -> RunningStreams:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def queries(self) -> Sequence[PipelineQuery]:
        """The queries that were started."""
        return [] if self._runner is None else self._runner.queries

    def begin(self) -> None:
        """Start everything; `start` calls it once."""
        settings = self.settings
        begin_ms = beginning_after_reset(self.directory)
        if begin_ms is not None and settings.replay_from_ms is None:
            settings = self.settings = replace(settings, replay_from_ms=begin_ms)
        cluster = KafkaCluster(settings.bootstrap, settings.client_options)
        self._check_topics(cluster)
        self._make_internal_topics(cluster)
        if self._session is None:
            self._session = start_session(self._spark_settings())
        spark = self._session.spark
        self._runner = QueryRunner(
            spark, metrics=self.metrics, on_progress=self._on_progress, on_end=self._query_ended
        )
        if settings.metrics_port is not None:
            self._resources.enter_context(self.metrics.serve(settings.metrics_port))
        environment = ClusterEnvironment(spark, settings, cluster)
        starter = QueryStarter(
            self.topology.name,
            settings,
            self._session,
            self._runner,
            environment,
            self.directory,
            self._beats,
            self._resources,
            self._fail,
            self.modes,
        )
        reported: set[str] = set()
        for query in self.plan.queries:
            names = {node.name for node in query.nodes} - reported
            reported |= names
            starter.start(query, names)
        forget_beginning(self.directory)  # all have a checkpoint now
        self._purge_internal_topics(cluster, self._runner)
        if settings.until_caught_up:
            self._stop.set()
        elif settings.queries_port is not None:
            self._serve_tables(settings.queries_port, environment)

    def await_end(self, timeout_seconds: float | None = None) -> bool:
        """Wait until something fails, `request_stop` is called or, when it is to catch up only, all is done.

        False when time was short. Raises StreamsError when a query or what belongs to them failed.
        """
        deadline = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        ended = self._stop.is_set()
        while not ended and (left := deadline - time.monotonic()) > 0:
            ended = self._stop.wait(min(LOOK_SECONDS, left))
            if self._server is not None and self._server.failure is not None:
                self._fail(self._server.failure)
        if self._failure is not None:
            raise StreamsError(self._failure)
        return ended

    def request_stop(self) -> None:
        """Have `await_end` return; may be called from a signal's handler."""
        self._stop.set()

    @contextlib.contextmanager
    def stopping_on_signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM stop the application gracefully while the block runs.

        Elsewhere than in the main thread, where no signal arrives, nothing is changed.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            self.request_stop()

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def close(self) -> None:
        """Stop the queries after the batch that runs, then all else. Safe to call twice."""
        self._stop.set()
        self._beats.close()
        if self._runner is not None:
            self._runner.close()
            self._runner = None
        self._resources.close()
        if self._session is not None and self._given_session is None:
            self._session.close()
            self._session = None

    # The steps of a start

    def _spark_settings(self) -> SparkSettings:
        settings = self.settings
        return SparkSettings(
            self.topology.name,
            self.directory,
            master=settings.master,
            shuffle_partitions=settings.partitions,
            driver_memory=settings.driver_memory,
            properties={**STATE_SETTINGS, **settings.spark_properties},
        )

    def _check_topics(self, cluster: KafkaCluster) -> None:
        """Every topic that is read and not our own exists; so do the sinks' that are named."""
        for node in self.topology.nodes():
            if isinstance(node, Source):
                check_source(kafka_source(node, self.settings), cluster)
        wanted = [node.topic for node in self.topology.nodes() if isinstance(node, GlobalTable)]
        if self.settings.dead_letters is not None:
            wanted.append(self.settings.dead_letters)
        wanted += [
            sink.topic
            for sink in self.topology.sinks
            if not isinstance(sink, ToSpark) and isinstance(sink.topic, str)
        ]
        missing = cluster.missing_topics(list(dict.fromkeys(wanted)))
        if missing:
            raise SourceError(
                f"topic {missing[0]} does not exist on {self.settings.bootstrap}; create it first"
            )

    def _make_internal_topics(self, cluster: KafkaCluster) -> None:
        topics = [topic_of(sink, self.settings.partitions) for sink in self.plan.internal_topics]
        if topics:
            cluster.ensure_topics(topics)

    def _purge_internal_topics(self, cluster: KafkaCluster, runner: QueryRunner) -> None:
        """Now and then while the application runs; where it is to catch up only, once."""
        readers: dict[str, list[str]] = {}
        for query in runner.queries:
            for names in query.admission.topics:
                for name in names:
                    readers.setdefault(name, []).append(query.admission.spec.group_id)
        watermarks = {
            query.stateful.name: f"{self.topology.name}-{query.name}"
            for query in self.plan.queries
            if query.stateful is not None
        }
        topics = []
        for sink in self.plan.internal_topics:
            windowed, kept_ms = windowed_aggregate(sink.input), retention_ms(sink.input)
            windows = None
            if windowed is not None and kept_ms is not None:
                windows = Windows(
                    kept_ms,
                    partial(_watermark_ms, runner, watermarks[windowed.name]),
                    self.directory / "queries" / f"{sink.topic}.windows",
                )
            elif sink.input.table:
                continue
            topics.append(Purged(sink.topic, tuple(readers.get(sink.topic, ())), windows))
        purge = Purge(cluster, topics, failed=lambda error: self._fail(f"purge of internal topics: {error}"))
        if self.settings.until_caught_up:
            purge.once()
            return
        self._beats.callback(purge.stop)
        purge.start()

    def _serve_tables(self, port: int, environment: ClusterEnvironment) -> None:
        from ottla.streams.views.serving import QueryServer, tables_of

        settings = self.settings
        tables = tables_of(
            self.plan,
            environment.types,
            settings.bootstrap,
            self.directory / "views",
            settings.client_options,
        )
        self._server = self._resources.enter_context(QueryServer(tables, port))
        self.queries_url = self._server.url

    def _query_ended(self, query: PipelineQuery) -> None:
        if query.failure is not None:
            self._fail(with_trace(f"{query.name}: {query.failure}", query.failure))

    def _fail(self, message: str) -> None:
        """Have the application end; the first failure is the one that is told."""
        if self._failure is None:
            self._failure = message
        self._stop.set()


def _watermark_ms(runner: QueryRunner, query_name: str) -> int | None:
    """The watermark that a query has reached, as far as it has told."""
    told = [
        progress.watermark_ms
        for query in runner.queries
        if query.name == query_name
        for progress in query.recent_progress
        if progress.watermark_ms is not None
    ]
    return max(told, default=None)


def with_trace(message: str, failure: Failure | None) -> str:
    """The message, and the traceback of a user's function behind it."""
    return message if failure is None or not failure.traceback else f"{message}\n{failure.traceback}"
