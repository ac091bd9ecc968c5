"""Self-healing in random worlds: brokers die and come back, disks and fixes fail, loads swing, users work."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field

import pytest

from ottla.balance.core.anomalies import (
    AnomalyKind,
    ClusterSeen,
    Decision,
    Detector,
    DetectorOptions,
    Event,
    Fix,
    FixEnded,
    FixRefused,
    GoalsSeen,
    GoalsUnknown,
    LookAtGoals,
    Switched,
)

STEP_MS = 5_000
STEPS = 1_500
GOAL = ("DiskCapacityGoal",)


@dataclass(slots=True)
class World:
    """What is true of the cluster at a moment, and for how long it has been."""

    dice: random.Random
    brokers: frozenset[int]
    now: int = 0
    away_since: dict[int, int] = field(default_factory=dict)
    disks: dict[tuple[int, str], int] = field(default_factory=dict)
    missed: bool = False
    looks_missed: int = 0
    last_goal_look: int | None = None
    user_until: int = -1
    last_busy: int = 0
    fix_until: int | None = None
    fix: Fix | None = None
    idle_since_dead: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def pass_time(self) -> None:
        """Things happen."""
        dice = self.dice
        self.now += STEP_MS
        for broker in self.brokers:
            if broker in self.away_since:
                if dice.random() < 0.02:
                    del self.away_since[broker]
            elif dice.random() < 0.003:
                self.away_since[broker] = self.now
        for broker in self.brokers - self.away_since.keys():
            if dice.random() < 0.002:
                self.disks.setdefault((broker, dice.choice(["/a", "/b"])), 0)
        for disk in list(self.disks):
            if disk[0] in self.away_since or dice.random() < 0.03:
                del self.disks[disk]
            else:
                self.disks[disk] += 1
        if dice.random() < 0.05:
            self.missed = not self.missed
        if self.user_until < self.now and dice.random() < 0.01:
            self.user_until = self.now + dice.randint(1, 20) * STEP_MS

    @property
    def is_user_busy(self) -> bool:
        return self.now <= self.user_until

    def seen(self) -> ClusterSeen:
        disks: dict[int, frozenset[str]] = {}
        for broker, path in self.disks:
            disks[broker] = disks.get(broker, frozenset()) | {path}
        busy = self.is_user_busy or self.fix is not None
        return ClusterSeen(self.now, self.brokers, frozenset(self.away_since), disks, busy)


class Judge:
    """Holds each decision against the world."""

    def __init__(self, world: World, options: DetectorOptions, healed: set[AnomalyKind]) -> None:
        self.world = world
        self.options = options
        self.healed = healed
        self.fixes: dict[AnomalyKind, int] = defaultdict(int)

    def allows(self, decision: Decision) -> None:
        """Fails for a decision that must not be."""
        world, options = self.world, self.options
        match decision:
            case LookAtGoals():
                assert AnomalyKind.GOAL_VIOLATION in self.healed
                assert world.fix is None
                assert not world.away_since
                assert not world.disks
                last = world.last_goal_look
                assert last is None or world.now - last >= options.goal_interval_ms
            case Fix(anomaly, dead):
                self.fixes[anomaly.kind] += 1
                assert anomaly.kind in self.healed
                assert world.fix is None
                assert not world.is_user_busy
                self._fits(anomaly.kind, dead)

    def _fits(self, kind: AnomalyKind, dead: frozenset[int]) -> None:
        world, options = self.world, self.options
        match kind:
            case AnomalyKind.BROKER_FAILURE:
                assert dead
                assert all(world.now - world.away_since[one] >= options.grace_ms for one in dead)
                assert len(world.away_since) <= options.most_failed
                assert len(world.away_since) <= options.most_failed_part * len(world.brokers)
            case AnomalyKind.DISK_FAILURE:
                assert not dead
                assert max(world.disks.values()) >= options.confirmations - 1
            case AnomalyKind.GOAL_VIOLATION:
                assert not world.away_since
                assert not world.disks
                assert world.looks_missed >= options.confirmations
                assert world.now - world.last_busy >= options.cooldown_ms


@pytest.mark.parametrize("seed", range(24))
def test_decisions_fit_the_world(seed: int) -> None:
    dice = random.Random(seed)
    options = DetectorOptions(
        healed=frozenset(kind for kind in AnomalyKind if dice.random() < 0.9),
        grace_ms=dice.choice([0, 30_000, 120_000]),
        most_failed=dice.randint(1, 4),
        goal_interval_ms=dice.choice([5_000, 20_000]),
        confirmations=dice.randint(1, 3),
        cooldown_ms=dice.choice([0, 60_000]),
        retry_ms=20_000,
    )
    world = World(dice, frozenset(range(dice.randint(3, 12))))
    detector = Detector(options)
    healed = set(options.healed)
    judge = Judge(world, options, healed)
    for _ in range(STEPS):
        world.pass_time()
        if dice.random() < 0.005:
            kind, is_on = dice.choice(list(AnomalyKind)), dice.random() < 0.7
            detector.step(Switched(world.now, kind, is_on))
            (healed.add if is_on else healed.discard)(kind)
        if world.fix_until is not None:
            world.last_busy = world.now
            if world.now >= world.fix_until:
                _end_fix(world, detector)
        _look(world, detector, judge)
        _heals_in_time(world, options, healed, detector)
        for kind in AnomalyKind:
            assert len(detector.recent(kind)) <= options.kept
    if healed == options.healed == set(AnomalyKind):
        assert judge.fixes


def _look(world: World, detector: Detector, judge: Judge) -> None:
    """A look, and all that follows."""
    events: list[Event] = [world.seen()]
    if world.is_user_busy:
        world.last_busy = world.now
    while events:
        for decision in detector.step(events.pop()):
            judge.allows(decision)
            if isinstance(decision, LookAtGoals):
                world.last_goal_look = world.now
                events.append(_goals(world))
            else:
                world.fix = decision
                world.fix_until = world.now + world.dice.randint(0, 30) * STEP_MS
                world.last_busy = world.now
    if world.away_since or world.disks:
        world.looks_missed = 0


def _goals(world: World) -> Event:
    if world.dice.random() < 0.1:
        return GoalsUnknown(world.now)
    if world.missed:
        world.looks_missed += 1
        return GoalsSeen(world.now, GOAL)
    world.looks_missed = 0
    return GoalsSeen(world.now, unfixable=GOAL if world.dice.random() < 0.2 else ())


def _end_fix(world: World, detector: Detector) -> None:
    assert world.fix is not None
    is_goal = world.fix.anomaly.kind is AnomalyKind.GOAL_VIOLATION
    if world.dice.random() < 0.2:
        detector.step(FixRefused(world.now))
    else:
        if is_goal:
            world.missed = False
        detector.step(FixEnded(world.now, is_whole=world.dice.random() < 0.8))
    if is_goal:
        world.looks_missed = 0
    world.fix, world.fix_until = None, None
    world.idle_since_dead.clear()


def _heals_in_time(
    world: World, options: DetectorOptions, healed: set[AnomalyKind], detector: Detector
) -> None:
    """A broker that stays dead while nothing is in the way is not forgotten."""
    in_the_way = (
        AnomalyKind.BROKER_FAILURE not in healed
        or world.is_user_busy
        or world.fix is not None
        or len(world.away_since) > min(options.most_failed, options.most_failed_part * len(world.brokers))
    )
    for broker in world.brokers:
        since = world.away_since.get(broker)
        is_dead = since is not None and world.now - since >= options.grace_ms
        world.idle_since_dead[broker] = world.idle_since_dead[broker] + 1 if is_dead and not in_the_way else 0
        assert world.idle_since_dead[broker] * STEP_MS <= options.retry_ms + STEP_MS, (broker, detector)
