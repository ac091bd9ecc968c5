"""The steps of a decision when a member comes or changes: a new epoch, a new target, the member's next step.

Theory of operation. Each step looks at the group as it is in the log and at the member's new state, and adds
records to the decision; the group itself changes when they are replayed. A target is made for a new group
epoch, at the earliest assignment.interval.ms after the last one, so that many changes in a short time lead to
one target (KIP-1263); the first heartbeat after that time makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.consumer import records
from ottla.core.groups.consumer.group import ConsumerGroup, ResolvedRegex, wanted_topics
from ottla.core.groups.consumer.member import NO_PARTITIONS, ConsumerMember, TopicPartitions
from ottla.core.groups.consumer.reconciliation import Surroundings, UnknownState, reconciled
from ottla.core.groups.consumer.refusal import Refused
from ottla.core.groups.consumer.target import Targets, preferred_assignor, subscribed_ids
from ottla.core.groups.context import ShardContext
from ottla.core.groups.topic_hash import TopicHashes
from ottla.protocol.errors import ErrorCode


@dataclass(slots=True)
class Decision:
    """A decision about one member of a group: the state before, the new state, and the records so far."""

    group: ConsumerGroup
    """The group in the log, or as earlier records of this decision will make it (a converted group)."""
    before: ConsumerMember
    member: ConsumerMember
    replaces: str | None = None
    """The id of the static member that this member replaces."""
    changes: list[CoordinatorRecord] = field(default_factory=list)

    @property
    def is_new(self) -> bool:
        return self.member.member_id not in self.group.members

    def members(self) -> dict[str, ConsumerMember]:
        """The group's members with the new state of this one."""
        members = dict(self.group.members)
        if self.replaces is not None:
            del members[self.replaces]
        members[self.member.member_id] = self.member
        return members

    def targets(self) -> dict[str, TopicPartitions]:
        """The last targets, by the members' new ids."""
        targets = dict(self.group.targets)
        if self.replaces is not None and self.replaces in targets:
            targets[self.member.member_id] = targets.pop(self.replaces)
        return targets

    def resolved(self) -> dict[str, ResolvedRegex]:
        """The topics of the expressions that members will have."""
        if not self.group.resolved:
            return {}
        wanted = {member.regex for member in self.members().values()}
        return {regex: topics for regex, topics in self.group.resolved.items() if regex in wanted}


class Epochs:
    """The steps of decisions about the consumer groups of a shard."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._hashes = TopicHashes()

    def note_member(self, decision: Decision) -> bool:
        """Add a record of the member's own data. Whether its subscription has changed."""
        before, member = decision.before, decision.member
        if member != before or (decision.is_new and decision.replaces is None):
            decision.changes.append(records.member_metadata(decision.group.group_id, member))
        return member.subscribed != before.subscribed

    def next_epoch(self, decision: Decision, *, bump: bool) -> int:
        """The group's epoch: a new one if `bump`, or if topics have changed."""
        group = decision.group
        if not bump and not group.must_look_at_topics:
            return group.epoch
        metadata_hash = self.hash_of(decision.members(), decision.resolved())
        group.must_look_at_topics = False
        if group.has_partition_metadata:
            decision.changes.append(records.partition_metadata_tombstone(group.group_id))
        if not bump and metadata_hash == group.metadata_hash:
            return group.epoch
        decision.changes.append(records.group_epoch(group.group_id, group.epoch + 1, metadata_hash))
        return group.epoch + 1

    def hash_of(self, members: Mapping[str, ConsumerMember], resolved: Mapping[str, ResolvedRegex]) -> int:
        """The hash of the topics that these members subscribe to."""
        return self._hashes.of_group(wanted_topics(members.values(), resolved), self._context.topics)

    def next_target(self, decision: Decision, epoch: int) -> tuple[int, TopicPartitions]:
        """The target's epoch and the member's part of the target, which is made anew if due."""
        group, context = decision.group, self._context
        targets = decision.targets()
        settings = context.settings.of(group.group_id)
        now_ms = context.outbox.now.wall_ms
        is_due = (
            group.target_timestamp_ms == 0
            or now_ms >= group.target_timestamp_ms + settings.consumer_assignment_interval_ms
            # A wall clock that was set back must not block a group.
            or now_ms < group.target_timestamp_ms
        )
        member_id = decision.member.member_id
        if group.target_epoch >= epoch or not is_due:
            return group.target_epoch, targets.get(member_id, NO_PARTITIONS)
        members = decision.members()
        assignor = preferred_assignor(members.values(), settings.consumer_assignors)
        maker = Targets(group, context.topics)
        target = maker.next(members, targets, group.resolved, assignor)
        decision.changes += maker.changes(target, targets, epoch, now_ms)
        context.outbox.note(
            "new target assignment group=%s epoch=%d members=%d assignor=%s",
            group.group_id,
            epoch,
            len(members),
            assignor,
        )
        return epoch, target[member_id]

    def reconcile(
        self,
        decision: Decision,
        target: tuple[int, TopicPartitions],
        *,
        subscription_changed: bool,
        owned: TopicPartitions | None,
    ) -> None:
        """Make the member's next step towards its target."""
        group, member = decision.group, decision.member
        target_epoch, partitions = target
        if not subscription_changed and member.is_reconciled_to(target_epoch):
            return
        around = Surroundings(
            target_epoch,
            partitions,
            subscribed_ids(member, group.resolved, self._context.topics),
            subscription_changed,
            owned,
            lambda topic_id, partition: group.owner_of(topic_id, partition) is not None,
        )
        try:
            decision.member = reconciled(member, around)
        except UnknownState:
            raise Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The member is in a state that this coordinator does not know: it must give up all its "
                "partitions and join again.",
            ) from None
        if decision.member != member:
            decision.changes.append(records.current_assignment(group.group_id, decision.member))
