"""Reassignments: AlterPartitionReassignments 0-1, ListPartitionReassignments 0 (KIP-455).

A reassignment adds the new replicas to the old ones, waits until every replica that stays is in sync, then
removes the others (`partition_changes` completes it). Meanwhile it can be replaced by another one or
cancelled. v1 can forbid that the number of replicas changes (KIP-860).

`adding_replicas` are those that the partition did not have before any reassignment that still runs, so
cancelling removes all of them; those of a replaced reassignment are then both adding and removing. (Kafka
forgets them, and keeps them when the second reassignment is cancelled.)
"""

from __future__ import annotations

from ottla.core.decisions.decision import MAX_RECORDS_PER_REQUEST, Decision
from ottla.core.decisions.partition_changes import Election, PartitionChanges, Target, TopicRules
from ottla.core.decisions.partitions import check_assignment
from ottla.core.image.image import MetadataImage, PartitionImage, TopicImage
from ottla.protocol.errors import (
    ErrorCode,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    KafkaError,
    NoReassignmentInProgress,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from ottla.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ottla.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def is_reassigning(partition: PartitionImage) -> bool:
    """Whether a reassignment of the partition is under way."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def alter_partition_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest, rules: TopicRules
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Begin, replace or cancel (without replicas) reassignments; each partition
    succeeds or fails by itself.
    """
    changes = PartitionChanges(image, rules)
    responses: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        answers: list[ReassignablePartitionResponse] = []
        for asked in topic.partitions:
            answer = ReassignablePartitionResponse(
                partition_index=asked.partition_index, error_code=ErrorCode.NONE, error_message=None
            )
            answers.append(answer)
            try:
                if len(changes.records) >= MAX_RECORDS_PER_REQUEST:
                    raise PolicyViolation("Unable to perform excessively large batch operation.")
                found, partition = _find(changes, topic.name, asked.partition_index)
                if asked.replicas is None:
                    _cancel(changes, found, partition)
                else:
                    may_change_factor = request.allow_replication_factor_change
                    _reassign(changes, found, partition, tuple(asked.replicas), may_change_factor)
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=answers))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )
    return Decision(changes.records, response)


def _find(changes: PartitionChanges, name: str, index: int) -> tuple[TopicImage, PartitionImage]:
    topic = changes.image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"Unable to find a topic named {name}.")
    partition = changes.partition(topic, index)
    if partition is None:
        raise UnknownTopicOrPartition(f"Unable to find partition {name}:{index}.")
    return topic, partition


def _original_replicas(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas before any reassignment that still runs."""
    return tuple(each for each in partition.replicas if each not in partition.adding_replicas)


def _reassign(
    changes: PartitionChanges,
    topic: TopicImage,
    partition: PartitionImage,
    wanted: tuple[int, ...],
    may_change_factor: bool,
) -> None:
    check_assignment(changes.image, wanted, None)
    factor = len(set(partition.replicas).difference(partition.removing_replicas))
    if not may_change_factor and len(wanted) != factor:
        raise InvalidReplicationFactor(f"The replication factor is changed from {factor} to {len(wanted)}")
    removing = tuple(sorted(set(partition.replicas).difference(wanted)))
    adding = tuple(sorted({*partition.replicas, *wanted}.difference(_original_replicas(partition))))
    target = Target(replicas=(*wanted, *removing), removing_replicas=removing, adding_replicas=adding)
    changes.change(topic, partition.partition_id, target, Election.ONLINE)


def _cancel(changes: PartitionChanges, topic: TopicImage, partition: PartitionImage) -> None:
    if not is_reassigning(partition):
        raise NoReassignmentInProgress()
    replicas = _original_replicas(partition)
    if not replicas:
        raise InvalidReplicaAssignment("Invalid replica assignment: addingReplicas contains all replicas.")
    isr = tuple(each for each in partition.isr if each in replicas)
    # Only replicas that leave are in sync: the ones that stay may lack records.
    is_unclean = bool(partition.isr) and not isr
    if is_unclean and not changes.rules.may_elect_uncleanly(topic.name):
        raise InvalidReplicaAssignment(
            f"Unable to revert partition assignment for {topic.name}:{partition.partition_id} because it "
            "would require an unclean leader election."
        )
    target = Target(isr=isr, replicas=replicas, removing_replicas=(), adding_replicas=())
    changes.change(topic, partition.partition_id, target)


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The reassignments under way. Any node could answer from its image; the controller does."""
    if request.topics is None:
        wanted = [(name, sorted(topic.partitions)) for name, topic in image.topics.items()]
    else:
        wanted = [(topic.name, list(topic.partition_indexes)) for topic in request.topics]
    ongoing: list[OngoingTopicReassignment] = []
    for name, indexes in wanted:
        partitions = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for index, partition in _known(image, name, indexes)
            if is_reassigning(partition)
        ]
        if partitions:
            ongoing.append(OngoingTopicReassignment(name=name, partitions=partitions))
    return ListPartitionReassignmentsResponse(error_message=None, topics=ongoing)


def _known(image: MetadataImage, name: str, indexes: list[int]) -> list[tuple[int, PartitionImage]]:
    topic = image.topics.get(name)
    if topic is None:
        return []
    return [(index, topic.partitions[index]) for index in indexes if index in topic.partitions]
