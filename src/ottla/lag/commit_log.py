"""Reads `__consumer_offsets`: the commits of all groups as they come, with the times at which they were made.

The topic has two facts that coordinators don't tell: when an offset was committed, and that the same offset
was committed once more. Reading it takes a right that the cluster's administrators may withhold.
Offsets of aborted transactions are left out, those of open ones come with the transaction's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ottla.client.access import ClusterAccess
from ottla.client.admin.partition_offsets import LATEST, NO_OFFSET, list_offsets
from ottla.client.cluster_requests import ClusterRequests, TopicPartition, topic_error
from ottla.client.errors import ClusterError
from ottla.client.records.reader import FetchedPart, ReadSettings, RecordReader, Span
from ottla.client.records.visibility import Visibility
from ottla.protocol.errors import ProtocolError
from ottla.protocol.record_batch import decode_records
from ottla.protocol.records.framing import (
    Coordinator,
    decode_coordinator_key,
    decode_coordinator_value,
)
from ottla.protocol.records.legacy_offset_commit_key import LegacyOffsetCommitKey
from ottla.protocol.records.legacy_offset_commit_value import LegacyOffsetCommitValue
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from ottla.protocol.records.offset_commit_value import OffsetCommitValue
from ottla.protocol.schema import Buffer

TOPIC: Final = Coordinator.GROUP.value
SETTINGS: Final = ReadSettings(max_bytes=4 << 20, partition_max_bytes=1 << 20, waiting_bytes=8 << 20)


class LoggedCommit(NamedTuple):
    """A commit. order: the offset of its record. offset: None where the group's offset was deleted."""

    group: str
    partition: TopicPartition
    offset: int | None
    order: int
    timestamp_ms: int


class CommitLog:
    """The topic, read from some time on, without an end."""

    def __init__(
        self, client: ClusterRequests, access: ClusterAccess, spans: Mapping[TopicPartition, Span]
    ) -> None:
        """spans: up to the present ends; they are read first."""
        self._client, self._access = client, access
        self._spans = spans
        self._reader = RecordReader(client, access, spans, SETTINGS)
        self._visible: dict[TopicPartition, Visibility] = {}
        self.unreadable = 0
        """Records of forms that are not known, which are passed over."""

    @classmethod
    async def since(cls, client: ClusterRequests, access: ClusterAccess, since_ms: int) -> CommitLog:
        """The commits from `since_ms` on. Raises ClusterError where there is no topic, or no right to it."""
        (topic,) = await client.topics([TOPIC])
        if topic.error_code:
            raise topic_error(TOPIC, topic.error_code)
        partitions = [TopicPartition(TOPIC, one.partition_index) for one in topic.partitions]
        starts = await list_offsets(client, dict.fromkeys(partitions, since_ms))
        ends = await list_offsets(client, dict.fromkeys(partitions, LATEST), committed=True)
        spans = {}
        for partition in partitions:
            start, end = starts[partition], ends[partition]
            if isinstance(start, ClusterError):
                raise start
            if isinstance(end, ClusterError):
                raise end
            spans[partition] = Span(end.offset if start.offset == NO_OFFSET else start.offset, end.offset)
        return cls(client, access, spans)

    async def next(self) -> list[LoggedCommit] | None:
        """The next commits, of one partition of the topic; None once, behind those that were there at first.

        Raises ClusterError.
        """
        part = await self._reader.next()
        if part is not None:
            return list(self._commits(part))
        await self._reader.close()
        on = {one: Span(max(span.start, span.stop or 0)) for one, span in self._spans.items()}
        self._reader = RecordReader(self._client, self._access, on, SETTINGS)
        return None

    async def close(self) -> None:
        """Stop reading."""
        await self._reader.close()

    def _commits(self, part: FetchedPart) -> Iterator[LoggedCommit]:
        visible = self._visible.setdefault(part.partition, Visibility())
        for position, header in visible.visible(part.data, part.batches, part.aborted):
            if header.is_control:
                continue
            for record in decode_records(part.data, position):
                if record.offset < part.start or record.key is None:
                    continue
                try:
                    found = commit_of(record.key, record.value, record.offset)
                except ProtocolError:
                    self.unreadable += 1
                    continue
                if found is not None:
                    yield found


def commit_of(key: Buffer, value: Buffer | None, order: int) -> LoggedCommit | None:
    """The commit in a record; None for a record of another kind. Raises ProtocolError for an unknown form."""
    found = decode_coordinator_key(Coordinator.GROUP, key)
    if not isinstance(found, OffsetCommitKey | LegacyOffsetCommitKey):
        return None
    partition = TopicPartition(found.topic, found.partition)
    if value is None:
        return LoggedCommit(found.group, partition, None, order, 0)
    committed = decode_coordinator_value(Coordinator.GROUP, found, value)
    assert isinstance(committed, OffsetCommitValue | LegacyOffsetCommitValue)
    return LoggedCommit(found.group, partition, committed.offset, order, committed.commit_timestamp)
