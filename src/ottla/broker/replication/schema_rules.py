"""Which schemas a topic's keys and values must name: those under a subject of the topic's strategy."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.config.setting import Config
from ottla.core.settings.schema_validation_settings import (
    KEY_SCHEMA_VALIDATION,
    KEY_SUBJECT_NAME_STRATEGY,
    RECORD_NAME_STRATEGY,
    TOPIC_NAME_STRATEGY,
    VALUE_SCHEMA_VALIDATION,
    VALUE_SUBJECT_NAME_STRATEGY,
)


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """A schema of the registry. `record_names` are empty unless they were asked for."""

    subjects: frozenset[str]
    record_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartRule:
    """The rule for keys (or values) of a topic: they name a schema under a subject made by `strategy`."""

    topic: str
    part: str
    strategy: str

    @property
    def needs_record_names(self) -> bool:
        """Whether the subject depends on the name of the schema's record."""
        return self.strategy != TOPIC_NAME_STRATEGY

    def accepts(self, known: KnownSchema | None) -> bool:
        """Whether the schema, None for one that the registry doesn't know, is under the right subject."""
        return known is not None and not known.subjects.isdisjoint(self._subjects(known))

    def _subjects(self, known: KnownSchema) -> tuple[str, ...]:
        if self.strategy == TOPIC_NAME_STRATEGY:
            return (f"{self.topic}-{self.part}",)
        if self.strategy == RECORD_NAME_STRATEGY:
            return known.record_names
        return tuple(f"{self.topic}-{name}" for name in known.record_names)

    def describe(self) -> str:
        """The subject for messages."""
        if self.strategy == TOPIC_NAME_STRATEGY:
            return f"the subject {self.topic}-{self.part}"
        if self.strategy == RECORD_NAME_STRATEGY:
            return "the subject of its record's name"
        return f"the subject {self.topic}-<name of its record>"


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """A topic's rules for its records; None for a part without a rule."""

    key: PartRule | None
    value: PartRule | None


def schema_rules(topic: str, config: Config) -> SchemaRules | None:
    """The rules of the topic's settings; None without any."""
    key = value = None
    if config[KEY_SCHEMA_VALIDATION]:
        key = PartRule(topic, "key", config[KEY_SUBJECT_NAME_STRATEGY])
    if config[VALUE_SCHEMA_VALIDATION]:
        value = PartRule(topic, "value", config[VALUE_SUBJECT_NAME_STRATEGY])
    return SchemaRules(key, value) if key or value else None
