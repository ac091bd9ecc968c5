"""Decides the requests of the classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Versions and edges (KIP numbers name the change):
    JoinGroup 0-9   4: a new dynamic member is first given an id and must come back with it (KIP-394);
                    5: static members (KIP-345); 8: reason (KIP-800); 9: skip_assignment (KIP-814)
    SyncGroup 0-5   5: protocol type and name must be given, and fit (KIP-559)
    Heartbeat 0-4   REBALANCE_IN_PROGRESS while members are to join again, which is how they learn of it
    LeaveGroup 0-5  3: several members at once, static ones by instance id alone (KIP-345)

The rebalances that these requests cause are in rebalance.py.
"""

from __future__ import annotations

import uuid

from ottla.core.coordination.api import Client, RequestReceived
from ottla.core.coordination.outbox import answer_for
from ottla.core.groups import coordinator_records
from ottla.core.groups.classic.group import ClassicGroup, ClassicMember, GroupState, Protocols
from ottla.core.groups.classic.rebalance import (
    NO_MEMBER_ID,
    ClassicRebalance,
    assigned,
    join_error,
    joined,
)
from ottla.core.groups.context import ShardContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from ottla.protocol.messages.sync_group_request import SyncGroupRequest
from ottla.protocol.wire import MAX_STRING_BYTES, cut_text

MAX_PREFIX_BYTES = MAX_STRING_BYTES - len(f"-{uuid.UUID(int=0)}")
"""The most characters of a client id at the beginning of a member id: longer ids don't fit an answer."""
FIRST_VERSION_REQUIRING_A_MEMBER_ID = 4
FIRST_VERSION_THAT_SKIPS_ASSIGNMENT = 9
FIRST_SYNC_VERSION_WITH_PROTOCOL = 5


