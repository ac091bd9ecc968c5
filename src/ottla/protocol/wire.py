"""The primitive parts of Kafka's wire format that the compiled codecs call: varints, tag sections, UUIDs.

Readers take the buffer and a position and return the value and the position after it. They raise
MalformedMessage, or IndexError where the buffer ends early, which `Message.decode` turns into the former.
"""

from __future__ import annotations

import functools
import uuid
from typing import TYPE_CHECKING, Final

from ottla.protocol.errors import MalformedMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.fields import Buffer

ONE_BYTE: Final = tuple(bytes((value,)) for value in range(128))
"""The varints of 0 to 127: most lengths and tag counts."""

MAX_STRING_BYTES: Final = 0x7FFF


def read_unsigned_varint(data: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits: at most five bytes, the least significant seven bits first."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        if byte < 0x80:
            value |= byte << shift
            if value > 0xFFFFFFFF:
                raise MalformedMessage("a varint does not fit in 32 bits")
            return value, position
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 28:
            raise MalformedMessage("a varint is longer than five bytes")


def write_unsigned_varint(value: int) -> bytes:
    """The unsigned varint of 0 to 2^32 - 1. The short forms are spelled out: most are short."""
    if 0 <= value < 0x80:
        return ONE_BYTE[value]
    if 0 < value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if 0 < value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    if not 0 <= value <= 0xFFFFFFFF:
        raise ValueError(f"{value} does not fit in an unsigned 32-bit varint")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_tags(data: Buffer, position: int, count: int) -> tuple[list[tuple[int, int, int]], int]:
    """The `count` tagged fields at `position` as (tag, start, end), and the position after them.

    A tag may come once. Kafka writes tags in rising order; the order is not checked, as Kafka does not.
    """
    fields = []
    seen = set()
    size = len(data)
    for _ in range(count):
        tag, position = read_unsigned_varint(data, position)
        length, position = read_unsigned_varint(data, position)
        end = position + length
        if end > size:
            raise MalformedMessage(f"tagged field {tag} of {length} bytes is longer than what is left")
        if tag in seen:
            raise MalformedMessage(f"tagged field {tag} comes twice")
        seen.add(tag)
        fields.append((tag, position, end))
        position = end
    return fields, position


def write_tags(
    write: Callable[[Buffer], object], known: list[tuple[int, bytes]], unknown: dict[int, bytes] | None
) -> None:
    """A tag section: known and unknown tagged fields together in rising order of their tags."""
    if unknown:
        merged = dict(known)
        for tag, value in unknown.items():
            if tag in merged:
                raise ValueError(f"the unknown tagged field {tag} has the tag of a known field")
            merged[tag] = value
        known = sorted(merged.items())
    write(write_unsigned_varint(len(known)))
    for tag, value in known:
        write(write_unsigned_varint(tag) + write_unsigned_varint(len(value)))
        write(value)


def cut_text(text: bytes, max_bytes: int = MAX_STRING_BYTES) -> bytes:
    """As much of a text in UTF-8 as fits in `max_bytes`, whole characters."""
    return text[:max_bytes].decode(errors="ignore").encode()


@functools.lru_cache(maxsize=4096)
def uuid_of(data: bytes) -> uuid.UUID:
    """The UUID of sixteen bytes. Memoised: a topic's id comes with every request."""
    return uuid.UUID(bytes=data)
