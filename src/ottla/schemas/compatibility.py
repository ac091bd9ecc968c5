"""The seven compatibility levels: with which older versions a schema is compared, in which direction."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from ottla.schemas.effort import Effort
from ottla.schemas.format import Incompatibility, ParsedSchema
from ottla.schemas.model import CompatibilityLevel, CompatibilityPolicy

T = TypeVar("T")

_BACKWARD: Final = frozenset(
    (
        CompatibilityLevel.BACKWARD,
        CompatibilityLevel.BACKWARD_TRANSITIVE,
        CompatibilityLevel.FULL,
        CompatibilityLevel.FULL_TRANSITIVE,
    )
)
_FORWARD: Final = frozenset(
    (
        CompatibilityLevel.FORWARD,
        CompatibilityLevel.FORWARD_TRANSITIVE,
        CompatibilityLevel.FULL,
        CompatibilityLevel.FULL_TRANSITIVE,
    )
)
_TRANSITIVE: Final = frozenset(
    (
        CompatibilityLevel.BACKWARD_TRANSITIVE,
        CompatibilityLevel.FORWARD_TRANSITIVE,
        CompatibilityLevel.FULL_TRANSITIVE,
    )
)

_OTHER_SIDE: Final = {
    "new schema": "old schema",
    "old schema": "new schema",
    "old one": "new one",
    "new one": "old one",
}
_SIDES: Final = re.compile("|".join(_OTHER_SIDE))


def first_with_problems(
    level: CompatibilityLevel,
    newest_first: Iterable[T],
    problems_with: Callable[[T], Sequence[Incompatibility]],
) -> tuple[T, Sequence[Incompatibility]] | None:
    """The first of the versions that a schema can't follow at this level, with the reasons; or None.

    Only as many versions are taken as the level requires.
    """
    if level is CompatibilityLevel.NONE:
        return None
    for version in newest_first:
        problems = problems_with(version)
        if problems:
            return version, problems
        if level not in _TRANSITIVE:
            return None
    return None


def compared(
    level: CompatibilityLevel,
    new: ParsedSchema,
    old: ParsedSchema,
    policy: CompatibilityPolicy = CompatibilityPolicy.STRICT,
    effort: Effort | None = None,
) -> Sequence[Incompatibility]:
    """Why `new` can't follow `old`. Backward, `new` must read data of `old`; forward, `old` data of `new`.

    Raises the exceptions of `ParsedSchema.incompatibilities`.
    """
    if new.schema_type is not old.schema_type:
        description = f"a schema of type {new.schema_type} can't follow one of type {old.schema_type}"
        return [Incompatibility("SCHEMA_TYPE_CHANGED", description)]
    problems: list[Incompatibility] = []
    if level in _BACKWARD:
        problems += new.incompatibilities(old, policy, effort)
    if level in _FORWARD:
        problems += [_swapped(each) for each in old.incompatibilities(new, policy, effort)]
    return problems


def _swapped(problem: Incompatibility) -> Incompatibility:
    """The problem with old and new swapped: the formats call the reader new; forward, it is the old one."""
    swapped = _SIDES.sub(lambda found: _OTHER_SIDE[found.group()], problem.description)
    return replace(problem, description=swapped)
