"""Ordinary SQL, as BI tools send it, over the tables' rows of now: in DuckDB, with a bound on rows.

What ksqlDB's language does not have (groups, orders and joins of what is there) runs here over a copy that is
read for the statement; so do questions to PostgreSQL's catalogue, which is made of the streams and tables. A
larger Spark could take the first of these: `Analytic` is all that it would have to be.
"""

from __future__ import annotations

import asyncio
import datetime
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ottla.sql.catalog.sources import Catalog, Source
from ottla.sql.language.errors import SqlError
from ottla.sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Base,
    SqlType,
    decimal,
)
from ottla.sql.wire.pg_catalog import catalogue, catalogue_rows
from ottla.sql.wire.port import Column

MAX_ROWS: Final = 1_000_000
"""Of all tables of one statement."""
_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 (DuckDB's timestamps have no zone)
_PLAIN: Final = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": INTEGER,
    "SMALLINT": INTEGER,
    "INTEGER": INTEGER,
    "UTINYINT": INTEGER,
    "USMALLINT": INTEGER,
    "UINTEGER": BIGINT,
    "BIGINT": BIGINT,
    "FLOAT": DOUBLE,
    "DOUBLE": DOUBLE,
    "VARCHAR": STRING,
    "BLOB": BYTES,
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMP,
    "HUGEINT": decimal(38, 0),
}
_REWRITES: Final = (
    # psql asks in lower case for names without quotes, which are in upper case here
    (re.compile(r"\b((?:rel|nsp)name)\s+OPERATOR\s*\(\s*pg_catalog\.~\s*\)\s*'", re.I), r"\1 ~ '(?i)"),
    (re.compile(r"OPERATOR\s*\(\s*pg_catalog\.(!?~\*?|=|<>)\s*\)", re.I), r"\1"),
    # a set's name is its column's, too
    (re.compile(r"(generate_series\((?:[^()]|\([^()]*\))*\))\s+s\b", re.I), r"\1 AS s(s)"),
    (re.compile(r"COLLATE\s+(pg_catalog\.)?\"?default\"?", re.I), ""),
    (
        re.compile(r"'([^']*)'::(pg_catalog\.)?regclass", re.I),
        r"(SELECT oid FROM pg_class WHERE relname = '\1')",
    ),
    (re.compile(r"::(pg_catalog\.)?reg(class|type|proc|procedure|namespace|role)\b", re.I), ""),
    (re.compile(r"::(pg_catalog\.)?(name|text|\"char\")\b", re.I), "::VARCHAR"),
    (re.compile(r"::(pg_catalog\.)?oid\b", re.I), "::BIGINT"),
    (re.compile(r"\bpg_catalog\.", re.I), ""),
    (re.compile(r"\binformation_schema\._pg_expandarray", re.I), "_pg_expandarray"),
)

Scan = Callable[[Source, int], Awaitable[Sequence[Sequence[Any]]]]
"""The rows of a table of now, of at most so many. Raises SqlError for more."""


class Analytic:
    """Answers ordinary SQL. catalog: the streams and tables of now; scan: reads one of them."""

    def __init__(self, catalog: Callable[[], Catalog], scan: Scan) -> None:
        self._catalog = catalog
        self._scan = scan
        self._lock = threading.Lock()
        self._made_of: Catalog | None = None
        self._database: duckdb.DuckDBPyConnection | None = None

    async def describe(self, text: str) -> tuple[Column, ...]:
        """The columns of a statement. Raises SqlError."""
        return await asyncio.to_thread(self._described, text)

    async def run(self, text: str) -> tuple[tuple[Column, ...], list[tuple[Any, ...]]]:
        """Columns and rows. Raises SqlError."""
        sources = [each for each in self._sources(text) if each.is_table or each.name in self._named(text)]
        data = {each.name: await self._scan(each, MAX_ROWS) for each in sources}
        return await asyncio.to_thread(self._answered, text, data)

    def _sources(self, text: str) -> list[Source]:
        known = self._catalog().sources
        return [known[name] for name in self._named(text) if name in known]

    def _named(self, text: str) -> list[str]:
        """The names after FROM and JOIN, as ksqlDB has them: in upper case without quotes."""
        try:
            parsed = sqlglot.parse_one(text, dialect="postgres")
        except SqlglotError:
            return []
        found = []
        for table in parsed.find_all(exp.Table):
            if isinstance(table.this, exp.Identifier):
                name = table.this.name
                found.append(name if table.this.quoted and name in self._catalog().sources else name.upper())
        return list(dict.fromkeys(found))

    # -- in a thread ----------------------------------------------------------------------------------

    def _described(self, text: str) -> tuple[Column, ...]:
        with self._lock:
            return self._columns(self._empty().cursor(), rewritten(text))

    def _answered(
        self, text: str, data: Mapping[str, Sequence[Sequence[Any]]]
    ) -> tuple[tuple[Column, ...], list[tuple[Any, ...]]]:
        with self._lock:
            if not data:
                cursor = self._empty().cursor()
                return self._fetched(cursor, rewritten(text))
        database = duckdb.connect()
        try:
            for name, rows in data.items():
                source = self._catalog().sources[name]
                database.execute(_definition(source))
                if rows:
                    marks = ", ".join("?" for _ in source.columns)
                    types = [each.type for each in source.columns]
                    cells = [[_to_duckdb(v, of) for v, of in zip(row, types, strict=True)] for row in rows]
                    database.executemany(f"INSERT INTO {_quoted(name)} VALUES ({marks})", cells)
            return self._fetched(database, rewritten(text))
        finally:
            database.close()

    def _empty(self) -> duckdb.DuckDBPyConnection:
        """The catalogue, and every stream and table without rows; made anew when the catalogue changes."""
        catalog = self._catalog()
        if self._database is None or self._made_of is not catalog:
            if self._database is not None:
                self._database.close()
            database = duckdb.connect()
            for source in catalog.sources.values():
                database.execute(_definition(source))
            for statement in catalogue():
                database.execute(statement)
            for table, rows in catalogue_rows(catalog).items():
                if rows:
                    marks = ", ".join("?" for _ in rows[0])
                    database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
            self._database, self._made_of = database, catalog
        return self._database

    def _columns(self, cursor: duckdb.DuckDBPyConnection, text: str) -> tuple[Column, ...]:
        try:
            found = cursor.execute(f"DESCRIBE {text}").fetchall()
        except duckdb.Error as problem:
            raise _refusal(problem) from None
        return tuple(Column(name, sql_type(of)) for name, of, *_ in found)

    def _fetched(
        self, cursor: duckdb.DuckDBPyConnection, text: str
    ) -> tuple[tuple[Column, ...], list[tuple[Any, ...]]]:
        columns = self._columns(cursor, text)
        try:
            rows = cursor.execute(text).fetchall()
        except duckdb.Error as problem:
            raise _refusal(problem) from None
        convert = [_from_duckdb(each.type) for each in columns]
        return columns, [
            tuple(None if v is None else c(v) for c, v in zip(convert, row, strict=True)) for row in rows
        ]


