"""Removal of streams groups' members that leave, fall silent, or do not revoke their tasks in time.

Deadlines are not in the log. After a load, sessions and the time to revoke tasks begin anew.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.coordination.timers import TimerKey
from ottla.core.groups.context import ShardContext
from ottla.core.groups.streams import records as streams_records
from ottla.core.groups.streams.group import AWAY, MemberState, StreamsGroup, StreamsMember
from ottla.core.groups.streams.tasks import NOTHING_HELD

SESSION_TIMER = "streams-session"
REBALANCE_TIMER = "streams-rebalance"
FENCE_RETRY_MS = 500
"""The pause before the next attempt if a member's removal could not be written."""


class Departures:
    """Members' deadlines, and the removal of members."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._outbox = context.outbox
        self._turns = context.turns
        self._groups = context.streams

    def records(self, group: StreamsGroup, member_id: str) -> list[CoordinatorRecord]:
        """The records that remove the member and make the group assign its tasks anew."""
        last = [streams_records.target_epoch(group.group_id, group.epoch + 1, 0)]
        return [
            *streams_records.member_tombstones(group.group_id, member_id),
            streams_records.group_epoch(
                group.group_id,
                group.epoch + 1,
                group.metadata_hash,
                group.validated_topology_epoch,
                group.assignment_configs,
                group.description_epochs,
            ),
            *(last if len(group.members) == 1 else ()),
        ]

    def static_leave_records(self, group: StreamsGroup, member: StreamsMember) -> list[CoordinatorRecord]:
        """The records of a static member that leaves for a while: its tasks stay its own for its session."""
        active = {name: dict.fromkeys(epochs, 0) for name, epochs in member.assigned.active.items()}
        away = replace(
            member,
            epoch=AWAY,
            assigned=replace(member.assigned, active=active),
            pending_revocation=NOTHING_HELD,
        )
        return [streams_records.current_assignment(group.group_id, away)]

    def on_session_expired(self, group_id: str, member_id: str) -> None:
        """The member was silent for too long."""
        key = TimerKey(SESSION_TIMER, group_id, member_id)
        self._turns.run(group_id, lambda: self._fence(key, "its session expired"))

    def on_rebalance_deadline(self, group_id: str, member_id: str) -> None:
        """The member has not revoked its tasks in time."""
        key = TimerKey(REBALANCE_TIMER, group_id, member_id)
        self._turns.run(group_id, lambda: self._fence(key, "it kept tasks that it should give back"))

    def _fence(self, key: TimerKey, reason: str) -> None:
        """Remove the member whose deadline has passed, unless it got a new one while this waited."""
        group = self._groups.get(key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if group is None or member is None or self._outbox.timers.deadline_of(key) is not None:
            return
        if key.kind == REBALANCE_TIMER and member.state is not MemberState.UNREVOKED_TASKS:
            return
        self._outbox.note("streams member fenced group=%s member=%s: %s", *key[1:3], reason)
        self._turns.append(
            key.group_id,
            self.records(group, key.member_id),
            lambda: None,
            lambda error: self._outbox.set_timer(key, FENCE_RETRY_MS),
        )

    def forget_deadlines(self, group_id: str, member_id: str) -> None:
        """The member was removed."""
        self._outbox.timers.cancel(TimerKey(SESSION_TIMER, group_id, member_id))
        self._outbox.timers.cancel(TimerKey(REBALANCE_TIMER, group_id, member_id))

    def on_loaded(self) -> None:
        """Begin every session, and the time that members have to revoke tasks."""
        for group in self._groups.values():
            for member in group.members.values():
                self.set_deadlines(group.group_id, member, from_now=True)

    def set_deadlines(self, group_id: str, member: StreamsMember, from_now: bool = False) -> None:
        """Begin a new session; set or cancel the rebalance deadline by the member's state."""
        session_ms = self._context.settings.of(group_id).streams_session_timeout_ms
        self._outbox.set_timer(TimerKey(SESSION_TIMER, group_id, member.member_id), session_ms)
        key = TimerKey(REBALANCE_TIMER, group_id, member.member_id)
        if member.state is not MemberState.UNREVOKED_TASKS:
            self._outbox.timers.cancel(key)
        else:
            known = self._groups[group_id].members.get(member.member_id)
            is_new_step = known is None or known.state is not member.state or known.epoch != member.epoch
            if from_now or is_new_step:
                self._outbox.set_timer(key, member.rebalance_timeout_ms)
