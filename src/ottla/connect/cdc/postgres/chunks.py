"""Chunks of PostgreSQL's tables: read as texts, in the order of a key, in one view of the database.

Keys are compared by the database, as texts that it takes for its columns' types: what COPY gave is what a
condition is written with. Rows with one surrogate key come in one chunk (WITH TIES).
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import sql

from ottla.connect.cdc.core.envelope import Operation, SnapshotMark
from ottla.connect.cdc.core.incremental import (
    Chunk,
    ChunkRequest,
    ChunkRow,
    KeyChanged,
    NotNow,
    ScanStatus,
    Unreadable,
)
from ottla.connect.cdc.core.progress import Collection, RowKey
from ottla.connect.cdc.core.signals import WINDOW_CLOSE, WINDOW_OPEN
from ottla.connect.cdc.core.tables import TableShape
from ottla.connect.cdc.postgres.catalog import (
    CatalogTable,
    Connection,
    TableName,
    describe_tables,
    read_tables,
    read_types,
)
from ottla.connect.cdc.postgres.position import lsn_of
from ottla.connect.cdc.postgres.shapes import Shaping
from ottla.connect.cdc.postgres.snapshot_view import SnapshotView, ToldTransactions, reachable
from ottla.connect.cdc.postgres.source_block import Moment, source_block
from ottla.connect.cdc.postgres.translation import EventOptions
from ottla.connect.cdc.signalling.signalling import CLOSE, OPEN
from ottla.connect.data.record import Record

Cells = tuple[str | None, ...]
_NOTHING: Final = sql.SQL("")
_VIEW: Final = """
SELECT pg_catalog.pg_current_snapshot()::text, CASE WHEN pg_catalog.pg_is_in_recovery()
    THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_insert_lsn() END::text
