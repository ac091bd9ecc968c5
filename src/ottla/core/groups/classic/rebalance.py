"""Runs a classic group's rebalances and its members' sessions and other deadlines.

Theory of operation. A rebalance collects JoinGroups: they are parked until every member (and every id given
out) has joined, or the largest rebalance timeout has passed, and then all are answered with the new
generation. The first rebalance of an empty group waits initial_rebalance_delay_ms instead, and again while
new members come, up to the rebalance timeout. Then SyncGroups are parked until the leader's brings the
assignment, the assignment is in the log, and the group is STABLE.

Three deadlines: `session` (a silent member; a member with a parked request cannot send any, so it counts as
silent only if its first join is so old that the client must have given up), `join` (the end of the
rebalance's first phase), `sync` (members that joined but never synced hold up the others and are removed).

Where Kafka leaves a request without an answer (a parked join that the same member repeats, a parked sync of a
member that is removed) we answer it: REBALANCE_IN_PROGRESS and UNKNOWN_MEMBER_ID make clients rejoin.
"""

from __future__ import annotations

from ottla.core.coordination.timers import TimerKey
from ottla.core.groups import coordinator_records
from ottla.core.groups.classic.group import ClassicGroup, ClassicMember, GroupState
from ottla.core.groups.context import ShardContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.sync_group_response import SyncGroupResponse

NO_MEMBER_ID = ""
SHORTEST_FURTHER_WAIT_MS = 1_000
"""A rebalance timeout may be 0, but the wait for absent static members must not become a busy loop."""


