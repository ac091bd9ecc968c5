"""One fetch of a share consumer under way: reads batches, waits for more, acquires records for the member.

Share partitions with something to acquire are read from their first available offset on; `max_bytes` is
divided among them evenly. With less than `min_bytes` there the fetch waits: an append, released records, or
the end of its time answer it. Only then are records acquired, so no member holds any while it waits.

Whole batches are read, and only their headers are looked at. The answer holds those from the first to the
last acquired offset; the acquired ranges tell the client which of the records it may process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.share.share_partition_leader import SharePartitionLeader
from ottla.core.share.acquisition import (
    AbortedTransaction,
    AcquiredRange,
    FetchedBatch,
    Wanted,
    acquire,
)
from ottla.core.share.sessions import TopicPartition
from ottla.protocol.errors import CorruptBatch, ErrorCode, KafkaError
from ottla.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData
from ottla.protocol.record_batch import (
    BatchHeader,
    ControlRecordType,
    control_record_type,
    decode_records,
    iterate_headers,
)
from ottla.storage.errors import LogCorruption, OffsetOutOfRange
from ottla.storage.segment import LogSlice

if TYPE_CHECKING:
    from ottla.broker.share.counters import ShareCounters

log = logging.getLogger("ottla.broker.share")

FIRST_READ_BYTES = 128 * 1024
"""The bytes of the first read; more follow as long as they do not hold the records that may be acquired."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The most that a fetch gets, and the least that is worth an answer."""

    min_bytes: int
    max_bytes: int
    committed_only: bool


class Ready(NamedTuple):
    """A share partition with records to acquire, and the slice of its next bytes (or an error)."""

    leader: SharePartitionLeader
    fetch_offset: int
    piece: LogSlice | None
    error: ErrorCode


@dataclass(slots=True, eq=False)
class ShareFetch:
    """A member's fetch from some share partitions."""

    counters: ShareCounters
    leaders: Sequence[SharePartitionLeader]
    wanted: Wanted
    limits: FetchLimits
    answers: dict[TopicPartition, PartitionData] = field(default_factory=dict)
    """The answers of the share partitions, once the fetch has ended."""
    _future: asyncio.Future[None] | None = None
    _timer: asyncio.TimerHandle | None = None

    def try_now(self) -> bool:
        """Answer if there is enough. Returns whether there was."""
        ready = self._ready()
        if not ready:
            return False
        there_bytes = sum(each.piece.size_bytes for each in ready if each.piece is not None)
        failed = any(each.error for each in ready)
        if not failed and there_bytes < self.limits.min_bytes:
            return False
        self._take(ready)
        return True

    def wait(self, max_wait_ms: int) -> asyncio.Future[None]:
        """Done once `answers` is complete, or the time is up."""
        loop = asyncio.get_running_loop()
        self._future = loop.create_future()
        self._timer = loop.call_later(max(0, max_wait_ms) / 1000, self._time_is_up)
        for leader in self.leaders:
            leader.add_waiter(self._woken)
            leader.partition.add_waiter(self._woken)
        return self._future

    def cancel(self) -> None:
        """The client has gone: acquire nothing any more."""
        self._finish()

    def _woken(self) -> None:
        if self._future is not None and not self._future.done() and self.try_now():
            self._finish()

    def _time_is_up(self) -> None:
        self._take(self._ready())
        for leader in self.leaders:
            error = leader.load_error
            if error is not None:
                self.answers[leader.key[1:]] = failed(leader.key.partition, error)
        self._finish()

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for leader in self.leaders:
            leader.remove_waiter(self._woken)
            leader.partition.remove_waiter(self._woken)
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    # -- reading ------------------------------------------------------------------------------------

    def _ready(self) -> list[Ready]:
        able = [leader for leader in self.leaders if leader.is_active and leader.machine.can_acquire()]
        if not able:
            return []
        share, rest = divmod(self.limits.max_bytes, len(able))
        left = self.limits.max_bytes
        found: list[Ready] = []
        for index, leader in enumerate(able):
            some = any(each.piece is not None and each.piece.size_bytes for each in found)
            max_bytes = min(share + (rest if index == 0 else 0), left)
            ready = self._find(leader, max_bytes, at_least_one_batch=not some)
            if ready.piece is not None:
                left = max(0, left - ready.piece.size_bytes)
            found.append(ready)
        return found

    def _find(self, leader: SharePartitionLeader, max_bytes: int, *, at_least_one_batch: bool) -> Ready:
        partition = leader.partition
        stored = partition.log
        offset = leader.machine.next_fetch_offset()
        upper = partition.last_stable_offset if self.limits.committed_only else partition.high_watermark
        if offset >= upper and stored.log_start_offset <= offset <= stored.log_end_offset:
            return Ready(leader, offset, None, ErrorCode.NONE)
        try:
            piece = stored.read(offset, max_bytes, upper_offset=upper, at_least_one_batch=at_least_one_batch)
        except OffsetOutOfRange:
            return Ready(leader, offset, None, ErrorCode.OFFSET_OUT_OF_RANGE)
        except (OSError, LogCorruption) as problem:
            log.error("read failed topic=%s partition=%d error=%s", partition.topic, partition.index, problem)
            return Ready(leader, offset, None, ErrorCode.KAFKA_STORAGE_ERROR)
        return Ready(leader, offset, piece, ErrorCode.NONE)

    def _take(self, ready: Sequence[Ready]) -> None:
        """Acquire the records found, at most `max_records` for the whole fetch (a batch may exceed it)."""
        left = self.wanted.max_records
        for each in ready:
            data = PartitionData(partition_index=each.leader.key.partition, records=b"", acquired_records=[])
            self.answers[each.leader.key[1:]] = data
            if each.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                each.leader.machine.log_start_moved(each.leader.partition.log.log_start_offset)
            elif each.error:
                data.error_code = each.error
            elif each.piece is not None and left > 0:
                left -= self._acquire(each, each.piece, left, data)

    def _acquire(self, ready: Ready, piece: LogSlice, max_records: int, data: PartitionData) -> int:
        leader = ready.leader
        machine = leader.machine
        try:
            records, headers = _read_up_to(piece, max(machine.end_offset, ready.fetch_offset) + max_records)
        except (OSError, CorruptBatch) as problem:
            log.error("read failed key=%s error=%s", leader.key.coordinator_key, problem)
            data.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return 0
        if not headers:
            return 0
        aborted: list[AbortedTransaction] = []
        if self.limits.committed_only:
            aborted = [
                AbortedTransaction(each.producer_id, each.first_offset)
                for each in leader.partition.log.aborted_transactions(
                    ready.fetch_offset, headers[-1][1].next_offset
                )
            ]
        wanted = Wanted(self.wanted.member_id, max_records, self.wanted.batch_size, self.wanted.mode)
        batches = [
            _fetched(records, position, header, look_inside=bool(aborted)) for position, header in headers
        ]
        ranges = acquire(machine, wanted, ready.fetch_offset, batches, aborted, leader.now_ms())
        leader.set_timer()
        if not ranges:
            return 0
        data.records = _overlapping(records, headers, ranges)
        leader.partition.fetched_bytes += len(data.records)
        data.acquired_records = [
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in ranges
        ]
        count = sum(last - first + 1 for first, last, _ in ranges)
        self.counters.acquired_records += count
        return count


