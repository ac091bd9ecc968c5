"""Chunks of MariaDB's tables: read in the order of a key, as of one place of the binary log.

A transaction with a consistent snapshot knows its own place, between two transactions of the log: rows that
become records exactly there need no window, and nothing is written. Keys are compared by the server, as
literals of their columns' kinds: a number as a number, since a text would be compared as a DOUBLE.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pymysql
from pymysql.converters import escape_string

from ottla.connect.cdc.core.column_form import Cell
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
from ottla.connect.cdc.core.tables import TableShape
from ottla.connect.cdc.mariadb.column_forms import from_text
from ottla.connect.cdc.mariadb.model import Column, Table
from ottla.connect.cdc.mariadb.server import (
    Connection,
    LogPlace,
    connect,
    describe,
    quoted,
    read_charsets,
    read_tables,
    rows_of,
    run,
    snapshot_place,
)
from ottla.connect.cdc.mariadb.shapes import Shaping

_EXACT: Final = frozenset(
    {
        "TINYINT",
        "SMALLINT",
        "MEDIUMINT",
        "INT",
        "INTEGER",
        "BIGINT",
        "DECIMAL",
        "DEC",
        "NUMERIC",
        "FIXED",
        "YEAR",
    }
)
_BINARY: Final = frozenset({"BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "BIT"})
_LISTED: Final = frozenset({"ENUM", "SET"})
_INEXACT: Final = frozenset({"FLOAT", "FLOAT4", "FLOAT8", "DOUBLE", "REAL"})
_NUMBER: Final = re.compile(r"-?\d{1,65}(?:\.\d{1,65})?")
_HEX: Final = re.compile(r"0x[0-9a-f]*")
_CHANGED_DEFINITION: Final = 1412
_WRONG: Final = frozenset({1054, 1064, 1139, 1142, 1143, 1146, 1149, 1176, 1292, 1305, 1366, 1411})
"""Errors of a statement, which no further try changes."""


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table as it is read. key: the columns that chunks follow; is_unique: no two rows have one key."""

    table: Table
    shape: TableShape
    key: tuple[Column, ...]
    is_unique: bool


