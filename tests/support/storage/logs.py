"""Logs filled by a few words, for the tests of storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.protocol.compression import Codec
from ottla.protocol.record_batch import NewRecord, Record, decode_records, encode_batch, parse_batch_header
from ottla.storage.log import AppendResult, Log, LogConfig

NOW_MS = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200)


def open_log(directory: Path, config: LogConfig = SMALL, *, now_ms: int = NOW_MS, **options: Any) -> Log:
    """The log of partition 0 of topic `t` below `directory`."""
    return Log.open(directory / "t-0", config, now_ms=now_ms, **options)


def append(
    log: Log,
    *values: bytes,
    timestamp: int = NOW_MS,
    timestamps: list[int] | None = None,
    leader_epoch: int = 0,
    codec: Codec = Codec.NONE,
    now_ms: int = NOW_MS,
    offset: int | None = None,
    **options: Any,
) -> AppendResult:
    """Append one batch with these values at the log's end."""
    times = timestamps if timestamps is not None else [timestamp] * len(values)
    batch = encode_batch(
        [NewRecord(None, value, at) for value, at in zip(values, times, strict=True)],
        base_offset=log.log_end_offset if offset is None else offset,
        leader_epoch=leader_epoch,
        codec=codec,
        **options,
    )
    return log.append(batch, [parse_batch_header(batch)], now_ms=now_ms)


def fill(log: Log, batches: int, *, records: int = 1, size: int = 100, first_timestamp: int = NOW_MS) -> None:
    """Append batches whose values tell their offsets, a millisecond apart."""
    for number in range(batches):
        start = log.log_end_offset
        append(
            log,
            *(b"%d:" % (start + index) + b"x" * size for index in range(records)),
            timestamp=first_timestamp + number,
        )


def read_all(log: Log, start_offset: int | None = None) -> list[Record]:
    """Every record from `start_offset`, or from the log's start, read as a consumer does."""
    offset = log.log_start_offset if start_offset is None else start_offset
    records: list[Record] = []
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20, upper_offset=log.log_end_offset, at_least_one_batch=True).read()
        assert data, f"nothing to read at {offset}, though the log ends at {log.log_end_offset}"
        position = 0
        while position < len(data):
            header = parse_batch_header(data, position)
            records += [record for record in decode_records(data, position) if record.offset >= offset]
            position += header.size_bytes
            last = header
        offset = last.next_offset
    return records


def offsets(log: Log) -> list[int]:
    return [record.offset for record in read_all(log)]
