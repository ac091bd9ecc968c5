"""Elections in the background."""

from __future__ import annotations

import pytest

from ottla.core.decisions.balance import balance_leaders, elect_missing_leaders
from ottla.core.decisions.partition_changes import TopicRules
from ottla.core.image.image import NO_LEADER, MetadataImage
from ottla.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.protocol.records.partition_change_record import PartitionChangeRecord
from support.core.metadata import RULES, apply, create, decided, image_with_brokers, topic

UNCLEAN_LOGS = TopicRules(lambda topic: topic == "logs", lambda topic: 1)


@pytest.fixture
def image() -> MetadataImage:
    made = image_with_brokers([1, 2])
    create(made, topic("orders", assignments={0: [1, 2], 1: [1, 2], 2: [2, 1]}))
    create(made, topic("logs", assignments={0: [1, 2]}), seed=1)
    return made


def set_leader(image: MetadataImage, name: str, index: int, leader: int, isr: list[int]) -> None:
    topic_id = image.topics[name].topic_id
    apply(image, [PartitionChangeRecord(partition_id=index, topic_id=topic_id, leader=leader, isr=isr)])


def leaders(image: MetadataImage, name: str) -> list[int]:
    return [partition.leader for _, partition in sorted(image.topics[name].partitions.items())]


def test_leaders_go_back_where_they_are_in_sync(image: MetadataImage) -> None:
    set_leader(image, "orders", 0, 2, [2, 1])
    set_leader(image, "orders", 1, 2, [2])
    assert decided(image, balance_leaders(image, RULES)) is False
    assert leaders(image, "orders") == [1, 2, 2]


def test_a_round_is_bounded(image: MetadataImage) -> None:
    set_leader(image, "orders", 0, 2, [2, 1])
    set_leader(image, "orders", 1, 2, [2, 1])
    decision = balance_leaders(image, RULES, 1)
    assert len(decision.records) == 1
    assert decided(image, decision) is True
    assert decided(image, balance_leaders(image, RULES, 1)) is False
    assert leaders(image, "orders") == [1, 1, 2]


def test_unclean_leaders_only_for_topics_that_allow_it(image: MetadataImage) -> None:
    for name in ("orders", "logs"):
        set_leader(image, name, 0, NO_LEADER, [1])
    apply(image, [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=1)])
    assert decided(image, elect_missing_leaders(image, UNCLEAN_LOGS)) is False
    assert leaders(image, "logs") == [2]
    assert image.topics["logs"].partitions[0].leader_recovery_state == 1
    assert leaders(image, "orders")[0] == NO_LEADER


def test_an_unfencing_that_was_cut_off_goes_on(image: MetadataImage) -> None:
    # Broker 1 is unfenced, but the records that make it a leader were never committed.
    set_leader(image, "orders", 0, NO_LEADER, [1])
    assert decided(image, elect_missing_leaders(image, RULES)) is False
    assert leaders(image, "orders")[0] == 1


def test_unclean_rounds_are_bounded_too(image: MetadataImage) -> None:
    for index in (0, 1):
        set_leader(image, "orders", index, NO_LEADER, [])
    everywhere = TopicRules(lambda topic: True, lambda topic: 1)
    assert decided(image, elect_missing_leaders(image, everywhere, 1)) is True
    assert leaders(image, "orders")[:2] == [1, NO_LEADER]
    assert decided(image, elect_missing_leaders(image, everywhere, 1)) is False
    assert leaders(image, "orders")[:2] == [1, 1]
