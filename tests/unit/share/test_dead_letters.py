"""Dead letters: which records become them, when they are done, and what the topic gets. See also
tests/property/share."""

from __future__ import annotations

import random

import pytest

from ottla.core.share.acquisition import FetchedBatch, Wanted, acquire
from ottla.core.share.dead_letters import (
    DeadLetter,
    DeadLetterReason,
    LetterBatch,
    LetterHeaders,
    QueueRules,
    queue_partition,
    queue_problem,
)
from ottla.core.share.in_flight import Delivery
from ottla.core.share.share_partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    Acknowledgement,
    SharePartition,
    SharePartitionSettings,
    Write,
)
from ottla.core.share.state_batches import RecordState, StateBatch
from ottla.protocol.errors import InvalidRecordState
from ottla.protocol.record_batch import NewRecord, Record, decode_records, encode_batch

LOCK_MS = 1_000
ARCHIVING, ARCHIVED = RecordState.ARCHIVING, RecordState.ARCHIVED
REJECTED, EXCEEDED = DeadLetterReason.REJECTED, DeadLetterReason.DELIVERY_COUNT_EXCEEDED
Found = tuple[int, int, int, DeadLetterReason]


def partition(*, limit: int = 2, enabled: bool = True) -> SharePartition:
    made = SharePartition(
        SharePartitionSettings(LOCK_MS, delivery_count_limit=limit, dead_letters_enabled=enabled)
    )
    made.load(0, ())
    return made


def fetch(of: SharePartition, first: int, last: int, now_ms: int = 0) -> None:
    acquire(of, Wanted("ann", 100, 100), of.next_fetch_offset(), [FetchedBatch(first, last)], (), now_ms)


def say(of: SharePartition, first: int, last: int, *types: int, now_ms: int = 0) -> Write:
    return of.acknowledge("ann", [Acknowledgement(first, last, types)], now_ms)


def settle(of: SharePartition, write: Write, *, committed: bool = True, now_ms: int = 0) -> None:
    of.write_ended(write, committed=committed, now_ms=now_ms)


def letters(of: SharePartition) -> list[Found]:
    return [found(each) for each in of.take_dead_letters()]


def found(letter: DeadLetter) -> Found:
    return letter.first_offset, letter.last_offset, letter.delivery.delivery_count, letter.reason


# -- which records, and when ----------------------------------------------------------------------------


def test_a_rejected_record_is_a_dead_letter_once_that_is_durable_and_done_once_it_is_in_the_queue() -> None:
    jobs = partition()
    fetch(jobs, 0, 4)
    write = say(jobs, 0, 4, REJECT)
    assert write.batches == [StateBatch(0, 4, ARCHIVING, 1)]
    assert not jobs.has_dead_letters
    settle(jobs, write)
    assert (jobs.start_offset, jobs.delivery_complete_count) == (0, 0)
    taken = jobs.take_dead_letters()
    assert [found(each) for each in taken] == [(0, 4, 1, REJECTED)]
    assert not jobs.has_dead_letters, "nobody else writes them"
    archived = jobs.archive_dead_letters(taken)
    assert archived.batches == [StateBatch(0, 4, ARCHIVED, 1)]
    assert jobs.delivery_complete_count == 5
    settle(jobs, archived)
    assert jobs.start_offset == 5


def test_a_dead_letter_is_neither_delivered_nor_acknowledged_again() -> None:
    jobs = partition()
    fetch(jobs, 0, 4)
    settle(jobs, say(jobs, 0, 4, REJECT))
    assert jobs.next_fetch_offset() == 5
    with pytest.raises(InvalidRecordState):
        say(jobs, 0, 4, ACCEPT)


def test_only_rejected_records_of_an_acknowledgement_are_dead_letters() -> None:
    """A gap is an offset without a record."""
    jobs = partition()
    fetch(jobs, 0, 4)
    settle(jobs, say(jobs, 0, 4, GAP, REJECT, ACCEPT, RELEASE, REJECT))
    assert letters(jobs) == [(1, 1, 1, REJECTED), (4, 4, 1, REJECTED)]
    assert jobs.start_offset == 1


