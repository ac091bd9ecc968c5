"""A plan: the partitions that change, what that costs, how brokers and goals stand before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.balance.core.goals import Goal
from ottla.balance.core.model import Load


@dataclass(frozen=True, slots=True)
class Change:
    """A partition's replicas before and after; the first is the one that leads by preference.

    leader: who leads before; None without a leader.
    """

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    leader: int | None
    size: int

    @property
    def adds(self) -> tuple[int, ...]:
        """The brokers that get a copy."""
        return tuple(one for one in self.after if one not in self.before)

    @property
    def removes(self) -> tuple[int, ...]:
        """The brokers that give theirs up."""
        return tuple(one for one in self.before if one not in self.after)

    @property
    def bytes_moved(self) -> int:
        """What has to be copied."""
        return self.size * len(self.adds)

    @property
    def changes_leader(self) -> bool:
        """Whether another broker leads afterwards."""
        return self.leader != self.after[0]


@dataclass(frozen=True, slots=True)
class GoalOutcome:
    """How many brokers (partitions for racks, topics' brokers for topics) miss a goal before and after."""

    goal: Goal
    before: int
    after: int

    @property
    def holds(self) -> bool:
        """Whether nothing misses it afterwards."""
        return self.after == 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, and what comes of it.

    bytes_bound: what has to be moved at least: replicas that must leave their broker, and what brokers have
    above the upper limit of disk. problems: why a hard goal does not hold afterwards, a line each.
    """

    changes: tuple[Change, ...]
    bytes_bound: int
    before: Mapping[int, Load]
    after: Mapping[int, Load]
    goals: tuple[GoalOutcome, ...]
    problems: tuple[str, ...]

    @property
    def bytes_moved(self) -> int:
        """What has to be copied in all."""
        return sum(one.bytes_moved for one in self.changes)

    @property
    def replica_moves(self) -> int:
        """Copies that are made."""
        return sum(len(one.adds) for one in self.changes)

    @property
    def replicas_dropped(self) -> int:
        """Replicas that go without another in their place."""
        return sum(max(0, len(one.before) - len(one.after)) for one in self.changes)

    @property
    def leader_changes(self) -> int:
        """Partitions that another broker leads afterwards."""
        return sum(one.changes_leader for one in self.changes)

    @property
    def hard_goals_hold(self) -> bool:
        """Whether all hard goals hold afterwards."""
        return all(one.holds for one in self.goals if one.goal.hard)


def seconds_of(changes: Iterable[Change], bytes_per_second: float) -> float:
    """How long copying takes where each broker sends and takes at most so much."""
    taken: dict[int, int] = {}
    sent: dict[int, int] = {}
    for one in changes:
        for broker in one.adds:
            taken[broker] = taken.get(broker, 0) + one.size
        if one.leader is not None and one.adds:
            sent[one.leader] = sent.get(one.leader, 0) + one.bytes_moved
    return max([0, *taken.values(), *sent.values()]) / bytes_per_second
