"""One segment of a log: a file of record batches with its indexes.

The file holds only batches, back to back; positions are bytes from its start. Batches are appended verbatim,
one write each time. Reads never decode a record: they find the position of the first batch and the end of the
last one, and leave the copying to the sender of the bytes.

The start of a read is found, from cheap to expensive: in `Tail` (the last appended batches, in memory, which
consumers that keep up read), in the hints (the ends of earlier reads, where consumers that catch up read
next), in the offset index followed by a walk over a few batch headers.

One thread appends, rolls and truncates. Others may read at the same time: their data is replaced or only ever
grows.
"""

from __future__ import annotations

import contextlib
import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import NamedTuple, TypeVar

from ottla.protocol.record_batch import BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader
from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.errors import LogCorruption
from ottla.storage.file_names import offset_file_name
from ottla.storage.files import FileHandle, OpenFiles
from ottla.storage.indexes import (
    MAX_RELATIVE_OFFSET,
    NO_TIMESTAMP,
    OFFSET_ENTRY,
    TIME_ENTRY,
    CorruptIndex,
    OffsetIndex,
    TimeIndex,
)
from ottla.storage.log_config import LogConfig
from ottla.storage.transaction_index import TransactionIndex

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
DELETED_SUFFIX = ".deleted"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

# base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp
_HEADER_START = Struct(">qiibIhiqq")
_WALK_CHUNK_BYTES = 8 * 1024
_TAIL_BATCHES = 256
_HINTS = 16
_MAGIC = 2

_Found = TypeVar("_Found")


