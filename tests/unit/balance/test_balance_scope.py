"""What a plan may do: goals by name, topics that stay, brokers that get replicas; of wishes, and in plans."""

from __future__ import annotations

import pytest

from ottla.balance.core.goals import Goal
from ottla.balance.core.model import Broker, BrokerState, ClusterModel, Partition, Purpose, Rules
from ottla.balance.core.plan import Plan
from ottla.balance.core.planner import plan_balance
from ottla.balance.core.scope import GoalError, Scope, goals_named
from ottla.balance.planning import TopicPattern, Wish, WishError

HARD = [goal.title for goal in Goal if goal.hard]


def cluster(*brokers: Broker, placed: dict[str, tuple[int, ...]]) -> ClusterModel:
    """Four partitions of each topic on the brokers given, each of 100 bytes."""
    partitions = [
        Partition(topic, number, replicas, replicas[0], 100)
        for topic, replicas in placed.items()
        for number in range(4)
    ]
    return ClusterModel(brokers, tuple(partitions))


FOUR = tuple(Broker(one) for one in range(4))


def moved(plan: Plan) -> set[str]:
    return {one.topic for one in plan.changes}


def holders(plan: Plan) -> set[int]:
    return {broker for one in plan.changes for broker in one.adds}


def test_goals_are_named_as_cruise_control_names_them() -> None:
    package = "com.linkedin.kafka.cruisecontrol.analyzer.goals."
    assert goals_named([], skip_hard_goal_check=False) == frozenset(Goal)
    named = [package + "RackAwareGoal", "DiskUsageDistributionGoal"]
    assert goals_named(named, skip_hard_goal_check=True) == {Goal.RACKS, Goal.DISK}
    assert goals_named([*HARD, "DiskUsageDistributionGoal"], skip_hard_goal_check=False) > {Goal.DISK}
    with pytest.raises(GoalError, match="there is no goal KafkaAssignerGoal"):
        goals_named(["KafkaAssignerGoal"], skip_hard_goal_check=True)
    with pytest.raises(GoalError, match="hard goals are missing: RackAwareDistributionGoal"):
        goals_named(["DiskUsageDistributionGoal"], skip_hard_goal_check=False)


def test_excluded_topics_stay() -> None:
    model = cluster(*FOUR, placed={"orders": (0, 1), "clicks": (0, 1)})
    rules = Rules(extra=None)
    assert moved(plan_balance(model, rules)) == {"orders", "clicks"}
    wish = Wish(excluded_topics=TopicPattern.of("ord.*"))
    plan = plan_balance(model, rules, scope=wish.scope(model))
    assert moved(plan) == {"clicks"}


def test_excluded_topics_leave_brokers_that_are_gone() -> None:
    dead = Broker(0, state=BrokerState.DEAD)
    model = cluster(dead, *FOUR[1:], placed={"orders": (0, 1)})
    plan = plan_balance(model, Rules(), Purpose.FIX_OFFLINE, Scope(fixed_topics=frozenset({"orders"})))
    assert len(plan.changes) == 4
    assert all(one.removes == (0,) for one in plan.changes)
    assert plan.problems == ()


def test_an_excluded_topic_keeps_a_leader_that_is_not_the_preferred_one() -> None:
    partition = Partition("orders", 0, (0, 1), 1, 100)
    model = ClusterModel(FOUR[:2], (partition,))
    assert [one.after for one in plan_balance(model, Rules()).changes] == [(0, 1)]
    assert plan_balance(model, Rules(), scope=Scope(fixed_topics=frozenset({"orders"}))).changes == ()


def test_replicas_come_to_destinations_alone() -> None:
    model = cluster(*FOUR, placed={"orders": (0, 1), "clicks": (0, 1)})
    plan = plan_balance(model, Rules(extra=None), scope=Wish(destinations=(3,)).scope(model))
    assert holders(plan) == {3}


def test_a_broker_that_was_removed_gets_nothing_back() -> None:
    model = cluster(*FOUR, placed={"orders": (0, 1), "clicks": (0, 1)})
    wish = Wish(removed=frozenset({3}), demoted=frozenset({2}))
    assert wish.states(model) == {3: BrokerState.REMOVED, 2: BrokerState.DEMOTED}
    assert holders(plan_balance(model, Rules(extra=None), scope=wish.scope(model))) == {2}
    assert Wish(Purpose.ADD, (3,), removed=frozenset({3})).scope(model).may_get(3)


def test_one_goal_alone() -> None:
    """Racks are not mended for the disk's goal, but what moves keeps to them."""
    racks = tuple(Broker(one, f"r{one % 2}") for one in range(4))
    model = cluster(*racks, placed={"orders": (0, 2)})
    plan = plan_balance(model, Rules(extra=None), scope=Scope(frozenset({Goal.LEADERS})))
    assert [one.goal for one in plan.goals] == [Goal.LEADERS]
    assert plan.bytes_moved == 0
    assert plan.hard_goals_hold


@pytest.mark.parametrize("text", ["(", "*", "a" * 1_001])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(WishError):
        TopicPattern.of(text)