@pytest.mark.parametrize("way", ["release", "leave", "expire"])
def test_a_record_without_deliveries_left_is_a_dead_letter(way: str) -> None:
    jobs = partition()
    for _ in range(2):
        assert letters(jobs) == []
        fetch(jobs, 0, 0)
        match way:
            case "release":
                write = say(jobs, 0, 0, RELEASE)
            case "leave":
                write = jobs.release("ann")
            case _:
                write = jobs.expire(LOCK_MS)
        settle(jobs, write)
    assert write.batches == [StateBatch(0, 0, ARCHIVING, 2)]
    assert letters(jobs) == [(0, 0, 2, EXCEEDED)]


def test_a_rejection_of_the_last_delivery_is_a_rejection() -> None:
    jobs = partition()
    fetch(jobs, 0, 0)
    settle(jobs, say(jobs, 0, 0, RELEASE))
    fetch(jobs, 0, 0)
    settle(jobs, say(jobs, 0, 0, REJECT))
    assert letters(jobs) == [(0, 0, 2, REJECTED)]


def test_a_rejection_that_is_not_written_leaves_the_record_with_its_member() -> None:
    jobs = partition()
    fetch(jobs, 0, 0)
    settle(jobs, say(jobs, 0, 0, REJECT), committed=False)
    assert letters(jobs) == []
    settle(jobs, say(jobs, 0, 0, ACCEPT))
    assert jobs.start_offset == 1


def test_an_expiry_makes_a_dead_letter_however_its_write_ends() -> None:
    """No member has the record any more, and none will get it."""
    jobs = partition()
    fetch(jobs, 0, 0)
    settle(jobs, jobs.expire(LOCK_MS))
    fetch(jobs, 0, 0, now_ms=LOCK_MS)
    write = jobs.expire(2 * LOCK_MS)
    assert not jobs.has_dead_letters
    settle(jobs, write, committed=False, now_ms=2 * LOCK_MS)
    assert letters(jobs) == [(0, 0, 2, EXCEEDED)]


def test_a_last_lock_that_expires_during_a_failed_write_leaves_a_dead_letter() -> None:
    jobs = partition()
    fetch(jobs, 0, 0)
    settle(jobs, say(jobs, 0, 0, RELEASE))
    fetch(jobs, 0, 0)
    write = say(jobs, 0, 0, REJECT)
    settle(jobs, write, committed=False, now_ms=LOCK_MS)
    assert letters(jobs) == [(0, 0, 2, EXCEEDED)], "the rejection did not count"


def test_records_before_the_start_are_no_dead_letters() -> None:
    jobs = partition()
    fetch(jobs, 0, 4)
    jobs.log_start_moved(3)
    settle(jobs, jobs.release("ann"))
    fetch(jobs, 3, 4)
    settle(jobs, jobs.release("ann"))
    assert letters(jobs) == [(3, 3, 2, EXCEEDED), (4, 4, 2, EXCEEDED)]


def test_the_start_passes_buried_letters_although_their_last_write_failed() -> None:
    """Without another write nothing would free the place of the records in flight."""
    jobs = partition()
    fetch(jobs, 0, 4)
    settle(jobs, say(jobs, 0, 4, REJECT))
    settle(jobs, jobs.archive_dead_letters(jobs.take_dead_letters()), committed=False)
    assert jobs.start_offset == 5


@pytest.mark.parametrize(("count", "reason"), [(1, REJECTED), (2, EXCEEDED)])
def test_letters_on_their_way_are_letters_again_for_the_next_leader(
    count: int, reason: DeadLetterReason
) -> None:
    jobs = SharePartition(SharePartitionSettings(delivery_count_limit=2))
    jobs.load(0, [StateBatch(0, 1, RecordState.ACKNOWLEDGED, 1), StateBatch(2, 3, ARCHIVING, count)])
    assert (jobs.start_offset, jobs.next_fetch_offset()) == (2, 4)
    assert letters(jobs) == [(2, 3, count, reason)]


