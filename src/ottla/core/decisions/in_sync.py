"""AlterPartition 2-3: a leader changes the in-sync set of its partition, or reports that it has recovered.

Each partition succeeds or fails by itself; the leader reacts to the error of one that fails:

    FENCED_LEADER_EPOCH         it no longer leads
    NEW_LEADER_ELECTED          it no longer leads: its change completed a reassignment to another leader
    INVALID_UPDATE_VERSION      there is newer metadata to wait for
    INELIGIBLE_REPLICA          a replica is fenced, stops, or has restarted since
    UNKNOWN_TOPIC_ID            the topic is gone
    NOT_CONTROLLER              this controller knows less than the leader: another one may be active

v3 names the broker epochs of the replicas (KIP-903), so that a replica that has restarted does not count as
caught up.
"""

from __future__ import annotations

from ottla.core.decisions.decision import Decision
from ottla.core.decisions.partition_changes import (
    RECOVERED,
    RECOVERING,
    PartitionChanges,
    Target,
    TopicRules,
)
from ottla.core.decisions.registration import registered_broker
from ottla.core.image.image import MetadataImage, PartitionImage, TopicImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_partition_request as requested
from ottla.protocol.messages import alter_partition_response as answered
from ottla.protocol.messages.alter_partition_request import AlterPartitionRequest
from ottla.protocol.messages.alter_partition_response import AlterPartitionResponse

#: The broker epoch of a replica if the leader does not know it.
UNKNOWN_BROKER_EPOCH = -1


def alter_partition(
    image: MetadataImage, request: AlterPartitionRequest, rules: TopicRules
) -> Decision[AlterPartitionResponse]:
    """Decide on the changes; errors are in the response for each partition. Raises StaleBrokerEpoch."""
    registered_broker(image, request.broker_id, request.broker_epoch)
    changes = PartitionChanges(image, rules)
    answers: list[answered.TopicData] = []
    for asked in request.topics:
        topic = image.topics_by_id.get(asked.topic_id)
        answers.append(
            answered.TopicData(
                topic_id=asked.topic_id,
                partitions=[
                    answered.PartitionData(
                        partition_index=each.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                    )
                    if topic is None
                    else _alter(changes, topic, request.broker_id, each)
                    for each in asked.partitions
                ],
            )
        )
    return Decision(changes.records, AlterPartitionResponse(topics=answers))


def _alter(
    changes: PartitionChanges, topic: TopicImage, broker_id: int, asked: requested.PartitionData
) -> answered.PartitionData:
    index = asked.partition_index
    partition = changes.partition(topic, index)
    if partition is None:
        return answered.PartitionData(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    epochs = _new_isr(asked)
    error = _refusal(changes.image, partition, broker_id, asked, epochs)
    if error is not ErrorCode.NONE:
        return answered.PartitionData(partition_index=index, error_code=error)
    target = Target(
        isr=tuple(replica for replica, _ in epochs), leader_recovery_state=asked.leader_recovery_state
    )
    partition = changes.change(topic, index, target) or partition
    if partition.leader != broker_id:
        return answered.PartitionData(partition_index=index, error_code=ErrorCode.NEW_LEADER_ELECTED)
    return answered.PartitionData(
        partition_index=index,
        error_code=ErrorCode.NONE,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _new_isr(asked: requested.PartitionData) -> list[tuple[int, int]]:
    """The replicas and their broker epochs, -1 in v2."""
    if asked.new_isr_with_epochs:
        return [(each.broker_id, each.broker_epoch) for each in asked.new_isr_with_epochs]
    return [(replica, UNKNOWN_BROKER_EPOCH) for replica in asked.new_isr]


def _refusal(
    image: MetadataImage,
    partition: PartitionImage,
    broker_id: int,
    asked: requested.PartitionData,
    epochs: list[tuple[int, int]],
) -> ErrorCode:
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    isr = [replica for replica, _ in epochs]
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or broker_id not in isr:
        return ErrorCode.INVALID_REQUEST
    state = asked.leader_recovery_state
    if state not in (RECOVERED, RECOVERING) or (state == RECOVERING and len(isr) > 1):
        return ErrorCode.INVALID_REQUEST
    if state == RECOVERING and partition.leader_recovery_state == RECOVERED:
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(image, replica, epoch) for replica, epoch in epochs):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_eligible(image: MetadataImage, replica: int, broker_epoch: int) -> bool:
    broker = image.brokers.get(replica)
    if broker is None or not broker.active:
        return False
    return broker_epoch in (UNKNOWN_BROKER_EPOCH, broker.broker_epoch)
