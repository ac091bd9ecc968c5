"""The last offset of every key in a section of a log, within a bound on its memory.

It is a dict from key to offset, the fastest structure in CPython. Where all records of a batch have one size,
with keys of one size, as numbers and fixed-width rows do, C code takes the keys out of a batch, and the time
is that of the dict's cache misses (0.7 microseconds a record); otherwise a loop does, in 1.2.

Keys of up to 63 bytes are kept as they are and cannot collide; a longer one is kept as the integer of its
128-bit BLAKE2 digest, which never equals any bytes. The bound counts the memory that the interpreter really
uses: the dict's table with the older half that lives while it grows, the key objects, the offsets as integer
objects, and the list of offsets that `survivors` makes of them. That is about 120 to 150 bytes a key, where
Apache Kafka's table takes 27: with the default 128 MiB some 850,000 keys fit.

When the next records might not fit, the map is full, and covers the section up to `latest_offset` only.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from struct import Struct
from typing import NamedTuple, cast

from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import BatchHeader
from ottla.storage.compaction.record_scan import (
    SLICE_RECORDS,
    next_slice,
    read_length,
    read_offset_delta,
    skip_varint,
)

MapKey = bytes | int

LONGEST_VERBATIM_KEY_BYTES = 63
_DIGEST_BYTES = 16
_OFFSET_BYTES = 32  # an integer object
_DIGEST_OBJECT_BYTES = 48
_LIST_BYTES = 12  # a slot in the list of survivors, and its share of the sort's memory
_FEWEST_ALIKE = 4
_LARGE_BYTES = bytes(range(0x80, 0x100))
_NULL = b"\1"


def digest(key: bytes) -> int:
    """The key in the map of a key that is too long to be kept."""
    return int.from_bytes(blake2b(key, digest_size=_DIGEST_BYTES).digest(), "little")


def map_key(key: bytes) -> MapKey:
    """The form of a key in the map."""
    return key if len(key) <= LONGEST_VERBATIM_KEY_BYTES else digest(key)


def _object_bytes(key_bytes: int) -> int:
    """The memory of a bytes object of this length."""
    return (33 + key_bytes + 15) & ~15


class KeyMap:
    """The map, filled batch by batch in the order of the log; see the module."""

    __slots__ = ("_entry_bytes", "_limit_bytes", "entries", "full", "latest_offset", "tombstones")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._entry_bytes = 0
        self.entries: dict[MapKey, int] = {}
        #: Offsets of all records without a value, in order, whether they are the last of their key or not.
        self.tombstones: list[int] = []
        self.latest_offset = -1
        self.full = False

    @property
    def used_bytes(self) -> int:
        """The memory of the map, and of the list of survivors that it will become."""
        return (
            sys.getsizeof(self.entries)
            + self._entry_bytes
            + len(self.entries) * (_OFFSET_BYTES + _LIST_BYTES)
            + sys.getsizeof(self.tombstones)
            + len(self.tombstones) * _OFFSET_BYTES
        )

    @property
    def utilization(self) -> float:
        return self.used_bytes / self._limit_bytes if self._limit_bytes else 1.0

    def survivors(self) -> list[int]:
        """The offsets of the records that are the last of their keys, in order."""
        return sorted(self.entries.values())

    def _has_room(self, records: int, longest_key_bytes: int) -> bool:
        """Whether `records` new keys fit. The first ones always do, or cleaning would make no progress."""
        count = len(self.entries)
        if count == 0:
            return True
        table = sys.getsizeof(self.entries)
        # A table of 2**k slots holds 2/3 of that; it doubles, and the old one is kept while it is copied.
        growth = 2 * table if (count + records) * 3 >= _slots(count) * 2 else 0
        new = records * (_object_bytes(longest_key_bytes) + _OFFSET_BYTES + _LIST_BYTES)
        return self.used_bytes + growth + new <= self._limit_bytes

    def add(self, data: bytes, position: int, end: int, header: BatchHeader, start_offset: int) -> None:
        """Add the keys of a batch's records, which are at data[position:end] uncompressed.

        Records below `start_offset` are ignored. Sets `full` if some of the records do not fit, and
        `latest_offset` to the last record that was added. Raises CorruptBatch.
        """
        dense = header.record_count == header.last_offset_delta + 1
        add = self._add_dense if dense and header.base_offset >= start_offset else self._add_any
        try:
            at = add(data, position, end, header, start_offset)
        except IndexError:
            raise CorruptBatch("a record ends before its fields do") from None
        if at != end and not self.full:
            raise CorruptBatch(f"{end - at} bytes are left after the last record")

    def _add_dense(self, data: bytes, at: int, end: int, header: BatchHeader, _: int) -> int:
        """Add a batch whose offsets have no gap, as it was produced. Returns the end of its records."""
        count = header.record_count
        longest = LONGEST_VERBATIM_KEY_BYTES
        first = 0
        while first < count:
            stop, delta_bytes = next_slice(first)
            stop = min(stop, count)
            if not self._has_room(stop - first, longest):
                self.full = True
                return at
            before = len(self.entries)
            offsets = range(header.base_offset + first, header.base_offset + stop)
            shape = _shape_of(data, at, end, len(offsets), delta_bytes)
            if shape is not None:
                longest = shape.key_bytes
                at = self._add_alike(data, at, offsets, shape)
            else:
                at, longest = self._add_slice(data, at, offsets, delta_bytes)
            self._entry_bytes += (len(self.entries) - before) * _object_bytes(longest)
            first = stop
            self.latest_offset = header.base_offset + stop - 1
        return at

    def _add_alike(self, data: bytes, at: int, offsets: range, shape: _Shape) -> int:
        """Add records of one size with keys of one size, without a loop in Python."""
        stop = at + shape.record_bytes * len(offsets)
        keys = shape.layout.iter_unpack(memoryview(data)[at:stop])
        self.entries.update(zip(chain.from_iterable(keys), offsets, strict=True))
        value_lengths = data[at + shape.value_position : stop : shape.record_bytes]
        found = value_lengths.find(_NULL)
        while found >= 0:
            self.tombstones.append(offsets[found])
            found = value_lengths.find(_NULL, found + 1)
        return stop

    def _add_slice(self, data: bytes, at: int, offsets: range, delta_bytes: int) -> tuple[int, int]:
        """Add any records. Returns the start of the next one, and the length of the longest key."""
        keys: list[MapKey | None] = []
        add = keys.append
        longest = 32
        skip = 1 + delta_bytes
        for offset in offsets:
            length = data[at]
            if length < 0x80:
                field = at + 2
                at += 1 + (length >> 1)
            elif data[at + 1] < 0x80:
                field = at + 3
                at += 2 + (((length & 0x7F) | data[at + 1] << 7) >> 1)
            else:
                length, field = read_length(data, at)
                at = field + (length >> 1)
                field += 1
            while data[field] > 0x7F:  # skip the timestamp, then the offset delta, whose size is known
                field += 1
            field += skip
            length = data[field]
            if length < 0x80:
                if length & 1:
                    add(None)  # a record without a key is dropped by cleaning
                    continue
                start = field + 1
                field = start + (length >> 1)
                add(data[start:field])
                if length > longest:
                    longest = length
            else:
                length, start = read_length(data, field)
                field = start + (length >> 1)
                add(digest(data[start:field]))
            if data[field] == 1:
                self.tombstones.append(offset)
        entries = cast("dict[MapKey | None, int]", self.entries)
        entries.update(zip(keys, offsets, strict=True))
        entries.pop(None, None)
        return at, longest >> 1

    def _add_any(self, data: bytes, at: int, end: int, header: BatchHeader, start_offset: int) -> int:
        """Add a batch with gaps, or one with records below `start_offset`."""
        count = header.record_count
        for taken in range(count):
            if taken % SLICE_RECORDS == 0 and not self._has_room(
                min(SLICE_RECORDS, count - taken), LONGEST_VERBATIM_KEY_BYTES
            ):
                self.full = True
                return at
            length, body = read_length(data, at)
            at = body + (length >> 1)
            delta, field = read_offset_delta(data, skip_varint(data, body + 1))
            length, start = read_length(data, field)
            field = start + (length >> 1)
            offset = header.base_offset + delta
            if length & 1 == 0 and offset >= start_offset:
                key = map_key(data[start:field])
                if key not in self.entries:
                    self._entry_bytes += (
                        _object_bytes(len(key)) if isinstance(key, bytes) else _DIGEST_OBJECT_BYTES
                    )
                self.entries[key] = offset
                if data[field] == 1:
                    self.tombstones.append(offset)
            self.latest_offset = max(self.latest_offset, offset)
        return at


class _Shape(NamedTuple):
    """The layout of equal records: their size, and the
    positions of keys and of the values' lengths in each.
    """

    record_bytes: int
    key_bytes: int
    value_position: int
    layout: Struct


@lru_cache(maxsize=256)
def _layout(key_position: int, key_bytes: int, record_bytes: int) -> Struct:
    return Struct(f"{key_position}x{key_bytes}s{record_bytes - key_position - key_bytes}x")


def _shape_of(data: bytes, at: int, end: int, count: int, delta_bytes: int) -> _Shape | None:
    """The layout of the `count` records at `at`, None if they differ or their keys are not short."""
    length, body = read_length(data, at)
    record_bytes = body - at + (length >> 1)
    stop = at + record_bytes * count
    if stop > end or count < _FEWEST_ALIKE:
        return None
    for position in range(at, body):
        if data[position:stop:record_bytes].count(data[position]) != count:
            return None
    field = body + 1
    while data[field] > 0x7F:
        if data[field:stop:record_bytes].translate(None, _LARGE_BYTES):
            return None
        field += 1
    if not data[field:stop:record_bytes].isascii():
        return None
    field += 1 + delta_bytes
    coded = data[field]
    if coded & 0x81 or data[field:stop:record_bytes].count(coded) != count:
        return None
    key_bytes = coded >> 1
    key_position = field + 1 - at
    value_position = key_position + key_bytes
    if value_position >= record_bytes:
        raise CorruptBatch("a record's key runs past its end")
    return _Shape(record_bytes, key_bytes, value_position, _layout(key_position, key_bytes, record_bytes))


def _slots(count: int) -> int:
    """The slots of a dict's table that has grown to hold `count` entries."""
    slots = 8
    while slots * 2 < count * 3:
        slots *= 2
    return slots
