"""The state of one share group, and how its records change it.

Theory of operation. Everything here but the last block of `ShareGroup` follows from the log: it changes by
`replay` alone, so a group that is loaded anew is the same. A member asks for topics; the group's epoch goes
up whenever what its members want, or may get, has changed; a target assignment is made for an epoch; a
member takes over its part of it with its next heartbeat and has then the target's epoch. Unlike consumers,
members share partitions, so nobody has to give a partition back before another one gets it.

Only partitions whose delivery state the share coordinator has begun (`initialized`) are assigned. Those on
their way there are `initializing`; `deleting` are topics whose state is to be forgotten.
"""

from __future__ import annotations

import enum
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ottla.core.coordination.records import CoordinatorRecord
from ottla.protocol.records.share_group_current_member_assignment_key import (
    ShareGroupCurrentMemberAssignmentKey,
)
from ottla.protocol.records.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
)
from ottla.protocol.records.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from ottla.protocol.records.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from ottla.protocol.records.share_group_metadata_key import ShareGroupMetadataKey
from ottla.protocol.records.share_group_metadata_value import ShareGroupMetadataValue
from ottla.protocol.records.share_group_state_partition_metadata_key import (
    ShareGroupStatePartitionMetadataKey,
)
from ottla.protocol.records.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
)
from ottla.protocol.records.share_group_target_assignment_member_key import (
    ShareGroupTargetAssignmentMemberKey,
)
from ottla.protocol.records.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
)
from ottla.protocol.records.share_group_target_assignment_metadata_key import (
    ShareGroupTargetAssignmentMetadataKey,
)
from ottla.protocol.records.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)

LEFT = -1
"""The epoch of a member, or of a target assignment, that is no more."""
NO_EPOCH = -1
FIRST_EPOCH = 1
"""Of a group without members; the first member's is the next one."""

TopicPartitions: TypeAlias = Mapping[uuid.UUID, frozenset[int]]
"""Topic id -> partitions."""

NO_PARTITIONS: TopicPartitions = {}


class ShareGroupState(enum.Enum):
    """The value is the name that clients are shown."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member as its records say; `assigned` is what it was last told to read, as of `epoch`."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = NO_EPOCH
    assigned: TopicPartitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicState:
    """Partitions of one topic; the name is what the topic was called when this was written."""

    name: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """Which partitions have delivery state, or are about to get or to lose it; by topic id."""

    initializing: Mapping[uuid.UUID, TopicState] = field(default_factory=dict)
    initialized: Mapping[uuid.UUID, TopicState] = field(default_factory=dict)
    deleting: Mapping[uuid.UUID, str] = field(default_factory=dict)
    """Topic id -> name."""


DurableGroup: TypeAlias = tuple[object, ...]


class ShareGroup:
    """One group. Changed by `replay` only, but for what is marked at the end of `__init__`."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.members: dict[str, ShareMember] = {}
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = 0
        self.targets: dict[str, TopicPartitions] = {}
        self.states: StatePartitions | None = None
        # Not in the log.
        self.subscriptions: Counter[str] = Counter()
        """How many members want each topic; follows from `members`."""
        self.states_since_ms = 0
        """When `states` was last written, by the steady clock: beginning is tried again after a while."""
        self.all_is_assigned = False
        """The target is known to have every partition that may be assigned; any record may change that."""
        self.must_look_at_topics = True
        """The topics may differ from those that `metadata_hash` was made of."""

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def initialized(self) -> TopicPartitions:
        """The partitions that may be assigned."""
        if self.states is None:
            return NO_PARTITIONS
        return {topic_id: topic.partitions for topic_id, topic in self.states.initialized.items()}

    @property
    def durable(self) -> DurableGroup:
        """All that the log says, to be compared."""
        return (
            self.epoch,
            self.metadata_hash,
            dict(self.members),
            self.target_epoch,
            self.target_timestamp_ms,
            dict(self.targets),
            self.states,
        )

    def put(self, member: ShareMember) -> None:
        """Add a member, or replace what is known of it."""
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self.subscriptions = self.subscriptions_with(before, member)

    def remove(self, member_id: str) -> None:
        """Take a member out; a no-op if it is none."""
        before = self.members.pop(member_id, None)
        if before is not None:
            self.subscriptions = self.subscriptions_with(before, None)

    def subscriptions_with(self, before: ShareMember | None, after: ShareMember | None) -> Counter[str]:
        """How many members would want each topic if `before` became `after`."""
        counts = Counter(self.subscriptions)
        if before is not None:
            counts.subtract(before.subscribed)
        if after is not None:
            counts.update(after.subscribed)
        return +counts


ShareKey = (
    ShareGroupMetadataKey
    | ShareGroupMemberMetadataKey
    | ShareGroupTargetAssignmentMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupCurrentMemberAssignmentKey
    | ShareGroupStatePartitionMetadataKey
)


def replay(groups: dict[str, ShareGroup], record: CoordinatorRecord, steady_ms: int) -> None:
    """Take over one record whose key is a `ShareKey`. Tombstones of what is not there change nothing.

    In a compacted log a member's assignment may come before its metadata, and anything before the group's
    own record: what a record speaks of is made when it is missing.
    """
    key, value = record.key, record.value
    assert isinstance(key, ShareKey)
    group = groups.get(key.group_id)
    if group is None:
        if value is None:
            return
        group = groups[key.group_id] = ShareGroup(key.group_id)
    group.all_is_assigned = False
    match key, value:
        case ShareGroupMetadataKey(), ShareGroupMetadataValue():
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        case ShareGroupMetadataKey(), None:
            del groups[key.group_id]
        case ShareGroupMemberMetadataKey(), ShareGroupMemberMetadataValue():
            member = group.members.get(key.member_id) or ShareMember(key.member_id)
            group.put(
                replace(
                    member,
                    rack_id=value.rack_id,
                    client_id=value.client_id,
                    client_host=value.client_host,
                    subscribed=frozenset(value.subscribed_topic_names),
                )
            )
        case ShareGroupMemberMetadataKey(), None:
            group.remove(key.member_id)
        case ShareGroupCurrentMemberAssignmentKey(), ShareGroupCurrentMemberAssignmentValue():
            member = group.members.get(key.member_id) or ShareMember(key.member_id)
            group.put(
                replace(
                    member,
                    epoch=value.member_epoch,
                    previous_epoch=value.previous_member_epoch,
                    assigned=_partitions(value.assigned_partitions),
                )
            )
        case ShareGroupCurrentMemberAssignmentKey(), None:
            left = group.members.get(key.member_id)
            if left is not None:
                group.put(replace(left, epoch=LEFT, previous_epoch=LEFT, assigned={}))
        case ShareGroupTargetAssignmentMetadataKey(), ShareGroupTargetAssignmentMetadataValue():
            group.target_epoch, group.target_timestamp_ms = value.assignment_epoch, value.assignment_timestamp
        case ShareGroupTargetAssignmentMetadataKey(), None:
            group.target_epoch, group.target_timestamp_ms = LEFT, 0
        case ShareGroupTargetAssignmentMemberKey(), ShareGroupTargetAssignmentMemberValue():
            group.targets[key.member_id] = _partitions(value.topic_partitions)
        case ShareGroupTargetAssignmentMemberKey(), None:
            group.targets.pop(key.member_id, None)
        case ShareGroupStatePartitionMetadataKey(), ShareGroupStatePartitionMetadataValue():
            group.states = StatePartitions(
                {topic.topic_id: _topic_state(topic) for topic in value.initializing_topics},
                {topic.topic_id: _topic_state(topic) for topic in value.initialized_topics},
                {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
            )
            group.states_since_ms = steady_ms
        case ShareGroupStatePartitionMetadataKey(), None:
            group.states = None


def _partitions(topics: Iterable[object]) -> TopicPartitions:
    """The partitions of a record, which are in structures of the same fields and different names."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}  # type: ignore[attr-defined]


def _topic_state(topic: object) -> TopicState:
    return TopicState(topic.topic_name, frozenset(topic.partitions))  # type: ignore[attr-defined]
