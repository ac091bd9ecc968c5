"""Elections that an administrator asks for: ElectLeaders 0-2 (KIP-183, KIP-460).

A preferred election gives a partition back to its first replica, if that is in sync. An unclean one (v1)
gives a partition without a leader to any live replica, whose log then is the truth: records may be lost.
"""

from __future__ import annotations

import enum

from ottla.core.metadata.decisions import Decision
from ottla.core.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.protocol.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    ErrorCode,
    InvalidRequest,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ottla.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.protocol.records.partition_change_record import PartitionChangeRecord
from ottla.protocol.schema import Message

RECOVERING = 1


class ElectionType(enum.IntEnum):
    """What is asked for."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(image: MetadataImage, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Each partition succeeds or fails by itself. Asked for all, those that need none are not told of."""
    if request.election_type not in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        raise InvalidRequest(f"Unknown election type {request.election_type}")
    kind = ElectionType(request.election_type)
    asked_for_all = request.topic_partitions is None
    wanted = (
        [(name, sorted(topic.partitions)) for name, topic in sorted(image.topics.items())]
        if request.topic_partitions is None
        else [(each.topic, list(dict.fromkeys(each.partitions))) for each in request.topic_partitions]
    )
    records: list[Message] = []
    results: list[ReplicaElectionResult] = []
    for name, indexes in wanted:
        answers: list[PartitionResult] = []
        for index in indexes:
            answer = PartitionResult(partition_id=index, error_code=ErrorCode.NONE, error_message=None)
            try:
                topic, partition = _find(image, name, index)
                records.append(_elect(image, topic, partition, kind))
            except ElectionNotNeeded as error:
                if asked_for_all:
                    continue
                answer.error_code, answer.error_message = error.code, error.message
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message
            answers.append(answer)
        results.append(ReplicaElectionResult(topic=name, partition_result=answers))
    return Decision(records, ElectLeadersResponse(replica_election_results=results))


def _find(image: MetadataImage, name: str, index: int) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise UnknownTopicOrPartition(f"No such partition as {name}-{index}")
    return topic, partition


def _elect(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, kind: ElectionType
) -> PartitionChangeRecord:
    change = PartitionChangeRecord(partition_id=partition.partition_id, topic_id=topic.topic_id)
    if kind is ElectionType.PREFERRED:
        preferred = partition.replicas[0]
        if partition.leader == preferred:
            raise ElectionNotNeeded()
        if preferred not in partition.isr or not _is_active(image, preferred):
            raise PreferredLeaderNotAvailable()
        change.leader = preferred
        return change
    if partition.leader != NO_LEADER:
        raise ElectionNotNeeded()
    in_sync = [each for each in (*partition.isr, *partition.elr) if _is_active(image, each)]
    live = in_sync or [each for each in partition.replicas if _is_active(image, each)]
    if not live:
        raise EligibleLeadersNotAvailable()
    change.leader = live[0]
    change.isr = [live[0]]
    if not in_sync:
        change.leader_recovery_state = RECOVERING
    if partition.elr:
        change.eligible_leader_replicas = []
    if partition.last_known_elr:
        change.last_known_elr = []
    return change


def _is_active(image: MetadataImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.active
