"""What is wrong with a partition, by its description: no leader, replicas that lag, too few in sync.

The rules are those of `kafka-topics.sh`, so that both say the same about a cluster. Pure functions of the
parts of a Metadata or DescribeTopicPartitions response.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias


class PartitionState(Protocol):
    """A partition in a Metadata or DescribeTopicPartitions response. leader_id: below 0 for none."""

    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: list[int]
    isr_nodes: list[int]
    offline_replicas: list[int]


class TopicState(Protocol):
    """A topic in a Metadata or DescribeTopicPartitions response."""

    error_code: int
    name: str | None
    topic_id: Any
    is_internal: bool

    @property
    def partitions(self) -> Sequence[PartitionState]:
        """The partitions, in any order."""


Moving: TypeAlias = Mapping[tuple[str, int], Collection[int]]
"""Partitions whose replicas are being moved: topic and index -> the replicas that are being added."""


class Trouble(enum.Enum):
    """A state of a partition that a user looks for."""

    UNDER_REPLICATED = "under-replicated"
    UNAVAILABLE = "unavailable"
    UNDER_MIN_ISR = "under min ISR"
    AT_MIN_ISR = "at min ISR"


def has_trouble(
    partition: PartitionState,
    trouble: Trouble,
    *,
    live_brokers: Collection[int],
    min_isr: int = 1,
    adding: Collection[int] = (),
) -> bool:
    """Whether a partition is in that state.

    min_isr: min.insync.replicas of the topic. adding: replicas that a reassignment is adding; they need not
    be in sync yet.
    """
    in_sync = len(partition.isr_nodes)
    match trouble:
        case Trouble.UNDER_REPLICATED:
            return in_sync < replication_factor(partition, adding)
        case Trouble.UNAVAILABLE:
            return partition.leader_id < 0 or partition.leader_id not in live_brokers
        case Trouble.UNDER_MIN_ISR:
            return partition.leader_id < 0 or in_sync < min_isr
        case Trouble.AT_MIN_ISR:
            return in_sync == min_isr


def replication_factor(partition: PartitionState, adding: Collection[int] = ()) -> int:
    """The number of replicas that the partition is to have, without those that are being added."""
    return len(partition.replica_nodes) - sum(1 for node in adding if node in partition.replica_nodes)


def topic_replication_factor(topic: TopicState) -> int:
    """The number of replicas of the first partition; 0 for a topic without partitions."""
    first = min(topic.partitions, key=lambda partition: partition.partition_index, default=None)
    return 0 if first is None else len(first.replica_nodes)
