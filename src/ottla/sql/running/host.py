"""The query host: one Spark session, and each running query an application of Streams in it.

The queries of dead letters begin when all others do: a start of twenty queries is a third shorter by that. A
query that fails ends alone: the others go on. Spark itself ends with the process, and so do all queries;
they go on from their checkpoints in the next one.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.client.access import ClusterAccess
from ottla.config.errors import UserError
from ottla.pipeline.file_lock import FileLock
from ottla.pipeline.spark.session import SparkPipelineSession, SparkSettings, start_session
from ottla.sql.functions.loading import user_functions
from ottla.sql.functions.registry import BUILT_IN, Functions
from ottla.sql.lowering.query import Lowering
from ottla.sql.plan.statement_plan import PutQuery
from ottla.sql.plan.stored import restored
from ottla.sql.running.messages import (
    Configure,
    Ended,
    Event,
    Order,
    Progress,
    Ready,
    Running,
    Start,
    Stop,
    Stopped,
)
from ottla.streams.dsl import Streams
from ottla.streams.run.application import RunningStreams, start
from ottla.streams.run.reset import plan_reset, reset
from ottla.streams.run.settings import StreamsSettings
from ottla.streams.run.spark_settings import STATE_SETTINGS
from ottla.streams.run.state_stores import begin_one_by_one

if TYPE_CHECKING:
    from ottla.pipeline.query.query import PipelineQuery
    from ottla.pipeline.query.query_progress import QueryProgress

LOOK_SECONDS: Final = 0.5
PROGRESS_SECONDS: Final = 0.5
"""Between two reports of one query's progress."""
BEGIN_TOGETHER: Final = 4
"""Queries that begin at a time: each waits for the broker and for Spark's first batch a good part of it."""
POLL_MS: Final = 250
"""Between two looks of a query that has nothing to do. A look takes 3 ms of a processor: with Spark's 10 ms
twenty idle queries took all of two cores, with these a third of one.
"""
LOCK_SECONDS: Final = 60.0
"""For a host before this one to be gone."""

log = logging.getLogger("ottla.sql")


@dataclass(slots=True)
class _Query:
    """A query that starts or runs. stopping: set when it is to end."""

    order: Start
    stopping: threading.Event = field(default_factory=threading.Event)
    forget: bool = False
    positions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    told_at: float = 0.0


class Beginnings:
    """The queries that begin, a few at a time, and what waits until none does. For use from any thread."""

    def __init__(self, together: int) -> None:
        self._turn = threading.BoundedSemaphore(together)
        self._news = threading.Condition()
        self._begin = 0
        self._waiting: deque[Callable[[], None]] = deque()

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """A query's turn to begin, once there is one."""
        with self._news:
            self._begin += 1
        try:
            with self._turn:
                yield
        finally:
            with self._news:
                self._begin -= 1
                self._news.notify_all()

    def later(self, call: Callable[[], None]) -> None:
        """Call a function that raises nothing when no query begins any more; one after the other."""
        with self._news:
            self._waiting.append(call)
            self._news.notify_all()

    def run(self) -> None:
        """Call what waits, for ever."""
        while True:
            with self._news:
                self._news.wait_for(lambda: self._waiting and not self._begin)
                call = self._waiting.popleft()
            with self._turn:
                call()


