"""Differences between two schemas' objects: properties, content models, dependencies.

A content model is open if a property that the schema does not name may have any value, closed if there may be
no such property, and partially open if `patternProperties` or a schema of additional properties restricts
them. Without subschemas that apply in place, `unevaluatedProperties` means the same as
`additionalProperties`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.schemas.json_schema.comparing import Comparing
from ottla.schemas.json_schema.differences import Difference, Kind
from ottla.schemas.json_schema.findings import Entry
from ottla.schemas.json_schema.patterns import Patterns
from ottla.schemas.json_schema.scalars import OBJECT_LIMITS, limit_differences
from ottla.schemas.json_schema.views import SchemaValue, View, is_false


@dataclass(frozen=True, slots=True)
class _Objects:
    """A schema's keywords for objects."""

    properties: Mapping[str, SchemaValue]
    patterns: Mapping[str, SchemaValue]
    additional: SchemaValue
    additional_keyword: str
    unevaluated: SchemaValue
    """The schema for properties that no subschema that applies in place covers either."""
    required: frozenset[str]
    lists: Mapping[str, frozenset[str]]
    """Dependent properties."""
    dependents: Mapping[str, SchemaValue]
    """Dependent schemas."""

    def is_open(self, comparison: Comparing) -> bool:
        return not self.patterns and comparison.is_unrestricted(self.additional)

    @property
    def is_closed(self) -> bool:
        return not self.patterns and is_false(self.additional)


@dataclass(slots=True)
class _Evaluated:
    """The properties that a schema covers, itself or through subschemas that apply in place."""

    matching: Patterns
    names: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    everything: bool = False

    def surely_has(self, name: str) -> bool:
        return (
            self.everything
            or name in self.names
            or any(self.matching.matches(found, name) for found in self.patterns)
        )

    def may_have(self, name: str) -> bool:
        return self.surely_has(name) or any(
            self.matching.matches(found, name) is None for found in self.patterns
        )


def object_differences(
    comparison: Comparing, old_schema: SchemaValue, old: View, new: View
) -> Iterator[Entry]:
    """The differences between two schemas' keywords for objects."""
    before, after = _objects(old), _objects(new)
    yield from limit_differences(old.keywords, new.keywords, OBJECT_LIMITS)
    yield from _required_differences(comparison, before, after)
    for name, schema in after.properties.items():
        if name in before.properties:
            yield from comparison.differences(before.properties[name], schema).below("properties", name)
        else:
            yield from _added_property(comparison, old, before, after, name)
    for name in (name for name in before.properties if name not in after.properties):
        yield _removed_property(comparison, before, after, name)
    yield from _pattern_differences(comparison, before, after)
    yield from content_model_differences(
        comparison, before.additional, after.additional, after.additional_keyword, "PROPERTIES"
    )
    yield from _unevaluated_differences(comparison, old, new, before, after)
    yield from _dependency_differences(comparison, old_schema, before, after)
    yield from comparison.keyword_differences(old, new, "propertyNames")


def content_model_differences(
    comparison: Comparing, before: SchemaValue, after: SchemaValue, keyword: str, members: str
) -> Iterator[Entry]:
    """The differences for members that the schemas do not name; `members` is PROPERTIES or ITEMS."""
    name = f"{'UNEVALUATED' if keyword.startswith('unevaluated') else 'ADDITIONAL'}_{members}"
    before_open, after_open = comparison.is_unrestricted(before), comparison.is_unrestricted(after)
    match (before_open, is_false(before)), (after_open, is_false(after)):
        case ((True, _), (True, _)) | ((_, True), (_, True)):
            return
        case (_, True), _:
            yield Difference(Kind(f"{name}_ADDED"), (keyword,))
        case _, (_, True):
            yield Difference(Kind(f"{name}_REMOVED"), (keyword,))
        case (True, _), _:
            yield Difference(Kind(f"{name}_NARROWED"), (keyword,))
        case _, (True, _):
            yield Difference(Kind(f"{name}_EXTENDED"), (keyword,))
        case _:
            yield from comparison.differences(before, after).below(keyword)


def _objects(view: View) -> _Objects:
    said = view.keywords
    additional, keyword, unevaluated = True, "additionalProperties", True
    if "additionalProperties" in said:
        additional = said["additionalProperties"]
    elif "unevaluatedProperties" in said and view.has_subschemas:
        unevaluated = said["unevaluatedProperties"]
    elif "unevaluatedProperties" in said:
        additional, keyword = said["unevaluatedProperties"], "unevaluatedProperties"
    dependencies = {**said.get("dependencies", {}), **said.get("dependentRequired", {})}
    lists = {name: frozenset(value) for name, value in dependencies.items() if isinstance(value, list)}
    schemas = {name: value for name, value in dependencies.items() if not isinstance(value, list)}
    return _Objects(
        properties=said.get("properties", {}),
        patterns=said.get("patternProperties", {}),
        additional=additional,
        additional_keyword=keyword,
        unevaluated=unevaluated,
        required=frozenset(said.get("required", ())),
        lists={name: value for name, value in lists.items() if value},
        dependents={**schemas, **said.get("dependentSchemas", {})},
    )


