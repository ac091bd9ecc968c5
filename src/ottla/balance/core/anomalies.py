"""Decides what self-healing does: what is seen of a cluster goes in, looks and fixes to be begun come out.

Theory of operation. An anomaly is a state that lasts: brokers that are away, disks that have failed, goals
that are missed. It is listed from the first sight on, and fixed once it has lasted: a broker for the grace, a
disk or a goal over so many looks in a row. What comes back in time starts anew.

One fix is under way at a time, and none while anything else is carried out in the cluster. Brokers go before
disks, and both before goals: while a broker is away or a disk has failed, goals are not looked at, since a
plan for them would move those replicas too. After anything was carried out, by whomever, goals rest for the
cooldown, so that a load that swings does not move replicas to and fro. A fix that could not begin, or has not
mended everything, is tried again after a pause. Brokers are not fixed where too many are away at once: then
it is more likely the network, or the watcher, that has failed.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

RETRY_MS: Final = 60_000


class AnomalyKind(enum.Enum):
    """The kinds of anomalies, the most urgent first, in Cruise Control's words."""

    BROKER_FAILURE = "BROKER_FAILURE"
    DISK_FAILURE = "DISK_FAILURE"
    GOAL_VIOLATION = "GOAL_VIOLATION"


class AnomalyStatus(enum.Enum):
    """How an anomaly stands, in Cruise Control's words."""

    DETECTED = "DETECTED"
    CHECK_WITH_DELAY = "CHECK_WITH_DELAY"
    IGNORED = "IGNORED"
    FIX_STARTED = "FIX_STARTED"
    FIX_FAILED_TO_START = "FIX_FAILED_TO_START"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """An anomaly as it was seen last. brokers: away since when. disks: broker -> directory -> since when.

    fixable, unfixable: goals that a plan would mend, at least in part, and those that none does.
    """

    id: str
    kind: AnomalyKind
    detected_ms: int
    status: AnomalyStatus
    status_ms: int
    brokers: Mapping[int, int] = field(default_factory=dict)
    disks: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    fixable: tuple[str, ...] = ()
    unfixable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DetectorOptions:
    """healed: the kinds that are fixed. grace_ms: how long a broker may be away.

    most_failed, most_failed_part: brokers that may be away at once for a fix, by number and as a part of all.
    goal_interval_ms: between two looks at goals. confirmations: looks in a row at a failed disk or a missed
    goal before it is fixed. cooldown_ms: for goals, after anything was carried out. kept: anomalies of a kind
    that are listed.
    """

    healed: frozenset[AnomalyKind]
    grace_ms: int
    most_failed: int = 10
    most_failed_part: float = 0.4
    goal_interval_ms: int = 300_000
    confirmations: int = 2
    cooldown_ms: int = 600_000
    retry_ms: int = RETRY_MS
    kept: int = 10


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """A look at the cluster: all brokers, those that are away, directories that have failed with replicas.

    is_busy: whether anything is carried out.
    """

    at_ms: int
    brokers: frozenset[int]
    missing: frozenset[int] = frozenset()
    failed_disks: Mapping[int, frozenset[str]] = field(default_factory=dict)
    is_busy: bool = False


@dataclass(frozen=True, slots=True)
class GoalsSeen:
    """A look at the goals: those that are missed."""

    at_ms: int
    fixable: tuple[str, ...] = ()
    unfixable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GoalsUnknown:
    """A look at the goals that has failed."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class FixEnded:
    """A fix has come to its end. is_whole: whether it has mended all it was to mend."""

    at_ms: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class FixRefused:
    """A fix could not begin."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Switched:
    """Somebody has switched the fixing of a kind on or off."""

    at_ms: int
    kind: AnomalyKind
    is_on: bool


@dataclass(frozen=True, slots=True)
class LookAtGoals:
    """Make a plan, and say which goals are missed."""


@dataclass(frozen=True, slots=True)
class Fix:
    """Begin to mend an anomaly, and say how that ended. dead: the brokers that are given up."""

    anomaly: Anomaly
    dead: frozenset[int]


Event = ClusterSeen | GoalsSeen | GoalsUnknown | FixEnded | FixRefused | Switched
Decision = LookAtGoals | Fix


