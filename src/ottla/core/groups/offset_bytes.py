"""Reads committed offsets straight from a record's bytes, which are most of a groups' partition at loading.

A record of type 1 (OffsetCommit) in the value's versions 1 to 4 is read by hand in 1.8 us; the message
classes take 6. Any other record, and any that does not fit, is left to them (None).
"""

from __future__ import annotations

import functools
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from ottla.core.groups.coordinator_records import NO_TIMESTAMP, CommittedOffset
from ottla.protocol.schema import ZERO_UUID

_PREFIX = b"\x00\x01"
_INT32 = Struct(">i")
_TIMESTAMP = Struct(">q")
_TWO_TIMESTAMPS = Struct(">qq")
_OFFSET_AND_LENGTH = Struct(">qh")
_OFFSET_EPOCH_AND_LENGTH = Struct(">qih")
_OFFSET_AND_EPOCH = Struct(">qi")
_MIN_KEY_BYTES = 10
_MIN_VALUE_BYTES = 20
_TOPIC_ID_BYTES = 16
_TOPIC_ID_TAG = b"\x01\x00\x10"
"""The bytes before a topic id: one tagged field, number 0, of 16 bytes."""


class OffsetOfPartition(NamedTuple):
    """One committed offset of the log, with its group, topic and partition."""

    group_id: str
    topic: str
    partition: int
    offset: CommittedOffset


def read_offset(key: bytes, value: bytes) -> OffsetOfPartition | None:
    """The offset in a record of `__consumer_offsets`; None for any other record."""
    size = len(key)
    if size < _MIN_KEY_BYTES or key[:2] != _PREFIX:
        return None
    end = 4 + (key[2] << 8 | key[3])
    start = end + 2
    if start > size:
        return None
    topic_end = start + (key[end] << 8 | key[end + 1])
    if topic_end + 4 != size:
        return None
    offset = _read_value(value)
    if offset is None:
        return None
    try:
        group_id, topic = key[4:end].decode(), key[start:topic_end].decode()
    except UnicodeDecodeError:
        return None
    return OffsetOfPartition(group_id, topic, _INT32.unpack_from(key, topic_end)[0], offset)


@functools.lru_cache(maxsize=1_000)
def _uuid(data: bytes) -> UUID:
    """A cached UUID: a group has few topics, and making a UUID takes as long as half of a record."""
    return UUID(bytes=data)


def _read_value(value: bytes) -> CommittedOffset | None:
    size = len(value)
    if size < _MIN_VALUE_BYTES:
        return None
    version = value[0] << 8 | value[1]
    epoch, expires, topic_id = -1, NO_TIMESTAMP, ZERO_UUID
    if version == 4:
        offset, epoch = _OFFSET_AND_EPOCH.unpack_from(value, 2)
        start = 15
        end = start + value[14] - 1
        if value[14] & 0x80 or end < start or end + 9 > size:
            return None
        rest = value[end + 8 :]
        if rest[:3] == _TOPIC_ID_TAG and len(rest) == 3 + _TOPIC_ID_BYTES:
            topic_id = _uuid(rest[3:])
        elif rest != b"\x00":
            return None
    elif version == 3:
        offset, epoch, length = _OFFSET_EPOCH_AND_LENGTH.unpack_from(value, 2)
        start = 16
        end = start + length
        if length < 0 or end + 8 != size:
            return None
    elif version in (1, 2):
        offset, length = _OFFSET_AND_LENGTH.unpack_from(value, 2)
        start = 12
        end = start + length
        if length < 0 or end + (16 if version == 1 else 8) != size:
            return None
        if version == 1:
            expires = _TWO_TIMESTAMPS.unpack_from(value, end)[1]
    else:
        return None
    (committed_at,) = _TIMESTAMP.unpack_from(value, end)
    try:
        metadata = value[start:end].decode() if end > start else ""
    except UnicodeDecodeError:
        return None
    return CommittedOffset(offset, epoch, metadata, committed_at, expires, topic_id)
