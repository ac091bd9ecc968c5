"""The state of one consumer group, and its change by records.

Theory of operation. Three epochs order all changes (KIP-848). The group's epoch goes up when the
subscriptions of its members, or the topics of these, have changed. A target assignment is made for a group
epoch. A member takes over its part of the target, and then has the target's epoch:

    EMPTY        the group has no members
    ASSIGNING    the group's epoch is ahead of the target's
    RECONCILING  a member is not yet at its target
    STABLE       every member has its target

All state is derived from the log and changes by `replay` alone, but for the fields marked at the end of
`__init__`. A partition has one owner: the member that it is assigned to, or that has yet to revoke it.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.consumer import records
from ottla.core.groups.consumer.member import (
    LEAVE_EPOCH,
    NO_PARTITIONS,
    ConsumerMember,
    MemberState,
    PartitionEpochs,
    TopicPartitions,
)
from ottla.protocol.records.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from ottla.protocol.records.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from ottla.protocol.records.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.protocol.records.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from ottla.protocol.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.protocol.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ottla.protocol.records.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from ottla.protocol.records.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from ottla.protocol.records.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from ottla.protocol.records.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from ottla.protocol.records.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from ottla.protocol.records.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from ottla.protocol.records.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

FIRST_EPOCH = 1
"""The epoch of a group that has no record of one."""
NO_TARGET_EPOCH = 0


class ConsumerGroupState(enum.Enum):
    """The values are the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that match a regular expression, with the version of the metadata and the time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup:
    """One group. Decisions look at it; only records change it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.members: dict[str, ConsumerMember] = {}
        self.target_epoch = NO_TARGET_EPOCH
        self.target_timestamp_ms = 0
        self.targets: dict[str, TopicPartitions] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """Whether there is a record of Kafka before 4.1 to delete."""
        # Derived from the above.
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self._owners: dict[tuple[uuid.UUID, int], str] = {}
        self._subscribed_topics: frozenset[str] | None = None
        # Not in the log.
        self.must_look_at_topics = True
        """Whether the topics may have changed since `metadata_hash` was computed."""

    # Derived facts

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The names of all topics that a member subscribes to, by name or by expression."""
        if self._subscribed_topics is None:
            self._subscribed_topics = wanted_topics(self.members.values(), self.resolved)
        return self._subscribed_topics

    def owner_of(self, topic_id: uuid.UUID, partition: int) -> str | None:
        """The id of the member that may read a partition or has yet to revoke it, or None."""
        return self._owners.get((topic_id, partition))

    def is_waiting_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still owns one of the member's target partitions."""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            partition not in member.assigned.get(topic_id, ())
            and self.owner_of(topic_id, partition) is not None
            for topic_id, partitions in self.targets.get(member.member_id, NO_PARTITIONS).items()
            for partition in partitions
        )

    def regexes(self) -> dict[str, int]:
        """Every expression in a subscription, and the number of its members."""
        counts: dict[str, int] = {}
        for member in self.members.values():
            if member.regex:
                counts[member.regex] = counts.get(member.regex, 0) + 1
        return counts

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that remove the group with all of its members."""
        return records.group_tombstones(self.group_id, self.members, self.resolved)

    # Replay

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record, but for the group's own tombstone, which `ConsumerGroups` handles."""
        match record.key, record.value:
            case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue() as value:
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerGroupPartitionMetadataKey(), partition_metadata:
                self.has_partition_metadata = partition_metadata is not None
            case ConsumerGroupMemberMetadataKey() as key, ConsumerGroupMemberMetadataValue() | None as value:
                self._replay_member(key.member_id, value)
            case (
                ConsumerGroupTargetAssignmentMetadataKey(),
                ConsumerGroupTargetAssignmentMetadataValue() | None as value,
            ):
                self.target_epoch = LEAVE_EPOCH if value is None else value.assignment_epoch
                self.target_timestamp_ms = 0 if value is None else value.assignment_timestamp
            case (
                ConsumerGroupTargetAssignmentMemberKey() as key,
                ConsumerGroupTargetAssignmentMemberValue() | None as value,
            ):
                if value is None:
                    self.targets.pop(key.member_id, None)
                else:
                    self.targets[key.member_id] = records.target_partitions(value)
            case (
                ConsumerGroupCurrentMemberAssignmentKey() as key,
                ConsumerGroupCurrentMemberAssignmentValue() | None as value,
            ):
                self._replay_current(key.member_id, value)
            case (
                ConsumerGroupRegularExpressionKey() as key,
                ConsumerGroupRegularExpressionValue() | None as value,
            ):
                self._subscribed_topics = None
                if value is None:
                    self.resolved.pop(key.regular_expression, None)
                else:
                    self.resolved[key.regular_expression] = ResolvedRegex(
                        frozenset(value.topics), value.version, value.timestamp
                    )

    def _replay_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        self._subscribed_topics = None
        before = self.members.get(member_id)
        if value is None:
            if before is not None:
                self._forget_instance(before)
                self._move(before, replace(before, assigned={}, revoking={}))
                del self.members[member_id]
            return
        member = replace(
            before or ConsumerMember(member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=records.classic_protocols(value),
        )
        self._put(before, member)

    def _replay_current(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        before = self.members.get(member_id)
        if value is not None:
            member = replace(
                before or ConsumerMember(member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=records.member_state(value.state),
                assigned=records.partition_epochs(value.assigned_partitions, value.member_epoch),
                revoking=records.partition_epochs(value.partitions_pending_revocation, value.member_epoch),
            )
            self._put(before, member)
        elif before is not None:
            gone = replace(before, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned={}, revoking={})
            self._put(before, gone)

    def _put(self, before: ConsumerMember | None, member: ConsumerMember) -> None:
        if before is not None and before.instance_id != member.instance_id:
            self._forget_instance(before)
        self._move(before, member)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _forget_instance(self, member: ConsumerMember) -> None:
        # Its successor with the same instance id may have come already.
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _move(self, before: ConsumerMember | None, member: ConsumerMember) -> None:
        """Keep the owners up to date. In a compacted log
        two members may seem to own a partition for a while.
        """
        if before is not None:
            for partition in partitions_of(before.assigned, before.revoking):
                if self._owners.get(partition) == member.member_id:
                    del self._owners[partition]
        for partition in partitions_of(member.assigned, member.revoking):
            self._owners[partition] = member.member_id


def wanted_topics(members: Iterable[ConsumerMember], resolved: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """The names of all topics that these members subscribe to, by name or by expression."""
    names = {name for member in members for name in member.subscribed}
    for regex in resolved.values():
        names |= regex.topics
    return frozenset(names)


def partitions_of(*assignments: PartitionEpochs) -> Iterable[tuple[uuid.UUID, int]]:
    """Every partition of these assignments."""
    for assignment in assignments:
        for topic_id, partitions in assignment.items():
            for partition in partitions:
                yield topic_id, partition
