"""The rows of tables at one moment of the database, as records.

A temporary slot exports a snapshot and says from which place on transactions are not in it (its consistent
point). All readers take that snapshot before the slot's connection goes on, so each range of each table is as
of one moment. The connector's own slot is there before, so the stream goes on at that point, without gap or
overlap.

The snapshot is lost with the process. A later run makes one of its own, streams the changes of the tables
that are copied or begun up to that, and copies the ranges that are left: so all are as of one place again. A
range that was being copied is among both: changes of its rows that are there come, deletes too, and then all
its rows once more.

What is done stands in the offset of a range's last record: with it in Kafka, the range's other rows are too.
"""

from __future__ import annotations

import secrets
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import psycopg
from psycopg import sql

from ottla.connect.cdc.core.envelope import Operation, SnapshotMark
from ottla.connect.cdc.core.tables import TableShape
from ottla.connect.cdc.postgres.catalog import Connection, TableName
from ottla.connect.cdc.postgres.copying.ranges import Ranges
from ottla.connect.cdc.postgres.copying.reading import Cells, CopyReader, wait_for_rows
from ottla.connect.cdc.postgres.position import Copying, Position
from ottla.connect.cdc.postgres.replication import ReplicationConnection
from ottla.connect.cdc.postgres.source_block import Moment, source_block
from ottla.connect.cdc.postgres.translation import EventOptions
from ottla.connect.data.record import Record, SourceOffset, SourcePartition, SourceRecord
from ottla.connect.data.schema import Struct

MAX_BATCH_BYTES: Final = 8 << 20
"""Of the rows' texts in one batch, whatever max.batch.size says: one row more may be in it."""
_SLOT_PREFIX: Final = "ottla_snapshot_"


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table to copy. columns: of the shape's rows, in their order; source: what stands behind FROM."""

    shape: TableShape
    columns: Sequence[str]
    source: sql.Composable
    ranges: Ranges = field(default_factory=Ranges)

    def query(self, number: int) -> sql.Composed:
        """The statement that gives the rows of a range: COPY's texts are those that the stream has."""
        listed = sql.SQL(", ").join(map(sql.Identifier, self.columns))
        condition = self.ranges.condition(number)
        where = sql.SQL("") if condition is None else sql.SQL(" WHERE {}").format(condition)
        return sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT").format(listed, self.source, where)


def open_snapshot(connections: Sequence[Connection], replication: ReplicationConnection) -> int:
    """Begin a transaction of each connection that sees what is committed before the place that is returned.

    The replication connection, and its temporary slot, are no more needed then. Raises ReplicationError,
    psycopg.Error.
    """
    slot = replication.create_slot(f"{_SLOT_PREFIX}{secrets.token_hex(8)}", temporary=True, export=True)
    if slot.snapshot is None:
        raise psycopg.InternalError("the server made a slot without a snapshot")
    for each in connections:
        each.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        each.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(slot.snapshot)))
    return slot.consistent_point


