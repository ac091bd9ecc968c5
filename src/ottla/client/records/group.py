"""Membership in a consumer group by the classic protocol: join, heartbeats, offsets, leave.

Partitions are dealt out by Kafka's range assignor, so members of any client library may share the group. One
task sends heartbeats; `rebalancing` is set when the group wants its members to join again, or has forgotten
this one. The caller then commits its offsets, and joins.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.client.access import ClusterAccess
from ottla.client.cluster_requests import (
    ClusterRequests,
    CoordinatorType,
    TopicPartition,
    by_topic,
    refusal,
)
from ottla.client.errors import ClusterError
from ottla.client.records.coordinator import CoordinatorConnection
from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_embedded import (
    MalformedEmbedded,
    parse_assignment,
    parse_subscription,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.records.consumer_protocol_assignment import TopicPartition as AssignedTopic
from ottla.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription

PROTOCOL_TYPE: Final = "consumer"
ASSIGNOR: Final = "range"
EMBEDDED_VERSION: Final = 1
LEAVE_SECONDS: Final = 5.0
MARGIN_SECONDS: Final = 5.0
_NEWEST: Final = {ApiKey.OFFSET_FETCH: 7, ApiKey.OFFSET_COMMIT: 9}
"""OffsetFetch 8 asks for several groups, OffsetCommit 10 names topics by id."""
_FORGOTTEN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
_JOIN_AGAIN: Final = _FORGOTTEN | {ErrorCode.REBALANCE_IN_PROGRESS}


def range_assignment(
    members: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Kafka's range assignor: each topic's partitions in ranges, the first members take one more.

    members: the topics of each member by its id. partition_counts: of each topic; one that is missing has
    none.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for topic in sorted({topic for topics in members.values() for topic in topics}):
        takers = sorted(member for member, topics in members.items() if topic in topics)
        each, more = divmod(partition_counts.get(topic, 0), len(takers))
        start = 0
        for index, member in enumerate(takers):
            stop = start + each + (index < more)
            assigned[member] += [TopicPartition(topic, partition) for partition in range(start, stop)]
            start = stop
    return assigned


class GroupMember:
    """One member of a group. Raises ClusterError, for a group that refuses it, or does not answer."""

    def __init__(
        self,
        cluster: ClusterRequests,
        access: ClusterAccess,
        group_id: str,
        *,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        rebalance_timeout_ms: int = 60_000,
    ) -> None:
        self.group_id = group_id
        self.rebalancing = asyncio.Event()
        """Whether the caller has to join again."""
        self._cluster = cluster
        self._session_timeout_ms = session_timeout_ms
        self._heartbeat_seconds = heartbeat_interval_ms / 1_000
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._coordinator = CoordinatorConnection(cluster, access, CoordinatorType.GROUP, group_id, _NEWEST)
        self._member_id = ""
        self._generation = -1
        self._heart: asyncio.Task[None] | None = None
        self._failure: ClusterError | None = None

    async def join(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Join with a subscription; the partitions that are this member's now."""
        await self._stop_heart()
        wanted = list(dict.fromkeys(topics))
        while True:
            self.rebalancing.clear()
            joined = await self._join(wanted)
            if joined is None:
                continue
            assignments = await self._assignments(joined) if joined.leader == self._member_id else []
            assigned = await self._sync(joined, assignments)
            if assigned is not None:
                break
        self._heart = asyncio.get_running_loop().create_task(self._beat())
        return assigned

    def check(self) -> None:
        """Raises the ClusterError for which the group does not take this member any more."""
        if self._failure is not None:
            raise self._failure

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's offsets; a partition without one is left out."""
        topics = [
            OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(partitions).items()
        ]
        if not topics:
            return {}
        request = OffsetFetchRequest(group_id=self.group_id, topics=topics, require_stable=True)

        def codes(response: Any) -> list[int]:
            return [
                response.error_code,
                *(each.error_code for topic in response.topics for each in topic.partitions),
            ]

        waits = frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT})
        response = await self._coordinator.ask(request, codes, waits=waits)
        for code in codes(response):
            if code:
                raise refusal(code, None, f"offsets of group {self.group_id}")
        return {
            TopicPartition(topic.name, each.partition_index): each.committed_offset
            for topic in response.topics
            for each in topic.partitions
            if each.committed_offset >= 0
        }

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit the next offsets to read; False if the group has gone on without this member meanwhile."""
        if not offsets:
            return True
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offsets[TopicPartition(name, index)],
                            committed_metadata="",
                        )
                        for index in indexes
                    ],
                )
                for name, indexes in by_topic(offsets).items()
            ],
        )

        def codes(response: Any) -> list[int]:
            return [each.error_code for topic in response.topics for each in topic.partitions]

        response = await self._coordinator.ask(request, codes)
        found = {ErrorCode(code) for code in codes(response)} - {ErrorCode.NONE}
        if found & _FORGOTTEN:
            self._forget_membership()
            return False
        if ErrorCode.REBALANCE_IN_PROGRESS in found:
            # Offsets are taken until all have joined; by this answer the next generation has begun.
            self.rebalancing.set()
            return False
        for code in found:
            raise refusal(code, None, f"commit of group {self.group_id}")
        return True

    async def leave(self) -> None:
        """Leave the group, so that others get the partitions at once."""
        await self._stop_heart()
        if self._member_id:
            request = LeaveGroupRequest(
                group_id=self.group_id,
                members=[MemberIdentity(member_id=self._member_id, reason="ottla consume ends")],
            )
            with contextlib.suppress(ClusterError, ValueError):
                await self._coordinator.ask(request, _own_code, seconds=LEAVE_SECONDS)
        self._coordinator.close()

    # -- joining ---------------------------------------------------------------------------------------------

    async def _join(self, topics: list[str]) -> JoinGroupResponse | None:
        """The answer of a generation that this member is part of; None if it has to begin anew."""
        subscription = ConsumerProtocolSubscription(topics=topics).encode(EMBEDDED_VERSION)
        metadata = EMBEDDED_VERSION.to_bytes(2, "big") + subscription
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=ASSIGNOR, metadata=metadata)],
        )
        # The answer comes when all members have joined.
        seconds = self._rebalance_timeout_ms / 1_000 + self._cluster.timeout_seconds
        response: JoinGroupResponse = await self._coordinator.ask(request, _own_code, seconds=seconds)
        match ErrorCode(response.error_code):
            case ErrorCode.NONE:
                self._member_id, self._generation = response.member_id, response.generation_id
                return response
            case ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = response.member_id
            case code if code in _JOIN_AGAIN:
                self._member_id = "" if code in _FORGOTTEN else self._member_id
            case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                raise ClusterError(
                    f"group {self.group_id} has members that deal partitions out in other ways than by "
                    f"{ASSIGNOR}, or is no group of consumers",
                    response.error_code,
                )
            case code:
                raise refusal(code, None, f"group {self.group_id}")
        return None

    async def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """All members' partitions, of which the leader decides."""
        members: dict[str, list[str]] = {}
        for member in joined.members:
            try:
                members[member.member_id] = list(parse_subscription(bytes(member.metadata)).topics)
            except MalformedEmbedded:
                members[member.member_id] = []
        names = sorted({topic for topics in members.values() for topic in topics})
        described = await self._cluster.topics(names) if names else []
        counts = {topic.name or "": len(topic.partitions) for topic in described if not topic.error_code}
        found = []
        for member_id, partitions in range_assignment(members, counts).items():
            topics = [
                AssignedTopic(topic=name, partitions=indexes)
                for name, indexes in by_topic(partitions).items()
            ]
            message = ConsumerProtocolAssignment(assigned_partitions=topics, user_data=None)
            data = EMBEDDED_VERSION.to_bytes(2, "big") + message.encode(EMBEDDED_VERSION)
            found.append(SyncGroupRequestAssignment(member_id=member_id, assignment=data))
        return found

    async def _sync(
        self, joined: JoinGroupResponse, assignments: list[SyncGroupRequestAssignment]
    ) -> list[TopicPartition] | None:
        """This member's partitions; None if it has to join again."""
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        seconds = self._rebalance_timeout_ms / 1_000 + self._cluster.timeout_seconds
        response = await self._coordinator.ask(request, _own_code, seconds=seconds)
        code = ErrorCode(response.error_code)
        if code in _JOIN_AGAIN:
            self._member_id = "" if code in _FORGOTTEN else self._member_id
            return None
        if code is not ErrorCode.NONE:
            raise refusal(code, None, f"group {self.group_id}")
        if not response.assignment:
            return []
        try:
            found = parse_assignment(bytes(response.assignment))
        except MalformedEmbedded as problem:
            raise ClusterError(
                f"group {self.group_id}: the leader's assignment can't be read: {problem}"
            ) from None
        return [
            TopicPartition(topic.topic, partition)
            for topic in found.assigned_partitions
            for partition in topic.partitions
        ]

    # -- heartbeats ------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Send heartbeats until the group rebalances, or refuses this member."""
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self._generation, member_id=self._member_id
        )
        try:
            while True:
                await asyncio.sleep(self._heartbeat_seconds)
                response = await self._coordinator.ask(
                    request, _own_code, seconds=self._session_timeout_ms / 1_000 + MARGIN_SECONDS
                )
                code = ErrorCode(response.error_code)
                if code in _FORGOTTEN:
                    self._forget_membership()
                    return
                if code is ErrorCode.REBALANCE_IN_PROGRESS:
                    self.rebalancing.set()
                elif code is not ErrorCode.NONE:
                    raise refusal(code, None, f"group {self.group_id}")
        except ClusterError as problem:
            self._failure = problem
            self.rebalancing.set()

    def _forget_membership(self) -> None:
        self._member_id = ""
        self.rebalancing.set()

    async def _stop_heart(self) -> None:
        if self._heart is not None:
            self._heart.cancel()
            await asyncio.gather(self._heart, return_exceptions=True)
            self._heart = None


def _own_code(response: Any) -> list[int]:
    return [response.error_code]
