"""The deadlines of consumer groups' members; none is in the log, all begin anew with a load.

consumer-session     the session of a silent member
consumer-rebalance   the time for a member to revoke partitions
consumer-join        the time for a classic member to join again when it has been told to
consumer-sync        the time for a classic member to ask for its assignment
"""

from __future__ import annotations

from ottla.core.coordination.timers import TimerKey
from ottla.core.groups.consumer.member import ConsumerMember, MemberState
from ottla.core.groups.context import ShardContext

SESSION, REBALANCE, JOIN, SYNC = "consumer-session", "consumer-rebalance", "consumer-join", "consumer-sync"
RETRY_INTERVAL_MS = 1_000
REASONS = {
    SESSION: "its session expired",
    REBALANCE: "it did not give partitions back in time",
    JOIN: "it did not join again in time",
    SYNC: "it did not ask for its assignment in time",
}


class Deadlines:
    """The deadlines of the members of a shard's consumer groups."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._outbox = context.outbox

    def begin(self, group_id: str, member_id: str, *, stepped: bool) -> None:
        """A decision about a member has ended: its session starts anew, if it is still a member.

        `stepped` says that its partitions have changed, so the time to revoke starts anew too.
        """
        member = self._member(group_id, member_id)
        if member is None:
            return
        self.restart_session(group_id, member_id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS or member.uses_classic_protocol:
            self.cancel_rebalance(group_id, member_id)
        elif stepped:
            self._outbox.set_timer(TimerKey(REBALANCE, group_id, member_id), member.rebalance_timeout_ms)

    def restart_session(self, group_id: str, member_id: str) -> None:
        member = self._member(group_id, member_id)
        if member is None:
            return
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        else:
            timeout_ms = self._context.settings.of(group_id).consumer_session_timeout_ms
        self._outbox.set_timer(TimerKey(SESSION, group_id, member_id), timeout_ms)

    def must_join(self, group_id: str, member: ConsumerMember) -> None:
        """A classic member has been told to join again; its time runs from the first time."""
        key = TimerKey(JOIN, group_id, member.member_id)
        if self._outbox.timers.deadline_of(key) is None:
            self._outbox.set_timer(key, member.rebalance_timeout_ms)

    def must_sync(self, group_id: str, member_id: str) -> None:
        """A classic member has joined again."""
        member = self._member(group_id, member_id)
        if member is not None:
            self._outbox.timers.cancel(TimerKey(JOIN, group_id, member_id))
            self._outbox.set_timer(TimerKey(SYNC, group_id, member_id), member.rebalance_timeout_ms)

    def synced(self, group_id: str, member_id: str) -> None:
        self._outbox.timers.cancel(TimerKey(SYNC, group_id, member_id))

    def try_again(self, key: TimerKey) -> None:
        """The decision that a deadline caused could not be written."""
        if self._outbox.timers.deadline_of(key) is None:
            self._outbox.set_timer(key, RETRY_INTERVAL_MS)

    def cancel_rebalance(self, group_id: str, member_id: str) -> None:
        self._outbox.timers.cancel(TimerKey(REBALANCE, group_id, member_id))

    def still_counts(self, key: TimerKey, member: ConsumerMember) -> bool:
        """Whether a deadline is still valid after the wait for the group's turn."""
        if self._outbox.timers.deadline_of(key) is not None:
            return False
        return key.kind != REBALANCE or member.state is MemberState.UNREVOKED_PARTITIONS

    def end_if_gone(self, group_id: str, member_id: str) -> None:
        """Cancel all deadlines of an id that is no longer a member."""
        if self._member(group_id, member_id) is None:
            self.end(group_id, member_id)

    def end(self, group_id: str, member_id: str) -> None:
        """Cancel all deadlines of a member."""
        for kind in REASONS:
            self._outbox.timers.cancel(TimerKey(kind, group_id, member_id))

    def _member(self, group_id: str, member_id: str) -> ConsumerMember | None:
        group = self._context.consumer.get(group_id)
        return None if group is None else group.members.get(member_id)
