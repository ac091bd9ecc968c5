"""Brings the end of transactions to their partitions: markers, by leader, again and again until they are in.

Theory of operation. A transaction shard orders the markers of a transaction whose end is in its log
(`WriteMarkers`), and is told of each partition that has its marker. Markers are written in rounds: the
partitions of every open order, grouped by the broker that leads them. A partition that is gone needs none.
What fails is tried again in a later round, for as long as the shard is led here: an ended transaction must
not stay open for readers. A transactional id has at most one order, as it can't begin anything new before it
is done, and an order only shrinks.

Nothing is durable here: after a crash the shard is loaded, finds the transaction prepared and orders again.
A marker that is written twice changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ottla.core.coordination.api import Moment
from ottla.core.transactions.api import MarkersWritten, WriteMarkers
from ottla.core.transactions.transaction import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.coordinator_shard import ShardRunner

log = logging.getLogger("ottla.broker.transactions")

FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 1.0

#: The partition has a newer producer epoch or coordinator: this transaction is not open in it any more.
OVERTAKEN = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


@dataclass(frozen=True, slots=True)
class Marker:
    """A transaction's end and the partitions of one broker to write it to."""

    order: Order
    partitions: tuple[TopicPartition, ...]


class MarkerWriter(Protocol):
    """The way to the partitions that one broker leads."""

    async def write(self, markers: Sequence[Marker]) -> Sequence[Mapping[TopicPartition, ErrorCode]]:
        """Write the markers; each one's partitions with what came of them. Raises nothing."""


class Order:
    """A transaction whose markers are not all written."""

    def __init__(self, runner: ShardRunner, wanted: WriteMarkers) -> None:
        self.runner = runner
        self.wanted = wanted
        self.missing = set(wanted.partitions)

    def report(self, partitions: Sequence[TopicPartition]) -> None:
        """Tell the shard of partitions that have their marker."""
        wanted, written = self.wanted, tuple(partitions)
        self.missing.difference_update(written)

        def event(at: Moment) -> MarkersWritten:
            return MarkersWritten(
                at, wanted.transactional_id, wanted.producer_id, wanted.producer_epoch, written
            )

        self.runner.tell(event)


class LocalMarkerWriter:
    """Appends markers to partitions of this broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def write(self, markers: Sequence[Marker]) -> Sequence[Mapping[TopicPartition, ErrorCode]]:
        return [
            {partition: self._append(marker.order, partition) for partition in marker.partitions}
            for marker in markers
        ]

    def _append(self, order: Order, partition: TopicPartition) -> ErrorCode:
        wanted = order.wanted
        topic, index = partition
        try:
            self._broker.replicas.append_end_transaction_marker(
                topic,
                index,
                wanted.producer_id,
                wanted.producer_epoch,
                order.runner.leader_epoch,
                wanted.committed,
                transaction_version=wanted.transaction_version,
            )
        except KafkaError as error:
            return error.code
        except OSError as problem:
            log.error("append of a marker failed topic=%s partition=%d: %s", topic, index, problem)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE


class TransactionMarkers:
    """All orders of this broker's transaction shards. Used on the event loop only."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._local = LocalMarkerWriter(broker)
        self._orders: dict[tuple[int, str], Order] = {}
        self._new: list[Order] = []
        self._writing = False
        self._retry_pending = False
        self._retry_seconds = FIRST_RETRY_SECONDS

    @property
    def open_orders(self) -> int:
        """How many transactions wait for markers."""
        return len(self._orders)

    def write(self, runner: ShardRunner, wanted: WriteMarkers) -> None:
        """Take an order; it replaces an older one for the same transactional id."""
        order = Order(runner, wanted)
        self._orders[runner.partition, wanted.transactional_id] = order
        self._new.append(order)
        if not self._writing:
            self._writing = True
            self._broker.supervisor.spawn("write-transaction-markers", self._write_new())

    async def _write_new(self) -> None:
        while self._new:
            orders, self._new = self._new, []
            await self._round(orders)
        self._writing = False

    async def _round(self, orders: Sequence[Order]) -> None:
        """Write every missing marker of these orders once."""
        by_leader: dict[int, list[Marker]] = {}
        for order in orders:
            if order.runner.resigned:
                self._forget(order)
                continue
            leaders = self._leaders_of(order)
            if gone := leaders.pop(None, None):
                order.report(gone)
            for leader, partitions in leaders.items():
                assert leader is not None
                by_leader.setdefault(leader, []).append(Marker(order, tuple(partitions)))
        for leader, markers in by_leader.items():
            writer = self._writer_to(leader)
            if writer is None:
                continue
            for marker, errors in zip(markers, await writer.write(markers), strict=True):
                self._after(marker.order, errors)
        for order in orders:
            if not order.missing:
                self._forget(order)
        if self._orders and not self._retry_pending:
            self._retry_pending = True
            self._broker.supervisor.spawn("retry-transaction-markers", self._retry())

    def _after(self, order: Order, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        written = []
        for partition, error in errors.items():
            if error is ErrorCode.NONE:
                written.append(partition)
            elif error in OVERTAKEN:
                log.info("marker is overtaken %s partition=%s error=%s", order.wanted, partition, error.name)
                written.append(partition)
        if written:
            order.report(written)

    def _leaders_of(self, order: Order) -> dict[int | None, list[TopicPartition]]:
        """The order's missing partitions by the broker that leads them; None for those that are gone."""
        topics = self._broker.image.topics
        found: dict[int | None, list[TopicPartition]] = {}
        for name, index in sorted(order.missing):
            topic = topics.get(name)
            partition = topic.partitions.get(index) if topic is not None else None
            leader = partition.leader if partition is not None else None
            found.setdefault(leader, []).append((name, index))
        return found

    def _writer_to(self, leader: int) -> MarkerWriter | None:
        """The way to a broker; None while there is none (no leader, a broker that can't be reached)."""
        return self._local if leader == self._broker.node_id else None

    def _forget(self, order: Order) -> None:
        key = (order.runner.partition, order.wanted.transactional_id)
        if self._orders.get(key) is order:
            del self._orders[key]

    async def _retry(self) -> None:
        while self._orders:
            await asyncio.sleep(self._retry_seconds)
            self._retry_seconds = min(self._retry_seconds * 2, LAST_RETRY_SECONDS)
            await self._round(list(self._orders.values()))
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._retry_pending = False
