"""Converts a classic group into a consumer group, and back, while its members go on (KIP-848).

Theory of operation. When a member joins with the consumer protocol, a classic group is rewritten in one
append: its tombstone, then the consumer group's records with every member's embedded subscription and
assignment, at the generation as epoch. Its members remain classic ones (classic_members.py) until they
restart with the new protocol. When the last member of the consumer protocol leaves, the group is rewritten
the other way and rebalances. Groups without members are simply replaced. group.consumer.migration.policy says
which conversions are allowed.

While the append is on its way, requests that do not wait for the turn find the classic group DEAD; when it
has ended, `settle` makes the state in memory that of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups import coordinator_records
from ottla.core.groups.classic.group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    ClassicMember,
    GroupState,
)
from ottla.core.groups.classic.rebalance import ClassicRebalance, join_error
from ottla.core.groups.consumer import records
from ottla.core.groups.consumer.deadlines import Deadlines
from ottla.core.groups.consumer.embedded import assignment_bytes, with_ids
from ottla.core.groups.consumer.epochs import Epochs
from ottla.core.groups.consumer.group import ConsumerGroup
from ottla.core.groups.consumer.member import (
    NO_PARTITIONS,
    ClassicProtocols,
    ConsumerMember,
    PartitionEpochs,
    TopicPartitions,
)
from ottla.core.groups.consumer.refusal import Refused
from ottla.core.groups.context import ShardContext
from ottla.protocol.consumer_embedded import MalformedEmbedded, parse_assignment, parse_subscription
from ottla.protocol.errors import ErrorCode

UPGRADES = frozenset({"upgrade", "bidirectional"})
DOWNGRADES = frozenset({"downgrade", "bidirectional"})
DISABLED = "disabled"


class Migration:
    """Converts the classic and the consumer groups of a shard."""

    def __init__(
        self,
        context: ShardContext,
        rebalance: ClassicRebalance,
        epochs: Epochs,
        deadlines: Deadlines,
        restore: Callable[[str], None],
    ) -> None:
        """`restore` makes a classic group anew from its last record, or forgets it if it has none."""
        self._context = context
        self._outbox = context.outbox
        self._rebalance = rebalance
        self._epochs = epochs
        self._deadlines = deadlines
        self._restore = restore
        self._converting: set[str] = set()

    @property
    def policy(self) -> str:
        return self._context.broker_settings.consumer_migration_policy

    def is_converting(self, group_id: str) -> bool:
        """Whether a conversion of the group is under way."""
        return group_id in self._converting

    # Classic to consumer

    def upgrade(self, classic: ClassicGroup, changes: list[CoordinatorRecord]) -> ConsumerGroup:
        """The consumer group that replaces a classic one; adds its records to `changes`. Raises Refused."""
        group = ConsumerGroup(classic.group_id)
        made = [coordinator_records.group_tombstone(classic.group_id)]
        if classic.state is not GroupState.EMPTY:
            made += self._consumer_records(classic)
            for record in made[1:]:
                group.replay(record)
        self._end_classic(classic)
        changes += made
        return group

    def _consumer_records(self, classic: ClassicGroup) -> list[CoordinatorRecord]:
        def refuse(why: str) -> Refused:
            self._outbox.note("group cannot be upgraded group=%s reason=%s", classic.group_id, why)
            return Refused(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}.",
            )

        if self.policy not in UPGRADES:
            raise refuse("online upgrade is disabled")
        if classic.state is GroupState.DEAD or not classic.uses_consumer_protocol() or not classic.members:
            raise refuse("the group does not use the consumer embedded protocol")
        if len(classic.members) > self._context.broker_settings.consumer_max_size:
            raise refuse("the group size exceeds the consumer group maximum size")
        try:
            members = [self._consumer_member(classic, member) for member in classic.members.values()]
        except MalformedEmbedded:
            raise refuse("the embedded consumer protocol is malformed") from None
        except _CustomAssignor:
            raise refuse("an unsupported custom assignor is in use") from None
        group_id, epoch = classic.group_id, classic.generation
        by_id = {member.member_id: member for member in members}
        return [
            *(records.member_metadata(group_id, member) for member in members),
            records.group_epoch(group_id, epoch, self._epochs.hash_of(by_id, {})),
            *(
                records.target_assignment(group_id, member.member_id, _without_epochs(member.assigned))
                for member in members
            ),
            records.target_metadata(group_id, epoch, 0),
            *(records.current_assignment(group_id, member) for member in members),
        ]

    def _consumer_member(self, classic: ClassicGroup, member: ClassicMember) -> ConsumerMember:
        protocol = classic.protocol_name or classic.select_protocol()
        subscription = parse_subscription(member.metadata(protocol))
        assigned: TopicPartitions = NO_PARTITIONS
        if member.assignment:
            assignment = parse_assignment(member.assignment)
            if assignment.user_data:
                raise _CustomAssignor  # The assignor's own data would be lost.
            by_name = {each.topic: list(each.partitions) for each in assignment.assigned_partitions}
            assigned = with_ids(self._context.topics, by_name)
        generation = classic.generation
        return ConsumerMember(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed=frozenset(subscription.topics),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
            epoch=generation,
            previous_epoch=generation,
            assigned={
                topic_id: dict.fromkeys(sorted(partitions), generation)
                for topic_id, partitions in assigned.items()
            },
        )

    def _end_classic(self, classic: ClassicGroup) -> None:
        """The classic group is about to end: its members retry, and find the consumer group."""
        self._converting.add(classic.group_id)
        for member_id, request_id in list(classic.waiting_joins.items()):
            del classic.waiting_joins[member_id]
            self._outbox.reply(request_id, join_error(member_id, ErrorCode.REBALANCE_IN_PROGRESS))
        for member_id, request_id in list(classic.waiting_syncs.items()):
            del classic.waiting_syncs[member_id]
            self._outbox.fail(request_id, ErrorCode.REBALANCE_IN_PROGRESS)
        self._rebalance.forget(classic)
        classic.pending_joins.clear()
        if classic.state is not GroupState.DEAD:
            classic.transition_to(GroupState.DEAD, self._outbox.now.wall_ms)

    def settle(self, group_id: str) -> None:
        """The append of a conversion has ended: make the state in memory that of the log."""
        self._converting.discard(group_id)
        group = self._context.consumer.get(group_id)
        if group is not None:
            for member_id in group.members:
                self._deadlines.restart_session(group_id, member_id)
            return
        classic = self._context.classic.get(group_id)
        if classic is None or classic.state is GroupState.DEAD:
            self._restore(group_id)

    # Consumer to classic

    def should_downgrade(self, group: ConsumerGroup, remaining: Sequence[ConsumerMember]) -> bool:
        """Whether these members all use the classic protocol, and may become a classic group again."""
        if not remaining or not all(member.uses_classic_protocol for member in remaining):
            return False
        if self.policy not in DOWNGRADES or len(remaining) > self._context.broker_settings.max_size:
            self._outbox.note("group is not downgraded group=%s policy=%s", group.group_id, self.policy)
            return False
        return True

    def downgrade(
        self,
        group: ConsumerGroup,
        remaining: Sequence[ConsumerMember],
        done: Callable[[], None],
        failed: Callable[[ErrorCode], None],
    ) -> None:
        """Make the group, which has the turn, a classic one of these members, who then rebalance."""
        targets = {
            member.member_id: group.targets.get(member.member_id, NO_PARTITIONS) for member in remaining
        }
        changes = [*group.tombstones(), self.classic_record(group, remaining, targets)]
        self.append_downgrade(group, changes, done, failed, rebalances=True)

    def append_downgrade(
        self,
        group: ConsumerGroup,
        changes: Sequence[CoordinatorRecord],
        done: Callable[[], None],
        failed: Callable[[ErrorCode], None],
        *,
        rebalances: bool,
    ) -> None:
        """Append the records of a downgrade, and go on as a classic group once they are in the log."""
        group_id = group.group_id
        self._converting.add(group_id)

        def settle() -> None:
            self.settle(group_id)
            classic = self._context.classic.get(group_id)
            if rebalances and classic is not None and classic.state is GroupState.STABLE:
                self._rebalance.prepare(classic, "the group was downgraded from the consumer protocol")

        def ready() -> None:
            # Answered once the classic group exists.
            self.settle(group_id)
            done()

        self._outbox.note("group is downgraded group=%s", group_id)
        append_id = self._context.turns.append(group_id, changes, ready, failed)
        self._outbox.at_end(append_id, settle)

    def classic_record(
        self,
        group: ConsumerGroup,
        members: Sequence[ConsumerMember],
        targets: dict[str, TopicPartitions],
    ) -> CoordinatorRecord:
        """The record of the classic group of these members. Raises Refused for invalid metadata."""
        classic = ClassicGroup(group.group_id, self._outbox.now.wall_ms)
        classic.generation = group.epoch
        for member in members:
            assert member.classic is not None
            classic.add(
                ClassicMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.classic.session_timeout_ms,
                    protocols=member.classic.protocols,
                ),
                CONSUMER_PROTOCOL_TYPE,
            )
        classic.protocol_name = protocol = classic.select_protocol()
        try:
            assignments = {
                member_id: assignment_bytes(
                    targets[member_id], self._context.topics, member.metadata(protocol)
                )
                for member_id, member in classic.members.items()
            }
        except MalformedEmbedded as problem:
            raise Refused(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Cannot downgrade the group {group.group_id}: {problem}.",
            ) from None
        # The rebalance chooses the leader of a downgraded group: the next member to join.
        return coordinator_records.group_metadata(group.group_id, classic.to_record_value(assignments))

    # Groups without members

    def end_empty(
        self, group: ConsumerGroup, then: Callable[[], None], failed: Callable[[ErrorCode], None]
    ) -> None:
        """Remove a consumer group without members so that a
        classic one can use its name; then call `then`.
        """
        group_id = group.group_id

        def go_on() -> None:
            self._converting.discard(group_id)
            if group_id not in self._context.consumer:
                then()

        self._converting.add(group_id)
        self._context.turns.append(group_id, group.tombstones(), lambda: None, failed)
        self._context.turns.run(group_id, go_on)


class _CustomAssignor(Exception):
    """A member's assignment has data that only its own assignor understands."""


def _without_epochs(partitions: PartitionEpochs) -> TopicPartitions:
    return {topic_id: frozenset(epochs) for topic_id, epochs in partitions.items()}
