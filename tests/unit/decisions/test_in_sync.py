"""Leaders change the in-sync sets of their partitions."""

from __future__ import annotations

import uuid

import pytest

from ottla.core.decisions.in_sync import alter_partition
from ottla.core.decisions.reassignments import alter_partition_reassignments
from ottla.core.image.image import MetadataImage, PartitionImage
from ottla.protocol.errors import ErrorCode, StaleBrokerEpoch
from ottla.protocol.messages import alter_partition_response as answered
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from ottla.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.protocol.records.partition_change_record import PartitionChangeRecord
from support.core.metadata import RULES, apply, create, decided, image_with_brokers, topic


@pytest.fixture
def image() -> MetadataImage:
    made = image_with_brokers([1, 2, 3, 4])
    create(made, topic("orders", assignments={0: [1, 2, 3]}))
    return made


def orders(image: MetadataImage) -> PartitionImage:
    return image.topics["orders"].partitions[0]


def alter(
    image: MetadataImage,
    isr: list[int],
    *,
    broker_id: int = 1,
    partition_index: int = 0,
    leader_epoch: int | None = None,
    partition_epoch: int | None = None,
    state: int = 0,
    epochs: dict[int, int] | None = None,
    topic_id: uuid.UUID | None = None,
    old_version: bool = False,
) -> answered.PartitionData:
    known = orders(image)
    states = [BrokerState(broker_id=each, broker_epoch=(epochs or {}).get(each, 100 + each)) for each in isr]
    partition = PartitionData(
        partition_index=partition_index,
        leader_epoch=known.leader_epoch if leader_epoch is None else leader_epoch,
        partition_epoch=known.partition_epoch if partition_epoch is None else partition_epoch,
        leader_recovery_state=state,
        new_isr=isr if old_version else [],
        new_isr_with_epochs=[] if old_version else states,
    )
    request = AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=100 + broker_id,
        topics=[TopicData(topic_id=topic_id or image.topics["orders"].topic_id, partitions=[partition])],
    )
    return decided(image, alter_partition(image, request, RULES)).topics[0].partitions[0]


def test_the_set_shrinks_and_grows(image: MetadataImage) -> None:
    answer = alter(image, [1, 2])
    assert (answer.error_code, answer.isr, answer.leader_id) == (ErrorCode.NONE, [1, 2], 1)
    assert (answer.leader_epoch, answer.partition_epoch) == (0, 1)
    assert orders(image).isr == (1, 2)
    assert alter(image, [1, 2, 3]).partition_epoch == 2
    assert orders(image).isr == (1, 2, 3)


def test_version_2_names_no_epochs(image: MetadataImage) -> None:
    assert alter(image, [1, 2], old_version=True).error_code == ErrorCode.NONE
    assert orders(image).isr == (1, 2)


def test_an_unchanged_in_sync_set_is_answered_without_an_error(image: MetadataImage) -> None:
    answer = alter(image, [1, 2, 3])
    assert (answer.error_code, answer.partition_epoch) == (ErrorCode.NONE, 0)


def test_a_leader_says_that_it_has_recovered(image: MetadataImage) -> None:
    topic_id = image.topics["orders"].topic_id
    unclean = PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, leader=1, isr=[1], leader_recovery_state=1
    )
    apply(image, [unclean])
    assert alter(image, [1, 2], state=1).error_code == ErrorCode.INVALID_REQUEST
    answer = alter(image, [1, 2], state=0)
    assert (answer.error_code, answer.leader_recovery_state) == (ErrorCode.NONE, 0)
    assert alter(image, [1], state=1).error_code == ErrorCode.INVALID_REQUEST  # it does not go back


def test_epochs(image: MetadataImage) -> None:
    alter(image, [1, 2])
    assert alter(image, [1], leader_epoch=1).error_code == ErrorCode.NOT_CONTROLLER
    assert alter(image, [1], partition_epoch=2).error_code == ErrorCode.NOT_CONTROLLER
    assert alter(image, [1], partition_epoch=0).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert alter(image, [1], leader_epoch=-1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert orders(image).isr == (1, 2)


@pytest.mark.parametrize("isr", [[], [2, 3], [1, 1], [1, 4]])
def test_sets_that_make_no_sense(image: MetadataImage, isr: list[int]) -> None:
    assert alter(image, isr).error_code == ErrorCode.INVALID_REQUEST


def test_only_the_leader_may(image: MetadataImage) -> None:
    assert alter(image, [1, 2], broker_id=2).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("change", [{"fenced": 1}, {"in_controlled_shutdown": 1}])
def test_a_fenced_or_stopping_replica_is_ineligible(image: MetadataImage, change: dict[str, int]) -> None:
    alter(image, [1, 2])
    apply(image, [BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=103, **change)])
    assert alter(image, [1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_restarted_replica_is_ineligible(image: MetadataImage) -> None:
    alter(image, [1, 2])
    assert alter(image, [1, 2, 3], epochs={3: 7}).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert alter(image, [1, 2, 3], epochs={3: -1}).error_code == ErrorCode.NONE


def test_unknown_partitions_are_refused(image: MetadataImage) -> None:
    assert alter(image, [1], partition_index=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(image, [1], topic_id=uuid.UUID(int=9)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_another_run_of_the_broker(image: MetadataImage) -> None:
    with pytest.raises(StaleBrokerEpoch):
        alter_partition(image, AlterPartitionRequest(broker_id=1, broker_epoch=7), RULES)


def test_the_last_one_in_sync_ends_a_reassignment(image: MetadataImage) -> None:
    moving = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name="orders", partitions=[ReassignablePartition(partition_index=0, replicas=[2, 4])]
            )
        ]
    )
    decided(image, alter_partition_reassignments(image, moving, RULES))
    assert alter(image, [1, 2, 3, 4]).error_code == ErrorCode.NEW_LEADER_ELECTED
    assert (orders(image).replicas, orders(image).leader, orders(image).isr) == ((2, 4), 2, (2, 4))
