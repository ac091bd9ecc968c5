"""The requests of moves: reassign, list what is under way, elect (KIP-455, KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.cluster_requests import (
    ClusterRequests,
    TopicPartition,
    by_topic,
    refusal,
    require_success,
)
from ottla.client.errors import ClusterError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
)
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.elect_leaders_response import ElectLeadersResponse
from ottla.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ottla.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse

PREFERRED: Final = 0
ELECTED_A_REQUEST: Final = 1_000


@dataclass(frozen=True, slots=True)
class Ongoing:
    """A move that is under way."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def reassign(
    client: ClusterRequests, wanted: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, ClusterError | None]:
    """Begin moves; None ends one as it was before. The error of each, None for none. Raises ClusterError."""
    topics: dict[str, ReassignableTopic] = {}
    for place, replicas in wanted.items():
        topic = topics.setdefault(place.topic, ReassignableTopic(name=place.topic, partitions=[]))
        topic.partitions.append(
            ReassignablePartition(
                partition_index=place.partition, replicas=None if replicas is None else list(replicas)
            )
        )
    request = AlterPartitionReassignmentsRequest(topics=list(topics.values()))
    answer = await client.ask(request, AlterPartitionReassignmentsResponse)
    require_success(answer.error_code, answer.error_message)
    found: dict[TopicPartition, ClusterError | None] = {}
    for response in answer.responses:
        for one in response.partitions:
            place = TopicPartition(response.name, one.partition_index)
            code = one.error_code
            found[place] = refusal(code, one.error_message, str(place)) if code else None
    return found


async def ongoing(client: ClusterRequests) -> dict[TopicPartition, Ongoing]:
    """The moves that are under way, whoever began them. Raises ClusterError."""
    answer = await client.ask(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse)
    require_success(answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, one.partition_index): Ongoing(
            tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
        )
        for topic in answer.topics
        for one in topic.partitions
    }


async def elect(
    client: ClusterRequests, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ClusterError | None]:
    """Let the preferred replicas lead; the error of each, None also where it leads. Raises ClusterError."""
    found: dict[TopicPartition, ClusterError | None] = {}
    listed = list(partitions)
    for start in range(0, len(listed), ELECTED_A_REQUEST):
        topics = [
            TopicPartitions(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(listed[start : start + ELECTED_A_REQUEST]).items()
        ]
        request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=topics)
        answer = await client.ask(request, ElectLeadersResponse)
        require_success(answer.error_code, None)
        for result in answer.replica_election_results:
            for one in result.partition_result:
                place = TopicPartition(result.topic, one.partition_id)
                is_done = one.error_code in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
                found[place] = None if is_done else refusal(one.error_code, one.error_message, str(place))
    return found
