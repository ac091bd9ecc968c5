"""The state of one share group, and its change by records.

Theory of operation. All state but the last block of `ShareGroup` is derived from the log: it changes by
`replay` alone, so a group that is loaded anew is the same. A member subscribes to topics; the group's epoch
goes up when the subscriptions of its members, or the assignable partitions, have changed; a target assignment
is made for an epoch; a member takes over its part of it with its next heartbeat and then has the target's
epoch. Unlike consumers, members share partitions, so no member has to revoke a partition before another one
gets it.

Only partitions whose delivery state the share coordinator has begun (`initialized`) are assigned. Those for
which that is under way are `initializing`; `deleting` are topics whose state is being deleted.
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
"""The epoch of a member or target assignment that was removed."""
NO_EPOCH = -1
FIRST_EPOCH = 1
"""The epoch of a new group; the first member begins the next one."""

TopicPartitions: TypeAlias = Mapping[uuid.UUID, frozenset[int]]
"""Topic id -> partitions."""

NO_PARTITIONS: TopicPartitions = {}


class ShareGroupState(enum.Enum):
    """The values are the names that clients see."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member as in its records; `assigned` are the partitions that it was last told, in `epoch`."""

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
    """Partitions of one topic, with the topic's name at the time of the record."""

    name: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """The partitions that have delivery state, or are about to get or lose it; by topic id."""

    initializing: Mapping[uuid.UUID, TopicState] = field(default_factory=dict)
    initialized: Mapping[uuid.UUID, TopicState] = field(default_factory=dict)
    deleting: Mapping[uuid.UUID, str] = field(default_factory=dict)
    """Topic id -> name."""


class ShareGroup:
    """One group. Changed by `replay` only, but for the fields marked at the end of `__init__`."""

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
        """The number of subscribers of each topic; derived from `members`."""
        self.states_since_ms = 0
        """The time of the last write of `states`, by the
        steady clock: initializing is retried after a while.
        """
        self.all_is_assigned = False
        """Whether the target has every assignable partition; reset by records that may change that."""
        self.must_look_at_topics = True
        """Whether the topics may have changed since `metadata_hash` was computed."""

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def initialized(self) -> TopicPartitions:
        """The partitions that may be assigned."""
        if self.states is None:
            return NO_PARTITIONS
        return {topic_id: topic.partitions for topic_id, topic in self.states.initialized.items()}

    def put(self, member: ShareMember) -> None:
        """Add or replace a member."""
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self.subscriptions = self.subscriptions_with(before, member)

    def remove(self, member_id: str) -> None:
        """Remove a member, if it is one."""
        before = self.members.pop(member_id, None)
        if before is not None:
            self.subscriptions = self.subscriptions_with(before, None)

    def subscriptions_with(self, before: ShareMember | None, after: ShareMember | None) -> Counter[str]:
        """The number of subscribers of each topic if `before` became `after`."""
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
    """Apply a record whose key is a `ShareKey`. Tombstones of unknown keys change nothing.

    In a compacted log a member's assignment may come before its metadata, and both before the group's own
    record: a missing member or group is made.
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
    """The partitions in a record, whose structures have the same fields and different names."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}  # type: ignore[attr-defined]


def _topic_state(topic: object) -> TopicState:
    return TopicState(topic.topic_name, frozenset(topic.partitions))  # type: ignore[attr-defined]
