"""MariaDB (10.5 and later) and MySQL (8) through PyMySQL.

Sessions are in UTC and strict. Dates and times are read as the server's own texts. DDL commits what is open
here, so it is never a part of a transaction.
"""

from __future__ import annotations

import decimal
import hashlib
import math
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo

import pymysql
import pymysql.converters
import pymysql.cursors
from pymysql.connections import Connection
from pymysql.constants import FIELD_TYPE, FLAG

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

MAX_NAME_CHARACTERS: Final = 64
MAX_STATEMENT_BYTES: Final = 1 << 20
"""Rows are joined into one INSERT up to this size: max_allowed_packet is 16 MiB where nobody changed it."""
MAX_STATEMENT_ROWS: Final = 1000
LOCK_SECONDS: Final = 60
IO_TIMEOUT_SECONDS: Final = 600
_SESSION: Final = (
    "SET SESSION time_zone = '+00:00', net_write_timeout = 3600, "
    "sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"
)
_BINARY: Final = 63
_KINDS: Final = {
    "boolean": ColumnKind.BOOLEAN,
    "tinyint": ColumnKind.INT8,
    "smallint": ColumnKind.INT16,
    "mediumint": ColumnKind.INT32,
    "int": ColumnKind.INT32,
    "bigint": ColumnKind.INT64,
    "year": ColumnKind.INT32,
    "float": ColumnKind.FLOAT32,
    "double": ColumnKind.FLOAT64,
    "decimal": ColumnKind.DECIMAL,
    "date": ColumnKind.DATE,
    "time": ColumnKind.TIME,
    "datetime": ColumnKind.TIMESTAMP,
    "timestamp": ColumnKind.TIMESTAMP,
    "binary": ColumnKind.BYTES,
    "varbinary": ColumnKind.BYTES,
    "tinyblob": ColumnKind.BYTES,
    "blob": ColumnKind.BYTES,
    "mediumblob": ColumnKind.BYTES,
    "longblob": ColumnKind.BYTES,
    "bit": ColumnKind.BYTES,
    "geometry": ColumnKind.BYTES,
    "point": ColumnKind.BYTES,
    "linestring": ColumnKind.BYTES,
    "polygon": ColumnKind.BYTES,
    "multipoint": ColumnKind.BYTES,
    "multilinestring": ColumnKind.BYTES,
    "multipolygon": ColumnKind.BYTES,
    "geometrycollection": ColumnKind.BYTES,
}
_UNSIGNED: Final = {
    ColumnKind.INT8: ColumnKind.INT16,
    ColumnKind.INT16: ColumnKind.INT32,
    ColumnKind.INT32: ColumnKind.INT64,
}
_OF_FIELDS: Final = {
    FIELD_TYPE.TINY: "tinyint",
    FIELD_TYPE.SHORT: "smallint",
    FIELD_TYPE.INT24: "mediumint",
    FIELD_TYPE.LONG: "int",
    FIELD_TYPE.LONGLONG: "bigint",
    FIELD_TYPE.YEAR: "year",
    FIELD_TYPE.FLOAT: "float",
    FIELD_TYPE.DOUBLE: "double",
    FIELD_TYPE.NEWDECIMAL: "decimal",
    FIELD_TYPE.DECIMAL: "decimal",
    FIELD_TYPE.DATE: "date",
    FIELD_TYPE.TIME: "time",
    FIELD_TYPE.DATETIME: "datetime",
    FIELD_TYPE.TIMESTAMP: "timestamp",
    FIELD_TYPE.BIT: "bit",
    FIELD_TYPE.GEOMETRY: "geometry",
}
_RELATIONS: Final = {"BASE TABLE": TableType.TABLE, "VIEW": TableType.VIEW}
_TYPES: Final[Mapping[Type | str, str]] = {
    Type.INT8: "TINYINT",
    Type.INT16: "SMALLINT",
    Type.INT32: "INT",
    Type.INT64: "BIGINT",
    Type.FLOAT32: "FLOAT",
    Type.FLOAT64: "DOUBLE",
    Type.BOOLEAN: "TINYINT",
    Type.STRING: "TEXT",
    Type.BYTES: "VARBINARY(1024)",
    DATE: "DATE",
    TIME: "TIME(3)",
    TIMESTAMP: "DATETIME(3)",
}
# fmt: off
_AWAY: Final = frozenset(
    (
        1040, 1042, 1043, 1047, 1053, 1077, 1079, 1080, 1129, 1152, 1153, 1154, 1155, 1156, 1157,
        1158, 1159, 1160, 1161, 1184, 1205, 1213, 1226, 1290, 1317, 1836, 1927, 3024, 4031,
    )
)
"""A server that is busy, stops or can't be written now, or a transaction that had to end a deadlock."""
# fmt: on
_CLIENT_ERRORS: Final = range(2000, 3000)
_TABLES: Final = """
SELECT table_schema, table_name, table_type FROM information_schema.tables
WHERE table_schema = database() ORDER BY table_name
"""
_COLUMNS: Final = """
SELECT c.column_name, c.data_type, c.column_type, c.numeric_precision, c.numeric_scale, c.is_nullable,
    c.extra, c.column_key, t.table_type
FROM information_schema.columns c
JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema = coalesce(%s, database()) AND c.table_name = %s ORDER BY c.ordinal_position
"""
_LEDGER: Final = f"""
CREATE TABLE IF NOT EXISTS {LEDGER_TABLE} (
    ledger VARBINARY(1000), topic VARBINARY(249), `partition` INT, next BIGINT NOT NULL,
    PRIMARY KEY (ledger, topic, `partition`)
) ENGINE = InnoDB
"""


