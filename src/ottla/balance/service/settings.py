"""The settings of `ottla balance serve`: Cruise Control's have their names there.

Other settings that begin with `client.` go, without that prefix, to the Kafka client.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ottla.balance.capacities import CapacityError, read_capacities
from ottla.balance.core.model import Dimension, Rules
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
    "Where ottla's brokers have their metrics, with {host} and {id} in it. None: rates come from offsets.",
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
    "self.healing.enabled", False, "Whether replicas move off brokers that stay dead.", importance=HIGH
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
