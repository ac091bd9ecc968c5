"""PostgreSQL (13 and later) through psycopg.

Dates, times and all types that Connect has no values for are read as PostgreSQL's own texts, so that years
beyond Python's and infinities come whole. Parameters that are texts have no type: PostgreSQL reads them as
the column's, so texts can be written to columns of uuid, jsonb, inet and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo

import psycopg
from psycopg.adapt import Loader
from psycopg.types.string import StrDumperUnknown, TextLoader

from ottla.connect.connectors.jdbc.address import Address, split_host
from ottla.connect.connectors.jdbc.binding import (
    as_it_is,
    binder,
    checked_text,
    moment_texts,
    scale_of,
    type_of,
)
from ottla.connect.connectors.jdbc.columns import Column, ColumnKind
from ottla.connect.connectors.jdbc.database import (
    CONNECT_TIMEOUT_SECONDS,
    LEDGER_TABLE,
    Bind,
    Reading,
    Refused,
    Relation,
    Row,
    TableType,
    is_own,
)
from ottla.connect.connectors.jdbc.moments import UTC, read_timestamp_ns, timestamp_text
from ottla.connect.connectors.jdbc.names import TableId, quoted
from ottla.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, DataError, Schema, Type
from ottla.connect.plugins.api import RetriableError

MAX_NAME_BYTES: Final = 63
_SESSION: Final = (
    "-c timezone=UTC -c datestyle=ISO -c intervalstyle=iso_8601 -c bytea_output=hex -c extra_float_digits=1"
)
_PASSED_ON: Final = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "targetservertype": "target_session_attrs",
    "applicationname": "application_name",
    "connecttimeout": "connect_timeout",
    "logintimeout": "connect_timeout",
}
_SERVER_TYPES: Final = {"primary": "read-write", "secondary": "standby", "preferSecondary": "prefer-standby"}
_PYTHON: Final = frozenset(
    ("bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "bytea", "text", "varchar")
)
"""The types whose values psycopg reads; all others come as texts."""
_KINDS: Final = {
    "bool": ColumnKind.BOOLEAN,
    "int2": ColumnKind.INT16,
    "int4": ColumnKind.INT32,
    "int8": ColumnKind.INT64,
    "oid": ColumnKind.INT64,
    "float4": ColumnKind.FLOAT32,
    "float8": ColumnKind.FLOAT64,
    "numeric": ColumnKind.NUMERIC,
    "bytea": ColumnKind.BYTES,
    "date": ColumnKind.DATE,
    "time": ColumnKind.TIME,
    "timetz": ColumnKind.TIME,
    "timestamp": ColumnKind.TIMESTAMP,
    "timestamptz": ColumnKind.TIMESTAMP,
}
_RELATIONS: Final = {
    "r": TableType.TABLE,
    "p": TableType.PARTITIONED_TABLE,
    "v": TableType.VIEW,
    "m": TableType.MATERIALIZED_VIEW,
    "f": TableType.FOREIGN_TABLE,
}
_TYPES: Final[Mapping[Type | str, str]] = {
    Type.INT8: "SMALLINT",
    Type.INT16: "SMALLINT",
    Type.INT32: "INT",
    Type.INT64: "BIGINT",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "DOUBLE PRECISION",
    Type.BOOLEAN: "BOOLEAN",
    Type.STRING: "TEXT",
    Type.BYTES: "BYTEA",
    DECIMAL: "DECIMAL",
    DATE: "DATE",
    TIME: "TIME",
    TIMESTAMP: "TIMESTAMP",
}
_TABLES: Final = """
SELECT n.nspname, c.relname, c.relkind::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname <> 'information_schema'
    AND left(n.nspname, 3) <> 'pg_'
