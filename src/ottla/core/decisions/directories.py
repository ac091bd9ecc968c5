"""The data directories of a broker's replicas: AssignReplicasToDirs 0, failed directories (KIP-858).

A replica in a failed directory leads nothing and is not in sync; the broker's other replicas go on. A
cordoned directory (KIP-1066) gets no new partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from ottla.core.decisions.decision import Decision
from ottla.core.decisions.partition_changes import PartitionChanges, Target, TopicRules
from ottla.core.decisions.registration import registered_broker
from ottla.core.image.image import BrokerImage, MetadataImage
from ottla.protocol.errors import (
    ErrorCode,
    KafkaError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages import assign_replicas_to_dirs_request as requested
from ottla.protocol.messages import assign_replicas_to_dirs_response as answered
from ottla.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from ottla.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from ottla.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord


def assign_replicas_to_dirs(
    image: MetadataImage, request: AssignReplicasToDirsRequest, rules: TopicRules
) -> Decision[AssignReplicasToDirsResponse]:
    """Take the directories that a broker names for its replicas;
    each succeeds or fails by itself. Raises StaleBrokerEpoch.
    """
    broker = registered_broker(image, request.broker_id, request.broker_epoch)
    changes = PartitionChanges(image, rules)
    answers = [
        answered.DirectoryData(
            id=directory.id,
            topics=[
                answered.TopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        answered.PartitionData(
                            partition_index=each.partition_index,
                            error_code=_assign(
                                changes, broker, directory.id, topic.topic_id, each.partition_index
                            ),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in directory.topics
            ],
        )
        for directory in request.directories
    ]
    return Decision(changes.records, AssignReplicasToDirsResponse(directories=answers))


def _assign(
    changes: PartitionChanges, broker: BrokerImage, directory_id: UUID, topic_id: UUID, index: int
) -> ErrorCode:
    try:
        _assign_one(changes, broker, directory_id, topic_id, index)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def _assign_one(
    changes: PartitionChanges, broker: BrokerImage, directory_id: UUID, topic_id: UUID, index: int
) -> None:
    topic = changes.image.topics_by_id.get(topic_id)
    if topic is None:
        raise UnknownTopicId()
    partition = changes.partition(topic, index)
    if partition is None:
        raise UnknownTopicOrPartition()
    if broker.broker_id not in partition.replicas:
        raise NotLeaderOrFollower()
    directories = {broker.broker_id: directory_id}
    if broker.is_online(directory_id):
        changes.change(topic, index, Target(directories=directories))
    else:
        isr = tuple(each for each in partition.isr if each != broker.broker_id)
        changes.change(topic, index, Target(isr=isr, directories=directories, barred=broker.broker_id))


def wanted_assignment(
    image: MetadataImage, broker_id: int, directory_id: UUID
) -> AssignReplicasToDirsRequest | None:
    """The request that a broker with this one directory has to send: its replicas that the metadata has
    elsewhere. None if there are none.
    """
    topics: dict[UUID, list[requested.PartitionData]] = {}
    for topic, partition in image.partitions_of_broker(broker_id):
        if partition.directories[partition.replicas.index(broker_id)] != directory_id:
            topics.setdefault(topic.topic_id, []).append(
                requested.PartitionData(partition_index=partition.partition_id)
            )
    if not topics:
        return None
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=image.brokers[broker_id].broker_epoch,
        directories=[
            requested.DirectoryData(
                id=directory_id,
                topics=[
                    requested.TopicData(topic_id=topic_id, partitions=partitions)
                    for topic_id, partitions in topics.items()
                ],
            )
        ],
    )


def fail_directories(changes: PartitionChanges, broker_id: int, failed: Collection[UUID]) -> None:
    """Take replicas in failed directories out of leadership and the in-sync sets."""
    broker = changes.image.brokers[broker_id]
    newly_failed = [each for each in broker.log_dirs if each in failed]
    if not newly_failed:
        return
    for topic, known in changes.image.partitions_of_broker(broker_id):
        partition = changes.partition(topic, known.partition_id) or known
        directory_id = partition.directories[partition.replicas.index(broker_id)]
        if directory_id in newly_failed:
            isr = tuple(each for each in partition.isr if each != broker_id)
            changes.change(topic, partition.partition_id, Target(isr=isr, barred=broker_id))
    changes.records.append(
        BrokerRegistrationChangeRecord(
            broker_id=broker_id,
            broker_epoch=broker.broker_epoch,
            log_dirs=[each for each in broker.log_dirs if each not in newly_failed],
        )
    )


def cordon_directories(changes: PartitionChanges, broker_id: int, cordoned: Sequence[UUID] | None) -> None:
    """Set which directories get no new partitions; None changes nothing."""
    broker = changes.image.brokers[broker_id]
    if cordoned is None or set(cordoned) == set(broker.cordoned_log_dirs or ()):
        return
    changes.records.append(
        BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=broker.broker_epoch, cordoned_log_dirs=list(cordoned)
        )
    )
