"""Satisfies RowQueries: push and pull queries, and INSERT INTO … VALUES, on one server."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError
from ottla.client.reading import read
from ottla.connect.data.schema import DataError
from ottla.connect.plugins.api import RetriableError
from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog, Source
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.language.statements import Query, Select
from ottla.sql.lowering.evaluator import constant_values
from ottla.sql.plan.bound import BoundColumn
from ottla.sql.plan.query_plan import FromSource, Mode, QueryPlan
from ottla.sql.plan.statement_plan import RunQuery, WriteRow
from ottla.sql.rows.codecs import RowCodec
from ottla.sql.rows.figures import PullMeasure, RowFigures, RunsOn
from ottla.sql.rows.forwarding import FORWARDED, passed_on
from ottla.sql.rows.hub import BATCH_RECORDS, MAX_WAITING_ROWS, Hub, Outlet, TopicReader, give, readable
from ottla.sql.rows.messages import record_of
from ottla.sql.rows.port import (
    Answer,
    OutRow,
    Peers,
    RunningPush,
    TransientQueries,
    TransientQuery,
    WholeRows,
)
from ottla.sql.rows.pull_plans import PullPlans
from ottla.sql.rows.pulling import PullPlan, ends_of
from ottla.sql.rows.selecting import Selection, runs_by_row
from ottla.sql.rows.transient import transient_plan
from ottla.sql.rows.views import TableViews
from ottla.sql.rows.writing import RecordProducer
from ottla.streams.views.view_status import ViewStatus

T = TypeVar("T")

log = logging.getLogger("ottla.sql")

VIEW_SECONDS: Final = 60.0
"""For a table's view to be read to its end when it is first asked for."""
PLACED_SECONDS: Final = 30.0
MAX_PUSH_QUERIES: Final = 2_000
WORKERS: Final = 16
MAX_LAG: Final = "ksql.query.pull.max.allowed.offset.lag"
MAX_WAITING: Final = "ksql.query.push.max.rows.waiting"


@dataclass(slots=True)
class _Push:
    """A push query that runs. source: what its rows are read of."""

    outlet: Outlet
    text: str
    sources: tuple[str, ...]
    topic: str
    transient: TransientQuery | None = None
    watching: asyncio.Task[None] | None = None
    """Ends the query when Spark's can't go on."""


