"""Queries of the records of one batch, answered without copying keys and values.

All take a batch whose header was parsed and whose CRC was checked before, and raise CorruptBatch if its
records do not follow the format or decompress to more than `max_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.protocol.errors import CorruptBatch, MalformedMessage
from ottla.protocol.record_batch import (
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    BatchHeader,
    TimestampType,
    read_nullable_length,
    record_frames,
    records_payload,
)


def contains_null_key(
    data: bytes | bytearray | memoryview,
    position: int,
    header: BatchHeader,
    *,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> bool:
    """Whether a record of the batch has no key."""
    return next(null_key_indexes(data, position, header, max_bytes=max_bytes), None) is not None


def null_key_indexes(
    data: bytes | bytearray | memoryview,
    position: int,
    header: BatchHeader,
    *,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> Iterator[int]:
    """The indexes in the batch, from 0, of the records without a key."""
    payload = records_payload(data, position, header, max_bytes=max_bytes)
    try:
        for index, (start, end, _timestamp, _offset_delta) in enumerate(record_frames(payload, header)):
            length, _ = read_nullable_length(payload, start, end)
            if length < 0:
                yield index
    except MalformedMessage as problem:
        raise CorruptBatch(f"a record is malformed: {problem}") from None


def record_timestamps(
    data: bytes | bytearray | memoryview,
    position: int,
    header: BatchHeader,
    *,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> Iterator[tuple[int, int]]:
    """The offset and timestamp of each record."""
    payload = records_payload(data, position, header, max_bytes=max_bytes)
    base_offset = header.base_offset
    log_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    try:
        for _start, _end, timestamp, offset_delta in record_frames(payload, header):
            yield base_offset + offset_delta, header.max_timestamp if log_append_time else timestamp
    except MalformedMessage as problem:
        raise CorruptBatch(f"a record is malformed: {problem}") from None


def find_max_timestamp(
    data: bytes | bytearray | memoryview,
    position: int,
    header: BatchHeader,
    *,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> tuple[int, int] | None:
    """The offset and timestamp of the first record with the largest timestamp; None in an empty batch."""
    best: tuple[int, int] | None = None
    for offset, timestamp in record_timestamps(data, position, header, max_bytes=max_bytes):
        if best is None or timestamp > best[1]:
            best = offset, timestamp
    return best


def find_offset_by_timestamp(
    data: bytes | bytearray | memoryview,
    position: int,
    header: BatchHeader,
    timestamp_ms: int,
    *,
    start_offset: int = 0,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> tuple[int, int] | None:
    """The offset and timestamp of the first record from `start_offset` on and not older than `timestamp_ms`,
    or None.
    """
    for offset, timestamp in record_timestamps(data, position, header, max_bytes=max_bytes):
        if timestamp >= timestamp_ms and offset >= start_offset:
            return offset, timestamp
    return None