class ClassicMembership:
    """Handles these requests for the classic groups of a shard."""

    def __init__(self, context: ShardContext, rebalance: ClassicRebalance) -> None:
        self._context = context
        self._outbox = context.outbox
        self._groups = context.classic
        self._rebalance = rebalance

    # JoinGroup

    def join(self, event: RequestReceived, request: JoinGroupRequest) -> None:
        group = self._groups.get(request.group_id)
        protocols = _protocols_of(request)
        error = self._check_join(group, request, protocols)
        if error:
            self._outbox.reply(event.request_id, join_error(request.member_id, error))
            return
        group = group or self._create(request.group_id)
        if not self._has_room_for(group, request.member_id):
            self._rebalance.remove(group, request.member_id, ErrorCode.GROUP_MAX_SIZE_REACHED)
            self._outbox.reply(event.request_id, join_error(NO_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED))
            self._rebalance.maybe_complete_join(group)
        elif not group.supports(request.protocol_type, protocols):
            self._outbox.reply(
                event.request_id, join_error(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            )
        elif request.member_id == NO_MEMBER_ID:
            self._join_as_new(event, request, group, protocols)
        else:
            self._join_as_known(event, request, group, protocols)

    def _check_join(
        self, group: ClassicGroup | None, request: JoinGroupRequest, protocols: Protocols
    ) -> ErrorCode:
        """The error of a join that is independent of the member, or NONE."""
        settings = self._context.broker_settings
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if (
            not settings.min_session_timeout_ms
            <= request.session_timeout_ms
            <= settings.max_session_timeout_ms
        ):
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if group is None and request.member_id != NO_MEMBER_ID:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group is None and not (request.protocol_type and protocols):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group is not None and group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE

    def _create(self, group_id: str) -> ClassicGroup:
        """A new group. Its first record keeps it over a change of coordinator before it is stable."""
        group = self._groups[group_id] = ClassicGroup(group_id, self._outbox.now.wall_ms)
        record = coordinator_records.group_metadata(group_id, group.to_record_value({}))
        # Nothing depends on this record. If it cannot be written, the assignment cannot be either, and then
        # the members get the error.
        self._outbox.append([record], _nothing, _ignore_error)
        return group

    def _has_room_for(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether the join respects group.max.size; during a rebalance the first
        ones to join get the places.
        """
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                return (
                    member_id in group.waiting_joins
                    or len(group.waiting_joins) < self._context.broker_settings.max_size
                )
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return (
                    member_id in group.members or len(group.members) < self._context.broker_settings.max_size
                )
            case _:
                return True

    def _join_as_new(
        self, event: RequestReceived, request: JoinGroupRequest, group: ClassicGroup, protocols: Protocols
    ) -> None:
        instance_id = request.group_instance_id
        prefix = event.client.client_id if instance_id is None else instance_id
        if len(prefix) > MAX_PREFIX_BYTES // 4:
            prefix = cut_text(prefix.encode(), MAX_PREFIX_BYTES).decode()
        member_id = f"{prefix}-{uuid.UUID(int=event.random_bits, version=4)}"
        if instance_id is not None and instance_id in group.static_members:
            self._replace_static(event, request, group, protocols, member_id)
        elif instance_id is None and event.client.api_version >= FIRST_VERSION_REQUIRING_A_MEMBER_ID:
            group.pending_joins.add(member_id)
            self._rebalance.restart_session(group, member_id, request.session_timeout_ms)
            self._outbox.reply(event.request_id, join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
        else:
            self._add_member(event, request, group, protocols, member_id)

    def _join_as_known(
        self, event: RequestReceived, request: JoinGroupRequest, group: ClassicGroup, protocols: Protocols
    ) -> None:
        member_id, outbox = request.member_id, self._outbox
        if member_id in group.pending_joins and request.group_instance_id is None:
            self._add_member(event, request, group, protocols, member_id)
            return
        error = check_member(group, member_id, request.group_instance_id)
        if error:
            outbox.reply(event.request_id, join_error(member_id, error))
            return
        member = group.members[member_id]
        is_leader = group.is_leader(member_id)
        unchanged = protocols == member.protocols
        if group.state is GroupState.COMPLETING_REBALANCE and unchanged:
            # The answer to its first JoinGroup may have been lost.
            outbox.reply(event.request_id, joined(group, member_id, with_members=is_leader))
        elif group.state is GroupState.STABLE and unchanged and not is_leader:
            outbox.reply(event.request_id, joined(group, member_id, with_members=False))
        else:
            # The leader asks for a rebalance by joining again after a change outside of the group, such as
            # the number of a topic's partitions.
            role = "leader" if is_leader else "member"
            group.update(member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
            self._rebalance.park_join(group, member_id, event.request_id)
            self._rebalance.rebalance_or_complete(
                group, f"{role} {member_id} joins again{_reason(request.reason)}"
            )

    def _add_member(
        self,
        event: RequestReceived,
        request: JoinGroupRequest,
        group: ClassicGroup,
        protocols: Protocols,
        member_id: str,
    ) -> None:
        member = _new_member(member_id, request, event.client, protocols)
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        group.add(member, request.protocol_type)
        self._rebalance.park_join(group, member_id, event.request_id)
        # It cannot heartbeat before it has an answer, and its connection may be long gone.
        self._rebalance.restart_session(
            group, member_id, self._context.broker_settings.new_member_join_timeout_ms
        )
        self._rebalance.rebalance_or_complete(group, f"new member {member_id}{_reason(request.reason)}")

    def _replace_static(
        self,
        event: RequestReceived,
        request: JoinGroupRequest,
        group: ClassicGroup,
        protocols: Protocols,
        member_id: str,
    ) -> None:
        """A static member has restarted: it gets a new id, keeps its place, and its old id is fenced."""
        instance_id = request.group_instance_id
        assert instance_id is not None
        old_member_id = group.static_members[instance_id]
        old_leader = group.leader
        self._rebalance.fence(group, old_member_id)
        self._rebalance.end_session(group, old_member_id)
        member = group.rename(old_member_id, member_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        group.update(member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        self._rebalance.park_join(group, member_id, event.request_id)
        self._rebalance.restart_session(group, member_id, member.session_timeout_ms)
        if group.state is not GroupState.STABLE:
            # The leader may know the old id already; its assignment would miss the new one.
            self._rebalance.rebalance_or_complete(group, f"static member {instance_id} restarted")
        elif group.select_protocol() != group.protocol_name:
            self._rebalance.rebalance_or_complete(group, f"static member {instance_id} changed the protocol")
        else:
            self._persist_replacement(event, group, old_member_id, member_id, old_leader, before)

    def _persist_replacement(
        self,
        event: RequestReceived,
        group: ClassicGroup,
        old_member_id: str,
        member_id: str,
        old_leader: str | None,
        before: tuple[Protocols, int, int],
    ) -> None:
        """Append a static member's new id; then answer its join without a rebalance."""
        generation = group.generation

        def untouched() -> bool:
            return (
                group.state is GroupState.STABLE
                and group.generation == generation
                and group.waiting_joins.get(member_id) == event.request_id
            )

        def done() -> None:
            # If a rebalance has begun meanwhile, the join takes part in it and is answered with the others.
            if not untouched():
                return
            del group.waiting_joins[member_id]
            self._rebalance.restart_session(group, member_id, group.members[member_id].session_timeout_ms)
            is_leader = group.is_leader(member_id)
            if event.client.api_version >= FIRST_VERSION_THAT_SKIPS_ASSIGNMENT:
                response = joined(group, member_id, is_leader)
                response.skip_assignment = is_leader
            else:
                # A restarted leader must not compute a new assignment, and in these versions it computes none
                # only if the answer names another leader (its old id).
                response = joined(group, member_id, False)
                response.leader = old_leader or ""
            self._outbox.reply(event.request_id, response)

        def failed(error: ErrorCode) -> None:
            if not untouched():
                return
            del group.waiting_joins[member_id]
            self._rebalance.end_session(group, member_id)
            group.update(group.members[member_id], *before)
            member = group.rename(member_id, old_member_id)
            self._rebalance.restart_session(group, old_member_id, member.session_timeout_ms)
            self._outbox.reply(event.request_id, join_error(NO_MEMBER_ID, answer_for(error)))

        assignments = {key: member.assignment for key, member in group.members.items()}
        record = coordinator_records.group_metadata(group.group_id, group.to_record_value(assignments))
        self._outbox.append([record], done, failed)

    # SyncGroup

    def sync(self, event: RequestReceived, request: SyncGroupRequest) -> None:
        group = self._groups.get(request.group_id)
        error = _check_sync(group, request, event.client.api_version)
        if error or group is None:
            self._outbox.fail(event.request_id, error)
            return
        member = group.members[request.member_id]
        self._rebalance.synced(group, member.member_id)
        if group.state is GroupState.STABLE:
            self._outbox.reply(event.request_id, assigned(group, member))
            return
        earlier = group.waiting_syncs.pop(member.member_id, None)
        if earlier is not None:
            self._outbox.fail(earlier, ErrorCode.REBALANCE_IN_PROGRESS)
        group.waiting_syncs[member.member_id] = event.request_id
        if group.is_leader(member.member_id) and group.stored_generation != group.generation:
            self._store_assignment(group, request)

    def _store_assignment(self, group: ClassicGroup, request: SyncGroupRequest) -> None:
        """Append the leader's assignment; once it is in the log, the members are told."""
        given = {each.member_id: bytes(each.assignment) for each in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        generation = group.stored_generation = group.generation

        def still_waiting() -> bool:
            return group.state is GroupState.COMPLETING_REBALANCE and group.generation == generation

        def done() -> None:
            if not still_waiting():
                return
            group.transition_to(GroupState.STABLE, self._outbox.now.wall_ms)
            for member_id, member in group.members.items():
                member.assignment = assignments[member_id]
                request_id = group.waiting_syncs.pop(member_id, None)
                if request_id is not None:
                    self._outbox.reply(request_id, assigned(group, member))
                    self._rebalance.restart_session(group, member_id, member.session_timeout_ms)
            self._outbox.note("group is stable group=%s generation=%d", group.group_id, generation)

        def failed(error: ErrorCode) -> None:
            if not still_waiting():
                return
            self._rebalance.drop_assignment(group, answer_for(error))
            self._rebalance.prepare(group, f"its assignment could not be stored: {error.name}")

        record = coordinator_records.group_metadata(group.group_id, group.to_record_value(assignments))
        self._outbox.append([record], done, failed)

    # Heartbeat and LeaveGroup

    def heartbeat(self, event: RequestReceived, request: HeartbeatRequest) -> None:
        self._outbox.reply(event.request_id, HeartbeatResponse(error_code=self._heartbeat(request)))

    def _heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = check_member(group, request.member_id, request.group_instance_id)
        if error:
            return error
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._rebalance.keep_session(group, request.member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, event: RequestReceived, request: LeaveGroupRequest) -> None:
        outbox = self._outbox
        group = self._groups.get(request.group_id)
        if not request.group_id:
            outbox.fail(event.request_id, ErrorCode.INVALID_GROUP_ID)
            return
        if group is not None and group.state is GroupState.DEAD:
            outbox.fail(event.request_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        results = [
            MemberResponse(
                member_id=leaver.member_id,
                group_instance_id=leaver.group_instance_id,
                error_code=ErrorCode.UNKNOWN_MEMBER_ID if group is None else self._leave_one(group, leaver),
            )
            for leaver in request.members
        ]
        left = [each.member_id for each in results if each.error_code == ErrorCode.NONE]
        append_id = None
        if group is not None and left:
            append_id = self._rebalance_without(group, f"members left: {', '.join(left)}")

        def answer() -> None:
            outbox.reply(event.request_id, LeaveGroupResponse(members=results))

        if append_id is None:
            answer()
        else:
            # The last member has left; it is answered when that is in the log.
            outbox.when_ended(
                append_id, answer, lambda error: outbox.fail(event.request_id, answer_for(error))
            )

    def _rebalance_without(self, group: ClassicGroup, reason: str) -> int | None:
        """Members were removed: rebalance without them. The append's id, if that leaves the group empty."""
        newest = self._outbox.last_append_id()
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._rebalance.prepare(group, reason)
        else:
            self._rebalance.maybe_complete_join(group)
        append_id = self._outbox.last_append_id()
        return None if append_id == newest else append_id

    def _leave_one(self, group: ClassicGroup, leaver: MemberIdentity) -> ErrorCode:
        member_id, instance_id = leaver.member_id, leaver.group_instance_id
        if member_id == NO_MEMBER_ID:
            # An administrator names a static member by its instance id alone.
            if instance_id is None or instance_id not in group.static_members:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = group.static_members[instance_id]
        elif member_id not in group.pending_joins:
            error = check_member(group, member_id, instance_id)
            if error:
                return error
        self._rebalance.remove(group, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        self._outbox.note(
            "member left group=%s member=%s%s", group.group_id, member_id, _reason(leaver.reason)
        )
        return ErrorCode.NONE


def check_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """NONE if the member is in the group and, if it is static, holds the instance id."""
    if instance_id is not None:
        owner = group.static_members.get(instance_id)
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if owner != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def _check_sync(group: ClassicGroup | None, request: SyncGroupRequest, version: int) -> ErrorCode:
    if version >= FIRST_SYNC_VERSION_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state is GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = check_member(group, request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differ(name: str | None, group_name: str | None) -> bool:
    """Whether both names are known and differ (KIP-559)."""
    return name is not None and group_name is not None and name != group_name


def _protocols_of(request: JoinGroupRequest) -> Protocols:
    """The protocols of a join; of several with one name, the first counts."""
    protocols: dict[str, bytes] = {}
    for protocol in request.protocols:
        protocols.setdefault(protocol.name, bytes(protocol.metadata))
    return tuple(protocols.items())


def _new_member(
    member_id: str, request: JoinGroupRequest, client: Client, protocols: Protocols
) -> ClassicMember:
    return ClassicMember(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=client.client_id,
        client_host=client.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=protocols,
        is_new=True,
    )


def _reason(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _nothing() -> None:
    pass


def _ignore_error(_: ErrorCode) -> None:
    pass
