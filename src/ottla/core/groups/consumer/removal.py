"""Removes members from consumer groups: those that left, fell silent, or were too slow.

Theory of operation. The records end the members and the expressions that only they used, and begin a new
group epoch; the next heartbeat of another member makes the target for it. A group that is left empty gets an
empty target at once, so an empty group's target is never behind its epoch. If all remaining members use the
classic protocol, the group becomes a classic one instead (migration.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.consumer import records
from ottla.core.groups.consumer.deadlines import Deadlines
from ottla.core.groups.consumer.epochs import Epochs
from ottla.core.groups.consumer.group import ConsumerGroup
from ottla.core.groups.consumer.member import ConsumerMember
from ottla.core.groups.consumer.migration import Migration
from ottla.core.groups.context import ShardContext
from ottla.protocol.errors import ErrorCode


class Removal:
    """Removes members from the consumer groups of a shard."""

    def __init__(
        self, context: ShardContext, epochs: Epochs, migration: Migration, deadlines: Deadlines
    ) -> None:
        self._context = context
        self._outbox = context.outbox
        self._epochs = epochs
        self._migration = migration
        self._deadlines = deadlines

    def remove(
        self,
        group: ConsumerGroup,
        leaving: Sequence[ConsumerMember],
        done: Callable[[], None],
        failed: Callable[[ErrorCode], None],
    ) -> None:
        """Remove these members from a group that has the turn."""
        if not leaving:
            done()
            return
        ids = {member.member_id for member in leaving}
        remaining = [member for member in group.members.values() if member.member_id not in ids]
        if self._migration.should_downgrade(group, remaining):
            self._migration.downgrade(group, remaining, done, failed)
            return
        append_id = self._context.turns.append(
            group.group_id, self._changes(group, leaving, remaining), done, failed
        )
        for member_id in ids:
            self._outbox.at_end(
                append_id,
                lambda member_id=member_id: self._deadlines.end_if_gone(group.group_id, member_id),  # type: ignore[misc]
            )

    def _changes(
        self,
        group: ConsumerGroup,
        leaving: Sequence[ConsumerMember],
        remaining: Sequence[ConsumerMember],
    ) -> list[CoordinatorRecord]:
        group_id = group.group_id
        changes = [
            record for member in leaving for record in records.member_tombstones(group_id, member.member_id)
        ]
        in_use = {member.regex for member in remaining}
        ended = {member.regex for member in leaving if member.regex} - in_use
        changes += [records.regular_expression_tombstone(group_id, regex) for regex in sorted(ended)]
        resolved = {regex: topics for regex, topics in group.resolved.items() if regex in in_use}
        members = {member.member_id: member for member in remaining}
        epoch = group.epoch + 1
        changes.append(records.group_epoch(group_id, epoch, self._epochs.hash_of(members, resolved)))
        if not remaining:
            changes.append(records.target_metadata(group_id, epoch, group.target_timestamp_ms))
        return changes
