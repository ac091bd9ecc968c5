"""`ottla balance run --self-heal`: watches for anomalies and mends them, until Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from ottla.balance.core.anomalies import AnomalyKind, Detector, DetectorOptions
from ottla.balance.core.goals import Goal
from ottla.balance.core.model import Rules
from ottla.balance.execution.journal import BalanceBusy
from ottla.balance.healing import HealedGoals, Healer, look_seconds
from ottla.balance.planning import Planned, Wish, planned, reason_not_to
from ottla.balance.reading import ReadOptions
from ottla.cli.balance.carrying_out import Carrier
from ottla.cli.balance.planning_options import Running, rules_and_reading
from ottla.cli.balance.showing import summary
from ottla.cli.cluster.any_broker import CommandError, cluster_client
from ottla.cli.frame.cluster import Session
from ottla.client.clock import now_ms
from ottla.client.cluster_requests import ClusterRequests
from ottla.config.errors import UserError

AGAIN_SECONDS: Final = 5.0
"""Between two looks for an execution that has lost its owner."""
RECENT_MS: Final = 14 * 86_400_000
"""For so long a broker that was removed gets nothing from a plan for goals."""


async def heal(session: Session, given: Mapping[str, Any], running: Running) -> NoReturn:
    """Watch for ever. Raises ClusterError, StateError."""
    rules, reading = rules_and_reading(given)
    kinds = set(AnomalyKind) if given["heal_goals"] else set(AnomalyKind) - {AnomalyKind.GOAL_VIOLATION}
    interval_ms = round(given["goal_interval"] * 1_000)
    options = DetectorOptions(
        frozenset(kinds),
        round(given["grace"] * 1_000),
        goal_interval_ms=interval_ms,
        cooldown_ms=2 * interval_ms,
    )
    hard = frozenset(goal for goal in Goal if goal.hard)
    async with (
        cluster_client(session.access) as client,
        Carrier.to(session, client, running) as carrier,
    ):
        mending = _Mending(session, client, carrier, rules, reading, running.throttle)
        goals = HealedGoals(hard, frozenset(Goal), rules, mending.recently_removed)
        healer = Healer(client, Detector(options), mending, goals, look_seconds(given["grace"]))
        session.output.note("watching for brokers that die and disks that fail")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(mending.finish_what_was_begun(), name="finishing what was begun")
            await healer.run()


class _Mending:
    """Satisfies `Mending`."""

    def __init__(
        self,
        session: Session,
        client: ClusterRequests,
        carrier: Carrier,
        rules: Rules,
        reading: ReadOptions,
        throttle: int | None,
    ) -> None:
        self._output = session.output
        self._client = client
        self._carrier = carrier
        self._rules = rules
        self._reading = reading
        self._throttle = throttle
        self._carrying = asyncio.Lock()

    def recently_removed(self) -> frozenset[int]:
        """The brokers that were removed not long ago."""
        return self._carrier.journal.history.removed_since(now_ms() - RECENT_MS)

    def is_busy(self) -> bool:
        """See `Mending`."""
        return self._carrier.journal.unfinished is not None

    async def finish_what_was_begun(self) -> None:
        """Carry on executions that have lost their owner, for ever."""
        while True:
            if self.is_busy() and not self._carrying.locked():
                async with self._carrying:
                    try:
                        await self._carrier.finish_what_was_begun()
                    except BalanceBusy:
                        pass
                    except UserError as problem:
                        self._output.warn(str(problem))
            await asyncio.sleep(AGAIN_SECONDS)

    async def plan(self, wish: Wish) -> Planned:
        """See `Mending`."""
        return await planned(self._client, wish, self._rules, self._reading)

    async def mend(self, planned: Planned) -> bool:
        """See `Mending`."""
        for problem in planned.plan.problems:
            self._output.warn(problem)
        if (reason := reason_not_to(planned)) is not None:
            raise CommandError(f"the plan is not carried out: {reason}")
        self._output.note(summary(planned.plan, self._throttle))
        async with self._carrying:
            return await self._carrier.carry_out(planned)
