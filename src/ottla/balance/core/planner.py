"""Plans which replicas move and who leads, so that the goals hold, in their order, for few bytes.

Theory of operation. First what must be: replicas leave dead and removed brokers and racks that have too many,
each to the broker that stands lowest over all dimensions and is within all limits, or within the hard ones if
there is none. Then the capacities (hard), then the distributions (soft), one goal after the other. A goal
takes load from brokers above its upper limit and gives it to those below its lower one: leadership first
where that moves the load, since it costs no byte, then replicas. What a goal does keeps to the limits of the
goals before it, and by preference to those of all.

Bytes are bounded. Disk sheds what is above its upper limit, in replicas that fit that best. Other soft goals
move replicas only while all moved bytes, with the disk's excess that is left, stay within `Rules.extra` of
what must be moved; so of two goals that want the same brokers relieved one move serves both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from ottla.balance.core.goals import (
    DISTRIBUTIONS,
    HARD_CAPACITIES,
    INFINITE,
    LEADERSHIP_DISTRIBUTIONS,
    Goal,
    above,
)
from ottla.balance.core.model import (
    ROLE_DIMENSIONS,
    BrokerState,
    ClusterModel,
    Dimension,
    Load,
    Purpose,
    Rules,
)
from ottla.balance.core.plan import Change, GoalOutcome, Plan
from ottla.balance.core.scope import EVERYTHING, Scope
from ottla.balance.core.thrift import save_bytes
from ottla.balance.core.working import Ranking, Working

MENDS_RACKS: Final = frozenset({Purpose.BALANCE, Purpose.FIX_OFFLINE, Purpose.FIT})
GOOD_PLACES: Final = 6
"""Of the places that a replica can go to, so many are compared."""
SOFT_TRIES: Final = 48
"""Places that are looked at for a replica that only a soft goal wants moved."""
SWAPPED: Final = 20
"""Replicas of one broker that are tried to be changed for others."""
CANDIDATES: Final = 200
"""Replicas of one broker that a soft goal tries."""


def plan_balance(
    model: ClusterModel, rules: Rules, purpose: Purpose = Purpose.BALANCE, scope: Scope = EVERYTHING
) -> Plan:
    """The plan for a cluster. Brokers' states say which are new, removed, demoted or dead."""
    return _Planner(model, rules, purpose, scope).plan()


def missed_goals(model: ClusterModel, rules: Rules, scope: Scope = EVERYTHING) -> dict[Goal, int]:
    """How many brokers (partitions for racks, topics' brokers for topics) miss each goal as it is."""
    return _Planner(model, rules, Purpose.BALANCE, scope).missed_now()


