"""SQLite through Python's own module.

Any column of SQLite can have any value. A column's declared type says what is expected, by the rules of the
JDBC driver's result sets, but integers are always 64 bits; timestamps are milliseconds (what that driver
writes), Julian days or texts. They are compared by their moments, whichever form each row has.
"""

from __future__ import annotations

import decimal
import math
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo

from ottla.connect.connectors.jdbc.address import Address
from ottla.connect.connectors.jdbc.binding import (
    as_it_is,
    binder,
    checked_text,
    moment_texts,
    scale_of,
    type_of,
)
from ottla.connect.connectors.jdbc.columns import Column, ColumnKind, moment_ns
from ottla.connect.connectors.jdbc.database import (
    LEDGER_TABLE,
    Bind,
    Reading,
    Refused,
    Relation,
    Row,
    TableType,
)
from ottla.connect.connectors.jdbc.names import TableId, quoted
from ottla.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, DataError, Moment, Schema, Type
from ottla.connect.plugins.api import RetriableError

BUSY_TIMEOUT_SECONDS: Final = 10.0
EXACT_DIGITS: Final = 15
"""The decimal digits that a number of 64 bits keeps."""
_MIN_NS: Final = -(2**63)
_MAX_NS: Final = 2**63 - 1
_KINDS: Final = {
    "BOOLEAN": ColumnKind.BOOLEAN,
    "BOOL": ColumnKind.BOOLEAN,
    "TINYINT": ColumnKind.INT8,
    "SMALLINT": ColumnKind.INT16,
    "INT2": ColumnKind.INT16,
    "FLOAT": ColumnKind.FLOAT64,
    "REAL": ColumnKind.FLOAT64,
    "DOUBLE": ColumnKind.FLOAT64,
    "DOUBLE PRECISION": ColumnKind.FLOAT64,
    "NUMERIC": ColumnKind.NUMERIC,
    "DECIMAL": ColumnKind.NUMERIC,
    "DATE": ColumnKind.DATE,
    "TIME": ColumnKind.TIME,
    "DATETIME": ColumnKind.TIMESTAMP,
    "TIMESTAMP": ColumnKind.TIMESTAMP,
    "BLOB": ColumnKind.BYTES,
    "BINARY": ColumnKind.BYTES,
    "VARBINARY": ColumnKind.BYTES,
    "": ColumnKind.ANY,
}
_TYPES: Final[Mapping[Type | str, str]] = {
    Type.INT8: "INTEGER",
    Type.INT16: "INTEGER",
    Type.INT32: "INTEGER",
    Type.INT64: "INTEGER",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "REAL",
    Type.BOOLEAN: "INTEGER",
    Type.STRING: "TEXT",
    Type.BYTES: "BLOB",
    DECIMAL: "NUMERIC",
    DATE: "NUMERIC",
    TIME: "NUMERIC",
    TIMESTAMP: "NUMERIC",
}
_DECLARED: Final = re.compile(r"([^()]*)(?:\(\s*(\d{1,4})\s*(?:,\s*(\d{1,4})\s*)?\))?.*", re.DOTALL)
_AWAY: Final = frozenset(
    (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOMEM,
    )
)
_PRIMARY: Final = 0xFF
"""The bits of an error's code that say which error it is; the others say more about it."""
_LEDGER: Final = f"""
CREATE TABLE IF NOT EXISTS {LEDGER_TABLE} (
    ledger TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL,
    PRIMARY KEY (ledger, topic, partition)
) WITHOUT ROWID
"""


