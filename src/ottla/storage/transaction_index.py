"""The aborted transactions of a segment, in Kafka's `<base offset>.txnindex` files.

A transaction that was aborted has an entry in the index of the segment that holds its marker. Entries are 34
bytes, in the order of the markers:

    version int16 (0) | producer id int64 | first offset int64 | last offset int64 | last stable offset int64

The last offset is the marker's; the last stable offset is the log's when the marker was written: up to there
no earlier transaction was open, so a reader need not look at later entries for records below it.

A segment without aborted transactions has no file. An entry is written after its marker and before the next
batch; the index can always be derived from the log, so one that is damaged, or whose segment was not flushed,
is made again (see `loading`).
"""

from __future__ import annotations

import contextlib
import os
import threading
from bisect import bisect_left
from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.indexes import CorruptIndex
from ottla.storage.producer_states import CompletedTransaction

_VERSION = 0
_ENTRY = Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """A transaction that a marker at `last_offset` aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def aborted_transaction(completed: CompletedTransaction) -> AbortedTransaction:
    """The entry of a transaction that was just aborted."""
    return AbortedTransaction(
        completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
    )


def encode_entries(entries: Iterable[AbortedTransaction]) -> bytes:
    """The content of an index file."""
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


class TransactionIndex:
    """One segment's aborted transactions. `collect` is safe in threads other than the appending one."""

    __slots__ = ("_content", "_discarded", "_files", "_lock", "_written", "base_offset", "name")

    def __init__(self, files: DirectoryFiles, name: str, base_offset: int, *, exists: bool) -> None:
        self._files = files
        self.name = name
        self.base_offset = base_offset
        # All entries; None: the file was not read yet. Replaced, never changed.
        self._content: bytes | None = None if exists else b""
        self._written = -1 if exists else 0  # the entries' bytes in the file, -1: not known yet
        self._discarded = False
        self._lock = threading.Lock()

    @property
    def path(self) -> str:
        """The path of the file, for messages."""
        return str(self._files.path / self.name)

    def _load(self) -> bytes:
        content = self._content
        if content is not None:
            return content
        with self._lock:
            if self._content is None:
                self._content = self._read_file()
                self._written = len(self._content)
            return self._content

    def _read_file(self) -> bytes:
        try:
            handle = self._files.open(self.name, writable=False)
        except FileNotFoundError:
            return b""
        return handle.read(os.fstat(handle.fd).st_size, 0)

    @property
    def exists(self) -> bool:
        """Whether there are entries, or a file that was not read yet."""
        return self._content is None or self._content != b""

    def __len__(self) -> int:
        return len(self._load()) // ENTRY_BYTES

    def entries(self) -> list[AbortedTransaction]:
        """All entries, in the order of their markers."""
        return [self._at(self._load(), at) for at in range(len(self))]

    @staticmethod
    def _at(content: bytes, at: int) -> AbortedTransaction:
        return AbortedTransaction(*_ENTRY.unpack_from(content, at * ENTRY_BYTES)[1:])

    def check(self, end_offset: int) -> None:
        """Raise CorruptIndex unless all entries fit this segment, which ends with `end_offset`."""
        content = self._load()
        if len(content) % ENTRY_BYTES:
            raise CorruptIndex(f"{self.path} has {len(content)} bytes, not a multiple of {ENTRY_BYTES}")
        previous = self.base_offset - 1
        for version, _, first_offset, last_offset, _ in _ENTRY.iter_unpack(content):
            if version != _VERSION or not first_offset < last_offset or not previous < last_offset:
                raise CorruptIndex(f"{self.path} has an entry of version {version} for {last_offset}")
            previous = last_offset
        if previous >= end_offset:
            raise CorruptIndex(f"{self.path} has an entry for {previous}, the segment ends at {end_offset}")

    def append(self, entry: AbortedTransaction) -> None:
        """Add a transaction whose marker is in the log. Raises ValueError if its marker is not the newest.

        If the disk refuses, the entry is kept, and written with the next one or on flush.
        """
        content = self._load()
        if content and self._at(content, len(content) // ENTRY_BYTES - 1).last_offset >= entry.last_offset:
            raise ValueError(f"a marker at {entry.last_offset} is not after the last one in {self.path}")
        self._content = content + _ENTRY.pack(_VERSION, *entry)
        with contextlib.suppress(OSError):
            self.write_out()

    def write_out(self) -> None:
        """Write the new entries to the file. Raises OSError."""
        with self._lock:
            content = self._content
            if content is None or self._discarded or len(content) == self._written:
                return
            try:
                self._files.append(self.name, content[self._written :])
            except OSError:
                with contextlib.suppress(OSError):
                    self._files.truncate(self.name, self._written)  # a full disk may take a part of the bytes
                raise
            self._written = len(content)

    def sync(self) -> None:
        """Sync every entry to the disk; no-op for a file that is being deleted."""
        self.write_out()
        if not self._discarded and self._written:
            with contextlib.suppress(FileNotFoundError):
                self._files.sync_file(self.name)

    def collect(self, start_offset: int, upper_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions with records in start_offset..upper_offset (exclusive), and whether these
        are all: False if the next segment's index may have more.
        """
        content = self._load()
        if not content:
            return [], False
        count = len(content) // ENTRY_BYTES
        found = []
        first = bisect_left(range(count), start_offset, key=lambda at: self._at(content, at).last_offset)
        for at in range(first, count):
            entry = self._at(content, at)
            if entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker is at or above `offset`."""
        content = self._load()
        count = len(content) // ENTRY_BYTES
        kept = bisect_left(range(count), offset, key=lambda at: self._at(content, at).last_offset)
        if kept == count:
            return
        with self._lock:
            self._content = content[: kept * ENTRY_BYTES]
            self._written = min(self._written, len(self._content))
            with contextlib.suppress(FileNotFoundError):
                self._files.truncate(self.name, self._written)

    def replace(self, entries: Iterable[AbortedTransaction]) -> None:
        """Replace all entries, valid or not, by these; without any the file is removed."""
        content = encode_entries(entries)
        self._load()
        with self._lock:
            if content == self._content and self._written == len(content):
                return
            if content:
                self._files.replace(self.name, content, sync=False)
            else:
                self._files.remove(self.name)
            self._content = content
            self._written = len(content)

    def discard(self) -> None:
        """The file is about to be deleted: never make it again."""
        with self._lock:
            self._discarded = True
