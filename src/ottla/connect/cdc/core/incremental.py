"""Incremental snapshots: tables copied in chunks while their changes go on being streamed; no I/O.

Theory of operation, after DBLog (Andreakis and Papapanagiotou, 2020). A chunk is read, rows in the order of a
key behind the last one, by a query whose view of the database is known. Its rows wait in a window. The stream
goes on meanwhile, and a row whose change the view does not include is taken out of the window: the stream
tells it. The window is closed, and its rows become records, where the stream has passed all that the view
includes: so no record of a chunk is older than one before it, and none is overtaken by an older one. Whether
a change is in the view, and where the stream has passed it, is the database's affair (`SnapshotDatabase`).

The state that survives is `Progress`, which stands in the offset of every record. A window does not: after a
kill its chunk is read again, behind the last of its rows that is in the topic.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from ottla.connect.cdc.core.progress import Collection, Progress, RowKey
from ottla.connect.cdc.core.signals import (
    BadSignal,
    ExecuteSnapshot,
    LogMessage,
    PauseSnapshot,
    ResumeSnapshot,
    SchemaChanges,
    Signal,
    SnapshotKind,
    StopSnapshot,
    matching,
)
from ottla.connect.data.java_regex import JavaRegex

MAX_QUEUED: Final = 10_000
"""Tables that wait to be copied: their names stand in every record's offset."""


class ScanStatus(enum.StrEnum):
    """How the reading of a table ended, as notifications say it."""

    EMPTY = "EMPTY"
    NO_PRIMARY_KEY = "NO_PRIMARY_KEY"
    SKIPPED = "SKIPPED"
    SQL_EXCEPTION = "SQL_EXCEPTION"
    SUCCEEDED = "SUCCEEDED"
    UNKNOWN_SCHEMA = "UNKNOWN_SCHEMA"