"""


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table as it is read. key: the columns that chunks follow; is_unique: no two rows have one key."""

    name: TableName
    described: CatalogTable
    shape: TableShape
    key: tuple[str, ...]
    is_unique: bool
    is_root: bool

    @property
    def columns(self) -> list[str]:
        """The columns of a row, in their order."""
        return [each.name for each in self.described.columns]

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell rows apart in the stream."""
        return tuple(slot.column for slot in self.shape.key_slots) or self.key

    @property
    def is_nullable(self) -> bool:
        """Whether the key's only column may be NULL."""
        return any(not each.not_null for each in self.described.columns if each.name in self.key)

    def picked(self, cells: Cells, names: Sequence[str]) -> RowKey:
        """The cells of some columns."""
        columns = self.columns
        return tuple(cells[columns.index(name)] for name in names)


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of windows in the signal table. table: None where none are written."""

    table: TableName | None
    deletes: bool = False


class PostgresChunks:
    """See SnapshotDatabase. Its connection is used by nobody else."""

    def __init__(
        self,
        connection: Connection,
        shaping: Shaping,
        marks: Marks,
        size: int,
        told: ToldTransactions,
        via_root: bool = False,
    ) -> None:
        self._connection = connection
        self._shaping = shaping
        self._marks = marks
        self._size = size
        self._told = told
        self._via_root = via_root

    @property
    def writes_marks(self) -> bool:
        """Whether windows end at a mark, and not at a place of the log."""
        return self._marks.table is not None

    def tables(self) -> Sequence[str]:
        """See SnapshotDatabase."""
        return [each.id for each in self._captured()]

    def _captured(self) -> list[TableName]:
        takes = self._shaping.filter.takes_table
        return [
            each for each in read_tables(self._connection, self._via_root) if takes(each.schema, each.name)
        ]

    # -- marks ---------------------------------------------------------------------------------------

    def open_window(self, window: str, collection: Collection) -> None:
        """See SnapshotDatabase."""
        self._mark(window + OPEN, WINDOW_OPEN, f'{{"openWindowTimestamp": "{_now_text()}"}}')

    def close_window(self, window: str, collection: Collection) -> None:
        """See SnapshotDatabase."""
        table = self._marks.table
        if self._marks.deletes and table is not None:
            name = sql.Identifier(table.schema, table.name)
            described = describe_tables(self._connection, [table.oid])[table.oid]
            column = sql.Identifier(described.columns[0].name if described.columns else "id")
            statement = sql.SQL("DELETE FROM {} WHERE {} = {}").format(
                name, column, sql.Literal(window + OPEN)
            )
            self._write(statement)
        else:
            self._mark(window + CLOSE, WINDOW_CLOSE, f'{{"closeWindowTimestamp": "{_now_text()}"}}')

    def _mark(self, id: str, type: str, data: str) -> None:
        table = self._marks.table
        if table is not None:
            name = sql.Identifier(table.schema, table.name)
            values = sql.SQL(", ").join(map(sql.Literal, (id, type, data)))
            self._write(sql.SQL("INSERT INTO {} VALUES ({})").format(name, values))

    def _write(self, statement: sql.Composed) -> None:
        try:
            self._connection.execute(statement)
        except (psycopg.DataError, psycopg.ProgrammingError, psycopg.IntegrityError) as problem:
            words = " ".join(str(problem).split())
            raise Unreadable(
                ScanStatus.SQL_EXCEPTION, f"the signal table can't be written: {words}"
            ) from problem

    # -- chunks --------------------------------------------------------------------------------------

    def read(self, request: ChunkRequest) -> Chunk:
        """See SnapshotDatabase."""
        try:
            with self._transaction() as (view, lsn):
                if self._told.overtake(view):
                    raise NotNow
                return self._read(request, view, lsn)
        except (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError) as problem:
            words = " ".join(str(problem).split())
            raise Unreadable(ScanStatus.SQL_EXCEPTION, words) from problem

    @contextmanager
    def _transaction(self) -> Iterator[tuple[SnapshotView, int]]:
        self._connection.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            row = self._connection.execute(_VIEW).fetchone()
            assert row is not None
            yield SnapshotView.of(row[0]), reachable(lsn_of(row[1]))
        finally:
            if not self._connection.closed:
                self._connection.rollback()

    def _read(self, request: ChunkRequest, view: SnapshotView, lsn: int) -> Chunk:
        table = self._table(request.collection)
        maximum, after = request.maximum, request.after
        for each in (maximum, after):
            if each is not None and len(each) != len(table.key):
                raise KeyChanged(f"its key is {', '.join(table.key)} now")
        if maximum is None:
            maximum = self._largest(table, request.collection)
        rows: list[ChunkRow] = []
        if maximum is not None:
            bounds = [_behind(table, after), _up_to(table, maximum)]
            for cells in copy_rows(
                self._connection, table, (*bounds, condition_of(request.collection)), self._limit(table)
            ):
                key = table.picked(cells, table.key)
                rows.append(ChunkRow(key, table.picked(cells, table.identity), cells))
        return Chunk(rows, maximum, view.includes, table.described, lsn, table)

    def _find(self, id: str) -> TableName | None:
        return next((each for each in self._captured() if each.id == id), None)

    def whole_table(self, collection: Collection) -> ReadTable | None:
        """A table to be read as a whole, whatever its key; None where no captured table has this name."""
        name = self._find(collection.table)
        if name is None:
            return None
        described = describe_tables(self._connection, [name.oid])[name.oid]
        shape = self._shaping.of_catalog(read_types(self._connection), name.schema, name.name, described)
        surrogate = collection.surrogate_key
        asked = tuple(slot.column for slot in shape.key_slots)
        key = (surrogate,) if surrogate is not None else described.key or asked
        is_unique = surrogate is None and bool(described.key)
        return ReadTable(name, described, shape, key, is_unique, self._via_root)

    def _table(self, collection: Collection) -> ReadTable:
        """A table to be read in the order of its key. Raises Unreadable."""
        table = self.whole_table(collection)
        if table is None:
            raise Unreadable(ScanStatus.UNKNOWN_SCHEMA, "no captured table has this name")
        if not table.key:
            raise Unreadable(
                ScanStatus.NO_PRIMARY_KEY,
                "it has no primary key: name a column to order it by in the signal's surrogate-key",
            )
        missing = [each for each in table.key if each not in table.columns]
        if missing:
            raise Unreadable(ScanStatus.SQL_EXCEPTION, f"it has no column {missing[0]}")
        if len(table.key) > 1 and table.is_nullable:
            raise Unreadable(
                ScanStatus.NO_PRIMARY_KEY, "a column of its key may be NULL: name one in surrogate-key"
            )
        return table

    def _limit(self, table: ReadTable) -> sql.Composed:
        ties = sql.SQL("ONLY" if table.is_unique else "WITH TIES")
        order = sql.SQL(", ").join(map(sql.Identifier, table.key))
        return sql.SQL("ORDER BY {} FETCH FIRST {} ROWS {}").format(order, sql.Literal(self._size), ties)

    def _largest(self, table: ReadTable, collection: Collection) -> RowKey | None:
        order = sql.SQL(", ").join(sql.SQL("{} DESC").format(sql.Identifier(each)) for each in table.key)
        end = sql.SQL("ORDER BY {} LIMIT 1").format(order)
        for cells in copy_rows(self._connection, table, (condition_of(collection),), end):
            return table.picked(cells, table.key)
        return None

    def described(self, table: str) -> Hashable:
        """See SnapshotDatabase."""
        name = self._find(table)
        return None if name is None else describe_tables(self._connection, [name.oid])[name.oid]


def copy_rows(
    connection: Connection, table: ReadTable, conditions: Sequence[sql.Composable], end: sql.Composable
) -> list[Cells]:
    """Rows of a table as texts: COPY's format has the same ones that the stream has."""
    with connection.cursor() as cursor, cursor.copy(rows_query(table, conditions, end)) as copy:
        return list(copy.rows())


