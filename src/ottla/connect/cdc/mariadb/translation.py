"""The binary log's events as records, each with the place behind it; no I/O.

A transaction that is read again from its beginning, as after a kill, is counted, and what was produced of it
is left out. The place behind a transaction is told with the next record: a restart in between reads the
transaction again and leaves out all of it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from ottla.connect.cdc.core.column_form import NOT_SENT, Cell
from ottla.connect.cdc.core.envelope import Operation
from ottla.connect.cdc.core.names import Names
from ottla.connect.cdc.core.tables import TableShape
from ottla.connect.cdc.core.transactions import KEY as TRANSACTION_KEY
from ottla.connect.cdc.core.transactions import VALUE as TRANSACTION_VALUE
from ottla.connect.cdc.core.transactions import TransactionCounts, transaction_begin, transaction_key
from ottla.connect.cdc.mariadb.binlog import (
    Annotation,
    Commit,
    Event,
    FormatDescription,
    Gtid,
    Header,
    Heartbeat,
    Incident,
    Other,
    Query,
    Rotate,
    Rows,
    TableMap,
)
from ottla.connect.cdc.mariadb.ddl import DdlError, carry_out
from ottla.connect.cdc.mariadb.ddl_tokens import Kind, tokens_of
from ottla.connect.cdc.mariadb.history import HistoryRecord
from ottla.connect.cdc.mariadb.model import CREATE, DROP, Table, TableChange, TableId, Tables
from ottla.connect.cdc.mariadb.position import Position
from ottla.connect.cdc.mariadb.row_values import Read, readers, rows_of
from ottla.connect.cdc.mariadb.schema_changes import schema_change_record
from ottla.connect.cdc.mariadb.shapes import Shaping, misfit
from ottla.connect.cdc.mariadb.source_block import Moment, source_block
from ottla.connect.data.record import Header as RecordHeader
from ottla.connect.data.record import Record, SourcePartition, SourceRecord
from ottla.connect.data.schema import Struct

NEW_KEY: Final = "__debezium.newkey"
OLD_KEY: Final = "__debezium.oldkey"
_MAX_TABLE_MAPS: Final = 100_000
_NO_DDL: Final = re.compile(
    r"""\s*(?:SET\s+STATEMENT\s+.*?\sFOR\s+)?(?:
        \#|SAVEPOINT\b|RELEASE\b|XA\b|GRANT\b|REVOKE\b|SET\s+(?!STATEMENT)
        |(?:ANALYZE|OPTIMIZE|REPAIR)\s+(?:NO_WRITE_TO_BINLOG\s+|LOCAL\s+)?TABLE
        |FLUSH\s+RELAY
        |DROP\s+(?:/\*.*?\*/\s*)?TEMPORARY
        |(?:CREATE|ALTER|DROP)\s+(?:OR\s+REPLACE\s+)?(?:IF\s+(?:NOT\s+)?EXISTS\s+)?(?:USER|ROLE)\b
        |(?:CREATE|ALTER|DROP)\s+(?:OR\s+REPLACE\s+)?(?:ALGORITHM\s*=\s*\S+\s+)?(?:DEFINER\s*=\s*\S+\s+)?
         (?:SQL\s+SECURITY\s+\S+\s+)?(?:AGGREGATE\s+)?(?:VIEW|FUNCTION|PROCEDURE|TRIGGER|EVENT|SEQUENCE|PACKAGE)\b
    )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_DML: Final = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD"})
