"""Decides ConsumerGroupHeartbeat (KIP-848): members join, stay and leave; sessions and other deadlines.

    ConsumerGroupHeartbeat 0-1   0: the coordinator may make the member id; 1: the client does, and may
                                 subscribe by regular expression

Epoch 0 joins, -1 leaves, -2 is a static member that leaves to return; any other is the one from the last
answer. The epoch before that is accepted too if the member names only partitions assigned to it: an answer
may have been lost. Fields that are null are unchanged.

Theory of operation. A heartbeat that changes nothing is answered at once. Otherwise it is one decision, made
in the steps of epochs.py and written in one append. The members' deadlines are in deadlines.py.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ottla.core.coordination.api import RequestReceived
from ottla.core.coordination.outbox import answer_for
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.coordination.timers import TimerKey
from ottla.core.groups.consumer import records
from ottla.core.groups.consumer.deadlines import Deadlines
from ottla.core.groups.consumer.epochs import Decision, Epochs
from ottla.core.groups.consumer.group import ConsumerGroup
from ottla.core.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NO_PARTITIONS,
    NO_REBALANCE_TIMEOUT_MS,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    PartitionEpochs,
    TopicPartitions,
)
from ottla.core.groups.consumer.migration import Migration
from ottla.core.groups.consumer.refusal import Refused
from ottla.core.groups.consumer.removal import Removal
from ottla.core.groups.consumer.subscriptions import RegexChange, Subscriptions
from ottla.core.groups.context import ShardContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.consumer_group_heartbeat_response import TopicPartitions as AssignedTopic

FIRST_VERSION_WITH_CLIENT_MADE_MEMBER_IDS = 1

Decide: TypeAlias = Callable[[RequestReceived, ConsumerGroupHeartbeatRequest], None]


class ConsumerMembership:
    """Handles the heartbeats of a shard's consumer groups."""

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
        self._groups = context.consumer
        self._epochs = epochs
        self._subscriptions = subscriptions
        self._removal = removal
        self._migration = migration
        self._deadlines = deadlines

    def heartbeat(self, event: RequestReceived, request: ConsumerGroupHeartbeatRequest) -> None:
        """Answer now, or when the decisions about the group that are under way are in the log."""
        try:
            self._check(request, event.client.api_version)
        except Refused as refused:
            self._refuse(event.request_id, refused)
            return
        leaves = request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)
        decide = self._leave if leaves else self._heartbeat
        self._context.turns.run(request.group_id, lambda: self._decide(event, request, decide))

    def _decide(self, event: RequestReceived, request: ConsumerGroupHeartbeatRequest, decide: Decide) -> None:
        try:
            decide(event, request)
        except Refused as refused:
            self._refuse(event.request_id, refused)

    def _refuse(self, request_id: int, refused: Refused) -> None:
        answer = ConsumerGroupHeartbeatResponse(error_code=refused.error, error_message=refused.message)
        self._outbox.reply(request_id, answer)

    def _check(self, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        """Check a heartbeat as far as that is independent of the group. Raises Refused."""
        epoch = request.member_epoch
        needs_id = version >= FIRST_VERSION_WITH_CLIENT_MADE_MEMBER_IDS or epoch > 0 or epoch == LEAVE_EPOCH
        texts = (
            ("MemberId", request.member_id if needs_id else None),
            ("GroupId", request.group_id),
            ("InstanceId", request.instance_id),
            ("RackId", request.rack_id),
        )
        for name, text in texts:
            if text is not None and not text.strip():
                raise _invalid(f"{name} can't be empty.")
        if epoch == JOIN_EPOCH:
            if request.rebalance_timeout_ms == NO_REBALANCE_TIMEOUT_MS:
                raise _invalid("RebalanceTimeoutMs must be provided in first request.")
            if request.topic_partitions is None or request.topic_partitions:
                raise _invalid("TopicPartitions must be empty when (re-)joining.")
            if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
                raise _invalid(
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
                )
        elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
        elif epoch < STATIC_LEAVE_EPOCH:
            raise _invalid("MemberEpoch is invalid.")
        offered = self._context.broker_settings.consumer_assignors
        if request.server_assignor is not None and request.server_assignor not in offered:
            raise Refused(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {request.server_assignor} is not supported. "
                f"Supported assignors: {', '.join(offered)}.",
            )

    # Joining and staying

    def _heartbeat(self, event: RequestReceived, request: ConsumerGroupHeartbeatRequest) -> None:
        joins = request.member_epoch == JOIN_EPOCH
        converted: list[CoordinatorRecord] = []
        group = self._group(request.group_id, joins, converted)
        check_room(self._context, group, request.member_id)
        decision = self._begin(group, request, event)
        decision.changes[:0] = converted
        owned = _owned(request)
        before = decision.before
        names_changed = self._epochs.note_member(decision)
        regex = self._subscriptions.note_regex(decision)
        bump = names_changed or regex is RegexChange.UPDATED_AND_RESOLVED
        epoch = self._epochs.next_epoch(decision, bump=bump)
        target = self._epochs.next_target(decision, epoch)
        subscription_changed = names_changed or regex is not RegexChange.NONE
        self._epochs.reconcile(decision, target, subscription_changed=subscription_changed, owned=owned)
        self._subscriptions.refresh_if_due(decision, event.client.permits)
        member = decision.member
        answer = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._context.settings.of(group.group_id).consumer_heartbeat_interval_ms,
        )
        if joins or _is_full(request) or member.assigned != before.assigned:
            answer.assignment = _assignment(member.assigned)
        self._finish(event, decision, answer, bool(converted))

    def _finish(
        self,
        event: RequestReceived,
        decision: Decision,
        answer: ConsumerGroupHeartbeatResponse,
        converts: bool,
    ) -> None:
        """Append the decision's records, if there are any, and answer."""
        outbox, group, member_id = self._outbox, decision.group, decision.member.member_id
        if not decision.changes:
            self._deadlines.restart_session(group.group_id, member_id)
            outbox.reply(event.request_id, answer)
            return

        def failed(error: ErrorCode) -> None:
            group.must_look_at_topics = True  # The new hash of the topics is not written.
            outbox.fail(event.request_id, answer_for(error))

        if decision.is_new:
            outbox.note("member joins group=%s member=%s", group.group_id, member_id)
        append_id = self._context.turns.append(
            group.group_id, decision.changes, lambda: outbox.reply(event.request_id, answer), failed
        )
        # At the real end, because a slow append may have been answered as failed and count nevertheless.
        if decision.replaces is not None:
            replaced = decision.replaces
            outbox.at_end(append_id, lambda: self._deadlines.end_if_gone(group.group_id, replaced))
        stepped = decision.member.revoking != decision.before.revoking
        outbox.at_end(append_id, lambda: self._deadlines.begin(group.group_id, member_id, stepped=stepped))
        if converts:
            outbox.at_end(append_id, lambda: self._migration.settle(group.group_id))

    def _group(self, group_id: str, joins: bool, changes: list[CoordinatorRecord]) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if group is not None:
            return group
        if self._context.kind_of(group_id) is None:
            if joins:
                return ConsumerGroup(group_id)
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if joins and group_id in self._context.classic:
            return self._migration.upgrade(self._context.classic[group_id], changes)
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    def _begin(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, event: RequestReceived
    ) -> Decision:
        member_id = request.member_id or made_member_id(event.random_bits)
        if request.instance_id is None:
            decision = self._dynamic(group, member_id, request)
        else:
            decision = self._static(group, member_id, request.instance_id, request)
        before = decision.member
        names, regex, timeout_ms = (
            request.subscribed_topic_names,
            request.subscribed_topic_regex,
            request.rebalance_timeout_ms,
        )
        decision.member = replace(
            before,
            instance_id=before.instance_id if request.instance_id is None else request.instance_id,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=before.rebalance_timeout_ms
            if timeout_ms == NO_REBALANCE_TIMEOUT_MS
            else timeout_ms,
            server_assignor=before.server_assignor
            if request.server_assignor is None
            else request.server_assignor,
            subscribed=before.subscribed if names is None else frozenset(names),
            regex=before.regex if regex is None else regex,
            client_id=event.client.client_id,
            client_host=event.client.client_host,
            classic=None,
        )
        return decision

    def _dynamic(
        self, group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest
    ) -> Decision:
        member = group.members.get(member_id)
        if member is None:
            if request.member_epoch != JOIN_EPOCH:
                raise unknown_member(group.group_id, member_id)
            member = ConsumerMember(member_id)
        check_epoch(member, request)
        return Decision(group, member, member)

    def _static(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str,
        request: ConsumerGroupHeartbeatRequest,
    ) -> Decision:
        holder = static_member(group, instance_id)
        if request.member_epoch != JOIN_EPOCH:
            holder = check_holder(holder, member_id, instance_id)
            check_epoch(holder, request)
            return Decision(group, holder, holder)
        if holder is None:
            member = group.members.get(member_id) or ConsumerMember(member_id)
            return Decision(group, member, member)
        if not holder.uses_classic_protocol and holder.epoch != STATIC_LEAVE_EPOCH:
            raise Refused(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
                f"instance id is owned by {holder.member_id} member.",
            )
        return replacement(group, holder, member_id)

    # Leaving

    def _leave(self, event: RequestReceived, request: ConsumerGroupHeartbeatRequest) -> None:
        group_id, member_id = request.group_id, request.member_id
        group = self._groups.get(group_id)
        if group is None:
            known = self._context.kind_of(group_id) is not None
            problem = "is not a consumer group" if known else "not found"
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {problem}.")
        answer = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)
        if request.instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                raise unknown_member(group_id, member_id)
        else:
            holder = static_member(group, request.instance_id)
            member = check_holder(holder, member_id, request.instance_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                self._pause(event, group, member, answer)
                return
        self._outbox.note("member leaves group=%s member=%s", group_id, member_id)
        self._removal.remove(
            group,
            [member],
            lambda: self._outbox.reply(event.request_id, answer),
            lambda error: self._outbox.fail(event.request_id, answer_for(error)),
        )

    def _pause(
        self,
        event: RequestReceived,
        group: ConsumerGroup,
        member: ConsumerMember,
        answer: ConsumerGroupHeartbeatResponse,
    ) -> None:
        """A static member restarts: it keeps its place until its session ends."""
        zero: PartitionEpochs = {
            topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()
        }
        paused = replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=zero, revoking={})
        append_id = self._context.turns.append(
            group.group_id,
            [records.current_assignment(group.group_id, paused)],
            lambda: self._outbox.reply(event.request_id, answer),
            lambda error: self._outbox.fail(event.request_id, answer_for(error)),
        )
        self._outbox.at_end(
            append_id, lambda: self._deadlines.cancel_rebalance(group.group_id, member.member_id)
        )

    # Deadlines

    def on_deadline(self, key: TimerKey, reason: str) -> None:
        """A member was silent or slow for too long: remove it when the group has the turn."""
        self._context.turns.run(key.group_id, lambda: self._expel(key, reason))

    def _expel(self, key: TimerKey, reason: str) -> None:
        group = self._groups.get(key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if group is None or member is None or not self._deadlines.still_counts(key, member):
            return
        self._outbox.note("member fenced group=%s member=%s reason=%s", key.group_id, key.member_id, reason)
        self._removal.remove(
            group,
            [member],
            lambda: None,
            lambda error: self._deadlines.try_again(key),
        )


def check_room(context: ShardContext, group: ConsumerGroup, member_id: str) -> None:
    """Raise Refused if one more member would be too many."""
    max_size = context.broker_settings.consumer_max_size
    if len(group.members) >= max_size and member_id not in group.members:
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {max_size} members.",
        )


