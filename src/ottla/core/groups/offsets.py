"""Committed offsets of every group of a shard: OffsetCommit, OffsetFetch, OffsetDelete and expiry.

Versions and edges:
    OffsetCommit 2-10   2-4: retention_time_ms gives the offset an expiry of its own; 6: leader epoch
                        (KIP-320); 7: instance id (KIP-345); 9: GROUP_ID_NOT_FOUND; 10: topic ids
    OffsetFetch 1-10    2: every topic with null; 7: require_stable (KIP-447); 8: many groups (KIP-709);
                        10: topic ids
    OffsetDelete 0      KIP-496; a topic that members read answers GROUP_SUBSCRIBED_TO_TOPIC

Theory of operation. Only replayed records change the offsets here, so a fetch sees what is committed and
nothing else. Commits on their way to the log are counted per partition: require_stable waits for them, and
whoever deletes offsets writes a tombstone for them too, since the log keeps the order.

An offset expires (KIP-211) when its group has been EMPTY for offsets.retention.minutes; for a simple group,
or a topic that a stable group no longer reads, when the offset has not been committed for that long.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from ottla.core.coordination.api import RequestReceived
from ottla.core.coordination.outbox import answer_for
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups import coordinator_records
from ottla.core.groups.api import DeletedTopic
from ottla.core.groups.classic.group import ClassicGroup, GroupState
from ottla.core.groups.classic.membership import check_member
from ottla.core.groups.classic.rebalance import ClassicRebalance
from ottla.core.groups.context import ShardContext
from ottla.core.groups.coordinator_records import NO_TIMESTAMP, CommittedOffset
from ottla.core.groups.responses import offset_commit_error
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestPartition
from ottla.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_delete_request import OffsetDeleteRequest
from ottla.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from ottla.protocol.records.offset_commit_value import OffsetCommitValue
from ottla.protocol.schema import ZERO_UUID

NO_OFFSET = -1
NO_RETENTION_TIME = -1
NO_GENERATION = -1
FIRST_COMMIT_VERSION_WITH_GROUP_ID_NOT_FOUND = 9

PartitionKey: TypeAlias = tuple[str, int]


class OffsetStore:
    """What is committed, and which commits are on their way; changed by replay and by the outbox only."""

    def __init__(self) -> None:
        self.committed: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        """group id -> topic -> partition -> offset"""
        self._pending: dict[str, Counter[PartitionKey]] = {}

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        if value is not None:
            topics = self.committed.setdefault(key.group, {})
            topics.setdefault(key.topic, {})[key.partition] = coordinator_records.committed_offset(value)
            return
        topics = self.committed.get(key.group, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            self.committed.pop(key.group, None)

    def append_begins(self, records: Iterable[CoordinatorRecord]) -> None:
        for record in records:
            if isinstance(record.key, OffsetCommitKey):
                key = record.key
                self._pending.setdefault(key.group, Counter())[key.topic, key.partition] += 1

    def append_ends(self, records: Iterable[CoordinatorRecord]) -> None:
        for record in records:
            if isinstance(record.key, OffsetCommitKey):
                pending = self._pending[record.key.group]
                partition = record.key.topic, record.key.partition
                pending[partition] -= 1
                if not pending[partition]:
                    del pending[partition]
                if not pending:
                    del self._pending[record.key.group]

    def has_pending(self, group_id: str) -> bool:
        return group_id in self._pending

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        return (topic, partition) in self._pending.get(group_id, ())

    def partitions_of(self, group_id: str) -> list[PartitionKey]:
        """Every partition with an offset that is committed or on its way."""
        topics = self.committed.get(group_id, {})
        found = dict.fromkeys((topic, partition) for topic, held in topics.items() for partition in held)
        found.update(dict.fromkeys(self._pending.get(group_id, ())))
        return list(found)

    def groups(self) -> set[str]:
        return {*self.committed, *self._pending}


class Offsets:
    """Decides the offset APIs over `store` and the shard's groups."""

    def __init__(self, context: ShardContext, rebalance: ClassicRebalance, store: OffsetStore) -> None:
        self._context = context
        self._outbox = context.outbox
        self._groups = context.classic
        self._rebalance = rebalance
        self._store = store

    # OffsetCommit

    def commit(self, event: RequestReceived, request: OffsetCommitRequest) -> None:
        outbox = self._outbox
        group = self._groups.get(request.group_id)
        error = _check_commit(group, request, event.client.api_version)
        if error:
            outbox.reply(event.request_id, offset_commit_error(request, error))
            return
        if group is not None and request.member_id in group.members:
            # A member that commits is alive. (While the leader assigns, commits are refused.)
            self._rebalance.keep_session(group, request.member_id)
        records: list[CoordinatorRecord] = []
        topics = []
        for topic in request.topics:
            results = []
            for partition in topic.partitions:
                error = ErrorCode.NONE
                if (
                    len(partition.committed_metadata or "")
                    > self._context.broker_settings.offset_metadata_max_bytes
                ):
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    offset = self._offset_of(partition, topic.topic_id, request.retention_time_ms)
                    records.append(
                        coordinator_records.offset_commit(
                            request.group_id, topic.name, partition.partition_index, offset
                        )
                    )
                results.append(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                )
            topics.append(
                OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=results)
            )
        response = OffsetCommitResponse(topics=topics)

        def failed(error: ErrorCode) -> None:
            outbox.reply(event.request_id, offset_commit_error(request, answer_for(error)))

        if records:
            self.append(records, lambda: outbox.reply(event.request_id, response), failed)
        else:
            outbox.reply(event.request_id, response)

    def _offset_of(
        self, partition: OffsetCommitRequestPartition, topic_id: uuid.UUID, retention_time_ms: int
    ) -> CommittedOffset:
        now_ms = self._outbox.now.wall_ms
        return CommittedOffset(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp_ms=now_ms,
            expire_timestamp_ms=NO_TIMESTAMP
            if retention_time_ms == NO_RETENTION_TIME
            else now_ms + retention_time_ms,
            topic_id=topic_id,
        )

    # OffsetFetch

    def fetch(self, event: RequestReceived, request: OffsetFetchRequest) -> None:
        """Answer from what is committed; require_stable first waits for commits that are on their way."""
        outbox = self._outbox

        def answer() -> None:
            groups = [self._fetch_group(group) for group in request.groups]
            outbox.reply(event.request_id, OffsetFetchResponse(groups=groups))

        def answer_without(_: ErrorCode) -> None:
            answer()

        last_append_id = outbox.last_append_id()
        if (
            request.require_stable
            and last_append_id is not None
            and any(self._store.has_pending(group.group_id) for group in request.groups)
        ):
            outbox.when_ended(last_append_id, answer, answer_without)
        else:
            answer()

    def _fetch_group(self, wanted: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        group = self._groups.get(wanted.group_id)
        held: dict[str, dict[int, CommittedOffset]] = {}
        if group is not None and group.state is not GroupState.DEAD:
            held = self._store.committed.get(wanted.group_id, {})
        if wanted.topics is None:
            topics = [
                OffsetFetchResponseTopics(
                    name=topic,
                    partitions=[_fetched(index, offset) for index, offset in sorted(partitions.items())],
                )
                for topic, partitions in held.items()
            ]
        else:
            topics = []
            for topic_wanted in wanted.topics:
                partitions = held.get(topic_wanted.name, {})
                topics.append(
                    OffsetFetchResponseTopics(
                        name=topic_wanted.name,
                        topic_id=topic_wanted.topic_id,
                        partitions=[
                            _fetched(index, _of_topic(partitions.get(index), topic_wanted.topic_id))
                            for index in topic_wanted.partition_indexes
                        ],
                    )
                )
        return OffsetFetchResponseGroup(group_id=wanted.group_id, topics=topics)

    # OffsetDelete

    def delete(self, event: RequestReceived, request: OffsetDeleteRequest) -> None:
        outbox = self._outbox
        group = self._groups.get(request.group_id)
        error = _check_delete(group, request.group_id)
        if error or group is None:
            outbox.fail(event.request_id, error)
            return
        present = set(self._store.partitions_of(request.group_id))
        records: list[CoordinatorRecord] = []
        topics = []
        for topic in request.topics:
            subscribed = group.is_subscribed_to(topic.name)
            for partition in topic.partitions:
                index = partition.partition_index
                if not subscribed and (topic.name, index) in present:
                    records.append(coordinator_records.offset_tombstone(request.group_id, topic.name, index))
            topics.append(
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=partition.partition_index,
                            error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE,
                        )
                        for partition in topic.partitions
                    ],
                )
            )
        response = OffsetDeleteResponse(topics=topics)
        if not records:
            outbox.reply(event.request_id, response)
            return
        self.append(
            records,
            lambda: outbox.reply(event.request_id, response),
            lambda error: outbox.fail(event.request_id, answer_for(error)),
        )

    # Deleting groups, topics and what is old

    def tombstones_of(self, group_id: str) -> list[CoordinatorRecord]:
        """What removes every offset of a group."""
        return [
            coordinator_records.offset_tombstone(group_id, topic, partition)
            for topic, partition in self._store.partitions_of(group_id)
        ]

    def tombstones_of_topics(self, topics: Iterable[DeletedTopic]) -> list[CoordinatorRecord]:
        """What removes every group's offsets of deleted topics, but not of a new topic with an old name."""
        deleted = {topic.name: topic.topic_id for topic in topics}
        records = []
        for group_id in self._store.groups():
            committed = self._store.committed.get(group_id, {})
            for topic, partition in self._store.partitions_of(group_id):
                if topic not in deleted:
                    continue
                offset = committed.get(topic, {}).get(partition)
                if offset is None or _of_topic(offset, deleted[topic]) is not None:
                    records.append(coordinator_records.offset_tombstone(group_id, topic, partition))
        return records

    def expired(self, group: ClassicGroup) -> tuple[list[CoordinatorRecord], bool]:
        """The tombstones of a group's expired offsets, and whether no offset remains after them."""
        topics = self._store.committed.get(group.group_id, {})
        nothing_pending = not self._store.has_pending(group.group_id)
        if not topics:
            return [], nothing_pending
        since = _expiry_base(group)
        if since is None:
            return [], False
        now_ms, retention_ms = self._outbox.now.wall_ms, self._context.broker_settings.offsets_retention_ms
        records = []
        all_expired = nothing_pending
        for topic, partitions in topics.items():
            subscribed = group.is_subscribed_to(topic)
            for partition, offset in partitions.items():
                if offset.expire_timestamp_ms != NO_TIMESTAMP:
                    is_old = now_ms >= offset.expire_timestamp_ms
                else:
                    is_old = now_ms - since(offset) >= retention_ms
                pending = self._store.is_pending(group.group_id, topic, partition)
                if is_old and not subscribed and not pending:
                    records.append(coordinator_records.offset_tombstone(group.group_id, topic, partition))
                else:
                    all_expired = False
        return records, all_expired

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        done: Callable[[], None],
        failed: Callable[[ErrorCode], None],
    ) -> int:
        """Append records of which some are of offsets; returns the append's id."""
        self._store.append_begins(records)
        return self._outbox.append(records, done, failed)


