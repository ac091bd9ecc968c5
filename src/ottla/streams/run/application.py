"""Run an application on a cluster: its session, internal topics, queries, and the threads that watch them.

The order of a start: the plan and its description are checked against the traces of the last start
(`fingerprint` of each stateful query); topics are checked and internal ones made; queries are started in the
order of the plan; then the watchers: views of materialized tables, heartbeats, metrics. A stop goes the other
way. A query that fails ends the application: the others are stopped with their batches done.

Under `settings.place.state / name` lie Spark's directory (see session.py) with a checkpoint for each query,
and `queries/`: the fingerprint of each stateful query, as it was when its checkpoint was made.
"""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Final

from ottla.client.cluster import KafkaCluster
from ottla.config.errors import UserError
from ottla.pipeline.query.failures import Failure
from ottla.pipeline.query.metrics import QueryMetrics
from ottla.pipeline.query.query import PipelineQuery, QueryRunner
from ottla.pipeline.query.query_progress import QueryProgress
from ottla.pipeline.query.query_spec import QueryError
from ottla.pipeline.query.realtime import Mode
from ottla.pipeline.spark.session import SparkPipelineSession, StartingSession, begin_session
from ottla.streams.plan.planner import Plan, plan
from ottla.streams.plan.topology import Topology
from ottla.streams.run.context import RunContext
from ottla.streams.run.ending import Ending
from ottla.streams.run.health import ApplicationState, add_checks
from ottla.streams.run.markers import topics_written, wait_for_markers
from ottla.streams.run.preparation import check_topics, make_internal_topics, spark_settings
from ottla.streams.run.query_starter import QueryStarter
from ottla.streams.run.reading_order import ReadingOrder
from ottla.streams.run.reset import beginning_after_reset, forget_beginning
from ottla.streams.run.settings import StreamsSettings
from ottla.streams.run.timeline import Timeline
from ottla.streams.run.watchers import Watchers

if TYPE_CHECKING:
    from ottla.pipeline.query.traces import QueryTraces
    from ottla.streams.compile.inputs import Types
    from ottla.streams.views.serving import QueryServer

LOOK_SECONDS: Final = 1.0
PROGRAM: Final = "ottla streams"

OnProgress = Callable[[PipelineQuery, QueryProgress], None]
Later = Callable[[Callable[[], None]], None]
"""Calls a function later, in any thread, once or not at all."""


class StreamsError(UserError):
    """An application can't start, or has ended by a failure; the message is for the user."""


def start(
    topology: Topology,
    settings: StreamsSettings,
    *,
    session: SparkPipelineSession | None = None,
    on_progress: OnProgress | None = None,
    later: Later | None = None,
) -> RunningStreams:
    """Start an application. `session`: a Spark that is there already, which is not closed with it.

    later: for the queries of dead letters that miss nothing by waiting; None: they start with the others.
    Raises StreamsError with a message for the user; nothing runs then.
    """
    running = RunningStreams(StartOrder(topology, plan(topology), settings, session, on_progress, later))
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


@dataclass(frozen=True, slots=True)
class StartOrder:
    """An application that is to be started. session: a Spark that is there already, or None."""

    topology: Topology
    plan: Plan
    settings: StreamsSettings
    session: SparkPipelineSession | None
    on_progress: OnProgress | None
    later: Later | None = None


@dataclass(slots=True)
class _Parts:
    """The parts that are to be closed, in the order in which they are.

    starting, session: only of our own, the one before the other.
    """

    before: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    runner: QueryRunner | None = None
    after: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    starting: StartingSession | None = None
    session: SparkPipelineSession | None = None
    server: QueryServer | None = None

    def close(self) -> None:
        """Safe to call twice."""
        self.before.close()
        if self.runner is not None:
            self.runner.close()
            self.runner = None
        self.after.close()
        if self.starting is not None:
            self.starting.abandon()
            self.starting = None
        if self.session is not None:
            self.session.close()
            self.session = None


