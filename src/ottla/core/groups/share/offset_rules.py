"""The rules of share groups for committed offsets, which they don't have; see core/groups/offset_rules.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.offset_rules import Committer, ExpiryBase, Target
from ottla.core.groups.share import records
from ottla.core.groups.share.group import ShareGroup
from ottla.protocol.errors import ErrorCode


class ShareOffsetRules:
    """The `OffsetRules` of share groups. A share group never ends by itself."""

    def __init__(self, groups: dict[str, ShareGroup]) -> None:
        self._groups = groups

    def check_commit(self, group_id: str, committer: Committer, targets: Iterable[Target]) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def on_commit(self, group_id: str, committer: Committer) -> None:
        pass

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_offset_delete(self, group_id: str) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        return topic in self._groups[group_id].subscriptions

    def expiry_base(self, group_id: str) -> ExpiryBase | None:
        return None

    def with_expiring_offsets(self) -> list[str]:
        return []

    def may_end(self, group_id: str) -> bool:
        return False

    def check_delete(self, group_id: str) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self._groups[group_id].members else ErrorCode.NONE

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        return records.group_tombstones(group_id)

    def begin_end(self, group_id: str) -> Callable[[], None]:
        return lambda: None
