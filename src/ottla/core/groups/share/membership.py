"""ShareGroupHeartbeat, sessions and ShareGroupDescribe of the share groups of a shard (KIP-932).

    ShareGroupHeartbeat 1   epoch 0 joins, -1 leaves; member ids are made by the clients
    ShareGroupDescribe 1

Theory of operation. A heartbeat that changes nothing is answered at once. Otherwise it is one decision: the
member's metadata, the group's next epoch if subscriptions or assignable partitions have changed, a new target
assignment if the last one is for an older epoch (and not too young: share.assignment.interval.ms), the
member's step to its target, and the partitions whose state is to begin; all in one append. The share
coordinator is asked when that is committed, and its answer is a decision of its own (state_partitions.py);
the heartbeat after that finds partitions without a member, and so the next epoch begins.

A member that is silent for its session timeout is removed. Sessions are not in the log: after a load every
member gets a whole one.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from ottla.core.coordination.api import RequestReceived
from ottla.core.coordination.outbox import answer_for
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.coordination.timers import TimerKey
from ottla.core.groups.context import ShardContext
from ottla.core.groups.share import assignor, records
from ottla.core.groups.share.group import NO_PARTITIONS, ShareGroup, ShareMember, TopicPartitions
from ottla.core.groups.share.state_partitions import StatePartitionsOfGroups
from ottla.core.groups.topic_hash import group_hash
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_describe_response import Assignment as DescribedAssignment
from ottla.protocol.messages.share_group_describe_response import (
    DescribedGroup,
    Member,
    ShareGroupDescribeResponse,
)
from ottla.protocol.messages.share_group_describe_response import TopicPartitions as DescribedTopic
from ottla.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ottla.protocol.messages.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
)
from ottla.protocol.messages.share_group_heartbeat_response import TopicPartitions as AssignedTopic

Decide: TypeAlias = Callable[[RequestReceived, ShareGroupHeartbeatRequest], None]

ASSIGNOR = "simple"
JOIN_EPOCH = 0
LEAVE_EPOCH = -1
SESSION_TIMER = "share-session"


class Refused(Exception):
    """The error and message in the answer to a heartbeat or a description."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


@dataclass(frozen=True, slots=True)
class Epoch:
    """The group's epoch after a heartbeat, and the subscriptions of its members then."""

    number: int
    subscriptions: Counter[str]


@dataclass(frozen=True, slots=True)
class Target:
    """A member's part of a target assignment, and the target's epoch."""

    epoch: int
    partitions: TopicPartitions


