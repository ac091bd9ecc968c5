"""What a server-side assignor is told of a group's members and topics, and what it answers (KIP-848).

Racks take no part: since 4.0 neither of Apache Kafka's assignors looks at them, so a member's rack is stored
and shown, and a change of a partition's racks makes a new group epoch, but no other assignment.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ottla.core.groups.consumer.member import TopicPartitions

PartitionCounts: TypeAlias = Mapping[uuid.UUID, int]
"""Topic id -> partitions; has every topic that a member wants."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """What a member wants, and what the last target gave it."""

    topics: frozenset[uuid.UUID]
    current: TopicPartitions
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The members by id; `homogeneous` when all of them want the same topics."""

    members: Mapping[str, MemberSpec]
    partition_counts: PartitionCounts
    homogeneous: bool


Target: TypeAlias = dict[str, TopicPartitions]
"""Member id -> partitions; a member without any may be missing."""
Assignor: TypeAlias = Callable[[GroupSpec], Target]
