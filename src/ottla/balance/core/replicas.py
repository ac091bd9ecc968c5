"""Plans how topics get more replicas, or fewer, without moving any that stays.

Theory of operation. Partitions are taken the largest first. A new replica comes to a broker of the rack that
has the fewest of the partition's, and there to the one that stands lowest over its shares, within the hard
limits where one is. Replicas that go are, in this order, those on brokers that are gone, those that are
behind, those in racks that have several, those on the fullest brokers; never the leader's, and by preference
not the preferred leader's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from ottla.balance.core.goals import HARD_CAPACITIES, Goal, above, hard_limits
from ottla.balance.core.model import Broker, ClusterModel, Load, Partition, Rules
from ottla.balance.core.plan import Change, GoalOutcome, Plan
from ottla.balance.core.planner import missed_goals
from ottla.balance.core.scope import EVERYTHING, Scope


def plan_replicas(
    model: ClusterModel, rules: Rules, topics: Collection[str], factor: int, scope: Scope = EVERYTHING
) -> Plan:
    """The plan that gives each partition of the topics so many replicas."""
    placing = _Placing(model, rules, scope)
    after: dict[tuple[str, int], Partition] = {}
    ordered = sorted(model.partitions, key=lambda one: (-one.size, one.topic, one.partition))
    for one in ordered:
        if one.topic in topics and one.topic not in scope.fixed_topics and len(one.replicas) != factor:
            changed = placing.with_replicas(one, factor)
            if changed.replicas != one.replicas:
                after[one.topic, one.partition] = changed
    partitions = tuple(after.get((one.topic, one.partition), one) for one in model.partitions)
    changed_model = replace(model, partitions=partitions)
    changes = tuple(
        Change(
            one.topic,
            one.partition,
            one.replicas,
            after[one.topic, one.partition].replicas,
            one.leader,
            one.size,
        )
        for one in model.partitions
        if (one.topic, one.partition) in after
    )
    missed = missed_goals(changed_model, rules, scope)
    before = missed_goals(model, rules, scope)
    problems = [
        f"{goal.title}: {missed[goal]} brokers would be above their capacity"
        for goal in HARD_CAPACITIES
        if goal in scope.goals and missed[goal] > before[goal]
    ]
    return Plan(
        changes,
        sum(one.bytes_moved for one in changes),
        model.loads(),
        changed_model.loads(),
        tuple(GoalOutcome(goal, before[goal], missed[goal]) for goal in Goal if goal in scope.goals),
        (*placing.problems, *problems),
    )


class _Placing:
    """Who stands how high while replicas come and go."""

    def __init__(self, model: ClusterModel, rules: Rules, scope: Scope) -> None:
        self._brokers = {one.id: one for one in model.brokers}
        self._load = {broker: list(load) for broker, load in model.loads().items()}
        self._limits = {one.id: hard_limits(one, rules) for one in model.brokers}
        self._open = [one for one in model.brokers if one.takes_replicas and scope.may_get(one.id)]
        totals = [sum(each) for each in zip(*self._load.values(), strict=True)]
        self._scale = [1 / total if total > 0 else 0.0 for total in totals]
        self.problems: list[str] = []

    def with_replicas(self, partition: Partition, factor: int) -> Partition:
        """The partition with so many replicas, or as many as there are places for."""
        self._count(partition, -1)
        replicas = list(partition.replicas)
        while len(replicas) > factor:
            replicas.remove(self._to_drop(partition, replicas))
        grown = replace(partition, replicas=tuple(replicas))
        while len(grown.replicas) < factor:
            place = self._place(grown)
            if place is None:
                self.problems.append(
                    f"{partition.name}: there is no broker for replica {len(grown.replicas) + 1} of {factor}"
                )
                break
            grown = replace(grown, replicas=(*grown.replicas, place.id))
        self._count(grown, 1)
        return grown

    def _count(self, partition: Partition, times: int) -> None:
        """Add the partition's loads to its brokers, or take them away."""
        leader, follower = partition.loads()
        for broker in partition.replicas:
            if broker in self._load:
                of_broker = self._load[broker]
                for index, value in enumerate(leader if broker == partition.leader else follower):
                    of_broker[index] += times * value

    def _to_drop(self, partition: Partition, replicas: list[int]) -> int:
        racks = Counter(self._rack(one) for one in replicas)

        def order(broker: int) -> tuple[bool, bool, bool, int, float]:
            there = self._brokers.get(broker)
            gone = there is None or not there.takes_replicas or broker in partition.offline
            return (
                gone,
                broker in partition.behind,
                broker != partition.replicas[0],
                racks[self._rack(broker)],
                self._height(broker, ()),
            )

        return max((one for one in replicas if one != partition.leader), key=order)

    def _place(self, partition: Partition) -> Broker | None:
        racks = Counter(self._rack(one) for one in partition.replicas)
        _, follower = replace(partition, replicas=(*partition.replicas, -1)).loads()

        def order(broker: Broker) -> tuple[int, bool, float, int]:
            load, limits = self._load[broker.id], self._limits[broker.id]
            too_much = any(
                more > 0 and above(now + more, limit)
                for now, more, limit in zip(load, follower, limits, strict=True)
            )
            return (
                racks[self._rack(broker.id)],
                too_much,
                self._height(broker.id, follower),
                broker.id,
            )

        return min((one for one in self._open if one.id not in partition.replicas), key=order, default=None)

    def _rack(self, broker: int) -> str:
        there = self._brokers.get(broker)
        return f"={broker}" if there is None or there.rack is None else f"@{there.rack}"

    def _height(self, broker: int, added: Load | tuple[()]) -> float:
        """How high a broker stands, over the shares of all loads that are added; of none: over all."""
        load = self._load.get(broker)
        if load is None:
            return 0.0
        more = added or (0.0,) * len(load)
        return sum(
            ((now + each) * scale) ** 2
            for now, each, scale in zip(load, more, self._scale, strict=True)
            if not added or each > 0
        )


def rack_count(model: ClusterModel) -> int:
    """The racks that take replicas; a broker without one is a rack of its own."""
    return len(
        {f"={one.id}" if one.rack is None else f"@{one.rack}" for one in model.brokers if one.takes_replicas}
    )
