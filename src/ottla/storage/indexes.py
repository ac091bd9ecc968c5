"""The two indexes of a segment: offset -> position, and timestamp -> offset, in Kafka's files.

    <base offset>.index      8 bytes an entry: int32 offset relative to the base offset, int32 position
    <base offset>.timeindex  12 bytes an entry: int64 timestamp (ms), int32 relative offset

An entry of the offset index names a batch: its last offset and the position of its first byte. Entries are
made every `index.interval.bytes` of log. An entry of the time index says: up to and including this
offset, this is the largest timestamp. Both only grow, in key and in value.

Both can be derived from the log, which always takes precedence. New entries are kept in memory and written to
the file a few hundred at a time; after a kill, the entries of every segment that was not flushed are made
again. A crashed Apache Kafka leaves its indexes preallocated and padded with zeros: the padding is not read
as entries, and is cut off before the first new entry is written.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import sys
import threading
from array import array
from bisect import bisect_right
from collections import deque
from struct import Struct

from ottla.storage.directory_files import DirectoryFiles

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
MAX_RELATIVE_OFFSET = 2**31 - 1
NO_TIMESTAMP = -1

_BUFFERED_ENTRIES = 512
_MAP_FROM_BYTES = 64 * 1024  # a smaller file is read whole: cheaper than a mapping
_WINDOW_ENTRIES = 2048
_WINDOWS = 64


class CorruptIndex(Exception):
    """The file cannot be an index of its segment, and has to be made again from the log."""


class EntryFile:
    """A file of entries of one size that grows at its end. Reads are safe in other threads."""

    __slots__ = (
        "_buffer", "_count", "_discarded", "_files", "_last", "_lock", "_written", "generation", "layout",
        "name",
    )  # fmt: skip

    def __init__(self, files: DirectoryFiles, name: str, layout: Struct) -> None:
        self._files = files
        self.name = name
        self.layout = layout
        self._count = -1  # -1: the file was not examined yet
        self._written = 0
        self._last: tuple[int, int] | None = None
        self._buffer = bytearray()
        self._discarded = False
        self._lock = threading.Lock()
        self.generation = 0
        """Changes when entries are removed or replaced, not when new ones are appended."""

    @property
    def path(self) -> str:
        """The path of the file, for messages."""
        return str(self._files.path / self.name)

    @property
    def exists(self) -> bool:
        return self._files.exists(self.name)

    @property
    def count(self) -> int:
        """The number of entries, with those not written yet. Raises CorruptIndex."""
        return self._count if self._count >= 0 else self._load()

    def _load(self) -> int:
        with self._lock:
            if self._count < 0:  # another thread may have been first
                length = self._valid_bytes()
                self._written = length // self.layout.size
                self._last = self._read_last(self._written)
                self._count = self._written
        return self._count

    def _valid_bytes(self) -> int:
        """The length of the file without the padding that a crashed Apache Kafka leaves, which is cut off."""
        size = self.layout.size
        try:
            length = self._files.status(self.name).st_size
        except FileNotFoundError:
            return 0
        if length % size:
            raise CorruptIndex(f"{self.path} has {length} bytes, not a multiple of {size}")
        if length:
            handle = self._files.open(self.name, writable=False)
            if not any(handle.read(size, length - size)):  # zeros: preallocated, or a run of padding
                content = handle.read(length, 0).rstrip(b"\0")
                length = -(-len(content) // size) * size
                self._files.truncate(self.name, length)
        return length

    def _read_last(self, count: int) -> tuple[int, int] | None:
        if count == 0:
            return None
        size = self.layout.size
        handle = self._files.open(self.name, writable=False)
        key, value = self.layout.unpack(handle.read(size, (count - 1) * size))
        return key, value

    def entries(self) -> bytes | mmap.mmap:
        """All entries, as a buffer to unpack from: a copy, or a mapping of the file for a long one."""
        if self.count == 0:
            return b""
        with self._lock:
            self._write_out()
            length = self._written * self.layout.size
        handle = self._files.open(self.name, writable=False)
        if length < _MAP_FROM_BYTES:
            return handle.read(length, 0)
        return mmap.mmap(handle.fd, length, access=mmap.ACCESS_READ)

    def last(self) -> tuple[int, int] | None:
        """The last entry."""
        if self._count < 0:
            self._load()
        return self._last

    def append(self, key: int, value: int) -> None:
        if self._count < 0:
            self._load()
        with self._lock:
            self._buffer += self.layout.pack(key, value)
            self._count += 1
            self._last = (key, value)
            if self._count - self._written >= _BUFFERED_ENTRIES:
                # the batch is in the log already: entries that can't be written now are written later
                with contextlib.suppress(OSError):
                    self._write_out()

    def _write_out(self) -> None:
        self._refuse_if_discarded()
        if self._buffer:
            try:
                self._files.append(self.name, self._buffer)
            except OSError:
                with contextlib.suppress(OSError):
                    self._files.truncate(self.name, self._written * self.layout.size)
                raise
            self._written = self._count
            self._buffer.clear()

    def _refuse_if_discarded(self) -> None:
        """A search in a thread may still read a segment that
        retention has deleted: it must not make the file again.
        """
        if self._discarded:
            raise FileNotFoundError(errno.ENOENT, "the segment was deleted", self.path)

    def write_out(self) -> None:
        """Write every entry to the file, which is made if it does not exist."""
        if self._count < 0 and not self.exists:
            self._load()
        with self._lock:
            if self._discarded:
                return
            if self._buffer:
                self._write_out()
            elif not self.exists:
                self._files.append(self.name, b"")

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries."""
        if count >= self.count:
            return
        with self._lock:
            self._write_out()
            self.generation += 1
            self._files.truncate(self.name, count * self.layout.size)
            self._written = self._count = count
            self._last = self._read_last(count)

    def replace(self, content: bytes) -> None:
        """Replace all entries, valid or not, by these."""
        with self._lock:
            self._refuse_if_discarded()
            self._buffer.clear()
            self.generation += 1
            self._files.replace(self.name, content, sync=False)
            self._written = self._count = len(content) // self.layout.size
            self._last = self._read_last(self._count)

    def sync(self) -> None:
        """Sync every entry to the disk; no-op for a file that is being deleted."""
        self.write_out()
        if not self._discarded:
            with contextlib.suppress(FileNotFoundError):
                self._files.sync_file(self.name)

    def discard(self) -> None:
        """The file is about to be deleted: never make it again."""
        with self._lock:
            self._discarded = True
            self._buffer.clear()


