"""The settings of `ottla balance serve`: Cruise Control's have their names there.

Other settings that begin with `client.` go, without that prefix, to the Kafka client.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from ottla.balance.capacities import CapacityError, read_capacities
from ottla.balance.core.anomalies import AnomalyKind, DetectorOptions
from ottla.balance.core.goals import Goal
from ottla.balance.core.model import Dimension, Rules
from ottla.balance.core.scope import GoalError, goals_named
from ottla.balance.execution.runner import RunOptions
from ottla.balance.reading import ReadOptions
from ottla.client.access import DEFAULT_BOOTSTRAP
from ottla.client.java_names import unsupported_properties
from ottla.config.setting import (
    HIGH,
    LOW,
    Table,
    boolean,
    by_name,
    double,
    integer,
    long,
    string,
    string_list,
    text_or_none,
)
from ottla.config.settings import Settings
from ottla.config.unsupported import merged
from ottla.config.validators import at_least, between, not_empty
from ottla.web import http_settings
from ottla.web.front_settings import FRONT_SETTINGS
from ottla.web.http_settings import listeners_setting
from ottla.web.tls_settings import base_name

DEFAULT_LISTEN: Final = "127.0.0.1:9090"

BOOTSTRAP_SERVERS: Final = string(
    "bootstrap.servers", DEFAULT_BOOTSTRAP, "The cluster.", not_empty, importance=HIGH
)
LISTENERS: Final = listeners_setting(DEFAULT_LISTEN)
LISTENER_PROTOCOL_MAP: Final = http_settings.LISTENER_PROTOCOL_MAP
PORT: Final = http_settings.PORT
SAMPLING_MS: Final = integer(
    "metric.sampling.interval.ms",
    5_000,
    "How long rates are watched for a plan. A model is made anew for each request.",
    between(100, 600_000),
)
METRICS_URL: Final = text_or_none(
    "ottla.broker.metrics.url",
    None,
    "Where brokers have their metrics, with {host} and {id} in it. None: rates come from offsets.",
)
CAPACITY_FILE: Final = text_or_none(
    "capacity.config.file", None, "What brokers can take, in Cruise Control's capacity.json."
)
THROTTLE: Final = long(
    "default.replication.throttle",
    50_000_000,
    "The bytes a second that each broker sends, and receives, for moves; 0 for no bound.",
    at_least(0),
    importance=HIGH,
)
MOVES_PER_BROKER: Final = integer(
    "num.concurrent.partition.movements.per.broker",
    10,
    "Replicas that a broker sends or receives at once.",
    between(1, 1_000),
)
MOVES: Final = integer(
    "max.num.cluster.partition.movements", 1_250, "Replicas that move at once.", between(1, 100_000)
)
MAX_REPLICAS: Final = long(
    "max.replicas.per.broker", 10_000, "The most replicas on a broker (hard).", at_least(1)
)
THOROUGH: Final = boolean(
    "ottla.balance.thorough",
    False,
    "Whether soft goals move as many bytes as they want, and not a tenth more than must be moved.",
)
SELF_HEALING: Final = boolean(
    "self.healing.enabled",
    False,
    "Whether anomalies are mended: brokers that stay dead, failed disks, missed goals.",
    importance=HIGH,
)
BROKER_HEALING: Final = boolean.optional(
    "self.healing.broker.failure.enabled", "The same, of brokers alone. None: as self.healing.enabled."
)
DISK_HEALING: Final = boolean.optional(
    "self.healing.disk.failure.enabled", "The same, of disks alone. None: as self.healing.enabled."
)
GOAL_HEALING: Final = boolean.optional(
    "self.healing.goal.violation.enabled",
    "The same, of goals alone; they are only watched where it is on. None: as self.healing.enabled.",
)
DETECTED_GOALS: Final = string_list(
    "anomaly.detection.goals",
    tuple(goal.title for goal in Goal if goal.hard),
    "The goals that are watched.",
)
MENDED_GOALS: Final = string_list(
    "self.healing.goals", (), "The goals that the plan for a missed one works for. Empty: all."
)
GOAL_INTERVAL_MS: Final = long(
    "goal.violation.detection.interval.ms",
    300_000,
    "How often goals are looked at; each look makes a plan.",
    at_least(1_000),
)
CONFIRMATIONS: Final = integer(
    "ottla.balance.anomaly.confirmations",
    2,
    "Looks in a row at which a disk has failed, or a goal is missed, before it is mended.",
    between(1, 1_000),
)
COOLDOWN_MS: Final = long(
    "ottla.balance.goal.violation.cooldown.ms",
    600_000,
    "Goals are not mended for so long after anything was carried out.",
    at_least(0),
)
DETECTION_BAND: Final = double(
    "goal.violation.distribution.threshold.multiplier",
    1.0,
    "How much wider than for a plan the bands of soft goals are before they count as missed: 2 is twice.",
    between(1.0, 100.0),
)
MOST_FAILED: Final = integer(
    "fixable.failed.broker.count.threshold",
    10,
    "Where more brokers are away at once, nothing is mended.",
    at_least(1),
)
MOST_FAILED_PART: Final = double(
    "fixable.failed.broker.percentage.threshold",
    0.4,
    "The same, as a part of all brokers.",
    between(0.0, 1.0),
)
KEPT_ANOMALIES: Final = integer(
    "num.cached.recent.anomaly.states", 10, "Anomalies of a kind that are listed.", between(1, 1_000)
)
GRACE_MS: Final = long(
    "broker.failure.self.healing.threshold.ms",
    1_800_000,
    "How long a broker may be away before its replicas move.",
    at_least(0),
)
REMOVED_MS: Final = long(
    "removal.history.retention.time.ms",
    1_209_600_000,
    "For how long a broker that was removed counts as recently removed: other plans give it no replicas.",
    at_least(0),
)
DEMOTED_MS: Final = long(
    "demotion.history.retention.time.ms",
    1_209_600_000,
    "For how long a broker that was demoted counts as recently demoted.",
    at_least(0),
)
DISK_CAPACITY: Final = double(
    "disk.capacity.threshold", 0.8, "The part of the disk that may be used (hard).", between(0.01, 1)
)
NW_IN_CAPACITY: Final = double(
    "network.inbound.capacity.threshold", 0.8, "As for the disk, of the network in.", between(0.01, 1)
)
NW_OUT_CAPACITY: Final = double(
    "network.outbound.capacity.threshold", 0.8, "As for the disk, of the network out.", between(0.01, 1)
)
CPU_CAPACITY: Final = double(
    "cpu.capacity.threshold", 0.7, "As for the disk, of the processors.", between(0.01, 1)
)
_BAND: Final = between(1.0, 10.0)
DISK_BAND: Final = double(
    "disk.balance.threshold",
    1.1,
    "How far from its share a broker's disk may be: 1.1 is 10 % above and below (soft).",
    _BAND,
)
NW_IN_BAND: Final = double(
    "network.inbound.balance.threshold", 1.1, "As for the disk, of the network in.", _BAND, importance=LOW
)
NW_OUT_BAND: Final = double(
    "network.outbound.balance.threshold", 1.1, "As for the disk, of the network out.", _BAND, importance=LOW
)
CPU_BAND: Final = double(
    "cpu.balance.threshold", 1.1, "As for the disk, of the processors.", _BAND, importance=LOW
)
REPLICAS_BAND: Final = double(
    "replica.count.balance.threshold", 1.1, "As for the disk, of the replicas.", _BAND, importance=LOW
)
LEADERS_BAND: Final = double(
    "leader.replica.count.balance.threshold", 1.1, "As for the disk, of the leaders.", _BAND, importance=LOW
)

CLIENT_PREFIX: Final = "client."

TABLE: Final = Table(
    title="ottla balance serve",
    settings=by_name((*globals().values(), *FRONT_SETTINGS)),
    prefixes=(CLIENT_PREFIX,),
    variables="OTTLA_BALANCE_",
    base_name=base_name,
    unsupported=merged((http_settings.UNSUPPORTED, unsupported_properties((CLIENT_PREFIX,)))),
)


def rules_of(settings: Settings) -> Rules:
    """The limits of the goals."""
    return Rules(
        usable={
            Dimension.DISK: settings[DISK_CAPACITY],
            Dimension.NW_IN: settings[NW_IN_CAPACITY],
            Dimension.NW_OUT: settings[NW_OUT_CAPACITY],
            Dimension.CPU: settings[CPU_CAPACITY],
        },
        max_replicas=settings[MAX_REPLICAS],
        band={
            **dict.fromkeys(Dimension, 1.1),
            Dimension.DISK: settings[DISK_BAND],
            Dimension.NW_IN: settings[NW_IN_BAND],
            Dimension.NW_OUT: settings[NW_OUT_BAND],
            Dimension.CPU: settings[CPU_BAND],
            Dimension.REPLICAS: settings[REPLICAS_BAND],
            Dimension.LEADERS: settings[LEADERS_BAND],
        },
        extra=None if settings[THOROUGH] else 0.1,
    )


def detector_of(settings: Settings) -> DetectorOptions:
    """What is watched, and mended."""
    switches = {
        AnomalyKind.BROKER_FAILURE: settings[BROKER_HEALING],
        AnomalyKind.DISK_FAILURE: settings[DISK_HEALING],
        AnomalyKind.GOAL_VIOLATION: settings[GOAL_HEALING],
    }
    usual = settings[SELF_HEALING]
    return DetectorOptions(
        healed=frozenset(kind for kind, on in switches.items() if (usual if on is None else on)),
        grace_ms=settings[GRACE_MS],
        most_failed=settings[MOST_FAILED],
        most_failed_part=settings[MOST_FAILED_PART],
        goal_interval_ms=settings[GOAL_INTERVAL_MS],
        confirmations=settings[CONFIRMATIONS],
        cooldown_ms=settings[COOLDOWN_MS],
        kept=settings[KEPT_ANOMALIES],
    )


def detected_goals_of(settings: Settings) -> frozenset[Goal]:
    """The goals that are watched. Raises ConfigError for one that there is not."""
    return _goals(settings, DETECTED_GOALS.name, settings[DETECTED_GOALS])


def mended_goals_of(settings: Settings) -> frozenset[Goal]:
    """The goals that a plan for a missed one works for. Raises ConfigError for one that there is not."""
    return _goals(settings, MENDED_GOALS.name, settings[MENDED_GOALS])


def _goals(settings: Settings, name: str, titles: tuple[str, ...]) -> frozenset[Goal]:
    try:
        return goals_named(titles, skip_hard_goal_check=True)
    except GoalError as problem:
        raise settings.refusal(name, str(problem)) from None


def watched_rules_of(settings: Settings) -> Rules:
    """The limits by which goals count as missed."""
    rules, wider = rules_of(settings), settings[DETECTION_BAND]
    return replace(rules, band={one: 1 + (band - 1) * wider for one, band in rules.band.items()})


def reading_of(settings: Settings) -> ReadOptions:
    """How the cluster is read. Raises ConfigError for a file of capacities that can't be read."""
    path = settings[CAPACITY_FILE]
    try:
        capacities = {} if path is None else read_capacities(Path(path))
    except CapacityError as problem:
        raise settings.refusal(CAPACITY_FILE.name, str(problem)) from None
    return ReadOptions(settings[SAMPLING_MS] / 1_000, capacities, settings[METRICS_URL])


def running_of(settings: Settings) -> RunOptions:
    """How plans are carried out."""
    return RunOptions(settings[MOVES_PER_BROKER], settings[MOVES], settings[THROTTLE] or None)
