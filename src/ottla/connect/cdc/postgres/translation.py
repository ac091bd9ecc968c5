"""The stream's messages as records, each with the place behind it; no I/O.

Records of one message are held back until the next one, so that the last of a transaction has the place
behind its commit. A transaction that is read again from its beginning, as after a kill, is counted, and what
was produced of it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.connect.cdc.core.column_form import NOT_SENT, ConversionError
from ottla.connect.cdc.core.envelope import Operation
from ottla.connect.cdc.core.names import Names
from ottla.connect.cdc.core.tables import TableShape
from ottla.connect.cdc.core.transactions import KEY as TRANSACTION_KEY
from ottla.connect.cdc.core.transactions import VALUE as TRANSACTION_VALUE
from ottla.connect.cdc.core.transactions import (
    TransactionCounts,
    transaction_begin,
    transaction_key,
)
from ottla.connect.cdc.postgres.logical_messages import COUNTED_AS, LogicalMessages
from ottla.connect.cdc.postgres.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Relation,
    Row,
    Truncate,
    TypeName,
    Update,
)
from ottla.connect.cdc.postgres.position import CHANGES, Position
from ottla.connect.cdc.postgres.source_block import SOURCE, Moment, last_commit_text, source_block
from ottla.connect.data.record import Header, Record, SourceOffset, SourcePartition, SourceRecord
from ottla.connect.data.schema import Struct

NEW_KEY: Final = "__debezium.newkey"
OLD_KEY: Final = "__debezium.oldkey"
_MAX_RELATIONS: Final = 100_000


class StreamError(Exception):
    """Messages in an order that the protocol does not have."""


@dataclass(frozen=True, slots=True)
class EventOptions:
    """The settings that say which events there are."""

    names: Names
    database: str
    tombstones: bool = True
    skipped: frozenset[Operation] = frozenset({Operation.TRUNCATE})
    transactions: bool = False
    messages: LogicalMessages | None = None
    context: tuple[Header, ...] = ()
    """Headers of every change."""
    skips_unchanged: bool = False
    """Whether updates that change nothing of what records hold have no records."""


@dataclass(slots=True)
class _Transaction:
    """The transaction that is read now. done: how many of its messages were produced before."""

    begin: Begin
    done: int
    seen: int = 1
    origin: Origin | None = None
    counts: TransactionCounts = field(default_factory=TransactionCounts)
    changes: dict[int, _Changes] = field(default_factory=dict)
    """What makes records of a relation's changes."""


