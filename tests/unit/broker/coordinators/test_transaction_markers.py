"""Markers are written by leader until they are in: deleted partitions, failures, and who has resigned."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.coordinators import transaction_markers
from ottla.broker.coordinators.transaction_markers import TransactionMarkers
from ottla.broker.peers.peers import PeerUnreachable
from ottla.broker.supervisor import Supervisor
from ottla.core.coordination.api import Moment
from ottla.core.image.image import MetadataImage, PartitionImage, TopicImage
from ottla.core.transactions.api import MarkersWritten, WriteMarkers
from ottla.protocol.errors import (
    ErrorCode,
    InvalidProducerEpoch,
    KafkaError,
    NotEnoughReplicas,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from ottla.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from ottla.protocol.schema import Message
from support.nodes.in_process import until

HERE, ELSEWHERE = 1, 2
T0, T1, GONE = ("t", 0), ("t", 1), ("gone", 0)


@dataclass
class Runner:
    """A shard that keeps what it is told."""

    partition: int = 3
    leader_epoch: int = 7
    resigned: bool = False
    told: list[MarkersWritten] = field(default_factory=list)

    def tell(self, make_event: Any) -> None:
        self.told.append(make_event(Moment(0, 0)))

    @property
    def marked(self) -> list[tuple[str, int]]:
        return [partition for event in self.told for partition in event.partitions]


class Elsewhere:
    """The broker that leads other partitions: what it is asked, and what it says."""

    def __init__(self) -> None:
        self.asked: list[WriteTxnMarkersRequest] = []
        self.errors: dict[tuple[str, int], deque[ErrorCode]] = {}
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def answer(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self.asked.append(request)
        await self.may_answer.wait()
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=self._error(topic.name, index)
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    def _error(self, name: str, index: int) -> ErrorCode:
        errors = self.errors.get((name, index))
        return errors.popleft() if errors else ErrorCode.NONE


class FakeBroker:
    """One broker that leads the partitions of `t`, and errors on order; another one that is asked."""

    node_id = HERE

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.supervisor = Supervisor(lambda name, failure: self.failures.append(failure))
        self.loop = asyncio.get_running_loop()
        self.leaders = {0: HERE, 1: HERE}
        self.errors: deque[KafkaError | OSError | None] = deque()
        self.appended: list[tuple[str, int, int, int, int, bool, int]] = []
        self.partitions = self.internal_appends = self
        #: The high watermark of this broker's partitions; who waits for it.
        self.high_watermark = 1
        self.waiting: list[asyncio.Future[ErrorCode]] = []
        #: The other broker, if it can be reached.
        self.elsewhere: Elsewhere | None = None
        self.broker_requests = self
        self.config = BrokerConfig.from_mapping({})
        self.markers = TransactionMarkers(self)

    def partition(self, topic: str, index: int) -> FakeBroker:
        return self

    async def committed(self, end_offset: int, timeout_ms: int) -> ErrorCode:
        answer: asyncio.Future[ErrorCode] = self.loop.create_future()
        self.waiting.append(answer)
        return await answer

    async def ask(
        self, purpose: str, node_id: int, request: Message, *, timeout_ms: int | None = None
    ) -> Message:
        assert (purpose, node_id) == ("markers", ELSEWHERE)
        assert isinstance(request, WriteTxnMarkersRequest)
        if self.elsewhere is None:
            raise PeerUnreachable("nobody there")
        return await self.elsewhere.answer(request)

    @property
    def image(self) -> MetadataImage:
        both = (HERE, ELSEWHERE)
        partitions = {
            index: PartitionImage(index, both, both, leader, leader_epoch=0, partition_epoch=0)
            for index, leader in self.leaders.items()
        }
        return MetadataImage(topics={"t": TopicImage("t", uuid.UUID(int=1), partitions)})

    def append_end_transaction_marker(
        self,
        topic: str,
        index: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        *,
        transaction_version: int,
    ) -> int:
        error = self.errors.popleft() if self.errors else None
        if error is not None:
            raise error
        self.appended.append(
            (topic, index, producer_id, producer_epoch, coordinator_epoch, committed, transaction_version)
        )
        return 0

    async def done(self) -> None:
        """Wait until no order is open."""
        await until(lambda: self.markers.open_orders == 0)
        await self.supervisor.stop()
        assert self.failures == []


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_markers, "FIRST_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(transaction_markers, "LAST_RETRY_SECONDS", 0.002)


def order(*partitions: tuple[str, int]) -> WriteMarkers:
    return WriteMarkers("x", 1_000, 4, True, 2, partitions)


def test_a_marker_says_who_ends_what_by_whose_word() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        broker.markers.write(runner, order(T0, T1))
        await broker.done()
        assert broker.appended == [("t", 0, 1_000, 4, 7, True, 2), ("t", 1, 1_000, 4, 7, True, 2)]
        assert runner.marked == [T0, T1]

    asyncio.run(scenario())


def test_the_markers_of_an_id_from_a_partition_of_a_higher_epoch_keep_their_lead() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner(leader_epoch=7)
        broker.markers.write(runner, replace(order(T0), coordinator_epoch_lead=3))  # type: ignore[arg-type]
        await broker.done()
        assert broker.appended == [("t", 0, 1_000, 4, 10, True, 2)]

    asyncio.run(scenario())


def test_a_partition_that_has_a_later_coordinators_marker_is_not_done() -> None:
    """A transaction that is complete without its marker stays open for readers, for ever."""

    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        broker.errors.extend([TransactionCoordinatorFenced(), TransactionCoordinatorFenced()])
        broker.markers.write(runner, order(T0))  # type: ignore[arg-type]
        await until(lambda: len(broker.errors) == 1)
        assert not runner.told
        await broker.done()
        assert runner.marked == [T0]
        assert len(broker.appended) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [NotEnoughReplicas(), OSError("disk"), UnknownTopicOrPartition()])
def test_what_fails_is_tried_again(error: KafkaError | OSError) -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        broker.errors.extend([error, None, error, error])
        broker.markers.write(runner, order(T0, T1))
        await broker.done()
        assert sorted(marker[1] for marker in broker.appended) == [0, 1]
        assert runner.marked == [T1, T0]

    asyncio.run(scenario())


def test_a_partition_that_is_gone_needs_no_marker() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        broker.markers.write(runner, order(GONE, T0, ("t", 9)))
        await broker.done()
        assert sorted(runner.marked) == sorted([GONE, T0, ("t", 9)])
        assert [marker[:2] for marker in broker.appended] == [T0]

    asyncio.run(scenario())


def test_a_partition_that_has_a_newer_producer_is_done() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        broker.errors.append(InvalidProducerEpoch())
        broker.markers.write(runner, order(T0))
        await broker.done()
        assert runner.marked == [T0]

    asyncio.run(scenario())


def test_a_leader_that_can_not_be_reached_is_waited_for() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        # given
        broker.leaders[1] = ELSEWHERE
        broker.markers.write(runner, order(T0, T1))
        await until(lambda: bool(runner.told))
        assert (runner.marked, broker.markers.open_orders) == ([T0], 1)
        # when
        broker.leaders[1] = HERE
        await broker.done()
        # then
        assert runner.marked == [T0, T1]

    asyncio.run(scenario())


def test_for_a_shard_that_has_resigned_nothing_is_written() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner(resigned=True)
        broker.markers.write(runner, order(T0))
        await broker.done()
        assert (broker.appended, runner.told) == ([], [])

    asyncio.run(scenario())


# -- partitions that others lead ------------------------------------------------------------------------


def another_order(transactional_id: str, producer_id: int, *partitions: tuple[str, int]) -> WriteMarkers:
    return WriteMarkers(transactional_id, producer_id, 0, False, 2, partitions)


def test_what_is_ordered_while_a_request_is_under_way_rides_in_the_next() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        elsewhere = broker.elsewhere = Elsewhere()
        broker.leaders = {0: ELSEWHERE, 1: ELSEWHERE}
        # given
        elsewhere.may_answer.clear()
        broker.markers.write(runner, order(T0, T1))
        await until(lambda: bool(elsewhere.asked))
        # when
        broker.markers.write(runner, another_order("y", 2_000, T0))
        broker.markers.write(runner, another_order("z", 3_000, T1))
        elsewhere.may_answer.set()
        await broker.done()
        # then
        first, second = elsewhere.asked
        (marker,) = first.markers
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (1_000, 4, 7)
        assert (marker.transaction_result, marker.transaction_version) == (True, 2)
        assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [0, 1])]
        assert [marker.producer_id for marker in second.markers] == [2_000, 3_000]
        assert sorted(runner.marked) == [T0, T0, T1, T1]

    asyncio.run(scenario())


def test_a_broker_that_is_gone_holds_up_nobody_else_and_its_successor_is_asked() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        elsewhere = broker.elsewhere = Elsewhere()
        broker.leaders[1] = ELSEWHERE
        # given
        elsewhere.may_answer.clear()
        broker.markers.write(runner, order(T0, T1))
        await until(lambda: runner.marked == [T0] and bool(elsewhere.asked))
        # when
        broker.leaders[1] = HERE
        await until(lambda: broker.markers.open_orders == 0)
        # then
        assert runner.marked == [T0, T1]
        elsewhere.may_answer.set()
        await broker.done()
        assert runner.marked == [T0, T1]

    asyncio.run(scenario())


def test_other_brokers_errors_are_tried_again() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        elsewhere = broker.elsewhere = Elsewhere()
        broker.leaders = {0: ELSEWHERE, 1: ELSEWHERE}
        elsewhere.errors[T0] = deque([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
        elsewhere.errors[T1] = deque([ErrorCode.INVALID_PRODUCER_EPOCH])
        broker.markers.write(runner, order(T0, T1))
        await broker.done()
        assert runner.marked == [T1, T0]
        assert len(elsewhere.asked) == 3

    asyncio.run(scenario())


def test_a_marker_counts_when_it_is_committed() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        # given
        broker.high_watermark = 0
        broker.markers.write(runner, order(T0))
        await until(lambda: bool(broker.waiting))
        assert runner.told == []
        # when
        broker.waiting[0].set_result(ErrorCode.NONE)
        await broker.done()
        # then
        assert runner.marked == [T0]

    asyncio.run(scenario())


def test_a_marker_that_its_leader_lost_is_written_again() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        # given
        broker.high_watermark = 0
        broker.markers.write(runner, order(T0))
        await until(lambda: bool(broker.waiting))
        # when
        broker.high_watermark = 1
        broker.waiting[0].set_result(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await broker.done()
        # then
        assert (len(broker.appended), runner.marked) == (2, [T0])

    asyncio.run(scenario())
