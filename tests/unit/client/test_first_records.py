"""The first record that a reader is given from an offset on: of logs with markers, holes, aborted records."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.client import first_records as module
from ottla.client.admin.partition_offsets import FoundOffset
from ottla.client.batch_fetching import FetchedPartition
from ottla.client.cluster_requests import TopicPartition, refusal
from ottla.client.errors import ClusterError
from ottla.client.first_records import FirstRecord, Found, NoRecord, first_record_times, first_records
from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_batch import (
    NewRecord,
    encode_batch,
    encode_end_transaction_marker,
)

PLACE = TopicPartition("orders", 0)


class Log:
    """Batches by their base offsets. aborted: (first offset, producer id)."""

    def __init__(self, *batches: tuple[int, bytes], end: int, start: int = 0) -> None:
        self.batches = batches
        self.end, self.start = end, start
        self.aborted: tuple[tuple[int, int], ...] = ()
        self.stable: int | None = None
        self.error: ErrorCode | None = None
        self.fetches = 0

    async def fetch(
        self,
        client: Any,
        offsets: Mapping[TopicPartition, int],
        size_bytes: int,
        seconds: Any,
        *,
        committed: bool,
    ) -> dict[TopicPartition, FetchedPartition | ClusterError]:
        self.fetches += 1
        (offset,) = offsets.values()
        if self.error is not None:
            return {PLACE: refusal(self.error, None)}
        if not self.start <= offset <= self.end:
            return {PLACE: refusal(ErrorCode.OFFSET_OUT_OF_RANGE, None)}
        end = self.end if self.stable is None or not committed else self.stable
        data = b"".join(batch for last, batch in self.batches if last >= offset and last < end)
        aborted = self.aborted if committed else ()
        return {PLACE: FetchedPartition(data, self.start, self.end, end, aborted)}

    async def starts(self, client: Any, wanted: Any, **_: Any) -> dict[TopicPartition, FoundOffset]:
        return {PLACE: FoundOffset(self.start, -1, 0)}


def records(base: int, *timestamps: int, producer: int | None = None) -> tuple[int, bytes]:
    """A batch with a record for each timestamp, with its last offset."""
    new = [NewRecord(None, b"v", timestamp) for timestamp in timestamps]
    transaction: dict[str, Any] = {}
    if producer is not None:
        transaction = {
            "producer_id": producer,
            "producer_epoch": 0,
            "base_sequence": 0,
            "transactional": True,
        }
    return base + len(new) - 1, encode_batch(new, base_offset=base, **transaction)


def marker(base: int, producer: int, *, committed: bool) -> tuple[int, bytes]:
    batch = encode_end_transaction_marker(
        committed=committed,
        coordinator_epoch=0,
        producer_id=producer,
        producer_epoch=0,
        timestamp=5,
        base_offset=base,
    )
    return base, batch


def found(log: Log, *offsets: int, committed: bool = False) -> list[Found]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "fetch_batches", log.fetch)
        patch.setattr(module, "list_offsets", log.starts)
        places = [(PLACE, offset) for offset in offsets]
        answers = asyncio.run(first_records(None, places, committed=committed))  # type: ignore[arg-type]
        return [answers[place] for place in places]


def test_each_place_has_the_first_record_at_or_after_it() -> None:
    """Records 0 to 2 and 7 to 8; compaction left a hole between them."""
    log = Log(records(0, 10, 20, 30), records(7, 70, -1), end=9)
    assert found(log, 0, 2, 3, 6, 8) == [
        FirstRecord(0, 10),
        FirstRecord(2, 30),
        FirstRecord(7, 70),
        FirstRecord(7, 70),
        FirstRecord(8, None),
    ]
    assert log.fetches == 1


def test_markers_are_no_records() -> None:
    log = Log(records(0, 10, producer=1), marker(1, 1, committed=True), end=2)
    assert found(log, 0, 1, 2) == [FirstRecord(0, 10), NoRecord(), NoRecord()]


def test_a_hole_up_to_the_end_has_no_record() -> None:
    log = Log(records(0, 10), marker(7, 1, committed=True), end=8)
    assert found(log, 1, 5) == [NoRecord(), NoRecord()]


def test_a_hole_without_any_batch_up_to_the_end_has_no_record() -> None:
    log = Log(records(0, 10), end=8)
    assert found(log, 1, 5) == [NoRecord(), NoRecord()]
    assert log.fetches == 2


def test_one_answer_without_batches_may_be_that_of_a_broker_that_throttles() -> None:
    log = Log(end=2)
    answered = log.fetch

    async def late(*words: Any, **options: Any) -> Any:
        answer = await answered(*words, **options)
        log.batches = (records(0, 10, 20),)
        return answer

    log.fetch = late  # type: ignore[method-assign]
    assert found(log, 1) == [FirstRecord(1, 20)]


def test_aborted_records_are_none_for_readers_of_committed_ones() -> None:
    log = Log(
        records(0, 10, producer=1),
        marker(1, 1, committed=False),
        records(2, 30, producer=2),
        marker(3, 2, committed=True),
        records(4, 50, producer=1),
        marker(5, 1, committed=False),
        end=6,
    )
    log.aborted = ((0, 1), (4, 1))
    log.stable = 6
    assert found(log, 0, 2, 3, 4) == [
        FirstRecord(0, 10),
        FirstRecord(2, 30),
        FirstRecord(4, 50),
        FirstRecord(4, 50),
    ]
    assert found(log, 0, 2, 3, 4, committed=True) == [
        FirstRecord(2, 30),
        FirstRecord(2, 30),
        NoRecord(),
        NoRecord(),
    ]


def test_the_last_stable_offset_is_the_end_for_readers_of_committed_records() -> None:
    log = Log(records(0, 10), records(1, 20, producer=1), end=2)
    log.stable = 1
    assert found(log, 1) == [FirstRecord(1, 20)]
    assert found(log, 1, committed=True) == [NoRecord()]


def test_a_place_below_the_start_means_the_start() -> None:
    log = Log(records(5, 50, 60), end=7, start=5)
    assert found(log, 0, 3) == [FirstRecord(5, 50), FirstRecord(5, 50)]


def test_an_answer_that_is_not_to_be_had_is_none_and_not_no_record() -> None:
    log = Log(records(0, 10), end=1)
    log.error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert found(log, 0) == [None]


def test_times_alone() -> None:
    log = Log(records(0, 10), marker(1, 1, committed=True), end=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "fetch_batches", log.fetch)
        times = asyncio.run(first_record_times(None, [(PLACE, 0), (PLACE, 1)]))  # type: ignore[arg-type]
    assert times == {(PLACE, 0): 10, (PLACE, 1): None}
