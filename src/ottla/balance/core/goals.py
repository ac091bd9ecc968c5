"""The goals in their order, and what each broker may carry under them."""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Sequence
from typing import Final

from ottla.balance.core.model import DIMENSIONS, Broker, Dimension, Rules

INFINITE: Final = math.inf
TOLERANCE: Final = 1e-9
"""Of sums of floats, relative."""


class Goal(enum.Enum):
    """The goals, the most important first: name, whether it is hard, and the dimension that it limits."""

    RACKS = ("RackAwareDistributionGoal", True, None)
    REPLICA_CAPACITY = ("ReplicaCapacityGoal", True, Dimension.REPLICAS)
    DISK_CAPACITY = ("DiskCapacityGoal", True, Dimension.DISK)
    NW_IN_CAPACITY = ("NetworkInboundCapacityGoal", True, Dimension.NW_IN)
    NW_OUT_CAPACITY = ("NetworkOutboundCapacityGoal", True, Dimension.NW_OUT)
    CPU_CAPACITY = ("CpuCapacityGoal", True, Dimension.CPU)
    REPLICAS = ("ReplicaDistributionGoal", False, Dimension.REPLICAS)
    POTENTIAL_OUT = ("PotentialNwOutGoal", False, Dimension.POTENTIAL_OUT)
    DISK = ("DiskUsageDistributionGoal", False, Dimension.DISK)
    NW_IN = ("NetworkInboundUsageDistributionGoal", False, Dimension.NW_IN)
    NW_OUT = ("NetworkOutboundUsageDistributionGoal", False, Dimension.NW_OUT)
    CPU = ("CpuUsageDistributionGoal", False, Dimension.CPU)
    TOPICS = ("TopicReplicaDistributionGoal", False, None)
    LEADERS = ("LeaderReplicaDistributionGoal", False, Dimension.LEADERS)
    LEADER_IN = ("LeaderBytesInDistributionGoal", False, Dimension.LEADER_IN)
    MIN_LEADERS = ("MinTopicLeadersPerBrokerGoal", True, None)

    def __init__(self, title: str, hard: bool, dimension: Dimension | None) -> None:
        self.title = title
        self.hard = hard
        self.dimension = dimension


HARD_CAPACITIES: Final = tuple(goal for goal in Goal if goal.hard and goal.dimension is not None)
DISTRIBUTIONS: Final = tuple(goal for goal in Goal if not goal.hard and goal.dimension is not None)
LEADERSHIP_DISTRIBUTIONS: Final = frozenset({Goal.LEADERS, Goal.LEADER_IN})


def hard_limits(broker: Broker, rules: Rules) -> list[float]:
    """The most that a broker may carry, by dimension."""
    limits = [INFINITE] * DIMENSIONS
    limits[Dimension.REPLICAS] = rules.max_replicas
    for dimension, usable in rules.usable.items():
        capacity = broker.capacity.of(dimension)
        if capacity is not None:
            limits[dimension] = capacity * usable
    return limits


def bands(
    brokers: Sequence[Broker],
    totals: Sequence[float],
    rules: Rules,
    goals: Collection[Goal] = tuple(Goal),
) -> tuple[list[list[float]], list[list[float]]]:
    """The upper and the lower limits of each broker under the soft ones of the goals; infinite without one.

    A broker's share of a load is by its capacity, or an equal one where capacities are not known. Brokers
    that take no replicas, or lead none where leaders are counted, have no share.
    """
    upper = [[INFINITE] * DIMENSIONS for _ in brokers]
    lower = [[-INFINITE] * DIMENSIONS for _ in brokers]
    for goal in DISTRIBUTIONS:
        if goal not in goals:
            continue
        dimension = goal.dimension
        assert dimension is not None
        if dimension is Dimension.POTENTIAL_OUT:
            for index, broker in enumerate(brokers):
                capacity = broker.capacity.nw_out
                if broker.takes_replicas and capacity is not None:
                    upper[index][dimension] = capacity * rules.usable.get(Dimension.NW_OUT, 1.0)
            continue
        sharing = [
            index
            for index, broker in enumerate(brokers)
            if (
                broker.may_lead
                if dimension in (Dimension.LEADERS, Dimension.LEADER_IN)
                else broker.takes_replicas
            )
        ]
        total = totals[dimension]
        if not sharing or total <= 0:
            continue
        weights = [brokers[index].capacity.of(dimension) for index in sharing]
        if any(weight is None or weight <= 0 for weight in weights):
            weights = [1.0] * len(sharing)
        whole = sum(weight for weight in weights if weight is not None)
        counted = dimension in (Dimension.REPLICAS, Dimension.LEADERS)
        band = rules.band[dimension]
        for index, weight in zip(sharing, weights, strict=True):
            assert weight is not None
            share = total * weight / whole
            high, low = share * band, share * max(0.0, 2.0 - band)
            upper[index][dimension] = math.ceil(high - TOLERANCE) if counted else high
            lower[index][dimension] = math.floor(low + TOLERANCE) if counted else low
    return upper, lower


def topic_limit(replicas: int, brokers: int, rules: Rules) -> int:
    """The most replicas of a topic with so many replicas that one broker may hold."""
    share = replicas / max(1, brokers)
    return math.ceil(max(share * rules.topic_band, share + rules.topic_least_gap))


def above(value: float, limit: float) -> bool:
    """Whether a sum of loads is above a limit."""
    return value > limit + abs(limit) * TOLERANCE + TOLERANCE
