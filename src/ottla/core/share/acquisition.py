"""The records that a ShareFetch acquires: the available ones of those it has read, within its limits.

BATCH_OPTIMIZED (the default) gives whole record batches, so it may give more than `max_records`; RECORD_LIMIT
(KIP-1206) stops at the exact number and keeps the rest of the batch as available.

A record that was delivered often may be a bad one that makes each of its consumers fail. So that it affects
few other records, records are given in ever smaller numbers once half of the allowed deliveries (at least
two) have failed, and a record's last delivery is of that record alone.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.core.share.in_flight import Delivery, InFlightBatch
from ottla.core.share.share_partition import SharePartition
from ottla.core.share.state_batches import RecordState

THROTTLE_FROM_DELIVERIES = 2
"""The number of deliveries below which no record is held back."""


class AcquireMode(enum.IntEnum):
    """ShareFetch's share_acquire_mode."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class FetchedBatch(NamedTuple):
    """A record batch that was read: its offsets and its producer, which tells aborted transactions."""

    base_offset: int
    last_offset: int
    producer_id: int = -1
    is_transactional: bool = False
    is_abort_marker: bool = False


class AbortedTransaction(NamedTuple):
    """A transaction with records among those that were read."""

    producer_id: int
    first_offset: int


class AcquiredRange(NamedTuple):
    """Offsets that a member has acquired, both included, and their delivery count with this delivery."""

    first_offset: int
    last_offset: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """A member's request: its id and limits."""

    member_id: str
    max_records: int
    batch_size: int
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED


def acquire(
    partition: SharePartition,
    wanted: Wanted,
    fetch_offset: int,
    batches: Sequence[FetchedBatch],
    aborted: Sequence[AbortedTransaction],
    now_ms: int,
) -> list[AcquiredRange]:
    """Give a member the available records of `batches`, which were read from `fetch_offset` on.

    Records of `aborted` transactions (for groups that read committed records only) are archived instead.
    """
    if wanted.max_records <= 0 or not batches or batches[-1].last_offset < partition.start_offset:
        return []
    acquisition = _Acquisition(partition, wanted, batches, now_ms)
    acquisition.run(fetch_offset)
    ranges = acquisition.ranges
    if ranges and aborted:
        ranges = _without_aborted(partition, ranges, aborted_batches(batches, aborted))
    return ranges


