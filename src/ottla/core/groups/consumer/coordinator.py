"""The consumer groups of a shard: routes its events to the modules that decide, its records to the groups."""

from __future__ import annotations

from collections.abc import Callable

from ottla.core.coordination.api import RequestReceived
from ottla.core.coordination.outbox import answer_for
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.coordination.timers import TimerKey
from ottla.core.groups.api import TopicsChanged
from ottla.core.groups.classic.rebalance import ClassicRebalance, join_error
from ottla.core.groups.consumer.classic_members import ClassicMembers
from ottla.core.groups.consumer.deadlines import REASONS, Deadlines
from ottla.core.groups.consumer.describe import Descriptions
from ottla.core.groups.consumer.epochs import Epochs
from ottla.core.groups.consumer.group import ConsumerGroup
from ottla.core.groups.consumer.membership import ConsumerMembership
from ottla.core.groups.consumer.migration import Migration
from ottla.core.groups.consumer.offset_rules import ConsumerOffsetRules
from ottla.core.groups.consumer.records import ConsumerKey
from ottla.core.groups.consumer.refusal import Refused
from ottla.core.groups.consumer.removal import Removal
from ottla.core.groups.consumer.subscriptions import REGEX_TIMER, Subscriptions
from ottla.core.groups.context import GroupKind, ShardContext
from ottla.core.groups.topics import TopicsView
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest
from ottla.protocol.messages.list_groups_response import ListedGroup
from ottla.protocol.messages.sync_group_request import SyncGroupRequest
from ottla.protocol.records.consumer_group_metadata_key import ConsumerGroupMetadataKey

ClassicRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest


class ConsumerGroups:
    """Every consumer group of a shard, and the classic requests about them."""

    def __init__(
        self, context: ShardContext, rebalance: ClassicRebalance, restore_classic: Callable[[str], None]
    ) -> None:
        self._context = context
        self._outbox = context.outbox
        self._groups = context.consumer
        self._restore_classic = restore_classic
        self._deadlines = Deadlines(context)
        epochs = Epochs(context)
        self._subscriptions = Subscriptions(context, epochs)
        self._migration = Migration(context, rebalance, epochs, self._deadlines, restore_classic)
        removal = Removal(context, epochs, self._migration, self._deadlines)
        parts = (context, epochs, self._subscriptions, removal, self._migration, self._deadlines)
        self._membership = ConsumerMembership(*parts)
        self._classic_members = ClassicMembers(*parts)
        self._descriptions = Descriptions(context)
        context.rules[GroupKind.CONSUMER] = ConsumerOffsetRules(self._groups)

    # Requests

    def handle(
        self,
        event: RequestReceived,
        request: ConsumerGroupHeartbeatRequest | ConsumerGroupDescribeRequest,
    ) -> None:
        match request:
            case ConsumerGroupHeartbeatRequest():
                self._membership.heartbeat(event, request)
            case ConsumerGroupDescribeRequest():
                self._descriptions.describe(event, request)

    def answers(self, group_id: str) -> bool:
        """Whether requests of the classic protocol about this group are handled here."""
        return group_id in self._groups or self._migration.is_converting(group_id)

    def handle_classic(
        self, event: RequestReceived, request: ClassicRequest, otherwise: Callable[[], None]
    ) -> None:
        """Handle a request of the classic protocol, or run `otherwise` if the group is a classic one."""
        self._context.turns.run(request.group_id, lambda: self._handle_classic(event, request, otherwise))

    def _handle_classic(
        self, event: RequestReceived, request: ClassicRequest, otherwise: Callable[[], None]
    ) -> None:
        group = self._groups.get(request.group_id)
        if group is None:
            otherwise()
            return
        try:
            match request:
                case JoinGroupRequest() if not group.members:
                    self._replace_by_classic(event, group, request, otherwise)
                case JoinGroupRequest():
                    self._classic_members.join(event, group, request)
                case SyncGroupRequest():
                    self._classic_members.sync(event, group, request)
                case HeartbeatRequest():
                    self._classic_members.heartbeat(event, group, request)
                case LeaveGroupRequest():
                    self._classic_members.leave(event, group, request)
        except Refused as refused:
            if isinstance(request, JoinGroupRequest):
                self._outbox.reply(event.request_id, join_error("", refused.error))
            else:
                self._outbox.fail(event.request_id, refused.error)

    def _replace_by_classic(
        self,
        event: RequestReceived,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        otherwise: Callable[[], None],
    ) -> None:
        """A classic member joins an empty group, which becomes a classic group."""
        settings = self._context.broker_settings
        if request.member_id:
            self._outbox.reply(event.request_id, join_error(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
            return
        shortest, longest = settings.min_session_timeout_ms, settings.max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            raise Refused(ErrorCode.INVALID_SESSION_TIMEOUT)
        if not request.protocol_type or not request.protocols:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

        def then() -> None:
            if self._outbox.is_open(event.request_id):
                otherwise()

        self._migration.end_empty(
            group, then, lambda error: self._outbox.fail(event.request_id, answer_for(error))
        )

    def listed(self) -> list[ListedGroup]:
        return self._descriptions.listed()

    # The log

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record; a group begins with its first one and ends with the tombstone of its epoch."""
        key = record.key
        assert isinstance(key, ConsumerKey)
        group_id = key.group_id
        group = self._groups.get(group_id)
        if isinstance(key, ConsumerGroupMetadataKey) and record.value is None:
            if group is not None:
                self._forget(group)
            return
        if group is None:
            if record.value is None:
                return
            # A classic group of that name is a simple one, created because of this group's offsets, or its
            # tombstone is among these records.
            self._context.classic.pop(group_id, None)
            group = self._groups[group_id] = ConsumerGroup(group_id)
        group.replay(record)

    def _forget(self, group: ConsumerGroup) -> None:
        for member_id in group.members:
            self._deadlines.end(group.group_id, member_id)
        self._subscriptions.forget(group.group_id)
        del self._groups[group.group_id]
        if not self._migration.is_converting(group.group_id):
            # Remaining offsets belong to a simple group, until another group takes the name.
            self._restore_classic(group.group_id)

    def on_loaded(self) -> None:
        """Start every member's deadlines."""
        for group_id, group in self._groups.items():
            self._outbox.note("consumer group loaded group=%s members=%d", group_id, len(group.members))
            self._subscriptions.on_loaded(group_id)
            for member_id in group.members:
                self._deadlines.begin(group_id, member_id, stepped=True)

    # Topics and deadlines

    def on_topics_changed(self, event: TopicsChanged, before: TopicsView) -> None:
        """Let groups that read changed topics check them with the next heartbeat."""
        for group in self._groups.values():
            if not group.subscribed_topics.isdisjoint(event.changed):
                group.must_look_at_topics = True
        if any(
            topic is not None and before.with_id(topic.topic_id) is None
            for topic in map(event.topics.named, event.changed)
        ):
            self._subscriptions.on_topics_created()

    def on_timer(self, key: TimerKey) -> None:
        """Handle a deadline of one of `REASONS`, or match the next slice of topics."""
        if key.kind == REGEX_TIMER:
            self._subscriptions.on_timer(key.group_id)
        else:
            self._membership.on_deadline(key, REASONS[key.kind])