class _Window:
    """Consecutive entries of an offset index, from a slot on, of one generation of its file."""

    __slots__ = ("_columns", "_first", "_generation")

    def __init__(self, entries: bytes, first: int, generation: int) -> None:
        fields = array("i", entries)
        if sys.byteorder == "little":
            fields.byteswap()
        self._columns = (fields[0::2], fields[1::2])  # relative offsets, positions
        self._first = first
        self._generation = generation

    def find(self, target: int, field: int, file: EntryFile) -> tuple[int, int] | None:
        """The last entry not above `target`, (0, 0) if all are; None if that may be outside of the window."""
        if self._generation != file.generation:
            return None
        offsets, positions = self._columns
        slot = bisect_right(self._columns[field], target)
        if slot == len(offsets) and self._first + slot != file.count:
            return None
        if slot == 0:
            return (0, 0) if self._first == 0 else None
        return offsets[slot - 1], positions[slot - 1]


# Indexes that have a window, the oldest first. A window is 16 KiB, all of them together 1 MiB.
_windowed: deque[OffsetIndex] = deque()


class OffsetIndex:
    """Positions in a segment by offset. Offsets in and out are absolute.

    A reader that reads on finds the next entries in a window, kept in memory. A consumer that catches up
    makes two look-ups a fetch, and without the window each is open, map, search, unmap, close: a fetch of 100
    kB then costs the broker 91 us instead of 31, one of 1 MiB 152 instead of 81 (without the sending).
    """

    __slots__ = ("_window", "base_offset", "file", "max_entries")

    def __init__(self, files: DirectoryFiles, name: str, base_offset: int, max_bytes: int) -> None:
        self.base_offset = base_offset
        self.file = EntryFile(files, name, OFFSET_ENTRY)
        self.max_entries = max_bytes // OFFSET_ENTRY.size
        self._window: _Window | None = None

    @property
    def is_full(self) -> bool:
        return self.file.count >= self.max_entries

    def check(self, log_size_bytes: int) -> None:
        """Raise CorruptIndex if the last entry cannot belong to a log of this size."""
        last = self.file.last()
        if last is not None and (last[0] < 0 or not 0 <= last[1] < max(1, log_size_bytes)):
            raise CorruptIndex(f"{self.file.path} ends with offset {last[0]}, position {last[1]}")

    def append(self, last_offset: int, position: int) -> None:
        """Index the batch that starts at `position` and ends with `last_offset`."""
        self.file.append(last_offset - self.base_offset, position)

    def last(self) -> tuple[int, int]:
        """(offset, position) of the last entry, or (base offset, 0)."""
        last = self.file.last()
        return (self.base_offset, 0) if last is None else (self.base_offset + last[0], last[1])

    def lookup(self, offset: int) -> tuple[int, int]:
        """(offset, position) of the last entry that is not above `offset`, or (base offset, 0)."""
        return self._find(offset - self.base_offset, 0)

    def lookup_position(self, position: int) -> tuple[int, int]:
        """(offset, position) of the last entry that starts at or below `position`, or (base offset, 0)."""
        return self._find(position, 1)

    def _find(self, target: int, field: int) -> tuple[int, int]:
        window = self._window
        found = None if window is None else window.find(target, field, self.file)
        if found is None:
            found = self._look(target, field)
        return self.base_offset + found[0], found[1]

    def _look(self, target: int, field: int) -> tuple[int, int]:
        """Look up an entry in the file, and let the window begin with it."""
        generation = self.file.generation  # first: entries removed meanwhile make the window invalid
        entries, slot = self._slot(target, field)
        size = OFFSET_ENTRY.size
        first = max(0, slot)
        window = _Window(entries[first * size : (first + _WINDOW_ENTRIES) * size], first, generation)
        if self._window is None:
            _windowed.append(self)
            if len(_windowed) > _WINDOWS:
                _windowed.popleft()._window = None
        self._window = window
        if slot < 0:
            return 0, 0
        relative, position = OFFSET_ENTRY.unpack_from(entries, slot * size)
        return relative, position

    def _slot(self, target: int, field: int) -> tuple[bytes | mmap.mmap, int]:
        entries = self.file.entries()
        unpack = OFFSET_ENTRY.unpack_from
        count = len(entries) // OFFSET_ENTRY.size
        return entries, bisect_right(
            range(count), target, key=lambda slot: unpack(entries, slot * 8)[field]
        ) - 1

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        if self.file.count:
            _, slot = self._slot(offset - self.base_offset - 1, 0)
            self.file.truncate(slot + 1)


