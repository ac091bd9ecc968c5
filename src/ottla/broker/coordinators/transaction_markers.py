"""Brings the end of transactions to their partitions: markers, by leader, again and again until they are in.

Theory of operation. A transaction shard orders the markers of a transaction whose end is in its log
(`WriteMarkers`), and is told of each partition that has its marker. The order's partitions are grouped by the
broker that leads them. Each such broker has one request under way; markers that are ordered meanwhile go into
the next one, so a broker that is slow or gone holds up no other one's. A partition that is gone needs no
marker, nor does a partition with a newer epoch of the producer. A marker that failed, or whose partition has
another leader by now, is sent again for as long as the shard is led here: an ended transaction must not stay
open for readers. So is a marker that a partition refuses because it has one of a later coordinator: that
coordinator writes the marker, and this shard is about to resign. A transactional id has at most one order, as
it can't begin anything new before it is done, and an order only shrinks.

Nothing is durable here: after a crash the shard is loaded, finds the transaction prepared and orders again.
A marker that is written twice changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.peers.peers import PeerUnreachable
from ottla.broker.replication.marker_appends import (
    AppendedMarker,
    TransactionEnd,
    append_markers,
    until_committed,
)
from ottla.core.coordination.api import Moment
from ottla.core.transactions.api import MarkersWritten, WriteMarkers
from ottla.core.transactions.transaction import TopicPartition
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse

if TYPE_CHECKING:
    from ottla.broker.coordinators.node import TransactionMarkersNode

log = logging.getLogger("ottla.broker.transactions")

FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 1.0
MAX_MARKERS_A_REQUEST: Final = 1000
PURPOSE: Final = "markers"
NO_LEADER: Final = -1


class MarkersShard(Protocol):
    """The shard that orders markers, and is told of those that are written."""

    partition: int
    leader_epoch: int

    @property
    def resigned(self) -> bool:
        """Whether this broker leads the shard's partition no more."""

    def tell(self, make_event: Callable[[Moment], MarkersWritten]) -> None:
        """Feed the shard an event."""


class Order:
    """A transaction whose markers are not all written."""

    def __init__(self, runner: MarkersShard, wanted: WriteMarkers) -> None:
        self.runner = runner
        self.wanted = wanted
        self.missing = set(wanted.partitions)
        #: Which leader each partition's marker is on the way to.
        self.asked: dict[TopicPartition, int] = {}
        self.told_of_fence = False

    def report(self, partitions: Sequence[TopicPartition]) -> None:
        """Tell the shard of partitions that have their marker."""
        wanted, written = self.wanted, tuple(partitions)
        self.missing.difference_update(written)

        def event(at: Moment) -> MarkersWritten:
            return MarkersWritten(
                at, wanted.transactional_id, wanted.producer_id, wanted.producer_epoch, written
            )

        self.runner.tell(event)

    @property
    def end(self) -> TransactionEnd:
        """The content of its markers."""
        wanted = self.wanted
        return TransactionEnd(
            wanted.producer_id,
            wanted.producer_epoch,
            self.runner.leader_epoch + wanted.coordinator_epoch_lead,
            wanted.committed,
            wanted.transaction_version,
        )


class _Destination:
    """A broker that leads partitions of orders, and the orders that wait to be sent to it."""

    def __init__(self) -> None:
        self._waiting: dict[Order, list[TopicPartition]] = {}
        self.is_served = False

    def add(self, order: Order, partition: TopicPartition) -> None:
        """Wait for the next request."""
        self._waiting.setdefault(order, []).append(partition)

    def take(self) -> list[tuple[Order, list[TopicPartition]]]:
        """The orders of the next request, as many as fit."""
        taken = [(order, self._waiting[order]) for order in list(self._waiting)[:MAX_MARKERS_A_REQUEST]]
        for order, _ in taken:
            del self._waiting[order]
        return taken