def check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raise Refused if the member has to drop its partitions and join again."""
    epoch = request.member_epoch
    if epoch in (JOIN_EPOCH, member.epoch):
        return
    which = "greater" if epoch > member.epoch else "smaller"
    if epoch < member.epoch and epoch == member.previous_epoch and _owns_only(request, member.assigned):
        return  # The answer with its epoch may have been lost.
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {which} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def static_member(group: ConsumerGroup, instance_id: str) -> ConsumerMember | None:
    """The member that holds an instance id, or None."""
    member_id = group.static_members.get(instance_id)
    return None if member_id is None else group.members[member_id]


def check_holder(holder: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """The holder of an instance id, if it is this member; raises Refused otherwise."""
    if holder is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{holder.member_id}.",
        )
    return holder


def replacement(group: ConsumerGroup, holder: ConsumerMember, member_id: str) -> Decision:
    """A decision for a static member that returns under a new id: it replaces the old member."""
    group_id = group.group_id
    member = replace(holder, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    changes = [
        *records.member_tombstones(group_id, holder.member_id),
        records.member_metadata(group_id, member),
        records.target_assignment(group_id, member_id, group.targets.get(holder.member_id, NO_PARTITIONS)),
        records.current_assignment(group_id, member),
    ]
    before = member
    if holder.uses_classic_protocol and not group.targets.get(holder.member_id):
        # It joined a rebalance that never ended: no member got an assignment, so the group needs a new
        # target.
        before = ConsumerMember(member_id)
    return Decision(group, before, member, holder.member_id, changes)


def unknown_member(group_id: str, member_id: str) -> Refused:
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def made_member_id(random_bits: int) -> str:
    """A new member id in Kafka's form of a UUID."""
    made = uuid.UUID(int=random_bits, version=4)
    return base64.urlsafe_b64encode(made.bytes).rstrip(b"=").decode()


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)


def _owned(request: ConsumerGroupHeartbeatRequest) -> TopicPartitions | None:
    if request.topic_partitions is None:
        return None
    return {each.topic_id: frozenset(each.partitions) for each in request.topic_partitions if each.partitions}


def _owns_only(request: ConsumerGroupHeartbeatRequest, assigned: PartitionEpochs) -> bool:
    """Whether all partitions that the member names are assigned to it."""
    owned = _owned(request)
    return owned is not None and all(
        partitions <= assigned.get(topic_id, {}).keys() for topic_id, partitions in owned.items()
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a request has all fields, as after a lost connection: the answer then has them too."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    has_timeout = request.rebalance_timeout_ms != NO_REBALANCE_TIMEOUT_MS
    return has_timeout and subscribes and request.topic_partitions is not None


def _assignment(partitions: PartitionEpochs) -> Assignment:
    topics: Sequence[AssignedTopic] = [
        AssignedTopic(topic_id=topic_id, partitions=sorted(epochs)) for topic_id, epochs in partitions.items()
    ]
    return Assignment(topic_partitions=list(topics))
