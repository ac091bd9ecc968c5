"""The rows of tables at one moment of the database, as records.

A temporary slot exports a snapshot and says from which place on transactions are not in it (its consistent
point). The connector's own slot is there before, so the stream goes on at that point, without gap or overlap.
The snapshot is lost with the process. A later run makes one of its own, streams the changes of the tables
that are copied up to that, and copies the others: so all are as of one place again. The table that was being
copied is among both: changes of its rows that are there come, deletes too, and then all its rows once more.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import psycopg
from psycopg import sql

from ottla.connect.cdc.core.envelope import Operation, SnapshotMark
from ottla.connect.cdc.core.tables import TableShape
from ottla.connect.cdc.postgres.catalog import Connection
from ottla.connect.cdc.postgres.position import Position
from ottla.connect.cdc.postgres.replication import ReplicationConnection
from ottla.connect.cdc.postgres.source_block import Moment, source_block
from ottla.connect.cdc.postgres.translation import EventOptions
from ottla.connect.data.record import Record, SourceOffset, SourcePartition, SourceRecord
from ottla.connect.data.schema import Struct

_SLOT_PREFIX: Final = "ottla_snapshot_"
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table to copy. columns: of the shape's rows, in their order; is_root: with all its partitions."""

    shape: TableShape
    columns: Sequence[str]
    is_root: bool = False


def open_snapshot(connection: Connection, replication: ReplicationConnection) -> int:
    """Begin a transaction of `connection` that sees what is committed before the place that is returned.

    The replication connection, and its temporary slot, are no more needed then. Raises ReplicationError,
    psycopg.Error.
    """
    slot = replication.create_slot(f"{_SLOT_PREFIX}{secrets.token_hex(8)}", temporary=True, export=True)
    if slot.snapshot is None:
        raise psycopg.InternalError("the server made a slot without a snapshot")
    connection.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(slot.snapshot)))
    return slot.consistent_point


def copy_tables(
    connection: Connection,
    options: EventOptions,
    partition: SourcePartition,
    tables: Sequence[CopiedTable],
    position: Position,
    lsn: int,
    batch_size: int,
) -> Iterator[Sequence[SourceRecord]]:
    """The rows of tables as the transaction of `connection` sees them, in batches.

    position: of the stream's beginning, with the tables that are done; lsn: what this snapshot holds. Raises
    psycopg.Error, ConversionError.
    """
    # The transaction has no number of its own: one would hold up everybody who makes a slot.
    row = connection.execute(
        "SELECT pg_catalog.txid_snapshot_xmax(pg_catalog.txid_current_snapshot())"
    ).fetchone()
    now_ns = time.time_ns()
    moment = Moment(lsn, now_ns // 1000, None if row is None else row[0])
    for number, table in enumerate(tables):
        is_last = number == len(tables) - 1
        position = position.begins(table.shape.id)
        done = position.ends(table.shape.id)
        behind = done.done() if is_last else done
        copy = _Copy(options, partition, table, moment, position.offset(), behind.offset())
        batch: list[SourceRecord] = []
        held: tuple[str | None, ...] | None = None
        is_first = True
        for cells in _rows(connection, table):
            if held is not None:
                batch.append(
                    copy.record(held, _mark(number == 0 and is_first, is_first, False, False), False, now_ns)
                )
                is_first = False
                if len(batch) >= batch_size:
                    yield batch
                    batch = []
            held = cells
        if held is not None:
            batch.append(
                copy.record(held, _mark(number == 0 and is_first, is_first, True, is_last), True, now_ns)
            )
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


def _rows(connection: Connection, table: CopiedTable) -> Iterator[tuple[str | None, ...]]:
    """The rows as texts: COPY's format has the same ones that the stream has."""
    shape = table.shape
    listed = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    only = sql.SQL("" if table.is_root else "ONLY ")
    name = sql.Identifier(shape.schema_name, shape.table_name)
    query = sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT").format(listed, only, name)
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for row in copy:  # a message of the server's is always one row
            yield cells_of(bytes(row))


def cells_of(row: bytes) -> tuple[str | None, ...]:
    """The values of a row in COPY's text format, which ends with a line feed."""
    text = row.decode()
    if "\\" not in text:
        return tuple(text[:-1].split("\t"))
    return tuple(
        None if cell == "\\N" else _ESCAPED.sub(_unescaped, cell) if "\\" in cell else cell
        for cell in text[:-1].split("\t")
    )


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[1])


@dataclass(slots=True)
class _Copy:
    """The records of one table's rows. Their blocks and places are few, and are made once."""

    options: EventOptions
    partition: SourcePartition
    table: CopiedTable
    moment: Moment
    before: SourceOffset
    done: SourceOffset
    _sources: dict[SnapshotMark, Struct] = field(default_factory=dict)

    def record(
        self, cells: tuple[str | None, ...], mark: SnapshotMark, is_last: bool, now_ns: int
    ) -> SourceRecord:
        shape = self.table.shape
        source = self._sources.get(mark)
        if source is None:
            source = self._sources[mark] = source_block(
                self.options.names.prefix,
                self.options.database,
                shape.schema_name,
                shape.table_name,
                self.moment,
                mark,
            )
        key = shape.key(cells)
        value = shape.event(Operation.READ, None, shape.row(cells), source, now_ns)
        key_schema = None if key is None else shape.key_schema
        context = self.options.context
        record = Record(shape.topic, None, key, key_schema, value, shape.envelope, None, context)
        return SourceRecord(record, self.partition, self.done if is_last else self.before)