class SqlRows:
    """catalog: the streams and tables of now; registry: settings of its client, None without one.

    answers_pulls: whether pull queries are allowed at all.
    """

    def __init__(
        self,
        access: ClusterAccess,
        catalog: Callable[[], Catalog],
        functions: Functions,
        directory: Path,
        transients: TransientQueries,
        registry: Mapping[str, str] | None = None,
        peers: Peers | None = None,
        *,
        answers_pulls: bool = True,
    ) -> None:
        self._access = access
        self._peers = peers
        self._answers_pulls = answers_pulls
        self._cluster = KafkaCluster(access.bootstrap, dict(access.properties), "ottla-sql")
        self._catalog = catalog
        self._functions = functions
        self._transients = transients
        self._registry = registry
        self._views = TableViews(self._cluster, directory / "views", registry)
        self._hub = Hub(self._cluster)
        self._pushes: dict[str, _Push] = {}
        self._plans = PullPlans()
        self._codecs: dict[str, RowCodec] = {}
        self._numbers = itertools.count(1)
        self._prefix = secrets.token_hex(4)
        self._producer = RecordProducer(self._cluster)
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="sql-rows")
        """For scans and queries that catch up: they would fill the loop's own threads."""
        self._closing: set[asyncio.Task[None]] = set()
        self.figures = RowFigures()

    # -- queries --------------------------------------------------------------------------------------

    async def query(self, select: Query, text: str, properties: Mapping[str, str]) -> Answer:
        """See RowQueries."""
        catalog = self._catalog()
        pull = self._plans.find(text, catalog)
        if pull is None:
            plan = Binder(catalog, self._functions).bind(Select(select.at, select))
            assert isinstance(plan, RunQuery)
            if plan.query.mode is not Mode.PULL:
                return await self._push(plan.query, text, properties)
            pull = self._plans.keep(text, plan.query, catalog, self._functions)
        return await self._pull(pull, text, properties)

    async def known(self, text: str, properties: Mapping[str, str]) -> Answer | None:
        """The answer to a pull query of a shape that was asked before, without parsing it; else None."""
        pull = self._plans.find(text, self._catalog())
        return None if pull is None else await self._pull(pull, text, properties)

    async def _pull(self, plan: PullPlan, text: str, properties: Mapping[str, str]) -> Answer:
        measure = self.figures.pull_begun(plan.reads)
        try:
            answer = await self._pulled(plan, text, properties, measure)
        except BaseException:
            measure.failed()
            raise
        if isinstance(answer.rows, WholeRows):
            measure.ended(len(answer.rows.rows))
        return answer

    async def _pulled(
        self, plan: PullPlan, text: str, properties: Mapping[str, str], measure: PullMeasure
    ) -> Answer:
        if not self._answers_pulls:
            advice = "add EMIT CHANGES for a push query, or start it with ksql.pull.queries.enable=true"
            raise SqlError("this server answers no pull queries", None, advice)
        source = plan.query.source.source
        id = f"query_{self._prefix}_{next(self._numbers)}"
        columns = plan.selection.columns
        if not source.is_table:
            return await self._pull_of_stream(plan, id, measure)
        plan.require_allowed(properties)
        view = self._views.ready(source)
        if view is None:
            is_passed_on = properties.get(FORWARDED) == "true"
            begun = await asyncio.to_thread(self._views.begun, source)
            if not begun.is_ready and self._peers is not None and not is_passed_on:
                answer = await passed_on(self._peers, text, properties, id, columns, source.topic)
                if answer is not None:
                    self.figures.passed_on += 1
                    return answer
            wait_seconds = 0.0 if is_passed_on else VIEW_SECONDS
            view = await asyncio.to_thread(self._views.of, source, wait_seconds)
        rows: AsyncIterator[Sequence[OutRow]]
        if plan.bounds.keys is not None:
            # Some microseconds, so that a thread would take longer than the work itself.
            found, offsets = plan.looked_up(view)
            rows = WholeRows(found)
        else:
            pages, offsets = await self._in_thread(plan.scan, view)
            rows = self._paged(pages, measure)
        positions = {(source.topic, partition): offset for partition, offset in offsets.items()}
        ends = view.progress.ends
        lag = sum(max(0, end - offsets.get(partition, 0)) for partition, end in ends.items())
        require_recent(source, lag, properties)
        return Answer(id, columns, False, rows, positions, lag)

    async def _pull_of_stream(self, plan: PullPlan, id: str, measure: PullMeasure) -> Answer:
        source = plan.query.source.source
        codec = RowCodec(source, self._registry)
        begin, end = await asyncio.to_thread(ends_of, self._cluster, source.topic)
        rows = self._paged(plan.streamed(codec, self._access, begin, end), measure)
        positions = {(source.topic, partition): offset for partition, offset in end.items()}
        return Answer(id, plan.selection.columns, False, rows, positions, 0)

    async def _in_thread(self, work: Callable[..., T], *given: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._workers, work, *given)

    async def _paged(
        self, pages: Generator[Sequence[OutRow], None, None], measure: PullMeasure
    ) -> AsyncIterator[Sequence[OutRow]]:
        """Pages that a thread makes; they are closed when the caller is at their end, or goes away."""
        under_way: asyncio.Future[Sequence[OutRow] | None] | None = None
        count = 0
        try:
            while True:
                under_way = asyncio.ensure_future(self._in_thread(next, pages, None))
                page = await asyncio.shield(under_way)
                if page is None:
                    measure.ended(count)
                    return
                count += len(page)
                yield page
        except BaseException:
            measure.failed(count)
            raise
        finally:
            if under_way is None or under_way.done():
                pages.close()
            else:  # a thread is within: it can't be closed before
                under_way.add_done_callback(lambda _: pages.close())

    async def _push(self, query: QueryPlan, text: str, properties: Mapping[str, str]) -> Answer:
        if len(self._pushes) >= MAX_PUSH_QUERIES:
            raise SqlError(f"there are {MAX_PUSH_QUERIES} push queries already", None, "end some first")
        id = f"transient_{self._prefix}_{next(self._numbers)}"
        sources = tuple(dict.fromkeys(each.source.name for each in query.sources))
        transient: TransientQuery | None = None
        begins_first = properties.get("auto.offset.reset", "latest") == "earliest"
        if runs_by_row(query):
            source = query.source.source
            selection = Selection(query, self._functions, follows=True)
        else:
            plan = transient_plan(query, id)
            transient = await self._transients.start(plan, properties)
            source, begins_first = transient.target, True
            selection = Selection(_everything(source, query), self._functions)
        most = int(properties.get(MAX_WAITING, MAX_WAITING_ROWS))
        outlet = Outlet(id, selection, query.limit, most)
        self.figures.pushes_started[RunsOn.SERVER if transient is None else RunsOn.SPARK] += 1
        push = self._pushes[id] = _Push(outlet, text, sources, source.topic, transient)
        if transient is not None:
            watching = self._end_with(transient, outlet)
            push.watching = asyncio.create_task(watching, name=f"{id} on Spark")
        try:
            await self._feed(source, outlet, begins_first)
        except BaseException:
            await self._end(id)
            raise
        closing = self._closer(id)
        return Answer(id, selection.columns, True, _ending(outlet.rows(), closing), closing=closing)

    async def _end_with(self, transient: TransientQuery, outlet: Outlet) -> None:
        """End a push query when Spark's own can't go on, so that nobody waits for rows that never come."""
        problem = await self._transients.failure(transient)
        outlet.end(SqlError(f"the query has failed: {problem.splitlines()[0]}", None))

    async def _feed(self, source: Source, outlet: Outlet, begins_first: bool) -> None:
        codec = RowCodec(source, self._registry)
        reader = await asyncio.to_thread(self._hub.reader, source.topic, outlet.query_id)
        if not await asyncio.to_thread(reader.placed, PLACED_SECONDS) or reader.problem is not None:
            raise SqlError(f"the topic {source.topic} can't be read: {reader.problem or 'no answer'}", None)
        if not begins_first:
            reader.join(codec, outlet, None)
            return
        catching = asyncio.create_task(self._in_thread(self._catch_up, reader, codec, outlet))
        self._closing.add(catching)
        catching.add_done_callback(self._closing.discard)

    def _catch_up(self, reader: TopicReader, codec: RowCodec, outlet: Outlet) -> None:
        """Read what is there with a reader of its own, then go on with the shared one. Blocks."""
        topic = codec.source.topic
        try:
            at: Mapping[int, int] = self._cluster.start_positions(topic)
            end: Mapping[int, int] | None = self._cluster.end_positions(topic)
            while end is not None and not outlet.is_ended:
                self._read_between(codec, outlet, at, end)
                at = end
                end = reader.join(codec, outlet, at)
        except Exception as problem:  # of any kind: the query must not wait for ever
            outlet.end(SqlError(f"{codec.source.name} can't be read: {problem}", None))

    def _read_between(
        self, codec: RowCodec, outlet: Outlet, begin: Mapping[int, int], end: Mapping[int, int]
    ) -> None:
        rows = []
        for message in read(self._access, codec.source.topic, begin, end):
            if outlet.is_ended:
                return
            if (row := readable(codec, record_of(message))) is not None:
                rows.append(row)
            if len(rows) >= BATCH_RECORDS:
                give(outlet, rows)
                rows = []
        give(outlet, rows)

    def _closer(self, id: str) -> Callable[[], Awaitable[None]]:
        async def close() -> None:
            await self._end(id)

        return close

    async def _end(self, id: str) -> None:
        push = self._pushes.pop(id, None)
        if push is None:
            return
        push.outlet.end()
        self.figures.push_rows += push.outlet.rows_sent
        self.figures.push_errors += push.outlet.problem is not None
        if push.watching is not None:
            push.watching.cancel()
            await asyncio.wait([push.watching])
        await asyncio.to_thread(self._hub.leave, push.topic, id)
        if push.transient is not None:
            await self._transients.stop(push.transient)

    async def close(self, query_id: str) -> bool:
        """See RowQueries."""
        if query_id not in self._pushes:
            return False
        await self._end(query_id)
        return True

    def running(self) -> Sequence[RunningPush]:
        """See RowQueries."""
        return [
            RunningPush(id, each.text, each.sources, each.outlet.rows_sent)
            for id, each in self._pushes.items()
        ]

    @property
    def pushed_rows(self) -> int:
        """Rows that push queries have sent, those that run and those that have ended."""
        return self.figures.push_rows + sum(each.outlet.rows_sent for each in self._pushes.values())

    def push_counts(self) -> Mapping[RunsOn, int]:
        """The push queries that run, by where their rows are made."""
        on_spark = sum(each.transient is not None for each in self._pushes.values())
        return {RunsOn.SERVER: len(self._pushes) - on_spark, RunsOn.SPARK: on_spark}

    def view_statuses(self) -> Mapping[str, ViewStatus]:
        """How far this server's copies of tables are, by the tables' names."""
        return self._views.statuses()

    # -- writing --------------------------------------------------------------------------------------

    async def insert(self, plan: WriteRow, properties: Mapping[str, str]) -> None:
        """See RowQueries."""
        await self.write(plan.target, constant_values(plan.values, self._functions))

    async def write(self, target: Source, values: Mapping[str, Any]) -> None:
        """Write a row; returns when the cluster has it. Raises SqlError, ClusterError."""
        await (await self.begin_write(target, values))

    async def begin_write(self, target: Source, values: Mapping[str, Any]) -> asyncio.Future[None]:
        """Begin to write a row; the future ends when the cluster has it. Raises SqlError, ClusterError."""
        codec = self._codecs.get(target.name)
        if codec is None or codec.source != target:
            codec = self._codecs[target.name] = RowCodec(target, self._registry)
        try:
            if codec.asks_registry:
                key, value = await self._in_thread(encoded, codec, values)
            else:
                key, value = encoded(codec, values)
        except (ValueError, TypeError, DataError, RetriableError) as problem:
            raise SqlError(f"{target.name}: {problem}", None) from None
        return self._producer.begin(target.topic, key, value, values.get("ROWTIME"))

    # -- life -----------------------------------------------------------------------------------------

    async def open_views(self, catalog: Catalog) -> None:
        """Begin to follow the tables that queries make, and let go of those that are gone."""
        tables = [each for each in catalog.sources.values() if each.is_table]
        await asyncio.to_thread(self._views.keep, frozenset(each.name for each in tables))
        for each in tables:
            if each.written_by is None:
                continue
            try:
                await asyncio.to_thread(self._views.of, each, 0.0)
            except (SqlError, ClusterError):
                continue  # it is being read, or is asked for again when it is needed
            except (OSError, sqlite3.Error) as problem:
                log.warning("the table %s can't be kept on this server's disk: %s", each.name, problem)

    def end_requests(self) -> None:
        """End all push queries: the server stops."""
        for push in list(self._pushes.values()):
            push.outlet.end(SqlError("the server stops", None, "ask again"))

    async def stop(self) -> None:
        """Close everything."""
        for id in list(self._pushes):
            await self._end(id)
        await asyncio.to_thread(self._hub.close)
        await asyncio.to_thread(self._views.close)
        await asyncio.to_thread(self._producer.close)
        self._workers.shutdown(wait=False, cancel_futures=True)