class BatchPosition(NamedTuple):
    """The position of a batch in its segment, and the fields of its header for finding offsets."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int

    @property
    def end(self) -> int:
        return self.position + self.size_bytes


class LogSlice(NamedTuple):
    """Whole batches in a segment's file, for one pread or a sendfile.

    The slice keeps the descriptor open. `first_batch_offset` is the base offset of the first batch (-1 if the
    slice is empty), which may be below the requested offset.
    """

    file: FileHandle
    position: int
    size_bytes: int
    first_batch_offset: int

    @property
    def fd(self) -> int:
        return self.file.fd

    def read(self) -> bytes:
        """The bytes: one pread, safe in any thread. Shorter only if the log was truncated meanwhile."""
        if self.size_bytes == 0:
            return b""
        data = self.file.read(self.size_bytes, self.position)
        while len(data) < self.size_bytes:  # Linux reads at most 2 GiB at a time; a signal may cut a read
            more = self.file.read(self.size_bytes - len(data), self.position + len(data))
            if not more:
                break
            data += more
        return data


class Tail:
    """Offsets and end positions of the last appended batches; `start` is the
    position of the first of them.
    """

    __slots__ = ("base_offsets", "ends", "first_offset", "last_offsets", "start")

    def __init__(self, first_offset: int, start: int) -> None:
        self.first_offset = first_offset
        self.start = start
        self.base_offsets = array("q")
        self.ends = array("q")
        self.last_offsets = array("q")  # appended last: an entry here is in the other lists too

    def trimmed(self) -> Tail:
        """A new tail with the younger half. The old one is unchanged, for its readers."""
        keep = len(self.last_offsets) // 2
        younger = Tail(self.base_offsets[-keep], self.ends[-keep - 1])
        younger.base_offsets = self.base_offsets[-keep:]
        younger.ends = self.ends[-keep:]
        younger.last_offsets = self.last_offsets[-keep:]
        return younger


class Segment:
    """The batches from `base_offset` to `end_offset` (exclusive). See the module for the threads."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_files",
        "_first_timestamp",
        "_hints",
        "_index_interval_bytes",
        "_largest",
        "_name",
        "_open_files",
        "base_offset",
        "created_ms",
        "end_offset",
        "handle",
        "indexes_full",
        "offset_index",
        "recently_used",
        "size_bytes",
        "tail",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        files: DirectoryFiles,
        base_offset: int,
        config: LogConfig,
        open_files: OpenFiles,
        *,
        size_bytes: int,
        now_ms: int,
        has_transaction_index: bool = False,
    ) -> None:
        name = self._name = offset_file_name(base_offset)
        self._files = files
        self._open_files = open_files
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size_bytes = size_bytes
        self.created_ms = now_ms
        self.handle: FileHandle | None = None
        self.recently_used = True
        self.offset_index = OffsetIndex(files, name + INDEX_SUFFIX, base_offset, config.segment_index_bytes)
        self.time_index = TimeIndex(files, name + TIME_INDEX_SUFFIX, base_offset, config.segment_index_bytes)
        self.transaction_index = TransactionIndex(
            files, name + TRANSACTION_INDEX_SUFFIX, base_offset, exists=has_transaction_index
        )
        self.indexes_full = False
        self._index_interval_bytes = config.index_interval_bytes
        self._bytes_since_index_entry = 0
        self._largest: tuple[int, int] | None = None if size_bytes else (NO_TIMESTAMP, base_offset)
        self._first_timestamp: int | None = None
        self._hints: dict[int, int] = {}
        self.tail = Tail(base_offset, 0)

    # --- the file -------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The path of the file, for messages."""
        return self._files.path / (self._name + LOG_SUFFIX)

    def create_file(self) -> None:
        """Make the file of a new segment. Raises StorageError if one with content exists."""
        self.handle = self._files.create(self._name + LOG_SUFFIX)
        self._open_files.opened(self)

    def file(self) -> FileHandle:
        """The file, opened if need be. Raises FileNotFoundError for a deleted segment."""
        handle = self.handle
        if handle is None:
            handle = self.handle = self._files.open(self._name + LOG_SUFFIX)
            self._open_files.opened(self)
        self.recently_used = True
        return handle

    @property
    def has_index_files(self) -> bool:
        return self.offset_index.file.exists

    @property
    def has_index_entries(self) -> bool:
        """Whether one of the index files has content other than padding, even if damaged."""
        try:
            return self.offset_index.file.count > 0 or self.time_index.file.count > 0
        except CorruptIndex:
            return True

    def corruption(self, position: int, offset: int, reason: str) -> LogCorruption:
        return LogCorruption(self.path, position, offset, reason)

    # --- appending ------------------------------------------------------------------------------------

    def append(self, data: bytes | memoryview, headers: Sequence[BatchHeader]) -> None:
        """Write the batches at the end and index them. Raises OSError and leaves the segment as it was."""
        position = self.size_bytes
        file = self.file()
        try:
            file.write(data, position)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file.fd, position)  # a full disk may take a part of the bytes
            raise
        tail = self.tail
        largest_timestamp = (self._largest or self.largest())[0]
        for header in headers:
            size_bytes = header.batch_length + LOG_OVERHEAD_BYTES
            last_offset = header.base_offset + header.last_offset_delta
            if header.max_timestamp > largest_timestamp:
                largest_timestamp = header.max_timestamp
                self._largest = (largest_timestamp, last_offset)
            if position == 0:
                self._first_timestamp = header.max_timestamp
            if self._bytes_since_index_entry > self._index_interval_bytes:
                self._add_index_entries(last_offset, position)
                self._bytes_since_index_entry = 0
            self._bytes_since_index_entry += size_bytes
            position += size_bytes
            tail.base_offsets.append(header.base_offset)
            tail.ends.append(position)
            tail.last_offsets.append(last_offset)
            self.end_offset = last_offset + 1
        self.size_bytes = position
        if len(tail.last_offsets) >= 2 * _TAIL_BATCHES:
            self.tail = tail.trimmed()

    def _add_index_entries(self, last_offset: int, position: int) -> None:
        if self.indexes_full:
            return
        self.offset_index.append(last_offset, position)
        self.time_index.append_if_larger(*self.largest())
        self.indexes_full = self.offset_index.is_full or self.time_index.is_full

    def can_hold(self, last_offset: int) -> bool:
        """Whether the offset fits the indexes' 31 bits."""
        return last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    # --- timestamps -----------------------------------------------------------------------------------

    def largest(self) -> tuple[int, int]:
        """(largest timestamp, last offset of the first batch that has it); (-1, base offset) without one."""
        if self._largest is None:
            try:
                self.time_index.check()
                largest = self.time_index.last()
            except CorruptIndex:
                largest = (NO_TIMESTAMP, self.base_offset)
            if largest[0] == NO_TIMESTAMP:  # every closed segment has an entry, unless it has no timestamps
                self.rebuild_indexes()
                largest = self.time_index.last()
            self._largest = largest
        return self._largest

    def first_timestamp(self) -> int | None:
        """The first batch's largest timestamp, the start of rolling by time; None without batches."""
        if self._first_timestamp is None and self.size_bytes:
            first = next(self.walk(0), None)
            self._first_timestamp = None if first is None else first.max_timestamp
        return self._first_timestamp

    def age_ms(self, now_ms: int, timestamp_ms: int) -> int:
        """The age of the segment for rolling, when a batch with this timestamp comes."""
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp()
        return now_ms - self.created_ms if first is None or first < 0 else timestamp_ms - first

    def retention_timestamp(self) -> int:
        """The timestamp for retention: the largest one, or else the time of the file's last write."""
        timestamp = self.largest()[0]
        return timestamp if timestamp >= 0 else self._modified_ms()

    def _modified_ms(self) -> int:
        return int(self._files.status(self._name + LOG_SUFFIX).st_mtime * 1000)

    # --- finding batches ------------------------------------------------------------------------------

    def walk(self, position: int) -> Iterator[BatchPosition]:
        """The whole batches from the one at `position` on. Raises LogCorruption at invalid bytes."""
        file = self.file()
        unpack = _HEADER_START.unpack_from
        buffer = b""
        buffer_start = position
        while position + BATCH_HEADER_BYTES <= self.size_bytes:
            at = position - buffer_start
            if at + BATCH_HEADER_BYTES > len(buffer):
                buffer = file.read(_WALK_CHUNK_BYTES, position)
                buffer_start, at = position, 0
                if len(buffer) < BATCH_HEADER_BYTES:
                    return  # truncated meanwhile
            base_offset, length, epoch, magic, _, _, delta, _, max_timestamp = unpack(buffer, at)
            size_bytes = length + LOG_OVERHEAD_BYTES
            if (
                magic != _MAGIC
                or size_bytes < BATCH_HEADER_BYTES
                or delta < 0
                or base_offset < self.base_offset
            ):
                raise self.corruption(
                    position, max(base_offset, self.base_offset), "there is no record batch"
                )
            if position + size_bytes > self.size_bytes:
                return
            yield BatchPosition(position, size_bytes, base_offset, base_offset + delta, max_timestamp, epoch)
            position += size_bytes

    def locate(self, offset: int) -> BatchPosition | None:
        """The first batch whose last offset is not below `offset`. None if all are below."""
        return self._with_index(lambda: self._locate(offset))

    def _with_index(self, find: Callable[[], _Found]) -> _Found:
        """Run `find`; if an index led it into the middle of a batch, make the indexes again and repeat."""
        try:
            return find()
        except (CorruptIndex, LogCorruption):
            self.rebuild_indexes()
        try:
            return find()
        except CorruptIndex as error:
            raise self.corruption(0, self.base_offset, str(error)) from error

    def _locate(self, offset: int) -> BatchPosition | None:
        hinted = self._hints.get(offset)
        if hinted is not None:
            batch = next(self.walk(hinted), None)
            if batch is not None and batch.base_offset == offset:
                return batch
        indexed_offset, position = self.offset_index.lookup(offset)
        for batch in self.walk(position):
            if batch.position == position and batch.position > 0 and batch.base_offset > indexed_offset:
                raise CorruptIndex(f"{self.offset_index.file.path}: entry of offset {indexed_offset}")
            if batch.last_offset >= offset:
                return batch
        return None

    def read(
        self, start_offset: int, max_bytes: int, upper_offset: int, at_least_one_batch: bool
    ) -> LogSlice | None:
        """Whole batches from the one with `start_offset` on. None if the segment ends below it."""
        tail = self.tail
        if start_offset >= tail.first_offset:
            return self._read_tail(tail, start_offset, max_bytes, upper_offset, at_least_one_batch)
        return self._with_index(
            lambda: self._read_by_index(start_offset, max_bytes, upper_offset, at_least_one_batch)
        )

    def _read_by_index(
        self, start_offset: int, max_bytes: int, upper_offset: int, at_least_one_batch: bool
    ) -> LogSlice | None:
        first = self._locate(start_offset)
        if first is None:
            return None
        if first.last_offset >= upper_offset or (first.size_bytes > max_bytes and not at_least_one_batch):
            return LogSlice(self.file(), first.position, 0, -1)
        end = self._end_of_batches(first, first.position + max_bytes, upper_offset)
        return LogSlice(self.file(), first.position, end - first.position, first.base_offset)

    def _read_tail(
        self, tail: Tail, start_offset: int, max_bytes: int, upper_offset: int, at_least_one_batch: bool
    ) -> LogSlice | None:
        last_offsets, ends = tail.last_offsets, tail.ends
        first = bisect_left(last_offsets, start_offset)
        known = len(last_offsets)
        if first >= known:
            return None
        position = ends[first - 1] if first else tail.start
        stop = (
            known
            if last_offsets[known - 1] < upper_offset
            else bisect_left(last_offsets, upper_offset, first, known)
        )
        if stop > first and ends[stop - 1] - position > max_bytes:
            stop = bisect_right(ends, position + max_bytes, first, stop)
            if stop == first and at_least_one_batch:
                stop += 1
        if stop == first:
            return LogSlice(self.file(), position, 0, -1)
        return LogSlice(self.file(), position, ends[stop - 1] - position, tail.base_offsets[first])

    def _end_of_batches(self, first: BatchPosition, limit: int, upper_offset: int) -> int:
        """The end of the last batch from `first` on that stays within `limit` and below `upper_offset`."""
        size_bytes = self.size_bytes  # before end_offset: an append in between moves that first
        if limit >= size_bytes and upper_offset >= self.end_offset:
            return size_bytes
        indexed_offset, boundary = self.offset_index.lookup_position(limit)
        if indexed_offset >= upper_offset:
            boundary = min(boundary, self.offset_index.lookup(upper_offset - 1)[1])
        end = first.end
        for batch in self.walk(max(boundary, first.end)):
            end = batch.position
            if batch.end > limit or batch.last_offset >= upper_offset:
                self._remember(batch.base_offset, batch.position)
                return end
            end = batch.end
        return end

    def offset_indexed_from(self, position: int) -> int | None:
        """The offset of the first index entry at or behind `position`; None if the index has none."""
        index = self.offset_index
        entries = index.file.entries()
        count = len(entries) // OFFSET_ENTRY.size
        unpack = OFFSET_ENTRY.unpack_from
        slot = bisect_left(range(count), position, key=lambda slot: unpack(entries, slot * 8)[1])
        return None if slot == count else self.base_offset + int(unpack(entries, slot * 8)[0])

    def _remember(self, offset: int, position: int) -> None:
        """Note the start of the next read of a consumer that catches up."""
        if len(self._hints) >= _HINTS:
            self._hints = {}
        self._hints[offset] = position

    # --- indexes --------------------------------------------------------------------------------------

    def rebuild_indexes(self) -> None:
        """Make both indexes again by a walk over the headers of the whole segment.

        Raises LogCorruption if there are other bytes than batches in it; the files then stay as they were.
        """
        offsets, times = bytearray(), bytearray()
        largest = indexed_largest = (NO_TIMESTAMP, self.base_offset)
        bytes_since_entry = 0
        for batch in self.walk(0):
            if batch.max_timestamp > largest[0]:
                largest = (batch.max_timestamp, batch.last_offset)
            if bytes_since_entry > self._index_interval_bytes:
                offsets += OFFSET_ENTRY.pack(batch.last_offset - self.base_offset, batch.position)
                if largest[0] > indexed_largest[0]:
                    times += TIME_ENTRY.pack(largest[0], largest[1] - self.base_offset)
                    indexed_largest = largest
                bytes_since_entry = 0
            bytes_since_entry += batch.size_bytes
        if largest[0] > indexed_largest[0]:
            times += TIME_ENTRY.pack(largest[0], largest[1] - self.base_offset)
        self.offset_index.file.replace(bytes(offsets))
        self.time_index.file.replace(bytes(times))
        self._largest = largest
        self._bytes_since_index_entry = bytes_since_entry
        self.indexes_full = self.offset_index.is_full or self.time_index.is_full
        self._hints = {}

    def check_indexes(self) -> None:
        """Raise CorruptIndex if an index cannot belong to this log."""
        self.offset_index.check(self.size_bytes)
        self.time_index.check()

    def write_indexes(self, *, closing: bool) -> None:
        """Write the indexes' new entries; with `closing` the time index ends with the largest timestamp."""
        if closing and self.size_bytes:
            self.time_index.append_if_larger(*self.largest())
        self.offset_index.file.write_out()
        self.time_index.file.write_out()
        self.transaction_index.write_out()

    def sync(self, handle: FileHandle) -> None:
        """fsync log and indexes; `handle` is this segment's. Safe in a thread."""
        handle.sync()
        self.offset_index.file.sync()
        self.time_index.file.sync()
        self.transaction_index.sync()

    # --- shortening and deleting ----------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Cut the batch with `offset` and all after it. Returns the new end offset.

        A batch is cut as a whole: if `offset` lies inside one, the end is that batch's base offset.
        """
        first_cut = self.locate(offset)
        self._hints = {}
        if first_cut is None:
            return min(offset, self.end_offset)
        self.end_offset = min(offset, first_cut.base_offset)
        self.cut(first_cut.position, self.end_offset)
        self.offset_index.truncate_to(self.end_offset)
        self.time_index.truncate_to(self.end_offset)
        self.transaction_index.truncate_to(self.end_offset)
        self.indexes_full = False
        self._bytes_since_index_entry = 0
        last_timestamp, last_offset = self.time_index.last()
        self._largest = (last_timestamp, last_offset)
        for batch in self.walk(self.offset_index.lookup(last_offset)[1]):
            if batch.max_timestamp > self._largest[0]:
                self._largest = (batch.max_timestamp, batch.last_offset)
        return self.end_offset

    def cut(self, position: int, end_offset: int) -> None:
        """Shorten the file to `position`. The caller truncates the indexes."""
        self.size_bytes = position
        self.tail = Tail(end_offset, position)
        os.ftruncate(self.file().fd, position)
        if position == 0:
            self._first_timestamp = None
            self._largest = (NO_TIMESTAMP, self.base_offset)

    def opened_at(self, end_offset: int) -> None:
        """Set the known end offset; batches appended from now on are in the tail."""
        self.end_offset = end_offset
        self.tail = Tail(end_offset, self.size_bytes)

    def close_file(self) -> None:
        self.handle = None

    def discard(self) -> None:
        """The files are about to be deleted: a flush in another thread must not make them again."""
        self.offset_index.file.discard()
        self.time_index.file.discard()
        self.transaction_index.discard()
        self.handle = None

    def rename_for_deletion(self) -> list[str]:
        """Give the segment's files the suffix `.deleted`, the log first: without it the others are strays.

        Returns their new names.
        """
        self.discard()
        renamed = []
        for suffix in SEGMENT_SUFFIXES:
            source = self._name + suffix
            target = source + DELETED_SUFFIX
            try:
                self._files.rename(source, target)
            except FileNotFoundError:
                continue
            renamed.append(target)
        return renamed
