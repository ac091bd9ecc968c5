"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (KIP-848).

Theory of operation. Such a member has the same state as the others, and is told of it in its own protocol: a
Heartbeat that finds it behind the target, or with partitions to revoke or take, answers
REBALANCE_IN_PROGRESS; its JoinGroup then names its partitions and makes its next step; the generation is its
member epoch; SyncGroup brings its assignment. Members do not wait for each other: joins are answered when
they are in the log. The rebalance timeout bounds the time for joining again and for syncing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ottla.core.coordination.api import RequestReceived
from ottla.core.coordination.outbox import answer_for
from ottla.core.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from ottla.core.groups.consumer.deadlines import Deadlines
from ottla.core.groups.consumer.embedded import assignment_bytes, with_ids
from ottla.core.groups.consumer.epochs import Decision, Epochs
from ottla.core.groups.consumer.group import ConsumerGroup
from ottla.core.groups.consumer.member import (
    ClassicProtocols,
    ConsumerMember,
    MemberState,
    TopicPartitions,
)
from ottla.core.groups.consumer.membership import (
    check_holder,
    check_room,
    made_member_id,
    replacement,
    static_member,
    unknown_member,
)
from ottla.core.groups.consumer.migration import DISABLED, Migration
from ottla.core.groups.consumer.refusal import Refused
from ottla.core.groups.consumer.removal import Removal
from ottla.core.groups.consumer.subscriptions import RegexChange, Subscriptions
from ottla.core.groups.context import ShardContext
from ottla.protocol.consumer_embedded import MalformedEmbedded, parse_subscription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from ottla.protocol.messages.sync_group_request import SyncGroupRequest
from ottla.protocol.messages.sync_group_response import SyncGroupResponse

FIRST_VERSION_REQUIRING_A_MEMBER_ID = 4
FIRST_SYNC_VERSION_WITH_PROTOCOL = 5
NO_MEMBER_ID = ""