class _Acquisition:
    """One call of `acquire` under way."""

    __slots__ = (
        "_batches",
        "_count",
        "_last_offset",
        "_limit",
        "_now_ms",
        "_partition",
        "_wanted",
        "ranges",
    )

    def __init__(
        self, partition: SharePartition, wanted: Wanted, batches: Sequence[FetchedBatch], now_ms: int
    ) -> None:
        self.ranges: list[AcquiredRange] = []
        self._partition = partition
        self._wanted = wanted
        self._batches = batches
        self._now_ms = now_ms
        self._limit = 0
        self._last_offset = batches[-1].last_offset
        self._count = 0

    @property
    def _left(self) -> int:
        return self._limit - self._count

    def run(self, fetch_offset: int) -> None:
        partition = self._partition
        base_offset = first_read = self._batches[0].base_offset
        if fetch_offset < base_offset:
            partition.compacted_away(fetch_offset, base_offset - 1)
        self._set_limit(fetch_offset)
        if self._limit <= 0:
            return
        floor = partition.in_flight.floor(base_offset)
        if floor is None:
            base_offset = max(base_offset, partition.start_offset)
        elif floor.last_offset >= base_offset:
            base_offset = floor.first_offset
        overlapping = partition.in_flight.between(min(first_read, base_offset), self._last_offset)
        if not overlapping:
            self._take_new(base_offset, self._last_offset)
            return
        self._take_known(overlapping, base_offset)
        if self._left > 0 and overlapping[-1].last_offset < self._last_offset:
            self._take_new(overlapping[-1].last_offset + 1, self._last_offset)
        if self.ranges:
            partition.fill_gap(self.ranges[-1].last_offset + 1)

    def _set_limit(self, fetch_offset: int) -> None:
        """Limit new records to the number that may still be
        in flight; without room only records in flight count.
        """
        partition, wanted = self._partition, self._wanted
        room = partition.settings.max_record_locks - partition.in_flight_count
        self._limit = min(wanted.max_records, room)
        if self._limit <= 0 and fetch_offset <= partition.end_offset:
            self._limit = min(wanted.max_records, partition.end_offset - fetch_offset + 1)
            self._last_offset = min(self._last_offset, partition.end_offset)

    # -- records in flight --------------------------------------------------------------------------

    def _take_known(self, batches: Iterable[InFlightBatch], base_offset: int) -> None:
        partition = self._partition
        next_offset = base_offset
        for batch in batches:
            if self._left <= 0:
                return
            if partition.gap_start is not None:
                if next_offset < batch.first_offset:
                    self._take_new(next_offset, batch.first_offset - 1)
                next_offset = batch.last_offset + 1
                if self._left <= 0:
                    return
            self._take_batch(batch)

    def _take_batch(self, batch: InFlightBatch) -> None:
        first_read = self._batches[0].base_offset
        throttled = self._is_throttled(batch)
        if throttled and self._count:
            self._limit = 0
            return
        record_limit = self._wanted.mode is AcquireMode.RECORD_LIMIT
        size = batch.last_offset - batch.first_offset + 1
        whole = batch.whole
        if (
            whole is not None
            and batch.is_within(first_read, self._last_offset)
            and not throttled
            and not (record_limit and size > self._left)
        ):
            if whole.is_available:
                self._take_whole(batch, whole)
            return
        if whole is not None:
            if not whole.is_available:
                return
            batch.divide()
        if self._take_offsets(batch) and throttled:
            self._limit = 0

    def _take_offsets(self, batch: InFlightBatch) -> int:
        """Take single records of a divided batch; return their number."""
        limit = self._partition.settings.delivery_count_limit
        has_last_delivery = limit > THROTTLE_FROM_DELIVERIES
        throttle_from = throttle_limit(limit)
        at_most: int | None = self._left if self._wanted.mode is AcquireMode.RECORD_LIMIT else None
        throttled_to: int | None = None
        taken = 0
        size = batch.last_offset - batch.first_offset + 1
        first_range = len(self.ranges)
        for offset, delivery in batch.offsets(self._batches[0].base_offset, self._last_offset):
            if not delivery.is_available:
                continue
            if has_last_delivery and delivery.delivery_count == limit - 1 and taken:
                break  # alone, in the next fetch
            if delivery.delivery_count >= throttle_from and throttled_to is None:
                throttled_to = max(1, size >> (delivery.delivery_count - throttle_from + 1))
            self._take_offset(offset, delivery, first_range)
            taken += 1
            if has_last_delivery and delivery.delivery_count == limit:
                break  # alone, in this fetch
            if taken in (at_most, throttled_to):
                break
        return taken

    def _take_offset(self, offset: int, delivery: Delivery, first_range: int) -> None:
        """Take one record; extend the range before it if that is of the same batch."""
        delivery.acquire(self._wanted.member_id, self._partition.lock_deadline_ms(self._now_ms))
        self._count += 1
        if len(self.ranges) > first_range:
            before = self.ranges[-1]
            if before.last_offset + 1 == offset and before.delivery_count == delivery.delivery_count:
                self.ranges[-1] = before._replace(last_offset=offset)
                return
        self.ranges.append(AcquiredRange(offset, offset, delivery.delivery_count))

    def _is_throttled(self, batch: InFlightBatch) -> bool:
        throttle_from = throttle_limit(self._partition.settings.delivery_count_limit)
        if batch.whole is not None:
            return batch.whole.is_available and batch.whole.delivery_count >= throttle_from
        return any(
            delivery.is_available and delivery.delivery_count >= throttle_from
            for _, delivery in batch.offsets(self._batches[0].base_offset, self._last_offset)
        )

    # -- records that were never in flight ----------------------------------------------------------

    def _take_new(self, first: int, last: int) -> None:
        """Take the offsets from `first` to `last`, up to
        the end of the record batch that reaches the limit.
        """
        partition, limit = self._partition, self._left
        # A batch may begin before the start offset: with deleted records, or before the group's first.
        first = max(first, partition.start_offset if partition.in_flight else partition.end_offset)
        if limit < last - first + 1:
            end = self._end_of_batch_at(first + limit - 1)
            last = min(end, last) if partition.gap_start is not None else end
        if first > last:
            return
        if self._wanted.mode is AcquireMode.RECORD_LIMIT and last - first + 1 > limit:
            taken_to = first + limit - 1
            self._add_partly(first, taken_to, last)
        else:
            taken_to = last
            for piece_first, piece_last in self._pieces(first, last):
                batch = InFlightBatch(piece_first, piece_last, Delivery(RecordState.AVAILABLE, 0))
                partition.in_flight.add(batch)
                assert batch.whole is not None
                self._take_whole(batch, batch.whole)
        if partition.in_flight.first.first_offset == first:
            partition.start_offset = first
        partition.end_offset = max(partition.end_offset, last)
        partition.fill_gap(taken_to + 1)

    def _take_whole(self, batch: InFlightBatch, whole: Delivery) -> None:
        whole.acquire(self._wanted.member_id, self._partition.lock_deadline_ms(self._now_ms))
        self._count += batch.last_offset - batch.first_offset + 1
        self.ranges.append(AcquiredRange(batch.first_offset, batch.last_offset, whole.delivery_count))

    def _add_partly(self, first: int, taken_to: int, last: int) -> None:
        """Add a batch of which the member gets the beginning; the rest is available."""
        partition = self._partition
        batch = InFlightBatch(first, last, Delivery(RecordState.AVAILABLE, 0))
        partition.in_flight.add(batch)
        deadline_ms = partition.lock_deadline_ms(self._now_ms)
        batch.divide()
        for _, delivery in batch.offsets(first, taken_to):
            delivery.acquire(self._wanted.member_id, deadline_ms)
        self._count += taken_to - first + 1
        self.ranges.append(AcquiredRange(first, taken_to, 1))
        partition.may_look_back = True

    def _end_of_batch_at(self, offset: int) -> int:
        """The last offset of the record batch that holds `offset`; `offset` if none does."""
        for batch in self._batches:
            if batch.base_offset <= offset <= batch.last_offset:
                return batch.last_offset
        return offset

    def _pieces(self, first: int, last: int) -> Iterable[tuple[int, int]]:
        """Cut the offsets into pieces of at least `batch_size` that begin where record batches do."""
        if self._wanted.mode is AcquireMode.BATCH_OPTIMIZED and last - first + 1 > self._wanted.batch_size:
            for batch in self._batches:
                if batch.base_offset > last:
                    break
                if batch.base_offset - first >= self._wanted.batch_size:
                    yield first, batch.base_offset - 1
                    first = batch.base_offset
        yield first, last


