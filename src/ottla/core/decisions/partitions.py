"""New partitions, of new and of existing topics: assignments are checked or made (KIP-195).

`CreatePartitions` 0-3: the count is the new total. v1 changed nothing for brokers, v2 is flexible, v3 may be
answered with THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from ottla.core.decisions.decision import (
    MAX_RECORDS_PER_REQUEST,
    ChargePartitions,
    Decision,
    MayTopic,
    Randomness,
    anyone_may,
    uncharged,
)
from ottla.core.decisions.partition_changes import default_directory
from ottla.core.decisions.placement import place_replicas
from ottla.core.image.image import MetadataImage, TopicImage
from ottla.protocol.errors import (
    ErrorCode,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.protocol.records.partition_record import PartitionRecord
from ottla.protocol.schema import Message

TOO_MANY = "Excessively large number of partitions per request."


def partition_record(
    image: MetadataImage, topic_id: UUID, index: int, replicas: Sequence[int]
) -> PartitionRecord:
    """The record of a new partition: every active replica is in sync, the first of them leads.

    Raises InvalidReplicaAssignment if no replica is active.
    """
    isr = [replica for replica in replicas if image.brokers[replica].active]
    if not isr:
        raise InvalidReplicaAssignment(
            "All brokers specified in the manual partition assignment for partition "
            f"{index} are fenced or in controlled shutdown."
        )
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        removing_replicas=[],
        adding_replicas=[],
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[default_directory(image, replica) for replica in replicas],
    )


def check_assignment(image: MetadataImage, replicas: Sequence[int], replication_factor: int | None) -> None:
    """Check a client's own assignment of one partition. Raises InvalidReplicaAssignment."""
    if not replicas:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is "
                "registered."
            )
    duplicates = sorted(each for each in set(replicas) if replicas.count(each) > 1)
    if duplicates:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes the broker {duplicates[0]} more than once."
        )
    if replication_factor is not None and len(replicas) != replication_factor:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this "
            f"is not consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def place(
    image: MetadataImage, partition_count: int, replication_factor: int, random: Randomness
) -> list[list[int]]:
    """Replicas for the partitions of a new topic. Raises InvalidReplicationFactor."""
    try:
        return place_replicas(list(image.brokers.values()), partition_count, replication_factor, random)
    except InvalidReplicationFactor as error:
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {replication_factor} time(s): {error.message}"
        ) from None


def create_partitions(
    image: MetadataImage,
    request: CreatePartitionsRequest,
    random: Randomness,
    charge: ChargePartitions = uncharged,
    may_alter: MayTopic = anyone_may,
) -> Decision[CreatePartitionsResponse]:
    """Add partitions to existing topics; each topic succeeds or fails by itself."""
    records: list[Message] = []
    results: list[CreatePartitionsTopicResult] = []
    counts = Counter(topic.name for topic in request.topics)
    if len(counts) > MAX_RECORDS_PER_REQUEST:
        code = ErrorCode.POLICY_VIOLATION
        refused = [
            CreatePartitionsTopicResult(name=name, error_code=code, error_message=TOO_MANY) for name in counts
        ]
        return Decision([], CreatePartitionsResponse(results=refused))
    for topic in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResult(name=topic.name, error_code=ErrorCode.NONE, error_message=None)
        results.append(result)
        try:
            if counts[topic.name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            if not may_alter(topic.name):
                raise TopicAuthorizationFailed()
            created = _create_topic_partitions(image, topic, random)
            charge(len(created))
            records += created
        except (UnknownTopicOrPartition, TopicAuthorizationFailed) as error:
            result.error_code = error.code
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    if len(records) > MAX_RECORDS_PER_REQUEST:
        records = []
        for result in results:
            result.error_code, result.error_message = ErrorCode.POLICY_VIOLATION, TOO_MANY
    return Decision([] if request.validate_only else records, CreatePartitionsResponse(results=results))


def _create_topic_partitions(
    image: MetadataImage, request: CreatePartitionsTopic, random: Randomness
) -> list[Message]:
    topic = image.topics.get(request.name)
    if topic is None:
        raise UnknownTopicOrPartition()
    current = len(topic.partitions)
    if request.count == current:
        raise InvalidPartitions(f"Topic already has {current} partition(s).")
    if request.count < current:
        raise InvalidPartitions(
            f"The topic {topic.name} currently has {current} partition(s); {request.count} would not be an "
            "increase."
        )
    additional = request.count - current
    if additional > MAX_RECORDS_PER_REQUEST:
        raise PolicyViolation(TOO_MANY)
    replication_factor = len(topic.partitions[0].replicas)
    if request.assignments is None:
        assignments = place_replicas(list(image.brokers.values()), additional, replication_factor, random)
    else:
        assignments = [list(assignment.broker_ids) for assignment in request.assignments]
        _check_assignments(image, topic, assignments, additional, replication_factor)
    return [
        partition_record(image, topic.topic_id, current + position, replicas)
        for position, replicas in enumerate(assignments)
    ]


def _check_assignments(
    image: MetadataImage,
    topic: TopicImage,
    assignments: list[list[int]],
    additional: int,
    replication_factor: int,
) -> None:
    if len(assignments) != additional:
        raise InvalidReplicaAssignment(
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} "
            "assignment(s) were specified."
        )
    for replicas in assignments:
        check_assignment(image, replicas, replication_factor)
