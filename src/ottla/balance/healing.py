"""Watches a cluster for anomalies, and has them mended as the detector decides."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NoReturn, Protocol

from ottla.balance.core.anomalies import (
    AnomalyKind,
    ClusterSeen,
    Detector,
    Event,
    Fix,
    FixEnded,
    FixRefused,
    GoalsSeen,
    GoalsUnknown,
    LookAtGoals,
)
from ottla.balance.core.goals import Goal
from ottla.balance.core.model import BrokerState, Purpose, Rules
from ottla.balance.core.planner import missed_goals
from ottla.balance.core.scope import Scope
from ottla.balance.planning import Planned, Wish
from ottla.client.clock import now_ms
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError
from ottla.config.errors import UserError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ottla.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse

log = logging.getLogger("ottla.balance")

LOOK_SECONDS: Final = 5.0
SHORTEST_LOOK_SECONDS: Final = 0.2


class Mending(Protocol):
    """Who plans and carries out for the watcher."""

    def is_busy(self) -> bool:
        """Whether anything is carried out in the cluster."""

    async def plan(self, wish: Wish) -> Planned:
        """The plan for the cluster as it is. Raises UserError."""

    async def mend(self, planned: Planned) -> bool:
        """Carry a plan out to its end; whether all of it was done. Raises UserError where it can't begin."""


class Healer:
    """Looks at the cluster again and again. look_seconds: between two looks."""

    def __init__(
        self,
        client: ClusterRequests,
        detector: Detector,
        mending: Mending,
        goals: HealedGoals,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._client = client
        self.detector = detector
        self._mending = mending
        self._goals = goals
        self._look_seconds = look_seconds
        self._fixing: asyncio.Task[FixEnded | FixRefused] | None = None

    async def run(self) -> NoReturn:
        """Watch for ever, also while something is mended: who is away meanwhile is away."""
        try:
            while True:
                try:
                    await self._take_in(await self._look())
                except ClusterError as problem:
                    log.warning("the cluster can't be read, and is asked again: %s", problem)
                await self._pause()
        finally:
            if self._fixing is not None:
                self._fixing.cancel()
                await asyncio.gather(self._fixing, return_exceptions=True)

    async def _pause(self) -> None:
        """Until the next look, or the end of what is mended."""
        if self._fixing is None:
            await asyncio.sleep(self._look_seconds)
            return
        done, _ = await asyncio.wait([self._fixing], timeout=self._look_seconds)
        if done:
            ended, self._fixing = self._fixing.result(), None
            await self._take_in(ended)

    async def _take_in(self, event: Event) -> None:
        """One event, and all that follows from it."""
        events = deque([event])
        while events:
            for decision in self.detector.step(events.popleft()):
                match decision:
                    case LookAtGoals():
                        events.append(await self._look_at_goals())
                    case Fix():
                        self._fixing = asyncio.create_task(self._fix(decision), name="mending")

    async def _look(self) -> ClusterSeen:
        alive = (await self._client.cluster(refresh=True)).brokers
        holders: set[int] = set()
        offline: set[int] = set()
        for topic in await self._client.topics():
            for one in topic.partitions:
                holders.update(one.replica_nodes)
                offline.update(one.offline_replicas)
        failed = await self._failed_disks() if offline & alive.keys() else {}
        return ClusterSeen(
            now_ms(),
            frozenset(holders | alive.keys()),
            frozenset(holders - alive.keys()),
            {broker: paths for broker, paths in failed.items() if broker in offline},
            self._mending.is_busy(),
        )

    async def _failed_disks(self) -> dict[int, frozenset[str]]:
        """Of the brokers that answer, the directories that have failed."""
        answers = await self._client.ask_all(DescribeLogDirsRequest(topics=[]), DescribeLogDirsResponse)
        failed = {
            broker: frozenset(
                one.log_dir for one in answer.results if one.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            )
            for broker, answer in answers.items()
            if not isinstance(answer, ClusterError)
        }
        return {broker: paths for broker, paths in failed.items() if paths}

    async def _look_at_goals(self) -> GoalsSeen | GoalsUnknown:
        try:
            found = await self._mending.plan(self._goals.wish())
        except UserError as problem:
            log.warning("goals can't be looked at: %s", problem)
            return GoalsUnknown(now_ms())
        missed = await asyncio.to_thread(self._goals.missed, found)
        after = {one.goal: (one.before, one.after) for one in found.plan.goals}
        fixable = [one for one in missed if one in after and after[one][1] < after[one][0]]
        return GoalsSeen(now_ms(), _titles(fixable), _titles(one for one in missed if one not in fixable))

    async def _fix(self, fix: Fix) -> FixEnded | FixRefused:
        """Plan, carry out, and wait for the end."""
        anomaly = fix.anomaly
        if anomaly.kind is AnomalyKind.GOAL_VIOLATION:
            wish = self._goals.wish()
        else:
            wish = replace(self._goals.wish(), purpose=Purpose.FIX_OFFLINE, given_up=fix.dead)
        log.warning("%s: %s", anomaly.kind.value, _told(fix))
        try:
            found = await self._mending.plan(wish)
            if not found.plan.changes or self._has_changed(fix, found):
                return FixRefused(now_ms())
            is_done = await self._mending.mend(found)
        except UserError as problem:
            log.warning("%s is not mended: %s", anomaly.id, problem)
            return FixRefused(now_ms())
        return FixEnded(now_ms(), is_done and not found.plan.problems)

    def _has_changed(self, fix: Fix, found: Planned) -> bool:
        """Whether a broker has died meanwhile, whose replicas a plan for goals would not wait for."""
        return fix.anomaly.kind is AnomalyKind.GOAL_VIOLATION and any(
            one.state is BrokerState.DEAD for one in found.model.brokers
        )


class HealedGoals:
    """Which goals are watched, by which rules, and what a plan for them may do.

    mended: the goals that a plan works for, with those that are watched. removed: who was removed not long
    ago, and gets nothing.
    """

    def __init__(
        self, detected: frozenset[Goal], mended: frozenset[Goal], rules: Rules, removed: Removed
    ) -> None:
        self._detected = detected
        self._mended = mended | detected
        self._rules = rules
        self._removed = removed

    def wish(self) -> Wish:
        """The plan that would mend them."""
        return Wish(goals=self._mended, removed=self._removed())

    def missed(self, found: Planned) -> list[Goal]:
        """The goals that a cluster misses now, in their order."""
        missed = missed_goals(found.model, self._rules, Scope(self._detected))
        return [goal for goal in Goal if goal in self._detected and missed[goal]]


class Removed(Protocol):
    """Tells which brokers were removed not long ago."""

    def __call__(self) -> frozenset[int]: ...


def look_seconds(grace_seconds: float) -> float:
    """Between two looks, so that a short grace is kept to."""
    return min(LOOK_SECONDS, max(SHORTEST_LOOK_SECONDS, grace_seconds / 4))


def _titles(goals: Iterable[Goal]) -> tuple[str, ...]:
    return tuple(one.title for one in goals)


def _told(fix: Fix) -> str:
    anomaly = fix.anomaly
    match anomaly.kind:
        case AnomalyKind.BROKER_FAILURE:
            return f"brokers {', '.join(map(str, sorted(fix.dead)))} stay dead: their replicas move"
        case AnomalyKind.DISK_FAILURE:
            paths = [f"{path} of broker {broker}" for broker, each in anomaly.disks.items() for path in each]
            return f"{', '.join(sorted(paths))} failed: the replicas move"
        case AnomalyKind.GOAL_VIOLATION:
            return f"{', '.join(anomaly.fixable)} missed: an even load is planned"
