"""A group consumer's reads: what ends them, what comes again, what counts as read."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError

from ottla.rest.consumers.group_consumer import (
    MAX_RECORDS,
    RECORD_OVERHEAD_BYTES,
    GroupConsumer,
    ReadBounds,
    Room,
)
from ottla.web.errors import ApiError
from support.rest.rest_consumers import FakeConsumer, use_fake_consumers

GO_ON = threading.Event()
AT_ONCE = ReadBounds(timeout_seconds=0, max_bytes=1 << 20, min_bytes=-1)
TEN_RECORDS = [b"%04d" % n for n in range(10)]


class Story:
    """A consumer of topic t, and the fake below it."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, partitions: int = 1, room_bytes: int = 1 << 20
    ) -> None:
        logs = {("t", partition): list(TEN_RECORDS) for partition in range(partitions)}
        made = use_fake_consumers(monkeypatch, logs)
        self.room = Room(room_bytes)
        self.consumer = GroupConsumer({"enable.auto.commit": True}, self.room)
        self.kafka: FakeConsumer = made[0]

    def read(self, max_bytes: int = 1 << 20, min_bytes: int = -1, seconds: float = 0) -> list[bytes | None]:
        """Read, and let the answer arrive."""
        messages = self.consumer.collect(ReadBounds(seconds, max_bytes, min_bytes), GO_ON)
        self.consumer.release(messages)
        self.consumer.settle(messages)
        return [message.value() for message in messages]


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Story:
    found = Story(monkeypatch)
    found.consumer.subscribe(["t"])
    return found


def test_a_read_ends_before_max_bytes_and_the_next_goes_on_there(story: Story) -> None:
    assert story.read(max_bytes=12) == TEN_RECORDS[:3]
    assert story.read(max_bytes=15) == TEN_RECORDS[3:6]
    assert story.read() == TEN_RECORDS[6:]
    assert story.read() == []


def test_a_record_larger_than_max_bytes_comes_alone(story: Story) -> None:
    assert story.read(max_bytes=1) == TEN_RECORDS[:1]
    assert story.read(max_bytes=0) == TEN_RECORDS[1:2]


def test_more_than_min_bytes_end_a_read_before_its_time(story: Story) -> None:
    assert story.read(min_bytes=3, seconds=600) == TEN_RECORDS


def test_a_read_that_is_stopped_has_what_there_is(story: Story) -> None:
    stop = threading.Event()
    stop.set()
    found = story.consumer.collect(ReadBounds(600, 1 << 20, -1), stop)
    assert [message.value() for message in found] == TEN_RECORDS


def test_reads_share_room_and_one_that_finds_none_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    each = RECORD_OVERHEAD_BYTES + 4
    story = Story(monkeypatch, room_bytes=5 * each)
    story.consumer.subscribe(["t"])
    assert story.room.take(2 * each)  # another read's
    held = story.consumer.collect(AT_ONCE, GO_ON)
    assert [message.value() for message in held] == TEN_RECORDS[:3]
    assert story.room.taken_bytes == 5 * each
    # one that has nothing yet gets a record all the same
    assert story.read() == TEN_RECORDS[3:4]
    story.consumer.release(held)
    assert story.read() == TEN_RECORDS[4:7]
    assert story.room.taken_bytes == 2 * each


def test_a_read_has_a_bounded_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(monkeypatch, room_bytes=1 << 30)
    story.consumer.subscribe(["t"])
    story.kafka.logs["t", 0] = [b""] * (MAX_RECORDS + 7)
    assert len(story.read(seconds=60, min_bytes=-1)) == MAX_RECORDS
    assert len(story.read()) == 7


def test_what_was_not_answered_comes_again_and_is_not_committed(story: Story) -> None:
    messages = story.consumer.collect(AT_ONCE, GO_ON)
    story.consumer.go_back(messages)
    assert story.kafka.stored == {}
    assert story.read(max_bytes=8) == TEN_RECORDS[:2]
    assert story.kafka.stored == {("t", 0): 2}
    story.consumer.commit([])
    assert story.kafka.offsets == {("t", 0): 2}


def test_a_seek_that_comes_too_early_is_done_later_and_nothing_is_read_before(story: Story) -> None:
    messages = story.consumer.collect(AT_ONCE, GO_ON)
    story.kafka.seeks_refused = 3
    story.kafka.logs["t", 0] += [b"later"]
    story.consumer.go_back(messages[4:])
    assert story.read(seconds=60, min_bytes=0) == [*TEN_RECORDS[4:], b"later"]


