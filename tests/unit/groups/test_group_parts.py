"""Small parts of the group coordinator: the hash, the timers, the subscription's prefix, the records."""

from __future__ import annotations

import uuid

import pytest

from ottla.core.coordination.partitioning import java_string_hash, partition_for
from ottla.core.coordination.timers import TimerKey, Timers
from ottla.core.groups import coordinator_records
from ottla.core.groups.classic.group import ClassicGroup, ClassicMember, GroupState, parse_subscribed_topics
from ottla.core.groups.coordinator_records import CommittedOffset
from ottla.protocol.records.framing import encode_coordinator_key, encode_coordinator_value

TOPIC_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("my-group", -1_906_497_762),
        ("console-consumer-12345", 158_455_506),
        ("größe", 98_762_257),
        ("\N{PARTY POPPER}", 1_773_261),
        ("polygenelubricants", -2_147_483_648),
    ],
)
def test_the_hash_is_javas(text: str, value: int) -> None:
    assert java_string_hash(text) == value


def test_the_smallest_hash_has_a_partition_too() -> None:
    # -2**31 has no positive counterpart: Java's abs() of it is negative, so Kafka masks the sign instead
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("my-group", 50) == 1_906_497_762 % 50


class TestTimers:
    A, B = TimerKey("a"), TimerKey("b")

    def test_due_timers_come_in_order(self) -> None:
        timers = Timers()
        timers.set(self.B, 20)
        timers.set(self.A, 10)
        assert timers.next_wake_ms() == 10
        assert [timers.pop_due(30), timers.pop_due(30), timers.pop_due(30)] == [self.A, self.B, None]
        assert timers.next_wake_ms() is None

    def test_no_timer_comes_early(self) -> None:
        timers = Timers()
        timers.set(self.A, 10)
        assert timers.pop_due(9) is None
        assert timers.pop_due(10) == self.A

    def test_a_deadline_moved_later_comes_later_and_once(self) -> None:
        timers = Timers()
        timers.set(self.A, 10)
        timers.set(self.A, 50)
        assert timers.pop_due(10) is None
        assert timers.next_wake_ms() == 50
        assert [timers.pop_due(50), timers.pop_due(1_000)] == [self.A, None]

    def test_a_deadline_moved_earlier_comes_earlier_and_once(self) -> None:
        timers = Timers()
        timers.set(self.A, 50)
        timers.set(self.A, 10)
        assert [timers.pop_due(10), timers.pop_due(1_000)] == [self.A, None]

    def test_a_cancelled_one_can_be_set_again(self) -> None:
        timers = Timers()
        timers.set(self.A, 10)
        timers.cancel(self.A)
        timers.cancel(self.B)
        assert timers.pop_due(10) is None
        timers.set(self.A, 20)
        timers.cancel(self.A)
        timers.set(self.A, 30)
        assert [timers.pop_due(29), timers.pop_due(30), timers.pop_due(99)] == [None, self.A, None]

    def test_heartbeats_do_not_fill_the_heap(self) -> None:
        timers = Timers()
        for now_ms in range(0, 100_000, 10):
            timers.set(self.A, now_ms + 10_000)
            assert timers.pop_due(now_ms) is None
        assert len(timers._heap) == 1


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        (b"\0\0\0\0\0\2\0\1a\0\2bc\xff\xff\xff\xff", ["a", "bc"]),
        (b"\0\3\0\0\0\1\0\1awhat a later version adds", ["a"]),
        (b"\0\0\0\0\0\0", []),
        (b"", None),
        (b"\0\0\0\0\0", None),
        (b"\0\0\x7f\xff\xff\xff\0\1a", None),
        (b"\0\0\xff\xff\xff\xff", None),
        (b"\0\0\0\0\0\1\0\5a", None),
        (b"\0\0\0\0\0\1\xff\xff", None),
        (b"\0\0\0\0\0\1\0\1\xff", None),
    ],
)
def test_the_topics_of_a_subscription_of_any_version(metadata: bytes, topics: list[str] | None) -> None:
    assert parse_subscribed_topics(metadata) == topics


def test_an_offset_is_stored_in_the_versions_that_kafka_writes() -> None:
    # given: an offset, and one that an old client gave an expiry time
    plain = CommittedOffset(7, 2, "m", 1_000, topic_id=TOPIC_ID)
    expiring = CommittedOffset(7, 2, "m", 1_000, 2_000, TOPIC_ID)
    # when
    records = [coordinator_records.offset_commit("g", "t", 3, offset) for offset in (plain, expiring)]
    # then: version 4 with the topic's id as tag 0, version 1 with the expiry
    values = [
        encode_coordinator_value(record.value, record.value_version) for record in records if record.value
    ]
    assert values == [
        b"\0\4\0\0\0\0\0\0\0\7\0\0\0\2\2m\0\0\0\0\0\0\3\xe8\1\0\x10" + TOPIC_ID.bytes,
        b"\0\1\0\0\0\0\0\0\0\7\0\1m\0\0\0\0\0\0\3\xe8\0\0\0\0\0\0\7\xd0",
    ]
    assert encode_coordinator_key(records[0].key) == b"\0\1\0\1g\0\1t\0\0\0\3"


def test_a_group_survives_its_record() -> None:
    # given
    group = ClassicGroup("g", 1_000)
    group.transition_to(GroupState.PREPARING_REBALANCE, 1_000)
    for member_id, instance_id in (("a", None), ("b", "i")):
        member = ClassicMember(member_id, instance_id, "client", "/host", 30_000, 10_000, (("range", b"m"),))
        group.add(member, "consumer")
    group.next_generation(2_000)
    # when
    value = group.to_record_value({"a": b"1", "b": b"2"})
    restored = ClassicGroup.restore("g", value, now_ms=9_999)
    # then
    assert restored.state is GroupState.STABLE
    assert (restored.generation, restored.protocol_name, restored.leader) == (1, "range", "a")
    assert restored.static_members == {"i": "b"}
    assert restored.state_timestamp_ms == 2_000
    assert restored.to_record_value({key: each.assignment for key, each in restored.members.items()}) == value
