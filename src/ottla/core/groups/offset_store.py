"""The offsets in a shard's log: committed ones, those of open transactions, and those on their way.

Theory of operation. Only replayed records and transaction markers change the committed offsets. An offset
that was committed in a transaction waits with its producer until the marker: a commit makes it the
partition's offset, unless a later record of the log is that already (a plain commit, or another transaction
that ended first); an abort drops it. A tombstone removes both. The order of the log is kept as a count of
transactional offsets, so no position is stored with a committed offset: a plain commit, or a transactional
one that becomes the partition's offset, overtakes all waiting ones before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups import coordinator_records
from ottla.core.groups.coordinator_records import CommittedOffset
from ottla.core.groups.offset_bytes import OffsetOfPartition
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from ottla.protocol.records.offset_commit_value import OffsetCommitValue

PartitionKey: TypeAlias = tuple[str, int]
OffsetKey: TypeAlias = tuple[str, str, int]
"""Group, topic, partition."""
CommittedOffsets: TypeAlias = dict[str, dict[str, dict[int, CommittedOffset]]]
"""Group -> topic -> partition -> offset."""


class _Waiting(NamedTuple):
    """An offset of an open transaction; None if a later record of the log has overtaken it."""

    sequence: int
    offset: CommittedOffset | None


class OffsetStore:
    """The committed offsets and those that wait or are on
    their way; changed by replay and by the outbox only.
    """

    def __init__(self) -> None:
        self.committed: CommittedOffsets = {}
        self._waiting: dict[int, dict[OffsetKey, _Waiting]] = {}
        """Producer id -> the offsets that its open transaction would commit."""
        self._open: dict[str, dict[PartitionKey, set[int]]] = {}
        """Group -> partition -> the producers whose open transactions have an offset for it."""
        self._sequence = 0
        self._in_flight: dict[str, Counter[PartitionKey]] = {}

    # Replay

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int | None) -> None:
        """Apply one record; with a `producer_id` it is part of that producer's transaction."""
        if value is None:
            self._remove(key.group, key.topic, key.partition)
        else:
            offset = coordinator_records.committed_offset(value)
            self.replay_offset(OffsetOfPartition(key.group, key.topic, key.partition, offset), producer_id)

    def replay_offset(self, record: OffsetOfPartition, producer_id: int | None) -> None:
        """Apply one record that is not a tombstone."""
        group_id, topic, partition, offset = record
        if producer_id is None:
            self._put(group_id, topic, partition, offset)
            return
        self._sequence += 1
        waiting = self._waiting.setdefault(producer_id, {})
        waiting[group_id, topic, partition] = _Waiting(self._sequence, offset)
        partitions = self._open.setdefault(group_id, {})
        partitions.setdefault((topic, partition), set()).add(producer_id)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """The producer's transaction has ended in this partition of the log."""
        for key, waiting in self._waiting.pop(producer_id, {}).items():
            self._close(key, producer_id)
            if committed and waiting.offset is not None:
                self._put(*key, waiting.offset, waiting.sequence)

    def _put(
        self, group_id: str, topic: str, partition: int, offset: CommittedOffset, sequence: int | None = None
    ) -> None:
        """Make `offset` the partition's; the waiting ones before it in the log are overtaken."""
        topics = self.committed.get(group_id)
        if topics is None:
            topics = self.committed[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = offset
        if self._open and group_id in self._open:
            key = group_id, topic, partition
            for producer_id in self._open[group_id].get((topic, partition), ()):
                waiting = self._waiting[producer_id]
                if sequence is None or waiting[key].sequence < sequence:
                    waiting[key] = waiting[key]._replace(offset=None)

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self.committed.get(group_id, {})
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self.committed.pop(group_id, None)
        key = group_id, topic, partition
        for producer_id in list(self._open.get(group_id, {}).get((topic, partition), ())):
            waiting = self._waiting[producer_id]
            del waiting[key]
            if not waiting:
                del self._waiting[producer_id]
            self._close(key, producer_id)

    def _close(self, key: OffsetKey, producer_id: int) -> None:
        group_id, topic, partition = key
        partitions = self._open[group_id]
        producers = partitions[topic, partition]
        producers.discard(producer_id)
        if not producers:
            del partitions[topic, partition]
        if not partitions:
            del self._open[group_id]

    # Appends on their way

    def append_begins(self, records: Iterable[CoordinatorRecord]) -> None:
        for record in records:
            if isinstance(record.key, OffsetCommitKey):
                key = record.key
                self._in_flight.setdefault(key.group, Counter())[key.topic, key.partition] += 1

    def append_ends(self, records: Iterable[CoordinatorRecord]) -> None:
        for record in records:
            if isinstance(record.key, OffsetCommitKey):
                key = record.key
                in_flight = self._in_flight[key.group]
                in_flight[key.topic, key.partition] -= 1
                if not in_flight[key.topic, key.partition]:
                    del in_flight[key.topic, key.partition]
                if not in_flight:
                    del self._in_flight[key.group]

    # Queries

    @property
    def transactional(self) -> dict[int, dict[OffsetKey, CommittedOffset | None]]:
        """The offsets that each producer's open transaction would commit; None for an overtaken one."""
        return {
            producer_id: {key: each.offset for key, each in waiting.items()}
            for producer_id, waiting in self._waiting.items()
        }

    def has_in_flight(self, group_id: str) -> bool:
        """Whether a record about the group's offsets is on its way to the log."""
        return group_id in self._in_flight

    def is_in_flight(self, group_id: str, topic: str, partition: int) -> bool:
        return (topic, partition) in self._in_flight.get(group_id, ())

    def has_open(self, group_id: str) -> bool:
        """Whether an open transaction has an offset for the group."""
        return group_id in self._open

    def open_partitions(self, group_id: str) -> dict[PartitionKey, set[int]]:
        """The partitions for which open transactions have an offset, each with their producers."""
        return self._open.get(group_id, {})

    def partitions_of(self, group_id: str) -> list[PartitionKey]:
        """Every partition with an offset that is committed, in an open transaction, or on its way."""
        topics = self.committed.get(group_id, {})
        found = dict.fromkeys((topic, partition) for topic, held in topics.items() for partition in held)
        found.update(dict.fromkeys(self._open.get(group_id, ())))
        found.update(dict.fromkeys(self._in_flight.get(group_id, ())))
        return list(found)

    def offsets_of(self, group_id: str, topic: str, partition: int) -> Iterator[CommittedOffset | None]:
        """The committed offset, and those of open transactions; None for one on its way."""
        committed = self.committed.get(group_id, {}).get(topic, {}).get(partition)
        if committed is not None:
            yield committed
        for producer_id in self._open.get(group_id, {}).get((topic, partition), ()):
            waiting = self._waiting[producer_id][group_id, topic, partition].offset
            if waiting is not None:
                yield waiting
        if self.is_in_flight(group_id, topic, partition):
            yield None

    def groups(self) -> set[str]:
        return {*self.committed, *self._open, *self._in_flight}