class Detector:
    """The state of one watcher; `step` with what it sees, and do what it decides."""

    def __init__(self, options: DetectorOptions) -> None:
        self._options = options
        self.healed = set(options.healed)
        self._anomalies: dict[AnomalyKind, deque[Anomaly]] = {
            kind: deque(maxlen=options.kept) for kind in AnomalyKind
        }
        self._open: dict[AnomalyKind, Anomaly] = {}
        self._not_before = dict.fromkeys(AnomalyKind, 0)
        self._fixing: AnomalyKind | None = None
        self._seen = ClusterSeen(0, frozenset())
        self._away_since: dict[int, int] = {}
        self._failed_since: dict[tuple[int, str], int] = {}
        self._failed_looks: dict[tuple[int, str], int] = {}
        self._missed_looks = 0
        self._goals_seen_ms: int | None = None
        self._busy_ms: int | None = None
        self._numbers = 0
        self.started = 0
        self.refused = 0

    def recent(self, kind: AnomalyKind) -> tuple[Anomaly, ...]:
        """The anomalies of a kind, the oldest first."""
        return tuple(self._anomalies[kind])

    @property
    def fixing(self) -> Anomaly | None:
        """The anomaly that is being mended."""
        return None if self._fixing is None else self._open.get(self._fixing)

    def step(self, event: Event) -> list[Decision]:
        """Take something in; what is to be done about it."""
        match event:
            case ClusterSeen():
                return self._saw_cluster(event)
            case GoalsSeen():
                return self._saw_goals(event)
            case GoalsUnknown(at_ms):
                self._goals_seen_ms = at_ms
            case FixEnded(at_ms, is_whole):
                self._fix_ended(at_ms, is_whole)
            case FixRefused(at_ms):
                self.refused += 1
                self._fix_ended(at_ms, False, AnomalyStatus.FIX_FAILED_TO_START)
            case Switched(_, kind, is_on):
                (self.healed.add if is_on else self.healed.discard)(kind)
            case _ as never:
                assert_never(never)
        return []

    # -- what is seen --------------------------------------------------------------------------------------

    def _saw_cluster(self, seen: ClusterSeen) -> list[Decision]:
        self._seen = seen
        now = seen.at_ms
        if seen.is_busy or self._busy_ms is None:
            self._busy_ms = now
        self._away_since = {one: self._away_since.get(one, now) for one in seen.missing}
        failed = {(broker, path) for broker, paths in seen.failed_disks.items() for path in paths}
        self._failed_since = {one: self._failed_since.get(one, now) for one in failed}
        self._failed_looks = {one: self._failed_looks.get(one, 0) + 1 for one in failed}
        self._keep_brokers(now)
        self._keep_disks(now)
        if seen.missing or failed:
            self._missed_looks = 0
            self._close(AnomalyKind.GOAL_VIOLATION)
        if self._fixing is not None or seen.is_busy:
            return []
        fix = self._broker_fix(now) or self._disk_fix(now)
        if fix is not None:
            return [fix]
        return [LookAtGoals()] if self._wants_goals(now) else []

    def _keep_brokers(self, now: int) -> None:
        if self._away_since:
            anomaly = self._opened(AnomalyKind.BROKER_FAILURE, now)
            self._keep(replace(anomaly, brokers=dict(self._away_since)))
        else:
            self._close(AnomalyKind.BROKER_FAILURE)

    def _keep_disks(self, now: int) -> None:
        if self._failed_since:
            disks: dict[int, dict[str, int]] = {}
            for (broker, path), since in self._failed_since.items():
                disks.setdefault(broker, {})[path] = since
            self._keep(replace(self._opened(AnomalyKind.DISK_FAILURE, now), disks=disks))
        else:
            self._close(AnomalyKind.DISK_FAILURE)

    def _broker_fix(self, now: int) -> Fix | None:
        kind = AnomalyKind.BROKER_FAILURE
        dead = {one for one, since in self._away_since.items() if now - since >= self._options.grace_ms}
        if kind not in self._open:
            return None
        if not dead:
            self._set_status(kind, AnomalyStatus.CHECK_WITH_DELAY, now)
            return None
        return self._fix(kind, now, dead, is_allowed=not self._too_many())

    def _too_many(self) -> bool:
        """Whether so many brokers are away that it is not they that have failed."""
        away, options = len(self._away_since), self._options
        known = max(1, len(self._seen.brokers))
        return away > options.most_failed or away > options.most_failed_part * known

    def _disk_fix(self, now: int) -> Fix | None:
        kind = AnomalyKind.DISK_FAILURE
        if kind not in self._open:
            return None
        if max(self._failed_looks.values(), default=0) < self._options.confirmations:
            self._set_status(kind, AnomalyStatus.CHECK_WITH_DELAY, now)
            return None
        return self._fix(kind, now, (), is_allowed=True)

    def _wants_goals(self, now: int) -> bool:
        seen_ms = self._goals_seen_ms
        return (
            AnomalyKind.GOAL_VIOLATION in self.healed
            and not self._away_since
            and not self._failed_since
            and (seen_ms is None or now - seen_ms >= self._options.goal_interval_ms)
        )

    def _saw_goals(self, seen: GoalsSeen) -> list[Decision]:
        kind, now = AnomalyKind.GOAL_VIOLATION, seen.at_ms
        self._goals_seen_ms = now
        if not seen.fixable and not seen.unfixable:
            self._missed_looks = 0
            self._close(kind)
            return []
        self._keep(replace(self._opened(kind, now), fixable=seen.fixable, unfixable=seen.unfixable))
        if not seen.fixable:
            self._missed_looks = 0
            self._set_status(kind, AnomalyStatus.IGNORED, now)
            return []
        self._missed_looks += 1
        rests = self._busy_ms is None or now - self._busy_ms < self._options.cooldown_ms
        if self._missed_looks < self._options.confirmations or rests:
            self._set_status(kind, AnomalyStatus.CHECK_WITH_DELAY, now)
            return []
        if self._fixing is not None or self._seen.is_busy or self._away_since or self._failed_since:
            return []
        fix = self._fix(kind, now, (), is_allowed=True)
        return [] if fix is None else [fix]

    # -- fixes ---------------------------------------------------------------------------------------------

    def _fix(self, kind: AnomalyKind, now: int, dead: Collection[int], *, is_allowed: bool) -> Fix | None:
        """Begin to mend, where that is wanted, and not too soon after the last time."""
        if kind not in self.healed or not is_allowed:
            self._set_status(kind, AnomalyStatus.IGNORED, now)
            return None
        if now < self._not_before[kind]:
            return None
        self._set_status(kind, AnomalyStatus.FIX_STARTED, now)
        self._fixing = kind
        self.started += 1
        return Fix(self._open[kind], frozenset(dead))

    def _fix_ended(self, now: int, is_whole: bool, status: AnomalyStatus | None = None) -> None:
        kind = self._fixing
        assert kind is not None
        self._fixing = None
        self._busy_ms = now
        if kind is AnomalyKind.GOAL_VIOLATION:
            self._missed_looks = 0
        if status is not None:
            self._set_status(kind, status, now)
        if not is_whole:
            self._not_before[kind] = now + self._options.retry_ms

    # -- the list ------------------------------------------------------------------------------------------

    def _opened(self, kind: AnomalyKind, now: int) -> Anomaly:
        """The anomaly of this kind that lasts, a new one where there is none."""
        if kind not in self._open:
            self._numbers += 1
            anomaly = Anomaly(
                f"{kind.value.lower()}-{now}-{self._numbers}", kind, now, AnomalyStatus.DETECTED, now
            )
            self._open[kind] = anomaly
            self._anomalies[kind].append(anomaly)
        return self._open[kind]

    def _keep(self, anomaly: Anomaly) -> None:
        self._open[anomaly.kind] = anomaly
        self._anomalies[anomaly.kind][-1] = anomaly

    def _set_status(self, kind: AnomalyKind, status: AnomalyStatus, now: int) -> None:
        anomaly = self._open.get(kind)
        if anomaly is not None and anomaly.status is not status:
            self._keep(replace(anomaly, status=status, status_ms=now))

    def _close(self, kind: AnomalyKind) -> None:
        """The anomaly is over; one that is being mended stays until the fix has ended."""
        if self._fixing is not kind:
            self._open.pop(kind, None)