class QueryHost:
    """Carries out orders, each query in a thread of its own. tell: takes events, from any thread."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._given: Configure | None = None
        self._functions = Functions()
        self._session: SparkPipelineSession | None = None
        self._alone: FileLock | None = None
        self._queries: dict[str, _Query] = {}
        self._lock = threading.Lock()
        self._beginnings = Beginnings(1)

    def take(self, order: Order) -> None:
        """Carry out an order. Raises UserError where Spark, or the functions, can't be had."""
        match order:
            case Configure():
                self._configure(order)
            case Start():
                self._start(order)
            case Stop():
                self._stop(order)

    def _configure(self, given: Configure) -> None:
        begun = time.monotonic()
        self._given = given
        self._functions = user_functions(given.functions)
        state = Path(given.state)
        state.mkdir(parents=True, exist_ok=True)
        # Two hosts of one state would both believe in its checkpoints: the other one has to be gone first.
        self._alone = FileLock(state / "host.lock")
        if not self._alone.acquire(LOCK_SECONDS):
            raise UserError(f"another query host uses {state}")
        self._session = start_session(
            SparkSettings(
                "ottla sql",
                state / "spark",
                master=given.master,
                shuffle_partitions=given.partitions,
                driver_memory=given.driver_memory,
                properties={
                    **STATE_SETTINGS,
                    "spark.sql.caseSensitive": "true",
                    # a large batch of one query does not hold up the others
                    "spark.scheduler.mode": "FAIR",
                    "spark.sql.streaming.pollingDelay": f"{POLL_MS}ms",
                    **given.spark,
                },
            )
        )
        if not begin_one_by_one(self._session.spark.version):
            self._beginnings = Beginnings(BEGIN_TOGETHER)
        threading.Thread(target=self._beginnings.run, name="dead-letters", daemon=True).start()
        self._tell(Ready(time.monotonic() - begun))

    def _start(self, order: Start) -> None:
        with self._lock:
            if order.query_id in self._queries:
                return
            query = self._queries[order.query_id] = _Query(order)
        threading.Thread(target=self._run, args=(query,), name=order.query_id, daemon=True).start()

    def _stop(self, order: Stop) -> None:
        with self._lock:
            query = self._queries.get(order.query_id)
            if query is not None:
                query.forget = order.forget
                query.stopping.set()
                return
        if order.forget:
            self._forget(order.name, None)
        self._tell(Stopped(order.query_id))

    # -- one query ------------------------------------------------------------------------------------

    def _run(self, query: _Query) -> None:
        order, problem = query.order, None
        try:
            self._run_until_stopped(query)
        except UserError as error:
            problem = str(error)
        except Exception as error:
            log.exception("query %s fails", order.query_id)
            problem = f"{type(error).__name__}: {error}"
        with self._lock:
            # Under the lock with `_stop`, so that each Stop has its answer from one of the two.
            self._queries.pop(order.query_id, None)
            is_stopped = query.stopping.is_set()
        if query.forget:
            self._forget(order.name, order)
        self._tell(Ended(order.query_id, order.revision, problem, query.positions))
        if is_stopped:
            self._tell(Stopped(order.query_id))

    def _run_until_stopped(self, query: _Query) -> None:
        order, begun = query.order, time.monotonic()
        assert self._given is not None
        app = lowered(order, self._functions, self._given.registry)
        with self._beginnings.one():
            if query.stopping.is_set():
                return
            running = start(
                app.topology(),
                self._settings(),
                session=self._session,
                on_progress=lambda one, progress: self._progress(query, one, progress),
                later=self._beginnings.later,
            )
        with running:
            self._tell(Running(order.query_id, order.revision, time.monotonic() - begun))
            while not query.stopping.wait(LOOK_SECONDS):
                if running.await_end(0):
                    break
            query.positions = _positions(running)

    def _forget(self, name: str, order: Start | None) -> None:
        """Remove what a query has left behind; what can't be removed now is told, and harms nobody."""
        given = self._given
        assert given is not None
        state = Path(given.state) / "queries"
        try:
            topology = None if order is None else lowered(order, self._functions, given.registry).topology()
            access = ClusterAccess(given.bootstrap, given.client)
            reset(plan_reset(name, topology, access, state))
        except UserError as problem:
            log.info("not all of %s is removed: %s", name, problem)
        shutil.rmtree(state / name, ignore_errors=True)

    def _settings(self) -> StreamsSettings:
        given = self._given
        assert given is not None
        return StreamsSettings(
            bootstrap=given.bootstrap,
            state=Path(given.state) / "queries",
            dead_letters=given.processing_log,
            partitions=given.partitions,
            batch_records=given.batch_records,
            client_options=given.client,
        )

    def _progress(self, query: _Query, one: PipelineQuery, progress: QueryProgress) -> None:
        now = time.monotonic()
        if now - query.told_at < PROGRESS_SECONDS and not progress.lag:
            return
        query.told_at = now
        self._tell(
            Progress(
                query.order.query_id,
                progress.timestamp_ms,
                progress.input_rows,
                progress.processed_rows_per_second,
                progress.lag,
                one.dead_letters,
                _ends(progress),
            )
        )


def lowered(order: Start, functions: Functions, registry: Mapping[str, str]) -> Streams:
    """The application of a query's stored plan. registry: settings of its client.

    Raises SqlError, StoredPlanError.
    """
    plan = restored(order.plan)
    if not isinstance(plan, PutQuery):
        raise UserError(f"{order.query_id}: its plan is no query's")
    app = Streams(order.name)
    own = {name: each for name, each in functions.named.items() if name not in BUILT_IN}
    Lowering(app, own, order.starts_at, registry).put(plan)
    return app


def _positions(running: RunningStreams) -> Mapping[str, Mapping[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for query in running.queries:
        if query.progress is not None:
            for topic, partitions in _ends(query.progress).items():
                found.setdefault(topic, {}).update(partitions)
    return found


def _ends(progress: QueryProgress) -> Mapping[str, Mapping[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for source in progress.sources:
        for topic, partitions in source.end.items():
            places = {str(partition): offset for partition, offset in partitions.items()}
            found.setdefault(topic, {}).update(places)
    return found