class ShareMembership:
    """Handles heartbeats and sessions for the share groups of a shard."""

    def __init__(self, context: ShardContext, states: StatePartitionsOfGroups) -> None:
        self._context = context
        self._outbox = context.outbox
        self._groups = context.share
        self._states = states

    # ShareGroupHeartbeat

    def heartbeat(self, event: RequestReceived, request: ShareGroupHeartbeatRequest) -> None:
        """Answer now, or when the decisions about the group that are under way are in the log."""
        try:
            _check(request)
        except Refused as refused:
            self._refuse(event.request_id, refused)
            return
        decide = self._leave if request.member_epoch == LEAVE_EPOCH else self._heartbeat
        self._context.turns.run(request.group_id, lambda: self._decide(event, request, decide))

    def _decide(self, event: RequestReceived, request: ShareGroupHeartbeatRequest, decide: Decide) -> None:
        try:
            decide(event, request)
        except Refused as refused:
            self._refuse(event.request_id, refused)

    def _refuse(self, request_id: int, refused: Refused) -> None:
        self._outbox.reply(
            request_id,
            ShareGroupHeartbeatResponse(error_code=refused.error, error_message=refused.message),
        )

    def _heartbeat(self, event: RequestReceived, request: ShareGroupHeartbeatRequest) -> None:
        outbox, group_id, member_id = self._outbox, request.group_id, request.member_id
        joins = request.member_epoch == JOIN_EPOCH
        group = (
            self._group_to_join(group_id)
            if joins
            else self._existing(group_id, "share group {} does not exist")
        )
        before = self._member(group, request)
        member = _updated(before, request, event)
        changes: list[CoordinatorRecord] = []
        if member_id not in group.members or member != before:
            changes.append(records.member_metadata(group_id, member))
        epoch = self._next_epoch(group, before, member, changes)
        bumped = epoch.number != group.epoch
        target = self._next_target(group, epoch, member, changes)
        reconciled = self._reconciled(member, target, bumped)
        if reconciled != member:
            changes.append(records.current_assignment(group_id, reconciled))
        ask = self._states.begin(group, epoch.number, epoch.subscriptions, changes)
        answer = ShareGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=reconciled.epoch,
            heartbeat_interval_ms=self._context.settings.of(group_id).share_heartbeat_interval_ms,
        )
        if joins or request.subscribed_topic_names is not None or reconciled.assigned != before.assigned:
            answer.assignment = _assignment(reconciled.assigned)
        if member_id in group.members:
            self._restart_session(group_id, member_id)
        if not changes:
            outbox.reply(event.request_id, answer)
            return

        def done() -> None:
            outbox.reply(event.request_id, answer)
            if ask is not None:
                self._states.ask_to_begin(ask)

        def failed(error: ErrorCode) -> None:
            # The new hash of the topics is not written.
            group.must_look_at_topics = True
            outbox.fail(event.request_id, answer_for(error))

        if joins and member_id not in group.members:
            outbox.note("member joins share group group=%s member=%s", group_id, member_id)
        append_id = self._context.turns.append(group_id, changes, done, failed)
        # At the real end, because a slow append may have been answered as failed and count nevertheless.
        outbox.at_end(append_id, lambda: self._begin_session(group_id, member_id))

    def _group_to_join(self, group_id: str) -> ShareGroup:
        """The group, or a new one, which exists once its first records are replayed."""
        kind = self._context.kind_of(group_id)
        if kind is None:
            return ShareGroup(group_id)
        return self._existing(group_id, "")

    def _existing(self, group_id: str, unknown: str) -> ShareGroup:
        group = self._groups.get(group_id)
        if group is not None:
            return group
        if self._context.kind_of(group_id) is None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, unknown.format(group_id))
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} is not a share group")

    def _member(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
        """The member in the group, or a new one."""
        member_id, epoch = request.member_id, request.member_epoch
        member = group.members.get(member_id)
        max_size = self._context.broker_settings.share_max_size
        if member is None and len(group.members) >= max_size:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the share group has as many members as it may: {max_size}",
            )
        if epoch == JOIN_EPOCH:
            return member or ShareMember(member_id)
        if member is None:
            raise _unknown_member(group.group_id, member_id)
        # The epoch before is accepted: the answer with the next one may have been lost.
        if epoch > member.epoch:
            raise Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"member epoch {epoch} is ahead of the coordinator's {member.epoch}: join again",
            )
        if epoch < member.epoch and epoch != member.previous_epoch:
            raise Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"member epoch {epoch} is behind the coordinator's {member.epoch} "
                f"and not the one before it ({member.previous_epoch}): join again",
            )
        return member

    def _next_epoch(
        self, group: ShareGroup, before: ShareMember, member: ShareMember, changes: list[CoordinatorRecord]
    ) -> Epoch:
        """The group's epoch, one higher if subscriptions, topics or assignable partitions have changed."""
        bump = member.subscribed != before.subscribed
        if group.target_epoch >= group.epoch and self._has_partitions_to_assign(group):
            bump = True
        if not bump and not group.must_look_at_topics:
            return Epoch(group.epoch, group.subscriptions)
        subscriptions = group.subscriptions_with(group.members.get(member.member_id), member)
        metadata_hash = group_hash(subscriptions, self._context.topics)
        # Cleared here and not after the append: topics may change meanwhile.
        group.must_look_at_topics = False
        if not bump and metadata_hash == group.metadata_hash:
            return Epoch(group.epoch, subscriptions)
        epoch = group.epoch + 1
        changes.append(records.group_epoch(group.group_id, epoch, metadata_hash))
        self._outbox.note("share group changed group=%s epoch=%d", group.group_id, epoch)
        return Epoch(epoch, subscriptions)

    def _has_partitions_to_assign(self, group: ShareGroup) -> bool:
        """Whether the target lacks a partition with state, or has one whose state is gone."""
        if group.all_is_assigned or group.states is None or not group.members:
            return False
        assigned: dict[uuid.UUID, set[int]] = {}
        for target in group.targets.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        group.all_is_assigned = all(
            assigned.get(topic_id, set()) == topic.partitions
            for topic_id, topic in group.states.initialized.items()
            # By id, because a topic that was deleted and created again has the same name.
            if topic.name in group.subscriptions and self._context.topics.with_id(topic_id) is not None
        )
        return not group.all_is_assigned

    def _next_target(
        self, group: ShareGroup, epoch: Epoch, member: ShareMember, changes: list[CoordinatorRecord]
    ) -> Target:
        """The member's part of the target assignment, which is made anew if it is for an older epoch."""
        now_ms = self._outbox.now.wall_ms
        group_id, member_id = group.group_id, member.member_id
        interval_ms = self._context.settings.of(group_id).share_assignment_interval_ms
        too_early = group.target_timestamp_ms and now_ms < group.target_timestamp_ms + interval_ms
        if group.target_epoch >= epoch.number or (interval_ms and too_early):
            return Target(group.target_epoch, group.targets.get(member_id, NO_PARTITIONS))
        members = {**group.members, member_id: member}
        targets = assignor.assign(
            {each.member_id: self._topics_of(each) for each in members.values()},
            group.initialized,
            group.targets,
        )
        for each, target in targets.items():
            if target != group.targets.get(each):
                changes.append(records.target_of_member(group_id, each, target))
        changes.append(records.target_epoch(group_id, epoch.number, now_ms))
        return Target(epoch.number, targets[member_id])

    def _reconciled(self, member: ShareMember, target: Target, must_look: bool) -> ShareMember:
        """The member with its target; if its subscription is newer than that, without unsubscribed topics."""
        if member.epoch == target.epoch and not must_look:
            return member
        topics = self._topics_of(member)
        assigned = {
            topic_id: partitions for topic_id, partitions in target.partitions.items() if topic_id in topics
        }
        if member.epoch == target.epoch:
            return replace(member, assigned=assigned)
        return replace(member, epoch=target.epoch, previous_epoch=member.epoch, assigned=assigned)

    def _topics_of(self, member: ShareMember) -> frozenset[uuid.UUID]:
        """The existing topics that a member subscribes to."""
        found = (self._context.topics.named(name) for name in sorted(member.subscribed))
        return frozenset(topic.topic_id for topic in found if topic is not None)

    # Leaving

    def _leave(self, event: RequestReceived, request: ShareGroupHeartbeatRequest) -> None:
        group = self._existing(request.group_id, "group {} does not exist")
        if request.member_id not in group.members:
            raise _unknown_member(request.group_id, request.member_id)
        answer = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVE_EPOCH)
        self._take_out(
            group,
            request.member_id,
            "left",
            lambda: self._outbox.reply(event.request_id, answer),
            lambda error: self._outbox.fail(event.request_id, answer_for(error)),
        )

    def _take_out(
        self,
        group: ShareGroup,
        member_id: str,
        why: str,
        done: Callable[[], None],
        failed: Callable[[ErrorCode], None],
    ) -> None:
        """Append the removal of a member and the epoch that it begins; until then its session goes on."""
        group_id = group.group_id
        subscriptions = group.subscriptions_with(group.members[member_id], None)
        changes = [
            *records.member_tombstones(group_id, member_id),
            records.group_epoch(group_id, group.epoch + 1, group_hash(subscriptions, self._context.topics)),
        ]
        if len(group.members) == 1:  # An empty group has nothing to assign.
            changes.append(records.target_epoch(group_id, group.epoch + 1, 0))
        self._outbox.note("member %s share group group=%s member=%s", why, group_id, member_id)
        self._restart_session(group_id, member_id)
        append_id = self._context.turns.append(group_id, changes, done, failed)
        self._outbox.at_end(append_id, lambda: self._begin_session(group_id, member_id))

    # Sessions

    def on_session_expired(self, group_id: str, member_id: str) -> None:
        """A member has been silent for its session timeout."""
        self._context.turns.run(group_id, lambda: self._expire(group_id, member_id))

    def _expire(self, group_id: str, member_id: str) -> None:
        group = self._groups.get(group_id)
        if group is None or member_id not in group.members:
            return
        if self._outbox.timers.deadline_of(_session_key(group_id, member_id)) is not None:
            return  # A heartbeat came while this waited for the turn.
        self._take_out(group, member_id, "is silent and leaves", lambda: None, lambda error: None)

    def _restart_session(self, group_id: str, member_id: str) -> None:
        timeout_ms = self._context.settings.of(group_id).share_session_timeout_ms
        self._outbox.set_timer(_session_key(group_id, member_id), timeout_ms)

    def _begin_session(self, group_id: str, member_id: str) -> None:
        """Start or end the session after an append that may have added or removed the member."""
        key = _session_key(group_id, member_id)
        group = self._groups.get(group_id)
        if group is None or member_id not in group.members:
            self._outbox.timers.cancel(key)
        elif self._outbox.timers.deadline_of(key) is None:
            self._restart_session(group_id, member_id)

    def on_loaded(self) -> None:
        """Give every member a whole session to find this coordinator."""
        for group in self._groups.values():
            group.states_since_ms = self._outbox.now.steady_ms
            for member_id in group.members:
                self._restart_session(group.group_id, member_id)

    # Topics

    def topics_changed(self, changed: frozenset[str]) -> None:
        """Let each group that reads one of these topics check them with its next heartbeat."""
        for group in self._groups.values():
            if not changed.isdisjoint(group.subscriptions):
                group.must_look_at_topics = True
                group.all_is_assigned = False

    # ShareGroupDescribe

    def describe(self, event: RequestReceived, request: ShareGroupDescribeRequest) -> None:
        groups = [self._described(group_id) for group_id in request.group_ids]
        self._outbox.reply(event.request_id, ShareGroupDescribeResponse(groups=groups))

    def _described(self, group_id: str) -> DescribedGroup:
        try:
            group = self._existing(group_id, "group {} does not exist")
        except Refused as refused:
            return DescribedGroup(group_id=group_id, error_code=refused.error, error_message=refused.message)
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=ASSIGNOR,
            members=[self._described_member(member) for member in group.members.values()],
        )

    def _described_member(self, member: ShareMember) -> Member:
        topics = []
        for topic_id, partitions in member.assigned.items():
            topic = self._context.topics.with_id(topic_id)
            if topic is not None:
                topics.append(
                    DescribedTopic(topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions))
                )
        return Member(
            member_id=member.member_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed),
            assignment=DescribedAssignment(topic_partitions=topics),
        )


