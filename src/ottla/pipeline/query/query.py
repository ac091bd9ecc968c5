"""The life of a query: admitted, started, watched, stopped, and where it goes on after any end.

    spec --admit--> admission (the sources to read, and from where) --start--> query --stop--> stopped
                                                                                 \\---------> failed

Restarts. The checkpoint alone decides where a query goes on. Its consumer group (named after the query)
follows, with a mark on every offset that names the Spark query (progress.py); so the group shows that a query
has worked whose checkpoint is missing, and then the query does not start until the user says from where to go
on. A new checkpoint begins where the sources say, or at `start_from_timestamp_ms`.

Changes of code. A query without state may change everything but its sources (maps, filters, the output
topic); a query with state must keep its stateful operators and the columns of their keys and values. Spark
checks this in the first batch; `start` waits for it and reports a conflict in one line.

Failures. A query that fails because a process of Python's did not start, or died, is started again from its
checkpoint, as a supervisor would do with a killed process: `RESTART_WAITS_SECONDS` says after which waits,
and how often without a finished batch between. The log tells each. All other failures end it at once.

Stopping is graceful: the running batch is finished first, for as long as the caller allows. A kill instead
only costs the repetition of that batch.

One thread of the runner looks at all queries every POLL_SECONDS. It hands every batch's progress to the
group's publisher, to the metrics and to the watcher. (A listener in Python would do it too, at 5-10 ms of
processor time a batch, which matters to a query with ten batches a second.)
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError
from ottla.pipeline.query.checkpoints import Checkpoint, Offsets
from ottla.pipeline.query.failures import Failure, failure_of
from ottla.pipeline.query.first_batch import needs_raising, raise_limits
from ottla.pipeline.query.progress import ANY_QUERY, ProgressPublisher, mark
from ottla.pipeline.query.query_progress import QueryProgress, parse_progress
from ottla.pipeline.query.query_spec import (
    Admission,
    AvailableNow,
    Beginning,
    ProcessingTime,
    QueryError,
    QuerySpec,
    RealTime,
    Trigger,
    admit_query,
    begin_positions,
    query_failed,
)
from ottla.pipeline.query.source import KafkaSource
from ottla.pipeline.spark.paths import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ottla.pipeline.query.metrics import QueryMetrics
    from ottla.pipeline.query.traces import QueryTraces

POLL_SECONDS = 0.5
STOP_POLL_SECONDS = 0.01
STOP_TIMEOUT_SECONDS = 30.0
SETTLE_TIMEOUT_SECONDS = 10.0
RESTART_WAITS_SECONDS = (1.0, 2.0, 5.0, 10.0, 20.0)
RECENT_PROGRESS = 100
"""Batches whose progress is kept for each query."""
ENDED_QUERIES = 64

log = logging.getLogger("ottla.pipeline")


class QueryState(Enum):
    """The states of a query's life."""

    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"


