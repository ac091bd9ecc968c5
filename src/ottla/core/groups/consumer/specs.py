"""The input of a server-side assignor, a group's members and topics, and its result (KIP-848).

Racks have no effect: since 4.0 neither of Apache Kafka's assignors uses them, so a member's rack is stored
and described, and a change of a partition's racks makes a new group epoch, but the same assignment.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ottla.core.groups.consumer.member import TopicPartitions

PartitionCounts: TypeAlias = Mapping[uuid.UUID, int]
"""Topic id -> partitions, for every topic in a subscription."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member's subscription, and its partitions in the last target."""

    topics: frozenset[uuid.UUID]
    current: TopicPartitions
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The members by id; `homogeneous` if all of them subscribe to the same topics."""

    members: Mapping[str, MemberSpec]
    partition_counts: PartitionCounts
    homogeneous: bool


Target: TypeAlias = dict[str, TopicPartitions]
"""Member id -> partitions; a member without any may be missing."""
Assignor: TypeAlias = Callable[[GroupSpec], Target]
