"""Lists of patterns: which topics, groups and settings a flow is for, by Java's regular expressions."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.connect.data.java_regex import JavaRegex


@dataclass(frozen=True, slots=True)
class Patterns:
    """Names and expressions, of which one has to match a whole name; an empty list matches nothing."""

    expressions: tuple[JavaRegex, ...]

    @classmethod
    def of(cls, texts: tuple[str, ...]) -> Patterns:
        """Raises BadPattern."""
        return cls(tuple(JavaRegex(each.strip()) for each in texts if each.strip()))

    def match(self, name: str) -> bool:
        """Whether one matches. Raises DataError where an expression takes too long."""
        return any(each.matches(name) for each in self.expressions)


@dataclass(frozen=True, slots=True)
class Selection:
    """What is included and not excluded."""

    included: Patterns
    excluded: Patterns

    def takes(self, name: str) -> bool:
        """Whether a name is selected. Raises DataError."""
        return self.included.match(name) and not self.excluded.match(name)


@dataclass(frozen=True, slots=True)
class Selections:
    """What a flow takes: topics, and settings of topics."""

    topics: Selection
    properties: Patterns

    def follows(self, setting: str) -> bool:
        """Whether a setting of topics is followed. Raises DataError."""
        return not self.properties.match(setting)
