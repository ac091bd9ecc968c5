"""The settings of Connect's own that tasks obey, of the worker and of a connector, by Connect's names.

Which values the REST API accepts is the worker's decision; a value that can't be ends the task with the same
words here.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import (
    Table,
    boolean,
    by_name,
    choice,
    integer,
    long,
    short,
    string,
    string_list,
)
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.config.validators import at_least
from ottla.connect.host.clients import access
from ottla.connect.host.messages import Start
from ottla.connect.plugins.definitions import (
    BOUNDARY_INTERVAL,
    DEAD_LETTER_HEADERS,
    DEAD_LETTER_REPLICAS,
    DEAD_LETTERS,
    LOG_ENABLE,
    LOG_MESSAGES,
    RETRY_TIMEOUT,
)


class Tolerance(enum.StrEnum):
    """errors.tolerance: whether a record that can't be processed ends the task."""

    NONE = "none"
    ALL = "all"


class Boundary(enum.StrEnum):
    """transaction.boundary: where the transaction of an exactly-once source ends."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


EXACTLY_ONCE: Final = "exactly.once.source.support"
OFFSETS_TOPIC: Final = "offset.storage.topic"
OFFSETS_FILE: Final = "offset.storage.file.filename"
CONNECTOR_OFFSETS_TOPIC: Final = "offsets.storage.topic"

FLUSH_INTERVAL_MS: Final = long(
    "offset.flush.interval.ms", 60_000, "How often tasks commit their offsets.", at_least(1)
)
FLUSH_TIMEOUT_MS: Final = long(
    "offset.flush.timeout.ms", 5_000, "How long records may take to be acknowledged.", at_least(1)
)
TOPIC_CREATION: Final = boolean(
    "topic.creation.enable", True, "Whether source connectors create topics by their own settings."
)
OFFSETS_PARTITIONS: Final = integer("offset.storage.partitions", 25, "The partitions of the offsets topic.")
OFFSETS_REPLICAS: Final = short("offset.storage.replication.factor", 3, "The replicas of the offsets topic.")

TOLERANCE: Final = choice(Tolerance)(
    "errors.tolerance", Tolerance.NONE, "Whether records that can't be processed are skipped."
)
RETRY_DELAY_MAX_MS: Final = long(
    "errors.retry.delay.max.ms", 60_000, "The longest pause between two attempts.", at_least(1)
)
BOUNDARY: Final = choice(Boundary)(
    "transaction.boundary", Boundary.POLL, "Where the transactions of an exactly-once source end."
)
TOPICS: Final = string_list("topics", (), "The topics of a sink.")
TOPICS_REGEX: Final = string("topics.regex", "", "The pattern of a sink's topics.")
CREATION_GROUPS: Final = string_list("topic.creation.groups", (), "Groups of topics to create.")

# With those of `definitions`, which a task takes as they were judged.
_TABLE: Final = Table("a task of Connect", by_name((*globals().values(), BOUNDARY_INTERVAL)))


@dataclass(frozen=True, slots=True)
class ErrorSettings:
    """How a task treats records that fail (KIP-298)."""

    tolerance: Tolerance
    retry_timeout_ms: int
    retry_delay_max_ms: int
    log: bool
    log_messages: bool
    dead_letter_topic: str
    dead_letter_replicas: int
    dead_letter_headers: bool


def worker_settings(start: Start) -> Settings:
    """The worker's settings. Raises ConfigError."""
    return Settings(_TABLE, from_mapping(start.worker))


def connector_settings(start: Start) -> Settings:
    """The connector's settings, without its plugin's own. Raises ConfigError."""
    return Settings(_TABLE, from_mapping(start.config))


def plugin_settings(table: Table, start: Start) -> Settings:
    """The settings of a connector's class. Raises ConfigError.

    Under `ottla.` it finds what tells its runs apart: `ottla.task`, `ottla.fence`, `ottla.generation`; and
    under `ottla.kafka.` how consumers of the worker's cluster reach it.
    """
    where = access(start.worker, start.config, "consumer")
    own = {
        "ottla.kafka.bootstrap.servers": where.bootstrap,
        **{f"ottla.kafka.{name}": value for name, value in where.properties.items()},
        "ottla.task": str(start.run.task),
        "ottla.fence": str(start.fence),
        "ottla.generation": start.worker.get("ottla.generation", "0"),
    }
    return Settings(table, from_mapping({**start.config, **own}))


def error_settings(settings: Settings) -> ErrorSettings:
    """The settings of a connector's errors."""
    return ErrorSettings(
        settings[TOLERANCE],
        settings[RETRY_TIMEOUT],
        settings[RETRY_DELAY_MAX_MS],
        settings[LOG_ENABLE],
        settings[LOG_MESSAGES],
        settings[DEAD_LETTERS].strip(),
        settings[DEAD_LETTER_REPLICAS],
        settings[DEAD_LETTER_HEADERS],
    )


def topics_of(settings: Settings) -> tuple[str, ...] | re.Pattern[str]:
    """The topics of a sink, or their pattern. Raises ConfigError."""
    topics, pattern = settings[TOPICS], settings[TOPICS_REGEX]
    if bool(topics) == bool(pattern):
        raise ConfigError(
            "Must configure one of topics or topics.regex"
            if not topics
            else "topics and topics.regex are mutually exclusive options, but both are set."
        )
    dead = settings[DEAD_LETTERS].strip()
    if not pattern:
        if dead in topics:
            raise ConfigError(
                f"The DLQ topic '{dead}' may not be included in the list of topics ({TOPICS.name}={topics}) "
                "consumed by the connector"
            )
        return topics
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as problem:
        raise ConfigError(f"topics.regex={pattern}: it is no regular expression: {problem}") from None
    if dead and compiled.fullmatch(dead):
        raise ConfigError(
            f"The DLQ topic '{dead}' may not be included in the regex matching topics "
            f"({TOPICS_REGEX.name}={pattern}) consumed by the connector"
        )
    return compiled


def exactly_once(worker: Mapping[str, Any]) -> bool:
    """Whether the worker's sources write exactly once."""
    return str(worker.get(EXACTLY_ONCE, "disabled")).strip().lower() == "enabled"
