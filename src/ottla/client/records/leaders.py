"""The leaders of partitions, from Metadata; learned anew when one has moved."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.cluster_requests import Broker, ClusterRequests, TopicPartition, topic_error
from ottla.client.errors import ClusterError
from ottla.protocol.errors import ErrorCode


class PartitionLeaders:
    """Knows the leader of every partition of the topics that it was asked for."""

    def __init__(self, cluster: ClusterRequests) -> None:
        self._cluster = cluster
        self._partitions: dict[str, dict[int, int]] = {}
        self._brokers: dict[int, Broker] = {}

    async def learn(self, topics: Iterable[str]) -> dict[str, ClusterError]:
        """Ask for the leaders of the topics; the errors of those that have none for now, or do not exist."""
        names = list(dict.fromkeys(topics))
        if not names:
            return {}
        problems: dict[str, ClusterError] = {}
        for topic in await self._cluster.topics(names):
            name = topic.name or ""
            if topic.error_code:
                problems[name] = topic_error(name, topic.error_code)
                if ErrorCode(topic.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    self._partitions.pop(name, None)
                continue
            self._partitions[name] = {one.partition_index: one.leader_id for one in topic.partitions}
        self._brokers = dict((await self._cluster.cluster()).brokers)
        return problems

    def partition_count(self, topic: str) -> int:
        """The number of partitions; 0 for a topic that is not known."""
        return len(self._partitions.get(topic, ()))

    def available(self, topic: str) -> list[int]:
        """The partitions of the topic that have a leader."""
        return sorted(
            index for index, leader in self._partitions.get(topic, {}).items() if leader in self._brokers
        )

    def leader(self, partition: TopicPartition) -> Broker | None:
        """The partition's leader, None if it has none for now."""
        return self._brokers.get(self._partitions.get(partition.topic, {}).get(partition.partition, -1))