class TimeIndex:
    """Offsets in a segment by timestamp. The last entry of a closed segment is its largest timestamp."""

    __slots__ = ("base_offset", "file", "max_entries")

    def __init__(self, files: DirectoryFiles, name: str, base_offset: int, max_bytes: int) -> None:
        self.base_offset = base_offset
        self.file = EntryFile(files, name, TIME_ENTRY)
        self.max_entries = max_bytes // TIME_ENTRY.size

    @property
    def is_full(self) -> bool:
        """Whether the index is full, but for the entry that it gets at close."""
        return self.file.count >= self.max_entries - 1

    def check(self) -> None:
        """Raise CorruptIndex if the first and last entry cannot be in one index."""
        last = self.file.last()
        if last is None:
            return
        first_timestamp, _ = TIME_ENTRY.unpack_from(self.file.entries(), 0)
        if last[1] < 0 or last[0] < first_timestamp:
            raise CorruptIndex(f"{self.file.path} ends with timestamp {last[0]}, offset {last[1]}")

    def last(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry, or (-1, base offset)."""
        last = self.file.last()
        return (NO_TIMESTAMP, self.base_offset) if last is None else (last[0], self.base_offset + last[1])

    def append_if_larger(self, timestamp_ms: int, offset: int) -> None:
        """Add that up to `offset` the largest timestamp is
        `timestamp_ms`, unless an entry says so already.
        """
        last_timestamp, last_offset = self.last()
        if timestamp_ms > last_timestamp and offset >= last_offset:
            self.file.append(timestamp_ms, offset - self.base_offset)

    def lookup(self, timestamp_ms: int) -> tuple[int, int]:
        """(timestamp, offset) of the last entry that is not above `timestamp_ms`, or (-1, base offset).

        Every batch up to that offset has a maximum timestamp of at most that of the entry.
        """
        entries = self.file.entries()
        unpack = TIME_ENTRY.unpack_from
        count = len(entries) // TIME_ENTRY.size
        slot = bisect_right(range(count), timestamp_ms, key=lambda slot: unpack(entries, slot * 12)[0]) - 1
        if slot < 0:
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative = unpack(entries, slot * TIME_ENTRY.size)
        return timestamp, self.base_offset + relative

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        entries = self.file.entries()
        unpack = TIME_ENTRY.unpack_from
        count = len(entries) // TIME_ENTRY.size
        relative = offset - self.base_offset - 1
        self.file.truncate(
            bisect_right(range(count), relative, key=lambda slot: unpack(entries, slot * 12)[1])
        )