class SqliteDatabase:
    """A `Database` in one file."""

    mark: ClassVar[str] = '"'
    placeholder: ClassVar[str] = "?"

    def __init__(self, address: Address, zone: ZoneInfo) -> None:
        self._path = Path(address.database)
        self._zone = zone
        self._open: sqlite3.Connection | None = None

    # -- names and SQL --------------------------------------------------------------------------------

    def quote(self, name: str) -> str:
        return quoted(name, self.mark)

    def literal(self, text: str) -> str:
        return text

    def folded(self, name: str) -> str:
        return name

    def table_of(self, names: Sequence[str]) -> TableId:
        if len(names) > 2 or (len(names) == 2 and names[0] != "main"):
            raise DataError(f"the table {'.'.join(names)} is in no schema that SQLite has")
        return TableId(names[-1])

    def selected(self, column: Column) -> str:
        return self.quote(column.name)

    def moment(self, expression: str) -> str:
        return f"ottla_moment({expression})"

    def moment_parameter(self, epoch_ns: int) -> int:
        return min(max(epoch_ns, _MIN_NS), _MAX_NS)

    def upsert_tail(self, keys: Sequence[str], others: Sequence[str]) -> str:
        columns = ", ".join(map(self.quote, keys))
        if not others:
            return f" ON CONFLICT ({columns}) DO NOTHING"
        changes = ", ".join(f"{self.quote(each)} = excluded.{self.quote(each)}" for each in others)
        return f" ON CONFLICT ({columns}) DO UPDATE SET {changes}"

    def ledger_tail(self) -> str:
        return " ON CONFLICT (ledger, topic, partition) DO UPDATE SET next = excluded.next"

    def sql_type(self, schema: Schema, is_key: bool) -> str:
        return type_of(schema, _TYPES)

    def bind(self, schema: Schema, column: Column) -> Bind:
        is_text = "CHAR" in column.declared or "TEXT" in column.declared or "CLOB" in column.declared
        made: dict[Type | str, Bind] = {
            **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), as_it_is),
            Type.FLOAT32: _number,
            Type.FLOAT64: _number,
            Type.BOOLEAN: int,
            Type.STRING: checked_text,
            Type.BYTES: bytes,
            DECIMAL: _decimal_text if is_text else _decimal,
            **dict.fromkeys((DATE, TIME, TIMESTAMP), _epoch_ms),
        }
        if is_text:
            made.update(moment_texts(self._zone, offset=False))
        if schema.name == DECIMAL:
            scale_of(schema)
        return binder(schema, made)

    # -- the catalog ----------------------------------------------------------------------------------

    def tables(self, types: frozenset[str]) -> Sequence[TableId]:
        rows = self.select(
            "SELECT name, upper(type) FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        )
        return [
            TableId(name)
            for name, kind in rows
            if kind in types and name != LEDGER_TABLE and not name.startswith("sqlite_")
        ]

    def relation(self, table: TableId) -> Relation | None:
        rows = self.select('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table.name,))
        if not rows:
            return None
        kind, sql = self.select(
            "SELECT upper(type), upper(sql) FROM sqlite_master WHERE name = ? COLLATE NOCASE", (table.name,)
        )[0]
        keys = [row for row in rows if row[3]]
        columns = []
        for name, declared, not_null, key in rows:
            # A column like this is the row's id, which counts by itself and is never null.
            is_id = (
                len(keys) == 1
                and bool(key)
                and declared.upper() == "INTEGER"
                and "WITHOUT ROWID" not in (sql or "")
            )
            columns.append(_column(name, declared, not (not_null or is_id), is_id, bool(key)))
        return Relation(TableType(kind), tuple(columns), ignores_case=True)

    def now_ns(self) -> int:
        return time.time_ns()

    def create_ledger(self) -> None:
        self.run(_LEDGER)

    # -- reading --------------------------------------------------------------------------------------

    def read(self, statement: str, parameters: Row, size: int) -> Reading:
        connection = self._connected()
        with self._errors():
            cursor = connection.execute(statement, tuple(parameters))
            names = [each[0] for each in cursor.description]

        def batches() -> Iterator[Sequence[Row]]:
            while True:
                with self._errors():
                    rows = cursor.fetchmany(size)
                if not rows:
                    return
                yield rows

        def close() -> None:
            with suppress(sqlite3.ProgrammingError):  # the connection is closed
                cursor.close()

        columns = tuple(Column(each, ColumnKind.ANY) for each in names)
        return Reading(columns, batches(), close)

    def select(self, statement: str, parameters: Row = ()) -> Sequence[Row]:
        connection = self._connected()
        with self._errors():
            return connection.execute(statement, tuple(parameters)).fetchall()

    # -- writing --------------------------------------------------------------------------------------

    def run(self, statement: str) -> None:
        self.select(statement)

    @contextmanager
    def transaction(self, locks: Sequence[str]) -> Iterator[None]:
        # The whole file has one writer, so no lock has a name.
        connection = self._connected()
        with self._errors():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def insert(self, head: str, row: str, tail: str, rows: Sequence[Row]) -> None:
        self.execute(f"{head} VALUES {row}{tail}", rows)

    def execute(self, statement: str, rows: Sequence[Row]) -> None:
        connection = self._connected()
        with self._errors():
            connection.executemany(statement, rows)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    # -- the connection -------------------------------------------------------------------------------

    def _connected(self) -> sqlite3.Connection:
        if self._open is None:
            with self._errors():
                self._path.parent.mkdir(parents=True, exist_ok=True)
                connection = sqlite3.connect(
                    self._path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
                )
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
                connection.create_function("ottla_moment", 1, self._moment, deterministic=True)
            self._open = connection
        return self._open

    def _moment(self, value: Any) -> int | None:
        if value is None:
            return None
        try:
            return self.moment_parameter(moment_ns(value, self._zone))
        except DataError:
            return None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise RetriableError(f"the SQLite file {self._path}: {problem}") from problem
        except sqlite3.OperationalError as problem:
            code = getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_CANTOPEN)
            if code & _PRIMARY in _AWAY:
                raise RetriableError(f"the SQLite file {self._path}: {problem}") from problem
            raise Refused(f"SQLite: {problem}") from problem
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as problem:
            raise Refused(f"SQLite: {problem}") from problem


def _column(name: str, declared: str, nullable: bool, is_auto: bool, is_key: bool) -> Column:
    found = _DECLARED.fullmatch(declared.upper())
    word = found[1].strip() if found else ""
    precision = int(found[2]) if found and found[2] else None
    scale = int(found[3] or 0) if found and found[2] else None
    kind = _KINDS.get(word)
    if kind is None:
        kind = ColumnKind.INT64 if "INT" in word else ColumnKind.TEXT
    if kind is not ColumnKind.NUMERIC:
        precision = scale = None
    return Column(name, kind, nullable, precision, scale, is_auto, is_key, declared.upper())


def _number(value: float) -> float:
    if math.isnan(value):
        raise DataError("SQLite has no NaN: it would be null")
    return value


def _epoch_ms(value: Moment) -> int:
    return value.epoch_ms


def _decimal(value: decimal.Decimal) -> int | float:
    """A number that is the same: SQLite would round any other without a word."""
    if value == value.to_integral_value() and abs(value) < 2**63:
        return int(value)
    number = float(value)
    if len(value.normalize().as_tuple().digits) > EXACT_DIGITS or not math.isfinite(number):
        raise DataError(
            f"SQLite's numbers have {EXACT_DIGITS} digits, not those of {value}: make the column TEXT"
        )
    return number


def _decimal_text(value: decimal.Decimal) -> str:
    return format(value, "f")
