"""Confluent's wire format, by which a payload names its schema: a zero byte and the id before the data.

For Protobuf the index path of the message within its file follows the id: a count, then the indexes, each a
zig-zag varint. The path [0] is the single byte 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

MAGIC_BYTE: Final = 0
_HEADER: Final = struct.Struct(">bi")
PREFIX_BYTES: Final = _HEADER.size
MAX_INDEX_PATH: Final = 64
"""The most nested messages of a path; protoc nests at most 31 deep."""


class UnframedPayload(ValueError):
    """Bytes that were not written by a serializer of a Schema Registry."""


def frame(schema_id: int, data: bytes, message_index: Sequence[int] | None = None) -> bytes:
    """`data` after the frame with its schema's id, and for Protobuf with `message_index`."""
    index = b"" if message_index is None else encode_message_index(message_index)
    return _HEADER.pack(MAGIC_BYTE, schema_id) + index + data


def split_frame(payload: bytes) -> tuple[int, memoryview]:
    """The schema's id, and the bytes after it. Raises UnframedPayload."""
    if len(payload) < PREFIX_BYTES:
        raise UnframedPayload(f"a payload of {len(payload)} bytes is too short to name a schema")
    magic, schema_id = _HEADER.unpack_from(payload)
    if magic != MAGIC_BYTE:
        raise UnframedPayload(f"a payload that names its schema begins with a zero byte, not {magic}")
    return schema_id, memoryview(payload)[PREFIX_BYTES:]


def encode_message_index(path: Sequence[int]) -> bytes:
    """The path as Protobuf serializers write it."""
    if list(path) == [0]:
        return b"\0"
    return b"".join(_zigzag(value) for value in (len(path), *path))


def split_message_index(data: memoryview) -> tuple[tuple[int, ...], memoryview]:
    """The path and the message's bytes. Raises UnframedPayload."""
    count, rest = _read_zigzag(data)
    if count == 0:
        return (0,), rest
    if not 0 < count <= MAX_INDEX_PATH:
        raise UnframedPayload(f"a message's index path can't have {count} elements")
    path = []
    for _ in range(count):
        value, rest = _read_zigzag(rest)
        path.append(value)
    return tuple(path), rest


def _zigzag(value: int) -> bytes:
    left = (value << 1) ^ (value >> 63)
    written = bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)


def _read_zigzag(data: memoryview) -> tuple[int, memoryview]:
    value = 0
    for position, byte in enumerate(data[:5]):
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), data[position + 1 :]
    raise UnframedPayload("the message's index path is cut short")
