"""The last offset of every key in a section of a log, within a bound on its memory.

A dict from key to offset: in CPython nothing of ours is faster. Keys of up to 63 bytes are held as they are
and cannot collide; a longer one is held as the integer of its 128-bit BLAKE2 digest, which is never equal
to any bytes. The bound counts what the interpreter really takes: the dict's table with the older half that
lives while it grows, the key objects, the offsets as integer objects, and the list of offsets that
`survivors` makes of them. That is about 120 to 150 bytes a key, where Apache Kafka's table takes 27.

When the next records might not fit, the map is full, and covers the section up to `latest_offset` only.
"""

from __future__ import annotations

import sys
from hashlib import blake2b

from ottla.protocol.errors import CorruptBatch
from ottla.storage.compaction.record_scan import read_length, read_offset_delta, skip_varint

MapKey = bytes | int

LONGEST_VERBATIM_KEY_BYTES = 63
_DIGEST_BYTES = 16
_OFFSET_BYTES = 32  # an integer object
_DIGEST_OBJECT_BYTES = 48
_LIST_BYTES = 12  # a slot in the list of survivors, and its share of the sort's memory
_SLICE_RECORDS = 1024


def digest(key: bytes) -> int:
    """What stands for a key that is too long to be held."""
    return int.from_bytes(blake2b(key, digest_size=_DIGEST_BYTES).digest(), "little")


def map_key(key: bytes) -> MapKey:
    """How the map knows a key."""
    return key if len(key) <= LONGEST_VERBATIM_KEY_BYTES else digest(key)


def _object_bytes(key_bytes: int) -> int:
    """What a bytes object of this length takes."""
    return (33 + key_bytes + 15) & ~15


class KeyMap:
    """Filled batch by batch in the order of the log; see the module."""

    __slots__ = ("_entry_bytes", "_limit_bytes", "entries", "full", "latest_offset", "tombstones")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._entry_bytes = 0
        self.entries: dict[MapKey, int] = {}
        #: Offsets of records without a value, in order; not all of them are the last of their key.
        self.tombstones: list[int] = []
        self.latest_offset = -1
        self.full = False

    @property
    def used_bytes(self) -> int:
        """What the map takes now, with the list of survivors that it will become."""
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
        """Whether `records` new keys fit. The first ones always do, or cleaning would not move on."""
        count = len(self.entries)
        if count == 0:
            return True
        table = sys.getsizeof(self.entries)
        # A table of 2**k slots holds 2/3 of that; it doubles, and the old one lives on while it is copied.
        growth = 2 * table if (count + records) * 3 >= _slots(count) * 2 else 0
        new = records * (_object_bytes(longest_key_bytes) + _OFFSET_BYTES + _LIST_BYTES)
        return self.used_bytes + growth + new <= self._limit_bytes

    def add_dense(
        self, data: bytes, position: int, end: int, base_offset: int, count: int, start_offset: int
    ) -> None:
        """Note the keys of a batch's `count` records, offsets without a gap, at data[position:end].

        Those below `start_offset` are passed over. Sets `full` when the map cannot take a part of them, and
        `latest_offset` to the last record that was taken. Raises CorruptBatch.
        """
        longest = LONGEST_VERBATIM_KEY_BYTES
        at = position
        first = 0
        while first < count:
            stop, delta_bytes = _next_slice(first)
            stop = min(stop, count)
            if not self._has_room(stop - first, longest):
                self.full = True
                return
            before = len(self.entries)
            offsets = range(base_offset + first, base_offset + stop)
            try:
                at, longest = self._add_slice(data, at, end, offsets, delta_bytes, start_offset)
            except IndexError:
                raise CorruptBatch("a record ends before its fields do") from None
            self._entry_bytes += (len(self.entries) - before) * _object_bytes(longest)
            first = stop
            self.latest_offset = base_offset + stop - 1
        if at != end:
            raise CorruptBatch(f"{end - at} bytes are left after the last record")

    def _add_slice(
        self, data: bytes, at: int, end: int, offsets: range, delta_bytes: int, start_offset: int
    ) -> tuple[int, int]:
        """Where the next record begins, and the length of the longest key. The loop that has to be fast."""
        entries = self.entries
        longest = 0
        for offset in offsets:
            length = data[at]
            if length < 0x80:
                body = at + 1
            elif data[at + 1] < 0x80:
                length = (length & 0x7F) | data[at + 1] << 7
                body = at + 2
            else:
                length, body = read_length(data, at)
            at = body + (length >> 1)
            field = body + 1  # the timestamp, then the offset delta, whose size is known
            while data[field] > 0x7F:
                field += 1
            field += 1 + delta_bytes
            length = data[field]
            if length < 0x80:
                if length & 1:
                    continue  # no key: cleaning drops the record
                start = field + 1
                field = start + (length >> 1)
                key: MapKey = data[start:field]
                if length > longest:
                    longest = length
            else:
                length, start = read_length(data, field)
                field = start + (length >> 1)
                key = digest(data[start:field])
            if field >= at or at > end:
                raise CorruptBatch("a record's key runs past its end")
            if offset < start_offset:
                continue
            entries[key] = offset
            if data[field] == 1:
                self.tombstones.append(offset)
        return at, max(longest >> 1, 16)

    def add_sparse(
        self, data: bytes, position: int, end: int, base_offset: int, count: int, start_offset: int
    ) -> None:
        """As `add_dense`, for a batch that was compacted before and has gaps in its offsets."""
        at = position
        longest = LONGEST_VERBATIM_KEY_BYTES
        for taken in range(count):
            if taken % _SLICE_RECORDS == 0 and not self._has_room(
                min(_SLICE_RECORDS, count - taken), longest
            ):
                self.full = True
                return
            try:
                length, body = read_length(data, at)
                at = body + (length >> 1)
                delta, field = read_offset_delta(data, skip_varint(data, body + 1))
                length, start = read_length(data, field)
                field = start + (length >> 1)
                if length & 1 == 0 and (field >= at or at > end):
                    raise CorruptBatch("a record's key runs past its end")
                offset = base_offset + delta
                if length & 1 == 0 and offset >= start_offset:
                    key = map_key(data[start:field])
                    if key not in self.entries:
                        self._entry_bytes += (
                            _object_bytes(len(key)) if isinstance(key, bytes) else _DIGEST_OBJECT_BYTES
                        )
                    self.entries[key] = offset
                    if data[field] == 1:
                        self.tombstones.append(offset)
            except IndexError:
                raise CorruptBatch("a record ends before its fields do") from None
            self.latest_offset = max(self.latest_offset, offset)
        if at != end:
            raise CorruptBatch(f"{end - at} bytes are left after the last record")


def _slots(count: int) -> int:
    """Slots of a dict's table that has grown to hold `count` entries."""
    slots = 8
    while slots * 2 < count * 3:
        slots *= 2
    return slots


def _next_slice(first: int) -> tuple[int, int]:
    """Where a slice of records ends that begins with the record `first`, and the bytes of their deltas."""
    if first < 64:
        return 64, 1
    if first < 8192:
        return min(first + _SLICE_RECORDS, 8192), 2
    if first < 1 << 20:
        return min(first + _SLICE_RECORDS, 1 << 20), 3
    if first < 1 << 27:
        return min(first + _SLICE_RECORDS, 1 << 27), 4
    return first + _SLICE_RECORDS, 5
