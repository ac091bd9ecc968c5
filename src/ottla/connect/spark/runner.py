"""Runs connectors as streaming queries of one Spark session.

A sink connector is one query, whatever its tasks.max: task 0 is the query, and tasks.max is the number of
Spark's tasks that work on a batch at once. The connector's other tasks run and have nothing to do.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.config.errors import ConfigError
from ottla.connect.host.errors import CONNECT_EXCEPTION, trace_of
from ottla.connect.host.logs import log_name, name_thread
from ottla.connect.host.messages import Ended, Event, Figures, Partitions, Role, Run, Running, Start, Topics
from ottla.connect.host.runner import Tell
from ottla.connect.host.settings import plugin_settings
from ottla.connect.plugins.catalog import Catalog, Kind, Plugin, installed_plugins
from ottla.connect.plugins.catalog import Engine as EngineKind
from ottla.connect.spark.engine import Engine
from ottla.connect.spark.query_offsets import query_partition
from ottla.connect.spark.sink_query import SinkQuery
from ottla.pipeline.query.query import PipelineQuery, QueryState
from ottla.pipeline.query.query_progress import QueryProgress
from ottla.pipeline.spark.lake_jars import Lake

CLASS: Final = "connector.class"
STOP_SECONDS: Final = 600.0
"""A batch may take that long to be finished when its connector is stopped; the worker kills sooner if it
must.
"""
CLOSE_SECONDS: Final = 5.0
_KINDS: Final = {Role.SOURCE_TASK: (Kind.SOURCE,), Role.SINK_TASK: (Kind.SINK,)}

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Run:
    """A run of a query. stopping: told to end."""

    order: Start
    work: Any = None
    needs: frozenset[Lake] = frozenset()
    query: PipelineQuery | None = None
    stopping: bool = False
    topics: set[str] = field(default_factory=set)
    records: int = 0


class SparkRunner:
    """See Runner."""

    def __init__(self, tell: Tell, catalog: Catalog | None = None) -> None:
        logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells each of its commands
        self._tell = tell
        self._catalog = catalog
        self._lock = threading.RLock()
        """Of the tables of runs."""
        self._runs: dict[Run, _Run] = {}
        self._idle: set[Run] = set()
        self._turn = threading.Lock()
        """Of the session: held while it starts, and while a query begins."""
        self._engine: Engine | None = None
        self._moving = False
        """Whether queries end only to begin again in another session."""

    # -- the contract --------------------------------------------------------------------------------

    def start(self, order: Start) -> None:
        """See Runner."""
        self._background(order.run, lambda: self._start(order))

    def stop(self, run: Run) -> None:
        """See Runner."""
        with self._lock:
            if run in self._idle:
                self._idle.discard(run)
                self._tell(Ended(run))
                return
            found = self._runs.get(run)
            if found is None or found.stopping:
                return
            found.stopping = True
        self._background(run, lambda: self._stop(run))

    def pause(self, run: Run) -> None:
        """See Runner: a query can't rest, so it is stopped, and a Start resumes it."""
        self.stop(run)

    def resume(self, run: Run) -> None:
        """See Runner: nothing is paused here."""

    def close(self) -> None:
        """See Runner."""
        with self._lock:
            runs = [*self._runs, *self._idle]
        for run in runs:
            self.stop(run)
        with self._turn:
            engine, self._engine = self._engine, None
            if engine is not None:
                engine.close(CLOSE_SECONDS)

    # -- starting ------------------------------------------------------------------------------------

    def _background(self, run: Run, work: Callable[[], None]) -> None:
        name = log_name(run)

        def named() -> None:
            name_thread(name)
            work()

        threading.Thread(target=named, name=name, daemon=True).start()

    def _start(self, order: Start) -> None:
        run = _Run(order)
        with self._lock:
            self._runs[order.run] = run
        try:
            self._prepare(run)
            if run.work is None:
                self._rest(run)
                return
            with self._turn:
                if self._is_stopping(order.run):
                    self._end(run, None)
                    return
                self._begin(run, self._engine_for(run))
        except BaseException as problem:
            _log.exception("the task fails")
            self._end(run, trace_of(problem))
            return
        self._tell_of(run, Running(order.run))
        if self._is_stopping(order.run):
            self._stop(order.run)

    def _is_stopping(self, run: Run) -> bool:
        with self._lock:
            found = self._runs.get(run)
            return found is not None and found.stopping

    def _tell_of(self, run: _Run, event: Event) -> None:
        """Tell an event of a run that has not ended: Ended is the last one."""
        with self._lock:
            if self._runs.get(run.order.run) is run:
                self._tell(event)

    def _prepare(self, run: _Run) -> None:
        """Make the connector's object. Raises ConfigError."""
        order = run.order
        plugin = self._plugin(order)
        connector_class: Any = plugin.load()
        settings = plugin_settings(connector_class.TABLE, order)
        connector = connector_class(settings)
        if order.role is Role.CONNECTOR or order.run.task != 0:
            return
        needs = connector_class.LAKES | (frozenset({Lake.S3}) if connector.uses_s3() else frozenset())
        run.needs = frozenset(needs)
        run.work = connector.query(order) if plugin.kind is Kind.SOURCE else SinkQuery(order, connector)

    def _rest(self, run: _Run) -> None:
        """A run with nothing to do: the connector itself, and its tasks beyond the first."""
        is_source = run.order.role is Role.CONNECTOR and self._plugin(run.order).kind is Kind.SOURCE
        with self._lock:
            del self._runs[run.order.run]
            if run.stopping:
                self._tell(Ended(run.order.run))
                return
            self._idle.add(run.order.run)
            self._tell(Running(run.order.run))
            if is_source:
                self._tell(Partitions(run.order.run, [query_partition(run.order.run.connector)]))

    def _plugin(self, order: Start) -> Plugin:
        catalog = installed_plugins() if self._catalog is None else self._catalog
        name = order.config.get(CLASS, "")
        plugin = catalog.find(name, *_KINDS.get(order.role, (Kind.SOURCE, Kind.SINK)))
        if plugin is None:
            raise ConfigError(
                f"Failed to find any class that implements Connector and which name matches {name}"
            )
        if plugin.engine is not EngineKind.SPARK:
            raise ConfigError(f"{name} is a Python task, not for a host with Spark")
        return plugin

    def _engine_for(self, run: _Run) -> Engine:
        """The session, begun again with more jars if the run needs them. Raises UserError."""
        engine = self._engine
        if engine is not None and engine.has(run.needs):
            return engine
        with self._lock:
            moved = [each for each in self._runs.values() if each.query is not None and not each.stopping]
        needs = frozenset().union(run.needs, *(each.needs for each in moved))
        if engine is not None:
            _log.info("Spark begins again with what %s needs", run.order.run.connector)
            self._moving = True
            try:
                engine.close(STOP_SECONDS)
            finally:
                self._moving, self._engine = False, None
        self._engine = Engine.begin(needs, run.order.worker, self._progressed, self._query_ended)
        for each in moved:
            try:
                self._begin(each, self._engine)
            except Exception as problem:
                _log.exception("the task fails")
                self._end(each, trace_of(problem))
        return self._engine

    def _begin(self, run: _Run, engine: Engine) -> None:
        query = run.work.begin(engine)
        with self._lock:
            run.query = query
        if query.state is not QueryState.RUNNING:
            self._query_ended(query)

    # -- running and ending --------------------------------------------------------------------------

    def _stop(self, run: Run) -> None:
        with self._lock:
            found = self._runs.get(run)
            query = None if found is None else found.query
        if query is not None:  # otherwise the thread that starts it will see that it is to stop
            query.stop(STOP_SECONDS)

    def _run_of(self, query: PipelineQuery) -> _Run | None:
        with self._lock:
            return next((each for each in self._runs.values() if each.query is query), None)

    def _progressed(self, query: PipelineQuery, progress: QueryProgress) -> None:
        run = self._run_of(query)
        if run is None or not progress.is_batch:
            return
        new = {topic for source in progress.sources for topic in source.end} - run.topics
        if new:
            run.topics |= new
            self._tell_of(run, Topics(run.order.run, sorted(new)))
        run.records += progress.input_rows
        figures = {"total-record-errors": float(run.work.failed_records)}
        if run.order.role is Role.SOURCE_TASK:
            figures["source-record-poll-total"] = float(run.records)
        else:
            figures["sink-record-read-total"] = float(run.records)
            figures["sink-record-lag-max"] = float(progress.lag)
        self._tell_of(run, Figures(run.order.run, figures))

    def _query_ended(self, query: PipelineQuery) -> None:
        run = self._run_of(query)
        if run is None or self._moving:
            return
        failure = query.failure
        trace = None
        if failure is not None:
            trace = f"{CONNECT_EXCEPTION}: {failure}\n{failure.traceback or ''}".strip()
        self._end(run, trace)

    def _end(self, run: _Run, trace: str | None) -> None:
        with self._lock:
            if self._runs.pop(run.order.run, None) is None:
                return
        self._tell(Ended(run.order.run, trace))
