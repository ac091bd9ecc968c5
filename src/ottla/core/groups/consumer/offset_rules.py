"""The rules of consumer groups for committed offsets (KIP-848, KIP-1251); see core/groups/offset_rules.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.consumer.group import ConsumerGroup
from ottla.core.groups.consumer.member import ConsumerMember
from ottla.core.groups.offset_rules import Committer, ExpiryBase, Target
from ottla.protocol.errors import ErrorCode

FIRST_COMMIT_VERSION_WITH_MEMBER_EPOCH = 9


class ConsumerOffsetRules:
    """The `OffsetRules` of consumer groups.

    A member commits at its epoch. A smaller one is accepted for partitions that the member has owned since
    then: it does not know its new epoch yet, and no other member can have read them.
    """

    def __init__(self, groups: dict[str, ConsumerGroup]) -> None:
        self._groups = groups

    def check_commit(self, group_id: str, committer: Committer, targets: Iterable[Target]) -> ErrorCode:
        group = self._groups[group_id]
        if committer.epoch < 0 and not group.members:
            return ErrorCode.NONE  # An administrator, or a consumer that assigns its own partitions.
        if committer.transactional and committer.is_no_member:
            return ErrorCode.NONE
        member = group.members.get(committer.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if (
            not committer.transactional
            and not member.uses_classic_protocol
            and committer.api_version < FIRST_COMMIT_VERSION_WITH_MEMBER_EPOCH
        ):
            return ErrorCode.UNSUPPORTED_VERSION
        if committer.epoch == member.epoch:
            return ErrorCode.NONE
        if committer.epoch > member.epoch:
            return _stale(member)
        for _, topic_id, partition in targets:
            given_at = member.epoch_of(topic_id, partition)
            if given_at is None or committer.epoch < given_at:
                return _stale(member)
        return ErrorCode.NONE

    def on_commit(self, group_id: str, committer: Committer) -> None:
        """Only heartbeats keep a member alive."""

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self._groups[group_id].members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_epoch == member.epoch else _stale(member)

    def check_offset_delete(self, group_id: str) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        return topic in self._groups[group_id].subscribed_topics

    def expiry_base(self, group_id: str) -> ExpiryBase | None:
        return lambda offset: offset.commit_timestamp_ms

    def with_expiring_offsets(self) -> list[str]:
        return list(self._groups)

    def may_end(self, group_id: str) -> bool:
        return not self._groups[group_id].members

    def check_delete(self, group_id: str) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self._groups[group_id].members else ErrorCode.NONE

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        return self._groups[group_id].tombstones()

    def begin_end(self, group_id: str) -> Callable[[], None]:
        return lambda: None


def _stale(member: ConsumerMember) -> ErrorCode:
    """The error for a wrong epoch, in the protocol that the member uses."""
    return ErrorCode.ILLEGAL_GENERATION if member.uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH
