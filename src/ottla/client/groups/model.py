"""Groups, their members and their offsets, as the coordinators describe them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from ottla.client.cluster_requests import Broker, TopicPartition


class GroupType(enum.Enum):
    """The kinds of groups; the values are Kafka's words in lower case."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"


ACTIVE_STATES = frozenset(
    {"Stable", "Assigning", "Reconciling", "PreparingRebalance", "CompletingRebalance", "NotReady"}
)
"""The states of groups that have members."""


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as ListGroups tells of it. state: None from brokers that do not say it."""

    group_id: str
    type: GroupType
    protocol_type: str
    state: str | None
    coordinator: int


@dataclass(frozen=True, slots=True)
class Tasks:
    """A streams member's tasks, by the role that it has in them: (subtopology, partition)."""

    active: tuple[tuple[str, int], ...] = ()
    standby: tuple[tuple[str, int], ...] = ()
    warmup: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group. host is as the broker says it, `/127.0.0.1`.

    epoch: None in classic groups. target: the partitions that it is to have, in groups of type consumer.
    tasks and target_tasks: in streams groups alone. assigned is None for an assignment in a protocol of the
    members' own.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rack_id: str | None = None
    epoch: int | None = None
    assigned: tuple[TopicPartition, ...] | None = ()
    target: tuple[TopicPartition, ...] | None = None
    subscribed: tuple[str, ...] = ()
    regex: str | None = None
    protocol: str | None = None
    tasks: Tasks | None = None
    target_tasks: Tasks | None = None
    process_id: str | None = None
    endpoint: str | None = None
    topology_epoch: int | None = None
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members. topology: a streams group's, as JSON values."""

    group_id: str
    type: GroupType
    protocol_type: str
    state: str
    assignor: str
    coordinator: Broker | None
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None
    topology: dict[str, Any] | None = None

    @property
    def is_active(self) -> bool:
        """Whether the group has members, or is about to."""
        return bool(self.members) or self.state in ACTIVE_STATES

    def owners(self) -> dict[TopicPartition, GroupMember]:
        """The member of each assigned partition; of a share group's several, the first."""
        owners: dict[TopicPartition, GroupMember] = {}
        for member in self.members:
            for partition in member.assigned or ():
                owners.setdefault(partition, member)
        return owners


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """An offset that a group has for a partition: the next to read; a share group's start offset.

    offset: None for a share partition whose start is not set yet. lag: as the broker says it, share groups
    only.
    """

    offset: int | None
    leader_epoch: int = -1
    metadata: str = ""
    lag: int | None = None


GroupOffsets = dict[TopicPartition, GroupOffset]
"""The offsets of one group."""