_DML_FILLERS: Final = frozenset(
    {
        *("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "QUICK", "INTO", "FROM", "TABLE", "DATA"),
        *("LOCAL", "CONCURRENT"),
    }
)
_log = logging.getLogger(__name__)
Row = tuple[Cell, ...]


class StreamError(Exception):
    """Events that can't be told as changes."""


class Surroundings(Protocol):
    """What the translation asks of the world around it."""

    def keep(self, records: Sequence[HistoryRecord]) -> None:
        """Write to the schema history, durably."""

    def describe(self, table: TableId) -> Table | None:
        """The table as the server has it now."""


@dataclass(frozen=True, slots=True)
class EventOptions:
    """The settings that say which events there are."""

    names: Names
    tombstones: bool = True
    skipped: frozenset[Operation] = frozenset({Operation.TRUNCATE})
    transactions: bool = False
    schema_changes: bool = True
    query: bool = False
    only_captured_ddl: bool = False
    skips_bad_ddl: bool = False
    context: tuple[RecordHeader, ...] = ()
    """Headers of every change."""


@dataclass(frozen=True, slots=True)
class _Mapped:
    """A table map of a captured table."""

    shape: TableShape
    reads: list[Read]


@dataclass(slots=True)
class _Transaction:
    """The transaction that is read now. seen: its events so far; done: those that were produced before."""

    id: str
    gtid: Gtid | None
    server_id: int
    wanted: bool = True
    seen: int = 0
    done: int = 0
    done_rows: int = 0
    query: str | None = None
    began: bool = False
    counts: TransactionCounts = field(default_factory=TransactionCounts)


class Translator:
    """Turns events into records. takes_source: of gtid.source.includes, by `domain-server`."""

    def __init__(
        self,
        options: EventOptions,
        shaping: Shaping,
        partition: SourcePartition,
        position: Position,
        tables: Tables,
        around: Surroundings,
        takes_source: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._options = options
        self._shaping = shaping
        self._partition = partition
        self._tables = tables
        self._around = around
        self._takes_source = takes_source
        self._shapes: dict[TableId, tuple[Table, TableShape | None]] = {}
        self._maps: dict[int, _Mapped | None] = {}
        self._transaction: _Transaction | None = None
        self._position = self._told = position
        self._file = position.file
        self._resume = position
        self._end = position.position
        copying = position.copied is not None
        begun = (position.copied or frozenset()) | ({position.copying} if position.copying else set())
        self._begun = begun if copying else None

    @property
    def is_between(self) -> bool:
        """Whether the stream stands between two transactions."""
        return self._transaction is None

    @property
    def position(self) -> Position:
        """The place of the stream."""
        return self._position

    @property
    def place(self) -> tuple[str, int]:
        """The file and the end of the last event."""
        return self._file, self._end

    def take(self, header: Header, event: Event, now_ns: int) -> Sequence[SourceRecord]:
        """The records of an event. Raises StreamError, DdlError, BinlogError, ConversionError."""
        if header.end and not header.is_artificial:
            self._end = header.end
        match event:
            case Rows():
                found = self._rows(header, event, now_ns)
            case TableMap():
                found = self._map(event)
            case Gtid():
                return self._begin(header, event)
            case Commit():
                return self._commit(header)
            case Query():
                found = self._query(header, event, now_ns)
            case Annotation():
                if self._transaction is not None:
                    self._transaction.query = event.sql
                # Not counted: whether the server sends it hangs on include.query, which may change.
                return ()
            case Rotate():
                self._file, self._end = event.file, event.position
                if self._transaction is None and not header.is_artificial:
                    self._position = self._position.begin(event.file, event.position)
                self._maps.clear()
                return ()
            case Heartbeat():
                self._heartbeat(header, event)
                return ()
            case FormatDescription():
                return ()
            case Incident():
                raise StreamError(
                    "the server says that changes are missing in its binary log (an incident event): "
                    "copy the tables again (reset the connector's offsets)"
                )
            case Other():
                found = ()
        if self._transaction is not None:
            self._transaction.seen += 1
        return found

    def _heartbeat(self, header: Header, event: Heartbeat) -> None:
        if self._transaction is None and event.file:
            self._file, self._end = event.file, header.end
            self._position = self._position.begin(event.file, header.end)

    # -- transactions --------------------------------------------------------------------------------

    def _begin(self, header: Header, gtid: Gtid) -> Sequence[SourceRecord]:
        id = f"{gtid.domain}-{header.server_id}-{gtid.sequence}"
        return self._open(header, _Transaction(id, gtid, header.server_id))

    def _open(self, header: Header, transaction: _Transaction) -> Sequence[SourceRecord]:
        if transaction.gtid is not None:
            source = f"{transaction.gtid.domain}-{transaction.server_id}"
            transaction.wanted = self._takes_source(source)
        resume = self._resume
        if resume.events or resume.rows:
            # The stream begins with the transaction that the offset lies in.
            transaction.done, transaction.done_rows = resume.events, resume.rows
        self._resume = replace(resume, events=0, rows=0)
        self._transaction = transaction
        if not transaction.done:
            self._position = self._position.begin(self._file, header.start)
        transaction.seen = 1
        is_statement = transaction.gtid is not None and transaction.gtid.is_standalone
        if not self._options.transactions or is_statement or not transaction.wanted:
            return ()
        transaction.began = True
        if transaction.done:
            return ()
        value = transaction_begin(transaction.id, header.time_s * 1000)
        return self._placed([self._transaction_record(transaction.id, value)], self._position.within(1, 0))

    def _commit(self, header: Header) -> Sequence[SourceRecord]:
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            return ()
        gtids = self._position.gtids
        if transaction.gtid is not None:
            gtid = transaction.gtid
            gtids = gtids.after(gtid.domain, transaction.server_id, gtid.sequence)
        self._position = self._position.done(self._file, header.end, gtids)
        if not transaction.began:
            return ()
        value = transaction.counts.end(transaction.id, header.time_s * 1000)
        return self._placed([self._transaction_record(transaction.id, value)], self._position)

    def _transaction_record(self, id: str, value: Struct) -> Record:
        topic = self._options.names.transaction_topic()
        return Record(topic, None, transaction_key(id), TRANSACTION_KEY, value, TRANSACTION_VALUE)

    def _placed(self, records: Sequence[Record], behind: Position) -> Sequence[SourceRecord]:
        """Records of one change: only behind the last one is it done."""
        first, last = self._told.offset(), behind.offset()
        self._told = self._position = behind
        count = len(records)
        return [
            SourceRecord(record, self._partition, last if number == count - 1 else first)
            for number, record in enumerate(records)
        ]

    # -- statements ----------------------------------------------------------------------------------

    def _query(self, header: Header, query: Query, now_ns: int) -> Sequence[SourceRecord]:
        sql = query.sql.strip()
        match sql[:8].upper():
            case "BEGIN":
                if self._transaction is None:  # a server without GTIDs
                    id = f"file={self._file},pos={header.start}"
                    return self._open(header, _Transaction(id, None, header.server_id))
                return ()
            case "COMMIT" | "ROLLBACK":
                return self._commit(header)
        found = self._statement(header, query, sql, now_ns)
        transaction = self._transaction
        if transaction is None:
            self._position = self._position.done(self._file, header.end, self._position.gtids)
        elif transaction.gtid is not None and transaction.gtid.is_standalone:
            ended = self._commit(header)
            # The place behind the statement stands in its own last record.
            if found and not ended:
                found = [*found[:-1], replace(found[-1], source_offset=self._position.offset())]
                self._told = self._position
        return found

    def _statement(self, header: Header, query: Query, sql: str, now_ns: int) -> Sequence[SourceRecord]:
        transaction = self._transaction
        if transaction is not None and transaction.seen < transaction.done:
            return ()
        first = sql[:8].split(None, 1)[0].upper() if sql.split() else ""
        if first in _DML:
            self._refuse_statement(query, sql)
            return ()
        if not sql or _NO_DDL.match(sql) or query.error:
            return ()
        try:
            effect = carry_out(self._tables, sql, query.database)
        except DdlError as problem:
            return self._bad_ddl(problem)
        if effect.truncated:
            return self._truncate(header, effect.truncated[0], now_ns)
        gtid = None if transaction is None or transaction.gtid is None else transaction.id
        moment = Moment(header.time_s * 1_000_000, self._file, header.start, header.server_id, gtid)
        place = self._position.within(1 if transaction is None else transaction.seen, 0)
        ddls = _ddl_of_each(sql, effect.database, effect.changes)
        wanted = [each for each in ddls if self._tells(each[0], each[2])]
        self._around.keep([HistoryRecord(place, *each) for each in wanted])
        if not self._options.schema_changes:
            return ()
        records = [self._schema_record(moment, now_ns, *each) for each in wanted]
        return self._placed(records, place.within(place.events + 1, 0)) if records else ()

    def _tells(self, database: str, changes: tuple[TableChange, ...]) -> bool:
        """Whether DDL is kept and told: of every table, or of the captured ones."""
        if not self._options.only_captured_ddl:
            return True
        takes = self._shaping.filter.takes_table
        if changes:
            return any(takes(*each.id) for each in changes)
        return bool(database) and self._shaping.filter.schemas.takes(database)

    def _schema_record(
        self, moment: Moment, now_ns: int, database: str, ddl: str, changes: tuple[TableChange, ...]
    ) -> Record:
        table = changes[0].id.table if changes else None if database else ""
        source = source_block(self._options.names.prefix, database, table, moment)
        topic = self._options.names.prefix
        found = schema_change_record(topic, source, now_ns // 1_000_000, database, ddl, changes)
        return replace(found, headers=self._options.context)

    def _bad_ddl(self, problem: DdlError) -> Sequence[SourceRecord]:
        """A statement that is not understood: what it did is found when the table's next map does not fit."""
        if not self._options.skips_bad_ddl:
            raise StreamError(
                f"DDL can't be understood (schema.history.internal.skip.unparseable.ddl=true leaves it out, "
                f"and tables are described by the server then): {problem}"
            ) from problem
        _log.warning("DDL is left out: %s", problem)
        return ()

    def _refuse_statement(self, query: Query, sql: str) -> None:
        """A change that was logged as a statement has no rows: it is refused, if its table is captured."""
        names = [each for each in tokens_of(sql)[1:8] if each.upper not in _DML_FILLERS]
        if not names or names[0].kind not in (Kind.WORD, Kind.QUOTED):
            return
        id = TableId(query.database, names[0].text)
        if len(names) > 2 and names[1].text == ".":
            id = TableId(names[0].text, names[2].text)
        if self._shaping.filter.takes_table(*id):
            raise StreamError(
                f"a change of {id} is in the binary log as a statement, without its rows: binlog_format has "
                f"to be ROW in every session ({sql[:200]})"
            )

    def _truncate(self, header: Header, id: TableId, now_ns: int) -> Sequence[SourceRecord]:
        table = self._tables.tables.get(id)
        if Operation.TRUNCATE in self._options.skipped or table is None:
            return ()
        shape = self._shape(table)
        transaction = self._transaction
        if shape is None or transaction is None:
            return ()
        moment = self._moment(header, transaction, 0)
        changes = _Changes(self._options, shape, moment, now_ns, None)
        return self._placed([changes.truncate()], self._position.within(transaction.seen + 1, 0))

    # -- rows ----------------------------------------------------------------------------------------

    def _map(self, mapped: TableMap) -> Sequence[SourceRecord]:
        if len(self._maps) >= _MAX_TABLE_MAPS:
            self._maps.clear()
        id = TableId(mapped.database, mapped.table)
        self._maps[mapped.id] = None
        if not self._shaping.filter.takes_table(*id):
            return ()
        table = self._tables.tables.get(id)
        problem = f"{id} is not known" if table is None else misfit(table, mapped)
        if table is None or problem is not None:
            table = self._described(id, mapped, problem or "")
        shape = self._shape(table)
        if shape is not None:
            self._maps[mapped.id] = _Mapped(shape, readers(mapped))
        return ()

    def _described(self, id: TableId, mapped: TableMap, problem: str) -> Table:
        """A table as the server has it now, if the stream's map fits that. Raises StreamError."""
        table = self._around.describe(id)
        still = "it is gone" if table is None else misfit(table, mapped)
        if table is None or still is not None:
            raise StreamError(
                f"the binary log does not fit what is known of {id} ({problem}), nor what the server has now "
                f"({still}): the schema history lacks DDL. Set snapshot.mode=recovery to begin it again, or "
                "reset the connector's offsets"
            )
        _log.warning("%s is taken as the server has it now: %s", id, problem)
        change = TableChange(CREATE, id, table)
        self._tables.apply((change,))
        events = 1 if self._transaction is None else self._transaction.seen
        self._around.keep([HistoryRecord(self._position.within(events, 0), id.database, "", (change,))])
        return table

    def _shape(self, table: Table) -> TableShape | None:
        """The shape of a table, None where it is not captured, or not begun to be copied."""
        known = self._shapes.get(table.id)
        if known is not None and known[0] is table:
            return known[1]
        shape = None
        if self._shaping.takes(table) and (self._begun is None or str(table.id) in self._begun):
            shape = self._shaping.shape(table)
        self._shapes[table.id] = (table, shape)
        return shape

    def _rows(self, header: Header, rows: Rows, now_ns: int) -> Sequence[SourceRecord]:
        transaction = self._transaction
        if transaction is None:
            raise StreamError("rows stand outside of transactions")
        if rows.table_id not in self._maps:
            raise StreamError(f"rows of table {rows.table_id}, which the stream has not described")
        mapped = self._maps[rows.table_id]
        operation = (
            Operation.CREATE
            if rows.before is None
            else Operation.DELETE
            if rows.after is None
            else Operation.UPDATE
        )
        if mapped is None or not transaction.wanted or operation in self._options.skipped:
            return ()
        is_done = transaction.seen < transaction.done
        done_rows = transaction.done_rows if transaction.seen == transaction.done else 0
        counts = (transaction.id, transaction.counts) if self._options.transactions else None
        found: list[SourceRecord] = []
        for number, (old, new) in enumerate(rows_of(rows, mapped.reads)):
            _require_whole(mapped.shape, old, new)
            moment = self._moment(header, transaction, number)
            changes = _Changes(self._options, mapped.shape, moment, now_ns, counts)
            if is_done or number < done_rows:
                changes.count(old, new)
                continue
            records = changes.records(old, new, operation)
            found += self._placed(records, self._position.within(transaction.seen, number + 1))
        return found

    def _moment(self, header: Header, transaction: _Transaction, row: int) -> Moment:
        gtid = None if transaction.gtid is None else transaction.id
        return Moment(
            header.time_s * 1_000_000,
            self._file,
            header.start,
            header.server_id,
            gtid,
            row,
            transaction.query,
        )


def _require_whole(shape: TableShape, *rows: Row | None) -> None:
    for row in rows:
        if row is not None and NOT_SENT in row:
            raise StreamError(
                f"a row of {shape.id} is in the binary log without all of its columns: binlog_row_image has "
                "to be FULL in every session"
            )


def _ddl_of_each(
    sql: str, database: str, changes: tuple[TableChange, ...]
) -> list[tuple[str, str, tuple[TableChange, ...]]]:
    """Database, statement and change for each table of a statement, or for the statement alone."""
    if not changes:
        return [(database, sql, ())]
    return [
        (
            each.id.database,
            f"DROP TABLE `{each.id.database}`.`{each.id.table}`" if each.kind == DROP else sql,
            (each,),
        )
        for each in changes
    ]


class _Changes:
    """The records of one change. counts: the transaction's, None where they are not told."""

    __slots__ = ("_counts", "_moment", "_now_ns", "_options", "_shape")

    def __init__(
        self,
        options: EventOptions,
        shape: TableShape,
        moment: Moment,
        now_ns: int,
        counts: tuple[str, TransactionCounts] | None,
    ) -> None:
        self._options = options
        self._shape = shape
        self._moment = moment
        self._now_ns = now_ns
        self._counts = counts

    def records(self, old: Row | None, new: Row | None, operation: Operation) -> list[Record]:
        """The change's records: one, with a tombstone after a delete; three where the key changed."""
        shape = self._shape
        before = None if old is None else shape.row(old)
        old_key = None if old is None else shape.key(old)
        if new is None:
            return self._delete(old_key, before, ())
        after, key = shape.row(new), shape.key(new)
        if old_key is None or key is None or old_key == key:
            return [self._record(key, operation, before, after)]
        deleted = self._delete(old_key, before, (RecordHeader(NEW_KEY, key, shape.key_schema),))
        headers = (RecordHeader(OLD_KEY, old_key, shape.key_schema),)
        return [*deleted, self._record(key, Operation.CREATE, None, after, headers)]

    def count(self, old: Row | None, new: Row | None) -> None:
        """Count the change's events where they were produced before."""
        if self._counts is None:
            return
        self._block()
        if old is not None and new is not None and self._shape.key(old) != self._shape.key(new):
            self._block()

    def truncate(self) -> Record:
        """The record of an emptied table."""
        return self._record(None, Operation.TRUNCATE, None, None)

    def _delete(
        self, key: Struct | None, before: Struct | None, headers: tuple[RecordHeader, ...]
    ) -> list[Record]:
        record = self._record(key, Operation.DELETE, before, None, headers)
        if not self._options.tombstones or key is None:
            return [record]
        return [record, replace(record, value=None, value_schema=None)]

    def _record(
        self,
        key: Struct | None,
        operation: Operation,
        before: Struct | None,
        after: Struct | None,
        headers: tuple[RecordHeader, ...] = (),
    ) -> Record:
        shape = self._shape
        prefix = self._options.names.prefix
        source = source_block(prefix, shape.schema_name, shape.table_name, self._moment)
        value = shape.event(operation, before, after, source, self._now_ns, self._block())
        key_schema = None if key is None else shape.key_schema
        context = self._options.context
        return Record(shape.topic, None, key, key_schema, value, shape.envelope, None, (*headers, *context))

    def _block(self) -> Struct | None:
        if self._counts is None:
            return None
        id, counts = self._counts
        return counts.event(id, self._shape.id)
