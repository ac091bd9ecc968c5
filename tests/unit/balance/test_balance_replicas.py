"""Another number of replicas for topics: where new ones come, which go, what is refused; random clusters."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from ottla.balance.core.model import (
    Broker,
    BrokerState,
    Capacity,
    ClusterModel,
    Dimension,
    Partition,
    Purpose,
    Rules,
)
from ottla.balance.core.replicas import plan_replicas
from ottla.balance.core.scope import Scope
from ottla.balance.planning import (
    Planned,
    ReplicaWish,
    TopicPattern,
    Wish,
    WishError,
    planned_from,
    reason_not_to,
)
from ottla.balance.reading import Reading

ORDERS = frozenset({"orders"})


def model(
    *brokers: Broker, replicas: tuple[int, ...] = (0, 1), count: int = 4, size: int = 100
) -> ClusterModel:
    orders = [Partition("orders", one, replicas, replicas[0], size) for one in range(count)]
    return ClusterModel(brokers, (*orders, Partition("clicks", 0, replicas, replicas[0], size)))


def racks(count: int, brokers: int, disk: float | None = None) -> tuple[Broker, ...]:
    return tuple(Broker(one, f"r{one % count}", Capacity(disk=disk)) for one in range(brokers))


def wanted(cluster: ClusterModel, factor: int, pattern: str = "ord.*", **more: bool) -> Planned:
    wish = Wish(Purpose.REPLICAS, replicas=ReplicaWish(TopicPattern.of(pattern), factor, **more))
    return asyncio.run(planned_from(Reading("id", cluster), wish, Rules()))


def test_new_replicas_come_to_other_racks_and_lie_evenly() -> None:
    plan = plan_replicas(model(*racks(3, 6)), Rules(), ORDERS, 3)
    assert {one.topic for one in plan.changes} == ORDERS
    assert all(one.after[:2] == one.before for one in plan.changes)
    assert Counter(one.after[2] for one in plan.changes) == {2: 2, 5: 2}
    assert plan.bytes_moved == plan.bytes_bound == 400
    assert plan.hard_goals_hold
    assert plan.after[2][Dimension.REPLICAS] == 2


def test_replicas_that_go_leave_the_leader_and_the_racks() -> None:
    cluster = model(*racks(2, 4), replicas=(0, 2, 1))
    plan = plan_replicas(cluster, Rules(), ORDERS, 2)
    assert {one.after for one in plan.changes} == {(0, 1)}
    assert plan.bytes_moved == 0
    assert plan.replicas_dropped == 4
    led_by_last = ClusterModel(racks(2, 4), (Partition("orders", 0, (0, 2, 1), 1, 5),))
    assert [one.after for one in plan_replicas(led_by_last, Rules(), ORDERS, 1).changes] == [(1,)]


def test_replicas_on_brokers_that_are_gone_go_first() -> None:
    brokers = (*racks(3, 3)[:2], Broker(2, "r2", state=BrokerState.DEAD))
    plan = plan_replicas(model(*brokers, replicas=(0, 1, 2)), Rules(), ORDERS, 2)
    assert {one.after for one in plan.changes} == {(0, 1)}


def test_excluded_topics_and_destinations_hold() -> None:
    cluster = model(*racks(6, 6))
    assert plan_replicas(cluster, Rules(), ORDERS, 3, Scope(fixed_topics=ORDERS)).changes == ()
    plan = plan_replicas(cluster, Rules(), ORDERS, 3, Scope(destinations=frozenset({4})))
    assert {one.adds for one in plan.changes} == {(4,)}


def test_what_can_not_be_is_refused() -> None:
    with pytest.raises(WishError, match="no topic matches none"):
        wanted(model(*racks(3, 3)), 2, "none")
    with pytest.raises(WishError, match="4 replicas need as many brokers; there are 3"):
        wanted(model(*racks(3, 3)), 4)
    with pytest.raises(WishError, match="3 replicas need as many racks; there are 2"):
        wanted(model(*racks(2, 4)), 3)
    assert wanted(model(*racks(2, 4)), 3, beyond_racks=True).plan.hard_goals_hold
    full = wanted(model(*racks(3, 2), Broker(2, "r2", Capacity(disk=300))), 3)
    assert "DiskCapacityGoal" in (reason_not_to(full) or "")


@pytest.mark.parametrize("seed", range(40))
def test_random_clusters_get_the_number_they_want(seed: int) -> None:
    """Each partition has so many different brokers that are there; no rack has more than it needs to."""
    chance = random.Random(seed)
    count = chance.randint(3, 8)
    rack_number = chance.randint(2, 4)
    brokers = racks(rack_number, count)
    partitions = []
    for number in range(chance.randint(1, 30)):
        replicas = tuple(chance.sample(range(count), chance.randint(1, 3)))
        partitions.append(
            Partition("orders", number, replicas, chance.choice(replicas), chance.randint(0, 90))
        )
    factor = chance.randint(1, 3)
    plan = plan_replicas(ClusterModel(brokers, tuple(partitions)), Rules(), ORDERS, factor)
    after = {one.partition: one for one in plan.changes}
    used = min(rack_number, count)
    for one in partitions:
        change = after.get(one.partition)
        replicas = one.replicas if change is None else change.after
        assert len(set(replicas)) == len(replicas) == factor
        assert one.leader in replicas
        if change is not None and len(one.replicas) == 1:
            in_racks = Counter(each % rack_number for each in replicas)
            assert max(in_racks.values()) <= -(-factor // used)
    assert plan.problems == ()
