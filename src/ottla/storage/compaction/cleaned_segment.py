"""Writes the `.cleaned` files of a segment, with all its indexes.

The files are written once, from front to end, then synced and closed before any other process reads them.
Index entries are those that a segment makes as it grows (see `ottla.storage.segment`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.errors import StorageError
from ottla.storage.files import FileHandle
from ottla.storage.indexes import NO_TIMESTAMP, OFFSET_ENTRY, TIME_ENTRY
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ottla.storage.swapping import cleaned_name
from ottla.storage.transaction_index import AbortedTransaction, encode_entries

MAX_SEGMENT_BYTES = 2**31 - 1


class CleanedSegment:
    """The successor of one or more segments, from `base_offset` on."""

    __slots__ = (
        "_buffer",
        "_buffer_bytes",
        "_bytes_since_entry",
        "_file",
        "_files",
        "_indexed",
        "_interval_bytes",
        "_largest",
        "_max_index_bytes",
        "_offsets",
        "_times",
        "base_offset",
        "size_bytes",
    )

    def __init__(
        self,
        files: DirectoryFiles,
        base_offset: int,
        *,
        index_interval_bytes: int,
        max_index_bytes: int,
        buffer_bytes: int,
    ) -> None:
        self.base_offset = base_offset
        self.size_bytes = 0
        self._files = files
        self._interval_bytes = index_interval_bytes
        self._max_index_bytes = max_index_bytes
        self._buffer_bytes = buffer_bytes
        self._buffer = bytearray()
        self._bytes_since_entry = 0
        self._offsets = bytearray()
        self._times = bytearray()
        self._largest = self._indexed = (NO_TIMESTAMP, base_offset)
        self._file: FileHandle | None = files.overwrite(cleaned_name(base_offset, LOG_SUFFIX))

    def append(self, batch: bytes, last_offset: int, max_timestamp: int) -> None:
        """Add a batch. Raises OSError, or StorageError if the segment cannot grow any more."""
        if self._bytes_since_entry > self._interval_bytes and self._has_index_room():
            self._offsets += OFFSET_ENTRY.pack(last_offset - self.base_offset, self.size_bytes)
            self._index_time(max_timestamp, last_offset)
            self._bytes_since_entry = 0
        if max_timestamp > self._largest[0]:
            self._largest = (max_timestamp, last_offset)
        self.size_bytes += len(batch)
        if self.size_bytes > MAX_SEGMENT_BYTES:
            name = cleaned_name(self.base_offset, LOG_SUFFIX)
            raise StorageError(f"{self._files.path / name} would grow past {MAX_SEGMENT_BYTES} bytes")
        self._bytes_since_entry += len(batch)
        self._write(batch)

    def _index_time(self, max_timestamp: int, last_offset: int) -> None:
        largest = (max_timestamp, last_offset) if max_timestamp > self._largest[0] else self._largest
        if largest[0] > self._indexed[0]:
            self._times += TIME_ENTRY.pack(largest[0], largest[1] - self.base_offset)
            self._indexed = largest

    def _has_index_room(self) -> bool:
        """Whether the indexes have room for an entry, besides the one that the time index gets at the end."""
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
        assert self._file is not None, "nothing is written after `finish`"
        self._file.append(content)

    def finish(self, aborted: Iterable[AbortedTransaction], modified_ns: int) -> None:
        """Complete and sync all files. `modified_ns` is the time of the last write to a source."""
        self._write_out()
        self._index_time(*self._largest)
        assert self._file is not None
        self._file.sync_all()
        self._write_file(INDEX_SUFFIX, bytes(self._offsets))
        self._write_file(TIME_INDEX_SUFFIX, bytes(self._times))
        entries = encode_entries(aborted)
        if entries:
            self._write_file(TRANSACTION_INDEX_SUFFIX, entries)
        # Retention uses this time for records without timestamps.
        if os.utime in os.supports_fd:
            os.utime(self._file.fd, ns=(modified_ns, modified_ns))
        else:
            log = self._files.path / cleaned_name(self.base_offset, LOG_SUFFIX)
            os.utime(log, ns=(modified_ns, modified_ns))
        self._file = None

    def _write_file(self, suffix: str, content: bytes) -> None:
        handle = self._files.overwrite(cleaned_name(self.base_offset, suffix))
        handle.append(content)
        handle.sync_all()

    def abandon(self) -> None:
        """Close the file; the process that ordered the cleaning removes it."""
        self._file = None
