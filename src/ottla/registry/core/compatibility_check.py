"""Whether a subject may have a schema as its next version, told in Confluent's messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.registry.core.image import StoredSchema
from ottla.registry.core.matching import Prepared
from ottla.registry.core.reserved_fields import reserved_field_problems
from ottla.registry.core.schema_parsing import SchemaParser
from ottla.registry.core.scoped import Scoped
from ottla.registry.workbench import Workbench
from ottla.schemas.compatibility import compared, first_with_problems
from ottla.schemas.format import Incompatibility
from ottla.schemas.model import CompatibilityLevel, CompatibilityPolicy, Metadata

MAX_MESSAGES: Final = 100
MAX_TOLD: Final = 16_384
"""Characters of the older schema, or of a reason, that a message repeats: a place may be long."""


class CompatibilityCheck:
    """Compares by the level, policy and group that are configured for the subject."""

    def __init__(self, parser: SchemaParser, scoped: Scoped, workbench: Workbench) -> None:
        self._parser = parser
        self._scoped = scoped
        self._workbench = workbench

    def messages(self, prepared: Prepared, newest_first: Iterable[StoredSchema]) -> list[str]:
        """Why the schema can't follow these versions; empty when it can. Raises ApiError 42201, PutOff.

        With a compatibility group, versions of other groups do not count: their metadata has another value,
        or none, for the property that the group names.
        """
        config = self._scoped.config(prepared.subject)
        level = self._scoped.level(prepared.subject)
        group = config.compatibility_group
        if group:
            own = _property(prepared.schema.metadata, group)
            newest_first = (one for one in newest_first if _property(one.schema.metadata, group) == own)
        versions = list(newest_first)
        if config.validate_fields:
            last = versions[0].schema.metadata if versions else None
            reserved = reserved_field_problems(prepared.parsed, prepared.schema.metadata, last)
            if reserved:
                return [*map(_message, reserved[:MAX_MESSAGES]), _setting(True, level)]
        policy = self._scoped.policy(prepared.subject)
        mine = self._parser.fingerprint(prepared.subject, prepared.schema, prepared.parsed.canonical_text)
        found = first_with_problems(
            level, versions, lambda stored: self._problems(level, policy, prepared, mine, stored)
        )
        if found is None:
            return []
        old, problems = found
        return [
            *map(_message, problems),
            f"{{oldSchemaVersion: {old.version}}}",
            f"{{oldSchema: '{_shortened(old.schema.text)}'}}",
            _setting(bool(config.validate_fields), level),
        ]

    def _problems(
        self,
        level: CompatibilityLevel,
        policy: CompatibilityPolicy,
        prepared: Prepared,
        mine: bytes,
        stored: StoredSchema,
    ) -> Sequence[Incompatibility]:
        key = ("compared", level, policy, mine, self._parser.fingerprint(stored.subject, stored.schema))
        kept = self._workbench.kept(key)
        if kept is not None:
            found: Sequence[Incompatibility] = kept.told()
            return found
        old, new = self._parser.parse_stored(stored), prepared.parsed
        return self._workbench.done(
            key, lambda effort: _bounded(compared(level, new, old, policy, effort)), weight=_weight
        )


def _bounded(problems: Sequence[Incompatibility]) -> Sequence[Incompatibility]:
    return [
        Incompatibility(each.type, _shortened(each.description), _shortened(each.additional_info))
        for each in problems[:MAX_MESSAGES]
    ]


def _weight(problems: Sequence[Incompatibility]) -> int:
    return sum(len(each.description) + len(each.additional_info) for each in problems)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_TOLD else text[:MAX_TOLD] + "…"


def _message(problem: Incompatibility) -> str:
    return (
        f"{{errorType:'{problem.type}', description:'{problem.description}', "
        f"additionalInfo:'{problem.additional_info}'}}"
    )


def _setting(validate_fields: bool, level: CompatibilityLevel) -> str:
    return f"{{validateFields: '{'true' if validate_fields else 'false'}', compatibility: '{level}'}}"


def _property(metadata: Metadata | None, name: str) -> str | None:
    return None if metadata is None or metadata.properties is None else metadata.properties.get(name)
