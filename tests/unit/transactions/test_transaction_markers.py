"""Markers are written by leader until they are in: deleted partitions, failures, and who has resigned."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker import transaction_markers
from ottla.broker.supervisor import Supervisor
from ottla.broker.transaction_markers import TransactionMarkers
from ottla.core.coordination.api import Moment
from ottla.core.transactions.api import MarkersWritten, WriteMarkers
from ottla.protocol.errors import (
    InvalidProducerEpoch,
    KafkaError,
    NotEnoughReplicas,
    UnknownTopicOrPartition,
)

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


class FakeBroker:
    """One broker that leads the partitions of `t`, and errors on order."""

    node_id = HERE

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.supervisor = Supervisor(lambda name, failure: self.failures.append(failure))
        self.leaders = {0: HERE, 1: HERE}
        self.errors: deque[KafkaError | OSError | None] = deque()
        self.appended: list[tuple[str, int, int, int, int, bool, int]] = []
        self.replicas = self
        self.markers = TransactionMarkers(self)  # type: ignore[arg-type]

    @property
    def image(self) -> Any:
        partitions = {index: SimpleNamespace(leader=leader) for index, leader in self.leaders.items()}
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions=partitions)})

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


async def until(condition: Callable[[], bool]) -> None:
    """Give the tasks time until it holds."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it does not come to hold")


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_markers, "FIRST_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(transaction_markers, "LAST_RETRY_SECONDS", 0.002)


def order(*partitions: tuple[str, int]) -> WriteMarkers:
    return WriteMarkers("x", 1_000, 4, True, 2, partitions)


def test_a_marker_says_who_ends_what_by_whose_word() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        broker.markers.write(runner, order(T0, T1))  # type: ignore[arg-type]
        await broker.done()
        assert broker.appended == [("t", 0, 1_000, 4, 7, True, 2), ("t", 1, 1_000, 4, 7, True, 2)]
        assert runner.marked == [T0, T1]

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [NotEnoughReplicas(), OSError("disk"), UnknownTopicOrPartition()])
def test_what_fails_is_tried_again(error: KafkaError | OSError) -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        broker.errors.extend([error, None, error, error])
        broker.markers.write(runner, order(T0, T1))  # type: ignore[arg-type]
        await broker.done()
        assert sorted(marker[1] for marker in broker.appended) == [0, 1]
        assert runner.marked == [T1, T0]

    asyncio.run(scenario())


def test_a_partition_that_is_gone_needs_no_marker() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        broker.markers.write(runner, order(GONE, T0, ("t", 9)))  # type: ignore[arg-type]
        await broker.done()
        assert sorted(runner.marked) == sorted([GONE, T0, ("t", 9)])
        assert [marker[:2] for marker in broker.appended] == [T0]

    asyncio.run(scenario())


def test_a_partition_that_has_a_newer_producer_is_done() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        broker.errors.append(InvalidProducerEpoch())
        broker.markers.write(runner, order(T0))  # type: ignore[arg-type]
        await broker.done()
        assert runner.marked == [T0]

    asyncio.run(scenario())


def test_a_leader_that_can_not_be_reached_is_waited_for() -> None:
    async def scenario() -> None:
        broker, runner = FakeBroker(), Runner()
        # given
        broker.leaders[1] = ELSEWHERE
        broker.markers.write(runner, order(T0, T1))  # type: ignore[arg-type]
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
        broker.markers.write(runner, order(T0))  # type: ignore[arg-type]
        await broker.done()
        assert (broker.appended, runner.told) == ([], [])

    asyncio.run(scenario())