class RunningStreams:
    """A started application; made by `start`. Closing it stops its queries after their batch."""

    def __init__(self, order: StartOrder) -> None:
        self.order = order
        self.metrics = QueryMetrics(order.topology.name, PROGRAM)
        self.metrics_url: str | None = None
        """Where metrics and health are served, if they are."""
        self.modes: dict[str, Mode] = {}
        """By a query's name: how it runs, and why."""
        self._ending = Ending()
        self._parts = _Parts()
        self._parts_change = threading.Lock()
        """Held while a query begins later, and while all end."""
        planned = [f"{order.topology.name}-{query.name}" for query in order.plan.queries]
        self._state = ApplicationState(planned, self._ending, lambda: self.queries)
        add_checks(self.metrics.health, self._state)

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
    def topology(self) -> Topology:
        return self.order.topology

    @property
    def plan(self) -> Plan:
        return self.order.plan

    @property
    def settings(self) -> StreamsSettings:
        return self.order.settings

    @property
    def directory(self) -> Path:
        """The directory of everything that the application keeps."""
        return self.settings.place.state / self.topology.name

    @property
    def queries(self) -> Sequence[PipelineQuery]:
        """The queries that were started."""
        return [] if self._parts.runner is None else self._parts.runner.queries

    @property
    def queries_url(self) -> str | None:
        """Where materialized tables can be asked, once they can."""
        return None if self._parts.server is None else self._parts.server.url

    def begin(self) -> None:
        """Start everything; `start` calls it once."""
        timeline = Timeline()
        self._serve_metrics()
        settings = _settings_after_reset(self.settings, self.directory)
        if self.order.session is None:
            # The JVM takes seconds, in which the topics are looked at.
            self._parts.starting = begin_session(spark_settings(self.topology.name, settings, self.plan))
            timeline.done("the JVM is on its way")
        cluster = KafkaCluster(settings.place.cluster.bootstrap, settings.place.cluster.properties)
        check_topics(cluster, self.topology, settings)
        make_internal_topics(cluster, self.plan, settings)
        timeline.done("topics")
        context = self._context(settings, cluster)
        timeline.done("Spark's session")
        parts, watching = self._parts, settings.watching
        watchers = Watchers(context, parts.before, parts.after, self._ending.fail)
        later = None if self.order.later is None else self._begin_later
        starter = QueryStarter(context, watchers, self._reading_order(context), later)
        types = self._start_queries(starter, timeline)
        forget_beginning(self.directory)  # all have a checkpoint now
        watchers.purge_internal_topics(self.plan)
        if settings.pace.until_caught_up:
            wait_for_markers(topics_written(self.plan), cluster)  # whoever comes next reads all of it
            self._ending.request()
        elif watching.queries_port is not None:
            self._serve_tables(context, watching.queries_port, types)
        self._state.has_started = True

    def await_end(self, timeout_seconds: float | None = None) -> bool:
        """Wait until a part fails, `request_stop` is called or, when it is to catch up only, all is done.

        False when time was short. Raises StreamsError when a query or one of its watchers failed.
        """
        deadline = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        ended = self._ending.requested
        while not ended and (left := deadline - time.monotonic()) > 0:
            ended = self._ending.wait(min(LOOK_SECONDS, left))
            if self._parts.server is not None and self._parts.server.failure is not None:
                self._ending.fail(self._parts.server.failure)
        if self._ending.failure is not None:
            raise StreamsError(self._ending.failure)
        return ended

    def request_stop(self) -> None:
        """Have `await_end` return; may be called from a signal's handler."""
        self._ending.request()

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
        self._ending.request()
        with self._parts_change:
            self._parts.close()

    # The steps of a start

    def _serve_metrics(self) -> None:
        """From the first moment on, so that /readyz tells how far the start is."""
        watching = self.settings.watching
        if watching.metrics is not None:
            served = self.metrics.serve(options=watching.metrics, tls=watching.metrics_tls)
            address = self._parts.after.enter_context(served)
            self.metrics_url = f"{address.url}/metrics"

    def _context(self, settings: StreamsSettings, cluster: KafkaCluster) -> RunContext:
        """The session and the runner of the queries, started."""
        parts, name, session = self._parts, self.topology.name, self.order.session
        if parts.starting is not None:
            session, parts.starting = parts.starting.finish(), None
            parts.session = session
        assert session is not None
        self._state.session = session
        parts.runner = QueryRunner(
            session.spark,
            metrics=self.metrics,
            on_progress=self.order.on_progress,
            on_end=self._query_ended,
            traces=self._traces(settings),
        )
        return RunContext(name, settings, cluster, session, parts.runner)

    def _traces(self, settings: StreamsSettings) -> QueryTraces | None:
        """The spans of batches; None without a collector. Raises ConfigError."""
        if settings.watching.traces is None:
            return None
        from ottla.pipeline.query.traces import QueryTraces
        from ottla.tracing.tracer import Tracer

        traces = QueryTraces(Tracer(self.topology.name, settings.watching.traces))
        self._parts.after.callback(traces.close)
        return traces

    def _reading_order(self, context: RunContext) -> ReadingOrder | None:
        """By time across the inputs of a query; on Spark Connect, whose JVM is out of reach, by source."""
        if context.session.is_connect:
            return None
        order = ReadingOrder(self.plan, context.cluster, together=not context.settings.pace.until_caught_up)
        self._parts.after.callback(order.close)
        return order

    def _start_queries(self, starter: QueryStarter, timeline: Timeline) -> Mapping[str, Types]:
        """All of the plan; the types of the internal topics that they write."""
        types: Mapping[str, Types] = {}
        reported: set[str] = set()
        for query in self.plan.queries:
            names = {node.name for node in query.nodes} - reported
            reported |= names
            started = starter.start(query, names, types)
            types = {**types, **started.types}
            self.modes[started.name] = started.mode
            timeline.done(f"query {started.name}")
        return types

    def _begin_later(self, begin: Callable[[], None]) -> None:
        """Have a query begin later, unless the application has ended by then; if it can't, all end."""

        def begin_unless_ended() -> None:
            with self._parts_change:
                if self._ending.requested:
                    return
                try:
                    begin()
                except UserError as error:
                    self._ending.fail(str(error))
                except Exception as error:
                    self._ending.fail(f"{type(error).__name__}: {error}")

        assert self.order.later is not None
        self.order.later(begin_unless_ended)

    def _serve_tables(self, context: RunContext, port: int, types: Mapping[str, Types]) -> None:
        from ottla.streams.views.serving import QueryServer, tables_of

        tables = tables_of(self.plan, types, context.settings.place.cluster, context.directory / "views")
        self._parts.server = self._parts.after.enter_context(QueryServer(tables, port))

    def _query_ended(self, query: PipelineQuery) -> None:
        if query.failure is not None:
            self._ending.fail(with_trace(f"{query.name}: {query.failure}", query.failure))


def _settings_after_reset(given: StreamsSettings, directory: Path) -> StreamsSettings:
    """The settings; a reset says where to begin where they do not. Raises ResetError."""
    begin_ms = beginning_after_reset(directory)
    if begin_ms is None or given.beginning.replay_from_ms is not None:
        return given
    return given.replayed_from(begin_ms)


def with_trace(message: str, failure: Failure | None) -> str:
    """The message, and the traceback of a user's function behind it."""
    return message if failure is None or not failure.traceback else f"{message}\n{failure.traceback}"