def test_a_partition_that_is_taken_away_takes_its_records_along(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(monkeypatch, partitions=2)
    story.consumer.subscribe(["t"])
    polls = []

    def second_poll_rebalances(kafka: FakeConsumer) -> None:
        polls.append(None)
        if len(polls) == 2:
            kafka.rebalance([("t", 1)])

    story.kafka.before_poll = second_poll_rebalances
    messages = story.consumer.collect(ReadBounds(60, 80, 39), GO_ON)
    assert {message.partition() for message in messages} == {1}
    assert [message.value() for message in messages] == TEN_RECORDS
    story.consumer.release(messages)
    assert story.room.taken_bytes == 0


def test_between_reads_the_group_is_served_and_no_record_is_lost(story: Story) -> None:
    assert story.consumer.joining
    story.consumer.tend(idle=False)
    assert not story.consumer.joining
    story.consumer.tend(idle=True)
    assert story.kafka.paused == {("t", 0)}
    story.kafka.before_poll = lambda kafka: kafka.rebalance([("t", 0)])
    story.consumer.tend(idle=True)
    story.kafka.before_poll = lambda kafka: None
    story.consumer.tend(idle=True)
    assert story.read() == TEN_RECORDS
    assert story.kafka.paused == set()


def test_a_partition_that_was_paused_and_comes_back_is_read(story: Story) -> None:
    story.consumer.tend(idle=False)
    story.consumer.tend(idle=True)
    story.kafka.before_poll = lambda kafka: kafka.rebalance([("t", 0)])
    story.consumer.tend(idle=False)
    story.kafka.before_poll = lambda kafka: None
    assert story.kafka.paused == {("t", 0)}
    assert story.read() == TEN_RECORDS


def test_what_is_left_over_moves_with_positions_and_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(monkeypatch, partitions=2)
    story.consumer.assign([("t", 0), ("t", 1)])
    assert story.read(max_bytes=8) == TEN_RECORDS[:2]
    story.consumer.seek({("t", 0): 9}, 1.0, GO_ON)
    assert story.read(max_bytes=8) == [TEN_RECORDS[9], TEN_RECORDS[0]]
    story.consumer.tend(idle=True)  # lets go of what is left over
    assert story.read(max_bytes=8) == TEN_RECORDS[1:3]
    story.consumer.assign([("t", 1)])
    assert story.read() == TEN_RECORDS[3:]
    story.consumer.commit([])
    assert story.kafka.offsets == {("t", 1): 10}


def test_an_error_ends_a_read_that_has_nothing_else_to_tell(story: Story) -> None:
    assert story.read() == TEN_RECORDS
    story.kafka.logs["t", 0].append(b"after")
    story.kafka.errors = [KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)]
    with pytest.raises(ApiError) as refused:
        story.read()
    assert (refused.value.status, refused.value.error_code) == (403, 40301)
    assert story.read() == [b"after"]


def test_what_passes_is_waited_out(story: Story) -> None:
    story.kafka.errors = [
        KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART),
        KafkaError(KafkaError._ALL_BROKERS_DOWN),
    ]
    assert story.read(seconds=60, min_bytes=0) == TEN_RECORDS


def test_a_read_needs_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ApiError) as refused:
        Story(monkeypatch).read()
    assert (refused.value.status, refused.value.error_code) == (409, 40903)


def test_partitions_that_stay_assigned_keep_their_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(monkeypatch, partitions=2)
    story.consumer.assign([("t", 0)])
    assert story.read(max_bytes=8) == TEN_RECORDS[:2]
    story.consumer.assign([("t", 1), ("t", 0)])
    assert sorted(value or b"" for value in story.read()) == sorted(TEN_RECORDS + TEN_RECORDS[2:])
    assert story.consumer.assignment() == [("t", 0), ("t", 1)]


def test_positions_move_only_within_the_assignment(story: Story) -> None:
    story.consumer.seek({("t", 0): 7}, 1.0, GO_ON)
    assert story.read() == TEN_RECORDS[7:]
    story.consumer.seek_to_ends([], 1.0, GO_ON, beginning=True)
    assert story.read(max_bytes=4) == TEN_RECORDS[:1]
    story.consumer.seek_to_ends([("t", 0)], 1.0, GO_ON, beginning=False)
    assert story.read() == []
    with pytest.raises(ApiError) as refused:
        story.consumer.seek({("t", 1): 0}, 1.0, GO_ON)
    assert refused.value.error_code == 40903
