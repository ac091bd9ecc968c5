"""Transactions in a log: written as producers and coordinators do, read as a read_committed consumer does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ottla.core.replica.leader import last_stable_offset
from ottla.protocol.record_batch import (
    ControlRecordType,
    Record,
    control_record_type,
    decode_records,
    encode_end_transaction_marker,
    iterate_headers,
    parse_batch_header,
)
from ottla.storage.log import AppendResult, Log
from support.storage.logs import NOW_MS


class Aborted(Protocol):
    """A transaction that a fetch names as aborted."""

    @property
    def producer_id(self) -> int: ...
    @property
    def first_offset(self) -> int: ...


def append_marker(
    log: Log,
    producer_id: int,
    producer_epoch: int = 0,
    *,
    committed: bool,
    coordinator_epoch: int = 0,
    leader_epoch: int = 0,
    now_ms: int = NOW_MS,
) -> AppendResult:
    """End a producer's transaction."""
    marker = encode_end_transaction_marker(
        committed=committed,
        coordinator_epoch=coordinator_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp=now_ms,
        base_offset=log.log_end_offset,
        leader_epoch=leader_epoch,
    )
    return log.append(marker, [parse_batch_header(marker)], now_ms=now_ms)


def stable_end(log: Log) -> int:
    """The last stable offset of a log that is replicated up to its end."""
    log.producers.on_high_watermark(log.log_end_offset)
    unstable = log.producers.first_unstable_offset
    if unstable is None:
        return log.log_end_offset
    return last_stable_offset(log.log_end_offset, max(unstable, log.log_start_offset))


def committed_records(data: bytes, aborted: Iterable[Aborted], fetch_offset: int = 0) -> list[Record]:
    """The records that a consumer takes from one read_committed answer, as Kafka's Java client does."""
    waiting = sorted(aborted, key=lambda each: each.first_offset)
    aborting: set[int] = set()
    records: list[Record] = []
    for position, header in iterate_headers(data):
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborting.add(waiting.pop(0).producer_id)
        found = decode_records(data, position)
        if header.is_control:
            if control_record_type(found[0]) is ControlRecordType.ABORT:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            records += [record for record in found if record.offset >= fetch_offset]
    return records


def read_committed(log: Log, start_offset: int | None = None, max_bytes: int = 1 << 20) -> list[Record]:
    """Every committed record from `start_offset` to the last stable offset, fetched piece by piece."""
    offset = log.log_start_offset if start_offset is None else start_offset
    upper = stable_end(log)
    records: list[Record] = []
    while offset < upper:
        piece = log.read(offset, max_bytes, upper_offset=upper, at_least_one_batch=True)
        data = piece.read()
        assert data, f"nothing to read at {offset}, though the log is stable up to {upper}"
        records += committed_records(
            data, log.aborted_transactions(offset, log.upper_bound_of(piece)), offset
        )
        *_, (_, last) = iterate_headers(data)
        offset = last.next_offset
    return records
