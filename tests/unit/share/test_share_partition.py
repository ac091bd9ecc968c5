"""A share partition's leader, case by case. The invariants under any order are in tests/property/share."""

from __future__ import annotations

import pytest

from ottla.core.share.acquisition import (
    AbortedTransaction,
    AcquiredRange,
    AcquireMode,
    FetchedBatch,
    Wanted,
    aborted_batches,
    acquire,
    throttle_limit,
)
from ottla.core.share.offset_reset import duration_ms, reset_timestamp_ms
from ottla.core.share.share_partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    SharePartition,
    SharePartitionSettings,
    Write,
)
from ottla.core.share.state_batches import RecordState, StateBatch
from ottla.protocol.errors import InvalidRecordState, InvalidRequest

LOCK_MS = 1_000


def partition(**settings: int | bool) -> SharePartition:
    made = SharePartition(SharePartitionSettings(lock_duration_ms=LOCK_MS, **settings))  # type: ignore[arg-type]
    made.load(0, ())
    return made


def fetch(
    of: SharePartition,
    *batches: tuple[int, int],
    member: str = "ann",
    max_records: int = 100,
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
    now_ms: int = 0,
) -> list[AcquiredRange]:
    read = [FetchedBatch(base, last) for base, last in batches]
    return acquire(of, Wanted(member, max_records, 100, mode), of.next_fetch_offset(), read, (), now_ms)


def say(
    of: SharePartition, first: int, last: int, *types: int, member: str = "ann", now_ms: int = 0
) -> Write:
    return of.acknowledge(member, [Acknowledgement(first, last, types)], now_ms)


def settle(of: SharePartition, first: int, last: int, *types: int, member: str = "ann") -> None:
    of.write_ended(say(of, first, last, *types, member=member), committed=True, now_ms=0)


def test_the_start_moves_past_done_records_once_that_is_durable() -> None:
    jobs = partition()
    fetch(jobs, (0, 4))
    fetch(jobs, (5, 9))
    write = say(jobs, 0, 4, ACCEPT)
    assert write.batches == [StateBatch(0, 4, RecordState.ACKNOWLEDGED, 1)]
    assert (jobs.start_offset, jobs.delivery_complete_count) == (0, 5)
    assert jobs.write_ended(write, committed=True, now_ms=0)
    assert (jobs.start_offset, jobs.delivery_complete_count) == (5, 0)


def test_the_start_waits_for_the_first_that_is_not_done() -> None:
    jobs = partition()
    fetch(jobs, (0, 9))
    settle(jobs, 1, 9, ACCEPT)
    assert (jobs.start_offset, jobs.delivery_complete_count) == (0, 9)
    settle(jobs, 0, 0, REJECT)
    assert (jobs.start_offset, jobs.is_empty) == (10, True)


def test_a_write_that_fails_leaves_the_record_with_its_member() -> None:
    jobs = partition()
    fetch(jobs, (0, 4))
    write = say(jobs, 0, 4, ACCEPT)
    with pytest.raises(InvalidRecordState):
        say(jobs, 0, 4, ACCEPT)
    jobs.write_ended(write, committed=False, now_ms=0)
    assert jobs.start_offset == 0
    assert not fetch(jobs, (0, 4), member="bob")
    settle(jobs, 0, 4, ACCEPT)
    assert jobs.start_offset == 5


def test_a_lock_that_times_out_during_a_write_that_fails_is_lost() -> None:
    jobs = partition()
    fetch(jobs, (0, 4))
    write = say(jobs, 0, 4, ACCEPT)
    assert not jobs.expire(LOCK_MS).batches, "a write is under way"
    assert jobs.write_ended(write, committed=False, now_ms=LOCK_MS)
    assert fetch(jobs, (0, 4), member="bob") == [(0, 4, 2)]


def test_a_record_whose_lock_times_out_goes_to_another_member() -> None:
    jobs = partition()
    fetch(jobs, (0, 4))
    assert jobs.next_wake_ms() == LOCK_MS
    assert not jobs.expire(LOCK_MS - 1).batches
    assert jobs.expire(LOCK_MS).batches == [StateBatch(0, 4, RecordState.AVAILABLE, 1)]
    assert jobs.next_wake_ms() is None
    assert fetch(jobs, (0, 4), member="bob", now_ms=LOCK_MS) == [(0, 4, 2)]
    with pytest.raises(InvalidRecordState):
        say(jobs, 0, 4, ACCEPT)


def test_a_renewed_lock_lasts_longer() -> None:
    jobs = partition()
    fetch(jobs, (0, 4))
    assert not say(jobs, 0, 2, RENEW, now_ms=600).batches
    assert jobs.expire(LOCK_MS).batches == [
        StateBatch(offset, offset, RecordState.AVAILABLE, 1) for offset in (3, 4)
    ]
    assert jobs.next_wake_ms() == 600 + LOCK_MS


def test_renewals_can_be_forbidden() -> None:
    jobs = partition(renew_enabled=False)
    fetch(jobs, (0, 4))
    with pytest.raises(InvalidRecordState):
        say(jobs, 0, 4, RENEW)


def test_a_record_is_archived_after_its_last_delivery() -> None:
    jobs = partition(delivery_count_limit=2)
    fetch(jobs, (0, 0))
    settle(jobs, 0, 0, RELEASE)
    assert fetch(jobs, (0, 0)) == [(0, 0, 2)]
    settle(jobs, 0, 0, RELEASE)
    assert (jobs.start_offset, fetch(jobs, (0, 0))) == (1, [])


