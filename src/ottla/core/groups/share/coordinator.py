"""The share groups of a shard as one of its parts: routes requests, records and events."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ottla.core.coordination.api import RequestReceived
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.api import TopicsChanged, TopicsDeleted
from ottla.core.groups.context import GroupKind, ShardContext
from ottla.core.groups.share import group
from ottla.core.groups.share.api import ShareCoordinatorAnswered
from ottla.core.groups.share.membership import ShareMembership
from ottla.core.groups.share.offset_rules import ShareOffsetRules
from ottla.core.groups.share.offsets import ShareOffsets
from ottla.core.groups.share.state_partitions import StatePartitionsOfGroups
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from ottla.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from ottla.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from ottla.protocol.messages.list_groups_response import ListedGroup
from ottla.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

PROTOCOL_TYPE = "share"

ShareGroupRequest: TypeAlias = (
    ShareGroupHeartbeatRequest
    | ShareGroupDescribeRequest
    | DescribeShareGroupOffsetsRequest
    | AlterShareGroupOffsetsRequest
    | DeleteShareGroupOffsetsRequest
)


class ShareGroups:
    """Requests, records, events and deadlines of share groups."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._states = StatePartitionsOfGroups(context)
        self._membership = ShareMembership(context, self._states)
        self._offsets = ShareOffsets(context, self._states)
        context.rules[GroupKind.SHARE] = ShareOffsetRules(context.share)

    def handle(self, event: RequestReceived, request: ShareGroupRequest) -> None:
        match request:
            case ShareGroupHeartbeatRequest():
                self._membership.heartbeat(event, request)
            case ShareGroupDescribeRequest():
                self._membership.describe(event, request)
            case DescribeShareGroupOffsetsRequest():
                self._offsets.describe(event, request)
            case AlterShareGroupOffsetsRequest():
                self._offsets.alter(event, request)
            case DeleteShareGroupOffsetsRequest():
                self._offsets.delete(event, request)

    def delete_group(self, group_id: str, then: Callable[[ErrorCode], None]) -> None:
        """Delete a group and its delivery state; `then` is called with the error, or NONE."""
        self._offsets.delete_group(group_id, then)

    def listed(self) -> list[ListedGroup]:
        """Every share group, as ListGroups shows it."""
        return [
            ListedGroup(
                group_id=each.group_id,
                protocol_type=PROTOCOL_TYPE,
                group_state=each.state.value,
                group_type=GroupKind.SHARE.value,
            )
            for each in self._context.share.values()
        ]

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record whose key is one of `group.ShareKey`."""
        group.replay(self._context.share, record, self._context.outbox.now.steady_ms)

    def on_answer(self, event: ShareCoordinatorAnswered) -> None:
        self._states.on_answer(event)

    def on_loaded(self) -> None:
        self._membership.on_loaded()

    def on_topics_changed(self, event: TopicsChanged) -> None:
        self._membership.topics_changed(event.changed)

    def on_topics_deleted(self, event: TopicsDeleted) -> None:
        self._states.topics_deleted(event.topics)

    def on_session_expired(self, group_id: str, member_id: str) -> None:
        self._membership.on_session_expired(group_id, member_id)
