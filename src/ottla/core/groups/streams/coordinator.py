"""The streams groups of a shard as one of its parts: routes requests, records and events."""

from __future__ import annotations

from collections.abc import Callable

from ottla.core.coordination.api import RequestReceived
from ottla.core.coordination.outbox import answer_for
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.coordination.timers import TimerKey
from ottla.core.groups.api import TopicsChanged
from ottla.core.groups.context import GroupKind, ShardContext
from ottla.core.groups.streams import group, records
from ottla.core.groups.streams.api import InternalTopicsCreated
from ottla.core.groups.streams.departures import REBALANCE_TIMER, SESSION_TIMER
from ottla.core.groups.streams.description import describe, listed
from ottla.core.groups.streams.membership import INITIAL_DELAY_TIMER, StreamsMembership
from ottla.core.groups.streams.offset_rules import StreamsOffsetRules
from ottla.core.groups.streams.topology_descriptions import TopologyDescriptions
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.list_groups_response import ListedGroup
from ottla.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from ottla.protocol.records.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from ottla.protocol.records.streams_group_metadata_key import StreamsGroupMetadataKey

StreamsGroupRequest = (
    StreamsGroupHeartbeatRequest | StreamsGroupDescribeRequest | StreamsGroupTopologyDescriptionUpdateRequest
)
ClassicJoin = Callable[[RequestReceived, JoinGroupRequest], None]
STREAMS_TIMERS = frozenset({SESSION_TIMER, REBALANCE_TIMER, INITIAL_DELAY_TIMER})


class StreamsGroups:
    """Requests, records, events and deadlines of streams groups."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._descriptions = TopologyDescriptions(context)
        self._membership = StreamsMembership(context, self._descriptions)
        self._departures = self._membership.departures
        context.rules[GroupKind.STREAMS] = StreamsOffsetRules(context.streams)

    def handle(self, event: RequestReceived, request: StreamsGroupRequest) -> None:
        match request:
            case StreamsGroupHeartbeatRequest():
                self._membership.heartbeat(event, request)
            case StreamsGroupDescribeRequest():
                describe(self._context, event, request)
            case StreamsGroupTopologyDescriptionUpdateRequest():
                self._descriptions.update(event, request)

    def listed(self, states: set[str]) -> list[ListedGroup]:
        """The streams groups in one of these states (in lower case), or all if empty, for ListGroups."""
        return [
            listed(each)
            for each in self._context.streams.values()
            if each.is_in_log and (not states or each.state.filter_name in states)
        ]

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record whose key is one of `group.StreamsKey`."""
        key = record.key
        if record.value is not None and key.group_id not in self._context.streams:  # type: ignore[attr-defined]
            # A simple group until now: records of offsets may come before the group's own.
            self._context.classic.pop(key.group_id, None)  # type: ignore[attr-defined]
        group.replay(self._context.streams, record)
        match key, record.value:
            case StreamsGroupMemberMetadataKey(), None:
                self._departures.forget_deadlines(key.group_id, key.member_id)
            case StreamsGroupMetadataKey(), None:
                self._context.outbox.timers.cancel(TimerKey(INITIAL_DELAY_TIMER, key.group_id))

    def make_room_for_classic(
        self, event: RequestReceived, request: JoinGroupRequest, join: ClassicJoin
    ) -> None:
        """A classic member joins with the id of a streams
        group: `join` once that group, if empty, is removed.
        """
        self._context.turns.run(request.group_id, lambda: self._make_room(event, request, join))

    def _make_room(self, event: RequestReceived, request: JoinGroupRequest, join: ClassicJoin) -> None:
        streams_group = self._context.streams.get(request.group_id)
        if streams_group is None:
            join(event, request)
            return
        if streams_group.members or request.member_id:
            error = ErrorCode.UNKNOWN_MEMBER_ID
            if streams_group.members:
                error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            self._refuse(event, error)
            return
        self._context.turns.append(
            request.group_id,
            records.group_tombstones(request.group_id),
            lambda: join(event, request),
            lambda error: self._refuse(event, answer_for(error)),
        )

    def _refuse(self, event: RequestReceived, error: ErrorCode) -> None:
        self._context.outbox.reply(event.request_id, JoinGroupResponse(error_code=error, member_id=""))

    def on_topics_changed(self, event: TopicsChanged) -> None:
        self._membership.topics_changed(event.changed)

    def on_topics_created(self, event: InternalTopicsCreated) -> None:
        self._membership.internal_topics.on_created(event)

    def on_loaded(self) -> None:
        self._departures.on_loaded()

    def on_timer(self, key: TimerKey) -> None:
        """Handle a deadline whose kind is one of STREAMS_TIMERS."""
        match key.kind:
            case "streams-session":
                self._departures.on_session_expired(key.group_id, key.member_id)
            case "streams-rebalance":
                self._departures.on_rebalance_deadline(key.group_id, key.member_id)
            case "streams-initial-delay":
                self._membership.on_initial_delay_over(key.group_id)
