"""Reads single fields of encoded records, for the less frequent branches of this package's loops.

A record is: length, attributes (a byte), timestamp delta, offset delta, key length, key, value length, value,
headers; lengths and deltas are zigzag varints. Lengths are returned as they are coded: twice the length, odd
for null. All functions raise IndexError past the end of the data, CorruptBatch for a varint that is too long.
"""

from __future__ import annotations

from ottla.protocol.errors import CorruptBatch

_MAX_VARINT_BYTES = 10
SLICE_RECORDS = 1024


def read_coded(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint and the position after it."""
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    shift = 7
    for position in range(at + 1, at + _MAX_VARINT_BYTES):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise CorruptBatch("a variable-length integer has too many bytes")


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """A coded length (twice the length; odd for null) and the position after it."""
    return read_coded(data, at)


def read_offset_delta(data: bytes, at: int) -> tuple[int, int]:
    """An offset delta and the position after it. Raises CorruptBatch for a negative one."""
    value, at = read_coded(data, at)
    if value & 1:
        raise CorruptBatch("a record has a negative offset delta")
    return value >> 1, at


def read_timestamp_delta(data: bytes, at: int) -> tuple[int, int]:
    """A signed timestamp delta and the position after it."""
    value, at = read_coded(data, at)
    return (value >> 1) ^ -(value & 1), at


def skip_varint(data: bytes, at: int) -> int:
    """The position after a varint."""
    while data[at] > 0x7F:
        at += 1
    return at + 1


def next_slice(first: int) -> tuple[int, int]:
    """The end of the slice of records that begins with `first`, and the bytes of their offset deltas."""
    if first < 64:
        return 64, 1
    if first < 8192:
        return min(first + SLICE_RECORDS, 8192), 2
    if first < 1 << 20:
        return min(first + SLICE_RECORDS, 1 << 20), 3
    if first < 1 << 27:
        return min(first + SLICE_RECORDS, 1 << 27), 4
    return first + SLICE_RECORDS, 5


def size_of_alike(data: bytes, at: int, end: int, count: int) -> int | None:
    """The size of each of the `count` records at `at` if they all have one, else None; found without a loop.

    A record that begins where the one before it ends, with the same coded length, has its size.
    """
    length, body = read_length(data, at)
    record_bytes = body - at + (length >> 1)
    stop = at + record_bytes * count
    if stop > end:
        return None
    for position in range(at, body):
        if data[position:stop:record_bytes].count(data[position]) != count:
            return None
    return record_bytes