class TransactionMarkers:
    """All orders of this broker's transaction shards. Used on the event loop only."""

    def __init__(self, node: TransactionMarkersNode) -> None:
        self._node = node
        self._orders: dict[tuple[int, str], Order] = {}
        self._destinations: dict[int, _Destination] = {}
        self._retry_pending = False
        self._retry_seconds = FIRST_RETRY_SECONDS

    @property
    def open_orders(self) -> int:
        """How many transactions wait for markers."""
        return len(self._orders)

    def write(self, runner: MarkersShard, wanted: WriteMarkers) -> None:
        """Take an order; it replaces an older one for the same transactional id."""
        order = Order(runner, wanted)
        self._orders[runner.partition, wanted.transactional_id] = order
        self._send(order)

    def _send(self, order: Order) -> None:
        """Put the missing markers on the way to their leaders, those excepted that are on it."""
        if order.runner.resigned:
            self._forget(order)
            return
        gone = []
        for partition in sorted(order.missing):
            leader = self._leader_of(partition)
            if leader is None:
                gone.append(partition)
            elif leader != NO_LEADER and order.asked.get(partition) != leader:
                order.asked[partition] = leader
                self._destination(leader).add(order, partition)
        if gone:
            # A turn later: the shard that orders is in the middle of its effects.
            self._node.loop.call_soon(self._report, order, gone)
        elif not order.missing:
            self._forget(order)
        self._retry_while_open()

    def _leader_of(self, partition: TopicPartition) -> int | None:
        """The node id of the partition's leader, NO_LEADER if it has none; None if the partition is gone."""
        name, index = partition
        topic = self._node.image.topics.get(name)
        known = topic.partitions.get(index) if topic is not None else None
        return known.leader if known is not None else None

    def _destination(self, leader: int) -> _Destination:
        destination = self._destinations.get(leader)
        if destination is None:
            destination = self._destinations[leader] = _Destination()
        if not destination.is_served:
            destination.is_served = True
            serve = self._write_here if leader == self._node.node_id else self._write_there
            self._node.supervisor.spawn(f"transaction-markers-{leader}", serve(leader, destination))
        return destination

    # -- partitions that are led here ------------------------------------------------------------------

    async def _write_here(self, leader: int, destination: _Destination) -> None:
        while waiting := destination.take():
            for order, partitions in waiting:
                if order.runner.resigned:
                    continue
                appends = append_markers(self._node, order.end, partitions)
                self._after(order, leader, appends.errors)
                if appends.uncommitted:
                    self._node.supervisor.spawn(
                        "transaction-markers-commit", self._after_commit(order, leader, appends.uncommitted)
                    )
        destination.is_served = False

    async def _after_commit(self, order: Order, leader: int, appended: list[AppendedMarker]) -> None:
        self._after(order, leader, await until_committed(self._node, appended))

    # -- partitions that another broker leads ----------------------------------------------------------

    async def _write_there(self, leader: int, destination: _Destination) -> None:
        while waiting := destination.take():
            orders = [(order, partitions) for order, partitions in waiting if not order.runner.resigned]
            if not orders:
                continue
            try:
                answer = await self._node.broker_requests.ask(PURPOSE, leader, _request(orders))
            except PeerUnreachable as problem:
                log.info("markers did not get to broker=%d reason=%s", leader, problem)
                answer = WriteTxnMarkersResponse()
            assert isinstance(answer, WriteTxnMarkersResponse)
            found = _errors(answer)
            for order, partitions in orders:
                errors = found.get(order.wanted.producer_id, {})
                self._after(
                    order,
                    leader,
                    {each: errors.get(each, ErrorCode.NETWORK_EXCEPTION) for each in partitions},
                )
        destination.is_served = False

    # -- outcomes --------------------------------------------------------------------------------------

    def _after(self, order: Order, leader: int, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        written = []
        for partition, error in errors.items():
            if order.asked.get(partition) == leader:
                del order.asked[partition]
            if partition not in order.missing:
                continue  # it was sent to two leaders, and both have it
            if error is ErrorCode.NONE:
                written.append(partition)
            elif error is ErrorCode.INVALID_PRODUCER_EPOCH:  # the transaction is not open in it any more
                log.info("marker is overtaken %s partition=%s error=%s", order.wanted, partition, error.name)
                written.append(partition)
            elif error is ErrorCode.TRANSACTION_COORDINATOR_FENCED and not order.told_of_fence:
                order.told_of_fence = True
                log.warning(
                    "marker refused for a later coordinator's, tried again while this is the coordinator "
                    "%s partition=%s coordinator_epoch=%d",
                    order.wanted, partition, order.end.coordinator_epoch,
                )  # fmt: skip
        self._report(order, written)

    def _report(self, order: Order, written: list[TopicPartition]) -> None:
        written = [partition for partition in written if partition in order.missing]
        if written:
            order.report(written)
        if not order.missing:
            self._forget(order)

    def _forget(self, order: Order) -> None:
        key = (order.runner.partition, order.wanted.transactional_id)
        if self._orders.get(key) is order:
            del self._orders[key]

    def _retry_while_open(self) -> None:
        if self._orders and not self._retry_pending:
            self._retry_pending = True
            self._node.supervisor.spawn("retry-transaction-markers", self._retry())

    async def _retry(self) -> None:
        while self._orders:
            await asyncio.sleep(self._retry_seconds)
            self._retry_seconds = min(self._retry_seconds * 2, LAST_RETRY_SECONDS)
            for order in list(self._orders.values()):
                self._send(order)
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._retry_pending = False


def _request(orders: list[tuple[Order, list[TopicPartition]]]) -> WriteTxnMarkersRequest:
    markers = []
    for order, partitions in orders:
        topics: dict[str, WritableTxnMarkerTopic] = {}
        for name, index in partitions:
            topic = topics.setdefault(name, WritableTxnMarkerTopic(name=name, partition_indexes=[]))
            topic.partition_indexes.append(index)
        end = order.end
        markers.append(
            WritableTxnMarker(
                producer_id=end.producer_id,
                producer_epoch=end.producer_epoch,
                coordinator_epoch=end.coordinator_epoch,
                transaction_result=end.committed,
                transaction_version=end.transaction_version,
                topics=list(topics.values()),
            )
        )
    return WriteTxnMarkersRequest(markers=markers)


def _errors(answer: WriteTxnMarkersResponse) -> dict[int, dict[TopicPartition, ErrorCode]]:
    """The errors of each producer's partitions."""
    return {
        marker.producer_id: {
            (topic.name, partition.partition_index): ErrorCode(partition.error_code)
            for topic in marker.topics
            for partition in topic.partitions
        }
        for marker in answer.markers
    }