def _check(request: ShareGroupHeartbeatRequest) -> None:
    """Check a heartbeat as far as that is independent of the group. Raises Refused."""
    for text, name in ((request.member_id, "MemberId"), (request.group_id, "GroupId")):
        if not text.strip():
            raise Refused(ErrorCode.INVALID_REQUEST, f"{name} must not be empty")
    if request.rack_id is not None and not request.rack_id.strip():
        raise Refused(ErrorCode.INVALID_REQUEST, "RackId must not be empty")
    if request.member_epoch == JOIN_EPOCH:
        if not request.subscribed_topic_names:
            raise Refused(ErrorCode.INVALID_REQUEST, "a member that joins must name topics")
    elif request.member_epoch < LEAVE_EPOCH:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{request.member_epoch} is not a member epoch")


def _updated(member: ShareMember, request: ShareGroupHeartbeatRequest, event: RequestReceived) -> ShareMember:
    names = request.subscribed_topic_names
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=event.client.client_id,
        client_host=event.client.client_host,
        subscribed=member.subscribed if names is None else frozenset(names),
    )


def _unknown_member(group_id: str, member_id: str) -> Refused:
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of group {group_id}")


def _assignment(assigned: TopicPartitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            AssignedTopic(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )


def _session_key(group_id: str, member_id: str) -> TimerKey:
    return TimerKey(SESSION_TIMER, group_id, member_id)
