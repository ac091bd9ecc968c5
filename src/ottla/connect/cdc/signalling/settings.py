"""The settings of signals, incremental snapshots and notifications: Debezium's names and defaults."""

from __future__ import annotations

import enum
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.config.setting import LOW, boolean, choice, integer, long, string, string_list
from ottla.config.settings import Settings
from ottla.config.validators import ListOf, at_least, between, not_empty

SOURCE: Final = "source"
KAFKA: Final = "kafka"
FILE: Final = "file"
SINK: Final = "sink"
LOG: Final = "log"
CONSUMER_PREFIX: Final = "signal.consumer."
WORKER_PREFIX: Final = "ottla.kafka."
"""Under it the host hands over how the worker's own consumers reach the cluster."""
PREFIXES: Final = (CONSUMER_PREFIX, WORKER_PREFIX)
_BOOTSTRAP: Final = "bootstrap.servers"


class Watermarking(enum.StrEnum):
    """Which marks of a window stand in the signal table in the end."""

    INSERT_INSERT = "insert_insert"
    INSERT_DELETE = "insert_delete"


COLLECTION: Final = string.optional(
    "signal.data.collection",
    "The table whose new rows are signals, with the columns id, type and data: schema.table. The marks of "
    "incremental snapshots are written there.",
)
CHANNELS: Final = string_list(
    "signal.enabled.channels",
    (SOURCE,),
    "From where signals are taken: source (the signal table), kafka (a topic), file.",
    ListOf((SOURCE, KAFKA, FILE)),
)
POLL_INTERVAL_MS: Final = long(
    "signal.poll.interval.ms", 5_000, "How often topic and file are looked at.", at_least(1)
)
TOPIC: Final = string.optional(
    "signal.kafka.topic",
    "The topic of signals, of one partition; keys are topic.prefix. By default topic.prefix and -signal.",
)
BOOTSTRAP: Final = string.optional(
    "signal.kafka.bootstrap.servers", "Where that topic is. By default the worker's own cluster."
)
GROUP: Final = string(
    "signal.kafka.groupId", "kafka-signal", "The group that has a copy of the place in that topic.", not_empty
)
POLL_TIMEOUT_MS: Final = integer(
    "signal.kafka.poll.timeout.ms",
    0,
    "How long to wait for signals of the topic.",
    at_least(0),
    importance=LOW,
)
FILENAME: Final = string("signal.file", "file-signals.txt", "The file of signals, one a line.", not_empty)
CHUNK_SIZE: Final = integer(
    "incremental.snapshot.chunk.size",
    1024,
    "The rows that an incremental snapshot reads at once.",
    between(1, 1_000_000),
)
WATERMARKING: Final = choice(Watermarking)(
    "incremental.snapshot.watermarking.strategy",
    Watermarking.INSERT_INSERT,
    "Whether a window's end is a second row of the signal table, or the first one's removal.",
)
READ_ONLY: Final = boolean(
    "read.only",
    False,
    "Whether nothing is written into the database: windows end at places of its log then, as they do without "
    "a signal table.",
)
NOTIFICATIONS: Final = string_list(
    "notification.enabled.channels",
    (),
    "Where the steps of snapshots are told: sink (a topic), log.",
    ListOf((SINK, LOG)),
)
NOTIFICATION_TOPIC: Final = string.optional(
    "notification.sink.topic.name", "The topic of notifications; sink needs it."
)


def signal_topic(settings: Settings, prefix: str) -> str:
    """The topic of a connector's signals."""
    return settings[TOPIC] or f"{prefix}-signal"


def signal_access(settings: Settings) -> ClusterAccess:
    """How the topic of signals is reached. Raises ConfigError."""
    own = settings.with_prefix(CONSUMER_PREFIX)
    given = settings[BOOTSTRAP]
    if given:
        return ClusterAccess(given, own)
    inherited = settings.with_prefix(WORKER_PREFIX)
    bootstrap = inherited.pop(_BOOTSTRAP, None)
    if bootstrap is None:
        raise settings.refusal(BOOTSTRAP.name, "it must say where the topic of signals is")
    return ClusterAccess(bootstrap, {**inherited, **own})


def check(settings: Settings) -> None:
    """What settings say together. Raises ConfigError."""
    if SINK in settings[NOTIFICATIONS] and not settings[NOTIFICATION_TOPIC]:
        raise settings.refusal(NOTIFICATION_TOPIC.name, "the channel sink needs the name of a topic")
