"""Whether a subject may have a schema as its next version, told in Confluent's messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ottla.services.registry.image import StoredSchema
from ottla.services.registry.matching import Prepared
from ottla.services.registry.reserved_fields import reserved_field_problems
from ottla.services.registry.schema_parsing import SchemaParser
from ottla.services.registry.scoped import Scoped
from ottla.services.schemas.compatibility import first_incompatible
from ottla.services.schemas.format import Incompatibility, ParsedSchema
from ottla.services.schemas.model import CompatibilityLevel, Metadata

MAX_MESSAGES: Final = 100
MAX_OLD_SCHEMA: Final = 16_384
"""Characters of the older schema that a message repeats."""


class CompatibilityCheck:
    """By the level, policy and group that are configured for the subject."""

    def __init__(self, parser: SchemaParser, scoped: Scoped) -> None:
        self._parser = parser
        self._scoped = scoped

    def messages(self, prepared: Prepared, newest_first: Iterable[StoredSchema]) -> list[str]:
        """Why the schema can't follow these versions; none when it can. Raises ApiError 42201.

        With a compatibility group, versions of other groups do not count: those whose metadata has another
        value for the property that the group names, or none.
        """
        config = self._scoped.config(prepared.subject)
        level = self._scoped.level(prepared.subject)
        group = config.compatibility_group
        if group:
            mine = _property(prepared.schema.metadata, group)
            newest_first = (one for one in newest_first if _property(one.schema.metadata, group) == mine)
        versions = list(newest_first)
        if config.validate_fields:
            last = versions[0].schema.metadata if versions else None
            reserved = reserved_field_problems(prepared.parsed, prepared.schema.metadata, last)
            if reserved:
                return [*map(_message, reserved[:MAX_MESSAGES]), _setting(True, level)]
        found = first_incompatible(
            level, prepared.parsed, self._parsed(versions), self._scoped.policy(prepared.subject)
        )
        if found is None:
            return []
        old, problems = found
        text = old.schema.text
        return [
            *map(_message, problems[:MAX_MESSAGES]),
            f"{{oldSchemaVersion: {old.version}}}",
            f"{{oldSchema: '{text if len(text) <= MAX_OLD_SCHEMA else text[:MAX_OLD_SCHEMA] + '…'}'}}",
            _setting(bool(config.validate_fields), level),
        ]

    def _parsed(self, versions: Iterable[StoredSchema]) -> Iterator[tuple[StoredSchema, ParsedSchema]]:
        for stored in versions:
            yield stored, self._parser.parse_stored(stored)


def _message(problem: Incompatibility) -> str:
    return (
        f"{{errorType:'{problem.type}', description:'{problem.description}', "
        f"additionalInfo:'{problem.additional_info}'}}"
    )


def _setting(validate_fields: bool, level: CompatibilityLevel) -> str:
    return f"{{validateFields: '{'true' if validate_fields else 'false'}', compatibility: '{level}'}}"


def _property(metadata: Metadata | None, name: str) -> str | None:
    return None if metadata is None or metadata.properties is None else metadata.properties.get(name)
