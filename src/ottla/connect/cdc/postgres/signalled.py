"""PostgreSQL's stream with signals in it: rows of the signal table, windows of chunks, their ends.

What a transaction says is carried out at its commit: there all its records are known, and none is held back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.connect.cdc.core.column_form import NOT_SENT, Cell
from ottla.connect.cdc.core.envelope import SnapshotMark
from ottla.connect.cdc.core.incremental import Chunk, ChunkRow
from ottla.connect.cdc.postgres.chunks import PostgresChunks, ReadTable, chunk_record
from ottla.connect.cdc.postgres.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Relation,
    Row,
    Truncate,
    Update,
)
from ottla.connect.cdc.postgres.position import Position
from ottla.connect.cdc.postgres.snapshot_view import ToldTransactions
from ottla.connect.cdc.postgres.source_block import Moment
from ottla.connect.cdc.postgres.translation import EventOptions, Translator
from ottla.connect.cdc.signalling.signalling import Signalling
from ottla.connect.data.record import Record, SourceOffset, SourceRecord

SIGNAL_COLUMNS: Final = 3
_MAX_RELATIONS: Final = 100_000


class Stream(Protocol):
    """What turns messages into records."""

    @property
    def is_between(self) -> bool:
        """Whether the stream stands between two transactions."""

    @property
    def position(self) -> Position:
        """The place of the stream."""

    def take(self, message: Message, lsn: int, now_ns: int) -> Sequence[SourceRecord]:
        """The records that are complete now."""

    def reach(self, lsn: int) -> None:
        """All that was committed before a place is here."""


@dataclass(frozen=True, slots=True)
class Signals:
    """What a run of the connector has for signals."""

    signalling: Signalling
    chunks: PostgresChunks
    told: ToldTransactions


@dataclass(frozen=True, slots=True)
class _Relation:
    table: str
    columns: tuple[str, ...]


class SignalledStream:
    """A translator's records with the snapshot's progress, and those of chunks."""

    def __init__(self, translator: Translator, signals: Signals, options: EventOptions) -> None:
        self._translator = translator
        self._signals = signals
        self._signalling = signals.signalling
        self._options = options
        self._relations: dict[int, _Relation] = {}
        self._xid = 0
        self._is_done = False
        """Whether the transaction was produced, and its signals carried out, before."""
        self._pending: list[Callable[[], None]] = []

    @property
    def is_between(self) -> bool:
        """See Stream."""
        return self._translator.is_between

    @property
    def position(self) -> Position:
        """See Stream."""
        return self._translator.position

    def reach(self, lsn: int) -> None:
        """See Stream."""
        self._translator.reach(lsn)

    def take(self, message: Message, lsn: int, now_ns: int) -> Sequence[SourceRecord]:
        """See Stream."""
        if isinstance(message, Begin):
            self._xid = message.xid
            self._is_done = message.final_lsn < self._translator.position.commit
        records = self._translator.take(message, lsn, now_ns)
        if isinstance(message, Commit):
            return self._commit(records)
        self._observe(message)
        return self._signalling.stamped(records)

    def _commit(self, records: Sequence[SourceRecord]) -> Sequence[SourceRecord]:
        before = self._signalling.progress
        pending, self._pending = self._pending, []
        for each in pending:
            each()
        self._signals.told.add(self._xid)
        # Only the last record's offset lies behind the transaction, and what it has led to.
        found = self._signalling.stamped(records[:-1], before) + self._signalling.stamped(records[-1:])
        return found + self.due()

    # -- what the stream tells -----------------------------------------------------------------------

    def _observe(self, message: Message) -> None:
        match message:
            case Insert():
                self._changed(message.relation, None, message.new)
            case Update():
                self._changed(message.relation, message.old, message.new)
            case Delete():
                self._changed(message.relation, message.old, None)
            case Relation():
                if len(self._relations) >= _MAX_RELATIONS:
                    self._relations.clear()
                columns = tuple(each.name for each in message.columns)
                self._relations[message.oid] = _Relation(f"{message.namespace}.{message.name}", columns)
            case Truncate():
                for each in message.relations:
                    if (relation := self._relations.get(each)) is not None:
                        self._signalling.emptied(relation.table, self._xid)

    def _changed(self, oid: int, old: Row | None, new: Row | None) -> None:
        relation = self._relations.get(oid)
        if relation is None:
            return
        if relation.table == self._signalling.table:
            self._signal(relation, old, new)
        if relation.table != self._signalling.changing_table:
            return
        chunk = self._signalling.chunk
        assert chunk is not None and isinstance(chunk.table, ReadTable)
        names = chunk.table.identity
        if any(each not in relation.columns for each in names):
            return  # the columns are others now: the chunk is read again when its window ends
        for row in (old, new):
            if row is None:
                continue
            cells: list[Cell] = [row[relation.columns.index(name)] for name in names]
            if NOT_SENT in cells and old is None:
                self._signalling.read_again()
                return
            identity = tuple(each if isinstance(each, str) else None for each in cells)
            self._signalling.changed(relation.table, identity, self._xid)

    def _signal(self, relation: _Relation, old: Row | None, new: Row | None) -> None:
        if self._is_done:
            return
        if old is None and new is not None and len(relation.columns) == SIGNAL_COLUMNS:
            id, type, data = (each if isinstance(each, str) else None for each in new)
            self._pending.append(lambda: self._signalling.take_row(id, type, data))
        elif old is not None and new is None:
            removed = old[0] if isinstance(old[0], str) else None
            self._pending.append(lambda: self._signalling.take_removed_row(removed))

    # -- what the connector asks ---------------------------------------------------------------------

    @property
    def waits_for_place(self) -> bool:
        """Whether a window ends at a place of the log, which the server has to be asked for."""
        return self._signalling.chunk is not None and not self._signals.chunks.writes_marks

    @property
    def asks_to_block(self) -> bool:
        """Whether the stream has to end here for a blocking snapshot."""
        return self.is_between and bool(self._signalling.blocking)

    def reached(self, lsn: int) -> None:
        """The server has sent all that was committed before this place."""
        chunk = self._signalling.chunk
        if chunk is not None and self.waits_for_place and self.is_between and lsn >= chunk.place:
            self._signalling.passed()

    def turn(self) -> None:
        """Take signals from outside, and read a chunk if one is due."""
        self._signalling.turn()

    def due(self) -> list[SourceRecord]:
        """What is to be told now, between two transactions."""
        if not self.is_between:
            return []
        position = self._translator.position
        if self.waits_for_place:
            self.reached(position.commit)
        moment = Moment(position.commit, time.time_ns() // 1000, self._xid or None, position.previous)

        def record(chunk: Chunk, row: ChunkRow) -> Record:
            assert isinstance(chunk.table, ReadTable)
            return chunk_record(self._options, chunk.table, row.row, moment, SnapshotMark.INCREMENTAL)

        return self._signalling.due(position.offset(), record)

    @property
    def is_unsaved(self) -> bool:
        """Whether a signal has led to something that no offset holds yet."""
        return self._signalling.is_unsaved

    def stamped_place(self, place: SourceOffset) -> SourceOffset:
        """The offset of a place without records, with the snapshot's progress."""
        return self._signalling.stamped_place(place)

    def stamped(self, record: SourceRecord) -> SourceRecord:
        """A record of the connector itself, with the snapshot's progress."""
        return self._signalling.stamped([record])[0]
