"""The rules of the classic protocol for offsets: generations, simple groups, subscriptions (KIP-211)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups import coordinator_records
from ottla.core.groups.classic.group import GroupState
from ottla.core.groups.classic.membership import check_member
from ottla.core.groups.classic.rebalance import ClassicRebalance
from ottla.core.groups.context import ShardContext
from ottla.core.groups.offset_rules import Committer, ExpiryBase, Target
from ottla.protocol.errors import ErrorCode


class ClassicOffsetRules:
    """The rules of classic and simple groups, see `OffsetRules`."""

    def __init__(self, context: ShardContext, rebalance: ClassicRebalance) -> None:
        self._outbox = context.outbox
        self._groups = context.classic
        self._rebalance = rebalance

    def check_commit(self, group_id: str, committer: Committer, targets: Iterable[Target]) -> ErrorCode:
        group = self._groups[group_id]
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if committer.epoch < 0 and group.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if committer.is_no_member:
            # Not if the group has members; a transaction's offsets named no member before KIP-447.
            return ErrorCode.NONE if committer.transactional else ErrorCode.UNKNOWN_MEMBER_ID
        error = check_member(group, committer.member_id, committer.instance_id)
        if error:
            return error
        if committer.epoch != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.COMPLETING_REBALANCE and not committer.transactional:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def on_commit(self, group_id: str, committer: Committer) -> None:
        group = self._groups[group_id]
        # The group is not in COMPLETING_REBALANCE, in which commits are refused.
        if committer.member_id in group.members:
            self._rebalance.keep_session(group, committer.member_id)

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        if self._groups[group_id].state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE

    def check_offset_delete(self, group_id: str) -> ErrorCode:
        group = self._groups[group_id]
        if group.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol():
            return ErrorCode.NON_EMPTY_GROUP  # Its members' subscriptions are unknown.
        return ErrorCode.NONE

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        return self._groups[group_id].is_subscribed_to(topic)

    def expiry_base(self, group_id: str) -> ExpiryBase | None:
        group = self._groups[group_id]
        if group.protocol_type is not None and group.state is GroupState.EMPTY:
            return lambda offset: group.state_timestamp_ms
        knows_topics = group.state is GroupState.STABLE and group.subscribed_topics is not None
        if group.protocol_type is None or knows_topics:
            return lambda offset: offset.commit_timestamp_ms
        return None

    def with_expiring_offsets(self) -> list[str]:
        return list(self._groups)

    def may_end(self, group_id: str) -> bool:
        group = self._groups[group_id]
        return group.state is GroupState.EMPTY and not group.pending_joins

    def check_delete(self, group_id: str) -> ErrorCode:
        match self._groups[group_id].state:
            case GroupState.DEAD:
                return ErrorCode.GROUP_ID_NOT_FOUND
            case GroupState.EMPTY:
                return ErrorCode.NONE
            case _:
                return ErrorCode.NON_EMPTY_GROUP

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        return [coordinator_records.group_tombstone(group_id)]

    def begin_end(self, group_id: str) -> Callable[[], None]:
        """The group is DEAD meanwhile, so that clients try again."""
        group = self._groups[group_id]
        empty_since_ms = group.state_timestamp_ms
        self._rebalance.forget(group)
        group.pending_joins.clear()
        group.transition_to(GroupState.DEAD, self._outbox.now.wall_ms)
        return lambda: group.transition_to(GroupState.EMPTY, empty_since_ms)
