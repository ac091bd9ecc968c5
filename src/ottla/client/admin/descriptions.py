"""Topics described with their partitions, and the replicas that are being moved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.client.cluster_requests import ClusterRequests, topic_error
from ottla.client.errors import ClusterError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ottla.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from ottla.protocol.messages.metadata_response import MetadataResponseTopic

DescribedTopic = DescribeTopicPartitionsResponseTopic | MetadataResponseTopic


async def describe_topics(
    requests: ClusterRequests, names: Iterable[str]
) -> dict[str, DescribedTopic | ClusterError]:
    """The state of each topic by its name. Raises ClusterError where no broker answers.

    By DescribeTopicPartitions, which tells the eligible leaders (KIP-966); by Metadata where the broker has
    no such request.
    """
    wanted = sorted(set(names))
    found: dict[str, DescribedTopic | ClusterError] = {}
    if not wanted:
        return found
    try:
        topics: Sequence[DescribedTopic] = await _all_partitions(requests, wanted)
    except ClusterError as problem:
        if problem.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        topics = await requests.topics(wanted)
    for topic in topics:
        name = topic.name or ""
        found[name] = topic_error(name, topic.error_code) if topic.error_code else topic
    return {
        name: found.get(name) or topic_error(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in wanted
    }


async def _all_partitions(
    requests: ClusterRequests, names: Sequence[str]
) -> list[DescribeTopicPartitionsResponseTopic]:
    """The pages of a description put together."""
    topics: dict[str, DescribeTopicPartitionsResponseTopic] = {}
    cursor: Cursor | None = None
    while True:
        left = [name for name in names if cursor is None or name >= cursor.topic_name]
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in left], cursor=cursor
        )
        answer = await requests.ask(request, DescribeTopicPartitionsResponse)
        for topic in answer.topics:
            known = topics.setdefault(topic.name or "", topic)
            if known is not topic:
                known.partitions += topic.partitions
        page_end = answer.next_cursor
        if page_end is None:
            return list(topics.values())
        place = page_end.topic_name, page_end.partition_index
        if cursor is not None and place <= (cursor.topic_name, cursor.partition_index):
            raise ClusterError(f"the broker's description does not go on after {place[0]}-{place[1]}")
        cursor = Cursor(topic_name=place[0], partition_index=place[1])


async def moving_replicas(requests: ClusterRequests) -> dict[tuple[str, int], list[int]]:
    """Partitions whose replicas are being moved: topic and index -> the replicas that are being added.

    Nothing for a client who may not see them.
    """
    try:
        answer = await requests.ask(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse)
    except ClusterError as problem:
        if problem.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        return {}
    return {
        (topic.name, one.partition_index): one.adding_replicas
        for topic in answer.topics
        for one in topic.partitions
    }
