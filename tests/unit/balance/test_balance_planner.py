"""The planner by examples: what leaves, what comes, who leads, and what it says where it can't."""

from __future__ import annotations

import pytest

from ottla.balance.core.goals import Goal
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
from ottla.balance.core.plan import Plan, seconds_of
from ottla.balance.core.planner import plan_balance
from ottla.balance.core.rightsizing import Provision, rightsize

GB = 1_000_000_000


def brokers(
    count: int, racks: int = 0, disk: float | None = 100 * GB, **states: BrokerState
) -> tuple[Broker, ...]:
    """Brokers 1 to count. states: of brokers, by `b3`."""
    return tuple(
        Broker(
            one,
            f"r{one % racks}" if racks else None,
            Capacity(disk=disk),
            states.get(f"b{one}", BrokerState.ALIVE),
        )
        for one in range(1, count + 1)
    )


def partition(number: int, *replicas: int, size: int = GB, **more: object) -> Partition:
    return Partition("orders", number, replicas, replicas[0], size, **more)  # type: ignore[arg-type]


def after(plan: Plan) -> dict[int, tuple[int, ...]]:
    return {one.partition: one.after for one in plan.changes}


def test_what_is_balanced_stays() -> None:
    model = ClusterModel(
        brokers(3), tuple(partition(one, one % 3 + 1, (one + 1) % 3 + 1) for one in range(9))
    )
    plan = plan_balance(model, Rules())
    assert plan.changes == ()
    assert plan.bytes_bound == plan.bytes_moved == 0
    assert all(one.holds for one in plan.goals)


def test_replicas_leave_a_dead_broker_and_one_that_is_alive_leads() -> None:
    model = ClusterModel(
        brokers(4, b1=BrokerState.DEAD),
        (Partition("orders", 0, (1, 2), 2, GB), Partition("orders", 1, (3, 1), 3, GB)),
    )
    plan = plan_balance(model, Rules(), Purpose.FIX_OFFLINE)
    assert set(after(plan)) == {0, 1}
    assert after(plan)[0][0] == 2
    assert all(1 not in replicas for replicas in after(plan).values())
    assert plan.bytes_moved == plan.bytes_bound == 2 * GB


def test_a_partition_without_a_living_replica_is_told_and_left() -> None:
    model = ClusterModel(brokers(3, b1=BrokerState.DEAD), (Partition("orders", 0, (1,), None, GB),))
    plan = plan_balance(model, Rules(), Purpose.FIX_OFFLINE)
    assert plan.changes == ()
    assert "orders-0 has no replica that is alive" in plan.problems[0]
    assert not plan.hard_goals_hold


def test_racks_are_mended_with_one_copy() -> None:
    model = ClusterModel(brokers(4, racks=2), (partition(0, 1, 3),))
    plan = plan_balance(model, Rules(), Purpose.FIX_OFFLINE)
    racks = {broker.id: broker.rack for broker in model.brokers}
    assert len({racks[one] for one in after(plan)[0]}) == 2
    assert plan.replica_moves == 1


def test_more_replicas_than_racks_are_spread_evenly() -> None:
    model = ClusterModel(brokers(6, racks=2), (partition(0, 1, 3, 5, 2),))
    plan = plan_balance(model, Rules())
    racks = [one % 2 for one in after(plan)[0]]
    assert sorted(racks) == [0, 0, 1, 1]


def test_a_new_broker_gets_its_share_and_nothing_moves_elsewhere() -> None:
    model = ClusterModel(
        brokers(4, b4=BrokerState.NEW),
        tuple(partition(one, one % 3 + 1, (one + 1) % 3 + 1) for one in range(60)),
    )
    plan = plan_balance(model, Rules(), Purpose.ADD)
    assert {broker for one in plan.changes for broker in one.adds} == {4}
    assert plan.after[4][Dimension.REPLICAS] == pytest.approx(30, abs=4)


def test_a_removed_broker_holds_nothing() -> None:
    model = ClusterModel(
        brokers(4, b2=BrokerState.REMOVED),
        tuple(partition(one, one % 4 + 1, (one + 1) % 4 + 1) for one in range(20)),
    )
    plan = plan_balance(model, Rules(), Purpose.REMOVE)
    assert plan.after[2] == (0.0,) * 8
    assert plan.bytes_moved == plan.bytes_bound == 10 * GB


