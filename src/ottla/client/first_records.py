"""The records that consumers have yet to read: the first one at or after an offset, with its timestamp.

A group that is behind is as old as that record: this turns a lag in records into one in seconds. Where no
record is left, a group has caught up, whatever markers of transactions lie between its offset and the end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ottla.client.admin.partition_offsets import EARLIEST, list_offsets
from ottla.client.batch_fetching import FetchedPartition, fetch_batches
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.records.visibility import Visibility
from ottla.protocol.errors import CorruptBatch, ErrorCode
from ottla.protocol.record_batch import NO_TIMESTAMP, decode_records, iterate_headers

STEPS: Final = ((16 * 1024, 400), (128 * 1024, 64), (1024 * 1024, 8), (1024 * 1024, 1))
"""Bytes of each partition, and partitions a request: first for small batches, then for larger ones.

An answer has at least one whole batch of its first partition, and of the others only those that fit.
"""
MAX_BYTES: Final = 512 * 1024 * 1024
"""After as many the search ends, and the times that are left are not known."""
ROUNDS: Final = 64
"""Through batches without records for consumers, before a search that finds nothing is given up."""

HOLE_ANSWERS: Final = 2
"""Answers without any batch before a log counts as empty up to its end."""
FETCHES_AT_ONCE: Final = 4
"""Requests to each leader that are under way side by side."""

Place = tuple[TopicPartition, int]
"""A partition and an offset."""


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """A record that a reader is given. timestamp_ms: the producer's or the broker's; None if it has none."""

    offset: int
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class NoRecord:
    """No record is left for a reader: at most markers, or records that it is not given."""


Found = FirstRecord | NoRecord | None
"""None: it could not be found out."""


async def first_records(
    client: ClusterRequests,
    places: Iterable[Place],
    seconds: float | None = None,
    *,
    committed: bool = False,
) -> dict[Place, Found]:
    """The first record at or after each place.

    Control records do not count: consumers do not see them. A place below the log's start means the start.
    committed: for a reader of committed records, who is given none of aborted transactions, and none beyond
    the last stable offset. seconds: to wait for a partition without a leader.
    """
    asked = list(dict.fromkeys(places))
    search = _Search(asked, committed)
    await search.run(client, seconds)
    return {place: search.found.get(place) for place in asked}


async def first_record_times(
    client: ClusterRequests, places: Iterable[Place], seconds: float | None = None
) -> dict[Place, int | None]:
    """The timestamp in ms of the first record at or after each place; None where there is none."""
    found = await first_records(client, places, seconds)
    return {place: one.timestamp_ms if isinstance(one, FirstRecord) else None for place, one in found.items()}


class _Search:
    """The places that are left of each partition, and the offset to fetch next.

    One fetch answers all places of its partition that lie in its batches: many groups read a topic side by
    side.
    """

    def __init__(self, places: Sequence[Place], committed: bool) -> None:
        self.found: dict[Place, Found] = {}
        self._committed = committed
        self._left: dict[TopicPartition, deque[int]] = {}
        for partition, offset in sorted(places, key=lambda place: place[1]):
            self._left.setdefault(partition, deque()).append(offset)
        self._next = {partition: offsets[0] for partition, offsets in self._left.items()}
        self._below_start: list[TopicPartition] = []
        self._holes: dict[TopicPartition, int] = {}
        """Answers without a batch, by partition."""

    async def run(self, client: ClusterRequests, seconds: float | None) -> None:
        """Fetch until each place is found, or a bound is reached."""
        step, fruitless, fetched_bytes = 0, 0, 0
        while self._left and fruitless < ROUNDS and fetched_bytes < MAX_BYTES:
            size_bytes, count = STEPS[step]
            asked, progress = len(self._left), False
            for progressed, page_bytes in await self._fetch(client, size_bytes, count, seconds):
                progress = progress or progressed
                fetched_bytes += page_bytes
            await self._move_to_starts(client, seconds)
            self._left = {one: offsets for one, offsets in self._left.items() if offsets}
            fruitless = 0 if len(self._left) < asked else fruitless + 1
            if step == len(STEPS) - 1:
                if not progress:
                    break
            elif 2 * len(self._left) > asked:
                step += 1  # most batches did not fit

    async def _fetch(
        self, client: ClusterRequests, size_bytes: int, count: int, seconds: float | None
    ) -> list[tuple[bool, int]]:
        """Ask for all partitions that are left, `count` a request; of each, its progress and its bytes."""
        room = asyncio.Semaphore(FETCHES_AT_ONCE)

        async def fetch(some: dict[TopicPartition, int]) -> tuple[bool, int]:
            async with room:
                answers = await fetch_batches(client, some, size_bytes, seconds, committed=self._committed)
                found = [one for one in answers.values() if isinstance(one, FetchedPartition)]
                page_bytes = sum(len(one.records) for one in found)
                progress = [
                    self._read(partition, answer, is_hole=not page_bytes)
                    for partition, answer in answers.items()
                ]
            return any(progress), page_bytes

        pages = [
            {one: self._next[one] for one in islice(self._left, start, start + count)}
            for start in range(0, len(self._left), count)
        ]
        return await asyncio.gather(*map(fetch, pages))

    def _read(
        self, partition: TopicPartition, answer: FetchedPartition | ClusterError, *, is_hole: bool
    ) -> bool:
        """Note the records that the answer has; whether it brought the search further.

        is_hole: no partition that was asked for had any. An answer has at least one batch if there is one, so
        compaction has left none up to the end. Asked twice: a broker that throttles a client answers so.
        """
        left = self._left[partition]
        if isinstance(answer, ClusterError):
            if answer.code == ErrorCode.OFFSET_OUT_OF_RANGE and partition not in self._below_start:
                self._below_start.append(partition)
            else:
                self._give_up(partition)
            return True
        # a batch may begin before the offset that was asked for, with records that were deleted
        first_offset = next_offset = self._next[partition]
        try:
            batches = list(iterate_headers(answer.records))
            for position, header in Visibility().visible(answer.records, batches, answer.aborted):
                if left and left[0] < header.next_offset and not header.is_control:
                    for record in decode_records(answer.records, position):
                        while left and first_offset <= record.offset >= left[0]:
                            timestamp = None if record.timestamp == NO_TIMESTAMP else record.timestamp
                            self.found[partition, left.popleft()] = FirstRecord(record.offset, timestamp)
            for _, header in batches:
                next_offset = max(next_offset, header.next_offset)
        except CorruptBatch:
            self._give_up(partition)
        if is_hole:
            self._holes[partition] = self._holes.get(partition, 0) + 1
        none_left = self._holes.get(partition, 0) >= HOLE_ANSWERS
        while left and (none_left or max(next_offset, left[-1]) >= answer.end):
            self.found[partition, left.pop()] = NoRecord()
        if not left or is_hole:
            return True
        next_offset = max(next_offset, left[0])
        progress = next_offset != self._next[partition]
        self._next[partition] = next_offset
        return progress

    async def _move_to_starts(self, client: ClusterRequests, seconds: float | None) -> None:
        """Go on from the log's start where an offset is not in the log."""
        moved = [one for one in self._below_start if self._left[one]]
        if not moved:
            return
        found = await list_offsets(client, dict.fromkeys(moved, EARLIEST), seconds=seconds)
        for partition, start in found.items():
            if isinstance(start, ClusterError) or start.offset <= self._next[partition]:
                self._give_up(partition)
            else:
                self._next[partition] = start.offset

    def _give_up(self, partition: TopicPartition) -> None:
        left = self._left[partition]
        while left:
            self.found[partition, left.popleft()] = None
