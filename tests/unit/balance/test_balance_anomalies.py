"""Self-healing's decisions by examples: grace, looks in a row, cooldown, switches, what comes first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.balance.core.anomalies import (
    Anomaly,
    AnomalyKind,
    AnomalyStatus,
    ClusterSeen,
    Decision,
    Detector,
    DetectorOptions,
    Fix,
    FixEnded,
    FixRefused,
    GoalsSeen,
    GoalsUnknown,
    LookAtGoals,
    Switched,
)

FIVE = frozenset(range(5))
OPTIONS = DetectorOptions(
    frozenset(AnomalyKind), 30_000, goal_interval_ms=10_000, cooldown_ms=60_000, retry_ms=20_000
)
GOALS = ("DiskCapacityGoal",)


def seen(at: int, *missing: int, **more: object) -> ClusterSeen:
    return ClusterSeen(at * 1_000, FIVE, frozenset(missing), **more)  # type: ignore[arg-type]


def fixes(decisions: list[Decision]) -> list[AnomalyKind]:
    return [one.anomaly.kind for one in decisions if isinstance(one, Fix)]


def newest(detector: Detector, kind: AnomalyKind) -> Anomaly:
    return detector.recent(kind)[-1]


def test_a_broker_is_given_up_after_the_grace() -> None:
    detector = Detector(OPTIONS)
    assert fixes(detector.step(seen(0, 3))) == []
    assert newest(detector, AnomalyKind.BROKER_FAILURE).status is AnomalyStatus.CHECK_WITH_DELAY
    assert fixes(detector.step(seen(20, 3, 4))) == []
    (fix,) = detector.step(seen(30, 3, 4))
    assert isinstance(fix, Fix)
    assert fix.dead == {3}  # broker 4 may still come back
    assert fix.anomaly.brokers == {3: 0, 4: 20_000}
    assert detector.fixing is not None


def test_a_broker_that_comes_back_starts_anew() -> None:
    detector = Detector(OPTIONS)
    detector.step(seen(0, 3))
    detector.step(seen(20))
    assert fixes(detector.step(seen(25, 3))) == []
    assert fixes(detector.step(seen(54, 3))) == []
    assert fixes(detector.step(seen(55, 3))) == [AnomalyKind.BROKER_FAILURE]
    assert len(detector.recent(AnomalyKind.BROKER_FAILURE)) == 2


def test_where_too_many_are_away_nothing_moves() -> None:
    detector = Detector(OPTIONS)
    detector.step(seen(0, 1, 2, 3))
    assert detector.step(seen(100, 1, 2, 3)) == []
    assert newest(detector, AnomalyKind.BROKER_FAILURE).status is AnomalyStatus.IGNORED
    assert fixes(detector.step(seen(101, 1, 2))) == [AnomalyKind.BROKER_FAILURE]


def test_one_fix_at_a_time_and_a_pause_after_one_that_was_not_whole() -> None:
    detector = Detector(OPTIONS)
    detector.step(seen(0, 3))
    assert fixes(detector.step(seen(30, 3)))
    assert detector.step(seen(31, 3)) == []
    detector.step(FixEnded(40_000, is_whole=False))
    assert detector.step(seen(41, 3)) == []
    assert fixes(detector.step(seen(60, 3)))
    detector.step(FixRefused(61_000))
    assert newest(detector, AnomalyKind.BROKER_FAILURE).status is AnomalyStatus.FIX_FAILED_TO_START
    assert (detector.started, detector.refused) == (2, 1)


def test_nothing_begins_while_something_is_carried_out() -> None:
    detector = Detector(OPTIONS)
    detector.step(seen(0, 3, is_busy=True))
    assert detector.step(seen(100, 3, is_busy=True)) == []
    assert fixes(detector.step(seen(101, 3)))


def test_a_failed_disk_is_seen_twice_before_it_is_left() -> None:
    detector = Detector(OPTIONS)
    disks = {2: frozenset({"/d1"})}
    assert detector.step(seen(0, failed_disks=disks)) == []
    (fix,) = detector.step(seen(5, failed_disks=disks))
    assert isinstance(fix, Fix)
    assert (fix.anomaly.kind, fix.dead) == (AnomalyKind.DISK_FAILURE, frozenset())
    assert fix.anomaly.disks == {2: {"/d1": 0}}


def test_a_dead_broker_comes_before_a_failed_disk() -> None:
    detector = Detector(OPTIONS)
    disks = {2: frozenset({"/d1"})}
    detector.step(seen(0, 3))
    detector.step(seen(30, is_busy=True, failed_disks=disks))
    detector.step(seen(31, 3, is_busy=True, failed_disks=disks))
    assert fixes(detector.step(seen(61, 3, failed_disks=disks))) == [AnomalyKind.BROKER_FAILURE]


def goals_seen(detector: Detector, at: int, *fixable: str) -> list[Decision]:
    """The look that the detector wants at that time, and what it decides."""
    assert detector.step(seen(at)) == [LookAtGoals()]
    return detector.step(GoalsSeen(at * 1_000, fixable))


def test_a_missed_goal_is_mended_after_looks_in_a_row_and_the_cooldown() -> None:
    detector = Detector(OPTIONS)
    detector.step(seen(0))  # nothing is known of the time before: the cooldown begins
    for at in (10, 20, 30, 50):
        assert goals_seen(detector, at, *GOALS) == []
    assert fixes(goals_seen(detector, 60, *GOALS)) == [AnomalyKind.GOAL_VIOLATION]
    detector.step(FixEnded(70_000, is_whole=True))
    for at in (80, 90, 129):
        assert goals_seen(detector, at, *GOALS) == []
    assert fixes(goals_seen(detector, 139, *GOALS)) == [AnomalyKind.GOAL_VIOLATION]


def test_a_goal_that_is_kept_again_starts_anew() -> None:
    detector = Detector(OPTIONS)
    detector.step(seen(0))
    assert goals_seen(detector, 100, *GOALS) == []
    assert goals_seen(detector, 110) == []
    assert goals_seen(detector, 120, *GOALS) == []
    assert fixes(goals_seen(detector, 130, *GOALS)) == [AnomalyKind.GOAL_VIOLATION]


def test_what_no_plan_mends_is_listed_and_left() -> None:
    detector = Detector(OPTIONS)
    detector.step(seen(0))
    for at in range(100, 200, 10):
        detector.step(seen(at))
        assert detector.step(GoalsSeen(at * 1_000, unfixable=GOALS)) == []
    anomaly = newest(detector, AnomalyKind.GOAL_VIOLATION)
    assert (anomaly.status, anomaly.unfixable) == (AnomalyStatus.IGNORED, GOALS)
    assert len(detector.recent(AnomalyKind.GOAL_VIOLATION)) == 1


def test_goals_wait_for_brokers_and_disks() -> None:
    detector = Detector(OPTIONS)
    detector.step(seen(0))
    assert goals_seen(detector, 100, *GOALS) == []
    assert detector.step(seen(120, 3)) == []
    assert goals_seen(detector, 140, *GOALS) == []
    detector.step(seen(150))
    detector.step(GoalsUnknown(150_000))
    assert fixes(goals_seen(detector, 160, *GOALS)) == [AnomalyKind.GOAL_VIOLATION]


@pytest.mark.parametrize("kind", AnomalyKind)
def test_a_kind_that_is_switched_off_is_not_mended(kind: AnomalyKind) -> None:
    detector = Detector(replace(OPTIONS, healed=frozenset(AnomalyKind) - {kind}, confirmations=1))
    detector.step(seen(0))

    def anything(at: int) -> list[Decision]:
        match kind:
            case AnomalyKind.BROKER_FAILURE:
                return detector.step(seen(at, 3))
            case AnomalyKind.DISK_FAILURE:
                return detector.step(seen(at, failed_disks={2: frozenset({"/d1"})}))
            case AnomalyKind.GOAL_VIOLATION:
                detector.step(seen(at))
                return detector.step(GoalsSeen(at * 1_000, GOALS))

    for at in range(100, 200, 10):
        assert anything(at) == []
    assert newest(detector, kind).status is AnomalyStatus.IGNORED
    detector.step(Switched(200_000, kind, is_on=True))
    assert fixes(anything(210)) == [kind]


def test_the_list_is_bounded() -> None:
    detector = Detector(OPTIONS)
    for at in range(0, 1_000, 2):
        detector.step(seen(at, 3))
        detector.step(seen(at + 1))
    assert len(detector.recent(AnomalyKind.BROKER_FAILURE)) == OPTIONS.kept
