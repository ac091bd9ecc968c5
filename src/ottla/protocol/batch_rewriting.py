"""Rewrites batches: with only the records that compaction keeps, or with another codec."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.protocol.compression import Codec, compress
from ottla.protocol.record_batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    BatchHeader,
    NewRecord,
    Record,
    TimestampType,
    assemble_batch,
    write_record,
)


def rebuild_batch(
    header: BatchHeader,
    records: Sequence[Record],
    *,
    codec: Codec | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """The batch of `header` with only `records` (some of its own), as compaction leaves it.

    Offsets, offset range, producer fields and type stay; `records` may be empty, which keeps a producer's
    last sequence known. `delete_horizon_ms` sets the horizon; by default the one in `header` stays. Raises
    ValueError for an offset outside of the batch.
    """
    attributes = header.attributes
    base_timestamp = header.base_timestamp
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
        base_timestamp = delete_horizon_ms
    if codec is not None:
        attributes = (attributes & ~CODEC_MASK) | codec
    payload = bytearray()
    for record in records:
        if not header.base_offset <= record.offset <= header.last_offset:
            raise ValueError(f"offset {record.offset} is not in {header.base_offset}..{header.last_offset}")
        kept = NewRecord(record.key, record.value, record.timestamp, record.headers)
        write_record(payload, kept, record.offset - header.base_offset, base_timestamp)
    max_timestamp = header.max_timestamp
    if header.timestamp_type is TimestampType.CREATE_TIME and records:
        max_timestamp = max(record.timestamp for record in records)
    kept_header = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=len(records),
    )
    return assemble_batch(kept_header, compress(kept_header.compression, payload))