def test_without_a_queue_rejected_records_are_done_at_once() -> None:
    jobs = partition(enabled=False)
    fetch(jobs, 0, 4)
    write = say(jobs, 0, 4, REJECT)
    assert write.batches == [StateBatch(0, 4, ARCHIVED, 1)]
    settle(jobs, write)
    assert (jobs.start_offset, letters(jobs)) == (5, [])


# -- the queue ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "prefix", "exists", "is_enabled", "auto_create", "problem"),
    [
        ("dlq.t", "dlq.", True, True, False, None),
        ("dlq.t", "dlq.", False, False, True, None),
        ("t", "", True, True, False, None),
        ("", "", True, True, True, "no topic for dead letters"),
        ("__t", "", True, True, True, "begins with __"),
        ("dlq-t", "dlq.", True, True, True, "does not begin with dlq."),
        ("dlq.t", "dlq.", True, False, True, "does not have errors.deadletterqueue.group.enable=true"),
        ("dlq.t", "dlq.", False, False, False, "does not exist"),
    ],
)
def test_which_topic_may_be_the_queue(
    topic: str, prefix: str, exists: bool, is_enabled: bool, auto_create: bool, problem: str | None
) -> None:
    rules = QueueRules(topic, prefix, auto_create)
    told = queue_problem(rules, exists=exists, is_enabled=is_enabled)
    assert told is None if problem is None else told is not None and problem in told


def test_letters_keep_to_the_number_of_their_partition() -> None:
    assert [queue_partition(source, 3) for source in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def letter(first: int, last: int, count: int, reason: DeadLetterReason = REJECTED) -> DeadLetter:
    return DeadLetter(first, last, Delivery(ARCHIVING, count), reason)


HEADERS = LetterHeaders("g\N{SNOWMAN}", "orders", 12)


def test_the_headers_name_the_record_and_tell_why() -> None:
    assert HEADERS.of(7, letter(5, 9, 3)) == (
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"12"),
        ("__dlq.errors.offset", b"7"),
        ("__dlq.errors.group", "g\N{SNOWMAN}".encode()),
        ("__dlq.errors.delivery.count", b"3"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    )
    assert HEADERS.of(7, letter(7, 7, 5, EXCEEDED))[-1] == (
        "__dlq.errors.message",
        b"Offset delivery count exceeded the threshold.",
    )


def test_a_copy_has_key_and_value_but_not_the_headers_of_its_record() -> None:
    batch = LetterBatch(HEADERS, 1_000, 10_000)
    one = letter(5, 6, 3)
    assert batch.add(5, one, Record(5, 77, b"k", None, (("mine", b"x"),)))
    assert batch.add(6, one, None)
    assert batch.records == [
        NewRecord(b"k", None, 1_000, HEADERS.of(5, one)),
        NewRecord(None, None, 1_000, HEADERS.of(6, one)),
    ]


def test_no_batch_is_larger_than_the_topic_takes_unless_its_headers_alone_are() -> None:
    draw = random.Random(7)
    for _ in range(200):
        max_bytes = draw.choice([10, 300, 700, 2_000])
        one = letter(0, 20, draw.choice([1, 5]))
        copies = {
            offset: Record(
                offset, 0, draw.randbytes(draw.randrange(400)), draw.randbytes(draw.randrange(900))
            )
            for offset in range(21)
            if draw.random() < 0.8
        }
        offset = 0
        while offset < 21:
            batch = LetterBatch(HEADERS, 1_000, max_bytes)
            first = offset
            while offset < 21 and batch.add(offset, one, copies.get(offset)):
                offset += 1
            size_bytes = len(encode_batch(batch.records))
            assert len(batch.records) == offset - first > 0
            assert size_bytes <= max_bytes or (len(batch.records) == 1 and batch.records[0].value is None)
            if offset < 21:  # it is full
                more = LetterBatch(HEADERS, 1_000, 1 << 30)
                more.add(offset, one, copies.get(offset))
                assert len(encode_batch([*batch.records, *more.records])) > max_bytes
            for made in decode_records(encode_batch(batch.records)):
                copied = copies.get(first + made.offset)
                whole = (
                    encode_batch([NewRecord(copied.key, copied.value, 0, made.headers)]) if copied else b""
                )
                assert (made.value is None) == (copied is None or len(whole) > max_bytes)
