"""The cluster while it is planned: who holds what, what each broker carries, what a move would do to that.

Brokers and partitions are numbers here: their places in the model's lists. Of a partition's replicas the
first leads. `upper` and `lower` are the limits of the goals that were reached so far; `strict` those of all.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.balance.core.goals import INFINITE, TOLERANCE, Goal, bands, hard_limits, topic_limit
from ottla.balance.core.model import DIMENSIONS, ClusterModel, Dimension, Load, Rules
from ottla.balance.core.scope import EVERYTHING, Scope

DISK: Final = Dimension.DISK
NO_LIMIT: Final = 1 << 31


class Working:
    """Replicas, loads and limits; `move` and `lead` change them, `takes` and `gives` say what may be."""

    def __init__(self, model: ClusterModel, rules: Rules, scope: Scope = EVERYTHING) -> None:
        brokers = model.brokers
        self.model = model
        self.rules = rules
        index_of = {broker.id: index for index, broker in enumerate(brokers)}
        self.index_of = index_of
        self.open = [broker.takes_replicas for broker in brokers]
        self.may_lead = [broker.may_lead for broker in brokers]
        rack_numbers: dict[str, int] = {}
        self.rack = [
            rack_numbers.setdefault(f"={one.id}" if one.rack is None else f"@{one.rack}", len(rack_numbers))
            for one in brokers
        ]
        self.rack_count = max(
            1, len({rack for rack, is_open in zip(self.rack, self.open, strict=True) if is_open})
        )
        self.destinations = [one.takes_replicas and scope.may_get(one.id) for one in brokers]
        self.may_get_leaders = [scope.destinations is None or one.id in scope.destinations for one in brokers]
        self.load = [[0.0] * DIMENSIONS for _ in brokers]
        self.hosts: list[set[int]] = [set() for _ in brokers]
        self.leads: list[set[int]] = [set() for _ in brokers]
        self.original: list[tuple[int, ...]] = []
        self.replicas: list[list[int]] = []
        self.unable: list[frozenset[int]] = []
        self.offline: list[frozenset[int]] = []
        self.fixed = [one.topic in scope.fixed_topics for one in model.partitions]
        self.leader_load: list[Load] = []
        self.follower_load: list[Load] = []
        topic_numbers: dict[str, int] = {}
        self.topic: list[int] = []
        self.on_broker: list[dict[int, int]] = [{} for _ in brokers]
        topic_replicas: dict[int, int] = {}
        for number, one in enumerate(model.partitions):
            topic = topic_numbers.setdefault(one.topic, len(topic_numbers))
            self.topic.append(topic)
            placed = [index_of[replica] for replica in one.replicas]
            self.original.append(tuple(placed))
            self.unable.append(self._indexes(one.behind | one.offline))
            self.offline.append(self._indexes(one.offline))
            self.replicas.append(self._first_led(number, placed, one.leader))
            leader, follower = one.loads()
            self.leader_load.append(leader)
            self.follower_load.append(follower)
            topic_replicas[topic] = topic_replicas.get(topic, 0) + len(placed)
            for place, broker in enumerate(self.replicas[-1]):
                self.hosts[broker].add(number)
                self.on_broker[broker][topic] = self.on_broker[broker].get(topic, 0) + 1
                if place == 0:
                    self.leads[broker].add(number)
                _add(self.load[broker], leader if place == 0 else follower)
        self.topic_numbers = topic_numbers
        taking = sum(self.open)
        self.topic_limit = [
            topic_limit(topic_replicas[topic], taking, rules) if Goal.TOPICS in scope.goals else NO_LIMIT
            for topic in range(len(topic_numbers))
        ]
        totals = [sum(load[dimension] for load in self.load) for dimension in range(DIMENSIONS)]
        shares = max(1, taking)
        self.scale = [shares / total if total > 0 else 0.0 for total in totals]
        self.hard = [hard_limits(broker, rules) for broker in brokers]
        self.band_upper, self.band_lower = bands(brokers, totals, rules, scope.goals)
        self.upper = [list(limits) for limits in self.hard]
        self.lower = [[-INFINITE] * DIMENSIONS for _ in brokers]
        self.strict = [
            [min(each) for each in zip(hard, band, strict=True)]
            for hard, band in zip(self.hard, self.band_upper, strict=True)
        ]
        self.moved_bytes = 0.0
        self.disk_excess = sum(map(self.excess_of, range(len(brokers))))

    def _indexes(self, brokers: frozenset[int]) -> frozenset[int]:
        return (
            frozenset(self.index_of[one] for one in brokers if one in self.index_of) if brokers else brokers
        )

    def _first_led(self, number: int, placed: list[int], leader: int | None) -> list[int]:
        """The replicas with the one in front that leads: by preference, or as it is if that one can't, or
        stays.
        """
        if self.can_lead(number, placed[0]) and not self.fixed[number]:
            return placed
        now = self.index_of.get(-1 if leader is None else leader)
        if now is None or now not in placed:
            return placed
        return [now, *(one for one in placed if one != now)]

    # -- what there is -----------------------------------------------------------------------------------

    def can_lead(self, number: int, broker: int) -> bool:
        """Whether a replica that is there already can lead."""
        return self.may_lead[broker] and broker not in self.unable[number]

    def must_stay(self, number: int, source: int) -> bool:
        """Whether a replica of a topic that stays has no reason to leave its broker."""
        return self.fixed[number] and self.open[source] and source not in self.offline[number]

    def size(self, number: int) -> float:
        """The bytes of a partition."""
        return self.leader_load[number][DISK]

    def load_of(self, number: int, broker: int) -> Load:
        """What the replica of a partition costs the broker."""
        leads = self.replicas[number][0] == broker
        return self.leader_load[number] if leads else self.follower_load[number]

    def excess_of(self, broker: int) -> float:
        """What an open broker has above the upper limit of disk."""
        if not self.open[broker]:
            return 0.0
        return max(0.0, self.load[broker][DISK] - self.strict[broker][DISK])

    def rack_limit(self, number: int) -> int:
        """The most replicas of a partition in one rack."""
        return -(-len(self.replicas[number]) // self.rack_count)

    def move_cost(self, number: int, source: int, target: int) -> float:
        """The bytes that a move adds to the plan; a replica that was moved before moves on for nothing."""
        size, original = self.size(number), self.original[number]
        return size * ((source in original) - (target in original))

    # -- what may be -------------------------------------------------------------------------------------

    def fits(self, number: int, source: int, target: int) -> bool:
        """Whether a replica may be at the target at all: a broker that takes it, in a rack that has room."""
        replicas = self.replicas[number]
        if not self.destinations[target] or target in replicas:
            return False
        if self.fixed[number] and self.must_stay(number, source):
            return False
        rack, racks = self.rack[target], self.rack
        there = 1
        for one in replicas:
            if one != source and racks[one] == rack:
                there += 1
        return there <= self.rack_limit(number)

    def takes(self, target: int, added: Sequence[float], limits: Sequence[Sequence[float]]) -> bool:
        """Whether the broker stays within limits where the load rises."""
        for now, more, limit in zip(self.load[target], added, limits[target], strict=True):
            if more > 0 and now + more > limit + abs(limit) * TOLERANCE + TOLERANCE:
                return False
        return True

    def gives(self, source: int, taken: Sequence[float]) -> bool:
        """Whether the broker keeps what the goals so far want it to have at least."""
        if not self.open[source]:
            return True
        for now, less, limit in zip(self.load[source], taken, self.lower[source], strict=True):
            if less > 0 and now - less < limit - abs(limit) * TOLERANCE - TOLERANCE:
                return False
        return True

    def spreads(self, number: int, target: int) -> bool:
        """Whether the broker stays within the replicas of the partition's topic."""
        topic = self.topic[number]
        return self.on_broker[target].get(topic, 0) < self.topic_limit[topic]

    def height(self, broker: int, added: Sequence[float]) -> float:
        """How far a broker would stand above its shares, over all dimensions; less is better."""
        result = 0.0
        for now, more, scale in zip(self.load[broker], added, self.scale, strict=True):
            if more > 0:
                share = (now + more) * scale
                result += share * share
        return result

    def activate(self, dimension: Dimension) -> None:
        """From now on moves keep to the band of this dimension."""
        for broker in range(len(self.load)):
            self.upper[broker][dimension] = self.strict[broker][dimension]
            self.lower[broker][dimension] = self.band_lower[broker][dimension]

    # -- changes -----------------------------------------------------------------------------------------

    def move(self, number: int, source: int, target: int) -> None:
        """Put a replica elsewhere; it keeps its place in the order."""
        self.moved_bytes += self.move_cost(number, source, target)
        excess = self.excess_of(source) + self.excess_of(target)
        load = self.load_of(number, source)
        replicas = self.replicas[number]
        place = replicas.index(source)
        replicas[place] = target
        _subtract(self.load[source], load)
        _add(self.load[target], load)
        self.hosts[source].discard(number)
        self.hosts[target].add(number)
        if place == 0:
            self.leads[source].discard(number)
            self.leads[target].add(number)
        topic = self.topic[number]
        self.on_broker[source][topic] -= 1
        self.on_broker[target][topic] = self.on_broker[target].get(topic, 0) + 1
        self.disk_excess += self.excess_of(source) + self.excess_of(target) - excess

    def role_load(self, number: int) -> list[float]:
        """What leading adds to holding a partition."""
        pairs = zip(self.leader_load[number], self.follower_load[number], strict=True)
        return [leader - follower for leader, follower in pairs]

    def lead(self, number: int, target: int) -> None:
        """Let another replica lead: it comes first, and the one before takes its place."""
        replicas = self.replicas[number]
        source, place = replicas[0], replicas.index(target)
        role = self.role_load(number)
        _subtract(self.load[source], role)
        _add(self.load[target], role)
        replicas[0], replicas[place] = target, source
        self.leads[source].discard(number)
        self.leads[target].add(number)


class Ranking:
    """Open brokers in the order of one dimension's use, kept while loads change."""

    def __init__(self, working: Working, dimension: Dimension, members: Sequence[int]) -> None:
        self._working = working
        self._dimension = dimension
        self._key = {broker: self._use(broker) for broker in members}
        self._order = sorted((key, broker) for broker, key in self._key.items())

    def _use(self, broker: int) -> float:
        upper = self._working.strict[broker][self._dimension]
        load = self._working.load[broker][self._dimension]
        return load / upper if 0 < upper < INFINITE else load

    def changed(self, *brokers: int) -> None:
        """Sort brokers in again whose load has changed."""
        for broker in brokers:
            if broker in self._key:
                del self._order[bisect_left(self._order, (self._key[broker], broker))]
                self._key[broker] = self._use(broker)
                insort(self._order, (self._key[broker], broker))

    def ascending(self) -> Iterator[int]:
        """The least used first; the order must not change meanwhile."""
        return (broker for _, broker in self._order)

    def descending(self) -> list[int]:
        """The most used first."""
        return [broker for _, broker in reversed(self._order)]


def _add(load: list[float], added: Sequence[float]) -> None:
    for index, value in enumerate(added):
        load[index] += value


def _subtract(load: list[float], taken: Sequence[float]) -> None:
    for index, value in enumerate(taken):
        load[index] -= value
