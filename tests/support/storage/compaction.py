"""Keyed records in logs, and cleanings of them in the test's own process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ottla.protocol.compression import Codec
from ottla.protocol.record_batch import (
    BatchHeader,
    NewRecord,
    decode_records,
    encode_batch,
    encode_end_transaction_marker,
    parse_batch_header,
)
from ottla.storage.compaction.cleaning import Cleaning, CleaningJob, CleaningStats, LastRecord, SourceSegment
from ottla.storage.compaction.selection import examine, groups
from ottla.storage.log import Log, LogConfig
from ottla.storage.segment import Segment
from support.storage.logs import NOW_MS

COMPACTED = LogConfig(
    segment_bytes=2000,
    index_interval_bytes=200,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
)
MAP_BYTES = 1 << 20


def put(
    log: Log,
    records: Iterable[tuple[bytes | None, bytes | None]],
    *,
    timestamp: int = NOW_MS,
    codec: Codec = Codec.NONE,
    leader_epoch: int = 0,
    offset: int | None = None,
    **options: int | bool,
) -> int:
    """Append one batch of these (key, value) pairs; the offset of its first record."""
    base_offset = log.log_end_offset if offset is None else offset
    batch = encode_batch(
        [NewRecord(key, value, timestamp + number) for number, (key, value) in enumerate(records)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        codec=codec,
        **options,  # type: ignore[arg-type]
    )
    log.append(batch, [parse_batch_header(batch)], now_ms=NOW_MS)
    return base_offset


def end_transaction(log: Log, producer_id: int, *, committed: bool, producer_epoch: int = 0) -> int:
    """Append a producer's marker; its offset."""
    offset = log.log_end_offset
    batch = encode_end_transaction_marker(
        committed=committed,
        coordinator_epoch=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp=NOW_MS,
        base_offset=offset,
        leader_epoch=0,
    )
    log.append(batch, [parse_batch_header(batch)], now_ms=NOW_MS)
    log.producers.on_high_watermark(log.log_end_offset)
    return offset


def last_stable_offset(log: Log) -> int:
    unstable = log.producers.first_unstable_offset
    return log.log_end_offset if unstable is None else unstable


def sources(segments: Iterable[Segment]) -> list[SourceSegment]:
    return [SourceSegment(each.base_offset, each.size_bytes, each.end_offset) for each in segments]


def job_for(log: Log, start_offset: int, end_offset: int, *, now_ms: int, map_bytes: int) -> CleaningJob:
    """The broker's order for this section."""
    return CleaningJob(
        directory=log.directory,
        identity=log.files.identity(),
        dirty=sources(
            each
            for each in log.segments[:-1]
            if each.end_offset > start_offset and each.base_offset < end_offset
        ),
        start_offset=start_offset,
        end_offset=end_offset,
        aborted=log.aborted_transactions(log.segments[0].base_offset, end_offset),
        producers={
            each.producer_id: LastRecord(each.batches[-1].last_offset if each.batches else -1, each.epoch)
            for each in log.producers
        },
        now_ms=now_ms,
        delete_retention_ms=log.config.delete_retention_ms,
        index_interval_bytes=log.config.index_interval_bytes,
        max_index_bytes=log.config.segment_index_bytes,
        map_bytes=map_bytes,
        buffer_bytes=1 << 16,
    )


def clean(
    log: Log, checkpoint: int | None = None, *, now_ms: int = NOW_MS, map_bytes: int = MAP_BYTES
) -> tuple[int, CleaningStats]:
    """Clean what may be cleaned, however little. Returns the new checkpoint, and what was done."""
    dirty = examine(log, checkpoint, last_stable_offset(log), now_ms)
    cleaning = Cleaning(
        job_for(log, dirty.start_offset, dirty.end_offset, now_ms=now_ms, map_bytes=map_bytes), lambda _: None
    )
    end_offset = cleaning.build_map()
    for group in groups(log, end_offset):
        done = cleaning.clean(sources(group))
        log.replace_segments(
            group, done.size_bytes, has_transaction_index=done.has_transaction_index, now_ms=now_ms
        )
    return end_offset, cleaning.stats


def contents(log: Log) -> dict[int, tuple[bytes | None, bytes | None]]:
    """offset -> (key, value) of every record that is not of a control batch."""
    return {
        record.offset: (record.key, record.value)
        for header, batch in log.iterate_batches(log.log_start_offset)
        if not header.is_control
        for record in decode_records(batch)
    }


def headers(log: Log) -> list[BatchHeader]:
    return [header for header, _ in log.iterate_batches(log.log_start_offset)]


def table(log: Log) -> Mapping[bytes | None, bytes | None]:
    """The last value of each key, as a reader of the whole log has it; deleted keys are left out."""
    state: dict[bytes | None, bytes | None] = {}
    for key, value in contents(log).values():
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return state


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())
