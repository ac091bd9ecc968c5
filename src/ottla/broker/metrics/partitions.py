"""The partitions of a broker: their logs, who is in sync, how many are led here and short of replicas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ottla.metrics.exposition import Family, Labels, Sample, by_label, single
from ottla.metrics.tables import broker as table

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.broker.replication.replication import Replication
    from ottla.core.image.image import MetadataImage, PartitionImage

BREATHE_EVERY: Final = 20


class PartitionsNode(Protocol):
    """What is read of the node."""

    @property
    def replication(self) -> Replication:
        """The partitions and their logs."""
        ...

    @property
    def image(self) -> MetadataImage:
        """The metadata, which tells which replicas are wanted where a partition is moved."""
        ...


class _Row(NamedTuple):
    """The values of one partition, in the order of _OF_PARTITIONS behind its labels.

    One tuple a partition, and samples made of it as they are written: 20,000 samples at once would have the
    garbage collector walk through all of the process's objects, which takes tens of milliseconds.
    """

    labels: Labels
    size_bytes: int
    segments: int
    start_offset: int
    end_offset: int
    under_replicated: int
    under_min_isr: int
    at_min_isr: int
    replicas: int
    in_sync: int
    behind: int


_OF_PARTITIONS: Final = (
    table.LOG_SIZE,
    table.LOG_SEGMENTS,
    table.LOG_START_OFFSET,
    table.LOG_END_OFFSET,
    table.PARTITION_UNDER_REPLICATED,
    table.PARTITION_UNDER_MIN_ISR,
    table.PARTITION_AT_MIN_ISR,
    table.PARTITION_REPLICAS,
    table.PARTITION_IN_SYNC,
    table.STABLE_OFFSET_LAG,
)


class _Sums:
    """The sums over the partitions."""

    def __init__(self) -> None:
        self.leaders = 0
        self.reassigning = 0
        self.waiting_fetches = 0
        self.waiting_produces = 0


class PartitionMetrics:
    """The source of ReplicaManager's, Partition's and Log's metrics."""

    def __init__(self, node: PartitionsNode) -> None:
        self._node = node

    def read(self) -> Iterator[Family | None]:
        """The families of partitions, and the sums over them."""
        sums = _Sums()
        rows: list[_Row] = []
        for number, partition in enumerate(list(self._node.replication.partitions), 1):
            rows.append(self._row(partition, sums))
            if not number % BREATHE_EVERY:
                yield None
        yield single(table.PARTITION_COUNT, len(rows))
        yield single(table.LEADER_COUNT, sums.leaders)
        yield single(table.UNDER_REPLICATED, sum(row.under_replicated for row in rows))
        yield single(table.UNDER_MIN_ISR, sum(row.under_min_isr for row in rows))
        yield single(table.AT_MIN_ISR, sum(row.at_min_isr for row in rows))
        yield single(table.REASSIGNING, sums.reassigning)
        yield single(table.OFFLINE_REPLICAS, 0)
        updates = self._node.replication.in_sync_updates
        none, leader, every = self._node.replication.produced_appends.by_acks
        yield by_label(table.PRODUCED_BATCHES, {"0": none, "1": leader, "all": every})
        yield single(table.ISR_SHRINKS, updates.shrinks)
        yield single(table.ISR_EXPANDS, updates.expansions)
        yield single(table.FAILED_ISR_UPDATES, updates.failures)
        yield by_label(table.PURGATORY, {"Fetch": sums.waiting_fetches, "Produce": sums.waiting_produces})
        for column, metric in enumerate(_OF_PARTITIONS, 1):
            yield Family(metric, _column(rows, column))

    def _row(self, partition: Partition, sums: _Sums) -> _Row:
        stored = partition.log
        segments = stored.segments
        sums.waiting_fetches += partition.waiter_count
        sums.waiting_produces += partition.commit_wait_count
        replicas = in_sync = behind = 0
        under_replicated = under_min_isr = at_min_isr = False
        if partition.is_leader:
            leader = partition.leader
            in_sync, least = len(leader.isr), leader.min_insync_replicas
            image = self._image_of(partition)
            replicas = in_sync if image is None else len(image.replicas)
            adding = () if image is None else image.adding_replicas
            # Replicas that are being added need not be in sync for the partition to be whole.
            under_replicated = in_sync < replicas - len(adding)
            under_min_isr, at_min_isr = in_sync < least, in_sync == least
            behind = max(0, partition.high_watermark - partition.last_stable_offset)
            sums.leaders += 1
            sums.reassigning += image is not None and bool(adding or image.removing_replicas)
        return _Row(
            (partition.topic, partition.index),
            sum(each.size_bytes for each in segments),
            len(segments),
            stored.log_start_offset,
            stored.log_end_offset,
            int(under_replicated),
            int(under_min_isr),
            int(at_min_isr),
            replicas,
            in_sync,
            behind,
        )

    def _image_of(self, partition: Partition) -> PartitionImage | None:
        topic = self._node.image.topics_by_id.get(partition.topic_id)
        return None if topic is None else topic.partitions.get(partition.index)


def _column(rows: Sequence[_Row], column: int) -> Iterator[Sample]:
    for row in rows:
        yield row.labels, row[column]  # type: ignore[misc]
