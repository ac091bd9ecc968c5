"""Data directories that fail or are cordoned, and the directories of replicas."""

from __future__ import annotations

import uuid

import pytest

from ottla.core.decisions.directories import (
    assign_replicas_to_dirs,
    cordon_directories,
    fail_directories,
    wanted_assignment,
)
from ottla.core.decisions.fencing import fence_broker
from ottla.core.decisions.partition_changes import PartitionChanges
from ottla.core.image.image import NO_LEADER, UNASSIGNED_DIRECTORY, MetadataImage, PartitionImage
from ottla.protocol.errors import ErrorCode, InvalidReplicationFactor, StaleBrokerEpoch
from ottla.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from ottla.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from support.core.metadata import (
    RULES,
    SeededRandomness,
    apply,
    create,
    decided,
    directory_of,
    image_with_brokers,
    topic,
)

FIRST, SECOND = directory_of(1), uuid.UUID(int=7001)


@pytest.fixture
def image() -> MetadataImage:
    """Broker 1 has two directories, broker 2 has one."""
    made = image_with_brokers([1, 2])
    apply(made, [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, log_dirs=[FIRST, SECOND])])
    create(made, topic("orders", assignments={0: [1, 2], 1: [1, 2]}))
    create(made, topic("others", assignments={0: [2]}), seed=1)
    return made


def partition(image: MetadataImage, index: int) -> PartitionImage:
    return image.topics["orders"].partitions[index]


def assign(image: MetadataImage, directory: uuid.UUID, *indexes: int, name: str = "orders") -> list[int]:
    request = AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=101,
        directories=[
            DirectoryData(
                id=directory,
                topics=[
                    TopicData(
                        topic_id=image.topics[name].topic_id,
                        partitions=[PartitionData(partition_index=index) for index in indexes],
                    )
                ],
            )
        ],
    )
    response = decided(image, assign_replicas_to_dirs(image, request, RULES))
    return [each.error_code for each in response.directories[0].topics[0].partitions]


def fail(image: MetadataImage, *directories: uuid.UUID) -> None:
    changes = PartitionChanges(image, RULES)
    fail_directories(changes, 1, directories)
    apply(image, changes.records)


def test_a_broker_with_several_chooses_by_itself(image: MetadataImage) -> None:
    assert partition(image, 0).directories == (UNASSIGNED_DIRECTORY, directory_of(2))
    assert assign(image, SECOND, 0) == [ErrorCode.NONE]
    assert partition(image, 0).directories == (SECOND, directory_of(2))
    assert partition(image, 0).leader_epoch == 0


def test_errors_are_told_one_by_one(image: MetadataImage) -> None:
    assert assign(image, FIRST, 0, 9) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert assign(image, FIRST, 0, name="others") == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    request = AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=101,
        directories=[
            DirectoryData(
                id=FIRST,
                topics=[TopicData(topic_id=uuid.UUID(int=9), partitions=[PartitionData(partition_index=0)])],
            )
        ],
    )
    answer = assign_replicas_to_dirs(image, request, RULES).response
    assert answer.directories[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    with pytest.raises(StaleBrokerEpoch):
        assign_replicas_to_dirs(image, AssignReplicasToDirsRequest(broker_id=1, broker_epoch=7), RULES)


def test_a_failed_directory_takes_its_replicas_only(image: MetadataImage) -> None:
    assign(image, FIRST, 0)
    assign(image, SECOND, 1)
    fail(image, SECOND)
    assert (partition(image, 0).leader, partition(image, 0).isr) == (1, (1, 2))
    assert (partition(image, 1).leader, partition(image, 1).isr) == (2, (2,))
    assert image.brokers[1].log_dirs == (FIRST,)
    before = image.copy()
    fail(image, SECOND)
    assert image == before


def test_a_replica_that_turns_up_in_a_failed_directory(image: MetadataImage) -> None:
    assert assign(image, uuid.UUID(int=9999), 0) == [ErrorCode.NONE]
    assert (partition(image, 0).leader, partition(image, 0).isr) == (2, (2,))


def test_a_replica_that_turns_up_leads_again(image: MetadataImage) -> None:
    changes = PartitionChanges(image, RULES)
    fence_broker(changes, 2)
    apply(image, changes.records)
    assign(image, uuid.UUID(int=9999), 0)
    assert partition(image, 0).leader == NO_LEADER
    assign(image, FIRST, 0)
    assert partition(image, 0).leader == 1


def test_a_broker_assigns_the_replicas_that_the_metadata_has_elsewhere(image: MetadataImage) -> None:
    request = wanted_assignment(image, 1, FIRST)
    assert request is not None
    decided(image, assign_replicas_to_dirs(image, request, RULES))
    assert partition(image, 1).directories[0] == FIRST
    assert wanted_assignment(image, 1, FIRST) is None
    assert wanted_assignment(image, 2, directory_of(2)) is None


def test_cordoned_directories_get_no_new_partitions(image: MetadataImage) -> None:
    def cordon(directories: list[uuid.UUID] | None) -> int:
        changes = PartitionChanges(image, RULES)
        cordon_directories(changes, 1, directories)
        apply(image, changes.records)
        return len(changes.records)

    assert cordon(None) == 0
    assert cordon([FIRST]) == 1
    assert not image.brokers[1].cordoned
    assert cordon([SECOND, FIRST]) == 1
    assert cordon([FIRST, SECOND]) == 0
    from ottla.core.decisions.placement import place_replicas

    brokers = list(image.brokers.values())
    assert place_replicas(brokers, 3, 1, SeededRandomness()) == [[2], [2], [2]]
    with pytest.raises(InvalidReplicationFactor, match="only 1 broker"):
        place_replicas(brokers, 1, 2, SeededRandomness())
    assert cordon([]) == 1
    assert not image.brokers[1].cordoned
