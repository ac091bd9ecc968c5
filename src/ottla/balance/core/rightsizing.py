"""What size a cluster should have: the fewest brokers on which a plan keeps the hard goals."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ottla.balance.core.goals import HARD_CAPACITIES, hard_limits
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
from ottla.balance.core.plan import Plan
from ottla.balance.core.planner import plan_balance

MAX_STEPS: Final = 12
"""Sizes that are tried by a plan, from the least that the sums allow."""


class Provision(enum.Enum):
    """How the number of brokers stands to what the load needs."""

    UNDER = "UNDER_PROVISIONED"
    RIGHT = "RIGHT_SIZED"
    OVER = "OVER_PROVISIONED"


@dataclass(frozen=True, slots=True)
class Rightsizing:
    """brokers: that are there. needed: the least; None where no size that was tried would do.

    reasons: how many brokers each limit asks for. plan: on so many brokers.
    """

    provision: Provision
    brokers: int
    needed: int | None
    reasons: Mapping[str, int]
    plan: Plan | None


def rightsize(model: ClusterModel, rules: Rules, growth: float = 1.0, spare: int = 0) -> Rightsizing:
    """The size for this load times `growth`, where `spare` brokers may fail."""
    grown = replace(model, partitions=tuple(_grown(one, growth) for one in model.partitions))
    alive = [one for one in model.brokers if one.takes_replicas]
    reasons = _least(grown, alive, rules)
    least = max(1, *reasons.values())
    for size in range(least, least + MAX_STEPS):
        plan = plan_balance(_of_size(grown, alive, size), rules, Purpose.FIT)
        if plan.hard_goals_hold and not plan.problems:
            needed = size + spare
            provision = (
                Provision.UNDER
                if needed > len(alive)
                else Provision.OVER
                if needed < len(alive)
                else Provision.RIGHT
            )
            return Rightsizing(provision, len(alive), needed, reasons, plan)
    return Rightsizing(Provision.UNDER, len(alive), None, reasons, None)


def _grown(partition: Partition, growth: float) -> Partition:
    return replace(
        partition,
        size=round(partition.size * growth),
        rate_in=partition.rate_in * growth,
        rate_out=partition.rate_out * growth,
        cpu=partition.cpu * growth,
        cpu_follower=partition.cpu_follower * growth,
    )


def _least(model: ClusterModel, alive: list[Broker], rules: Rules) -> dict[str, int]:
    """How many brokers the sums ask for, by limit; each broker as a typical one of those that are there."""
    reasons = {"replication factor": max((len(one.replicas) for one in model.partitions), default=1)}
    totals = [sum(values) for values in zip(*model.loads().values(), strict=True)] or [0.0] * len(Dimension)
    for goal in HARD_CAPACITIES:
        dimension = goal.dimension
        assert dimension is not None
        limits = sorted(hard_limits(one, rules)[dimension] for one in alive)
        typical = limits[len(limits) // 2] if limits else math.inf
        if 0 < typical < math.inf and totals[dimension] > 0:
            reasons[goal.title] = math.ceil(totals[dimension] / typical)
    return reasons


def _of_size(model: ClusterModel, alive: list[Broker], size: int) -> ClusterModel:
    """The cluster on so many brokers: the last ones removed, or ones of a typical size added."""
    if size <= len(alive):
        racks: dict[str | None, list[Broker]] = {}
        for one in alive:
            racks.setdefault(one.rack, []).append(one)
        kept = {one.id for one in _in_turns(list(racks.values()))[:size]}
        brokers = tuple(
            one if one.id in kept or not one.takes_replicas else replace(one, state=BrokerState.REMOVED)
            for one in model.brokers
        )
        return replace(model, brokers=brokers)
    racks_there = sorted({one.rack for one in alive if one.rack is not None})
    next_id = max((one.id for one in model.brokers), default=-1) + 1
    typical = alive[len(alive) // 2].capacity if alive else Capacity()
    more = tuple(
        Broker(next_id + number, racks_there[number % len(racks_there)] if racks_there else None, typical)
        for number in range(size - len(alive))
    )
    brokers = tuple(
        replace(one, state=BrokerState.ALIVE) if one.takes_replicas else one for one in model.brokers
    )
    return replace(model, brokers=(*brokers, *more))


def _in_turns(groups: list[list[Broker]]) -> list[Broker]:
    """One of each group after the other, so that racks shrink evenly."""
    longest = max((len(group) for group in groups), default=0)
    return [group[turn] for turn in range(longest) for group in groups if turn < len(group)]
