"""Matches a schema's patterns with the strings of a value, in bounded time.

Python's own engine may take years for one string, and holds up the whole process meanwhile; the package
`regex` has a timeout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

import jsonschema
import regex

SEARCH_SECONDS: Final = 0.1
KEPT_PATTERNS: Final = 1_000


class PatternTooSlow(Exception):
    """A search did not end in time: whether the string matches is unknown."""


def occurs(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere. Raises PatternTooSlow; regex.error for an invalid pattern."""
    try:
        return _compiled(pattern).search(text, timeout=SEARCH_SECONDS) is not None
    except TimeoutError:
        raise PatternTooSlow(
            f"the pattern {pattern!r} takes longer than {SEARCH_SECONDS} s for {len(text)} characters"
        ) from None


@lru_cache(maxsize=KEPT_PATTERNS)
def _compiled(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern)


# -- keywords, with jsonschema's interface: (validator, the keyword's value, the instance, the schema)
# ---------


def pattern(validator: Any, wanted: str, instance: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    """`pattern`."""
    if validator.is_type(instance, "string") and not occurs(wanted, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {wanted!r}")


def pattern_properties(
    validator: Any, wanted: dict[str, Any], instance: Any, _schema: Any
) -> Iterator[jsonschema.ValidationError]:
    """`patternProperties`."""
    if not validator.is_type(instance, "object"):
        return
    for each, subschema in wanted.items():
        for name, value in instance.items():
            if occurs(each, name):
                yield from validator.descend(value, subschema, path=name, schema_path=each)


def additional_properties(
    validator: Any, others: Any, instance: Any, schema: dict[str, Any]
) -> Iterator[jsonschema.ValidationError]:
    """`additionalProperties`: for the properties in neither `properties` nor `patternProperties`."""
    if not validator.is_type(instance, "object"):
        return
    extra = list(_others(instance, schema))
    if validator.is_type(others, "object"):
        for name in extra:
            yield from validator.descend(instance[name], others, path=name)
    elif not others and extra:
        yield jsonschema.ValidationError(
            f"Additional properties are not allowed: {', '.join(map(repr, extra))}"
        )


def _others(instance: dict[str, Any], schema: dict[str, Any]) -> Iterable[str]:
    named = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    return (
        name for name in instance if name not in named and not any(occurs(each, name) for each in patterns)
    )