class ClassicRebalance:
    """Runs the rebalances of a shard's classic groups."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._outbox = context.outbox
        self._groups = context.classic

    def rebalance_or_complete(self, group: ClassicGroup, reason: str) -> None:
        """A member came, left or changed: start a rebalance, or check if the present one is complete."""
        if group.state is GroupState.PREPARING_REBALANCE:
            self.maybe_complete_join(group)
        else:
            self.prepare(group, reason)

    def prepare(self, group: ClassicGroup, reason: str) -> None:
        """Start a rebalance of a STABLE, COMPLETING_REBALANCE or EMPTY group."""
        outbox = self._outbox
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.drop_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        outbox.timers.cancel(_sync_key(group))
        is_first = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING_REBALANCE, outbox.now.wall_ms)
        outbox.note(
            "rebalancing group group=%s generation=%d members=%d reason=%s",
            group.group_id,
            group.generation,
            len(group.members),
            reason,
        )
        if is_first:
            delay_ms = self._context.broker_settings.initial_rebalance_delay_ms
            self._wait_for_more(group, delay_ms, max(group.rebalance_timeout_ms() - delay_ms, 0))
        elif group.all_joined():
            self._complete_join(group)
        else:
            outbox.set_timer(_join_key(group), group.rebalance_timeout_ms())

    def _wait_for_more(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        group.new_member_added = False
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = remaining_ms
        self._outbox.set_timer(_join_key(group), delay_ms)

    def on_join_deadline(self, group_id: str) -> None:
        """The time for joining is over."""
        group = self._groups.get(group_id)
        if group is None or group.state is not GroupState.PREPARING_REBALANCE:
            return
        is_first = group.previous_state is GroupState.EMPTY
        if is_first and group.new_member_added and group.initial_remaining_ms:
            remaining_ms = group.initial_remaining_ms
            delay_ms = min(self._context.broker_settings.initial_rebalance_delay_ms, remaining_ms)
            self._wait_for_more(group, delay_ms, max(remaining_ms - group.initial_delay_ms, 0))
        else:
            self._complete_join(group)

    def maybe_complete_join(self, group: ClassicGroup) -> None:
        """Complete the joins if all members are here; the first rebalance of a group ends by time alone."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is not GroupState.EMPTY
            and group.all_joined()
        ):
            self._complete_join(group)

    def _complete_join(self, group: ClassicGroup) -> None:
        """Start the next generation with the members that have joined."""
        outbox = self._outbox
        outbox.timers.cancel(_join_key(group))
        for member in group.not_rejoined():
            # A static member keeps its place until its session ends: it probably restarts.
            if member.group_instance_id is None:
                self.remove(group, member.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
                outbox.note(
                    "member did not rejoin in time group=%s member=%s", group.group_id, member.member_id
                )
        if group.members and not group.elect_joined_leader():
            # Only static members, all absent: wait until one comes or their sessions end.
            outbox.set_timer(_join_key(group), max(group.rebalance_timeout_ms(), SHORTEST_FURTHER_WAIT_MS))
            return
        group.next_generation(outbox.now.wall_ms)
        if not group.members:
            outbox.note("group is empty group=%s generation=%d", group.group_id, group.generation)
            record = coordinator_records.group_metadata(group.group_id, group.to_record_value({}))
            # If this is not written, the last generation's members reappear after a change of coordinator,
            # and their sessions end there.
            outbox.append([record], _nothing, _ignore_error)
            return
        outbox.note(
            "group joined group=%s generation=%d members=%d protocol=%s leader=%s",
            group.group_id,
            group.generation,
            len(group.members),
            group.protocol_name,
            group.leader,
        )
        for member in group.members.values():
            request_id = group.waiting_joins.pop(member.member_id, None)
            if request_id is not None:
                outbox.reply(request_id, joined(group, member.member_id, group.is_leader(member.member_id)))
            member.is_new = False
            group.pending_syncs.add(member.member_id)
            self.restart_session(group, member.member_id, member.session_timeout_ms)
        outbox.set_timer(_sync_key(group), group.rebalance_timeout_ms())

    def drop_assignment(self, group: ClassicGroup, error: ErrorCode) -> None:
        """This generation gets no assignment: the members that wait for it must join again."""
        for member_id, member in group.members.items():
            member.assignment = b""
            request_id = group.waiting_syncs.pop(member_id, None)
            if request_id is not None:
                self._outbox.fail(request_id, error)
                self.restart_session(group, member_id, member.session_timeout_ms)

    def on_sync_deadline(self, group_id: str) -> None:
        """Remove the members that joined the generation but never asked for their assignment."""
        group = self._groups.get(group_id)
        if group is None or group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        missing = sorted(group.pending_syncs)
        if not missing:
            return
        for member_id in missing:
            self.remove(group, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        self.prepare(group, f"no SyncGroup in time from {', '.join(missing)}")

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """A member of this generation has asked for its assignment."""
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            self._outbox.timers.cancel(_sync_key(group))

    # Sessions

    def keep_session(self, group: ClassicGroup, member_id: str) -> None:
        """The member has sent a request: its session starts anew."""
        self.restart_session(group, member_id, group.members[member_id].session_timeout_ms)

    def on_loaded(self, group: ClassicGroup) -> None:
        """Give every member of a freshly loaded group a whole session to find this coordinator."""
        for member_id in group.members:
            self.keep_session(group, member_id)
        if len(group.members) > self._context.broker_settings.max_size:
            self.prepare(group, f"it has {len(group.members)} members, over group.max.size")

    def on_session_expired(self, group_id: str, member_id: str) -> None:
        """A member has been silent for its session timeout."""
        group = self._groups.get(group_id)
        if group is None:
            return
        member = group.members.get(member_id)
        if member is not None and group.is_waiting(member_id) and not member.is_new:
            return  # its session starts anew when its parked request is answered
        if member is None and member_id not in group.pending_joins:
            return
        self._outbox.note("session timed out group=%s member=%s", group_id, member_id)
        self.remove(group, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        if member is not None and group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(group, f"session of member {member_id} timed out")
        elif group.state is GroupState.PREPARING_REBALANCE and group.all_joined():
            self._complete_join(group)

    def restart_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Give a member, or an id without a member yet, this long until its next request."""
        self._outbox.set_timer(_session_key(group, member_id), timeout_ms)

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        """The id is no longer in use."""
        self._outbox.timers.cancel(_session_key(group, member_id))

    def forget(self, group: ClassicGroup) -> None:
        """The group is gone, and so are its deadlines."""
        for member_id in [*group.members, *group.pending_joins]:
            self.end_session(group, member_id)
        self._outbox.timers.cancel(_join_key(group))
        self._outbox.timers.cancel(_sync_key(group))

    # Parked requests

    def park_join(self, group: ClassicGroup, member_id: str, request_id: int) -> None:
        """Keep a JoinGroup until the joins are complete; an earlier one of the same member is answered."""
        earlier = group.waiting_joins.pop(member_id, None)
        if earlier is not None:
            self._outbox.fail(earlier, ErrorCode.REBALANCE_IN_PROGRESS)
        group.waiting_joins[member_id] = request_id

    def remove(self, group: ClassicGroup, member_id: str, error: ErrorCode) -> None:
        """Remove a member (or a pending id), and answer its parked requests with `error`."""
        request_id = group.waiting_joins.pop(member_id, None)
        if request_id is not None:
            self._outbox.reply(request_id, join_error(NO_MEMBER_ID, error))
        request_id = group.waiting_syncs.pop(member_id, None)
        if request_id is not None:
            self._outbox.fail(request_id, error)
        self.end_session(group, member_id)
        group.remove(member_id)

    def fence(self, group: ClassicGroup, member_id: str) -> None:
        """Another process has taken a static member's instance id."""
        request_id = group.waiting_joins.pop(member_id, None)
        if request_id is not None:
            self._outbox.reply(request_id, join_error(member_id, ErrorCode.FENCED_INSTANCE_ID))
        request_id = group.waiting_syncs.pop(member_id, None)
        if request_id is not None:
            self._outbox.fail(request_id, ErrorCode.FENCED_INSTANCE_ID)


def join_error(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    """A refused join, with the id that the member has to use next."""
    return JoinGroupResponse(error_code=error, member_id=member_id)


def joined(group: ClassicGroup, member_id: str, with_members: bool) -> JoinGroupResponse:
    """The answer to a join: the generation, and for the leader every member's metadata."""
    members = [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(group.protocol_name),
        )
        for member in (group.members.values() if with_members else ())
    ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        member_id=member_id,
        members=members,
    )


def assigned(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    """The answer to a sync: the member's assignment in this generation."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


def _session_key(group: ClassicGroup, member_id: str) -> TimerKey:
    return TimerKey("session", group.group_id, member_id)


def _join_key(group: ClassicGroup) -> TimerKey:
    return TimerKey("join", group.group_id)


def _sync_key(group: ClassicGroup) -> TimerKey:
    return TimerKey("sync", group.group_id)


def _nothing() -> None:
    pass


def _ignore_error(_: ErrorCode) -> None:
    pass