class Unreadable(Exception):
    """A table that can't be copied. The snapshot goes on with the next one."""

    def __init__(self, status: ScanStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class NotNow(Exception):
    """A transaction that the stream has told is not seen by queries yet: the chunk is read a moment later."""


class KeyChanged(Exception):
    """The key's columns are others than when the table was begun: it begins anew."""


@dataclass(frozen=True, slots=True)
class ChunkRequest:
    """Read rows of a table behind a key (None: from the first one), up to the largest key (None: find it)."""

    collection: Collection
    after: RowKey | None
    maximum: RowKey | None


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A row of a chunk. key: by which chunks are ordered; identity: by which the stream names the row."""

    key: RowKey
    identity: RowKey
    row: Any


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows that were read. maximum: the table's largest key at its beginning, None where it is empty.

    includes: whether a transaction's changes are in the rows. described: equal as long as the table's columns
    are the same. place: what the stream has passed when all that the view includes was told. table: what the
    database needs to make records of the rows.
    """

    rows: Sequence[ChunkRow]
    maximum: RowKey | None
    includes: Callable[[Any], bool]
    described: Hashable
    place: Any = None
    table: Any = None


class SnapshotDatabase(Protocol):
    """A database that incremental snapshots are made of. Its own errors go through; they end the run."""

    def tables(self) -> Sequence[str]:
        """The captured tables, as signals name them, without the signal table."""

    def open_window(self, window: str, collection: Collection) -> None:
        """Leave a mark that the stream will tell, if marks are written. Raises Unreadable."""

    def read(self, request: ChunkRequest) -> Chunk:
        """A chunk, in one view of the database. Raises Unreadable, KeyChanged, NotNow."""

    def close_window(self, window: str, collection: Collection) -> None:
        """Leave the second mark. Raises Unreadable."""

    def described(self, table: str) -> Hashable:
        """What `Chunk.described` would be now."""


class NoticeType(enum.StrEnum):
    """What a notification is about."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    RESUMED = "RESUMED"
    ABORTED = "ABORTED"
    IN_PROGRESS = "IN_PROGRESS"
    TABLE_SCAN_COMPLETED = "TABLE_SCAN_COMPLETED"
    COMPLETED = "COMPLETED"


@dataclass(frozen=True, slots=True)
class Notice:
    """A step of an incremental snapshot, to tell. correlation_id: of the signal that asked for it."""

    type: NoticeType
    correlation_id: str | None
    data: Mapping[str, str]


@dataclass(slots=True)
class _Window:
    table: str
    chunk: Chunk
    identities: frozenset[RowKey]
    dropped: set[RowKey] = field(default_factory=set)


class IncrementalSnapshot:
    """The tables that wait, and the chunk that is under way. Steps to tell are left in `notices`."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._window: _Window | None = None
        self._scanned = 0
        self.notices: list[Notice] = []

    @property
    def progress(self) -> Progress:
        """What the next record's offset holds."""
        return self._progress

    @property
    def chunk(self) -> Chunk | None:
        """The chunk in the window."""
        return None if self._window is None else self._window.chunk

    @property
    def table(self) -> str | None:
        """The table whose chunk is in the window."""
        return None if self._window is None else self._window.table

    # -- signals -------------------------------------------------------------------------------------

    def take(self, signal: Signal, tables: Sequence[str]) -> None:
        """Do as a signal says. tables: those that are captured. Raises BadSignal."""
        match signal:
            case ExecuteSnapshot():
                self._execute(signal, tables)
            case StopSnapshot():
                self._stop(signal)
            case PauseSnapshot():
                if self._progress.is_running and not self._progress.is_paused:
                    self._progress = replace(self._progress, is_paused=True)
                    self._tell(NoticeType.PAUSED, self._listed())
            case ResumeSnapshot():
                if self._progress.is_paused:
                    self._progress = replace(self._progress, is_paused=False)
                    self._tell(NoticeType.RESUMED, self._listed())
            case LogMessage() | SchemaChanges():
                pass

    def at_signal(self, offset: int) -> None:
        """A record of the signal topic is done."""
        self._progress = replace(self._progress, signal_offset=offset)

    def at_file(self, mark: str) -> None:
        """A file of signals is done."""
        self._progress = replace(self._progress, signal_file=mark)

    def _execute(self, signal: ExecuteSnapshot, tables: Sequence[str]) -> None:
        asked = tuple(_collection(signal, each) for each in matching(signal.tables, tables))
        queued = len(self._progress.collections) + len(self._progress.blocking)
        if queued + len(asked) > MAX_QUEUED:
            raise BadSignal(f"more than {MAX_QUEUED} tables would wait for their copy")
        if signal.kind is SnapshotKind.BLOCKING:
            self._progress = replace(self._progress, blocking=self._progress.blocking + asked)
            return
        was_running = self._progress.is_running
        self._progress = replace(
            self._progress,
            collections=self._progress.collections + asked,
            correlation_id=signal.id,
        )
        if not was_running:
            self._scanned = 0
            self._tell(NoticeType.STARTED, self._listed())

    def _stop(self, signal: StopSnapshot) -> None:
        running = self._progress.collections
        if not running:
            return
        expressions = [JavaRegex(each) for each in signal.tables or (".*",)]
        stopped = [each for each in running if any(one.matches(each.table) for one in expressions)]
        if not stopped:
            return
        left = tuple(each for each in running if each not in stopped)
        names = ",".join(dict.fromkeys(each.table for each in stopped))
        if running[0] in stopped:
            self._window = None
            self._scanned = 0
            self._progress = replace(self._progress, last_key=None, maximum_key=None)
        self._progress = replace(
            self._progress, collections=left, is_paused=self._progress.is_paused and bool(left)
        )
        self._tell(NoticeType.ABORTED, {"data_collections": names})
        if not left:
            self._progress = replace(self._progress, correlation_id=None)

    def blocking_done(self, count: int) -> None:
        """So many tables of blocking snapshots, the first ones, are copied."""
        self._progress = replace(self._progress, blocking=self._progress.blocking[count:])

    # -- chunks --------------------------------------------------------------------------------------

    def request(self) -> ChunkRequest | None:
        """The chunk to read now; None while one is in the window, or nothing is to be read."""
        progress = self._progress
        while progress.is_running and not progress.is_paused and self._window is None:
            if progress.last_key is None or progress.last_key != progress.maximum_key:
                return ChunkRequest(progress.collections[0], progress.last_key, progress.maximum_key)
            self._finish(ScanStatus.SUCCEEDED)
            progress = self._progress
        return None

    def read(self, chunk: Chunk) -> None:
        """The chunk that was requested is there. One without rows ends its table."""
        if chunk.maximum is None:
            self._finish(ScanStatus.EMPTY)
            return
        if not chunk.rows:
            self._finish(ScanStatus.SUCCEEDED)
            return
        collection = self._progress.collections[0]
        identities = frozenset(each.identity for each in chunk.rows)
        self._window = _Window(collection.table, chunk, identities)
        self._progress = replace(self._progress, maximum_key=chunk.maximum)
        self._scanned += len(chunk.rows)
        self._tell(
            NoticeType.IN_PROGRESS,
            {
                **self._listed(),
                "current_collection_in_progress": collection.table,
                "maximum_key": _shown(chunk.maximum),
                "last_processed_key": _shown(chunk.rows[-1].key),
            },
        )

    def failed(self, status: ScanStatus) -> None:
        """The table can't be read: the next one is."""
        self._window = None
        self._finish(status)

    def begin_again(self) -> None:
        """The table's key is another one: it is read from its first row."""
        self._window = None
        self._scanned = 0
        self._progress = replace(self._progress, last_key=None, maximum_key=None)

    def read_again(self) -> None:
        """The rows in the window are of columns that are no more: they are read once more."""
        if self._window is not None:
            self._scanned -= len(self._window.chunk.rows)
        self._window = None

    # -- the stream ----------------------------------------------------------------------------------

    def changed(self, table: str, identity: RowKey, transaction: Any) -> None:
        """The stream tells a change of a row."""
        window = self._window
        if window is None or window.table != table or identity not in window.identities:
            return
        if not window.chunk.includes(transaction):
            window.dropped.add(identity)

    def emptied(self, table: str, transaction: Any) -> None:
        """The stream tells that a table was emptied."""
        window = self._window
        if window is not None and window.table == table and not window.chunk.includes(transaction):
            window.dropped.update(window.identities)

    def close(self) -> Iterator[tuple[ChunkRow, Progress]]:
        """The rows that are left in the window, each with the progress behind it.

        The stream has passed all that the chunk's view includes. All of them have to be taken.
        """
        window, self._window = self._window, None
        if window is None:
            return
        rows = [each for each in window.chunk.rows if each.identity not in window.dropped]
        end = replace(self._progress, last_key=window.chunk.rows[-1].key)
        behind = self._progress
        for number, each in enumerate(rows):
            if number == len(rows) - 1:
                behind = end
            elif rows[number + 1].key != each.key:
                # Of rows with one surrogate key none is left behind: they come again.
                behind = replace(behind, last_key=each.key)
            self._progress = behind
            yield each, behind
        self._progress = end

    # -- telling -------------------------------------------------------------------------------------

    def _finish(self, status: ScanStatus) -> None:
        done = self._progress.collections[0]
        self._tell(
            NoticeType.TABLE_SCAN_COMPLETED,
            {
                **self._listed(),
                "scanned_collection": done.table,
                "total_rows_scanned": str(self._scanned),
                "status": status.value,
            },
        )
        self._scanned = 0
        self._progress = self._progress.next_collection()
        if not self._progress.is_running:
            self._tell(NoticeType.COMPLETED, {})
            self._progress = replace(self._progress, correlation_id=None)

    def _listed(self) -> dict[str, str]:
        return {"data_collections": ",".join(each.table for each in self._progress.collections)}

    def _tell(self, type: NoticeType, data: Mapping[str, str]) -> None:
        self.notices.append(Notice(type, self._progress.correlation_id, data))


def _collection(signal: ExecuteSnapshot, table: str) -> Collection:
    found = next((each.filter for each in signal.conditions if each.tables.matches(table)), None)
    return Collection(table, found or None, signal.surrogate_key, signal.id)


def _shown(key: RowKey) -> str:
    return ",".join("<null>" if each is None else each for each in key)
