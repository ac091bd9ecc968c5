"""The settings of `ottla lag serve`: Burrow's have their names there, with dots, and units in the names.

Other settings that begin with `client.` go, without that prefix, to the Kafka client.
"""

from __future__ import annotations

import enum
import re
from typing import Final

from ottla.client.access import DEFAULT_BOOTSTRAP
from ottla.client.java_names import unsupported_properties
from ottla.config.setting import (
    HIGH,
    LOW,
    Password,
    Setting,
    Table,
    boolean,
    by_name,
    choice,
    double,
    integer,
    long,
    password,
    string,
    text_or_none,
)
from ottla.config.settings import Settings
from ottla.config.unsupported import merged
from ottla.config.validators import at_least, between, not_empty
from ottla.lag.core.incidents import NoticeRules
from ottla.lag.core.tracker import Rules
from ottla.lag.core.verdicts import Status
from ottla.lag.sampler import Filter, SamplerOptions
from ottla.web import http_settings
from ottla.web.front_settings import FRONT_SETTINGS
from ottla.web.http_settings import listeners_setting
from ottla.web.tls_settings import base_name


class Isolation(enum.StrEnum):
    """Up to which end groups read, in the words of Kafka's consumers."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class Source(enum.StrEnum):
    """Where commits are read."""

    TOPIC = "topic"
    GROUPS = "groups"


class Threshold(enum.StrEnum):
    """The least status of a group that is told."""

    WARN = "WARN"
    ERR = "ERR"


DEFAULT_LISTEN: Final = "127.0.0.1:8000"

BOOTSTRAP_SERVERS: Final = string(
    "bootstrap.servers", DEFAULT_BOOTSTRAP, "The cluster.", not_empty, importance=HIGH
)
LISTENERS: Final = listeners_setting(DEFAULT_LISTEN)
LISTENER_PROTOCOL_MAP: Final = http_settings.LISTENER_PROTOCOL_MAP
PORT: Final = http_settings.PORT
CLUSTER_NAME: Final = string(
    "cluster.name", "local", "The name of the cluster in paths and metrics.", not_empty, importance=HIGH
)
GROUP_ALLOWLIST: Final = text_or_none(
    "group.allowlist", None, "An expression: only groups in whose names it is found are watched."
)
GROUP_DENYLIST: Final = text_or_none(
    "group.denylist", None, "An expression: groups in whose names it is found are not watched."
)
TOPIC_ALLOWLIST: Final = text_or_none(
    "topic.allowlist", None, "An expression: only topics in whose names it is found are watched."
)
TOPIC_DENYLIST: Final = text_or_none(
    "topic.denylist", None, "An expression: topics in whose names it is found are not watched."
)
COMMITS_SOURCE: Final[Setting[Source]] = choice(Source)(
    "commits.source",
    Source.TOPIC,
    "topic: commits are read in __consumer_offsets, with their times. groups, and where the topic can't be "
    "read: each change of a group's offset from one round to the next counts as a commit.",
)
ISOLATION: Final[Setting[Isolation]] = choice(Isolation)(
    "isolation.level",
    Isolation.READ_UNCOMMITTED,
    "The end that lag counts up to: the high watermark, or the last stable offset.",
)
OFFSET_REFRESH_MS: Final = integer(
    "offset.refresh.ms", 10_000, "From the beginning of a round to that of the next.", between(100, 3_600_000)
)
TOPIC_REFRESH_MS: Final = integer(
    "topic.refresh.ms",
    60_000,
    "How often topics, and the members of groups, are looked up.",
    between(100, 3_600_000),
)
LOOKBACK_MS: Final = long(
    "commits.lookback.ms",
    600_000,
    "How far back commits are read at the start. A group that is behind without one since then has stopped.",
    at_least(0),
    importance=LOW,
)
RECORDS_A_ROUND: Final = integer(
    "records.per.round",
    1_000,
    "The most records that a round looks at, to learn how long they have waited, and whether there is any. "
    "0: times come from the ends of logs alone.",
    between(0, 100_000),
    importance=LOW,
)
INTERVALS: Final = integer("intervals", 10, "The commits of a window, and the ends.", between(1, 1_000))
MIN_DISTANCE_MS: Final = long(
    "min.distance.ms", 0, "A commit sooner after the one before takes its place in the window.", at_least(0)
)
EXPIRE_GROUP_MS: Final = long(
    "expire.group.ms", 604_800_000, "Groups without a commit for so long are forgotten.", at_least(1)
)
ALLOWED_LAG: Final = long("allowed.lag", 0, "A partition with no larger lag is OK.", at_least(0))
MINIMUM_COMPLETE: Final = double(
    "minimum.complete", 0.0, "A partition whose window is filled less, from 0 to 1, is OK.", between(0, 1)
)
NOTIFIER_URL: Final = text_or_none(
    "notifier.http.url", None, "Where incidents are told, by POST with JSON. None: in the log alone."
)
NOTIFIER_URL_CLOSE: Final = text_or_none(
    "notifier.http.url.close", None, "Where the ends of incidents are told; by default as their beginnings."
)
NOTIFIER_USER_INFO: Final[Setting[Password | None]] = password.optional(
    "notifier.http.basic.auth.user.info", "The user there, as name:password."
)
NOTIFIER_TIMEOUT_MS: Final = integer(
    "notifier.http.timeout.ms", 5_000, "How long an answer may take.", between(100, 120_000), importance=LOW
)
NOTIFIER_CA: Final = text_or_none(
    "notifier.http.ssl.truststore.location",
    None,
    "The authorities of its certificate, in PEM.",
    importance=LOW,
)
NOTIFIER_THRESHOLD: Final[Setting[Threshold]] = choice(Threshold)(
    "notifier.threshold", Threshold.WARN, "The least status of a group that is told."
)
NOTIFIER_INTERVAL_MS: Final = long(
    "notifier.send.interval.ms", 60_000, "From one message about an incident to the next.", at_least(0)
)
NOTIFIER_ONCE: Final = boolean("notifier.send.once", False, "Whether an incident is told only once.")
NOTIFIER_CLOSE: Final = boolean("notifier.send.close", True, "Whether the end of an incident is told.")

CLIENT_PREFIX: Final = "client."

TABLE: Final = Table(
    title="ottla lag serve",
    settings=by_name((*globals().values(), *FRONT_SETTINGS)),
    prefixes=(CLIENT_PREFIX,),
    variables="OTTLA_LAG_",
    base_name=base_name,
    unsupported=merged((http_settings.UNSUPPORTED, unsupported_properties((CLIENT_PREFIX,)))),
)


def rules_of(settings: Settings) -> Rules:
    """The rules of windows and verdicts that these settings give."""
    return Rules(
        settings[INTERVALS],
        settings[MIN_DISTANCE_MS],
        settings[EXPIRE_GROUP_MS],
        settings[ALLOWED_LAG],
        settings[MINIMUM_COMPLETE],
    )


def sampler_options_of(settings: Settings) -> SamplerOptions:
    """How the cluster is read. Raises ConfigError for an expression that can't be read."""
    return SamplerOptions(
        settings[OFFSET_REFRESH_MS],
        settings[TOPIC_REFRESH_MS],
        settings[LOOKBACK_MS],
        settings[RECORDS_A_ROUND],
        settings[ISOLATION] is Isolation.READ_COMMITTED,
        settings[COMMITS_SOURCE] is Source.TOPIC,
        Filter(_expression(settings, GROUP_ALLOWLIST), _expression(settings, GROUP_DENYLIST)),
        Filter(_expression(settings, TOPIC_ALLOWLIST), _expression(settings, TOPIC_DENYLIST)),
    )


def notice_rules_of(settings: Settings) -> NoticeRules:
    """When incidents are told."""
    return NoticeRules(
        Status[settings[NOTIFIER_THRESHOLD].value],
        settings[NOTIFIER_INTERVAL_MS],
        settings[NOTIFIER_ONCE],
        settings[NOTIFIER_CLOSE],
    )


def _expression(settings: Settings, setting: Setting[str | None]) -> re.Pattern[str] | None:
    text = settings[setting]
    if text is None:
        return None
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as problem:
        raise settings.refusal(setting.name, f"{text!r} is not a regular expression: {problem}") from None