def test_a_demoted_broker_keeps_its_replicas_and_leads_nothing() -> None:
    model = ClusterModel(
        brokers(3, b2=BrokerState.DEMOTED),
        tuple(partition(one, one % 3 + 1, (one + 1) % 3 + 1) for one in range(9)),
    )
    plan = plan_balance(model, Rules(), Purpose.DEMOTE)
    assert plan.bytes_moved == 0
    assert plan.after[2][Dimension.LEADERS] == 0
    assert plan.after[2][Dimension.REPLICAS] == 6


def test_a_replica_that_is_behind_does_not_lead() -> None:
    behind = partition(0, 2, 1, 3, behind=frozenset({1}))
    model = ClusterModel(brokers(3, b2=BrokerState.DEMOTED), (behind,))
    assert after(plan_balance(model, Rules(), Purpose.DEMOTE))[0][0] == 3


def test_disk_above_its_capacity_is_relieved() -> None:
    model = ClusterModel(brokers(3, disk=10 * GB), tuple(partition(one, 1, size=2 * GB) for one in range(6)))
    plan = plan_balance(model, Rules())
    assert plan.hard_goals_hold
    assert all(load[Dimension.DISK] <= 8 * GB for load in plan.after.values())


def test_what_no_broker_can_hold_is_told() -> None:
    model = ClusterModel(brokers(2, disk=10 * GB), tuple(partition(one, 1, 2) for one in range(12)))
    plan = plan_balance(model, Rules())
    assert not plan.hard_goals_hold
    assert any("DiskCapacityGoal: 2 brokers" in line for line in plan.problems)


def test_leaders_are_evened_out_without_a_byte() -> None:
    model = ClusterModel(brokers(3), tuple(partition(one, 1, 2, 3) for one in range(30)))
    plan = plan_balance(model, Rules())
    assert plan.bytes_moved == 0
    assert {load[Dimension.LEADERS] for load in plan.after.values()} <= {9.0, 10.0, 11.0}


def test_the_preferred_leader_leads_again() -> None:
    model = ClusterModel(brokers(2), (Partition("orders", 0, (1, 2), 2), Partition("orders", 1, (2, 1), 2)))
    plan = plan_balance(model, Rules())
    (change,) = plan.changes
    assert change.before == change.after == (1, 2)
    assert change.changes_leader


def test_each_broker_leads_the_least_of_a_topic() -> None:
    model = ClusterModel(brokers(3), tuple(partition(one, 1, 2, size=0) for one in range(6)))
    plan = plan_balance(model, Rules(min_leaders={"orders": 2}))
    assert {load[Dimension.LEADERS] for load in plan.after.values()} == {2.0}
    assert plan.hard_goals_hold


def test_soft_goals_move_no_more_bytes_than_the_rules_say() -> None:
    """Broker 1 takes all the traffic, and nothing has to move: only with leave are bytes spent on that."""
    even = [partition(one, one % 3 + 1, size=GB) for one in range(30)]
    busy = [
        Partition(
            "clicks", one.partition, one.replicas, one.leader, GB, rate_in=1e6 if one.leader == 1 else 1.0
        )
        for one in even
    ]
    model = ClusterModel(brokers(3), tuple(busy))
    assert plan_balance(model, Rules()).bytes_moved == 0
    thorough = plan_balance(model, Rules(extra=None))
    missed = {one.goal: one.after for one in thorough.goals}
    assert thorough.bytes_moved > 0
    assert missed[Goal.NW_IN] <= 1


def test_the_time_is_that_of_the_busiest_broker() -> None:
    model = ClusterModel(brokers(4, b2=BrokerState.REMOVED), tuple(partition(one, 1, 2) for one in range(2)))
    plan = plan_balance(model, Rules(), Purpose.REMOVE)
    assert seconds_of(plan.changes, GB) == 2  # broker 1 sends both


@pytest.mark.parametrize(
    ("growth", "needed", "provision"),
    [(1.0, 3, Provision.OVER), (2.4, 6, Provision.RIGHT), (3.0, 8, Provision.UNDER)],
)
def test_a_size_for_a_load(growth: float, needed: int, provision: Provision) -> None:
    model = ClusterModel(
        brokers(6, disk=50 * GB), tuple(partition(one, one % 6 + 1, (one + 1) % 6 + 1) for one in range(48))
    )
    found = rightsize(model, Rules(), growth)
    assert (found.needed, found.provision) == (needed, provision)
    assert found.reasons["DiskCapacityGoal"] == needed
