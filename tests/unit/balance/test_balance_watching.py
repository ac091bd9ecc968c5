"""The watcher over a scripted cluster: what it sees of disks, whom it waits for, plans that come too late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ottla.balance.core.anomalies import AnomalyKind, AnomalyStatus, Detector, DetectorOptions
from ottla.balance.core.goals import Goal
from ottla.balance.core.model import Broker, BrokerState, ClusterModel, Partition, Purpose, Rules
from ottla.balance.core.planner import plan_balance
from ottla.balance.healing import HealedGoals, Healer
from ottla.balance.planning import Planned, Wish
from ottla.client.cluster_requests import Broker as Address
from ottla.client.cluster_requests import Cluster, ClusterRequests
from ottla.client.errors import ClusterError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ottla.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic

QUICK_SECONDS = 0.001


@dataclass
class ScriptedCluster:
    """Five brokers, a partition on brokers 1 to 3. away: brokers; offline: replicas; failed: directories."""

    away: set[int] = field(default_factory=set)
    offline: list[int] = field(default_factory=list)
    failed: Mapping[int, str] = field(default_factory=dict)

    async def cluster(self, refresh: bool = False) -> Cluster:
        alive = {one: Address(one, "host", 9092) for one in range(1, 6) if one not in self.away}
        return Cluster("id", 1, alive)

    async def topics(self) -> list[MetadataResponseTopic]:
        one = MetadataResponsePartition(
            partition_index=0,
            leader_id=1,
            replica_nodes=[1, 2, 3],
            isr_nodes=[1],
            offline_replicas=self.offline,
        )
        return [MetadataResponseTopic(name="orders", partitions=[one])]

    async def ask_all(self, request: Any, answer: Any) -> dict[int, DescribeLogDirsResponse | ClusterError]:
        told: dict[int, DescribeLogDirsResponse | ClusterError] = {}
        for broker in (await self.cluster()).brokers:
            results = [DescribeLogDirsResult(log_dir="/whole", topics=[])]
            if broker in self.failed:
                code = ErrorCode.KAFKA_STORAGE_ERROR
                results.append(DescribeLogDirsResult(error_code=code, log_dir=self.failed[broker], topics=[]))
            told[broker] = DescribeLogDirsResponse(results=results)
        told[5] = ClusterError("broker 5 does not answer")
        return told


@dataclass
class ScriptedMending:
    """Plans for a model, and remembers what it was asked for."""

    model: ClusterModel
    wishes: list[Wish] = field(default_factory=list)
    mended: list[Planned] = field(default_factory=list)

    def is_busy(self) -> bool:
        return False

    async def plan(self, wish: Wish) -> Planned:
        self.wishes.append(wish)
        scope = wish.scope(self.model)
        return Planned(wish, self.model, plan_balance(self.model, Rules(extra=None), wish.purpose, scope))

    async def mend(self, planned: Planned) -> bool:
        self.mended.append(planned)
        return True


def model(*dead: int, offline: frozenset[int] = frozenset()) -> ClusterModel:
    states = dict.fromkeys(dead, BrokerState.DEAD)
    brokers = tuple(Broker(one, state=states.get(one, BrokerState.ALIVE)) for one in range(1, 6))
    partitions = tuple(Partition("orders", one, (1, 2, 3), 1, 100, offline=offline) for one in range(4))
    return ClusterModel(brokers, partitions)


def watched(
    cluster: ScriptedCluster, mending: ScriptedMending, until: Callable[[Detector], bool], **options: Any
) -> Detector:
    """The detector once something has come true."""
    chosen = {"grace_ms": 0, "confirmations": 2, "goal_interval_ms": 0, "cooldown_ms": 0, **options}
    detector = Detector(DetectorOptions(frozenset(AnomalyKind), **chosen))
    goals = HealedGoals(frozenset({Goal.REPLICAS}), frozenset(Goal), Rules(), frozenset[int])
    client = cast(ClusterRequests, cluster)
    healer = Healer(client, detector, mending, goals, QUICK_SECONDS)

    async def run() -> None:
        watching = asyncio.create_task(healer.run())
        async with asyncio.timeout(60):
            while not until(detector):
                assert not watching.done()
                await asyncio.sleep(QUICK_SECONDS)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(run())
    return detector


def test_replicas_leave_a_failed_disk_and_wait_for_a_broker_that_is_away() -> None:
    cluster = ScriptedCluster(away={3}, offline=[2, 3], failed={2: "/gone", 4: "/empty"})
    mending = ScriptedMending(model(3, offline=frozenset({2})))
    detector = watched(cluster, mending, lambda _: bool(mending.mended), grace_ms=10**9)
    (failure,) = detector.recent(AnomalyKind.DISK_FAILURE)
    assert failure.disks.keys() == {2}  # broker 4's has no replicas any more, 5 does not answer
    assert failure.disks[2].keys() == {"/gone"}
    assert mending.wishes[0].purpose is Purpose.FIX_OFFLINE
    assert all(one.removes == (2,) for one in mending.mended[0].plan.changes)
    (away,) = detector.recent(AnomalyKind.BROKER_FAILURE)
    assert away.status is AnomalyStatus.CHECK_WITH_DELAY


def test_replicas_leave_a_broker_that_is_given_up() -> None:
    mending = ScriptedMending(model(3))
    watched(ScriptedCluster(away={3}, offline=[3]), mending, lambda _: bool(mending.mended))
    assert mending.wishes[0].given_up == {3}
    assert all(one.removes == (3,) for one in mending.mended[0].plan.changes)


def test_missed_goals_are_mended() -> None:
    mending = ScriptedMending(model())
    watched(ScriptedCluster(), mending, lambda _: bool(mending.mended))
    assert {one.purpose for one in mending.wishes} == {Purpose.BALANCE}
    assert {5, 4} <= {broker for one in mending.mended[0].plan.changes for broker in one.adds}


def test_a_plan_for_goals_is_dropped_where_a_broker_has_died_meanwhile() -> None:
    mending = ScriptedMending(model(3))
    detector = watched(ScriptedCluster(), mending, lambda one: one.refused > 0)
    assert mending.mended == []
    (violation,) = detector.recent(AnomalyKind.GOAL_VIOLATION)
    assert violation.fixable == (Goal.REPLICAS.title,)
