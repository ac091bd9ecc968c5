"""Reassignments of replicas."""

from __future__ import annotations

import pytest

from ottla.core.decisions.partition_changes import TopicRules
from ottla.core.decisions.reassignments import alter_partition_reassignments, list_partition_reassignments
from ottla.core.image.image import MetadataImage, PartitionImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.protocol.records.partition_change_record import PartitionChangeRecord
from support.core.metadata import RULES, apply, create, decided, image_with_brokers, topic

UNCLEAN = TopicRules(lambda topic: True, lambda topic: 1)


@pytest.fixture
def image() -> MetadataImage:
    made = image_with_brokers([1, 2, 3, 4, 5])
    create(made, topic("orders", assignments={0: [1, 2, 3], 1: [2, 3, 1]}))
    return made


def orders(image: MetadataImage) -> PartitionImage:
    return image.topics["orders"].partitions[0]


def reassign(
    image: MetadataImage,
    replicas: list[int] | None,
    *,
    name: str = "orders",
    partition: int = 0,
    may_change_factor: bool = True,
    rules: TopicRules = RULES,
) -> tuple[int, str | None]:
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_change_factor,
        topics=[
            ReassignableTopic(
                name=name, partitions=[ReassignablePartition(partition_index=partition, replicas=replicas)]
            )
        ],
    )
    response = decided(image, alter_partition_reassignments(image, request, rules))
    answer = response.responses[0].partitions[0]
    return answer.error_code, answer.error_message


def set_isr(image: MetadataImage, isr: list[int], leader: int = -2) -> None:
    topic_id = image.topics["orders"].topic_id
    apply(image, [PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=isr, leader=leader)])


def test_new_replicas_join_the_old_ones_first(image: MetadataImage) -> None:
    assert reassign(image, [4, 5, 1]) == (ErrorCode.NONE, None)
    partition = orders(image)
    assert partition.replicas == (4, 5, 1, 2, 3)
    assert (partition.adding_replicas, partition.removing_replicas) == ((4, 5), (2, 3))
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1, 2, 3), 0)


def test_another_order_is_there_at_once(image: MetadataImage) -> None:
    assert reassign(image, [3, 2, 1])[0] == ErrorCode.NONE
    partition = orders(image)
    assert (partition.replicas, partition.adding_replicas, partition.leader) == ((3, 2, 1), (), 1)


def test_fewer_replicas_are_there_at_once(image: MetadataImage) -> None:
    assert reassign(image, [2])[0] == ErrorCode.NONE
    partition = orders(image)
    assert (partition.replicas, partition.isr, partition.leader, partition.leader_epoch) == ((2,), (2,), 2, 1)


def test_cancelled_it_is_as_before(image: MetadataImage) -> None:
    reassign(image, [4, 5, 1])
    assert reassign(image, None)[0] == ErrorCode.NONE
    partition = orders(image)
    assert set(partition.replicas) == {1, 2, 3}
    assert (partition.adding_replicas, partition.removing_replicas, partition.leader) == ((), (), 1)


def test_a_second_one_replaces_the_first(image: MetadataImage) -> None:
    reassign(image, [1, 2, 4])
    reassign(image, [1, 2, 5])
    partition = orders(image)
    assert partition.replicas == (1, 2, 5, 3, 4)
    assert (partition.adding_replicas, partition.removing_replicas) == ((4, 5), (3, 4))
    reassign(image, None)
    assert set(orders(image).replicas) == {1, 2, 3}


def test_a_second_one_back_to_the_first_replicas(image: MetadataImage) -> None:
    reassign(image, [1, 2, 4])
    reassign(image, [1, 2, 3])
    partition = orders(image)
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ((1, 2, 3), (), ())


def test_cancelling_is_refused_where_it_would_lose_records(image: MetadataImage) -> None:
    reassign(image, [4, 5])
    set_isr(image, [4], leader=4)
    code, message = reassign(image, None)
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message is not None
    assert "unclean leader election" in message
    assert reassign(image, None, rules=UNCLEAN)[0] == ErrorCode.NONE
    assert set(orders(image).replicas) == {1, 2, 3}
    assert (orders(image).leader, orders(image).leader_recovery_state) == (1, 1)


def test_replicas_of_a_cancelled_reassignment_are_not_eligible(image: MetadataImage) -> None:
    three = TopicRules(lambda topic: False, lambda topic: 3)
    reassign(image, [4, 5, 1])
    topic_id = image.topics["orders"].topic_id
    apply(
        image,
        [PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1], eligible_leader_replicas=[2, 4])],
    )
    reassign(image, None, rules=three)
    assert (orders(image).isr, orders(image).elr) == ((1,), (2,))


@pytest.mark.parametrize("replicas", [[], [1, 9], [1, 1], [-1]])
def test_replicas_that_make_no_sense(image: MetadataImage, replicas: list[int]) -> None:
    before = image.copy()
    assert reassign(image, replicas)[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert image == before


def test_the_number_of_replicas_can_be_held(image: MetadataImage) -> None:
    code, message = reassign(image, [1, 2], may_change_factor=False)
    assert (code, message) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "The replication factor is changed from 3 to 2",
    )
    assert reassign(image, [3, 4, 5], may_change_factor=False)[0] == ErrorCode.NONE
    assert reassign(image, [1, 4, 5], may_change_factor=False)[0] == ErrorCode.NONE


def test_unknown_partitions_are_refused(image: MetadataImage) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reassign(image, [1], name="nope") == (unknown, "Unable to find a topic named nope.")
    assert reassign(image, [1], partition=9) == (unknown, "Unable to find partition orders:9.")
    assert reassign(image, None)[0] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_reassignments_under_way_are_listed(image: MetadataImage) -> None:
    reassign(image, [4, 2, 3], partition=1)

    def listed(*topics: ListPartitionReassignmentsTopics) -> dict[tuple[str, int], tuple[list[int], ...]]:
        request = ListPartitionReassignmentsRequest(topics=list(topics) or None)
        return {
            (found.name, each.partition_index): (each.replicas, each.adding_replicas, each.removing_replicas)
            for found in list_partition_reassignments(image, request).topics
            for each in found.partitions
        }

    moving = {("orders", 1): ([4, 2, 3, 1], [4], [1])}
    assert listed() == moving
    assert listed(ListPartitionReassignmentsTopics(name="orders", partition_indexes=[0, 1, 9])) == moving
    assert listed(ListPartitionReassignmentsTopics(name="orders", partition_indexes=[0])) == {}
    assert listed(ListPartitionReassignmentsTopics(name="nope", partition_indexes=[0])) == {}
