"""Finds records by timestamp exactly: time index, then offset index, then headers, then one batch.

Only the batch that holds the answer is decompressed. Timestamps need not grow with offsets: the result is the
first record, in the order of the log, that qualifies.

Records are not decoded when they are appended, so a batch with a valid CRC may hold none that can be decoded,
or decompress beyond any bound. Such a batch counts as one record, with its newest timestamp at its first
offset: a reader that seeks there finds the damage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.protocol import record_queries
from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import check_crc, parse_batch_header
from ottla.storage.segment import BatchPosition, Segment


class TimestampedOffset(NamedTuple):
    """A record found by its timestamp. `leader_epoch` is -1 if the batch has none."""

    offset: int
    timestamp: int
    leader_epoch: int


def find_offset_by_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int
) -> TimestampedOffset | None:
    """The first record from `start_offset` on whose timestamp is not below `timestamp_ms`."""
    for segment in segments:
        if segment.end_offset <= start_offset or segment.largest()[0] < timestamp_ms:
            continue
        first = segment.locate(max(segment.time_index.lookup(timestamp_ms)[1], start_offset))
        if first is None:
            continue
        for batch in segment.walk(first.position):
            if batch.max_timestamp >= timestamp_ms and batch.last_offset >= start_offset:
                found = _first_in_batch(segment, batch, timestamp_ms, start_offset)
                if found is not None:
                    return found
    return None


def find_max_timestamp(segments: Sequence[Segment]) -> TimestampedOffset | None:
    """The first record with the largest timestamp of all. None without timestamps."""
    segment = max(segments, key=lambda segment: segment.largest()[0])
    timestamp, offset = segment.largest()
    batch = segment.locate(offset) if timestamp >= 0 else None
    return None if batch is None else _first_in_batch(segment, batch, timestamp, batch.base_offset)


def _first_in_batch(
    segment: Segment, batch: BatchPosition, timestamp_ms: int, start_offset: int
) -> TimestampedOffset | None:
    data = segment.file().read(batch.size_bytes, batch.position)
    try:
        header = parse_batch_header(data)
        check_crc(data, 0, header)
    except CorruptBatch as error:
        raise segment.corruption(batch.position, batch.base_offset, str(error)) from error
    try:
        found = record_queries.find_offset_by_timestamp(
            data, 0, header, timestamp_ms, start_offset=start_offset
        )
    except CorruptBatch:
        found = max(header.base_offset, start_offset), header.max_timestamp
    return None if found is None else TimestampedOffset(found[0], found[1], header.partition_leader_epoch)