ORDER BY n.nspname, c.relname
"""
_COLUMNS: Final = """
SELECT a.attname, b.typname, b.typmod, a.attnotnull, c.relkind::text,
    a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%', false),
    coalesce(a.attnum = ANY (i.indkey), false)
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
CROSS JOIN LATERAL (
    WITH RECURSIVE base AS (
        SELECT t.oid, t.typname, t.typtype, t.typbasetype, t.typtypmod, a.atttypmod AS typmod
        FROM pg_type t WHERE t.oid = a.atttypid
        UNION ALL
        SELECT t.oid, t.typname, t.typtype, t.typbasetype, t.typtypmod, base.typtypmod
        FROM pg_type t JOIN base ON t.oid = base.typbasetype WHERE base.typtype = 'd'
    ) SELECT typname, typmod FROM base WHERE typtype <> 'd'
) b
WHERE c.oid = to_regclass(%s) ORDER BY a.attnum
"""
_LEDGER: Final = f"""
CREATE TABLE IF NOT EXISTS {LEDGER_TABLE} (
    ledger text, topic text, partition integer, next bigint NOT NULL, PRIMARY KEY (ledger, topic, partition)
)
"""

Connection = psycopg.Connection[tuple[Any, ...]]


class _ByteaLoader(Loader):
    """bytea as bytes."""

    def load(self, data: Any) -> bytes:
        return bytes.fromhex(bytes(data)[2:].decode("ascii"))


class PostgresDatabase:
    """A `Database` whose connection is opened again after the server closed it."""

    mark: ClassVar[str] = '"'
    placeholder: ClassVar[str] = "%s"

    def __init__(self, address: Address, zone: ZoneInfo) -> None:
        """Raises ValueError for a parameter of the URL that can't be followed."""
        self._address = address
        self._zone = zone
        self._options = _options(address)
        self._connection: Connection | None = None

    # -- names and SQL --------------------------------------------------------------------------------

    def quote(self, name: str) -> str:
        text = quoted(name, self.mark)
        if len(name.encode()) > MAX_NAME_BYTES:
            raise DataError(f"PostgreSQL's names have at most {MAX_NAME_BYTES} bytes: {name!r}")
        return text.replace("%", "%%")

    def literal(self, text: str) -> str:
        return text.replace("%", "%%")

    def folded(self, name: str) -> str:
        return name.lower()

    def table_of(self, names: Sequence[str]) -> TableId:
        if len(names) == 3 and names[0] != self._address.database:
            raise DataError(f"the table {'.'.join(names)} is in another database")
        return TableId(names[-1], names[-2] if len(names) > 1 else None)

    def selected(self, column: Column) -> str:
        return self.quote(column.name)

    def moment(self, expression: str) -> str:
        return expression

    def moment_parameter(self, epoch_ns: int) -> str:
        return timestamp_text(epoch_ns, self._zone, offset=True)

    def upsert_tail(self, keys: Sequence[str], others: Sequence[str]) -> str:
        columns = ", ".join(map(self.quote, keys))
        if not others:
            return f" ON CONFLICT ({columns}) DO NOTHING"
        changes = ", ".join(f"{self.quote(each)} = EXCLUDED.{self.quote(each)}" for each in others)
        return f" ON CONFLICT ({columns}) DO UPDATE SET {changes}"

    def ledger_tail(self) -> str:
        return " ON CONFLICT (ledger, topic, partition) DO UPDATE SET next = EXCLUDED.next"

    def sql_type(self, schema: Schema, is_key: bool) -> str:
        if schema.type is Type.ARRAY and schema.values is not None and schema.values.type is not Type.ARRAY:
            return f"{self.sql_type(schema.values, is_key)}[]"
        return type_of(schema, _TYPES)

    def bind(self, schema: Schema, column: Column) -> Bind:
        texts = moment_texts(self._zone, offset=True)
        plain: dict[Type | str, Bind] = dict.fromkeys(
            (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN),
            as_it_is,
        )
        made: dict[Type | str, Bind] = {**plain, Type.STRING: _text, Type.BYTES: bytes, DECIMAL: as_it_is}
        made.update(texts)
        if schema.type is Type.ARRAY and schema.values is not None and schema.values.type is not Type.ARRAY:
            item = binder(schema.values, made)
            return lambda value: [None if each is None else item(each) for each in value]
        if schema.name == DECIMAL:
            scale_of(schema)
        return binder(schema, made)

    # -- the catalog ----------------------------------------------------------------------------------

    def tables(self, types: frozenset[str]) -> Sequence[TableId]:
        return [
            TableId(name, schema)
            for schema, name, kind in self.select(_TABLES)
            if _RELATIONS[kind] in types and not is_own(name)
        ]

    def relation(self, table: TableId) -> Relation | None:
        # The name goes in as a parameter, quoted as in SQL, but without doubled %.
        name = ".".join(self.quote(each).replace("%%", "%") for each in table.parts)
        rows = self.select(_COLUMNS, (name,))
        if not rows:
            return None
        columns = tuple(_column(row) for row in rows)
        return Relation(_RELATIONS.get(rows[0][4], TableType.OTHER), columns)

    def now_ns(self) -> int:
        ((text,),) = self.select("SELECT clock_timestamp()")
        return read_timestamp_ns(text, UTC)

    def create_ledger(self) -> None:
        with self.transaction(["ottla_connect"]):
            self._connected().execute(_LEDGER)

    # -- reading --------------------------------------------------------------------------------------

    def read(self, statement: str, parameters: Row, size: int) -> Reading:
        connection = self._connected()
        with self._errors():
            connection.execute("BEGIN READ ONLY")
        try:
            with self._errors():
                cursor = connection.cursor("ottla")
                cursor.itersize = size
                cursor.execute(statement, tuple(parameters))
                description = list(cursor.description or ())
        except BaseException:
            self._end("ROLLBACK")
            raise

        def batches() -> Iterator[Sequence[Row]]:
            while True:
                with self._errors():
                    rows = cursor.fetchmany(size)
                if not rows:
                    return
                yield rows

        def close() -> None:
            with suppress(psycopg.Error):
                cursor.close()
            self._end("COMMIT")

        names = {info.oid: info.name for info in psycopg.adapters.types}
        columns = [_described(each, names.get(each.type_code, "")) for each in description]
        return Reading(tuple(columns), batches(), close)

    def select(self, statement: str, parameters: Row = ()) -> Sequence[Row]:
        connection = self._connected()
        with self._errors():
            return connection.execute(statement, tuple(parameters)).fetchall()

    # -- writing --------------------------------------------------------------------------------------

    def run(self, statement: str) -> None:
        connection = self._connected()
        with self._errors():
            connection.execute(statement, ())

    @contextmanager
    def transaction(self, locks: Sequence[str]) -> Iterator[None]:
        connection = self._connected()
        with self._errors(), connection.transaction():
            for each in sorted(locks):
                # What it stands for may not be there yet: the lock is on the name, and holds to the end.
                connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (each,))
            yield

    def insert(self, head: str, row: str, tail: str, rows: Sequence[Row]) -> None:
        self.execute(f"{head} VALUES {row}{tail}", rows)

    def execute(self, statement: str, rows: Sequence[Row]) -> None:
        connection = self._connected()
        with self._errors(), connection.cursor() as cursor:
            cursor.executemany(statement, rows)

    def copy(self, statement: str, chunks: Iterable[memoryview]) -> None:
        """Run COPY FROM STDIN with what is given to it: all rows, or none."""
        connection = self._connected()
        with self._errors(), connection.cursor() as cursor, cursor.copy(statement.encode()) as copying:
            for each in chunks:
                copying.write(each)

    def close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    # -- the connection -------------------------------------------------------------------------------

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            with self._errors():
                self._connection = psycopg.connect(**self._options)
            adapters = self._connection.adapters
            for info in psycopg.adapters.types:
                if info.name not in _PYTHON:
                    adapters.register_loader(info.oid, TextLoader)
                if info.array_oid:
                    adapters.register_loader(info.array_oid, TextLoader)
            adapters.register_loader("bytea", _ByteaLoader)
            adapters.register_dumper(str, StrDumperUnknown)
        return self._connection

    def _end(self, statement: str) -> None:
        if self._connection is None or self._connection.closed:
            return
        try:
            self._connection.execute(statement)
        except psycopg.Error:
            self.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.OperationalError, psycopg.InterfaceError) as problem:
            raise RetriableError(f"{self._address.shown}: {_reason(problem)}") from problem
        except psycopg.Error as problem:
            raise Refused(f"PostgreSQL: {_reason(problem)}") from problem


