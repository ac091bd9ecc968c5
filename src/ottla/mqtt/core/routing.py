"""Which Kafka topic a message goes to, and under which key.

A route is a filter of topics and the Kafka topic of all that it matches, or an expression that matches the
whole of a topic, as Confluent's proxy has them. The first that matches counts.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.mqtt.core.topics import is_filter, matches

KEPT_TOPICS: Final = 10_000
"""Topics whose routes are remembered; when there are more, all are looked up anew."""
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_LEVEL: Final = re.compile(r"level:([1-9][0-9]{0,2})")


class UnusableRoute(ValueError):
    """A route or a rule of keys that can't be read; one line that says why."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where messages go. levels: of the filter; expression: in its place. Exactly one is there."""

    kafka_topic: str
    levels: tuple[str, ...] = ()
    expression: re.Pattern[str] | None = None

    @classmethod
    def parse(cls, text: str) -> Route:
        """Parse FILTER=TOPIC. Raises UnusableRoute."""
        filter_, equals, topic = text.rpartition("=")
        if not equals or not filter_:
            raise UnusableRoute(f"{text!r} is not FILTER=TOPIC, as in 'sensors/#=readings'")
        if not is_filter(filter_) or filter_.startswith("$share/"):
            raise UnusableRoute(f"{filter_!r} is not a filter of MQTT topics, as in 'sensors/+/temperature'")
        return cls(_kafka_topic(topic), tuple(filter_.split("/")))

    @classmethod
    def parse_expression(cls, text: str) -> Route:
        """Parse TOPIC:EXPRESSION, as Confluent's proxy has it. Raises UnusableRoute."""
        topic, colon, expression = text.partition(":")
        if not colon or not expression:
            raise UnusableRoute(f"{text!r} is not TOPIC:EXPRESSION, as in 'readings:sensors/.*'")
        try:
            return cls(_kafka_topic(topic), (), re.compile(expression))
        except re.error as problem:
            raise UnusableRoute(f"{expression!r} is not a regular expression: {problem}") from None

    def takes(self, topic: str) -> bool:
        """Whether a message with this topic goes this way."""
        if self.expression is not None:
            return self.expression.fullmatch(topic) is not None
        return matches(self.levels, topic)


def _kafka_topic(text: str) -> str:
    if not _TOPIC_NAME.fullmatch(text) or text in (".", ".."):
        raise UnusableRoute(f"{text!r} can't be the name of a Kafka topic")
    return text


class Routing:
    """All routes of a service, the first ones first."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes: Sequence[Route] = tuple(routes)
        self._kept: dict[str, str | None] = {}

    @property
    def kafka_topics(self) -> Sequence[str]:
        """The topics that messages go to, each once."""
        return tuple(dict.fromkeys(each.kafka_topic for each in self.routes))

    def kafka_topic(self, topic: str) -> str | None:
        """Where a message with this topic goes; None for nowhere."""
        try:
            return self._kept[topic]
        except KeyError:
            pass
        found = next((each.kafka_topic for each in self.routes if each.takes(topic)), None)
        if len(self._kept) >= KEPT_TOPICS:
            self._kept.clear()
        self._kept[topic] = found
        return found


class KeyPart(enum.StrEnum):
    """What of a message is its record's key."""

    TOPIC = "topic"
    CLIENT_ID = "client-id"
    LEVEL = "level"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class KeyRule:
    """How records get their keys. level: its number from 1, for LEVEL."""

    part: KeyPart
    level: int = 0

    @classmethod
    def parse(cls, text: str) -> KeyRule:
        """Parse `topic`, `client-id`, `level:N` or `none`. Raises UnusableRoute."""
        level = _LEVEL.fullmatch(text)
        if level is not None:
            return cls(KeyPart.LEVEL, int(level[1]))
        if text in KeyPart.__members__.values() and text != KeyPart.LEVEL:
            return cls(KeyPart(text))
        raise UnusableRoute(f"{text!r} is not topic, client-id, level:N or none")

    def key(self, topic: str, client_id: str) -> bytes | None:
        """The key of a record; None for a topic without that level."""
        match self.part:
            case KeyPart.TOPIC:
                return topic.encode()
            case KeyPart.CLIENT_ID:
                return client_id.encode()
            case KeyPart.LEVEL:
                levels = topic.split("/")
                return levels[self.level - 1].encode() if len(levels) >= self.level else None
            case KeyPart.NONE:
                return None