def _check_commit(group: ClassicGroup | None, request: OffsetCommitRequest, version: int) -> ErrorCode:
    generation = request.generation_id_or_member_epoch
    if group is None:
        # Without a generation it is a consumer that manages itself, or an administrator: a simple group.
        if generation < 0:
            return ErrorCode.NONE
        if version >= FIRST_COMMIT_VERSION_WITH_GROUP_ID_NOT_FOUND:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID  # Not while the group has members.
    error = check_member(group, request.member_id, request.group_instance_id)
    if error:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _check_delete(group: ClassicGroup | None, group_id: str) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol():
        return ErrorCode.NON_EMPTY_GROUP  # What its members read is unknown.
    return ErrorCode.NONE


def _expiry_base(group: ClassicGroup) -> Callable[[CommittedOffset], int] | None:
    """From when an offset's retention counts; None when the group's offsets do not expire now."""
    if group.protocol_type is not None and group.state is GroupState.EMPTY:
        return lambda offset: group.state_timestamp_ms
    knows_topics = group.state is GroupState.STABLE and group.subscribed_topics is not None
    if group.protocol_type is None or knows_topics:
        return lambda offset: offset.commit_timestamp_ms
    return None


def _of_topic(offset: CommittedOffset | None, topic_id: uuid.UUID) -> CommittedOffset | None:
    """`offset`, unless it is known to be of an earlier topic of the same name."""
    if offset is None or ZERO_UUID in (topic_id, offset.topic_id) or topic_id == offset.topic_id:
        return offset
    return None


def _fetched(partition: int, offset: CommittedOffset | None) -> OffsetFetchResponsePartitions:
    if offset is None:
        return OffsetFetchResponsePartitions(
            partition_index=partition, committed_offset=NO_OFFSET, committed_leader_epoch=-1, metadata=""
        )
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )
