"""Deletion of groups by DeleteGroups, and of offsets that have expired by offsets.retention.minutes
(KIP-211).

DeleteGroups 0-2 deletes groups without members, each with its own error.

Theory of operation. A group's offsets and the group itself are deleted in one append, because offsets without
their group could never expire. That is a decision about the group and takes its turn; the rules of its kind
say whether it may be deleted and by which records. Replaying the tombstones removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.core.coordination.api import RequestReceived
from ottla.core.coordination.outbox import answer_for
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.coordination.timers import TimerKey
from ottla.core.groups.api import DeletedTopic
from ottla.core.groups.context import GroupKind, ShardContext
from ottla.core.groups.offset_rules import OffsetRules
from ottla.core.groups.offsets import Offsets
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse

UNATTENDED_RECORDS_AN_APPEND = 1_000


class GroupDeletion:
    """Deletes groups and offsets, on request or because they have expired."""

    def __init__(self, context: ShardContext, offsets: Offsets) -> None:
        self._context = context
        self._outbox = context.outbox
        self._offsets = offsets
        self.ways: dict[GroupKind, Callable[[str, Callable[[ErrorCode], None]], None]] = {}
        """For the kinds that need more than tombstones:
        deletes a group and calls back with the error or NONE.
        """

    # DeleteGroups

    def delete(self, event: RequestReceived, request: DeleteGroupsRequest) -> None:
        """Answer when all groups of the request are deleted or refused."""
        results: dict[str, ErrorCode | None] = dict.fromkeys(request.groups_names)

        def finished(group_id: str, error: ErrorCode) -> None:
            results[group_id] = error
            known = [
                DeletableGroupResult(group_id=group_id, error_code=error)
                for group_id, error in results.items()
                if error is not None
            ]
            if len(known) == len(results):
                self._outbox.reply(event.request_id, DeleteGroupsResponse(results=known))

        if not results:
            self._outbox.reply(event.request_id, DeleteGroupsResponse())
        for group_id in list(results):
            self._context.turns.run(group_id, lambda group_id=group_id: self._delete(group_id, finished))  # type: ignore[misc]

    def _delete(self, group_id: str, finished: Callable[[str, ErrorCode], None]) -> None:
        rules = self._context.rules_of(group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if rules is None else rules.check_delete(group_id)
        if error or rules is None:
            finished(group_id, error)
            return
        kind = self._context.kind_of(group_id)
        if kind in self.ways:
            self.ways[kind](group_id, lambda error: finished(group_id, error))
            return
        tombstones = self._offsets.tombstones_of(group_id)
        self._end(group_id, rules, tombstones, lambda error: finished(group_id, error))

    def _end(
        self,
        group_id: str,
        rules: OffsetRules,
        offset_tombstones: list[CoordinatorRecord],
        finished: Callable[[ErrorCode], None],
    ) -> None:
        """Append the tombstones of a group without members, which has the turn."""
        take_back = rules.begin_end(group_id)

        def failed(error: ErrorCode) -> None:
            take_back()
            finished(answer_for(error))

        records = offset_tombstones + rules.tombstones(group_id)
        self._offsets.append_in_turn(group_id, records, lambda: finished(ErrorCode.NONE), failed)

    # Expiry, and deleted topics

    def topics_deleted(self, topics: Iterable[DeletedTopic]) -> None:
        """Remove every group's offsets of deleted topics."""
        self._append_in_background(self._offsets.tombstones_of_topics(topics))

    def expire(self) -> None:
        """Append tombstones for expired offsets, and for groups that have none left."""
        self.restart()
        expired: list[CoordinatorRecord] = []
        ended = 0
        for rules in self._context.rules.values():
            for group_id in rules.with_expiring_offsets():
                records, all_expired = self._offsets.expired(group_id, rules)
                if not all_expired or not rules.may_end(group_id):
                    expired += records
                elif not self._context.turns.is_taken(group_id):  # otherwise the next check finds it again
                    self._end(group_id, rules, records, lambda error: None)
                    ended += 1
        self._append_in_background(expired)
        if expired or ended:
            self._outbox.note("expired offsets=%d groups=%d", len(expired), ended)

    def restart(self) -> None:
        """Check again after a whole interval."""
        interval_ms = self._context.broker_settings.offsets_retention_check_interval_ms
        self._outbox.set_timer(TimerKey("expire"), interval_ms)

    def _append_in_background(self, records: list[CoordinatorRecord]) -> None:
        """Append records that no request waits for; if that fails, the next check decides anew."""
        for first in range(0, len(records), UNATTENDED_RECORDS_AN_APPEND):
            some = records[first : first + UNATTENDED_RECORDS_AN_APPEND]
            self._offsets.append(some, lambda: None, lambda error: None)
