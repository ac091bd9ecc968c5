"""RegexRouter, TimestampRouter and Filter: where a record goes, or that it goes nowhere."""

from __future__ import annotations

from typing import ClassVar, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import HIGH, Table, by_name, string
from ottla.config.settings import Settings
from ottla.connect.data.dates import DatePattern
from ottla.connect.data.java_regex import JavaRegex
from ottla.connect.data.record import Record
from ottla.connect.data.schema import DataError
from ottla.connect.plugins.required import Required, require
from ottla.connect.transforms.common import VERSION
from ottla.connect.transforms.expressions import valid_regex
from ottla.connect.transforms.sides import topic_replaced

REGEX: Final = string.optional(
    "regex",
    "The regular expression that the whole topic has to match.",
    Required(valid_regex),
    importance=HIGH,
)
REPLACEMENT: Final = string.optional(
    "replacement", "The new topic; $1 and ${name} are groups of the expression.", Required(), importance=HIGH
)
TOPIC_FORMAT: Final = string(
    "topic.format",
    "${topic}-${timestamp}",
    "The new topic, with ${topic} for the old one and ${timestamp} for the record's timestamp.",
    importance=HIGH,
)
TIMESTAMP_FORMAT: Final = string(
    "timestamp.format",
    "yyyyMMdd",
    "The pattern of the timestamp, as of java.text.SimpleDateFormat.",
    importance=HIGH,
)


class RegexRouter:
    """See Transform."""

    TABLE: ClassVar[Table] = Table("RegexRouter", by_name((REGEX, REPLACEMENT)))
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""
        self._regex = JavaRegex(require(settings, REGEX))
        self._replacement = require(settings, REPLACEMENT)
        self._last: tuple[str, str] = ("", "")

    def apply(self, record: Record) -> Record:
        """See Transform."""
        topic = record.topic
        if topic != self._last[0] or not topic:
            self._last = topic, self.routed(topic)
        return record if self._last[1] == topic else topic_replaced(record, self._last[1])

    def routed(self, topic: str) -> str:
        """The new topic for one. Raises DataError."""
        if not self._regex.matches(topic):
            return topic
        return self._regex.replace_first(topic, self._replacement)


class TimestampRouter:
    """See Transform."""

    TABLE: ClassVar[Table] = Table("TimestampRouter", by_name((TOPIC_FORMAT, TIMESTAMP_FORMAT)))
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""
        self._format = settings[TOPIC_FORMAT]
        try:
            self._pattern = DatePattern(settings[TIMESTAMP_FORMAT])
        except ValueError as problem:
            raise ConfigError(
                f"Invalid value {settings[TIMESTAMP_FORMAT]} for configuration {TIMESTAMP_FORMAT.name}: "
                f"{problem}"
            ) from None

    def apply(self, record: Record) -> Record:
        """See Transform."""
        if record.timestamp_ms is None:
            raise DataError(f"Timestamp missing on record: topic={record.topic} key={record.key!r:.200}")
        text = self._pattern.format(record.timestamp_ms)
        topic = self._format.replace("${topic}", record.topic).replace("${timestamp}", text)
        return topic_replaced(record, topic)


class Filter:
    """Drops every record that it is given: with a predicate, those for which it holds."""

    TABLE: ClassVar[Table] = Table("Filter", {})
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings) -> None:
        """Nothing is set."""

    def apply(self, record: Record) -> None:
        """See Transform."""
        return