def _options(address: Address) -> dict[str, Any]:
    hosts = [split_host(each) for each in address.hosts]
    options: dict[str, Any] = {
        "host": ",".join(host for host, _ in hosts),
        "port": ",".join(str(port or 5432) for _, port in hosts),
        "dbname": address.database or address.user or "postgres",
        "user": address.user,
        "password": address.password,
        "autocommit": True,
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "application_name": "ottla",
        "options": _SESSION,
    }
    for name, value in address.parameters.items():
        known = _PASSED_ON.get(name.lower())
        if known is not None:
            options[known] = _SERVER_TYPES.get(value, value)
        elif name.lower() == "currentschema":
            path = value.replace("\\", "\\\\").replace(" ", "\\ ")
            options["options"] = f"{_SESSION} -c search_path={path}"
        elif name.lower() == "ssl":
            options.setdefault("sslmode", "disable" if value.lower() == "false" else "verify-full")
        elif "ssl" in name.lower():
            raise ValueError(
                f"the parameter {name} of the URL is not known: use sslmode, sslrootcert, sslcert, sslkey"
            )
    return options


def _text(value: Any) -> str:
    text = checked_text(value)
    if "\0" in text:
        raise DataError("PostgreSQL's texts can't have the character NUL")
    return text


def _column(row: Row) -> Column:
    name, type, modifier, not_null, _, is_auto, is_key = row
    precision, scale = _digits(type, modifier)
    kind = _KINDS.get(type, ColumnKind.TEXT)
    if type == "bit" and modifier == 1:
        kind = ColumnKind.BOOLEAN
    return Column(name, kind, not not_null, precision, scale, is_auto, is_key, type)


def _described(column: Any, type: str) -> Column:
    kind = _KINDS.get(type, ColumnKind.TEXT)
    precision, scale = (column.precision, column.scale) if kind is ColumnKind.NUMERIC else (None, None)
    return Column(column.name, kind, True, precision, scale, declared=type)


def _digits(type: str, modifier: int) -> tuple[int | None, int | None]:
    if type != "numeric" or modifier < 4:
        return None, None
    # The scale has 11 bits, and may be negative since PostgreSQL 15.
    scale = (modifier - 4) & 0x7FF
    return (modifier - 4) >> 16 & 0xFFFF, scale - 0x800 if scale > 0x3FF else scale


def _reason(problem: Exception) -> str:
    return " ".join(str(problem).split())[:1000]