class Translator:
    """Turns messages into records.

    shape_of: asked for each relation; None: not captured. complete: given a relation's number and a new row,
    it may find values that were not sent.
    """

    def __init__(
        self,
        options: EventOptions,
        partition: SourcePartition,
        position: Position,
        shape_of: Callable[[Relation], TableShape | None],
        complete: Callable[[int, Row], Row] | None = None,
    ) -> None:
        self._options = options
        self._partition = partition
        self._shape_of = shape_of
        self._complete = complete
        self._shapes: dict[int, TableShape | None] = {}
        self._transaction: _Transaction | None = None
        self._held: list[Record] = []
        self._held_behind = self._told = position.offset()
        """The offsets behind the records that are held, and behind those that were given."""
        self._position = position

    @property
    def is_between(self) -> bool:
        """Whether the stream stands between two transactions."""
        return self._transaction is None

    @property
    def position(self) -> Position:
        """The place of the stream."""
        changes = self._held_behind.get(CHANGES, 0) if self._held else self._position.changes
        return self._position if changes == self._position.changes else self._position.after(changes)

    def take(self, message: Message, lsn: int, now_ns: int) -> Sequence[SourceRecord]:
        """The records that are complete now. lsn: of the message. Raises StreamError, ConversionError."""
        match message:
            case Insert():
                return self._change(message.relation, lsn, now_ns, None, message.new, Operation.CREATE)
            case Update():
                return self._change(message.relation, lsn, now_ns, message.old, message.new, Operation.UPDATE)
            case Delete():
                return self._change(message.relation, lsn, now_ns, message.old, None, Operation.DELETE)
            case Begin():
                return self._begin(message, lsn)
            case Commit():
                return self._commit(message, lsn)
            case Relation():
                if len(self._shapes) >= _MAX_RELATIONS:
                    self._shapes.clear()
                self._shapes[message.oid] = self._shape_of(message)
            case Truncate():
                return self._truncate(message, lsn, now_ns)
            case Origin():
                if self._transaction is not None:
                    self._transaction.origin = message
            case LogicalMessage():
                return self._message(message, lsn, now_ns)
            case TypeName():
                pass
        return ()

    def reach(self, lsn: int) -> None:
        """All that was committed before a place is here; to be called between two transactions."""
        if self.is_between and lsn > self._position.commit:
            self._stand(self._position.at(lsn))

    def forget(self, oid: int) -> None:
        """Ask for a table's shape again when it is next told."""
        self._shapes.pop(oid, None)

    def _stand(self, position: Position) -> None:
        """Nothing is held, and all that lies before this place was given."""
        self._position = position
        self._told = position.offset()

    # -- transactions --------------------------------------------------------------------------------

    def _begin(self, begin: Begin, lsn: int) -> Sequence[SourceRecord]:
        if self._transaction is not None:
            raise StreamError("a transaction begins within another one")
        done = 0
        if begin.final_lsn < self._position.commit:
            done = -1  # all of it
        elif begin.final_lsn == self._position.commit:
            done = self._position.changes
        else:
            self._position = self._position.at(begin.final_lsn)
        self._held_behind = self._position.offset()
        self._transaction = _Transaction(begin, done)
        if done >= 0 and self._options.transactions:
            id = f"{begin.xid}:{lsn}"
            if done < 1:
                self._held = [self._transaction_record(id, transaction_begin(id, begin.commit_us // 1000))]
                self._position = self._position.after(1)
                self._held_behind = self._position.offset()
        return ()

    def _commit(self, commit: Commit, lsn: int) -> Sequence[SourceRecord]:
        transaction = self._current()
        self._transaction = None
        if transaction.done < 0:
            return ()
        complete: list[SourceRecord] = []
        last, self._held = self._held, []
        if self._options.transactions:
            complete += self._placed(last, self._held_behind)
            id = f"{transaction.begin.xid}:{lsn}"
            end = transaction.counts.end(id, commit.commit_us // 1000)
            last = [self._transaction_record(id, end)]
        self._position = self._position.past(commit.end_lsn)
        complete += self._placed(last, self._position.offset())
        return complete

    def _current(self) -> _Transaction:
        if self._transaction is None:
            raise StreamError("a change stands outside of transactions")
        return self._transaction

    def _transaction_record(self, id: str, value: Struct) -> Record:
        topic = self._options.names.transaction_topic()
        return Record(topic, None, transaction_key(id), TRANSACTION_KEY, value, TRANSACTION_VALUE)

    def _placed(self, records: Sequence[Record], behind: SourceOffset) -> Sequence[SourceRecord]:
        """Records of one message: only behind the last one is the message done."""
        first, self._told = self._told, behind
        if len(records) == 1:
            return [SourceRecord(records[0], self._partition, behind)]
        places = [first] * (len(records) - 1) + [behind]
        return [
            SourceRecord(record, self._partition, place)
            for record, place in zip(records, places, strict=False)
        ]

    def _count(self, transaction: _Transaction) -> bool:
        """Count a message; whether its records are still to be produced."""
        transaction.seen += 1
        return transaction.done >= 0 and transaction.seen > transaction.done

    def _hold(self, transaction: _Transaction, records: list[Record]) -> Sequence[SourceRecord]:
        """Keep a message's records; those of the message before are complete."""
        complete: Sequence[SourceRecord] = ()
        if self._held:
            complete = self._placed(self._held, self._held_behind)
        self._held = records
        # An offset a message, without a Position: it was 2 of the 84 microseconds of a change.
        self._held_behind = {**self._held_behind, CHANGES: transaction.seen}
        return complete

    # -- changes -------------------------------------------------------------------------------------

    def _change(
        self, relation: int, lsn: int, now_ns: int, old: Row | None, new: Row | None, operation: Operation
    ) -> Sequence[SourceRecord]:
        transaction = self._current()
        wanted = self._count(transaction)
        shape = self._known(relation)
        if shape is None:
            return ()
        if operation in self._options.skipped:
            return ()
        if self._options.skips_unchanged and _is_unchanged(shape, old, new):
            return ()
        changes = self._changes(transaction, relation, shape)
        if not wanted:
            changes.count(old, new, lsn)
            return ()
        if new is not None and self._complete is not None:
            new = self._complete(relation, _completed(new, old))
        return self._hold(transaction, changes.records(old, new, operation, lsn, now_ns))

    def _changes(self, transaction: _Transaction, relation: int, shape: TableShape) -> _Changes:
        """What makes records of a relation's changes, made once a transaction."""
        changes = transaction.changes.get(relation)
        if changes is None or changes.shape is not shape:
            moment = self._moment(transaction, 0)
            changes = _Changes(self._options, shape, moment, transaction.counts)
            transaction.changes[relation] = changes
        return changes

    def _known(self, relation: int) -> TableShape | None:
        try:
            return self._shapes[relation]
        except KeyError:
            raise StreamError(f"a change of table {relation}, which the stream has not described") from None

    def _moment(self, transaction: _Transaction, lsn: int) -> Moment:
        begin, origin = transaction.begin, transaction.origin
        previous = self._position.previous
        if origin is None:
            return Moment(lsn, begin.commit_us, begin.xid, previous)
        return Moment(lsn, begin.commit_us, begin.xid, previous, origin.name, origin.lsn)

    def _truncate(self, message: Truncate, lsn: int, now_ns: int) -> Sequence[SourceRecord]:
        transaction = self._current()
        wanted = self._count(transaction)
        if Operation.TRUNCATE in self._options.skipped:
            return ()
        records = []
        for relation in message.relations:
            shape = self._known(relation)
            if shape is not None:
                records.append(self._changes(transaction, relation, shape).truncate(lsn, now_ns))
        return self._hold(transaction, records) if wanted and records else ()

    def _message(self, message: LogicalMessage, lsn: int, now_ns: int) -> Sequence[SourceRecord]:
        """A logical message; one outside of transactions is a place of its own, where it was written."""
        if message.is_transactional:
            transaction = self._current()
            wanted = self._count(transaction)
            if not self._takes(message):
                return ()
            moment = self._moment(transaction, lsn)
            block = None
            if self._options.transactions:
                block = transaction.counts.event(f"{transaction.begin.xid}:{lsn}", COUNTED_AS)
            if not wanted:
                return ()
            return self._hold(transaction, [self._message_record(message, moment, now_ns, block)])
        if not self.is_between or message.lsn < self._position.commit or not self._takes(message):
            return ()
        moment = Moment(lsn, now_ns // 1000, None, self._position.previous)
        self._position = self._position.at(message.lsn)
        record = self._message_record(message, moment, now_ns, None)
        return self._placed([record], self._position.offset())

    def _takes(self, message: LogicalMessage) -> bool:
        messages = self._options.messages
        skips = Operation.MESSAGE in self._options.skipped
        return messages is not None and not skips and messages.prefixes.takes(message.prefix)

    def _message_record(
        self, message: LogicalMessage, moment: Moment, now_ns: int, block: Struct | None
    ) -> Record:
        messages = self._options.messages
        assert messages is not None
        prefix, database = self._options.names.prefix, self._options.database
        source = source_block(prefix, database, "", "", moment)
        return messages.record(message, source, now_ns // 1_000_000, block)


class _Changes:
    """Makes the records of a table's changes in one transaction."""

    __slots__ = ("_counts", "_id", "_last", "_options", "_source", "shape")

    def __init__(
        self, options: EventOptions, shape: TableShape, moment: Moment, counts: TransactionCounts
    ) -> None:
        """moment: of the transaction; each change has its own place in the log."""
        self.shape = shape
        self._options = options
        self._counts = counts
        self._id = f"{moment.xid}:"
        names = options.names
        block = source_block(names.prefix, options.database, shape.schema_name, shape.table_name, moment)
        self._source = dict(block.values)
        self._last = last_commit_text(moment)

    def records(
        self, old: Row | None, new: Row | None, operation: Operation, lsn: int, now_ns: int
    ) -> list[Record]:
        """The change's records: one, with a tombstone after a delete; three where the key changed."""
        shape = self.shape
        before = None if old is None else shape.row(old)
        if new is None:
            assert old is not None
            return self._delete(self._key_of_deleted(old), before, lsn, now_ns)
        new = _completed(new, old)
        after, key, old_key = shape.row(new), shape.key(new), self._old_key(old)
        if old_key is None or key is None or old_key == key:
            return [self._record(key, operation, before, after, lsn, now_ns)]
        deleted = self._delete(old_key, before, lsn, now_ns, (Header(NEW_KEY, key, shape.key_schema),))
        headers = (Header(OLD_KEY, old_key, shape.key_schema),)
        return [*deleted, self._record(key, Operation.CREATE, None, after, lsn, now_ns, headers)]

    def count(self, old: Row | None, new: Row | None, lsn: int) -> None:
        """Count the change's events where they were produced before."""
        if not self._options.transactions:
            return
        self._block(lsn)
        old_key = None if new is None else self._old_key(old)
        if new is not None and old_key is not None and old_key != self.shape.key(_completed(new, old)):
            self._block(lsn)

    def truncate(self, lsn: int, now_ns: int) -> Record:
        """The record of an emptied table."""
        return self._record(None, Operation.TRUNCATE, None, None, lsn, now_ns)

    def _old_key(self, old: Row | None) -> Struct | None:
        """The key before an update, where the old values hold it: else it is the same."""
        return self.shape.key(old) if old is not None and self.shape.tells_key(old) else None

    def _key_of_deleted(self, old: Row) -> Struct | None:
        shape = self.shape
        if not shape.tells_key(old):
            raise ConversionError(
                f"a row of {shape.id} was deleted, and its replica identity does not hold the records' key: "
                f"set REPLICA IDENTITY FULL on {shape.id}, or message.key.columns to its columns"
            )
        return shape.key(old)

    def _delete(
        self,
        key: Struct | None,
        before: Struct | None,
        lsn: int,
        now_ns: int,
        headers: tuple[Header, ...] = (),
    ) -> list[Record]:
        record = self._record(key, Operation.DELETE, before, None, lsn, now_ns, headers)
        if not self._options.tombstones or key is None:
            return [record]
        tombstone = Record(record.topic, None, key, record.key_schema, headers=record.headers)
        return [record, tombstone]

    def _record(
        self,
        key: Struct | None,
        operation: Operation,
        before: Struct | None,
        after: Struct | None,
        lsn: int,
        now_ns: int,
        headers: tuple[Header, ...] = (),
    ) -> Record:
        shape, context = self.shape, self._options.context
        # A copy of the transaction's block, which is made once: a block a change took three times as long.
        source = self._source.copy()
        source["sequence"] = f'[{self._last},"{lsn}"]'
        source["lsn"] = lsn
        block = self._block(lsn) if self._options.transactions else None
        value = shape.event(operation, before, after, Struct(SOURCE, source), now_ns, block)
        key_schema = None if key is None else shape.key_schema
        all_headers = (*headers, *context) if headers else context
        return Record(shape.topic, None, key, key_schema, value, shape.envelope, None, all_headers)

    def _block(self, lsn: int) -> Struct:
        return self._counts.event(f"{self._id}{lsn}", self.shape.id)


def _is_unchanged(shape: TableShape, old: Row | None, new: Row | None) -> bool:
    """Whether an update changes nothing of what records hold, as far as the old row is told."""
    if old is None or new is None:
        return False
    return all(new[slot.place] in (old[slot.place], NOT_SENT) for slot in shape.row_slots)


def _completed(new: Row, old: Row | None) -> Row:
    """A new row in which what was not sent, as it did not change, is the old value where that is told."""
    if old is None or NOT_SENT not in new:
        return new
    return tuple(
        known if cell is NOT_SENT and isinstance(known, str) else cell
        for cell, known in zip(new, old, strict=True)
    )