def _decoders() -> dict[Any, Any]:
    """PyMySQL's conversions, but for dates, times and bits, which come as the server has them."""
    kept = dict(pymysql.converters.conversions)
    for each in (
        FIELD_TYPE.DATE,
        FIELD_TYPE.TIME,
        FIELD_TYPE.DATETIME,
        FIELD_TYPE.TIMESTAMP,
        FIELD_TYPE.NEWDATE,
        FIELD_TYPE.BIT,
    ):
        kept.pop(each, None)
    return kept


class MariaDatabase:
    """A `Database` whose connection is opened again after the server closed it."""

    mark: ClassVar[str] = "`"
    placeholder: ClassVar[str] = "%s"

    def __init__(self, address: Address, zone: ZoneInfo) -> None:
        """Raises ValueError for a parameter of the URL that can't be followed."""
        self._address = address
        self._zone = zone
        self._options = _options(address)
        self._connection: Connection | None = None
        self._is_mariadb = True

    # -- names and SQL --------------------------------------------------------------------------------

    def quote(self, name: str) -> str:
        text = quoted(name, self.mark)
        if len(name) > MAX_NAME_CHARACTERS:
            raise DataError(f"MariaDB's names have at most {MAX_NAME_CHARACTERS} characters: {name!r}")
        if name.endswith(" ") or max(name) > "\uffff":
            raise DataError(
                f"MariaDB's names neither end with a space nor have characters beyond U+FFFF: {name!r}"
            )
        return text.replace("%", "%%")

    def literal(self, text: str) -> str:
        return text.replace("%", "%%")

    def folded(self, name: str) -> str:
        return name

    def table_of(self, names: Sequence[str]) -> TableId:
        if len(names) > 2:
            raise DataError(f"the table {'.'.join(names)} has a schema, which MariaDB has not")
        return TableId(names[-1], catalog=names[0] if len(names) == 2 else None)

    def selected(self, column: Column) -> str:
        name = self.quote(column.name)
        # As a FLOAT the server would tell six digits alone.
        return f"{name} + 0E0 AS {name}" if column.declared.startswith("float") else name

    def moment(self, expression: str) -> str:
        return expression

    def moment_parameter(self, epoch_ns: int) -> str:
        return timestamp_text(epoch_ns, self._zone)

    def upsert_tail(self, keys: Sequence[str], others: Sequence[str]) -> str:
        names = [self.quote(each) for each in (others or keys)]
        return f" ON DUPLICATE KEY UPDATE {', '.join(f'{each} = VALUES({each})' for each in names)}"

    def ledger_tail(self) -> str:
        return " ON DUPLICATE KEY UPDATE next = VALUES(next)"

    def sql_type(self, schema: Schema, is_key: bool) -> str:
        if schema.name == DECIMAL:
            return f"DECIMAL(65,{scale_of(schema)})"
        if is_key and schema.type is Type.STRING:
            # A TEXT is no key, and by the default collation 'a' and 'A' were one.
            self._connected()
            return f"VARCHAR(255) CHARACTER SET utf8mb4 COLLATE {self._collation}"
        if is_key and schema.type is Type.BYTES:
            return "VARBINARY(1024)"
        return type_of(schema, _TYPES)

    @property
    def _collation(self) -> str:
        return "utf8mb4_nopad_bin" if self._is_mariadb else "utf8mb4_0900_bin"

    def bind(self, schema: Schema, column: Column) -> Bind:
        made: dict[Type | str, Bind] = {
            **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.BOOLEAN), int),
            Type.FLOAT32: _number,
            Type.FLOAT64: _number,
            Type.STRING: checked_text,
            Type.BYTES: bytes,
            DECIMAL: _decimal_text,
            **moment_texts(self._zone, offset=False),
        }
        if schema.name == DECIMAL:
            scale_of(schema)
        if schema.type is Type.BOOLEAN:
            made[Type.BOOLEAN] = as_it_is
        return binder(schema, made)

    # -- the catalog ----------------------------------------------------------------------------------

    def tables(self, types: frozenset[str]) -> Sequence[TableId]:
        return [
            TableId(name, catalog=catalog)
            for catalog, name, kind in self.select(_TABLES)
            if _RELATIONS.get(kind, TableType.OTHER) in types and not is_own(name)
        ]

    def relation(self, table: TableId) -> Relation | None:
        rows = self.select(_COLUMNS, (table.catalog, table.name))
        if not rows:
            return None
        return Relation(
            _RELATIONS.get(rows[0][8], TableType.OTHER),
            tuple(_column(row) for row in rows),
            ignores_case=True,
        )

    def now_ns(self) -> int:
        ((text,),) = self.select("SELECT UTC_TIMESTAMP(6)")
        return read_timestamp_ns(text, UTC)

    def create_ledger(self) -> None:
        self.run(_LEDGER)

    # -- reading --------------------------------------------------------------------------------------

    def read(self, statement: str, parameters: Row, size: int) -> Reading:
        connection = self._connected()
        with self._errors():
            cursor = connection.cursor(pymysql.cursors.SSCursor)
            cursor.execute(statement, tuple(parameters))
            fields = list(cursor._result.fields)  # the only place of their flags
        is_done = False

        def batches() -> Iterator[Sequence[Row]]:
            nonlocal is_done
            while True:
                with self._errors():
                    rows = cursor.fetchmany(size)
                if not rows:
                    is_done = True
                    return
                yield rows

        def close() -> None:
            if is_done:
                with self._errors():
                    cursor.close()
            else:
                # Neither the cursor nor its result may read all the rows that are left before they end.
                result = cursor._result
                if result is not None:
                    result.unbuffered_active = False
                cursor._result = cursor.connection = None
                self.close()

        return Reading(tuple(_described(each) for each in fields), batches(), close)

    def select(self, statement: str, parameters: Row = ()) -> Sequence[Row]:
        connection = self._connected()
        with self._errors(), connection.cursor() as cursor:
            cursor.execute(statement, tuple(parameters))
            return list(cursor.fetchall())

    # -- writing --------------------------------------------------------------------------------------

    def run(self, statement: str) -> None:
        self.select(statement)

    @contextmanager
    def transaction(self, locks: Sequence[str]) -> Iterator[None]:
        # Locks first: the transaction's snapshot is of its first read, behind them.
        names = sorted(hashlib.sha256(each.encode()).hexdigest()[:60] for each in locks)
        self._connected()
        try:
            for each in names:
                ((is_got,),) = self.select("SELECT GET_LOCK(%s, %s)", (each, LOCK_SECONDS))
                if is_got != 1:
                    raise RetriableError(
                        f"{self._address.shown}: another task holds the lock for {LOCK_SECONDS} s"
                    )
            self.run("START TRANSACTION")
            yield
            self.run("COMMIT")
        except BaseException:
            # Without the connection neither transaction nor locks go on.
            self.close()
            raise
        for each in names:
            self.select("SELECT RELEASE_LOCK(%s)", (each,))

    def insert(self, head: str, row: str, tail: str, rows: Sequence[Row]) -> None:
        connection = self._connected()
        with self._errors(), connection.cursor() as cursor:
            start = 0
            while start < len(rows):
                end, size = start, 0
                while (
                    end < len(rows)
                    and end - start < MAX_STATEMENT_ROWS
                    and (end == start or size < MAX_STATEMENT_BYTES)
                ):
                    size += sum(len(each) if isinstance(each, str | bytes) else 20 for each in rows[end])
                    end += 1
                values = ", ".join([row] * (end - start))
                parameters = [each for given in rows[start:end] for each in given]
                cursor.execute(f"{head} VALUES {values}{tail}", parameters)
                start = end

    def execute(self, statement: str, rows: Sequence[Row]) -> None:
        connection = self._connected()
        with self._errors(), connection.cursor() as cursor:
            for each in rows:
                cursor.execute(statement, tuple(each))

    def send(self, statement: bytes) -> None:
        """Run a statement as it is."""
        connection = self._connected()
        with self._errors(), connection.cursor() as cursor:
            cursor.execute(statement)  # bytes go to the server as they are

    def close(self) -> None:
        if self._connection is not None:
            with suppress(pymysql.Error, OSError):
                self._connection._force_close()  # without a word to the server, which may not listen
            self._connection = None

    # -- the connection -------------------------------------------------------------------------------

    def _connected(self) -> Connection:
        if self._connection is None or not self._connection.open:
            with self._errors():
                connection: Connection = pymysql.connect(**self._options)
                self._connection = connection
                with connection.cursor() as cursor:
                    cursor.execute(_SESSION)
            self._is_mariadb = "MariaDB" in connection.get_server_info()
        return self._connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (pymysql.Error, OSError, RuntimeError) as problem:
            code = problem.args[0] if problem.args else 0
            reason = " ".join(str(problem.args[-1] if problem.args else problem).split())[:1000]
            is_away = not isinstance(problem, pymysql.Error) or isinstance(problem, pymysql.InterfaceError)
            if is_away or code in _AWAY or code in _CLIENT_ERRORS:
                self.close()
                raise RetriableError(f"{self._address.shown}: {reason}") from problem
            raise Refused(f"MariaDB: {reason}") from problem


