"""Finds out whether a value can fit two schemas at once, which decides what `oneOf` and `not` refuse.

Schemas are disjoint if their types, limits, listed values or the schemas of a required property are: no value
fits both. Schemas overlap if a value is found that fits both: scalars are tried, as they are few and decided
exactly. For most pairs of objects neither is certain.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, islice
from typing import Any, Final

from ottla.schemas.json_schema.comparing import Comparing
from ottla.schemas.json_schema.documents import json_key
from ottla.schemas.json_schema.scalars import divides
from ottla.schemas.json_schema.views import SchemaValue, Sum, View, is_false, type_of

_SCALAR_TYPES: Final = frozenset({"null", "boolean", "string", "integer", "fraction"})
_MOST_VALUES: Final = 80
"""The most scalars that are tried."""
_MOST_LISTED: Final = 8
"""The most listed values of one schema that are tried for their own sake."""
_MOST_FACTORS: Final = 4
_CHARACTERS_OF_A_STEP: Final = 20
_LARGE: Final = 1e100
"""A number whose products may be no floats."""
_MOST_SCHEMAS: Final = 64
"""The most subschemas whose limits and listed values are tried."""
_MOST_CHARACTERS: Final = 64
_COMMON: Final[tuple[Any, ...]] = (None, True, False, "", "a", *range(-2, 5), -0.5, 0.5, 1.5)
_DECIDED: Final = frozenset({"type", "enum", "const"})
"""The keywords of a base that are decided for objects and arrays too."""
_MAX_DEPTH: Final = 48
_NO_LETTER: Final = re.compile(r"[^\w -]")
"""The marks of a pattern; without them, a simple one is a text that it matches (`^a`)."""

_Pair = tuple[int, int]


class Overlaps:
    """Answers for the schemas of one comparison. All methods raise the exceptions of its effort."""

    def __init__(self, comparison: Comparing) -> None:
        self._comparison = comparison
        self._fits: dict[tuple[object, int], bool | None] = {}
        self._disjoint: dict[_Pair, bool] = {}
        self._depth = 0

    def shared_scalar(self, old: SchemaValue, members: Sequence[SchemaValue]) -> bool:
        """Whether a scalar is known that fits `old` and at least two of the members."""
        for value in self._scalars((old, *members)):
            if self.fits(value, old) is not True:
                continue
            fitting = (member for member in members if self.fits(value, member) is True)
            if len(list(islice(fitting, 2))) == 2:
                return True
        return False

    # --- one value

    def fits(self, value: Any, schema: SchemaValue) -> bool | None:
        """Whether the value fits the schema; None if that isn't known, as for most objects and arrays."""
        is_large = isinstance(value, (dict, list))
        self._comparison.spend(1 + len(repr(value)) // _CHARACTERS_OF_A_STEP if is_large else 1)
        if not isinstance(schema, dict):
            return bool(schema)
        key = (json_key(value), id(schema))
        if key not in self._fits:
            self._fits[key] = None  # a schema that refers to itself for the same value
            self._depth += 1
            try:
                known = _all(self._requirements(value, schema)) if self._depth < _MAX_DEPTH else None
            finally:
                self._depth -= 1
            self._fits[key] = known
        return self._fits[key]

    def _requirements(self, value: Any, schema: Mapping[str, Any]) -> Iterator[bool | None]:
        view = self._comparison.view(schema)
        kind = type_of(value)
        yield kind in view.types
        if view.values is not None:
            yield json_key(value) in view.values
        match kind:
            case "string":
                yield from self._requirements_of_text(value, view.keywords)
            case "integer" | "fraction":
                yield from _requirements_of_number(value, view.keywords)
            case "object" | "array" if view.keywords.keys() - _DECIDED:
                yield None
        for part in view.parts:
            yield self.fits(value, part.schema)
        for group in view.sums:
            yield self._fits_sum(value, group)
        if view.negated is not None:
            yield _opposite(self.fits(value, view.negated))
        if view.condition is not None and view.is_conditional:
            test, then, otherwise = view.condition
            chosen = self.fits(value, test)
            yield None if chosen is None else self.fits(value, then if chosen else otherwise)

    def _requirements_of_text(self, value: str, keywords: Mapping[str, Any]) -> Iterator[bool | None]:
        yield keywords.get("minLength", 0) <= len(value) <= keywords.get("maxLength", len(value))
        if "pattern" in keywords:
            yield self._comparison.patterns.matches(keywords["pattern"], value)

    def _fits_sum(self, value: Any, group: Sum) -> bool | None:
        verdicts = [self.fits(value, member) for member in group.members]
        if group.keyword == "anyOf":
            return True if True in verdicts else None if None in verdicts else False
        if verdicts.count(True) > 1:
            return False
        return None if None in verdicts else verdicts.count(True) == 1

    # --- values to try

    def _scalars(self, schemas: Iterable[SchemaValue]) -> list[Any]:
        views = list(self._views(schemas))
        found: dict[object, Any] = {}
        named = (*map(_named_scalars, views), _common_multiples(views))
        for value in chain(_COMMON, self._listed_twice(views), *named):
            found.setdefault(json_key(value), value)
            if len(found) >= _MOST_VALUES:
                break
        return list(found.values())

    def _listed_twice(self, views: Sequence[View]) -> Iterator[Any]:
        """The scalars that more than one of the views list."""
        seen: set[object] = set()
        for view in views:
            for key, value in (view.values or {}).items():
                if key in seen and not isinstance(value, (dict, list)):
                    yield value
            self._comparison.spend(len(view.values or {}) // 4)
            seen.update(view.values or {})

    def _views(self, schemas: Iterable[SchemaValue]) -> Iterator[View]:
        """The views of the schemas and of the subschemas that apply in place, a bounded number."""
        waiting, seen = list(schemas), set[int]()
        while waiting and len(seen) < _MOST_SCHEMAS:
            schema = waiting.pop(0)
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            view = self._comparison.view(schema)
            self._comparison.spend()
            if view.types & _SCALAR_TYPES:
                yield view
                waiting += [part.schema for part in view.parts]
                waiting += [member for group in view.sums for member in group.members]
                waiting += [view.negated, *(view.condition or ())]

    # --- no value

    def are_disjoint(self, left: SchemaValue, right: SchemaValue) -> bool:
        """Whether surely no value fits both schemas."""
        self._comparison.spend()
        if is_false(left) or is_false(right):
            return True
        if not isinstance(left, dict) or not isinstance(right, dict):
            return False
        pair = (id(left), id(right))
        if pair not in self._disjoint:
            self._disjoint[pair] = False  # nothing is sure of schemas that are made of themselves
            self._disjoint[pair] = self._depth < _MAX_DEPTH and self._never_meet(left, right)
        return self._disjoint[pair]

    def _never_meet(self, left: dict[str, Any], right: dict[str, Any]) -> bool:
        one, other = self._comparison.view(left), self._comparison.view(right)
        self._comparison.spend(one.size + other.size)
        if not one.types & other.types:
            return True
        self._depth += 1
        try:
            return (
                self._excludes(one, right)
                or self._excludes(other, left)
                or all(self._never_meet_in(kind, one, other) for kind in one.types & other.types)
            )
        finally:
            self._depth -= 1

    def _excludes(self, view: View, schema: dict[str, Any]) -> bool:
        """Whether the view's listed values, a subschema or its negation exclude all values of the schema."""
        if view.values is not None and all(
            self.fits(value, schema) is False for value in view.values.values()
        ):
            return True
        if any(self.are_disjoint(part.schema, schema) for part in view.parts):
            return True
        if any(all(self.are_disjoint(each, schema) for each in group.members) for group in view.sums):
            return True
        return view.negated is not None and self._comparison.are_same(schema, view.negated)

    def _never_meet_in(self, kind: str, one: View, other: View) -> bool:
        """Whether no value of the type fits both bases."""
        both = (one.keywords, other.keywords)
        match kind:
            case "integer" | "fraction":
                return _are_apart(both)
            case "string":
                return _is_empty(both, "minLength", "maxLength")
            case "array":
                return _is_empty(both, "minItems", "maxItems")
            case "object":
                return _is_empty(both, "minProperties", "maxProperties") or any(
                    self.are_disjoint(_property(one, name), _property(other, name))
                    for name in {*one.keywords.get("required", ()), *other.keywords.get("required", ())}
                )
        return False


def _property(view: View, name: str) -> SchemaValue:
    """A schema that the property's value surely fits."""
    said = view.keywords
    if name in said.get("properties", {}):
        return said["properties"][name]
    return "patternProperties" in said or said.get("additionalProperties", True)


def _common_multiples(views: Iterable[View]) -> Iterator[float]:
    """Numbers that are multiples of two views' numbers."""
    factors = dict.fromkeys(view.keywords["multipleOf"] for view in views if "multipleOf" in view.keywords)
    for one, other in combinations(islice(factors, _MOST_FACTORS), 2):
        if max(one, other) < _LARGE:
            yield one * other


def _named_scalars(view: View) -> Iterator[Any]:
    """Some scalars that a view lists, or at its limits."""
    scalars = (value for value in (view.values or {}).values() if not isinstance(value, (dict, list)))
    yield from islice(scalars, _MOST_LISTED)
    said = view.keywords
    for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        limit = said.get(keyword)
        if limit is not None and abs(limit) < math.inf:
            yield from (limit, limit + 1, limit - 1, math.floor(limit), math.ceil(limit))
            yield from (math.floor(limit) - 1, math.ceil(limit) + 1)
    if "multipleOf" in said:
        yield from (said["multipleOf"], 2 * said["multipleOf"])
    for keyword, beyond in (("minLength", -1), ("maxLength", 1)):
        if said.get(keyword, _MOST_CHARACTERS) < _MOST_CHARACTERS:
            yield from ("a" * int(said[keyword]), "a" * (int(said[keyword]) + beyond))
    if "pattern" in said:
        yield _NO_LETTER.sub("", said["pattern"])[:_MOST_CHARACTERS]


def _requirements_of_number(value: float, keywords: Mapping[str, Any]) -> Iterator[bool]:
    yield keywords.get("minimum", value) <= value <= keywords.get("maximum", value)
    if "exclusiveMinimum" in keywords:
        yield keywords["exclusiveMinimum"] < value
    if "exclusiveMaximum" in keywords:
        yield value < keywords["exclusiveMaximum"]
    if "multipleOf" in keywords:
        yield divides(keywords["multipleOf"], value)


def _are_apart(both: Sequence[Mapping[str, Any]]) -> bool:
    """Whether no number lies within the limits of both."""
    closed = [said["minimum"] for said in both if "minimum" in said]
    opened = [said["exclusiveMinimum"] for said in both if "exclusiveMinimum" in said]
    for said in both:
        if "maximum" in said and (
            any(least > said["maximum"] for least in closed)
            or any(least >= said["maximum"] for least in opened)
        ):
            return True
        if "exclusiveMaximum" in said and any(
            least >= said["exclusiveMaximum"] for least in (*closed, *opened)
        ):
            return True
    return False


def _is_empty(both: Sequence[Mapping[str, Any]], least: str, most: str) -> bool:
    limits = [said[most] for said in both if most in said]
    return bool(limits) and max(said.get(least, 0) for said in both) > min(limits)


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    known: bool | None = True
    for verdict in verdicts:
        if verdict is False:
            return False
        known = None if verdict is None else known
    return known


def _opposite(verdict: bool | None) -> bool | None:
    return None if verdict is None else not verdict
