"""Elections on an administrator's request: ElectLeaders 0-2 (KIP-183, KIP-460).

A preferred election makes the first replica the leader, if it is in sync. An unclean one (v1) gives a
partition without a leader to any live replica, whose log is then authoritative: records may be lost. Replicas
that are in sync or eligible (KIP-966) still come first.
"""

from __future__ import annotations

import enum

from ottla.core.decisions.decision import MAX_RECORDS_PER_REQUEST, Decision
from ottla.core.decisions.partition_changes import (
    RECOVERING,
    Election,
    PartitionChanges,
    Target,
    TopicRules,
)
from ottla.core.image.image import NO_LEADER, MetadataImage
from ottla.protocol.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    ErrorCode,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ottla.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

__all__ = ["RECOVERING", "ElectionType", "elect_leaders"]


class ElectionType(enum.IntEnum):
    """The type of election in a request."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    image: MetadataImage, request: ElectLeadersRequest, rules: TopicRules
) -> Decision[ElectLeadersResponse]:
    """Elect leaders; each partition succeeds or fails by itself. A request for all partitions is not told of
    those that need no election.
    """
    if request.election_type not in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        raise InvalidRequest(f"Unknown election type {request.election_type}")
    kind = ElectionType(request.election_type)
    asked_for_all = request.topic_partitions is None
    wanted = (
        [(name, sorted(topic.partitions)) for name, topic in sorted(image.topics.items())]
        if request.topic_partitions is None
        else [(each.topic, list(dict.fromkeys(each.partitions))) for each in request.topic_partitions]
    )
    changes = PartitionChanges(image, rules)
    results: list[ReplicaElectionResult] = []
    for name, indexes in wanted:
        answers: list[PartitionResult] = []
        for index in indexes:
            answer = PartitionResult(partition_id=index, error_code=ErrorCode.NONE, error_message=None)
            try:
                _elect(changes, name, index, kind)
            except ElectionNotNeeded as error:
                if asked_for_all:
                    continue
                answer.error_code, answer.error_message = error.code, error.message
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message
            answers.append(answer)
        results.append(ReplicaElectionResult(topic=name, partition_result=answers))
    return Decision(changes.records, ElectLeadersResponse(replica_election_results=results))


def _elect(changes: PartitionChanges, name: str, index: int, kind: ElectionType) -> None:
    topic = changes.image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"No such topic as {name}")
    partition = changes.partition(topic, index)
    if partition is None:
        raise UnknownTopicOrPartition(f"No such partition as {name}-{index}")
    if len(changes.records) >= MAX_RECORDS_PER_REQUEST:
        raise PolicyViolation("Unable to perform excessively large batch operation.")
    if kind is ElectionType.PREFERRED:
        if partition.leader == partition.replicas[0]:
            raise ElectionNotNeeded()
        if changes.change(topic, index, Target(), Election.PREFERRED) is None:
            raise PreferredLeaderNotAvailable()
    else:
        if partition.leader != NO_LEADER:
            raise ElectionNotNeeded()
        if changes.change(topic, index, Target(), Election.UNCLEAN) is None:
            raise EligibleLeadersNotAvailable()