def _options(address: Address) -> dict[str, Any]:
    host, port = split_host(address.hosts[0])
    options: dict[str, Any] = {
        "host": host or "localhost",
        "port": port or 3306,
        "database": address.database or None,
        "user": address.user,
        "password": address.password or "",
        "charset": "utf8mb4",
        "autocommit": True,
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "read_timeout": IO_TIMEOUT_SECONDS,
        "write_timeout": IO_TIMEOUT_SECONDS,
        "conv": _decoders(),
        "program_name": "ottla",
    }
    mode, certificate, verified = "", None, True
    for name, value in address.parameters.items():
        match name.lower():
            case "sslmode":
                mode = value.lower().replace("_", "-")
            case "usessl" | "requiressl":
                mode = mode or ("disable" if value.lower() == "false" else "verify-full")
            case "verifyservercertificate" | "trustservercertificate":
                verified = (value.lower() == "true") == name.lower().startswith("verify")
            case "serversslcert":
                certificate = value
            case "localsocket":
                options["unix_socket"] = value
            case lower if "ssl" in lower or "truststore" in lower or "keystore" in lower:
                raise ValueError(
                    f"the parameter {name} of the URL is not known: use sslMode and serverSslCert"
                )
    if mode not in ("", "disable", "disabled"):
        options["ssl"] = _tls(mode, certificate, verified)
    return options


