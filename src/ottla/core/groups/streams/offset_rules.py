"""The rules of streams groups for committed offsets: epochs of members and of tasks (KIP-1071, KIP-1251)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.offset_rules import Committer, ExpiryBase, Target
from ottla.core.groups.streams import records
from ottla.core.groups.streams.group import StreamsGroup, StreamsMember
from ottla.protocol.errors import ErrorCode

FIRST_COMMIT_VERSION_FOR_MEMBERS = 9


class StreamsOffsetRules:
    """The `OffsetRules` of streams groups."""

    def __init__(self, groups: dict[str, StreamsGroup]) -> None:
        self._groups = groups

    def check_commit(self, group_id: str, committer: Committer, targets: Iterable[Target]) -> ErrorCode:
        group = self._groups[group_id]
        if not group.is_in_log:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE  # The group may soon not exist any more.
        if committer.epoch < 0 and not group.members:
            return ErrorCode.NONE  # An administrator's commit, or one of a stopped application.
        if committer.transactional and committer.is_no_member:
            return ErrorCode.NONE
        member = group.members.get(committer.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not committer.transactional and committer.api_version < FIRST_COMMIT_VERSION_FOR_MEMBERS:
            return ErrorCode.UNSUPPORTED_VERSION
        if committer.epoch == member.epoch:
            return ErrorCode.NONE
        if committer.epoch > member.epoch or not all(
            _was_given(group, member, topic, partition, committer.epoch) for topic, _, partition in targets
        ):
            return ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.NONE

    def on_commit(self, group_id: str, committer: Committer) -> None:
        """Only heartbeats keep a session."""

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self._groups[group_id].members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def check_offset_delete(self, group_id: str) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        group = self._groups[group_id]
        return bool(group.members) and group.topology is not None and topic in group.topology.readers

    def expiry_base(self, group_id: str) -> ExpiryBase | None:
        return lambda offset: offset.commit_timestamp_ms

    def with_expiring_offsets(self) -> list[str]:
        return list(self._groups)

    def may_end(self, group_id: str) -> bool:
        return not self._groups[group_id].members

    def check_delete(self, group_id: str) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self._groups[group_id].members else ErrorCode.NONE

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        return records.group_tombstones(group_id)

    def begin_end(self, group_id: str) -> Callable[[], None]:
        """Nothing to do: every decision about a streams group takes its turn."""
        return lambda: None


def _was_given(group: StreamsGroup, member: StreamsMember, topic: str, partition: int, epoch: int) -> bool:
    """Whether the member got the task that reads the partition in `epoch` or before, and still has it.

    The epoch of a commit may be behind the group's while it is on its way; the task is still the member's
    own.
    """
    if group.topology is None:
        return False
    name = group.topology.readers.get(topic, "")
    for tasks in (member.assigned, member.pending_revocation):
        given = tasks.active.get(name, {}).get(partition)
        if given is not None:
            return epoch >= given
    return False