def snapshot_moment(connection: Connection, lsn: int, now_ns: int) -> Moment:
    """What the source blocks of a snapshot's rows say."""
    # The transaction has no number of its own: one would hold up everybody who makes a slot.
    row = connection.execute(
        "SELECT pg_catalog.txid_snapshot_xmax(pg_catalog.txid_current_snapshot())"
    ).fetchone()
    return Moment(lsn, now_ns // 1000, None if row is None else row[0])


def lock_tables(connection: Connection, tables: Sequence[TableName]) -> None:
    """Nobody changes the tables' columns until the transaction ends; rows may be written."""
    for each in tables:
        name = sql.Identifier(each.schema, each.name)
        connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ACCESS SHARE MODE").format(name))


@dataclass(slots=True)
class _Range:
    """A range that is being read. held: its last row until now, as the very last one has another place."""

    reader: CopyReader
    table: CopiedTable
    number: int
    held: Cells | None = None


class TableCopy:
    """Copies tables in batches, as many ranges at once as there are connections in the snapshot."""

    def __init__(
        self,
        options: EventOptions,
        partition: SourcePartition,
        moment: Moment,
        position: Position,
        batch_size: int,
    ) -> None:
        """position: of the stream's beginning, with the tables and ranges that are done."""
        self._options = options
        self._partition = partition
        self._moment = moment
        self._now_ns = moment.time_us * 1000
        self._position = position
        self._copying = Copying() if position.copying is None else position.copying
        self._offset: SourceOffset = position.offset()
        self._batch_size = batch_size
        self._batch: list[SourceRecord] = []
        self._left: Counter[str] = Counter()
        self._sources: dict[tuple[str, SnapshotMark], Struct] = {}
        self._seen: set[str] = set()
        self._first_table = ""

    def batches(
        self, connections: Sequence[Connection], tables: Sequence[CopiedTable]
    ) -> Iterator[Sequence[SourceRecord]]:
        """The rows of tables. A batch without records says that the server has none yet.

        Raises psycopg.Error, ConversionError.
        """
        waiting = deque((table, number) for table in tables for number in table.ranges.left)
        self._left = Counter(table.shape.id for table, _ in waiting)
        self._first_table = tables[0].shape.id if tables else ""
        idle = [CopyReader(each) for each in connections]
        running: list[_Range] = []
        read_bytes = 0
        while waiting or running:
            while waiting and idle:
                running.append(self._begin(idle.pop(0), *waiting.popleft(), connections[0]))
            has_read = 0
            for each in list(running):
                share = max(1, min(self._batch_size - len(self._batch), self._batch_size // len(running)))
                has_read += each.reader.rows(self._taking(each), share, MAX_BATCH_BYTES // len(running))
                if len(self._batch) >= self._batch_size:
                    yield self._taken()
                if not each.reader.reads:
                    running.remove(each)
                    idle.append(each.reader)
                    self._finish(each)
                    has_read += 1
                if len(self._batch) >= self._batch_size:
                    yield self._taken()
            read_bytes += has_read
            is_idle = not has_read and not wait_for_rows(each.reader for each in running)
            if is_idle or read_bytes >= MAX_BATCH_BYTES:
                read_bytes = 0
                yield self._taken()
        if self._batch:
            yield self._taken()

    def _taken(self) -> list[SourceRecord]:
        batch, self._batch = self._batch, []
        return batch

    def _begin(self, reader: CopyReader, table: CopiedTable, number: int, any_of: Connection) -> _Range:
        name = table.shape.id
        if name not in self._copying.begun:
            self._place(self._copying.begins(name, table.ranges))
        reader.start(table.query(number).as_bytes(any_of))
        return _Range(reader, table, number)

    def _place(self, copying: Copying | None) -> None:
        """What is done from here on; its offset is the same for all records up to the next change."""
        if copying is not None:
            self._copying = copying
        self._offset = self._position.with_copying(copying).offset()

    def _taking(self, of: _Range) -> Callable[[Cells], None]:
        def take(cells: Cells) -> None:
            if of.held is not None:
                self._batch.append(self._record(of.table, of.held, self._mark(of.table)))
            of.held = cells

        return take

    def _finish(self, done: _Range) -> None:
        name = done.table.shape.id
        self._left[name] -= 1
        is_last_of_table = self._left[name] == 0
        if is_last_of_table:
            del self._left[name]
        is_last = not self._left
        self._place(None if is_last else self._copying.finishes(name, done.number))
        if done.held is None:
            return
        mark = self._mark(done.table)
        if is_last:
            mark = SnapshotMark.LAST
        elif is_last_of_table and mark is not SnapshotMark.FIRST:
            mark = SnapshotMark.LAST_IN_TABLE
        self._batch.append(self._record(done.table, done.held, mark))

    def _mark(self, table: CopiedTable) -> SnapshotMark:
        name = table.shape.id
        if name in self._seen:
            return SnapshotMark.TRUE
        self._seen.add(name)
        return SnapshotMark.FIRST if name == self._first_table else SnapshotMark.FIRST_IN_TABLE

    def _record(self, table: CopiedTable, cells: Cells, mark: SnapshotMark) -> SourceRecord:
        shape = table.shape
        source = self._sources.get((shape.id, mark))
        if source is None:
            names = self._options.names
            source = source_block(
                names.prefix,
                self._options.database,
                shape.schema_name,
                shape.table_name,
                self._moment,
                mark,
            )
            self._sources[shape.id, mark] = source
        key = shape.key(cells)
        value = shape.event(Operation.READ, None, shape.row(cells), source, self._now_ns)
        key_schema = None if key is None else shape.key_schema
        context = self._options.context
        record = Record(shape.topic, None, key, key_schema, value, shape.envelope, None, context)
        return SourceRecord(record, self._partition, self._offset)
