"""The `.cleaned` files of a segment that is being written, with all its indexes.

Written once, from front to end, synced and closed before anybody else looks at them. Index entries are those
that a segment makes as it grows (see `ottla.storage.segment`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ottla.storage.errors import StorageError
from ottla.storage.indexes import NO_TIMESTAMP, OFFSET_ENTRY, TIME_ENTRY
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ottla.storage.swapping import CLEANED_SUFFIX
from ottla.storage.transaction_index import AbortedTransaction, encode_entries

MAX_SEGMENT_BYTES = 2**31 - 1
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class CleanedSegment:
    """The successor of one or more segments, from `base_offset` on."""

    __slots__ = (
        "_buffer",
        "_buffer_bytes",
        "_bytes_since_entry",
        "_fd",
        "_indexed",
        "_interval_bytes",
        "_largest",
        "_max_index_bytes",
        "_offsets",
        "_prefix",
        "_times",
        "base_offset",
        "size_bytes",
    )

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        *,
        index_interval_bytes: int,
        max_index_bytes: int,
        buffer_bytes: int,
    ) -> None:
        self.base_offset = base_offset
        self.size_bytes = 0
        self._prefix = str(directory / f"{base_offset:020d}")
        self._interval_bytes = index_interval_bytes
        self._max_index_bytes = max_index_bytes
        self._buffer_bytes = buffer_bytes
        self._buffer = bytearray()
        self._bytes_since_entry = 0
        self._offsets = bytearray()
        self._times = bytearray()
        self._largest = self._indexed = (NO_TIMESTAMP, base_offset)
        self._fd = os.open(self._prefix + LOG_SUFFIX + CLEANED_SUFFIX, _WRITE, 0o644)

    def append(self, batch: bytes, last_offset: int, max_timestamp: int) -> None:
        """Add a batch. Raises OSError, or StorageError when the segment cannot grow any more."""
        if self._bytes_since_entry > self._interval_bytes and self._has_index_room():
            self._offsets += OFFSET_ENTRY.pack(last_offset - self.base_offset, self.size_bytes)
            self._index_time(max_timestamp, last_offset)
            self._bytes_since_entry = 0
        if max_timestamp > self._largest[0]:
            self._largest = (max_timestamp, last_offset)
        self.size_bytes += len(batch)
        if self.size_bytes > MAX_SEGMENT_BYTES:
            raise StorageError(f"{self._prefix}{LOG_SUFFIX} would grow past {MAX_SEGMENT_BYTES} bytes")
        self._bytes_since_entry += len(batch)
        self._write(batch)

    def _index_time(self, max_timestamp: int, last_offset: int) -> None:
        largest = (max_timestamp, last_offset) if max_timestamp > self._largest[0] else self._largest
        if largest[0] > self._indexed[0]:
            self._times += TIME_ENTRY.pack(largest[0], largest[1] - self.base_offset)
            self._indexed = largest

    def _has_index_room(self) -> bool:
        """One entry of the time index is kept free for the one on close."""
        return (
            len(self._offsets) + OFFSET_ENTRY.size <= self._max_index_bytes
            and len(self._times) + 2 * TIME_ENTRY.size <= self._max_index_bytes
        )

    def _write(self, batch: bytes) -> None:
        self._buffer += batch
        if len(self._buffer) >= self._buffer_bytes:
            self._write_out()

    def _write_out(self) -> None:
        content, self._buffer = self._buffer, bytearray()
        _write_all(self._fd, content)

    def finish(self, aborted: Iterable[AbortedTransaction], modified_ns: int) -> None:
        """Everything is on the disk when this returns. `modified_ns`: when the last source was written."""
        self._write_out()
        self._index_time(*self._largest)
        os.fsync(self._fd)
        os.close(self._fd)
        self._fd = -1
        _write_file(self._prefix + INDEX_SUFFIX + CLEANED_SUFFIX, bytes(self._offsets))
        _write_file(self._prefix + TIME_INDEX_SUFFIX + CLEANED_SUFFIX, bytes(self._times))
        entries = encode_entries(aborted)
        if entries:
            _write_file(self._prefix + TRANSACTION_INDEX_SUFFIX + CLEANED_SUFFIX, entries)
        # Retention of records without timestamps goes by this.
        os.utime(self._prefix + LOG_SUFFIX + CLEANED_SUFFIX, ns=(modified_ns, modified_ns))

    def abandon(self) -> None:
        """Let go of the file; whoever ordered the cleaning removes it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _write_all(fd: int, content: bytes | bytearray) -> None:
    written = os.write(fd, content) if content else 0
    while written < len(content):
        written += os.write(fd, memoryview(content)[written:])


def _write_file(path: str, content: bytes) -> None:
    fd = os.open(path, _WRITE, 0o644)
    try:
        _write_all(fd, content)
        os.fsync(fd)
    finally:
        os.close(fd)
