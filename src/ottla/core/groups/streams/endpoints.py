"""The partitions at each user endpoint, for interactive queries; members are told of changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.core.groups.streams.configured import ConfiguredTopology
from ottla.core.groups.streams.group import StreamsMember
from ottla.core.groups.topics import TopicsView
from ottla.protocol.messages.streams_group_heartbeat_response import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)


def partitions_by_endpoint(
    members: Iterable[StreamsMember], configured: ConfiguredTopology, topics: TopicsView
) -> list[EndpointToPartitions]:
    """The input partitions of the members with an endpoint: of active tasks; of standbys and warm-ups."""
    return [
        EndpointToPartitions(
            user_endpoint=Endpoint(host=member.user_endpoint.host, port=member.user_endpoint.port),
            active_partitions=_partitions(member.assigned.active, configured, topics),
            standby_partitions=_partitions(member.assigned.copies(), configured, topics),
        )
        for member in members
        if member.user_endpoint is not None
    ]


def _partitions(
    tasks: Mapping[str, Iterable[int]], configured: ConfiguredTopology, topics: TopicsView
) -> list[TopicPartition]:
    """The input partitions of tasks; a topic with fewer partitions has none for some tasks."""
    found = []
    for subtopology_id, partitions in tasks.items():
        subtopology = configured.subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        for name in subtopology.subtopology.inputs():
            topic = topics.named(name)
            count = 0 if topic is None else topic.partition_count
            found.append(
                TopicPartition(
                    topic=name, partitions=[index for index in sorted(partitions) if index < count]
                )
            )
    return found
