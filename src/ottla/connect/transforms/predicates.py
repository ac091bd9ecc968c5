"""The predicates: HasHeaderKey, RecordIsTombstone, TopicNameMatches."""

from __future__ import annotations

from typing import ClassVar, Final

from ottla.config.setting import Table, by_name, string
from ottla.config.settings import Settings
from ottla.config.validators import Rule, not_empty
from ottla.connect.data.java_regex import JavaRegex
from ottla.connect.data.record import Record
from ottla.connect.plugins.required import Required, require
from ottla.connect.transforms.common import VERSION
from ottla.connect.transforms.expressions import valid_regex

NAME: Final = string.optional("name", "The header's name.", Required(not_empty))
PATTERN: Final = string.optional(
    "pattern",
    "The regular expression that the whole topic has to match.",
    Required(Rule("a regular expression of Java", lambda text: not_empty(text) or valid_regex(text))),
)


class HasHeaderKey:
    """Holds for records with a header of a name."""

    TABLE: ClassVar[Table] = Table("HasHeaderKey", by_name((NAME,)))
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""
        self._name = require(settings, NAME)

    def test(self, record: Record) -> bool:
        """See Predicate."""
        return any(each.name == self._name for each in record.headers)


class RecordIsTombstone:
    """Holds for records without a value."""

    TABLE: ClassVar[Table] = Table("RecordIsTombstone", {})
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings) -> None:
        """Nothing is set."""

    def test(self, record: Record) -> bool:
        """See Predicate."""
        return record.value is None


class TopicNameMatches:
    """Holds for records whose topic matches an expression."""

    TABLE: ClassVar[Table] = Table("TopicNameMatches", by_name((PATTERN,)))
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""
        self._regex = JavaRegex(require(settings, PATTERN))
        self._last: tuple[str | None, bool] = (None, False)

    def test(self, record: Record) -> bool:
        """See Predicate."""
        if record.topic != self._last[0]:
            self._last = record.topic, self.matches(record.topic)
        return self._last[1]

    def matches(self, topic: str) -> bool:
        """Whether a topic matches. Raises DataError where that takes too long."""
        return self._regex.matches(topic)
