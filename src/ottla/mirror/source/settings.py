"""The settings of MirrorSource, by MirrorMaker 2's names, and a few of our own for what it lacks."""

from __future__ import annotations

from typing import Final

from ottla.config.setting import (
    HIGH,
    LOW,
    Table,
    boolean,
    by_name,
    class_name,
    integer,
    long,
    short,
    string,
    string_list,
)
from ottla.config.settings import Settings
from ottla.config.validators import OneOf, at_least
from ottla.mirror import settings as flow_settings
from ottla.mirror.core.patterns import Patterns, Selection, Selections
from ottla.mirror.settings import EXPRESSIONS, PACKAGE, PREFIXES

TOPIC_FILTER_NAME: Final = f"{PACKAGE}DefaultTopicFilter"
PROPERTY_FILTER_NAME: Final = f"{PACKAGE}DefaultConfigPropertyFilter"
_MINUTES: Final = 600

TOPICS: Final = string_list(
    "topics", (".*",), "Topics to copy: names and regular expressions.", EXPRESSIONS, importance=HIGH
)
TOPICS_EXCLUDE: Final = string_list(
    "topics.exclude",
    (r".*[\-\.]internal", r".*\.replica", "__.*"),
    "Topics that are not copied; this goes before `topics`.",
    EXPRESSIONS,
    importance=HIGH,
)
PROPERTIES_EXCLUDE: Final = string_list(
    "config.properties.exclude",
    (
        r"follower\.replication\.throttled\.replicas",
        r"leader\.replication\.throttled\.replicas",
        r"message\.timestamp\.difference\.max\.ms",
        r"message\.timestamp\.type",
        r"unclean\.leader\.election\.enable",
        r"min\.insync\.replicas",
    ),
    "Settings of topics that are not followed.",
    EXPRESSIONS,
    importance=HIGH,
)
DEFAULTS_FROM: Final = string(
    "use.defaults.from",
    "target",
    "Whose default a topic's setting gets that has the default on the source: target or source.",
    OneOf(("target", "source")),
)
TOPIC_FILTER: Final = class_name(
    "topic.filter.class",
    TOPIC_FILTER_NAME,
    "Selects topics; there is this one.",
    OneOf((TOPIC_FILTER_NAME,)),
    importance=LOW,
)
PROPERTY_FILTER: Final = class_name(
    "config.property.filter.class",
    PROPERTY_FILTER_NAME,
    "Selects settings of topics; there is this one.",
    OneOf((PROPERTY_FILTER_NAME,)),
    importance=LOW,
)
POLL_TIMEOUT_MS: Final = long(
    "consumer.poll.timeout.ms",
    1_000,
    "How long the source may wait for records before it answers a fetch.",
    at_least(0),
    importance=LOW,
)
REFRESH_TOPICS: Final = boolean(
    "refresh.topics.enabled",
    True,
    "Whether new topics and partitions of the source are looked for.",
    importance=LOW,
)
REFRESH_TOPICS_SECONDS: Final = long(
    "refresh.topics.interval.seconds", _MINUTES, "How often that is done.", at_least(1), importance=LOW
)
SYNC_CONFIGS: Final = boolean(
    "sync.topic.configs.enabled",
    True,
    "Whether the settings of topics on the target follow those on the source.",
    importance=LOW,
)
SYNC_CONFIGS_SECONDS: Final = long(
    "sync.topic.configs.interval.seconds", _MINUTES, "How often that is done.", at_least(1), importance=LOW
)
SYNC_ACLS: Final = boolean(
    "sync.topic.acls.enabled",
    True,
    "Whether the rights to read topics on the target follow those on the source.",
    importance=LOW,
)
SYNC_ACLS_SECONDS: Final = long(
    "sync.topic.acls.interval.seconds", _MINUTES, "How often that is done.", at_least(1), importance=LOW
)
REPLICATION_FACTOR: Final = integer(
    "replication.factor", 2, "The replicas of new topics on the target.", at_least(-1), importance=LOW
)
SYNCS_REPLICAS: Final = short(
    "offset-syncs.topic.replication.factor",
    3,
    "The replicas of the topic of offset syncs.",
    at_least(-1),
    importance=LOW,
)
OFFSET_LAG_MAX: Final = long(
    "offset.lag.max",
    100,
    "How many records a partition may be ahead of its last offset sync.",
    at_least(0),
    importance=LOW,
)
HEARTBEATS: Final = boolean(
    "heartbeats.replication.enabled",
    True,
    "Whether topics of heartbeats are copied, whatever `topics` says.",
    importance=LOW,
)
BANDWIDTH: Final = long(
    "ottla.bandwidth.limit.bytes.per.second",
    0,
    "The most bytes that each task fetches from the source in a second, as they lie there, compressed; 0: no "
    "limit.",
    at_least(0),
    importance=LOW,
)
COMMIT_INTERVAL_MS: Final = long(
    "ottla.commit.interval.ms",
    200,
    "How long a transaction with copied records lasts while there are more of them. It ends at once where "
    "the task has caught up.",
    at_least(1),
    importance=LOW,
)

TABLE: Final = Table(
    "MirrorSource",
    by_name((*flow_settings.BASE, *globals().values())),
    prefixes=PREFIXES,
)


def selections_of(settings: Settings) -> Selections:
    """The selections of a connector, whose patterns were checked."""
    return Selections(
        Selection(Patterns.of(settings[TOPICS]), Patterns.of(settings[TOPICS_EXCLUDE])),
        Patterns.of(settings[PROPERTIES_EXCLUDE]),
    )