def _tls(mode: str, certificate: str | None, verified: bool) -> ssl.SSLContext:
    if mode in ("trust", "required", "preferred") or not verified:
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if mode not in ("verify-ca", "verify-full", "verify-identity"):
        raise ValueError("the URL's sslMode is none of disable, trust, verify-ca, verify-full")
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = mode != "verify-ca"
    return context


def _column(row: Row) -> Column:
    name, type, declared, precision, scale, nullable, extra, key, _ = row
    kind = _kind(type, "unsigned" in declared)
    if type == "bit" and declared == "bit(1)":
        kind = ColumnKind.BYTES
    if kind is not ColumnKind.DECIMAL:
        precision = scale = None
    return Column(
        name,
        kind,
        nullable == "YES",
        precision,
        scale,
        "auto_increment" in extra.lower(),
        key == "PRI",
        declared,
    )


def _described(field: Any) -> Column:
    type = _OF_FIELDS.get(field.type_code, "")
    if not type:
        type = "blob" if field.charsetnr == _BINARY else "text"
    is_decimal = type == "decimal"
    return Column(
        field.name,
        _kind(type, bool(field.flags & FLAG.UNSIGNED)),
        not field.flags & FLAG.NOT_NULL,
        field.length if is_decimal else None,
        field.scale if is_decimal else None,
        declared=type,
    )


def _kind(type: str, is_unsigned: bool) -> ColumnKind:
    kind = _KINDS.get(type, ColumnKind.TEXT)
    return _UNSIGNED.get(kind, kind) if is_unsigned and type != "year" else kind


def _number(value: float) -> float:
    if not math.isfinite(value):
        raise DataError(f"MariaDB has no number {value}")
    return value


def _decimal_text(value: decimal.Decimal) -> str:
    return format(value, "f")