def _required_differences(comparison: Comparing, before: _Objects, after: _Objects) -> Iterator[Entry]:
    for name in sorted(before.required - after.required):
        yield Difference(Kind.REQUIRED_ATTRIBUTE_REMOVED, ("required", name))
    for name in sorted(after.required - before.required):
        if name in after.properties and name not in before.properties:
            continue  # reported as an added property
        with_default = _has_default(comparison, after.properties.get(name))
        kind = Kind.REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED if with_default else Kind.REQUIRED_ATTRIBUTE_ADDED
        yield Difference(kind, ("required", name))


def _has_default(comparison: Comparing, schema: SchemaValue | None) -> bool:
    if isinstance(schema, dict) and "default" in schema:
        return True
    return any(isinstance(target, dict) and "default" in target for target in comparison.targets_of(schema))


def _added_property(
    comparison: Comparing, old: View, before: _Objects, after: _Objects, name: str
) -> Iterator[Entry]:
    path, schema = ("properties", name), after.properties[name]
    is_required = name in after.required and name not in before.required
    with_default = is_required and _has_default(comparison, schema)
    additional = before.additional
    if before.unevaluated is not True and not _evaluated_by(comparison, old).may_have(name):
        additional = before.unevaluated
    if not before.patterns and comparison.is_unrestricted(additional):
        if is_required:
            yield Difference(
                Kind.REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL
                if with_default
                else Kind.REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL,
                path,
            )
        elif comparison.is_unrestricted(schema):
            yield Difference(Kind.PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL, path)
        else:
            yield Difference(Kind.OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL, path)
        return
    if before.patterns or not is_false(additional):
        covered = _is_covered_when_added(comparison, before.patterns, additional, name, schema)
        yield Difference(
            Kind.PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
            if covered
            else Kind.PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
            path,
        )
    match is_required, with_default:
        case True, True:
            yield Difference(Kind.REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL, path)
        case True, False:
            yield Difference(Kind.REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL, path)
        case _:
            yield Difference(Kind.OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL, path)


def _is_covered_when_added(
    comparison: Comparing,
    patterns: Mapping[str, SchemaValue],
    additional: SchemaValue,
    name: str,
    schema: SchemaValue,
) -> bool:
    """Whether every value that the old schema allows under the name fits the new property's schema."""
    certain = [below for pattern, below in patterns.items() if comparison.patterns.matches(pattern, name)]
    if certain:  # all of the patterns' schemas hold, so one that is compatible is enough
        return any(comparison.is_compatible(below, schema) for below in certain)
    possible = [
        below for pattern, below in patterns.items() if comparison.patterns.matches(pattern, name) is None
    ]
    return all(comparison.is_compatible(below, schema) for below in (additional, *possible))


def _removed_property(comparison: Comparing, before: _Objects, after: _Objects, name: str) -> Difference:
    path, schema = ("properties", name), before.properties[name]
    if after.is_open(comparison):
        return Difference(Kind.PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL, path)
    if after.is_closed:
        return Difference(
            Kind.PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL
            if is_false(schema)
            else Kind.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL,
            path,
        )
    verdicts = {pattern: comparison.patterns.matches(pattern, name) for pattern in after.patterns}
    asked = [after.patterns[pattern] for pattern, verdict in verdicts.items() if verdict is not False]
    if not any(verdicts.values()):
        asked.append(after.additional)
    covered = all(comparison.is_compatible(schema, each) for each in asked)
    return Difference(
        Kind.PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
        if covered
        else Kind.PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
        path,
    )


def _pattern_differences(comparison: Comparing, before: _Objects, after: _Objects) -> Iterator[Entry]:
    for pattern, schema in after.patterns.items():
        if pattern in before.patterns:
            found = comparison.differences(before.patterns[pattern], schema)
            yield from found.below("patternProperties", pattern)
        else:
            yield _added_pattern(comparison, before, pattern, schema)
    for pattern in (pattern for pattern in before.patterns if pattern not in after.patterns):
        path = ("patternProperties", pattern)
        if comparison.is_unrestricted(after.additional):
            yield Difference(Kind.PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL, path)
        elif comparison.is_compatible(before.patterns[pattern], after.additional):
            yield Difference(Kind.PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL, path)
        elif is_false(after.additional):
            yield Difference(Kind.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL, path)
        else:
            yield Difference(Kind.PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL, path)


