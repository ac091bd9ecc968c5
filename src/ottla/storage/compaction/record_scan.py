"""Reads single fields of encoded records, for the less frequent branches of this package's loops.

A record is: length, attributes (a byte), timestamp delta, offset delta, key length, key, value length, value,
headers; lengths and deltas are zigzag varints. Lengths are returned as they are coded: twice the length, odd
for null. All functions raise IndexError past the end of the data, CorruptBatch for a varint that is too long.
"""

from __future__ import annotations

from ottla.protocol.errors import CorruptBatch

_MAX_VARINT_BYTES = 10


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
