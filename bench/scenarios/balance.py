"""`ottla balance`'s planner alone: a plan for 1,000 brokers and 100,000 partitions, and what it moves."""

from __future__ import annotations

import random
import time

from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.scenarios.scenario import Scenario, Turn
from bench.servers import System

BROKERS, RACKS = 1_000, 10
PARTITIONS, REPLICAS, TOPICS = 100_000, 3, 500
DEAD = 5
SEED = 1


def _plan(turn: Turn) -> dict[str, float]:
    """Half as many brokers again are twice as full as others; five are dead, replicas ignore racks."""
    if turn.system is System.KAFKA:
        return {}
    from ottla.balance.core.model import Broker, BrokerState, Capacity, ClusterModel, Partition, Rules
    from ottla.balance.core.planner import plan_balance

    chance = random.Random(SEED)
    capacity = Capacity(disk=4e12, nw_in=1e9, nw_out=2e9, cpu=100.0)
    count = turn.size(BROKERS)
    brokers = tuple(
        Broker(one, f"r{one % RACKS}", capacity, BrokerState.DEAD if one < DEAD else BrokerState.ALIVE)
        for one in range(count)
    )
    favoured = [*range(count), *range(0, count, 3)]
    partitions = []
    for number in range(turn.size(PARTITIONS)):
        placed: list[int] = []
        while len(placed) < REPLICAS:
            broker = chance.choice(favoured)
            if broker not in placed:
                placed.append(broker)
        leader = next((one for one in placed if one >= DEAD), None)
        rate = chance.lognormvariate(13, 1)
        size = round(chance.lognormvariate(22.3, 1))
        topic = f"t{number % TOPICS}"
        partitions.append(
            Partition(topic, number, tuple(placed), leader, size, rate, 2 * rate, 2e-7 * rate, 5e-8 * rate)
        )
    model = ClusterModel(brokers, tuple(partitions))
    started = time.perf_counter()
    used = time.process_time()
    plan = plan_balance(model, Rules())
    cpu = time.process_time() - used
    wall = time.perf_counter() - started
    if plan.problems or not plan.hard_goals_hold:
        raise BenchError(f"the plan keeps no hard goals: {plan.problems[:1]}")
    return {
        "plan_seconds": wall,
        "plan_cpu_seconds": cpu,
        "bytes_over_bound": plan.bytes_moved / plan.bytes_bound,
        "soft_missed": float(sum(one.after for one in plan.goals if not one.goal.hard)),
    }


SCENARIOS = (
    Scenario(
        "balance",
        "The planner alone, one core: 1,000 brokers in 10 racks, 5 of them dead, 100,000 partitions with 3 "
        "replicas each, laid without a look at racks, every third broker favoured. The bound is the bytes of "
        "replicas that must leave their broker, and of what brokers have above the upper limit of disk.",
        (
            Measure("plan_seconds", "a plan", "s", Target(Bound.VALUE_AT_MOST, 60), ottla_only=True),
            Measure("plan_cpu_seconds", "its processor time", "s", ottla_only=True),
            Measure(
                "bytes_over_bound",
                "bytes moved over the bound",
                "times",
                Target(Bound.VALUE_AT_MOST, 1.1),
                ottla_only=True,
            ),
            Measure("soft_missed", "brokers that miss a soft goal, over all", "brokers", ottla_only=True),
        ),
        _plan,
    ),
)