def rows_query(
    table: ReadTable, conditions: Sequence[sql.Composable], end: sql.Composable = _NOTHING
) -> sql.Composed:
    """The COPY of a table's rows."""
    return sql.SQL("COPY (SELECT {} FROM {}{} WHERE {} {}) TO STDOUT").format(
        sql.SQL(", ").join(map(sql.Identifier, table.columns)),
        sql.SQL("" if table.is_root else "ONLY "),
        sql.Identifier(table.name.schema, table.name.name),
        sql.SQL(" AND ").join(conditions) if conditions else sql.SQL("TRUE"),
        end,
    )


def condition_of(collection: Collection) -> sql.Composable:
    """The filter that a signal has for a table: it may write SQL, as the signal table's writers may."""
    if collection.condition is None:
        return sql.SQL("TRUE")
    return sql.SQL("({})").format(sql.SQL(collection.condition))


def _columns(table: ReadTable) -> sql.Composed:
    return sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Identifier, table.key)))


def _values(key: RowKey) -> sql.Composed:
    return sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, key)))


def _behind(table: ReadTable, key: RowKey | None) -> sql.Composable:
    """Rows behind a key; NULL is behind all others."""
    if key is None:
        return sql.SQL("TRUE")
    if key == (None,):
        return sql.SQL("FALSE")
    greater = sql.SQL("{} > {}").format(_columns(table), _values(key))
    if not table.is_nullable:
        return greater
    return sql.SQL("({} OR {} IS NULL)").format(greater, sql.Identifier(table.key[0]))


def _up_to(table: ReadTable, key: RowKey) -> sql.Composable:
    if key == (None,):
        return sql.SQL("TRUE")
    return sql.SQL("{} <= {}").format(_columns(table), _values(key))


def chunk_record(
    options: EventOptions,
    table: ReadTable,
    cells: Cells,
    moment: Moment,
    mark: SnapshotMark,
) -> Record:
    """The record of a row that was read."""
    shape = table.shape
    source = source_block(
        options.names.prefix, options.database, shape.schema_name, shape.table_name, moment, mark
    )
    key = shape.key(cells)
    value = shape.event(Operation.READ, None, shape.row(cells), source, moment.time_us * 1000)
    key_schema = None if key is None else shape.key_schema
    return Record(shape.topic, None, key, key_schema, value, shape.envelope, None, options.context)


def _now_text() -> str:
    now = time.time_ns() // 1000
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 1_000_000))
    return f"{seconds}.{now % 1_000_000:06d}Z"
