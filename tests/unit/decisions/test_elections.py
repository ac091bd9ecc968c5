"""Elections that an administrator asks for."""

from __future__ import annotations

import pytest

from ottla.core.decisions.elections import RECOVERING, elect_leaders
from ottla.core.image.image import NO_LEADER, MetadataImage
from ottla.protocol.errors import ErrorCode, InvalidRequest
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ottla.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.protocol.records.partition_change_record import PartitionChangeRecord
from support.core.metadata import RULES, apply, create, decided, image_with_brokers, topic

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def image() -> MetadataImage:
    made = image_with_brokers([1, 2])
    create(made, topic("orders", assignments={0: [1, 2], 1: [2, 1]}))
    return made


def set_partition(image: MetadataImage, leader: int, isr: list[int]) -> None:
    topic_id = image.topics["orders"].topic_id
    apply(image, [PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader, isr=isr)])


def elect(image: MetadataImage, kind: int, wanted: dict[str, list[int]] | None) -> dict[tuple[str, int], int]:
    request = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=None
        if wanted is None
        else [TopicPartitions(topic=name, partitions=indexes) for name, indexes in wanted.items()],
    )
    response = decided(image, elect_leaders(image, request, RULES))
    return {
        (result.topic, partition.partition_id): partition.error_code
        for result in response.replica_election_results
        for partition in result.partition_result
    }


def test_leadership_goes_back_to_the_preferred_replica(image: MetadataImage) -> None:
    set_partition(image, leader=2, isr=[1, 2])
    assert elect(image, PREFERRED, None) == {("orders", 0): ErrorCode.NONE}
    assert image.topics["orders"].partitions[0].leader == 1


def test_partitions_that_need_no_election_are_answered_only_if_named(image: MetadataImage) -> None:
    assert elect(image, PREFERRED, None) == {}
    assert elect(image, PREFERRED, {"orders": [0]}) == {("orders", 0): ErrorCode.ELECTION_NOT_NEEDED}
    assert elect(image, UNCLEAN, {"orders": [0]}) == {("orders", 0): ErrorCode.ELECTION_NOT_NEEDED}


def test_a_preferred_replica_out_of_sync_does_not_lead(image: MetadataImage) -> None:
    set_partition(image, leader=2, isr=[2])
    assert elect(image, PREFERRED, {"orders": [0]}) == {
        ("orders", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    }


def test_an_unclean_election_takes_any_live_replica(image: MetadataImage) -> None:
    set_partition(image, leader=NO_LEADER, isr=[1])
    apply(image, [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=1)])
    assert elect(image, UNCLEAN, {"orders": [0]}) == {("orders", 0): ErrorCode.NONE}
    partition = image.topics["orders"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), RECOVERING)


def test_an_unclean_election_prefers_replicas_in_sync(image: MetadataImage) -> None:
    set_partition(image, leader=NO_LEADER, isr=[2])
    elect(image, UNCLEAN, {"orders": [0]})
    partition = image.topics["orders"].partitions[0]
    assert (partition.leader, partition.leader_recovery_state) == (2, 0)


def test_an_unclean_election_without_live_replicas_is_refused(image: MetadataImage) -> None:
    set_partition(image, leader=NO_LEADER, isr=[1])
    apply(
        image,
        [
            BrokerRegistrationChangeRecord(broker_id=each, broker_epoch=100 + each, fenced=1)
            for each in (1, 2)
        ],
    )
    assert elect(image, UNCLEAN, {"orders": [0]}) == {("orders", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_unknown_topics_and_partitions(image: MetadataImage) -> None:
    assert set(elect(image, PREFERRED, {"orders": [9], "nope": [0]}).values()) == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }


def test_an_unknown_kind_of_election(image: MetadataImage) -> None:
    with pytest.raises(InvalidRequest):
        elect_leaders(image, ElectLeadersRequest(election_type=7, topic_partitions=None), RULES)