class PipelineQuery:
    """A started query. Its properties may be read from any thread.

    query: Spark's, which is another one after a transient failure.
    """

    def __init__(
        self, admission: Admission, start: Callable[[], StreamingQuery], collect: Callable[[], None]
    ) -> None:
        self.admission = admission
        self.query = start()
        self._start = start
        self._collect = collect
        self._restarts = 0
        self._restart_at: float | None = None
        self._restart_reason: Failure | None = None
        self._stopping = False
        self._recent: list[QueryProgress] = []
        self._last_seen: tuple[Any, Any] | None = None
        self._failure: Failure | None = None
        self._ended = threading.Event()
        self._dead_letters = 0
        self._limits_to_raise = needs_raising(admission.sources)

    @property
    def name(self) -> str:
        return self.admission.spec.name

    @property
    def id(self) -> str:
        """Spark's id of the query, the same for every run from one checkpoint."""
        return str(self.query.id)

    @property
    def state(self) -> QueryState:
        if not self._ended.is_set():
            return QueryState.RUNNING
        return QueryState.STOPPED if self._failure is None else QueryState.FAILED

    @property
    def failure(self) -> Failure | None:
        """Why the query failed; None while it runs and after it was stopped."""
        return self._failure

    @property
    def waits_to_restart(self) -> Failure | None:
        """Why the query is started again by itself, while it waits for that."""
        return None if self._restart_at is None else self._restart_reason

    @property
    def progress(self) -> QueryProgress | None:
        """The last batch, or the last look at the sources that found nothing; None before the first."""
        return self._recent[-1] if self._recent else None

    @property
    def recent_progress(self) -> list[QueryProgress]:
        """The last RECENT_PROGRESS reports of progress, oldest first."""
        return list(self._recent)

    @property
    def dead_letters(self) -> int:
        """The number of records sent to dead letters since the query was started."""
        return self._dead_letters

    def await_termination(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the query's end; False if the time ran out. Raises QueryError if the query failed."""
        if not self._ended.wait(timeout_seconds):
            return False
        if self._failure is not None:
            raise query_failed(self.name, self._failure)
        return True

    def stop(self, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> bool:
        """Finish the running batch, then stop. False if the batch took too long and was cut short.

        A batch that is cut short is repeated at the next start. Safe to call twice, and on a failed query.
        """
        self._stopping = True
        finished = self._finish_batch(time.monotonic() + timeout_seconds)
        for _ in range(2):  # Spark's query may be one that has just been started again
            with contextlib.suppress(Exception):  # a Spark that is gone cannot be asked to stop
                self.query.stop()
            self._collect()
            if self.state is not QueryState.RUNNING:
                break
        return finished and self.state is not QueryState.RUNNING

    def _finish_batch(self, deadline: float) -> bool:
        """Wait until no batch runs, or until the one that was running is done and another runs."""
        try:
            last = _last_key(self.query)
            while self.query.isActive and self.query.status["isTriggerActive"]:
                if _last_key(self.query) != last:
                    return True
                if time.monotonic() > deadline:
                    return False
                time.sleep(STOP_POLL_SECONDS)
        except Exception as error:  # Spark went away meanwhile
            log.debug("query %s: no status: %s", self.name, error)
        return True

    def _planned(self) -> None:
        """The first batch has its records: the next ones may have more."""
        if self._limits_to_raise:
            self._limits_to_raise = False
            raise_limits(self.query, self.admission.sources)

    def _add(self, progress: QueryProgress) -> None:
        self._recent = [*self._recent[-(RECENT_PROGRESS - 1) :], progress]
        if progress.is_batch:
            self._restarts = 0
            self._dead_letters += progress.dead_letters

    def _starts_again(self, failure: Failure) -> bool:
        """Whether Spark's query, which has just failed, is to be started again in a while."""
        if not failure.transient or self._stopping or self._restarts == len(RESTART_WAITS_SECONDS):
            return False
        wait_seconds = RESTART_WAITS_SECONDS[self._restarts]
        self._restarts += 1
        self._restart_reason = failure
        self._restart_at = time.monotonic() + wait_seconds
        most = len(RESTART_WAITS_SECONDS)
        counted = f"{self._restarts} of {most}"
        log.warning("query %s is started again in %g s (%s): %s", self.name, wait_seconds, counted, failure)
        return True

    def _restart(self) -> None:
        """Start Spark's query again when it is time. Raises what its start raises."""
        if self._restart_at is not None and time.monotonic() >= self._restart_at:
            self._restart_at = None
            self.query = self._start()
            self._limits_to_raise = needs_raising(self.admission.sources)

    def _end(self, failure: Failure | None) -> None:
        self._failure = failure
        self._ended.set()


Watcher = Callable[[PipelineQuery, QueryProgress], None]


class QueryRunner:
    """Runs the queries of one session. Close the runner before the session."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        metrics: QueryMetrics | None = None,
        on_progress: Watcher | None = None,
        on_end: Callable[[PipelineQuery], None] | None = None,
        traces: QueryTraces | None = None,
    ) -> None:
        """on_progress and on_end are called from the thread that noticed; their exceptions are logged."""
        self._spark = spark
        self._metrics = metrics
        self._traces = traces
        self._on_progress = on_progress
        self._on_end = on_end
        self._queries: dict[str, PipelineQuery] = {}
        self._publishers: dict[object, tuple[KafkaCluster, ProgressPublisher]] = {}
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def queries(self) -> list[PipelineQuery]:
        """The queries that run, and the last ENDED_QUERIES that ended; of one name, the last."""
        with self._lock:
            return list(self._queries.values())

    def admit(self, spec: QuerySpec) -> Admission:
        """Check that a query can start, and from where. Raises SourceError, QueryError or ClusterError.

        Build the query's frames from the sources of the admission.
        """
        with self._lock:
            running = self._queries.get(spec.name)
        if running is not None and running.state is QueryState.RUNNING:
            raise QueryError(f"query {spec.name} is already running")
        return admit_query(spec, lambda source: self._publisher(source)[0])

    def start(
        self,
        admission: Admission,
        writer: DataStreamWriter,
        settle_timeout_seconds: float = SETTLE_TIMEOUT_SECONDS,
    ) -> PipelineQuery:
        """Start a query from its writer, which has its sink, output mode and options.

        Its name, checkpoint and trigger are set here. Returns when Spark has planned the first batch or waits
        for data, at the latest after `settle_timeout_seconds`. Raises QueryError if the query failed by then.
        """
        spec = admission.spec
        self._follow(admission)
        configured = _with_trigger(
            writer.queryName(spec.name).option("checkpointLocation", spec.checkpoint_uri), spec.trigger
        )
        try:
            started = PipelineQuery(admission, configured.start, self._collect_all)
        except Exception as error:
            self._forget(admission)
            raise query_failed(spec.name, failure_of(error)) from error
        with self._lock:
            self._queries.pop(spec.name, None)  # so that the table is in the order of starts
            self._queries[spec.name] = started
            self._forget_ended()
            if self._metrics is not None:
                self._metrics.started(spec.name)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="ottla-queries", daemon=True)
                self._thread.start()
        self._settle(started, time.monotonic() + settle_timeout_seconds)
        return started

    def stop(self, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> bool:
        """Stop all queries gracefully, in parallel. False if a batch had to be cut short."""
        deadline = time.monotonic() + timeout_seconds
        running = [query for query in self.queries if query.state is QueryState.RUNNING]
        finished: list[bool] = []

        def stop(query: PipelineQuery) -> None:
            finished.append(query.stop(max(0.0, deadline - time.monotonic())))

        threads = [threading.Thread(target=stop, args=(query,)) for query in running]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return all(finished)

    def close(self, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> None:
        """Stop all queries, publish their positions, end the threads. Safe to call twice."""
        self.stop(timeout_seconds)
        self._closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        for _, publisher in self._publishers.values():
            publisher.close()

    def _publisher(self, source: KafkaSource) -> tuple[KafkaCluster, ProgressPublisher]:
        """The client and the publisher for a source's cluster."""
        key = (source.bootstrap, tuple(sorted(source.client_options.items())))
        with self._lock:
            if key not in self._publishers:
                cluster = source.cluster
                self._publishers[key] = (cluster, ProgressPublisher(cluster))
            return self._publishers[key]

    def _follow(self, admission: Admission) -> None:
        spec = admission.spec
        try:
            for source, topics in zip(admission.sources, admission.topics, strict=True):
                cluster, publisher = self._publisher(source)
                publisher.follow(
                    spec.name,
                    spec.group_id,
                    topics,
                    spec.checkpoint,
                    new_topics=source.pattern is not None,
                    begin=begin_positions(source, topics, cluster),
                    begin_mark=mark(ANY_QUERY) if admission.beginning is Beginning.GROUP else "",
                )
        except ClusterError as error:
            raise QueryError(f"query {spec.name} cannot start: {error}") from error

    def _forget(self, admission: Admission) -> None:
        for source in admission.sources:
            self._publisher(source)[1].forget(admission.spec.name)

    def _forget_ended(self) -> None:
        """Keep the last of those that have ended: a process that starts queries grows by each."""
        ended = [name for name, query in self._queries.items() if query.state is not QueryState.RUNNING]
        for name in ended[:-ENDED_QUERIES]:
            del self._queries[name]

    def _settle(self, query: PipelineQuery, deadline: float) -> None:
        """Wait for the first sign that Spark can run the query with its checkpoint."""
        while time.monotonic() < deadline:
            try:
                active = query.query.isActive
                planned = _has_planned(query.query)
            except Exception:  # Spark is gone; the next look reports it
                active = planned = False
            if not active:
                self._collect_all()
                if query.failure is not None:
                    raise query_failed(query.name, query.failure)
                if query.state is not QueryState.RUNNING:
                    return
            elif planned:
                query._planned()
                return
            time.sleep(STOP_POLL_SECONDS)

    def _watch(self) -> None:
        while not self._closed.wait(POLL_SECONDS):
            self._collect_all()

    def _collect_all(self) -> None:
        """Take over every query's new progress; called by the runner's thread and when a query is stopped."""
        told: list[Callable[[], None]] = []
        with self._lock:
            for query in list(self._queries.values()):
                if query.state is QueryState.RUNNING:
                    try:
                        self._collect(query, told)
                    except Exception as error:
                        if _spark_answers(query.query):
                            log.exception("query %s: no progress", query.name)
                        else:
                            log.debug("query %s: Spark is gone: %s", query.name, error)
                            self._ended(query, Failure("Spark is gone"), told)
        for tell in told:  # without the lock: a callback may stop queries, or close the runner
            try:
                tell()
            except Exception:
                log.exception("a query's watcher failed")

    def _collect(self, query: PipelineQuery, told: list[Callable[[], None]]) -> None:
        active = query.query.isActive  # asked first: if the query has ended, all of its progress is there
        for raw in _new_progress(query):
            query._planned()
            progress = parse_progress(raw)
            query._add(progress)
            positions: Offsets = {}
            for source in progress.sources:
                positions |= source.end
            for read in query.admission.sources:
                self._publisher(read)[1].enqueue(query.name, positions, progress.query_id)
            if self._metrics is not None:
                self._metrics.observe(progress)
            if self._traces is not None:
                self._traces.batch(progress)
            if self._on_progress is not None:
                told.append(partial(self._on_progress, query, progress))
        if not active:
            self._collect_end(query, told)

    def _collect_end(self, query: PipelineQuery, told: list[Callable[[], None]]) -> None:
        """Spark's query has ended, and perhaps waits to be started again."""
        if query._restart_at is None:
            error = query.query.exception()
            failure = None if error is None else failure_of(error)
            if failure is None or not query._starts_again(failure):
                self._ended(query, failure, told)
            elif self._metrics is not None:
                self._metrics.restarted(query.name)
        elif query._stopping:
            self._ended(query, None, told)
        else:
            try:
                query._restart()
            except Exception as refused:
                self._ended(query, failure_of(refused), told)

    def _ended(self, query: PipelineQuery, failure: Failure | None, told: list[Callable[[], None]]) -> None:
        """Publish the checkpoint's positions: with the last finished batch, without one cut short."""
        path = local_path(query.admission.spec.checkpoint)
        checkpoint = Checkpoint(path) if path is not None else None
        for source in query.admission.sources:
            publisher = self._publisher(source)[1]
            if checkpoint is not None and checkpoint.query_id is not None:
                publisher.publish(query.name, checkpoint.positions, checkpoint.query_id)
            publisher.forget(query.name)
        if failure is not None:
            log.error("query %s failed: %s", query.name, failure)
            if failure.traceback:
                log.error("%s", failure.traceback)
        if self._metrics is not None:
            self._metrics.ended(query.name, failed=failure is not None)
        query._end(failure)
        if self._on_end is not None:
            told.append(partial(self._on_end, query))


def _with_trigger(writer: DataStreamWriter, trigger: Trigger) -> DataStreamWriter:
    match trigger:
        case ProcessingTime(interval_ms):
            return writer.trigger(processingTime=f"{interval_ms} milliseconds")
        case AvailableNow():
            return writer.trigger(availableNow=True)
        case RealTime(batch_ms):
            return _in_real_time(writer, f"{batch_ms} milliseconds")


def _in_real_time(writer: Any, batch: str) -> DataStreamWriter:
    """The writer with the real-time trigger, which Spark has since 4.1 and PySpark names since 4.2."""
    if hasattr(writer, "_jwrite"):
        from pyspark import SparkContext

        jvm: Any = SparkContext._jvm
        writer._jwrite = writer._jwrite.trigger(jvm.org.apache.spark.sql.streaming.Trigger.RealTime(batch))
    else:  # Spark Connect
        writer = writer.trigger(realTime=batch)
    configured: DataStreamWriter = writer
    return configured


def _spark_answers(query: StreamingQuery) -> bool:
    try:
        return query.isActive is not None
    except Exception:
        return False


def _last_key(query: StreamingQuery) -> tuple[Any, Any] | None:
    """A key that tells a progress from the one before it: batches without data all have the same number."""
    java_query = getattr(query, "_jsq", None)
    if java_query is None:
        last = query.lastProgress
        return None if last is None else (last["batchId"], last["timestamp"])
    last = java_query.lastProgress()
    return None if last is None else (last.batchId(), last.timestamp())


def _has_planned(query: StreamingQuery) -> bool:
    """Whether Spark has accepted the plan for the checkpoint: it runs the first batch or waits for data."""
    if _last_key(query) is not None or query.status["message"].startswith("Waiting"):
        return True
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:  # Spark Connect does not report jobs
        return False
    # A batch's jobs are in a group named after the run.
    return bool(context.statusTracker().getJobIdsForGroup(str(query.runId)))


def _new_progress(query: PipelineQuery) -> list[Any]:
    """The progress since the last call, oldest first: JSON texts, or PySpark's own dictionaries.

    Spark keeps the last hundred. Only the new ones are fetched: each costs a round trip to the JVM.
    """
    last_key = _last_key(query.query)
    if last_key is None or last_key == query._last_seen:
        return []
    java_query = getattr(query.query, "_jsq", None)
    found: list[Any] = []
    if java_query is None:
        for progress in reversed(query.query.recentProgress):
            if (progress["batchId"], progress["timestamp"]) == query._last_seen:
                break
            found.append(progress.json if hasattr(progress, "json") else progress)
    else:
        recent = java_query.recentProgress()
        for index in range(len(recent) - 1, -1, -1):
            progress = recent[index]
            key = (progress.batchId(), progress.timestamp())
            if key == query._last_seen:
                break
            if not found:
                last_key = key
            found.append(progress.json())
    query._last_seen = last_key
    return found[::-1]