def failed(index: int, error: KafkaError) -> PartitionData:
    """The answer of a share partition that gives an error and no records."""
    return PartitionData(partition_index=index, error_code=error.code, records=b"", acquired_records=[])


def _read_up_to(piece: LogSlice, last_offset: int) -> tuple[memoryview, list[tuple[int, BatchHeader]]]:
    """Whole batches of `piece` and their headers, at least up to `last_offset` if the piece goes so far.

    The member's fetch.max.bytes may allow for fifty megabytes where it takes a few hundred records.
    """
    size_bytes = min(piece.size_bytes, FIRST_READ_BYTES)
    while True:
        data = memoryview(piece._replace(size_bytes=size_bytes).read())
        headers = list(iterate_headers(data))
        if (headers and headers[-1][1].last_offset >= last_offset) or size_bytes == piece.size_bytes:
            return data, headers
        size_bytes = min(piece.size_bytes, 4 * size_bytes)


def _fetched(data: memoryview, position: int, header: BatchHeader, *, look_inside: bool) -> FetchedBatch:
    is_abort_marker = False
    if look_inside and header.is_control:
        records = decode_records(data[position : position + header.size_bytes])
        is_abort_marker = bool(records) and control_record_type(records[0]) is ControlRecordType.ABORT
    return FetchedBatch(
        header.base_offset, header.last_offset, header.producer_id, header.is_transactional, is_abort_marker
    )


def _overlapping(
    data: memoryview, headers: Sequence[tuple[int, BatchHeader]], ranges: Sequence[AcquiredRange]
) -> memoryview:
    """The bytes of the batches from the one with the first acquired offset to the one with the last."""
    first_offset, last_offset = ranges[0].first_offset, ranges[-1].last_offset
    start, end = headers[0][0], 0
    for position, header in headers:
        if header.base_offset > last_offset:
            break
        if header.base_offset <= first_offset:
            start = position
        end = position + header.size_bytes
    return data[start:end]