class MariaDbChunks:
    """See SnapshotDatabase."""

    def __init__(self, options: Mapping[str, Any], shaping: Shaping, size: int) -> None:
        self._connection: Connection = connect(options)
        self._shaping = shaping
        self._size = size

    def close(self) -> None:
        """Give the connection up."""
        if self._connection.open:
            self._connection.close()

    def tables(self) -> Sequence[str]:
        """See SnapshotDatabase."""
        return [
            str(each) for each in read_tables(self._connection) if self._shaping.filter.takes_table(*each)
        ]

    def open_window(self, window: str, collection: Collection) -> None:
        """See SnapshotDatabase: places of the log take the place of marks."""

    def close_window(self, window: str, collection: Collection) -> None:
        """See SnapshotDatabase."""

    def read(self, request: ChunkRequest) -> Chunk:
        """See SnapshotDatabase."""
        try:
            with self._transaction() as place:
                return self._read(request, place)
        except pymysql.Error as problem:
            code = problem.args[0] if problem.args else None
            if code == _CHANGED_DEFINITION:
                raise NotNow from problem
            if code not in _WRONG and not isinstance(problem, pymysql.ProgrammingError | pymysql.DataError):
                raise
            words = " ".join(str(each) for each in problem.args)
            raise Unreadable(ScanStatus.SQL_EXCEPTION, words) from problem

    @contextmanager
    def _transaction(self) -> Iterator[LogPlace]:
        run(self._connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        run(self._connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            yield snapshot_place(self._connection)
        finally:
            if self._connection.open:
                run(self._connection, "ROLLBACK")

    def _read(self, request: ChunkRequest, place: LogPlace) -> Chunk:
        table = self._table(request.collection)
        maximum, after = request.maximum, request.after
        for each in (maximum, after):
            if each is not None and len(each) != len(table.key):
                raise KeyChanged(f"its key is {', '.join(column.name for column in table.key)} now")
        condition = request.collection.condition
        given = [f"({condition})"] if condition else []
        if maximum is None:
            maximum = self._largest(table, given)
        rows: list[ChunkRow] = []
        if maximum is not None:
            bounds = [*self._behind(table, after), *self._up_to(table, maximum), *given]
            order = ", ".join(_ordered(each) for each in table.key)
            ties = "ONLY" if table.is_unique else "WITH TIES"
            end = f"ORDER BY {order} FETCH FIRST {self._size} ROWS {ties}"
            rows = [ChunkRow(key, key, cells) for key, cells in self._rows(table, bounds, end)]
        return Chunk(rows, maximum, _all, table.table, place, table)

    def _table(self, collection: Collection) -> ReadTable:
        id = next((each for each in read_tables(self._connection) if str(each) == collection.table), None)
        if id is None or not self._shaping.filter.takes_table(*id):
            raise Unreadable(ScanStatus.UNKNOWN_SCHEMA, "no captured table has this name")
        found = describe(self._connection, id, read_charsets(self._connection))
        if found is None:
            raise Unreadable(ScanStatus.UNKNOWN_SCHEMA, "the table is gone")
        table, surrogate = found.table, collection.surrogate_key
        shape = self._shaping.shape(table)
        names = table.key or tuple(slot.name for slot in shape.key_slots)
        if surrogate is not None:
            names = (surrogate,)
        if not names:
            raise Unreadable(
                ScanStatus.NO_PRIMARY_KEY,
                "it has no primary key: name a column to order it by in the signal's surrogate-key",
            )
        places = [table.find(each) for each in names]
        if -1 in places:
            raise Unreadable(ScanStatus.SQL_EXCEPTION, f"it has no column {names[places.index(-1)]}")
        key = tuple(table.columns[at] for at in places)
        if any(each.base_type in _INEXACT for each in key):
            raise Unreadable(ScanStatus.NO_PRIMARY_KEY, "its key is a FLOAT or DOUBLE: name another column")
        if len(key) > 1 and any(each.is_nullable for each in key):
            raise Unreadable(
                ScanStatus.NO_PRIMARY_KEY, "a column of its key may be NULL: name one in surrogate-key"
            )
        return ReadTable(table, shape, key, surrogate is None and bool(table.key))

    def _largest(self, table: ReadTable, given: Sequence[str]) -> RowKey | None:
        order = ", ".join(f"{_ordered(each)} DESC" for each in table.key)
        for key, _ in self._rows(table, given, f"ORDER BY {order} LIMIT 1"):
            return key
        return None

    def _rows(
        self, table: ReadTable, conditions: Sequence[str], end: str
    ) -> list[tuple[RowKey, tuple[Cell, ...]]]:
        """Keys as texts, and rows as the log would have them."""
        columns = table.table.columns
        reads = [from_text(each) for each in columns]
        listed = [_listed(each) for each in columns] + [_ordered(each) for each in table.key]
        where = " AND ".join(conditions) or "TRUE"
        query = f"SELECT {', '.join(listed)} FROM {quoted(*table.table.id)} WHERE {where} {end}"
        found = []
        for row in rows_of(self._connection, query):
            cells = tuple(
                None if data is None else read(data) for read, data in zip(reads, row, strict=False)
            )
            key = tuple(
                _key_text(column, data) for column, data in zip(table.key, row[len(columns) :], strict=True)
            )
            found.append((key, cells))
        return found

    def _behind(self, table: ReadTable, key: RowKey | None) -> list[str]:
        """Rows behind a key; NULL is before all others."""
        if key is None:
            return []
        if key == (None,):
            return [f"{_ordered(table.key[0])} IS NOT NULL"]
        return [f"{_tuple(_ordered(each) for each in table.key)} > {self._literals(table, key)}"]

    def _up_to(self, table: ReadTable, key: RowKey) -> list[str]:
        if key == (None,):
            return [f"{_ordered(table.key[0])} IS NULL"]
        up_to = f"{_tuple(_ordered(each) for each in table.key)} <= {self._literals(table, key)}"
        if not table.key[0].is_nullable:
            return [up_to]
        return [f"({up_to} OR {_ordered(table.key[0])} IS NULL)"]

    def _literals(self, table: ReadTable, key: RowKey) -> str:
        return _tuple(self._literal(column, text) for column, text in zip(table.key, key, strict=True))

    def _literal(self, column: Column, text: str | None) -> str:
        if text is None:
            return "NULL"
        for kinds, form in ((_EXACT, _NUMBER), (_BINARY, _HEX)):
            if column.base_type in kinds:
                if not form.fullmatch(text):
                    raise KeyChanged(f"{column.name} has another type now")
                return text if text != "0x" else "''"
        return f"'{escape_string(text)}'"

    def described(self, table: str) -> Hashable:
        """See SnapshotDatabase."""
        id = next((each for each in read_tables(self._connection) if str(each) == table), None)
        found = None if id is None else describe(self._connection, id, read_charsets(self._connection))
        return None if found is None else found.table


def _all(_: Any) -> bool:
    """The rows are as of one place of the log, at which they become records: all before is in them."""
    return True


def _ordered(column: Column) -> str:
    # The order of ENUM is that of its numbers, its comparison with a text that of texts.
    name = quoted(column.name)
    return f"CAST({name} AS CHAR)" if column.base_type in _LISTED else name


def _listed(column: Column) -> str:
    # A FLOAT's text has six digits; a DOUBLE's has all of them.
    name = quoted(column.name)
    return f"CAST({name} AS DOUBLE)" if column.base_type in ("FLOAT", "FLOAT4") else name


def _tuple(texts: Iterator[str]) -> str:
    return f"({', '.join(texts)})"


def _key_text(column: Column, data: bytes | None) -> str | None:
    if data is None:
        return None
    return f"0x{data.hex()}" if column.base_type in _BINARY else data.decode("utf-8")
