"""Differences between two schemas' types, listed values, and limits of texts and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from ottla.schemas.json_schema.differences import Difference, Kind
from ottla.schemas.json_schema.documents import Real
from ottla.schemas.json_schema.views import ALL_TYPES, View


@dataclass(frozen=True, slots=True)
class _Limit:
    keyword: str
    name: str
    """The prefix of its kinds of difference."""
    is_upper: bool
    idle: int | None = None
    """The value that means no limit."""


STRING_LIMITS: Final = (
    _Limit("maxLength", "MAX_LENGTH", is_upper=True),
    _Limit("minLength", "MIN_LENGTH", is_upper=False, idle=0),
)
OBJECT_LIMITS: Final = (
    _Limit("maxProperties", "MAX_PROPERTIES", is_upper=True),
    _Limit("minProperties", "MIN_PROPERTIES", is_upper=False, idle=0),
)
ARRAY_LIMITS: Final = (
    _Limit("maxItems", "MAX_ITEMS", is_upper=True),
    _Limit("minItems", "MIN_ITEMS", is_upper=False, idle=0),
)
_NUMBER_LIMITS: Final = (
    _Limit("maximum", "MAXIMUM", is_upper=True),
    _Limit("minimum", "MINIMUM", is_upper=False),
    _Limit("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", is_upper=True),
    _Limit("exclusiveMinimum", "EXCLUSIVE_MINIMUM", is_upper=False),
)
_IMPLIED: Final[Mapping[str, tuple[str, Callable[[Any, Any], bool]]]] = {
    "maximum": ("exclusiveMaximum", lambda old, new: old <= new),
    "minimum": ("exclusiveMinimum", lambda old, new: old >= new),
    "exclusiveMaximum": ("maximum", lambda old, new: old < new),
    "exclusiveMinimum": ("minimum", lambda old, new: old > new),
}
"""For each limit another one; if the old schema has that as narrow, a new limit restricts nothing."""


def type_differences(old: View, new: View) -> Iterator[Difference]:
    """The differences between the types that two schemas allow."""
    if old.types == new.types:
        return
    if old.types <= new.types:
        sums = old.type_words > 1 or new.type_words > 1
        yield Difference(Kind.SUM_TYPE_EXTENDED if sums else Kind.TYPE_EXTENDED)
    elif old.types == ALL_TYPES:
        yield Difference(Kind.TYPE_NARROWED if old.has_base else Kind.TYPE_CHANGED)
    elif new.types < old.types:
        yield Difference(Kind.SUM_TYPE_NARROWED if old.type_words > 1 else Kind.TYPE_NARROWED)
    else:
        yield Difference(Kind.TYPE_CHANGED)


def value_differences(old: View, new: View) -> Iterator[Difference]:
    """The differences between the values that two schemas list."""
    path = ("const",) if "const" in new.keywords or "const" in old.keywords else ("enum",)
    before, after = old.values, new.values
    if before is None and after is None:
        return
    if before is None:
        yield Difference(Kind.ENUM_ARRAY_NARROWED, path)
    elif after is None:
        yield Difference(Kind.ENUM_ARRAY_EXTENDED, path)
    elif before.keys() == after.keys():
        return
    elif before.keys() <= after.keys():
        yield Difference(Kind.ENUM_ARRAY_EXTENDED, path)
    elif after and after.keys() <= before.keys():
        yield Difference(Kind.ENUM_ARRAY_NARROWED, path)
    else:
        yield Difference(Kind.ENUM_ARRAY_CHANGED, path)


def string_differences(old: View, new: View) -> Iterator[Difference]:
    """The differences between the limits of texts."""
    yield from limit_differences(old.keywords, new.keywords, STRING_LIMITS)
    before, after = old.keywords.get("pattern"), new.keywords.get("pattern")
    if before == after:
        return
    if before is None:
        yield Difference(Kind.PATTERN_ADDED, ("pattern",))
    elif after is None:
        yield Difference(Kind.PATTERN_REMOVED, ("pattern",))
    else:
        yield Difference(Kind.PATTERN_CHANGED, ("pattern",))


def number_differences(old: View, new: View) -> Iterator[Difference]:
    """The differences between the limits of numbers."""
    yield from limit_differences(old.keywords, new.keywords, _NUMBER_LIMITS)
    path = ("multipleOf",)
    before, after = old.keywords.get("multipleOf"), new.keywords.get("multipleOf")
    if before == after:
        return
    if before is None:
        if "fraction" in old.types or not divides(new.keywords["multipleOf"], 1):  # not all integers fit
            yield Difference(Kind.MULTIPLE_OF_ADDED, path)
    elif after is None:
        yield Difference(Kind.MULTIPLE_OF_REMOVED, path)
    elif divides(after, before):
        yield Difference(Kind.MULTIPLE_OF_REDUCED, path)
    elif divides(before, after):
        yield Difference(Kind.MULTIPLE_OF_EXPANDED, path)
    else:
        yield Difference(Kind.MULTIPLE_OF_CHANGED, path)


def limit_differences(
    old: Mapping[str, Any], new: Mapping[str, Any], limits: tuple[_Limit, ...]
) -> Iterator[Difference]:
    """The differences between two schemas' limits for one kind of value."""
    for limit in limits:
        before, after = old.get(limit.keyword), new.get(limit.keyword)
        if before == limit.idle:
            before = None
        if after == limit.idle:
            after = None
        if before == after:
            continue
        path = (limit.keyword,)
        if before is None:
            if not _is_implied(limit.keyword, old, after):
                yield Difference(Kind(f"{limit.name}_ADDED"), path)
        elif after is None:
            yield Difference(Kind(f"{limit.name}_REMOVED"), path)
        else:
            change = "INCREASED" if after > before else "DECREASED"
            yield Difference(Kind(f"{limit.name}_{change}"), path)


def _is_implied(keyword: str, old: Mapping[str, Any], limit: Any) -> bool:
    if keyword not in _IMPLIED:
        return False
    other, holds = _IMPLIED[keyword]
    return other in old and holds(old[other], limit)


def divides(divisor: float, number: float) -> bool:
    """Whether one number is a multiple of another, exactly as decimal fractions: 0.1 divides 0.3."""
    if math.inf in (abs(divisor), abs(number)):
        return False
    return _fraction(number) % _fraction(divisor) == 0


def _fraction(number: float) -> Fraction:
    # The shortest spelling of the float, as that of a Real may have an exponent of any size.
    return Fraction(float.__repr__(number)) if isinstance(number, Real) else Fraction(number)
