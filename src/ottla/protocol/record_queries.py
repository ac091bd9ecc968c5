"""Searches the records of one batch by timestamp, without copying keys and values.

The batch's header was parsed and its CRC checked before. Raises CorruptBatch if its records do not follow the
format or decompress to more than `max_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.protocol.errors import CorruptBatch, MalformedMessage
from ottla.protocol.record_batch import (
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    BatchHeader,
    TimestampType,
    record_frames,
    records_payload,
)


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


def find_offset_by_timestamp(
    data: bytes | bytearray | memoryview,
    position: int,
    header: BatchHeader,
    timestamp_ms: int,
    *,
    start_offset: int = 0,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> tuple[int, int] | None:
    """The offset and timestamp of the first record from
    `start_offset` on and not older than `timestamp_ms`, or None.
    """
    for offset, timestamp in record_timestamps(data, position, header, max_bytes=max_bytes):
        if timestamp >= timestamp_ms and offset >= start_offset:
            return offset, timestamp
    return None
