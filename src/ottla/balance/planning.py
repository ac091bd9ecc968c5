"""From a wish to a plan: reads the cluster, sets the states of the brokers that are meant, and plans."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.balance.core.goals import HARD_CAPACITIES
from ottla.balance.core.model import BrokerState, ClusterModel, Purpose, Rules
from ottla.balance.core.plan import Plan
from ottla.balance.core.planner import plan_balance
from ottla.balance.reading import Reading, ReadOptions, read_cluster
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted. brokers: those that are added, removed or demoted."""

    purpose: Purpose = Purpose.BALANCE
    brokers: tuple[int, ...] = ()

    def states(self) -> dict[int, BrokerState]:
        """The states that the brokers get for the plan."""
        state = {
            Purpose.ADD: BrokerState.NEW,
            Purpose.REMOVE: BrokerState.REMOVED,
            Purpose.DEMOTE: BrokerState.DEMOTED,
        }.get(self.purpose)
        return {} if state is None else dict.fromkeys(self.brokers, state)


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
    require_there(reading.model, wish.brokers)
    model = reading.with_states(wish.states())
    plan = await asyncio.to_thread(plan_balance, model, rules, wish.purpose)
    return Planned(wish, model, plan, reading.problems)


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
    return plan.problems[0] if purpose is Purpose.REMOVE and plan.problems else None


def require_there(model: ClusterModel, brokers: Iterable[int]) -> None:
    """Raises ClusterError for a broker that is dead: there is nothing to add or demote."""
    dead = {one.id for one in model.brokers if one.state is BrokerState.DEAD}
    for broker in brokers:
        if broker in dead:
            raise ClusterError(f"broker {broker} is dead: `ottla balance fix-offline` moves its replicas")