def _added_pattern(comparison: Comparing, before: _Objects, pattern: str, schema: SchemaValue) -> Difference:
    """The difference for a new pattern: it is compatible if all values that the old schema allows fit it."""
    path = ("patternProperties", pattern)
    if before.is_open(comparison) and not before.properties:
        if comparison.is_unrestricted(schema):
            return Difference(Kind.PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL, path)
        return Difference(Kind.OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL, path)
    named = [
        below
        for name, below in before.properties.items()
        if comparison.patterns.matches(pattern, name) is not False
    ]
    allowed = [*named, *before.patterns.values(), before.additional]
    if not all(comparison.is_compatible(below, schema) for below in allowed):
        if before.is_open(comparison):
            return Difference(Kind.OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL, path)
        return Difference(Kind.PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL, path)
    if before.is_closed:
        return Difference(Kind.OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL, path)
    return Difference(Kind.PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL, path)


def _dependency_differences(
    comparison: Comparing, old_schema: SchemaValue, before: _Objects, after: _Objects
) -> Iterator[Entry]:
    for name in sorted(before.lists.keys() | after.lists.keys()):
        path = ("dependencies", name)
        was, now = before.lists.get(name, frozenset()), after.lists.get(name, frozenset())
        comparison.spend(len(now))
        if was == now:
            continue
        if not now:
            yield Difference(Kind.DEPENDENCY_ARRAY_REMOVED, path)
        elif now <= was:
            yield Difference(Kind.DEPENDENCY_ARRAY_NARROWED, path)
        elif now - was <= before.required:
            continue
        elif not was:
            yield Difference(Kind.DEPENDENCY_ARRAY_ADDED, path)
        elif was <= now:
            yield Difference(Kind.DEPENDENCY_ARRAY_EXTENDED, path)
        else:
            yield Difference(Kind.DEPENDENCY_ARRAY_CHANGED, path)
    for name in sorted(before.dependents.keys() | after.dependents.keys()):
        path = ("dependencies", name)
        if name not in after.dependents:
            yield Difference(Kind.DEPENDENCY_SCHEMA_REMOVED, path)
        elif name in before.dependents:
            yield from comparison.differences(before.dependents[name], after.dependents[name]).below(*path)
        elif not comparison.is_compatible(old_schema, after.dependents[name]):
            yield Difference(Kind.DEPENDENCY_SCHEMA_ADDED, path)


def _unevaluated_differences(
    comparison: Comparing, old: View, new: View, before: _Objects, after: _Objects
) -> Iterator[Entry]:
    """The differences in `unevaluatedProperties` beside subschemas that apply in place.

    Compatible only if the old schema restricts these properties too, and the new one covers for all data
    every property that the old one may cover.
    """
    if after.unevaluated is True:
        if before.unevaluated is not True and comparison.is_unrestricted(after.additional):
            yield Difference(Kind.UNEVALUATED_PROPERTIES_ADDED, ("unevaluatedProperties",))
        return
    was = before.unevaluated if before.unevaluated is not True else before.additional
    yield from content_model_differences(
        comparison, was, after.unevaluated, "unevaluatedProperties", "PROPERTIES"
    )
    spoken_of = _evaluated_by(comparison, old, unless_in=new)
    covered = _evaluated_by(comparison, new, surely=True)
    if covered.everything:
        return
    if spoken_of.everything or spoken_of.patterns - covered.patterns:
        yield Difference(Kind.UNEVALUATED_PROPERTIES_NARROWED, ("unevaluatedProperties",))
    for name in sorted(spoken_of.names):
        if not covered.surely_has(name):
            yield Difference(Kind.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL, ("properties", name))


def _evaluated_by(
    comparison: Comparing, view: View, *, surely: bool = False, unless_in: View | None = None
) -> _Evaluated:
    """The properties that a schema may cover; with `surely`, those that it covers for all data.

    Subschemas that apply under the same condition in `unless_in` are left out.
    """
    found = _Evaluated(comparison.patterns)
    pending: list[tuple[View, bool]] = [(view, True)]
    seen: set[int] = set()
    while pending:
        each, is_top = pending.pop()
        comparison.spend(each.size)
        objects = _objects(each)
        found.names.update(objects.properties)
        found.patterns.update(objects.patterns)
        if not is_top:
            rest = each.keywords.get(
                "additionalProperties", each.keywords.get("unevaluatedProperties", False)
            )
            found.everything |= not is_false(rest)
        below: list[Any] = [part.schema for part in each.parts]
        if not surely:
            other = unless_in if is_top else None
            below.extend(_conditional(comparison, each, objects, other))
        for schema in below:
            if isinstance(schema, dict) and id(schema) not in seen:
                seen.add(id(schema))
                pending.append((comparison.view(schema), False))
    return found


def _conditional(
    comparison: Comparing, view: View, objects: _Objects, other: View | None
) -> Iterable[SchemaValue]:
    """The subschemas that apply only to some data, without those that `other` has in the same way."""
    for each in view.sums:
        if not (other and any(comparison.are_same_sums(each, theirs) for theirs in other.sums)):
            yield from each.members
    if view.condition and not (
        other and other.condition and all(map(comparison.are_same, view.condition, other.condition))
    ):
        yield from view.condition
    theirs = _objects(other).dependents if other else {}
    for name, schema in objects.dependents.items():
        if name not in theirs or not comparison.are_same(schema, theirs[name]):
            yield schema
