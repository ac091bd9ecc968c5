"""What the rows' house gives, and what it is given: the interfaces between it, the server and the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ottla.sql.catalog.sources import Source
from ottla.sql.language.statements import Query
from ottla.sql.plan.statement_plan import PutQuery, WriteRow
from ottla.sql.types.sql_types import SqlType


@dataclass(frozen=True, slots=True)
class OutColumn:
    """A column of an answer. name: as the statement has it."""

    name: str
    type: SqlType
    is_key: bool


@dataclass(frozen=True, slots=True)
class OutRow:
    """A row of an answer: Python's values of the columns' types (see types/sql_types.py).

    tombstone: a table's row is gone; columns that are no keys are None.
    """

    values: tuple[Any, ...]
    tombstone: bool = False


class WholeRows:
    """The rows of an answer that is all there: an iterator of one chunk."""

    __slots__ = ("_left", "rows")

    def __init__(self, rows: Sequence[OutRow]) -> None:
        self.rows = rows
        self._left = bool(rows)

    def __aiter__(self) -> WholeRows:
        return self

    async def __anext__(self) -> Sequence[OutRow]:
        if not self._left:
            raise StopAsyncIteration
        self._left = False
        return self.rows


async def _nothing_to_close() -> None:
    return None


@dataclass(slots=True)
class Answer:
    """What a query answers, while it does.

    rows: in chunks; a push query's end on LIMIT, on `close`, or when the query is terminated. They raise
    SqlError for a query that can't go on, and for a caller that takes its rows too slowly.
    positions: of a pull query, by topic and partition: the offset, exclusive, as of which it is answered.
    lag: of a pull query: how many offsets were committed and are not yet in the view; None where it is not
    known. closing: what `close` awaits, once.
    """

    query_id: str
    columns: tuple[OutColumn, ...]
    is_push: bool
    rows: AsyncIterator[Sequence[OutRow]]
    positions: Mapping[tuple[str, int], int] = field(default_factory=dict)
    lag: int | None = None
    closing: Callable[[], Awaitable[None]] = _nothing_to_close

    async def close(self) -> None:
        """End it: its rows end. Safe to call twice."""
        closing, self.closing = self.closing, _nothing_to_close
        await closing()


@dataclass(frozen=True, slots=True)
class RunningPush:
    """A push query that is running, for SHOW QUERIES."""

    query_id: str
    text: str
    sources: tuple[str, ...]
    rows_sent: int


class RowQueries(Protocol):
    """Answers queries, writes rows."""

    async def query(self, select: Query, text: str, properties: Mapping[str, str]) -> Answer:
        """Start a push or pull query. Raises SqlError, ClusterError."""

    async def insert(self, plan: WriteRow, properties: Mapping[str, str]) -> None:
        """Write one row; returns when the cluster has it. Raises SqlError, ClusterError."""

    async def close(self, query_id: str) -> bool:
        """End a push query; whether there was one."""

    def running(self) -> Sequence[RunningPush]:
        """The push queries that are running."""


@dataclass(frozen=True, slots=True)
class TransientQuery:
    """A query that Spark runs for one push query, into a topic of its own."""

    query_id: str
    target: Source


class TransientQueries(Protocol):
    """Runs queries for push queries that need Spark: joins, aggregates, windows."""

    async def start(self, plan: PutQuery, properties: Mapping[str, str]) -> TransientQuery:
        """Make the topic and start the query. `plan.target` names both. Raises SqlError, ClusterError."""

    async def stop(self, query: TransientQuery) -> None:
        """End the query and delete its topic. Never raises."""

    async def failure(self, query: TransientQuery) -> str:
        """Wait until the query can't go on; the reason."""


class Peers(Protocol):
    """The other servers of the cluster of servers."""

    def addresses(self) -> Sequence[str]:
        """The URLs of the servers that are alive, without this one's."""
