"""The rows of tables at one moment of the server, as records.

A transaction with a consistent snapshot knows its own place in the binary log (binlog_snapshot_file and
_position), so the stream goes on exactly there, without gap or overlap. The lock, where there is one, is held
while that transaction begins and the tables are described, so that their shapes are those of the same place.
The snapshot is lost with the connection. A later run makes one of its own, streams the changes of the tables
that are copied up to that, and copies the others: so all are as of one place again. The table that was being
copied is among both: changes of its rows that are there come, deletes too, and then all its rows once more.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pymysql

from ottla.connect.cdc.core.column_form import Cell
from ottla.connect.cdc.core.envelope import Operation, SnapshotMark
from ottla.connect.cdc.core.tables import TableShape
from ottla.connect.cdc.mariadb.column_forms import from_text
from ottla.connect.cdc.mariadb.history import HistoryRecord
from ottla.connect.cdc.mariadb.model import CREATE, DROP, Table, TableChange, Tables
from ottla.connect.cdc.mariadb.position import Position
from ottla.connect.cdc.mariadb.schema_changes import schema_change_record
from ottla.connect.cdc.mariadb.server import (
    Connection,
    Described,
    LogPlace,
    SetupError,
    describe,
    quoted,
    read_charsets,
    read_collations,
    read_tables,
    rows_of,
    run,
    snapshot_place,
)
from ottla.connect.cdc.mariadb.source_block import Moment, source_block
from ottla.connect.cdc.mariadb.translation import EventOptions
from ottla.connect.data.record import Record, SourcePartition, SourceRecord

_ACCESS_DENIED: Final = (1227, 1044, 1045)


class LockingMode(enum.StrEnum):
    """snapshot.locking.mode."""

    MINIMAL = "minimal"
    MINIMAL_AT_LEAST_ONCE = "minimal_at_least_once"
    EXTENDED = "extended"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A moment of the server. described: all tables, which `tables` has as well; collations: of databases."""

    place: LogPlace
    described: tuple[Described, ...]
    tables: Tables
    collations: dict[str, tuple[str, str]]
    server: tuple[str, str]

    def history(self) -> list[tuple[str, str, tuple[TableChange, ...]]]:
        """Database, DDL and change of what makes the model, in Debezium's order."""
        charset, collation = self.server
        found: list[tuple[str, str, tuple[TableChange, ...]]] = [
            ("", f"SET character_set_server={charset}, collation_server={collation}", ())
        ]
        for each in self.described:
            id = each.table.id
            found.append((id.database, f"DROP TABLE IF EXISTS {quoted(*id)}", (TableChange(DROP, id),)))
        for database in dict.fromkeys(each.table.id.database for each in self.described):
            charset, collation = self.collations.get(database, self.server)
            name = quoted(database)
            found.append((database, f"DROP DATABASE IF EXISTS {name}", ()))
            found.append((database, f"CREATE DATABASE {name} CHARSET {charset} COLLATE {collation}", ()))
            found.append((database, f"USE {name}", ()))
            found += [
                (database, each.ddl, (TableChange(CREATE, each.table.id, each.table),))
                for each in self.described
                if each.table.id.database == database
            ]
        return found


