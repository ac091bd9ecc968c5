"""From a wish to a plan: reads the cluster, sets the states of the brokers that are meant, and plans."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ottla.balance.core.goals import HARD_CAPACITIES, Goal
from ottla.balance.core.model import BrokerState, ClusterModel, Purpose, Rules, topics_of
from ottla.balance.core.plan import Plan
from ottla.balance.core.planner import plan_balance
from ottla.balance.core.replicas import plan_replicas, rack_count
from ottla.balance.core.scope import Scope
from ottla.balance.reading import Reading, ReadOptions, read_cluster
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError
from ottla.config.errors import UserError

MAX_PATTERN: Final = 1_000
"""Characters of a regular expression."""


class WishError(UserError):
    """What is wanted can't be; one line that says why."""


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """A regular expression that a topic's whole name matches."""

    text: str
    compiled: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> TopicPattern:
        """Raises WishError for what is no regular expression."""
        try:
            if len(text) > MAX_PATTERN:
                raise WishError(f"a pattern of more than {MAX_PATTERN} characters")
            return cls(text, re.compile(text))
        except (re.error, OverflowError, RecursionError) as problem:
            raise WishError(f"{text}: not a regular expression: {problem}") from None

    def among(self, topics: Iterable[str]) -> frozenset[str]:
        """Those of the topics that match."""
        return frozenset(one for one in topics if self.compiled.fullmatch(one))


@dataclass(frozen=True, slots=True)
class ReplicaWish:
    """So many replicas for the topics of a pattern.

    beyond_racks: also where there are fewer racks, so that one rack has several.
    """

    topics: TopicPattern
    factor: int
    beyond_racks: bool = False


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted. brokers: those that are added, removed or demoted.

    goals: that the plan works for. excluded_topics: that stay where they are. destinations: brokers that may
    get replicas; none for all. removed, demoted: brokers that get no replicas, or lead nothing, as that was
    done to them a while ago. replicas: of a plan for another number of replicas. given_up: the only dead
    brokers that replicas leave; None for all.
    """

    purpose: Purpose = Purpose.BALANCE
    brokers: tuple[int, ...] = ()
    goals: frozenset[Goal] = frozenset(Goal)
    excluded_topics: TopicPattern | None = None
    destinations: tuple[int, ...] = ()
    removed: frozenset[int] = frozenset()
    demoted: frozenset[int] = frozenset()
    replicas: ReplicaWish | None = None
    given_up: frozenset[int] | None = None

    def states(self, model: ClusterModel) -> dict[int, BrokerState]:
        """The states that brokers get for the plan.

        A broker that was removed and is empty is out of it, and has no share.
        """
        states: dict[int, BrokerState] = {}
        holders = {replica for one in model.partitions for replica in one.replicas}
        for broker in model.brokers:
            if broker.id in self.removed and broker.id not in holders:
                states[broker.id] = BrokerState.REMOVED
            elif broker.id in self.demoted:
                states[broker.id] = BrokerState.DEMOTED
        state = {
            Purpose.ADD: BrokerState.NEW,
            Purpose.REMOVE: BrokerState.REMOVED,
            Purpose.DEMOTE: BrokerState.DEMOTED,
        }.get(self.purpose)
        return states if state is None else states | dict.fromkeys(self.brokers, state)

    def scope(self, model: ClusterModel) -> Scope:
        """What the plan may do."""
        excluded = self.excluded_topics
        return Scope(
            self.goals,
            frozenset() if excluded is None else excluded.among(topics_of(model)),
            frozenset(self.destinations) if self.destinations else None,
            self.removed - set(self.brokers),
            self._waiting(model),
        )

    def _waiting(self, model: ClusterModel) -> frozenset[int]:
        if self.given_up is None:
            return frozenset()
        dead = (one.id for one in model.brokers if one.state is BrokerState.DEAD)
        return frozenset(one for one in dead if one not in self.given_up)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan with the model that it was made of, and what could not be read of the cluster."""

    wish: Wish
    model: ClusterModel
    plan: Plan
    problems: tuple[str, ...] = field(default=())


async def planned(client: ClusterRequests, wish: Wish, rules: Rules, options: ReadOptions) -> Planned:
    """The plan for a cluster as it is now. Raises ClusterError."""
    return await planned_from(await read_cluster(client, options), wish, rules)


async def planned_from(reading: Reading, wish: Wish, rules: Rules) -> Planned:
    """The plan for a cluster that was read. Raises ClusterError for a broker that is not there."""
    require_there(reading.model, (*wish.brokers, *wish.destinations))
    reading.require_known(wish.destinations)
    model = reading.with_states(wish.states(reading.model))
    scope = wish.scope(model)
    if wish.replicas is not None:
        plan = await asyncio.to_thread(_planned_replicas, model, rules, wish.replicas, scope)
    else:
        plan = await asyncio.to_thread(plan_balance, model, rules, wish.purpose, scope)
    return Planned(wish, model, plan, reading.problems)


def _planned_replicas(model: ClusterModel, rules: Rules, wish: ReplicaWish, scope: Scope) -> Plan:
    """Raises WishError where no topic matches, or there are too few racks or brokers."""
    topics = wish.topics.among(topics_of(model))
    if not topics:
        raise WishError(f"no topic matches {wish.topics.text}")
    racks, brokers = rack_count(model), sum(one.takes_replicas for one in model.brokers)
    if wish.factor > brokers:
        raise WishError(f"{wish.factor} replicas need as many brokers; there are {brokers}")
    if wish.factor > racks and not wish.beyond_racks:
        raise WishError(
            f"{wish.factor} replicas need as many racks; there are {racks}, and without the check of racks "
            "(skip_rack_awareness_check) one gets several"
        )
    return plan_replicas(model, rules, topics, wish.factor, scope)


def reason_not_to(found: Planned) -> str | None:
    """Why a plan is not to be carried out; None where it is.

    A plan that can't mend everything is: what is left is told. One is not that breaks a hard goal, leaves
    replicas on a broker that is to go, or evens out a cluster that is too small for its load.
    """
    plan, purpose = found.plan, found.wish.purpose
    for one in plan.goals:
        is_short = purpose is Purpose.BALANCE and one.goal in HARD_CAPACITIES and one.after > 0
        if one.goal.hard and (one.after > one.before or is_short):
            line = next((each for each in plan.problems if each.startswith(one.goal.title)), None)
            return line or f"{one.goal.title} would be missed by {one.after}"
    must_be_whole = purpose in (Purpose.REMOVE, Purpose.REPLICAS)
    return plan.problems[0] if must_be_whole and plan.problems else None


def require_there(model: ClusterModel, brokers: Iterable[int]) -> None:
    """Raises ClusterError for a broker that is dead: there is nothing to add or demote."""
    dead = {one.id for one in model.brokers if one.state is BrokerState.DEAD}
    for broker in brokers:
        if broker in dead:
            raise ClusterError(f"broker {broker} is dead: `ottla balance fix-offline` moves its replicas")