class ClassicMembers:
    """Handles requests of the classic protocol for the consumer groups of a shard."""

    def __init__(
        self,
        context: ShardContext,
        epochs: Epochs,
        subscriptions: Subscriptions,
        removal: Removal,
        migration: Migration,
        deadlines: Deadlines,
    ) -> None:
        self._context = context
        self._outbox = context.outbox
        self._epochs = epochs
        self._subscriptions = subscriptions
        self._removal = removal
        self._migration = migration
        self._deadlines = deadlines

    # JoinGroup

    def join(self, event: RequestReceived, group: ConsumerGroup, request: JoinGroupRequest) -> None:
        """Decide a join of a group with members, which has the turn. Raises Refused."""
        self._check_timeout(request)
        if self._migration.policy == DISABLED:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        is_unknown = request.member_id == NO_MEMBER_ID
        member_id = made_member_id(event.random_bits) if is_unknown else request.member_id
        check_room(self._context, group, member_id)
        protocols = _protocols(request)
        _check_protocols(group, request.protocol_type, protocols)
        version = event.client.api_version
        instance_id = request.group_instance_id
        if is_unknown and instance_id is None and version >= FIRST_VERSION_REQUIRING_A_MEMBER_ID:
            answer = JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED)
            self._outbox.reply(event.request_id, answer)
            return
        try:
            subscription = parse_subscription(protocols[0][1])
        except MalformedEmbedded as problem:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(problem)) from None
        decision = self._begin(group, member_id, instance_id, is_unknown)
        holder = None if instance_id is None else static_member(group, instance_id)
        decision.member = replace(
            decision.before,
            instance_id=decision.before.instance_id if instance_id is None else instance_id,
            rack_id=subscription.rack_id or decision.before.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            subscribed=frozenset(subscription.topics),
            regex="",
            client_id=event.client.client_id,
            client_host=event.client.client_host,
            classic=ClassicProtocols(request.session_timeout_ms, protocols),
        )
        by_name = {each.topic: list(each.partitions) for each in subscription.owned_partitions}
        owned = with_ids(self._context.topics, by_name)
        changed = self._epochs.note_member(decision)
        changed |= self._subscriptions.note_regex(decision) is not RegexChange.NONE
        epoch = self._epochs.next_epoch(decision, bump=changed)
        if (
            holder is not None
            and not holder.uses_classic_protocol
            and self._migration.should_downgrade(group, list(decision.members().values()))
        ):
            self._downgrade(event, decision, epoch, owned, changed)
            return
        target = self._epochs.next_target(decision, epoch)
        self._epochs.reconcile(decision, target, subscription_changed=changed, owned=owned)
        self._finish(event, decision)

    def _check_timeout(self, request: JoinGroupRequest) -> None:
        settings = self._context.broker_settings
        shortest, longest = settings.min_session_timeout_ms, settings.max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            raise Refused(ErrorCode.INVALID_SESSION_TIMEOUT)

    def _begin(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, is_unknown: bool
    ) -> Decision:
        if instance_id is None:
            member = group.members.get(member_id) or ConsumerMember(member_id)
            return Decision(group, member, member)
        holder = static_member(group, instance_id)
        if not is_unknown:
            holder = check_holder(holder, member_id, instance_id)
            return Decision(group, holder, holder)
        if holder is not None:
            return replacement(group, holder, member_id)
        member = ConsumerMember(member_id)
        return Decision(group, member, member)

    def _finish(self, event: RequestReceived, decision: Decision) -> None:
        group, member_id = decision.group, decision.member.member_id
        answer = _joined(decision.member)

        def joined() -> None:
            self._deadlines.begin(group.group_id, member_id, stepped=False)
            self._deadlines.must_sync(group.group_id, member_id)
            self._outbox.reply(event.request_id, answer)

        if not decision.changes:
            joined()
            return

        def failed(error: ErrorCode) -> None:
            group.must_look_at_topics = True
            self._outbox.fail(event.request_id, answer_for(error))

        append_id = self._context.turns.append(group.group_id, decision.changes, joined, failed)
        self._outbox.at_end(
            append_id, lambda: self._deadlines.begin(group.group_id, member_id, stepped=False)
        )
        if decision.replaces is not None:
            replaced = decision.replaces
            self._outbox.at_end(append_id, lambda: self._deadlines.end_if_gone(group.group_id, replaced))

    def _downgrade(
        self,
        event: RequestReceived,
        decision: Decision,
        epoch: int,
        owned: TopicPartitions,
        changed: bool,
    ) -> None:
        """The last member of the consumer protocol has joined with the classic one: convert the group."""
        group = decision.group
        targets = decision.targets()
        is_stale = group.target_epoch < epoch
        if not is_stale:
            target = group.target_epoch, targets.get(decision.member.member_id, {})
            self._epochs.reconcile(decision, target, subscription_changed=changed, owned=owned)
        # The group with the changes so far: the tombstones are for that state.
        after = decision.members()
        made = ConsumerGroup(group.group_id)
        made.epoch, made.members = group.epoch, after
        made.resolved = dict(group.resolved)
        every_target = {member_id: targets.get(member_id, {}) for member_id in after}
        record = self._migration.classic_record(made, list(after.values()), every_target)
        answer = _joined(decision.member)
        self._migration.append_downgrade(
            group,
            [*decision.changes, *made.tombstones(), record],
            lambda: self._outbox.reply(event.request_id, answer),
            lambda error: self._outbox.fail(event.request_id, answer_for(error)),
            rebalances=is_stale,
        )

    # SyncGroup and Heartbeat

    def sync(self, event: RequestReceived, group: ConsumerGroup, request: SyncGroupRequest) -> None:
        """Answer with the member's assignment. Raises Refused."""
        if event.client.api_version >= FIRST_SYNC_VERSION_WITH_PROTOCOL and (
            request.protocol_type is None or request.protocol_name is None
        ):
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
        classic = member.classic
        assert classic is not None
        name, metadata = classic.protocols[0]
        if (request.protocol_type or CONSUMER_PROTOCOL_TYPE) != CONSUMER_PROTOCOL_TYPE or (
            request.protocol_name or name
        ) != name:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._deadlines.must_join(group.group_id, member)
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)
        self._deadlines.synced(group.group_id, member.member_id)
        self._deadlines.restart_session(group.group_id, member.member_id)
        answer = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(member.assigned, self._context.topics, metadata),
        )
        self._outbox.reply(event.request_id, answer)

    def heartbeat(self, event: RequestReceived, group: ConsumerGroup, request: HeartbeatRequest) -> None:
        """Answer whether the member has to join again. Raises Refused."""
        member = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
        self._deadlines.restart_session(group.group_id, member.member_id)
        error = ErrorCode.NONE
        if (
            member.epoch < group.target_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.is_waiting_for_others(member))
        ):
            error = ErrorCode.REBALANCE_IN_PROGRESS
            self._deadlines.must_join(group.group_id, member)
        self._outbox.reply(event.request_id, HeartbeatResponse(error_code=error))

    def _member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ConsumerMember:
        if instance_id is not None:
            member = check_holder(static_member(group, instance_id), member_id, instance_id)
        elif member_id in group.members:
            member = group.members[member_id]
        else:
            raise unknown_member(group.group_id, member_id)
        if not member.uses_classic_protocol:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        if generation != member.epoch:
            raise Refused(ErrorCode.ILLEGAL_GENERATION)
        return member

    # LeaveGroup

    def leave(self, event: RequestReceived, group: ConsumerGroup, request: LeaveGroupRequest) -> None:
        """Remove the ids that are members; the others are answered with errors."""
        leaving: dict[str, ConsumerMember] = {}
        answers = []
        for identity in request.members:
            error = ErrorCode.NONE
            try:
                member = _identified(group, identity)
                leaving[member.member_id] = member
            except Refused as refused:
                error = refused.error
            answers.append(
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=error,
                )
            )
        self._removal.remove(
            group,
            list(leaving.values()),
            lambda: self._outbox.reply(event.request_id, LeaveGroupResponse(members=answers)),
            lambda error: self._outbox.fail(event.request_id, answer_for(error)),
        )


def _identified(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    instance_id = identity.group_instance_id
    if instance_id is None:
        member = group.members.get(identity.member_id)
        if member is None:
            raise unknown_member(group.group_id, identity.member_id)
        return member
    holder = static_member(group, instance_id)
    if holder is not None and identity.member_id == NO_MEMBER_ID:
        return holder
    return check_holder(holder, identity.member_id, instance_id)


def _protocols(request: JoinGroupRequest) -> tuple[tuple[str, bytes], ...]:
    protocols: dict[str, bytes] = {}
    for protocol in request.protocols:
        protocols.setdefault(protocol.name, bytes(protocol.metadata))
    return tuple(protocols.items())


def _check_protocols(
    group: ConsumerGroup, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    """Raise Refused unless all classic members support one of these protocols."""
    classic = [member.classic for member in group.members.values() if member.classic is not None]
    counts = Counter(name for each in classic for name, _ in each.protocols)
    if protocol_type != CONSUMER_PROTOCOL_TYPE or not any(
        counts[name] == len(classic) for name, _ in protocols
    ):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _joined(member: ConsumerMember) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=member.classic.protocols[0][0],
    )
