"""Committed offsets of every group of a shard: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete.

Versions and edges:
    OffsetCommit 2-10   2-4: retention_time_ms gives the offset an expiry of its own; 6: leader epoch
                        (KIP-320); 7: instance id (KIP-345); 9: GROUP_ID_NOT_FOUND; 10: topic ids
    TxnOffsetCommit 0-6 2: leader epoch; 3: member, instance and generation (KIP-447); 4-5: KIP-890, see the
                        handler; 6: topic ids, GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319). Never
                        REBALANCE_IN_PROGRESS, which would delay the transaction
    OffsetFetch 1-10    2: every topic with null; 7: require_stable (KIP-447): UNSTABLE_OFFSET_COMMIT if
                        an open transaction may change it; 8: many groups (KIP-709); 9: member and epoch
                        (KIP-848); 10: topic ids
    OffsetDelete 0      KIP-496; a topic that members read answers GROUP_SUBSCRIBED_TO_TOPIC

Theory of operation. Only replayed records and markers change the offsets (offset_store.py), so a fetch sees
only committed offsets. Commits on their way to the log are counted for each partition: require_stable waits
for them, and a deletion appends tombstones for them too, since the log keeps the order. Offsets of open
transactions do not expire, and every deletion includes them.

The rules that depend on the kind of group (who may commit, which topics are read, which offsets expire and
when) are its `OffsetRules`. An offset expires (KIP-211) when offsets.retention.minutes have passed since the
time that the rules name, unless it was committed with an expiry of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

from ottla.core.coordination.api import ProducerStamp, RequestReceived
from ottla.core.coordination.outbox import answer_for
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups import coordinator_records
from ottla.core.groups.api import DeletedTopic
from ottla.core.groups.context import ShardContext
from ottla.core.groups.coordinator_records import NO_TIMESTAMP, CommittedOffset
from ottla.core.groups.offset_rules import Committer, OffsetRules, Target
from ottla.core.groups.offset_store import OffsetStore
from ottla.core.groups.responses import offset_commit_error, txn_offset_commit_error
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
from ottla.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
)
from ottla.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.protocol.schema import ZERO_UUID

NO_OFFSET = -1
NO_RETENTION_TIME = -1
FIRST_COMMIT_VERSION_WITH_GROUP_ID_NOT_FOUND = 9
FIRST_TXN_COMMIT_VERSION_WITH_EPOCH_ERRORS = 6
"""GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH; before, both are ILLEGAL_GENERATION."""


class Offsets:
    """Decides the offset APIs, from `store` and the shard's groups."""

    def __init__(self, context: ShardContext, store: OffsetStore) -> None:
        self._context = context
        self._outbox = context.outbox
        self._store = store

    # OffsetCommit

    def commit(self, event: RequestReceived, request: OffsetCommitRequest) -> None:
        outbox = self._outbox
        committer = Committer(
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            transactional=False,
            api_version=event.client.api_version,
        )
        error = self._check_commit(request.group_id, committer, _targets(request))
        if error:
            outbox.reply(event.request_id, offset_commit_error(request, error))
            return
        rules = self._context.rules_of(request.group_id)
        if rules is not None:
            rules.on_commit(request.group_id, committer)
        records: list[CoordinatorRecord] = []
        topics = []
        for topic in request.topics:
            results = []
            for partition in topic.partitions:
                error = self._check_metadata(partition.committed_metadata)
                if not error:
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

    def _check_commit(self, group_id: str, committer: Committer, targets: Iterable[Target]) -> ErrorCode:
        rules = self._context.rules_of(group_id)
        version = committer.api_version
        knows_epoch_errors = (
            version >= FIRST_TXN_COMMIT_VERSION_WITH_EPOCH_ERRORS
            if committer.transactional
            else version >= FIRST_COMMIT_VERSION_WITH_GROUP_ID_NOT_FOUND
        )
        if rules is not None:
            error = rules.check_commit(group_id, committer, targets)
            if committer.transactional and error is ErrorCode.STALE_MEMBER_EPOCH and not knows_epoch_errors:
                return ErrorCode.ILLEGAL_GENERATION
            return error
        # Without a generation: a consumer that assigns its own partitions, or an administrator; a simple
        # group.
        if committer.epoch < 0:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if knows_epoch_errors else ErrorCode.ILLEGAL_GENERATION

    def _check_metadata(self, metadata: str | None) -> ErrorCode:
        if metadata and len(metadata) > self._context.broker_settings.offset_metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    def _offset_of(
        self,
        partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
        topic_id: uuid.UUID,
        retention_time_ms: int = NO_RETENTION_TIME,
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

    # TxnOffsetCommit

    def commit_in_transaction(self, event: RequestReceived, request: TxnOffsetCommitRequest) -> None:
        """Append the offsets to the producer's transaction; they count when it commits.

        The handler has verified before that the transaction is open and has this partition.
        """
        outbox = self._outbox
        committer = Committer(
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            transactional=True,
            api_version=event.client.api_version,
        )
        error = self._check_commit(request.group_id, committer, _targets(request))
        if error:
            outbox.reply(event.request_id, txn_offset_commit_error(request, error))
            return
        records: list[CoordinatorRecord] = []
        topics = []
        for topic in request.topics:
            results = []
            for partition in topic.partitions:
                index = partition.partition_index
                error = self._check_metadata(partition.committed_metadata)
                if not error:
                    offset = self._offset_of(partition, topic.topic_id)
                    records.append(
                        coordinator_records.offset_commit(request.group_id, topic.name, index, offset)
                    )
                results.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=error))
            topics.append(
                TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=results)
            )
        response = TxnOffsetCommitResponse(topics=topics)
        if not records:
            outbox.reply(event.request_id, response)
            return

        def failed(error: ErrorCode) -> None:
            outbox.reply(event.request_id, txn_offset_commit_error(request, answer_for(error)))

        producer = ProducerStamp(request.producer_id, request.producer_epoch)
        self.append(records, lambda: outbox.reply(event.request_id, response), failed, producer)

    # OffsetFetch

    def fetch(self, event: RequestReceived, request: OffsetFetchRequest) -> None:
        """Answer with the committed offsets; require_stable first waits for commits that are on their way."""
        outbox = self._outbox

        def answer() -> None:
            groups = [self._fetch_group(group, request.require_stable) for group in request.groups]
            outbox.reply(event.request_id, OffsetFetchResponse(groups=groups))

        def answer_without(_: ErrorCode) -> None:
            answer()

        last_append_id = outbox.last_append_id()
        if (
            request.require_stable
            and last_append_id is not None
            and any(self._store.has_in_flight(group.group_id) for group in request.groups)
        ):
            outbox.when_ended(last_append_id, answer, answer_without)
        else:
            answer()

    def _fetch_group(self, wanted: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
        group_id = wanted.group_id
        rules = self._context.rules_of(group_id)
        error = (
            ErrorCode.GROUP_ID_NOT_FOUND
            if rules is None
            else rules.check_fetch(group_id, wanted.member_id, wanted.member_epoch)
        )
        held: dict[str, dict[int, CommittedOffset]] = {}
        if not error:
            held = self._store.committed.get(group_id, {})
        elif error is not ErrorCode.GROUP_ID_NOT_FOUND:
            return OffsetFetchResponseGroup(group_id=group_id, error_code=error)
        unstable = self._store.open_partitions(group_id) if require_stable else {}

        def fetched(topic: str, index: int, offset: CommittedOffset | None) -> OffsetFetchResponsePartitions:
            return _unstable(index) if (topic, index) in unstable else _fetched(index, offset)

        if wanted.topics is None:
            topics = [
                OffsetFetchResponseTopics(
                    name=topic,
                    partitions=[fetched(topic, index, each) for index, each in sorted(partitions.items())],
                )
                for topic, partitions in held.items()
            ]
        else:
            topics = []
            for topic_wanted in wanted.topics:
                name, topic_id = topic_wanted.name, topic_wanted.topic_id
                partitions = held.get(name, {})
                topics.append(
                    OffsetFetchResponseTopics(
                        name=name,
                        topic_id=topic_id,
                        partitions=[
                            fetched(name, index, _of_topic(partitions.get(index), topic_id))
                            for index in topic_wanted.partition_indexes
                        ],
                    )
                )
        return OffsetFetchResponseGroup(group_id=group_id, topics=topics)

    # OffsetDelete

    def delete(self, event: RequestReceived, request: OffsetDeleteRequest) -> None:
        outbox = self._outbox
        group_id = request.group_id
        rules = self._context.rules_of(group_id)
        if rules is None:
            unknown = ErrorCode.GROUP_ID_NOT_FOUND if group_id else ErrorCode.INVALID_GROUP_ID
            outbox.fail(event.request_id, unknown)
            return
        error = rules.check_offset_delete(group_id)
        if error:
            outbox.fail(event.request_id, error)
            return
        present = set(self._store.partitions_of(group_id))
        records: list[CoordinatorRecord] = []
        topics = []
        for topic in request.topics:
            subscribed = rules.is_subscribed_to(group_id, topic.name)
            for partition in topic.partitions:
                index = partition.partition_index
                if not subscribed and (topic.name, index) in present:
                    records.append(coordinator_records.offset_tombstone(group_id, topic.name, index))
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

    # Deletion of groups and topics, expiry

    def tombstones_of(self, group_id: str) -> list[CoordinatorRecord]:
        """The records that remove every offset of a group."""
        return [
            coordinator_records.offset_tombstone(group_id, topic, partition)
            for topic, partition in self._store.partitions_of(group_id)
        ]

    def tombstones_of_topics(self, topics: Iterable[DeletedTopic]) -> list[CoordinatorRecord]:
        """The records that remove every group's offsets of
        deleted topics, but not of new topics with the old names.
        """
        deleted = {topic.name: topic.topic_id for topic in topics}
        records = []
        for group_id in self._store.groups():
            for topic, partition in self._store.partitions_of(group_id):
                if topic in deleted and any(
                    offset is None or _of_topic(offset, deleted[topic]) is not None
                    for offset in self._store.offsets_of(group_id, topic, partition)
                ):
                    records.append(coordinator_records.offset_tombstone(group_id, topic, partition))
        return records

    def expired(self, group_id: str, rules: OffsetRules) -> tuple[list[CoordinatorRecord], bool]:
        """The tombstones of a group's expired offsets, and whether no offset remains after them."""
        store = self._store
        topics = store.committed.get(group_id, {})
        all_expired = not store.has_in_flight(group_id) and not store.has_open(group_id)
        if not topics:
            return [], all_expired
        since = rules.expiry_base(group_id)
        if since is None:
            return [], False
        now_ms, retention_ms = self._outbox.now.wall_ms, self._context.broker_settings.offsets_retention_ms
        open_partitions = store.open_partitions(group_id)
        records = []
        for topic, partitions in topics.items():
            subscribed = rules.is_subscribed_to(group_id, topic)
            for partition, offset in partitions.items():
                if offset.expire_timestamp_ms != NO_TIMESTAMP:
                    is_old = now_ms >= offset.expire_timestamp_ms
                else:
                    is_old = now_ms - since(offset) >= retention_ms
                is_changing = (topic, partition) in open_partitions or store.is_in_flight(
                    group_id, topic, partition
                )
                if is_old and not subscribed and not is_changing:
                    records.append(coordinator_records.offset_tombstone(group_id, topic, partition))
                else:
                    all_expired = False
        return records, all_expired

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        done: Callable[[], None],
        failed: Callable[[ErrorCode], None],
        producer: ProducerStamp | None = None,
    ) -> int:
        """Append records, some of them of offsets; returns the append's id."""
        self._store.append_begins(records)
        return self._outbox.append(records, done, failed, producer)

    def append_in_turn(
        self,
        group_id: str,
        records: Sequence[CoordinatorRecord],
        done: Callable[[], None],
        failed: Callable[[ErrorCode], None],
    ) -> int:
        """`append` for a decision about a group, see `Turns.append`."""
        self._store.append_begins(records)
        return self._context.turns.append(group_id, records, done, failed)


def _targets(request: OffsetCommitRequest | TxnOffsetCommitRequest) -> Iterator[Target]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield topic.name, topic.topic_id, partition.partition_index


def _of_topic(offset: CommittedOffset | None, topic_id: uuid.UUID) -> CommittedOffset | None:
    """`offset`, or None if it is known to be of an earlier topic with the same name."""
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


def _unstable(partition: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=-1,
        metadata="",
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
