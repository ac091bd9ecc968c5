"""What a plan may do: the goals it works for, the topics that stay, the brokers that replicas may come to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ottla.balance.core.goals import Goal

PACKAGE: Final = "com.linkedin.kafka.cruisecontrol.analyzer.goals."
ALIASES: Final = {"RackAwareGoal": Goal.RACKS}
"""Cruise Control's stricter goal: the same wherever there are as many racks as replicas."""


class GoalError(ValueError):
    """Goals can't be chosen so; one line that says why."""


@dataclass(frozen=True, slots=True)
class Scope:
    """goals: that the plan works for; what moves keeps to all hard ones. fixed_topics: what has to leave a
    broker of these leaves it, and nothing else changes. destinations: brokers that may get replicas and
    leaders, None for all. no_replicas: brokers that get none, and keep what they have. waiting: dead brokers
    that may come back, so that their replicas wait.
    """

    goals: frozenset[Goal] = frozenset(Goal)
    fixed_topics: frozenset[str] = frozenset()
    destinations: frozenset[int] | None = None
    no_replicas: frozenset[int] = frozenset()
    waiting: frozenset[int] = frozenset()

    def may_get(self, broker: int) -> bool:
        """Whether a broker may get replicas."""
        return broker not in self.no_replicas and (self.destinations is None or broker in self.destinations)


EVERYTHING: Final = Scope()


def goals_named(names: Iterable[str], *, skip_hard_goal_check: bool) -> frozenset[Goal]:
    """The goals of these names, of Cruise Control's classes too; all without a name. Raises GoalError.

    All hard ones must be among them, unless that check is to be skipped.
    """
    by_title = {goal.title: goal for goal in Goal} | ALIASES
    chosen = set()
    for name in names:
        goal = by_title.get(name.removeprefix(PACKAGE))
        if goal is None:
            raise GoalError(f"there is no goal {name}; there are {', '.join(one.title for one in Goal)}")
        chosen.add(goal)
    if not chosen:
        return frozenset(Goal)
    missing = [goal.title for goal in Goal if goal.hard and goal not in chosen]
    if missing and not skip_hard_goal_check:
        raise GoalError(
            f"hard goals are missing: {', '.join(missing)}; name them too, or say that the check of hard "
            "goals is to be skipped"
        )
    return frozenset(chosen)