def test_each_offset_may_have_its_own_end() -> None:
    jobs = partition()
    fetch(jobs, (0, 3))
    write = say(jobs, 0, 3, ACCEPT, RELEASE, REJECT, GAP)
    states = [RecordState(batch.delivery_state) for batch in write.batches]
    assert states == [
        RecordState.ACKNOWLEDGED,
        RecordState.AVAILABLE,
        RecordState.ARCHIVED,
        RecordState.ARCHIVED,
    ]
    jobs.write_ended(write, committed=True, now_ms=0)
    assert fetch(jobs, (0, 3), member="bob") == [(1, 1, 2)]


def test_a_refused_range_takes_the_others_back() -> None:
    jobs = partition()
    fetch(jobs, (0, 3))
    with pytest.raises(InvalidRequest):
        jobs.acknowledge("ann", [Acknowledgement(0, 1, [ACCEPT]), Acknowledgement(2, 9, [ACCEPT])], 0)
    settle(jobs, 0, 3, ACCEPT)
    assert jobs.start_offset == 4


def test_a_member_that_leaves_leaves_its_records() -> None:
    jobs = partition()
    fetch(jobs, (0, 3))
    fetch(jobs, (4, 7), member="bob")
    jobs.write_ended(jobs.release("ann"), committed=True, now_ms=0)
    assert fetch(jobs, (0, 3), (4, 7), member="cid") == [(0, 3, 2)]


def test_no_more_in_flight_than_allowed() -> None:
    jobs = partition(max_record_locks=5)
    assert fetch(jobs, (0, 2), (3, 5), (6, 8)) == [(0, 5, 1)], "whole batches"
    assert not jobs.can_acquire()
    settle(jobs, 3, 3, RELEASE)
    assert jobs.can_acquire(), "what is in flight already may be had again"
    assert fetch(jobs, (3, 5), (6, 8)) == [(3, 3, 2)]


def test_exactly_so_many_records() -> None:
    jobs = partition()
    only = AcquireMode.RECORD_LIMIT
    assert fetch(jobs, (0, 9), max_records=4, mode=only) == [(0, 3, 1)]
    assert jobs.next_fetch_offset() == 4
    assert fetch(jobs, (0, 9), max_records=4, mode=only, member="bob") == [(4, 7, 1)]
    assert fetch(jobs, (0, 9), (10, 19)) == [(8, 9, 1), (10, 19, 1)]


def test_gaps_of_a_loaded_state_are_filled_before_the_start_moves() -> None:
    jobs = SharePartition(SharePartitionSettings())
    jobs.load(2, [StateBatch(4, 5, 2, 1), StateBatch(8, 9, 0, 1)])
    assert jobs.next_fetch_offset() == 2
    assert fetch(jobs, (0, 9), (10, 12)) == [(2, 3, 1), (6, 7, 1), (8, 9, 2), (10, 12, 1)]
    settle(jobs, 6, 7, ACCEPT)
    assert jobs.start_offset == 2
    settle(jobs, 2, 3, ACCEPT)
    assert jobs.start_offset == 8


def test_records_that_are_gone_from_the_log_are_passed_over() -> None:
    jobs = partition()
    fetch(jobs, (0, 4), (5, 9))
    jobs.write_ended(jobs.release("ann"), committed=True, now_ms=0)
    jobs.log_start_moved(7)
    assert (jobs.start_offset, jobs.next_fetch_offset()) == (7, 7)
    assert fetch(jobs, (5, 9)) == [(7, 9, 2)], "not the two before the start, though in the batch"


def test_compacted_records_are_not_waited_for() -> None:
    jobs = partition()
    fetch(jobs, (0, 4), (5, 9))
    settle(jobs, 0, 9, RELEASE)
    fetch(jobs, (5, 9))
    settle(jobs, 5, 9, ACCEPT)
    assert jobs.start_offset == 10


def test_records_of_aborted_transactions_are_archived() -> None:
    jobs = partition()
    read = [
        FetchedBatch(0, 4),
        FetchedBatch(5, 6, producer_id=1, is_transactional=True),
        FetchedBatch(7, 8, producer_id=2, is_transactional=True),
        FetchedBatch(9, 9, producer_id=1, is_transactional=True, is_abort_marker=True),
        FetchedBatch(10, 11, producer_id=1, is_transactional=True),
    ]
    aborted = [AbortedTransaction(1, 5)]
    assert aborted_batches(read, aborted) == [read[1]]
    assert acquire(jobs, Wanted("ann", 100, 100), 0, read, aborted, 0) == [(0, 4, 1), (7, 11, 1)]
    settle(jobs, 0, 4, ACCEPT)
    assert jobs.start_offset == 7


def test_in_ever_smaller_numbers() -> None:
    assert [throttle_limit(limit) for limit in (2, 3, 4, 5, 10)] == [2, 2, 2, 3, 5]


def test_where_a_group_begins() -> None:
    assert reset_timestamp_ms("latest", 5) is None
    assert reset_timestamp_ms("by_duration:PT1M30.5S", 100_000) == 9_500
    assert duration_ms("P1DT1H") == 25 * 3_600_000
    for text in ("1d", "P1M", "PT-1S"):
        with pytest.raises(ValueError, match="duration"):
            duration_ms(text)
    with pytest.raises(ValueError, match="strategy"):
        reset_timestamp_ms("sometime", 5)