def open_snapshot(connection: Connection, mode: LockingMode, timeout_ms: int) -> Snapshot:
    """Begin a transaction that sees one moment, and describe the tables. Raises SetupError, pymysql.Error.

    With `extended` the lock stays until `release`.
    """
    seconds = max(1, timeout_ms // 1000)
    run(connection, f"SET SESSION lock_wait_timeout = {seconds}, innodb_lock_wait_timeout = {seconds}")
    run(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    if mode is not LockingMode.NONE:
        try:
            run(connection, "FLUSH TABLES WITH READ LOCK")
        except pymysql.Error as problem:
            if problem.args and problem.args[0] in _ACCESS_DENIED:
                raise SetupError(
                    "the user may not lock the tables for a moment: GRANT RELOAD ON *.* TO the user, or set "
                    f"snapshot.locking.mode to none ({problem.args[-1]})"
                ) from problem
            raise
    run(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    place = snapshot_place(connection)
    tables = read_charsets(connection)
    described = []
    for id in read_tables(connection):
        found = describe(connection, id, tables)
        if found is not None:
            described.append(found)
    server = run(connection, "SELECT @@character_set_server, @@collation_server")[0]
    collations = read_collations(connection)
    if mode is not LockingMode.EXTENDED:
        run(connection, "UNLOCK TABLES")
    return Snapshot(place, tuple(described), tables, collations, (str(server[0]), str(server[1])))


def release(connection: Connection) -> None:
    """End the transaction, and the lock if there is one."""
    if connection.open:
        run(connection, "UNLOCK TABLES")
        run(connection, "ROLLBACK")


def history_records(
    snapshot: Snapshot, place: Position, takes: Callable[[str, tuple[TableChange, ...]], bool]
) -> list[HistoryRecord]:
    """The history that a snapshot begins with. takes: asked for a database and changes."""
    return [
        HistoryRecord(place, database, ddl, changes)
        for database, ddl, changes in snapshot.history()
        if takes(database, changes)
    ]


def schema_records(
    records: Sequence[HistoryRecord], options: EventOptions, partition: SourcePartition
) -> list[SourceRecord]:
    """The same history as records of the topic of schema changes."""
    found = []
    now_ns = time.time_ns()
    for each in records:
        place = each.position
        moment = Moment(now_ns // 1000, place.file, place.position)
        table = each.changes[0].id.table if each.changes else None
        source = source_block(options.names.prefix, each.database, table, moment, SnapshotMark.TRUE)
        record = schema_change_record(
            options.names.prefix, source, now_ns // 1_000_000, each.database, each.ddl, each.changes
        )
        with_context = Record(
            record.topic,
            record.partition,
            record.key,
            record.key_schema,
            record.value,
            record.value_schema,
            None,
            options.context,
        )
        found.append(SourceRecord(with_context, partition, place.offset()))
    return found


def copy_tables(
    connection: Connection,
    options: EventOptions,
    partition: SourcePartition,
    tables: Sequence[tuple[Table, TableShape]],
    position: Position,
    batch_size: int,
) -> Iterator[Sequence[SourceRecord]]:
    """The rows of tables as the transaction of `connection` sees them, in batches.

    position: of the stream's beginning, with the tables that are done. Raises pymysql.Error, ConversionError.
    """
    now_ns = time.time_ns()
    moment = Moment(now_ns // 1000, position.file, position.position)
    for number, (table, shape) in enumerate(tables):
        is_last = number == len(tables) - 1
        position = position.begins(shape.id)
        done = position.ends(shape.id)
        copy = _Copy(options, partition, shape, moment, position, done.complete() if is_last else done)
        batch: list[SourceRecord] = []
        held: tuple[Cell, ...] | None = None
        is_first = True
        for cells in _rows(connection, table):
            if held is not None:
                mark = _mark(number == 0 and is_first, is_first, False, False)
                batch.append(copy.record(held, mark, False, now_ns))
                is_first = False
                if len(batch) >= batch_size:
                    yield batch
                    batch = []
            held = cells
        if held is not None:
            mark = _mark(number == 0 and is_first, is_first, True, is_last)
            batch.append(copy.record(held, mark, True, now_ns))
        position = done
        if batch:
            yield batch


def _mark(first_of_all: bool, first: bool, last: bool, last_table: bool) -> SnapshotMark:
    if last and last_table:
        return SnapshotMark.LAST
    if first_of_all:
        return SnapshotMark.FIRST
    if last:
        return SnapshotMark.LAST_IN_TABLE
    return SnapshotMark.FIRST_IN_TABLE if first else SnapshotMark.TRUE


def _rows(connection: Connection, table: Table) -> Iterator[tuple[Cell, ...]]:
    """The rows, as the log would have them."""
    reads = [from_text(each) for each in table.columns]
    # A FLOAT's text has six digits; a DOUBLE's has all of them.
    listed = ", ".join(
        f"CAST({quoted(each.name)} AS DOUBLE)" if each.base_type in ("FLOAT", "FLOAT4") else quoted(each.name)
        for each in table.columns
    )
    for row in rows_of(connection, f"SELECT {listed} FROM {quoted(*table.id)}"):
        yield tuple(None if data is None else read(data) for read, data in zip(reads, row, strict=True))


@dataclass(frozen=True, slots=True)
class _Copy:
    """The records of one table's rows."""

    options: EventOptions
    partition: SourcePartition
    shape: TableShape
    moment: Moment
    before: Position
    done: Position

    def record(self, cells: tuple[Cell, ...], mark: SnapshotMark, is_last: bool, now_ns: int) -> SourceRecord:
        shape = self.shape
        prefix = self.options.names.prefix
        source = source_block(prefix, shape.schema_name, shape.table_name, self.moment, mark)
        key = shape.key(cells)
        value = shape.event(Operation.READ, None, shape.row(cells), source, now_ns)
        key_schema = None if key is None else shape.key_schema
        context = self.options.context
        record = Record(shape.topic, None, key, key_schema, value, shape.envelope, None, context)
        return SourceRecord(record, self.partition, (self.done if is_last else self.before).offset())