def rewritten(text: str) -> str:
    """PostgreSQL's words for its catalogue as DuckDB's."""
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text


def _refusal(problem: duckdb.Error) -> SqlError:
    return SqlError(str(problem).strip().splitlines()[0], None)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _definition(source: Source) -> str:
    columns = ", ".join(f"{_quoted(each.name)} {_duckdb_type(each.type)}" for each in source.columns)
    return f"CREATE TABLE {_quoted(source.name)} ({columns or 'nothing INTEGER'})"


def _duckdb_type(of: SqlType) -> str:
    match of.base:
        case Base.STRING:
            return "VARCHAR"
        case Base.BYTES:
            return "BLOB"
        case Base.DECIMAL:
            return f"DECIMAL({of.precision}, {of.scale})"
        case Base.ARRAY:
            return f"{_duckdb_type(of.elements[0])}[]"
        case Base.MAP:
            return f"MAP(VARCHAR, {_duckdb_type(of.elements[1])})"
        case Base.STRUCT:
            fields = ", ".join(f"{_quoted(name)} {_duckdb_type(each)}" for name, each in of.fields)
            return f"STRUCT({fields})"
    return str(of.base.value)


def _to_duckdb(value: Any, of: SqlType) -> Any:
    if value is None:
        return None
    match of.base:
        case Base.DATE:
            return (_EPOCH + datetime.timedelta(days=value)).date()
        case Base.TIME:
            return (_EPOCH + datetime.timedelta(milliseconds=value)).time()
        case Base.TIMESTAMP:
            return _EPOCH + datetime.timedelta(milliseconds=value)
        case Base.ARRAY:
            return [_to_duckdb(each, of.elements[0]) for each in value]
        case Base.MAP:
            return {key: _to_duckdb(each, of.elements[1]) for key, each in value.items()}
        case Base.STRUCT:
            return {name: _to_duckdb(value.get(name), each) for name, each in of.fields}
    return value


def sql_type(name: str) -> SqlType:
    """The type for one of DuckDB's, by its name; what has no counterpart is told as text."""
    if name in _PLAIN:
        return _PLAIN[name]
    if (found := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", name)) is not None:
        return decimal(int(found[1]), int(found[2]))
    if name.endswith("[]"):
        return SqlType(Base.ARRAY, elements=(sql_type(name[:-2]),))
    return STRING


def _from_duckdb(of: SqlType) -> Callable[[Any], Any]:
    match of.base:
        case Base.DATE:
            return lambda value: (value - _EPOCH.date()).days
        case Base.TIME:
            return lambda v: ((v.hour * 60 + v.minute) * 60 + v.second) * 1000 + v.microsecond // 1000
        case Base.TIMESTAMP:
            return lambda v: (v.replace(tzinfo=None) - _EPOCH) // datetime.timedelta(milliseconds=1)
        case Base.DECIMAL:
            return lambda value: Decimal(str(value))
        case Base.ARRAY:
            inner = _from_duckdb(of.elements[0])
            return lambda value: [None if each is None else inner(each) for each in value]
        case Base.STRING:
            return str
    return lambda value: value