class _Planner:
    def __init__(self, model: ClusterModel, rules: Rules, purpose: Purpose, scope: Scope) -> None:
        self._model = model
        self._rules = rules
        self._purpose = purpose
        self._scope = scope
        self._working = Working(model, rules, scope)
        self._at_first = [tuple(replicas) for replicas in self._working.replicas]
        self._problems: list[str] = []
        self._adds = purpose is Purpose.ADD
        self._limit = INFINITE

    def missed_now(self) -> dict[Goal, int]:
        """See `missed_goals`."""
        return self._missed(self._as_it_is())

    def plan(self) -> Plan:
        """See `plan_balance`."""
        working = self._working
        missed_before = self.missed_now()
        displaced = self._displaced()
        bound = sum(working.size(number) for number, _ in displaced)
        self._leave(displaced)
        bound += self._excess_at_first(displaced)
        if self._adds:
            working.destinations = [
                one.state is BrokerState.NEW and may_get
                for one, may_get in zip(self._model.brokers, working.destinations, strict=True)
            ]
        self._step_down()
        if self._purpose in (Purpose.BALANCE, Purpose.ADD, Purpose.FIT):
            for goal in HARD_CAPACITIES:
                if goal in self._scope.goals:
                    self._relieve_hard(goal)
        if self._purpose in (Purpose.BALANCE, Purpose.ADD):
            if not self._adds and self._rules.extra is not None:
                self._limit = (
                    max(working.moved_bytes + working.disk_excess, bound) + self._rules.extra * bound
                )
            self._distribute()
            if self._limit < INFINITE:
                save_bytes(working)
        if Goal.MIN_LEADERS in self._scope.goals:
            self._lead_everywhere()
        return self._made(round(bound), missed_before)

    # -- what must be --------------------------------------------------------------------------------------

    def _displaced(self) -> list[tuple[int, int]]:
        """The replicas that must leave their broker, the largest first."""
        working, found = self._working, []
        for number, replicas in enumerate(working.replicas):
            limit = working.rack_limit(number)
            racks: dict[int, int] = {}
            source = self._has_source(number)
            # of those that are too many in a rack, the ones on the fullest brokers go
            for broker in sorted(replicas, key=lambda one: working.load[one][Dimension.DISK]):
                if broker in self._offline(number) or not working.open[broker]:
                    if not self._must_leave(broker):
                        continue
                    if source:
                        found.append((number, broker))
                    else:
                        name = self._model.partitions[number].name
                        self._problems.append(f"{name} has no replica that is alive: nothing can be copied")
                        break
                    continue
                rack = working.rack[broker]
                racks[rack] = racks.get(rack, 0) + 1
                if (
                    racks[rack] > limit
                    and self._purpose in MENDS_RACKS
                    and Goal.RACKS in self._scope.goals
                    and not working.fixed[number]
                ):
                    found.append((number, broker))
        found.sort(key=lambda one: -working.size(one[0]))
        return found

    def _must_leave(self, broker: int) -> bool:
        """Whether this plan moves replicas that can't stay on the broker: dead ones are others' to mend."""
        if self._model.brokers[broker].id in self._scope.waiting:
            return False
        if self._purpose is Purpose.REMOVE:
            return self._model.brokers[broker].state is BrokerState.REMOVED
        return self._purpose in MENDS_RACKS

    def _has_source(self, number: int) -> bool:
        offline = self._offline(number)
        brokers = self._model.brokers
        return any(
            brokers[one].state is not BrokerState.DEAD and one not in offline
            for one in self._working.replicas[number]
        )

    def _offline(self, number: int) -> frozenset[int]:
        return self._working.offline[number]

    def _leave(self, displaced: Iterable[tuple[int, int]]) -> None:
        """Move these replicas away, whatever soft goals say."""
        working = self._working
        ranking = self._ranking(Dimension.DISK)
        for number, source in displaced:
            self._hand_over(number, source)
            load = working.load_of(number, source)
            target = (
                self._place(number, source, load, ranking, working.strict, INFINITE, spread=True)
                or self._place(number, source, load, ranking, working.hard, INFINITE)
                or self._swapped_in(number, source, load, ranking)
            )
            if target is None:
                target = self._place(number, source, load, ranking, None, INFINITE)
                if target is not None:
                    name = self._model.partitions[number].name
                    self._problems.append(
                        f"{name}: no broker has room for the replica of broker "
                        f"{self._model.brokers[source].id} within its capacity"
                    )
            if target is None:
                name = self._model.partitions[number].name
                self._problems.append(
                    f"{name}: no broker is left for the replica of broker {self._model.brokers[source].id}"
                )
                continue
            working.move(number, source, target[0])
            ranking.changed(source, target[0])

    def _hand_over(self, number: int, source: int) -> None:
        """Let a replica that is alive lead before a dead leader's goes."""
        working = self._working
        replicas = working.replicas[number]
        if replicas[0] != source or self._model.brokers[source].state is not BrokerState.DEAD:
            return
        able = [one for one in replicas[1:] if working.can_lead(number, one)]
        if able:
            working.lead(number, min(able, key=lambda one: working.height(one, working.role_load(number))))

    def _swapped_in(self, number: int, source: int, load: Load, ranking: Ranking) -> tuple[int] | None:
        """A place that has room once one of its replicas has gone to another broker."""
        working = self._working
        for target in ranking.ascending():
            if not working.fits(number, source, target):
                continue
            for other in sorted(working.hosts[target], key=working.size)[:CANDIDATES]:
                other_load = working.load_of(other, target)
                rest = [more - less for more, less in zip(load, other_load, strict=True)]
                if not working.takes(target, rest, working.hard):
                    continue
                elsewhere = self._place(other, target, other_load, ranking, working.hard, INFINITE)
                if elsewhere is not None and elsewhere[0] != source:
                    working.move(other, target, elsewhere[0])
                    ranking.changed(target, elsewhere[0])
                    return (target,)
        return None

    def _excess_at_first(self, displaced: Iterable[tuple[int, int]]) -> float:
        """What brokers had above the upper limit of disk, without the replicas that must leave them."""
        working = self._working
        sizes = [0.0] * len(self._model.brokers)
        for number, placed in enumerate(working.original):
            for broker in placed:
                sizes[broker] += working.size(number)
        for number, broker in displaced:
            sizes[broker] -= working.size(number)
        return sum(
            max(0.0, size - working.strict[broker][Dimension.DISK])
            for broker, size in enumerate(sizes)
            if working.open[broker]
        )

    def _step_down(self) -> None:
        """Let brokers that may not lead any more lead nothing where another replica can."""
        working = self._working
        for broker, may_lead in enumerate(working.may_lead):
            if may_lead:
                continue
            demoted = self._model.brokers[broker].state is BrokerState.DEMOTED
            for number in sorted(working.leads[broker]):
                able = [one for one in working.replicas[number][1:] if working.can_lead(number, one)]
                if able:
                    role = working.role_load(number)
                    working.lead(number, min(able, key=lambda one: working.height(one, role)))
                elif demoted:
                    name = self._model.partitions[number].name
                    self._problems.append(
                        f"{name}: no other replica can lead in place of broker "
                        f"{self._model.brokers[broker].id}"
                    )

    # -- one goal ------------------------------------------------------------------------------------------

    def _relieve_hard(self, goal: Goal) -> None:
        working = self._working
        dimension = goal.dimension
        assert dimension is not None
        over = [
            broker
            for broker in range(len(working.load))
            if working.open[broker]
            and above(working.load[broker][dimension], working.hard[broker][dimension])
        ]
        if not over:
            return
        ranking = self._ranking(dimension)
        for broker in over:
            limit = working.hard[broker][dimension]
            if dimension in ROLE_DIMENSIONS:
                self._shed_leadership(dimension, broker, limit, ranking)
            self._shed(dimension, broker, limit, ranking, forced=True)

    def _distribute(self) -> None:
        working = self._working
        for goal in Goal:
            if goal not in self._scope.goals:
                continue
            if goal is Goal.TOPICS:
                self._spread_topics()
            if goal not in DISTRIBUTIONS:
                continue
            dimension = goal.dimension
            assert dimension is not None
            if self._purpose is Purpose.BALANCE or goal not in LEADERSHIP_DISTRIBUTIONS:
                working.activate(dimension)
                self._even_out(goal, dimension)

    def _even_out(self, goal: Goal, dimension: Dimension) -> None:
        working = self._working
        ranking = self._ranking(dimension)
        shares = dimension in ROLE_DIMENSIONS
        for broker in ranking.descending():
            limit = working.strict[broker][dimension]
            if not above(working.load[broker][dimension], limit):
                continue
            if shares:
                self._shed_leadership(dimension, broker, limit, ranking)
            if goal not in LEADERSHIP_DISTRIBUTIONS:
                self._shed(dimension, broker, limit, ranking, forced=False)
                self._swap(dimension, broker, limit, ranking)
        for broker in list(ranking.ascending()):
            lower = working.band_lower[broker][dimension]
            if not above(lower, working.load[broker][dimension]):
                continue
            if shares:
                self._pull_leadership(dimension, broker, lower, ranking)
            if goal not in LEADERSHIP_DISTRIBUTIONS:
                self._pull(dimension, broker, lower, ranking)

    def _shed_leadership(self, dimension: Dimension, broker: int, limit: float, ranking: Ranking) -> None:
        """Let others lead until the broker is within the limit."""
        working = self._working
        by_gain = sorted(working.leads[broker], key=lambda number: -working.role_load(number)[dimension])
        for number in by_gain:
            if not above(working.load[broker][dimension], limit):
                return
            role = working.role_load(number)
            if role[dimension] <= 0:
                return
            if not working.gives(broker, role):
                continue
            target = self._leader_for(number, role)
            if target is not None:
                working.lead(number, target)
                ranking.changed(broker, target)

    def _leader_for(self, number: int, role: list[float]) -> int | None:
        """The best other replica to lead: within all limits, or those of the goals so far."""
        working = self._working
        if working.fixed[number]:
            return None
        able = [
            one
            for one in working.replicas[number][1:]
            if working.may_get_leaders[one]
            and working.can_lead(number, one)
            and working.takes(one, role, working.upper)
        ]
        if not able:
            return None
        return min(
            able,
            key=lambda one: (not working.takes(one, role, working.strict), working.height(one, role)),
        )

    def _pull_leadership(self, dimension: Dimension, broker: int, lower: float, ranking: Ranking) -> None:
        """Lead more of what the broker holds, until it is at its lower limit."""
        working = self._working
        if not working.may_lead[broker] or not working.may_get_leaders[broker]:
            return
        followed = [
            one
            for one in working.hosts[broker] - working.leads[broker]
            if working.can_lead(one, broker) and not working.fixed[one]
        ]
        followed.sort(key=lambda one: -working.load[working.replicas[one][0]][dimension])
        for number in followed:
            if not above(lower, working.load[broker][dimension]):
                return
            role = working.role_load(number)
            source = working.replicas[number][0]
            if (
                role[dimension] > 0
                and working.gives(source, role)
                and working.takes(broker, role, working.upper)
            ):
                working.lead(number, broker)
                ranking.changed(source, broker)

    def _shed(
        self, dimension: Dimension, broker: int, limit: float, ranking: Ranking, *, forced: bool
    ) -> None:
        """Move replicas away until the broker is within the limit."""
        working = self._working
        by_size = dimension is Dimension.DISK
        left = [
            (working.load_of(number, broker)[dimension], number)
            for number in working.hosts[broker]
            if working.load_of(number, broker)[dimension] > 0
        ]
        for number in self._fitting(left, broker, limit) if by_size else self._cheapest(left):
            if not above(working.load[broker][dimension], limit):
                return
            self._send(number, broker, ranking, dimension, forced=forced)

    def _fitting(self, left: list[tuple[float, int]], broker: int, limit: float) -> Iterator[int]:
        """Replicas that add up to the excess: the largest that are not more, at last the least that is."""
        working = self._working
        left.sort()
        for place in range(len(left) - 1, -1, -1):
            size, number = left[place]
            excess = working.load[broker][Dimension.DISK] - limit
            if size <= excess:
                yield number
        excess = working.load[broker][Dimension.DISK] - limit
        for place in range(bisect_left(left, (excess, -1)), len(left)):
            if left[place][1] in working.hosts[broker]:
                yield left[place][1]

    def _cheapest(self, left: list[tuple[float, int]]) -> list[int]:
        """Replicas in the order of bytes for what they relieve, the largest relief first among equals."""
        size = self._working.size
        ordered = sorted(left, key=lambda one: (size(one[1]) / one[0], -one[0]))
        return [number for _, number in ordered[:CANDIDATES]]

    def _send(
        self, number: int, source: int, ranking: Ranking, dimension: Dimension, *, forced: bool
    ) -> bool:
        """Move a replica to the best place; False where there is none."""
        working = self._working
        load = working.load_of(number, source)
        if not forced and not working.gives(source, load):
            return False
        most = INFINITE if forced or dimension is Dimension.DISK else self._limit
        tries = len(working.load) if forced else SOFT_TRIES
        target = self._place(number, source, load, ranking, working.strict, most, spread=True, tries=tries)
        if target is None:
            limits = working.hard if forced else working.upper
            target = self._place(number, source, load, ranking, limits, most, tries=tries)
        if target is None:
            return False
        working.move(number, source, target[0])
        ranking.changed(source, target[0])
        return True

    def _place(
        self,
        number: int,
        source: int,
        load: Load,
        ranking: Ranking,
        limits: list[list[float]] | None,
        most: float,
        *,
        spread: bool = False,
        tries: int | None = None,
    ) -> tuple[int] | None:
        """The best of the first places that can take a replica, in a tuple, so that 0 is true.

        limits: that the place keeps to, None for none. most: bytes that may be moved in all.
        spread: keep to the limit of the topic too. tries: places that are looked at.
        """
        working = self._working
        best: tuple[float, int] | None = None
        found = 0
        for tried, target in enumerate(ranking.ascending()):
            if tried == tries:
                break
            if not working.fits(number, source, target):
                continue
            if limits is not None and not working.takes(target, load, limits):
                continue
            if spread and not working.spreads(number, target):
                continue
            if most < INFINITE and not self._affordable(number, source, target, most):
                continue
            height = working.height(target, load)
            if best is None or height < best[0]:
                best = (height, target)
            found += 1
            if found == GOOD_PLACES:
                break
        return None if best is None else (best[1],)

    def _affordable(self, number: int, source: int, target: int, most: float) -> bool:
        """Whether all moved bytes, and what disk has still to shed, stay within the most after a move."""
        working = self._working
        size = working.size(number)
        cost = working.move_cost(number, source, target)
        if cost <= 0 or size == 0:
            return True
        relief = min(size, working.excess_of(source))
        return working.moved_bytes + cost + working.disk_excess - relief <= most * (1 + 1e-9)

    def _pull(self, dimension: Dimension, broker: int, lower: float, ranking: Ranking) -> None:
        """Take replicas from the most used brokers, until the broker is at its lower limit."""
        working = self._working
        if not working.destinations[broker]:
            return
        for source in ranking.descending()[:SOFT_TRIES]:
            if source == broker or not above(lower, working.load[broker][dimension]):
                return
            left = [
                (value, number)
                for number in working.hosts[source]
                if (value := working.load_of(number, source)[dimension]) > 0
            ]
            for number in self._cheapest(left):
                load = working.load_of(number, source)
                if not above(lower, working.load[broker][dimension]):
                    return
                if (
                    working.fits(number, source, broker)
                    and working.gives(source, load)
                    and working.takes(broker, load, working.upper)
                    and (self._limit == INFINITE or self._affordable(number, source, broker, self._limit))
                ):
                    working.move(number, source, broker)
                    ranking.changed(source, broker)

    def _swap(self, dimension: Dimension, broker: int, limit: float, ranking: Ranking) -> None:
        """Change replicas for lighter ones of other brokers, where a move alone would break another goal."""
        working = self._working
        if dimension is Dimension.REPLICAS or self._adds:
            return
        heavy = sorted(working.hosts[broker], key=lambda one: -working.load_of(one, broker)[dimension])
        for number in heavy[:SWAPPED]:
            if not above(working.load[broker][dimension], limit):
                return
            for target in list(ranking.ascending())[:GOOD_PLACES]:
                if target != broker and self._swap_with(dimension, number, broker, target):
                    ranking.changed(broker, target)
                    break

    def _swap_with(self, dimension: Dimension, number: int, broker: int, target: int) -> bool:
        """Change a replica for a lighter one of the target's: for disk by the excess, else as large."""
        working = self._working
        if not working.fits(number, broker, target):
            return False
        load, size = working.load_of(number, broker), working.size(number)
        lighter = [
            one
            for one in working.hosts[target]
            if working.load_of(one, target)[dimension] < load[dimension] and working.fits(one, target, broker)
        ]
        wanted = size
        if dimension is Dimension.DISK:  # lighter by the excess
            wanted -= working.excess_of(broker)
        for other in sorted(lighter, key=lambda one: abs(working.size(one) - wanted))[:SWAPPED]:
            there = working.load_of(other, target)
            taken = [more - less for more, less in zip(load, there, strict=True)]
            given = [-one for one in taken]
            if (
                working.takes(target, taken, working.upper)
                and working.takes(broker, given, working.upper)
                and working.gives(broker, taken)
                and working.gives(target, given)
                and (dimension is Dimension.DISK or self._swap_is_affordable(number, other, broker, target))
            ):
                working.move(number, broker, target)
                working.move(other, target, broker)
                return True
        return False

    def _swap_is_affordable(self, number: int, other: int, broker: int, target: int) -> bool:
        working = self._working
        cost = working.move_cost(number, broker, target) + working.move_cost(other, target, broker)
        if cost <= 0 or self._limit == INFINITE:
            return True
        return working.moved_bytes + cost + working.disk_excess <= self._limit * (1 + 1e-9)

    def _spread_topics(self) -> None:
        """Move replicas of topics of which a broker has too many."""
        working = self._working
        ranking = self._ranking(Dimension.REPLICAS)
        for broker, counts in enumerate(working.on_broker):
            over = {topic for topic, count in counts.items() if count > working.topic_limit[topic]}
            if not over or not working.open[broker]:
                continue
            for number in sorted(working.hosts[broker], key=working.size):
                topic = working.topic[number]
                if topic in over and counts[topic] > working.topic_limit[topic]:
                    load = working.load_of(number, broker)
                    if working.gives(broker, load):
                        target = self._place(
                            number,
                            broker,
                            load,
                            ranking,
                            working.upper,
                            self._limit,
                            spread=True,
                            tries=SOFT_TRIES,
                        )
                        if target is not None:
                            working.move(number, broker, target[0])
                            ranking.changed(broker, target[0])

    def _lead_everywhere(self) -> None:
        """Give each broker the least number of leaders of the topics that want that."""
        working = self._working
        if self._purpose not in (Purpose.BALANCE, Purpose.FIT):
            return
        for topic, least in self._rules.min_leaders.items():
            number_of = working.topic_numbers.get(topic)
            if number_of is None:
                continue
            of_topic = [number for number, each in enumerate(working.topic) if each == number_of]
            counts = {broker: 0 for broker, may_lead in enumerate(working.may_lead) if may_lead}
            for number in of_topic:
                if working.replicas[number][0] in counts:
                    counts[working.replicas[number][0]] += 1
            for broker in sorted(counts, key=lambda one: counts[one]):
                while counts[broker] < least and self._lead_one_more(of_topic, broker, counts, least):
                    counts[broker] += 1

    def _lead_one_more(self, of_topic: list[int], broker: int, counts: dict[int, int], least: int) -> bool:
        """Give a broker one leader more of a topic, from a broker that can spare it."""
        working = self._working
        spare = [
            number
            for number in of_topic
            if counts.get(working.replicas[number][0], least + 1) > least and not working.fixed[number]
        ]
        for number in spare:
            source = working.replicas[number][0]
            if (
                broker in working.replicas[number]
                and working.may_get_leaders[broker]
                and working.can_lead(number, broker)
                and working.takes(broker, working.role_load(number), working.hard)
            ):
                working.lead(number, broker)
                counts[source] = counts.get(source, 1) - 1
                return True
        for number in sorted(spare, key=working.size):
            source = working.replicas[number][0]
            load = working.load_of(number, source)
            if working.fits(number, source, broker) and working.takes(broker, load, working.hard):
                working.move(number, source, broker)
                counts[source] = counts.get(source, 1) - 1
                return True
        return False

    # -- what came of it -----------------------------------------------------------------------------------

    def _ranking(self, dimension: Dimension) -> Ranking:
        working = self._working
        return Ranking(working, dimension, [one for one, is_open in enumerate(working.open) if is_open])

    def _as_it_is(self) -> list[list[float]]:
        loads = self._model.loads()
        return [list(loads[broker.id]) for broker in self._model.brokers]

    def _missed(self, loads: list[list[float]]) -> dict[Goal, int]:
        """How many miss each goal now. loads: of the brokers."""
        working = self._working
        brokers = range(len(loads))
        missed: dict[Goal, int] = {}
        for goal in Goal:
            dimension = goal.dimension
            if dimension is not None:
                upper = working.hard if goal.hard else working.band_upper
                missed[goal] = sum(
                    working.open[one]
                    and (
                        above(loads[one][dimension], upper[one][dimension])
                        or (
                            not goal.hard and above(working.band_lower[one][dimension], loads[one][dimension])
                        )
                    )
                    for one in brokers
                )
        missed[Goal.RACKS] = sum(map(self._crowds, range(len(working.replicas))))
        missed[Goal.TOPICS] = sum(
            count > working.topic_limit[topic]
            for broker in brokers
            if working.open[broker]
            for topic, count in working.on_broker[broker].items()
        )
        missed[Goal.MIN_LEADERS] = sum(self._without_leaders(topic) for topic in self._rules.min_leaders)
        return missed

    def _crowds(self, number: int) -> bool:
        """Whether a partition has a replica where none may be, or too many in a rack."""
        working = self._working
        racks: dict[int, int] = {}
        for broker in working.replicas[number]:
            if not working.open[broker]:
                return True
            if working.fixed[number]:
                continue
            racks[working.rack[broker]] = racks.get(working.rack[broker], 0) + 1
        return max(racks.values(), default=0) > working.rack_limit(number)

    def _without_leaders(self, topic: str) -> int:
        working = self._working
        number_of = working.topic_numbers.get(topic)
        if number_of is None:
            return 0
        counts = {broker: 0 for broker, may_lead in enumerate(working.may_lead) if may_lead}
        for number, each in enumerate(working.topic):
            leader = working.replicas[number][0]
            if each == number_of and leader in counts:
                counts[leader] += 1
        return sum(count < self._rules.min_leaders[topic] for count in counts.values())

    def _made(self, bound: int, missed_before: dict[Goal, int]) -> Plan:
        model, working = self._model, self._working
        ids = [broker.id for broker in model.brokers]
        changes = []
        for number, partition in enumerate(model.partitions):
            after = tuple(ids[broker] for broker in working.replicas[number])
            if working.fixed[number]:
                changes_it = tuple(working.replicas[number]) != self._at_first[number]
            else:
                changes_it = after != partition.replicas or (
                    after[0] != partition.leader and self._elects(number)
                )
            if changes_it:
                changes.append(
                    Change(
                        partition.topic,
                        partition.partition,
                        partition.replicas,
                        after,
                        partition.leader,
                        partition.size,
                    )
                )
        missed = self._missed(working.load)
        goals = tuple(
            GoalOutcome(goal, missed_before[goal], missed[goal]) for goal in Goal if goal in self._scope.goals
        )
        after_loads: dict[int, Load] = {}
        for broker, values in zip(model.brokers, working.load, strict=True):
            a, b, c, d, e, f, g, h = (max(0.0, value) for value in values)
            after_loads[broker.id] = (a, b, c, d, e, f, g, h)
        return Plan(
            tuple(changes),
            bound,
            model.loads(),
            after_loads,
            goals,
            (*self._problems, *self._why_not(missed)),
        )

    def _elects(self, number: int) -> bool:
        """Whether the replica in front can be elected; else nothing is to be done for the partition."""
        working = self._working
        return self._purpose is Purpose.BALANCE and working.can_lead(number, working.replicas[number][0])

    def _why_not(self, missed: dict[Goal, int]) -> Iterator[str]:
        """A line for each capacity that does not hold."""
        working = self._working
        for goal in HARD_CAPACITIES:
            if not missed[goal] or goal not in self._scope.goals:
                continue
            dimension = goal.dimension
            assert dimension is not None
            total = sum(load[dimension] for load in working.load)
            room = sum(
                limit[dimension] for limit, is_open in zip(working.hard, working.open, strict=True) if is_open
            )
            yield (
                f"{goal.title}: {missed[goal]} brokers are above their capacity; all need {total:.6g} and "
                f"may use {room:.6g}"
            )