def _everything(source: Source, query: QueryPlan) -> QueryPlan:
    """A query's rows out of the topic that Spark writes them to."""
    projection = tuple(
        replace(each, expression=BoundColumn(source.name, each.name, each.expression.type))
        for each in query.projection
    )
    return QueryPlan(FromSource(source.name, source), projection, source.kind)


def encoded(codec: RowCodec, values: Mapping[str, Any]) -> tuple[bytes | None, bytes | None]:
    """A row's key and value. May ask the Schema Registry. Raises ValueError, DataError, RetriableError."""
    return codec.key_bytes(values), codec.value_bytes(values)


def require_recent(source: Source, lag: int, properties: Mapping[str, str]) -> None:
    """Raises SqlError for an answer that is older than the properties allow."""
    most = properties.get(MAX_LAG, "")
    if most.isdecimal() and lag > int(most):
        raise SqlError(
            f"{source.name} is {lag} offsets behind its topic on this server, {MAX_LAG} allows {most}",
            None,
            "ask again, or another server",
        )


async def _ending(
    rows: AsyncIterator[Sequence[OutRow]], closing: Callable[[], Awaitable[None]]
) -> AsyncIterator[Sequence[OutRow]]:
    """The rows, and behind them the query's end."""
    try:
        async for chunk in rows:
            yield chunk
    finally:
        await closing()
