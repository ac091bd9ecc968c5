"""Signals and incremental snapshots beside a stream: takes them, reads chunks, and gives their records.

The order of a window: its first mark is written, the chunk is read, its second mark is written; where the
stream comes to the end of the window, the chunk's rows are records. Every record's offset has the stream's
place and the snapshot's progress, and both are written with the records: there is no other state to keep.
What a transaction's signals lead to stands in the offset behind that transaction, and not before.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.connect.cdc.core.incremental import (
    Chunk,
    ChunkRow,
    IncrementalSnapshot,
    KeyChanged,
    NotNow,
    SnapshotDatabase,
    Unreadable,
)
from ottla.connect.cdc.core.notifications import CONNECTOR_NAME, INCREMENTAL, Notification
from ottla.connect.cdc.core.progress import Collection, Progress, Resumed, RowKey, progress_of
from ottla.connect.cdc.core.signals import (
    WINDOW_CLOSE,
    WINDOW_OPEN,
    BadSignal,
    ExecuteSnapshot,
    LogMessage,
    SchemaChanges,
    Signal,
    SnapshotKind,
    signal_of,
    signal_of_text,
)
from ottla.connect.cdc.signalling.channels import SignalChannel
from ottla.connect.data.record import Record, SourceOffset, SourcePartition, SourceRecord

OPEN: Final = "-open"
CLOSE: Final = "-close"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SignalOptions:
    """prefix: topic.prefix. table: the signal table. topic: of notifications, None for none.

    takes_rows: whether the table's rows are signals (the channel `source`). blocks: whether there are
    blocking snapshots.
    """

    prefix: str
    partition: SourcePartition
    table: str | None
    takes_rows: bool
    poll_seconds: float
    topic: str | None = None
    logs: bool = False
    blocks: bool = True


class Signalling:
    """One run's signals, and its incremental snapshot. One thread at a time."""

    def __init__(
        self,
        options: SignalOptions,
        database: SnapshotDatabase,
        resumed: Resumed,
        channels: Sequence[SignalChannel] = (),
    ) -> None:
        if resumed.warning is not None:
            _log.warning("the table that is copied begins anew: %s", resumed.warning)
        self._options = options
        self._database = database
        self._snapshot = IncrementalSnapshot(resumed.progress)
        self._channels = channels
        self._saved = resumed.progress
        self._poll_at = 0.0
        self._window: str | None = None
        self._has_passed = False
        self._is_waiting = False
        """Whether the chunk of the window could not be read yet."""
        self._told: list[Notification] = []

    @property
    def prefix(self) -> str:
        """topic.prefix."""
        return self._options.prefix

    @property
    def table(self) -> str | None:
        """The signal table."""
        return self._options.table

    @property
    def progress(self) -> Progress:
        """What the next record's offset holds."""
        return self._snapshot.progress

    @property
    def blocking(self) -> Sequence[Collection]:
        """The tables of blocking snapshots that wait."""
        return self._snapshot.progress.blocking

    @property
    def chunk(self) -> Chunk | None:
        """The chunk in the window."""
        return self._snapshot.chunk

    @property
    def is_unsaved(self) -> bool:
        """Whether a signal of the stream has led to something that no record's offset holds yet."""
        now = replace(self.progress, signal_offset=None, signal_file=None)
        return now != replace(self._saved, signal_offset=None, signal_file=None)

    # -- signals -------------------------------------------------------------------------------------

    def take_row(self, id: str | None, type: str | None, data: str | None) -> None:
        """A new row of the signal table, at the end of its transaction."""
        if type == WINDOW_OPEN:
            return
        if type == WINDOW_CLOSE:
            if self._window is not None and id == self._window + CLOSE:
                self.passed()
        elif self._options.takes_rows:
            self._take(lambda: signal_of(id, type, data), id)

    def take_removed_row(self, id: str | None) -> None:
        """A row of the signal table that is gone: of a window's first mark it ends the window."""
        if self._window is not None and id == self._window + OPEN:
            self.passed()

    def _take(self, parsed: Callable[[], Signal], id: str | None) -> None:
        """Carry out a signal; one that makes no sense is told, and left."""
        try:
            signal = parsed()
            self._require(signal)
            tables = [each for each in self._database.tables() if each != self._options.table]
            self._snapshot.take(signal, tables)
        except BadSignal as problem:
            _log.warning("signal %r is not carried out: %s", id, problem)
            return
        match signal:
            case LogMessage():
                _log.info("%s", signal.message.replace("{}", str(dict(self.progress.offset()))))
            case SchemaChanges():
                _log.info("signal %r: schemas are always read from the database's catalog", signal.id)
            case _:
                _log.info("signal %r is carried out: %s", signal.id, type(signal).__name__)

    def _require(self, signal: Signal) -> None:
        """Raises BadSignal for what this database's connector can't do."""
        is_blocking = isinstance(signal, ExecuteSnapshot) and signal.kind is SnapshotKind.BLOCKING
        if is_blocking and not self._options.blocks:
            raise BadSignal("this connector has no blocking snapshots: ask for an incremental one")

    def _poll(self) -> None:
        now = time.monotonic()
        if now < self._poll_at:
            return
        self._poll_at = now + self._options.poll_seconds
        for channel in self._channels:
            for each in channel.read():
                if each.text is not None:
                    text = each.text
                    self._take(lambda text=text: signal_of_text(text), None)  # type: ignore[misc]
                if each.offset is not None:
                    self._snapshot.at_signal(each.offset)
                if each.file is not None:
                    self._snapshot.at_file(each.file)

    # -- windows -------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Take signals from outside, and read a chunk if one is due."""
        self._poll()
        if self._snapshot.chunk is None and not self._is_waiting:
            self._window = None
        self._is_waiting = False
        last: Collection | None = None
        while (request := self._snapshot.request()) is not None:
            last = request.collection
            self._has_passed = False
            try:
                self._open(last)
                self._snapshot.read(self._database.read(request))
            except NotNow:
                self._is_waiting = True
                return
            except KeyChanged as problem:
                _log.warning("%s is copied from its first row again: %s", last.table, problem)
                self._snapshot.begin_again()
            except Unreadable as problem:
                _log.warning("%s is not copied: %s", last.table, problem)
                self._snapshot.failed(problem.status)
        if last is not None:
            self._close(last)

    def _open(self, collection: Collection) -> None:
        if self._window is None:
            window = str(uuid.uuid4())
            self._database.open_window(window, collection)
            self._window = window

    def _close(self, collection: Collection) -> None:
        if self._window is None:
            return
        try:
            self._database.close_window(self._window, collection)
        except Unreadable as problem:
            _log.warning("%s is not copied: %s", collection.table, problem)
            if self._snapshot.chunk is not None:
                self._snapshot.failed(problem.status)

    def changed(self, table: str, identity: RowKey, transaction: Any) -> None:
        """The stream tells a change of a row."""
        self._snapshot.changed(table, identity, transaction)

    def emptied(self, table: str, transaction: Any) -> None:
        """The stream tells that a table was emptied."""
        self._snapshot.emptied(table, transaction)

    def read_again(self) -> None:
        """A row changed that can't be named: the chunk is read once more."""
        self._snapshot.read_again()

    @property
    def changing_table(self) -> str | None:
        """The table whose changes are to be told; None while no chunk waits."""
        return self._snapshot.table

    def passed(self) -> None:
        """The stream has passed all that the chunk's view includes."""
        self._has_passed = self._snapshot.chunk is not None

    # -- records -------------------------------------------------------------------------------------

    def stamped(
        self, records: Sequence[SourceRecord], progress: Progress | None = None
    ) -> list[SourceRecord]:
        """Records of the stream, with the snapshot's progress in their offsets; None: that of now."""
        progress = self.progress if progress is None else progress
        if not records:
            return []
        self._saved = progress
        kept = progress.offset()
        if not kept:
            return list(records)
        return [
            SourceRecord(each.record, each.source_partition, {**each.source_offset, **kept})
            for each in records
        ]

    def stamped_place(self, place: SourceOffset) -> SourceOffset:
        """The offset of a place without records, with the snapshot's progress."""
        self._saved = self.progress
        return {**place, **self._saved.offset()}

    def due(self, place: SourceOffset, record: Callable[[Chunk, ChunkRow], Record]) -> list[SourceRecord]:
        """What is to be told between two transactions, at this place of the stream.

        record: of a row of a chunk.
        """
        found = self.notified(place)
        chunk, table = self._snapshot.chunk, self._snapshot.table
        if chunk is None or table is None or not self._has_passed:
            return found
        self._has_passed = False
        if self._database.described(table) != chunk.described:
            _log.info("the columns of %s are others now: its chunk is read again", table)
            self._snapshot.read_again()
            return found
        for row, progress in self._snapshot.close():
            found.append(self._source_record(record(chunk, row), place, progress))
        return found

    def notified(self, place: SourceOffset) -> list[SourceRecord]:
        """The records of notifications that wait. place: {} where the stream has none yet."""
        now_ms = time.time_ns() // 1_000_000
        for each in self._snapshot.notices:
            data = {**each.data, CONNECTOR_NAME: self._options.prefix}
            id = each.correlation_id or str(uuid.uuid4())
            self._told.append(Notification(id, INCREMENTAL, each.type.value, data, now_ms))
        self._snapshot.notices.clear()
        told, self._told = self._told, []
        if self._options.logs:
            for one in told:
                _log.info("notification: %s", one)
        topic = self._options.topic
        if topic is None:
            return []
        return [self._source_record(each.record(topic), place, self.progress) for each in told]

    def tell(self, notification: Notification) -> None:
        """Tell something else, with the next records."""
        self._told.append(notification)

    def _source_record(self, record: Record, place: SourceOffset, progress: Progress) -> SourceRecord:
        if not place:
            return SourceRecord(record, self._options.partition, {})
        self._saved = progress
        return SourceRecord(record, self._options.partition, {**place, **progress.offset()})

    # -- the end -------------------------------------------------------------------------------------

    def blocking_done(self, count: int) -> None:
        """So many tables of blocking snapshots are copied."""
        self._snapshot.blocking_done(count)

    def committed(self, offset: SourceOffset) -> None:
        """Kafka has everything up to this offset."""
        if self._channels:
            progress = progress_of(offset).progress
            for each in self._channels:
                each.saved(progress)

    def close(self) -> None:
        """Give the channels up."""
        for each in self._channels:
            each.close()
