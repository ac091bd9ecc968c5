"""The coordinator of the groups in one partition of `__consumer_offsets`: routes events, replays records.

Theory of operation. A shard is loaded by replaying its partition (`replay` for each record, then a `Loaded`
event), and from then on every durable change goes the same way: decide, append, and when the append is
committed, replay the same records and then answer. The durable state is therefore a function of the log,
which the property tests check. State that is not durable (parked requests, sessions) ends with the shard:
`Resigned` answers all requests NOT_COORDINATOR, and clients go on with the next coordinator.

Each kind of group (classic, KIP-848 consumer, share, streams) has a package beside this module, and its cases
in `_handle`, `replay` and the timers.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.core.coordination.api import (
    AppendDone,
    AppendFailed,
    Loaded,
    ProducerStamp,
    RequestReceived,
    Resigned,
    Tick,
)
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups import coordinator_records
from ottla.core.groups.api import Effect, Event, SettingsChanged, TopicsChanged, TopicsDeleted
from ottla.core.groups.classic.group import ClassicGroup, ClassicMember, GroupState
from ottla.core.groups.classic.membership import ClassicMembership
from ottla.core.groups.classic.offset_rules import ClassicOffsetRules
from ottla.core.groups.classic.rebalance import ClassicRebalance
from ottla.core.groups.consumer.coordinator import ClassicRequest, ConsumerGroups
from ottla.core.groups.consumer.deadlines import REASONS as CONSUMER_DEADLINES
from ottla.core.groups.consumer.records import ConsumerKey
from ottla.core.groups.consumer.subscriptions import REGEX_TIMER
from ottla.core.groups.context import GroupKind, ShardContext
from ottla.core.groups.deletion import GroupDeletion
from ottla.core.groups.offset_bytes import read_offset
from ottla.core.groups.offset_store import OffsetStore
from ottla.core.groups.offsets import Offsets
from ottla.core.groups.settings import Settings
from ottla.core.groups.share.api import ShareCoordinatorAnswered
from ottla.core.groups.share.coordinator import ShareGroups
from ottla.core.groups.share.group import ShareKey
from ottla.core.groups.streams.api import InternalTopicsCreated
from ottla.core.groups.streams.coordinator import STREAMS_TIMERS, StreamsGroups
from ottla.core.groups.streams.group import StreamsKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ottla.protocol.messages.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from ottla.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from ottla.protocol.messages.offset_commit_request import OffsetCommitRequest
from ottla.protocol.messages.offset_delete_request import OffsetDeleteRequest
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest
from ottla.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from ottla.protocol.messages.sync_group_request import SyncGroupRequest
from ottla.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from ottla.protocol.records.group_metadata_key import GroupMetadataKey
from ottla.protocol.records.group_metadata_value import GroupMetadataValue
from ottla.protocol.records.legacy_offset_commit_key import LegacyOffsetCommitKey
from ottla.protocol.records.legacy_offset_commit_value import LegacyOffsetCommitValue
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from ottla.protocol.records.offset_commit_value import OffsetCommitValue

FIRST_DESCRIBE_VERSION_WITH_GROUP_ID_NOT_FOUND = 6
CanMakeClassic = ClassicRequest | OffsetCommitRequest | TxnOffsetCommitRequest


class Shard:
    """One partition's groups. Single-threaded; once it is loaded, all events go through `step`."""

    def __init__(self, settings: Settings) -> None:
        self._context = context = ShardContext.of(settings)
        self._outbox = context.outbox
        self.groups = context.classic
        self._stored: dict[str, GroupMetadataValue] = {}
        self._store = OffsetStore()
        self._rebalance = ClassicRebalance(context)
        self._membership = ClassicMembership(context, self._rebalance)
        context.rules[GroupKind.CLASSIC] = ClassicOffsetRules(context, self._rebalance)
        self._offsets = Offsets(context, self._store)
        self._deletion = GroupDeletion(context, self._offsets)
        self._consumers = ConsumerGroups(context, self._rebalance, self._restore_classic)
        self._share = ShareGroups(context)
        self._streams = StreamsGroups(context)
        self._deletion.ways[GroupKind.SHARE] = self._share.delete_group

    @property
    def members(self) -> Iterator[tuple[GroupKind, str, int]]:
        """(kind, state, number of members) of each group; a copy of the groups is walked through."""
        context = self._context
        for group in list(context.classic.values()):
            yield GroupKind.CLASSIC, group.state.value, len(group.members)
        for consumers in list(context.consumer.values()):
            yield GroupKind.CONSUMER, consumers.state.value, len(consumers.members)
        for share in list(context.share.values()):
            yield GroupKind.SHARE, share.state.value, len(share.members)
        for streams in list(context.streams.values()):
            yield GroupKind.STREAMS, streams.state.value, len(streams.members)

    @property
    def offset_counts(self) -> Iterator[int]:
        """The committed offsets of each group; a copy of the groups is walked through."""
        for topics in list(self._store.committed.values()):
            yield sum(map(len, topics.values()))

    def next_wake_ms(self) -> int | None:
        """The time of the next `Tick` at the latest; None if nothing is due."""
        return self._outbox.timers.next_wake_ms()

    def replay(self, record: CoordinatorRecord, producer: ProducerStamp | None = None) -> None:
        """Apply one record of the log, in the log's order."""
        match record.key, record.value:
            case LegacyOffsetCommitKey() as key, LegacyOffsetCommitValue() | None as legacy:
                self.replay(coordinator_records.from_legacy(key, legacy), producer)
            case OffsetCommitKey() as key, OffsetCommitValue() | None as offset:
                self._store.replay(key, offset, None if producer is None else producer.producer_id)
                if offset is not None:
                    self._has_offsets(key.group)
            case GroupMetadataKey() as key, GroupMetadataValue() as metadata:
                self._stored[key.group] = metadata
            case GroupMetadataKey() as key, None:
                self._stored.pop(key.group, None)
                self._forget_deleted(key.group)
            case key, _ if isinstance(key, ConsumerKey):
                self._consumers.replay(record)
            case key, _ if isinstance(key, ShareKey):
                self._share.replay(record)
            case key, _ if isinstance(key, StreamsKey):
                self._streams.replay(record)

    def replay_bytes(self, key: bytes, value: bytes, producer: ProducerStamp | None) -> bool:
        """Apply a committed offset in its encoded form; False for any other record."""
        offset = read_offset(key, value)
        if offset is None:
            return False
        self._store.replay_offset(offset, None if producer is None else producer.producer_id)
        self._has_offsets(offset.group_id)
        return True

    def _has_offsets(self, group_id: str) -> None:
        """The group is a simple one, unless the log has a record of the group itself."""
        if group_id not in self.groups and self._context.kind_of(group_id) is None:
            self.groups[group_id] = ClassicGroup(group_id, self._outbox.now.wall_ms)

    def replay_transaction_end(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Apply a transaction marker of the log: it commits or drops the producer's offsets."""
        self._store.end_transaction(producer_id, committed)

    def step(self, event: Event) -> list[Effect]:
        """Handle one event; return the effects."""
        self._outbox.now = event.at
        match event:
            case RequestReceived():
                self._outbox.open(event)
                self._handle(event)
            case Tick():
                pass
            case AppendDone():
                self._append_done(event.append_id)
            case AppendFailed():
                self._append_failed(event.append_id, event.error)
            case TopicsDeleted():
                self._deletion.topics_deleted(event.topics)
                self._share.on_topics_deleted(event)
            case TopicsChanged():
                topics, self._context.topics = self._context.topics, event.topics
                self._consumers.on_topics_changed(event, topics)
                self._share.on_topics_changed(event)
                self._streams.on_topics_changed(event)
            case SettingsChanged():
                self._context.settings = event.settings
            case ShareCoordinatorAnswered():
                self._share.on_answer(event)
            case InternalTopicsCreated():
                self._streams.on_topics_created(event)
            case Loaded():
                self._loaded()
            case Resigned():
                self._outbox.reply_all(ErrorCode.NOT_COORDINATOR)
                return self._outbox.take_effects()
        # After the event: a heartbeat that was read late because this process was delayed still counts.
        self._run_timers()
        return self._outbox.take_effects()

    # Requests

    def _handle(self, event: RequestReceived) -> None:
        request = event.request
        if isinstance(request, CanMakeClassic) and self._is_being_made(request.group_id):
            self._context.turns.run(request.group_id, lambda: self._handle(event))
        elif isinstance(request, ClassicRequest) and self._consumers.answers(request.group_id):
            self._consumers.handle_classic(event, request, lambda: self._route(event))
        else:
            self._route(event)

    def _is_being_made(self, group_id: str) -> bool:
        """Whether the first records of a group, which determine its kind, are on their way."""
        return self._context.turns.is_taken(group_id) and self._context.kind_of(group_id) is None

    def _route(self, event: RequestReceived) -> None:
        match event.request:
            case HeartbeatRequest() as request:
                self._membership.heartbeat(event, request)
            case OffsetCommitRequest() as request:
                self._offsets.commit(event, request)
            case TxnOffsetCommitRequest() as request:
                self._offsets.commit_in_transaction(event, request)
            case OffsetFetchRequest() as request:
                self._offsets.fetch(event, request)
            case JoinGroupRequest() as request if self._context.kind_of(request.group_id) is GroupKind.SHARE:
                refused = JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
                self._outbox.reply(event.request_id, refused)
            case JoinGroupRequest() as request if request.group_id in self._context.streams:
                self._streams.make_room_for_classic(event, request, self._membership.join)
            case JoinGroupRequest() as request:
                self._membership.join(event, request)
            case SyncGroupRequest() as request:
                self._membership.sync(event, request)
            case LeaveGroupRequest() as request:
                self._membership.leave(event, request)
            case DescribeGroupsRequest() as request:
                self._describe(event, request)
            case ListGroupsRequest() as request:
                self._list(event, request)
            case DeleteGroupsRequest() as request:
                self._deletion.delete(event, request)
            case OffsetDeleteRequest() as request:
                self._offsets.delete(event, request)
            case (ConsumerGroupHeartbeatRequest() | ConsumerGroupDescribeRequest()) as request:
                self._consumers.handle(event, request)
            case (
                ShareGroupHeartbeatRequest()
                | ShareGroupDescribeRequest()
                | DescribeShareGroupOffsetsRequest()
                | AlterShareGroupOffsetsRequest()
                | DeleteShareGroupOffsetsRequest()
            ) as request:
                self._share.handle(event, request)
            case (
                StreamsGroupHeartbeatRequest()
                | StreamsGroupDescribeRequest()
                | StreamsGroupTopologyDescriptionUpdateRequest()
            ) as request:
                self._streams.handle(event, request)
            case _:
                raise TypeError(f"{type(event.request).__name__} is not a request to a group coordinator")

    def _describe(self, event: RequestReceived, request: DescribeGroupsRequest) -> None:
        described = [self._described(group_id, event.client.api_version) for group_id in request.groups]
        self._outbox.reply(event.request_id, DescribeGroupsResponse(groups=described))

    def _described(self, group_id: str, version: int) -> DescribedGroup:
        group = self.groups.get(group_id)
        if group is None:
            # Before KIP-1043, only the state showed that a group does not exist.
            missing = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
            if version >= FIRST_DESCRIBE_VERSION_WITH_GROUP_ID_NOT_FOUND:
                missing.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                known = self._context.kind_of(group_id) is not None
                problem = "is not a classic group" if known else "not found"
                missing.error_message = f"Group {group_id} {problem}."
            return missing
        is_stable = group.state is GroupState.STABLE
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol_name or "") if is_stable else "",
            members=[
                _described_member(member, member.metadata(group.protocol_name) if is_stable else b"")
                for member in group.members.values()
            ],
        )

    def _list(self, event: RequestReceived, request: ListGroupsRequest) -> None:
        states = {state.strip().lower() for state in request.states_filter}
        types = {group_type.strip().lower() for group_type in request.types_filter}
        listed = [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=GroupKind.CLASSIC.value,
            )
            for group in self.groups.values()
            if (not states or group.state.value.lower() in states)
            and (not types or GroupKind.CLASSIC.value in types)
        ]
        listed += [
            group
            for group in [*self._consumers.listed(), *self._share.listed()]
            if (not states or group.group_state.lower() in states)
            and (not types or group.group_type in types)
        ]
        if not types or GroupKind.STREAMS.value in types:
            listed += self._streams.listed(states)
        self._outbox.reply(event.request_id, ListGroupsResponse(groups=listed))

    def _forget_deleted(self, group_id: str) -> None:
        """A group's tombstone was replayed; a group that has changed since its deletion stays."""
        group = self.groups.get(group_id)
        if group is not None and group.state in (GroupState.DEAD, GroupState.EMPTY):
            self._rebalance.forget(group)
            del self.groups[group_id]

    def _restore_classic(self, group_id: str) -> None:
        """Make a classic group anew from the log; a simple one if it has only offsets, or none at all."""
        self.groups.pop(group_id, None)
        now_ms = self._outbox.now.wall_ms
        stored = self._stored.get(group_id)
        if stored is not None:
            group = self.groups[group_id] = ClassicGroup.restore(group_id, stored, now_ms)
            self._rebalance.on_loaded(group)
        elif self._store.committed.get(group_id):
            self.groups[group_id] = ClassicGroup(group_id, now_ms)

    # Appends, timers, loading

    def _append_done(self, append_id: int) -> None:
        pending = self._outbox.take_append(append_id)
        self._store.append_ends(pending.records)
        for record in pending.records:
            self.replay(record, pending.producer)
        pending.succeed()

    def _append_failed(self, append_id: int, error: ErrorCode) -> None:
        pending = self._outbox.take_append(append_id)
        self._store.append_ends(pending.records)
        self._outbox.note("append to the group log failed append_id=%d error=%s", append_id, error.name)
        pending.fail(error)

    def _run_timers(self) -> None:
        outbox = self._outbox
        while (key := outbox.timers.pop_due(outbox.now.steady_ms)) is not None:
            match key.kind:
                case "session":
                    self._rebalance.on_session_expired(key.group_id, key.member_id)
                case "join":
                    self._rebalance.on_join_deadline(key.group_id)
                case "sync":
                    self._rebalance.on_sync_deadline(key.group_id)
                case "append":
                    outbox.on_append_timeout(key.number)
                case kind if kind in CONSUMER_DEADLINES or kind == REGEX_TIMER:
                    self._consumers.on_timer(key)
                case "share-session":
                    self._share.on_session_expired(key.group_id, key.member_id)
                case kind if kind in STREAMS_TIMERS:
                    self._streams.on_timer(key)
                case "expire":
                    self._deletion.expire()
                case _:
                    raise AssertionError(f"unknown timer {key}")

    def _loaded(self) -> None:
        now_ms = self._outbox.now.wall_ms
        for group_id, value in self._stored.items():
            group = self.groups[group_id] = ClassicGroup.restore(group_id, value, now_ms)
            self._rebalance.on_loaded(group)
        self._consumers.on_loaded()
        self._share.on_loaded()
        self._streams.on_loaded()
        self._deletion.restart()


def _described_member(member: ClassicMember, metadata: bytes) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=metadata,
        member_assignment=member.assignment,
    )