def throttle_limit(delivery_count_limit: int) -> int:
    """The number of deliveries from which on records are given in smaller numbers."""
    return max(THROTTLE_FROM_DELIVERIES, (delivery_count_limit + 1) // 2)


# -- aborted transactions ---------------------------------------------------------------------------


def aborted_batches(
    batches: Iterable[FetchedBatch], aborted: Iterable[AbortedTransaction]
) -> list[FetchedBatch]:
    """The record batches of aborted transactions, without the markers."""
    waiting = [(each.first_offset, each.producer_id) for each in aborted]
    heapq.heapify(waiting)
    producer_ids: set[int] = set()
    found = []
    for batch in batches:
        if batch.producer_id < 0:
            continue
        while waiting and waiting[0][0] <= batch.last_offset:
            producer_ids.add(heapq.heappop(waiting)[1])
        if batch.is_abort_marker:
            producer_ids.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in producer_ids:
            found.append(batch)
    return found


def _without_aborted(
    partition: SharePartition, ranges: Iterable[AcquiredRange], aborted: Iterable[FetchedBatch]
) -> list[AcquiredRange]:
    """Archive the batches of aborted transactions and take them out of `ranges`."""
    kept = list(ranges)
    for batch in aborted:
        partition.archive(batch.base_offset, batch.last_offset, RecordState.ACQUIRED)
        kept = [
            part
            for each in kept
            for part in (
                each._replace(last_offset=min(each.last_offset, batch.base_offset - 1)),
                each._replace(first_offset=max(each.first_offset, batch.last_offset + 1)),
            )
            if part.first_offset <= part.last_offset
        ]
    return kept
