"""Variable-length integers: 7 bits a byte, least significant group first, signed ones zigzag-coded.

`unsigned_varint` is for counts and lengths in flexible messages (KIP-482), `varint` (32 bits) and `varlong`
(64 bits) are the signed ones of records. Readers take a buffer and a position and return the value and the
position after it. They raise `MalformedMessage` if the buffer ends first or the value does not fit its width.
"""

from __future__ import annotations

from ottla.protocol.errors import MalformedMessage

_MAX_UINT32 = (1 << 32) - 1
_MAX_UINT64 = (1 << 64) - 1


def read_unsigned_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """An unsigned 32-bit integer of 1 to 5 bytes."""
    return _read(data, position, _MAX_UINT32)


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """A zigzag-coded 32-bit integer of 1 to 5 bytes."""
    value, position = _read(data, position, _MAX_UINT32)
    return (value >> 1) ^ -(value & 1), position


def read_varlong(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """A zigzag-coded 64-bit integer of 1 to 10 bytes."""
    value, position = _read(data, position, _MAX_UINT64)
    return (value >> 1) ^ -(value & 1), position


def write_unsigned_varint(buffer: bytearray, value: int) -> None:
    """Append `value`, 0 to 2^32-1. Raises ValueError outside of that."""
    if not 0 <= value <= _MAX_UINT32:
        raise ValueError(f"{value} does not fit an unsigned varint")
    _write(buffer, value)


def write_varint(buffer: bytearray, value: int) -> None:
    """Append a signed 32-bit value. Raises ValueError outside of that."""
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise ValueError(f"{value} does not fit a varint")
    _write(buffer, (value << 1) ^ (value >> 31))


def write_varlong(buffer: bytearray, value: int) -> None:
    """Append a signed 64-bit value. Raises ValueError outside of that."""
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise ValueError(f"{value} does not fit a varlong")
    _write(buffer, (value << 1) ^ (value >> 63))


def _read(data: bytes | memoryview, position: int, limit: int) -> tuple[int, int]:
    try:
        byte = data[position]
        position += 1
        if byte < 0x80:
            return byte, position
        value = byte & 0x7F
        shift = 7
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if value > limit:
                raise MalformedMessage("a variable-length integer is larger than its type")
            if byte < 0x80:
                return value, position
            shift += 7
            if shift > 63:
                raise MalformedMessage("a variable-length integer has too many bytes")
    except IndexError:
        raise MalformedMessage("the bytes end inside a variable-length integer") from None


def _write(buffer: bytearray, value: int) -> None:
    while value > 0x7F:
        buffer.append((value & 0x7F) | 0x80)
        value >>= 7
    buffer.append(value)
