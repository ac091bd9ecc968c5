"""What is asked of a MariaDB server: its settings, its place, its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pymysql
import pymysql.cursors

from ottla.connect.cdc.mariadb.ddl import carry_out
from ottla.connect.cdc.mariadb.model import Table, TableId, Tables
from ottla.connect.cdc.mariadb.position import GtidPosition, gtids_of

Connection: TypeAlias = Any
"""Of PyMySQL, whose classes have no types."""
SYSTEM_DATABASES: Final = frozenset({"mysql", "performance_schema", "sys", "information_schema"})
_NO_SUCH_TABLE: Final = (1146, 1049, 1142)
_ACCESS: Final = (1044, 1045, 1227, 1142, 1698)


class SetupError(Exception):
    """The server is not set up for change data capture; the message says what to do."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A place of the binary log, and the transactions before it."""

    file: str
    position: int
    gtids: GtidPosition


@dataclass(frozen=True, slots=True)
class Described:
    """A table, and the statement that makes it."""

    table: Table
    ddl: str


def quoted(*names: str) -> str:
    """Names as identifiers, with dots between."""
    return ".".join("`" + each.replace("`", "``") + "`" for each in names)


def connect(options: Mapping[str, Any]) -> Connection:
    """A connection whose texts are UTF-8 and whose times are UTC. Raises pymysql.Error."""
    connection = pymysql.connect(**options)
    run(connection, "SET SESSION time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600")
    return connection


def run(connection: Connection, sql: str, given: tuple[Any, ...] = ()) -> tuple[tuple[Any, ...], ...]:
    """The rows of a statement. Raises pymysql.Error."""
    with connection.cursor() as cursor:
        cursor.execute(sql, given or None)
        return tuple(cursor.fetchall())


def check_server(connection: Connection) -> None:
    """That the binary log has whole rows. Raises SetupError."""
    rows = run(
        connection,
        "SELECT @@version, @@log_bin, @@global.binlog_format, @@global.binlog_row_image, @@server_id",
    )
    version, has_log, form, image, _ = rows[0]
    if "mariadb" not in str(version).lower():
        raise SetupError(
            f"the server is {version}, no MariaDB: MySQL's binary log has another form of GTIDs, which this "
            "connector does not read"
        )
    wrong = []
    if not has_log:
        wrong.append("log_bin is off: start the server with --log-bin")
    if str(form).upper() != "ROW":
        wrong.append(f"binlog_format is {form}: it has to be ROW")
    if str(image).upper() != "FULL":
        wrong.append(f"binlog_row_image is {image}: it has to be FULL")
    if wrong:
        raise SetupError("; ".join(wrong))


def check_privileges(connection: Connection) -> None:
    """That the user may read the log and say where it is. Raises SetupError."""
    granted: set[str] = set()
    for (line,) in run(connection, "SHOW GRANTS"):
        words, mark, on = str(line).removeprefix("GRANT ").partition(" ON *.* ")
        if mark and on:
            granted |= {each.strip().upper() for each in words.split(",")}
    everything = "ALL PRIVILEGES" in granted
    missing = [
        names[0]
        for names in (("REPLICATION SLAVE", "REPLICATION REPLICA"), ("REPLICATION CLIENT", "BINLOG MONITOR"))
        if not everything and not granted.intersection(names)
    ]
    if missing and not _may_by_role(connection):
        raise SetupError(
            f"the user lacks {' and '.join(missing)}: GRANT {', '.join(missing)} ON *.* TO the user"
        )


def _may_by_role(connection: Connection) -> bool:
    """Whether a role is active, whose rights SHOW GRANTS does not list as the user's own."""
    return run(connection, "SELECT CURRENT_ROLE()")[0][0] is not None


def snapshot_place(connection: Connection) -> LogPlace:
    """Where the log was when the connection's consistent snapshot began. Raises SetupError."""
    found = {
        str(name).lower(): value for name, value in run(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")
    }
    file, position = found.get("binlog_snapshot_file"), found.get("binlog_snapshot_position")
    if not file or position is None:
        raise SetupError("the server does not say where its binary log is: log_bin has to be on")
    rows = run(connection, "SELECT BINLOG_GTID_POS(%s, %s)", (file, int(position)))
    return LogPlace(str(file), int(position), gtids_of(str(rows[0][0] or "")))


def current_place(connection: Connection) -> LogPlace:
    """Where the log ends now. Raises SetupError."""
    rows = run(connection, "SHOW MASTER STATUS")
    if not rows:
        raise SetupError("log_bin is off: start the server with --log-bin")
    file, position = str(rows[0][0]), int(rows[0][1])
    gtids = run(connection, "SELECT BINLOG_GTID_POS(%s, %s)", (file, position))
    return LogPlace(file, position, gtids_of(str(gtids[0][0] or "")))


def log_files(connection: Connection) -> list[str]:
    """The files of the log that are there, the oldest first."""
    return [str(row[0]) for row in run(connection, "SHOW BINARY LOGS")]


def read_charsets(connection: Connection) -> Tables:
    """The model of a server without tables: its character sets."""
    server = run(connection, "SELECT @@character_set_server, @@collation_server")[0]
    rows = run(
        connection,
        "SELECT schema_name, default_character_set_name, default_collation_name "
        "FROM information_schema.schemata",
    )
    return Tables({}, {str(row[0]): str(row[1]) for row in rows}, str(server[0]))


def read_collations(connection: Connection) -> dict[str, tuple[str, str]]:
    """Character set and collation of each database."""
    rows = run(
        connection,
        "SELECT schema_name, default_character_set_name, default_collation_name "
        "FROM information_schema.schemata",
    )
    return {str(row[0]): (str(row[1]), str(row[2])) for row in rows}


def read_tables(connection: Connection) -> list[TableId]:
    """The tables of all databases but the system's, in order."""
    rows = run(
        connection,
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type IN "
        "('BASE TABLE', 'SYSTEM VERSIONED')",
    )
    found = [TableId(str(row[0]), str(row[1])) for row in rows]
    return sorted(each for each in found if each.database.lower() not in SYSTEM_DATABASES)


def describe(connection: Connection, id: TableId, tables: Tables) -> Described | None:
    """A table as it is now; None where it is gone. Carried out on `tables`. Raises DdlError."""
    try:
        rows = run(connection, f"SHOW CREATE TABLE {quoted(*id)}")
    except pymysql.Error as problem:
        if problem.args and problem.args[0] in _NO_SUCH_TABLE:
            return None
        raise
    ddl = str(rows[0][1])
    carry_out(tables, ddl, id.database)
    return Described(tables.tables[id], ddl)


def rows_of(connection: Connection, sql: str) -> Iterator[tuple[bytes | None, ...]]:
    """The rows of a SELECT as they come, as bytes; given up early, the connection is gone.

    Raises pymysql.Error.
    """
    unicode, decoders = connection.use_unicode, connection.decoders
    connection.use_unicode, connection.decoders = False, {}
    cursor = connection.cursor(pymysql.cursors.SSCursor)
    try:
        cursor.execute(sql)
        while found := cursor.fetchmany(1000):
            yield from found
        cursor.close()
    except BaseException:
        # Closing the cursor would read all that is left.
        connection._force_close()
        raise
    finally:
        connection.use_unicode, connection.decoders = unicode, decoders


def is_access_problem(problem: pymysql.Error) -> bool:
    """Whether the server refuses the user, which no further try changes."""
    return bool(problem.args) and problem.args[0] in _ACCESS
