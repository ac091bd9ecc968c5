"""The hashes of topics are Kafka's; the expected numbers come from the hash4j of Kafka 4.3.1."""

from __future__ import annotations

import struct
import uuid

import pytest

from ottla.core.groups.topic_hash import TopicHashes, combine, group_hash, topic_hash
from ottla.core.groups.topics import TopicDescription, TopicsView

TOPIC_ID = uuid.UUID(bytes=struct.pack(">qq", 1 << 40 | 5, -7))


def topic(partitions: int, name: str = "") -> TopicDescription:
    racks = tuple(frozenset([f"r{partition % 3}"]) for partition in range(partitions))
    return TopicDescription(TOPIC_ID, name or f"t\u00e4st-{partitions}", racks)


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        (0, 3716172674251485474),
        (3, -3255907333823578316),
        (8, -4721094019169222504),
        (40, 4138619098387204851),
        (130, -7587940584360373601),
    ],
)
def test_a_topic_hashes_as_in_apache_kafka(partitions: int, expected: int) -> None:
    assert topic_hash(topic(partitions)) == expected


def test_a_groups_hash_is_over_its_topics_in_the_order_of_their_names() -> None:
    assert combine({"b": -6, "a": 5}) == -8035532103161863932


def test_a_group_without_topics_hashes_to_zero() -> None:
    assert combine({}) == 0
    assert group_hash(["missing"], TopicsView({})) == 0


def test_a_topic_that_changed_is_hashed_anew() -> None:
    hashes = TopicHashes()
    before = hashes.of_group(["t"], TopicsView({"t": topic(3, "t")}))
    assert hashes.of_group(["t"], TopicsView({"t": topic(4, "t")})) != before
    assert hashes.of_group(["t"], TopicsView({"t": topic(3, "t")})) == before
