"""Finds out whether data of one JSON Schema can be read with another: a walk over both, by Confluent's rules.

The old schema is the conjunction of all its requirements, and each requirement of the new one must follow
from it. The new base must follow from the old base, from one of the old subschemas that must all hold, or
from every member of an old sum, of which one must hold. The new subschemas must follow from the old schema as
a whole. Subschemas are paired by a maximum matching.

Each pair of subschemas is compared once. Recursive schemas are compatible unless a difference is found within
the cycle: a pair that is already being compared is assumed to be compatible. A conclusion that rests on such
an assumption is kept while the assumed pair is being compared; it becomes final if that pair turns out
compatible, and is forgotten if not. As each such end settles one pair for good, the number of comparisons is
at most the square of the number of pairs. A pair that is found incompatible is final at once: fewer
assumptions can't make it compatible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.schemas.effort import Effort
from ottla.schemas.json_schema.arrays import array_differences
from ottla.schemas.json_schema.dialects import DRAFT_7, Dialect
from ottla.schemas.json_schema.differences import EXACT, Difference, Kind
from ottla.schemas.json_schema.documents import json_key
from ottla.schemas.json_schema.findings import NOTHING, Entry, Findings, is_bad
from ottla.schemas.json_schema.matching import maximum_matching
from ottla.schemas.json_schema.objects import object_differences
from ottla.schemas.json_schema.overlaps import Overlaps
from ottla.schemas.json_schema.patterns import Patterns
from ottla.schemas.json_schema.references import Graph
from ottla.schemas.json_schema.scalars import (
    number_differences,
    string_differences,
    type_differences,
    value_differences,
)
from ottla.schemas.json_schema.sums import Sums
from ottla.schemas.json_schema.views import SchemaValue, Sum, View, base_of, is_false, view_of

PAIR_STEPS: Final = 25
"""The steps for comparing a pair of subschemas, besides one for each of their keywords, names and values."""
FINDING_STEPS: Final = 3
"""The steps for keeping a difference. Bounds the memory."""
_MAX_HOPS: Final = 64
"""The longest chain of references to references; a longer one is a cycle."""

_SCHEMA_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
_SCHEMA_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMAS: Final = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_Pair = tuple[int, int]
"""The ids of two schemas."""

_REFERRING: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


@dataclass(slots=True)
class _Concluded:
    """The findings for a pair. `rests_on`: a bit for each depth whose pair was assumed to be compatible."""

    found: Findings
    rests_on: int


class Comparison:
    """Compares subschemas of two documents, which must live as long as the comparison does.

    Differences in `compatible` count as none where the comparison has alternatives to choose from. Every
    method that walks over schemas raises the exceptions of `effort`.
    """

    def __init__(self, graphs: Sequence[Graph], compatible: frozenset[Kind], effort: Effort) -> None:
        self._targets: dict[int, tuple[Any, ...]] = {}
        self._dialects: dict[int, Dialect] = {}
        for graph in graphs:
            self._targets.update(graph.targets)
            self._dialects.update(graph.dialects)
        self._graphs = graphs
        self._compatible = compatible
        self._effort = effort
        self.patterns = Patterns(effort)
        self._views: dict[int, View] = {}
        self._made: list[dict[str, Any]] = []
        """Schemas made by the comparison, kept alive so that their ids stay unique."""
        self._known: dict[_Pair, _Concluded] = {}
        self._unsettled: list[_Pair] = []
        """The known pairs that rest on a pair being compared, in the order in which they ended."""
        self._under_way: dict[_Pair, int] = {}
        """The pairs being compared, with their depths."""
        self._resting: list[int] = [0]
        """For the caller and for each pair being compared: the depths on which it rests so far."""
        self._resolved_to: dict[int, tuple[SchemaValue, tuple[str, ...]]] = {}
        self._same: set[_Pair] = set()
        self._different: set[_Pair] = set()
        self._anything = self.make({}, DRAFT_7)
        self._bases: dict[int, dict[str, Any]] = {}
        self._exact: Comparison | None = None
        self._overlaps = Overlaps(self)
        self._sums = Sums(self, self._overlaps)
        self._pairs = 0

    @property
    def is_exact(self) -> bool:
        """Whether no difference is tolerated after which a value might not fit."""
        return self._compatible is EXACT

    @property
    def pairs(self) -> int:
        """The number of comparisons of pairs of subschemas so far."""
        return self._pairs

    def spend(self, steps: int = 1) -> None:
        """Count the next steps."""
        self._effort.spend(steps)

    def differences(self, old: SchemaValue, new: SchemaValue) -> Findings:
        """The differences from `old` to `new`, with their places within `new`."""
        self.spend()
        old, _ = self._resolved(old)
        new, path = self._resolved(new)
        found = self._pair_differences(old, new)
        # places are those of the new schema
        return Findings(found.below(*path), found.is_bad) if path else found

    def is_compatible(self, old: SchemaValue, new: SchemaValue) -> bool:
        """Whether all differences are compatible."""
        return not self.differences(old, new).is_bad

    def surely_fits(self, old: SchemaValue, new: SchemaValue) -> bool:
        """Whether every value that fits the old schema fits the new one: no difference is tolerated."""
        return self._exactly().is_compatible(old, new)

    def is_unrestricted(self, schema: SchemaValue) -> bool:
        """Whether every value fits the schema."""
        schema, _ = self._resolved(schema)
        return schema is True or (isinstance(schema, dict) and self.view(schema).is_unrestricted)

    def view(self, schema: Mapping[str, Any]) -> View:
        """The view of a schema."""
        view = self._views.get(id(schema))
        if view is None:
            dialect = self._dialects.get(id(schema), DRAFT_7)
            view = self._views[id(schema)] = view_of(schema, dialect, self.targets_of(schema))
        return view

    def targets_of(self, schema: SchemaValue) -> tuple[SchemaValue, ...]:
        """The schemas to which a schema's references lead."""
        return self._targets.get(id(schema), ()) if isinstance(schema, dict) else ()

    def keyword_differences(self, old: View, new: View, keyword: str) -> Iterator[Entry]:
        """The differences between the subschemas under a keyword, which either schema may lack."""
        before, after = old.keywords.get(keyword, True), new.keywords.get(keyword, True)
        if self.is_unrestricted(after):
            if not self.is_unrestricted(before):
                yield Difference(Kind.SCHEMA_REMOVED, (keyword,))
        elif self.is_unrestricted(before):
            yield Difference(Kind.SCHEMA_ADDED, (keyword,))
        else:
            yield from self.differences(before, after).below(keyword)

    # --- a pair of schemas

    def _resolved(self, schema: SchemaValue) -> tuple[SchemaValue, tuple[str, ...]]:
        """The schema that `schema` stands for, if its only requirement is that another one must hold."""
        if not isinstance(schema, dict):
            return schema, ()
        found = self._resolved_to.get(id(schema))
        if found is None:
            found = self._resolved_to[id(schema)] = self._resolve(schema)
        return found

    def _resolve(self, schema: SchemaValue) -> tuple[SchemaValue, tuple[str, ...]]:
        path: tuple[str, ...] = ()
        for _ in range(_MAX_HOPS):
            part = self.view(schema).lone_part if isinstance(schema, dict) else None
            if part is None:
                return schema, path
            schema, path = part.schema, (*path, *part.path)
        return True, path  # it refers only to itself

    def _pair_differences(self, old: SchemaValue, new: SchemaValue) -> Findings:
        if old is new or is_false(old):
            return NOTHING
        if self.is_unrestricted(new):
            return NOTHING if self.is_unrestricted(old) else self._told([Difference(Kind.SCHEMA_REMOVED)])
        if not isinstance(new, dict):
            return self._told([Difference(Kind.TYPE_CHANGED)])
        if not isinstance(old, dict):
            old = self._anything
        pair = (id(old), id(new))
        known = self._known.get(pair)
        if known is not None:
            self._resting[-1] |= known.rests_on
            return known.found
        if pair in self._under_way:
            self._resting[-1] |= 1 << self._under_way[pair]
            return NOTHING
        return self._compare(pair, old, new)

    def _compare(self, pair: _Pair, old: dict[str, Any], new: dict[str, Any]) -> Findings:
        self._pairs += 1
        self.spend(PAIR_STEPS + self.view(old).size + self.view(new).size)
        depth, first = len(self._under_way), len(self._unsettled)
        self._under_way[pair] = depth
        self._resting.append(0)
        found = self._told(self._all_differences(old, new))
        rests_on = self._resting.pop() & ~(1 << depth)
        if found.is_bad and self.are_same(old, new):
            found, rests_on = NOTHING, 0
        del self._under_way[pair]
        if found.is_bad:
            rests_on = 0
        self._settle(first, depth, rests_on, kept=not found.is_bad)
        self._known[pair] = _Concluded(found, rests_on)
        if rests_on:
            self._unsettled.append(pair)
            self._resting[-1] |= rests_on
        return found

    def _settle(self, first: int, depth: int, rests_on: int, *, kept: bool) -> None:
        """End the pair at this depth: conclusions resting on it take over its assumptions, or are dropped."""
        ended = self._unsettled[first:]
        self.spend(len(ended) // 4)
        del self._unsettled[first:]
        for pair in ended:
            concluded = self._known[pair]
            if concluded.rests_on >> depth & 1:
                if not kept:
                    del self._known[pair]
                    continue
                concluded.rests_on = concluded.rests_on & ~(1 << depth) | rests_on
            if concluded.rests_on:
                self._unsettled.append(pair)

    def _told(self, entries: Iterable[Entry]) -> Findings:
        found = tuple(entries)
        self.spend(FINDING_STEPS * len(found))
        return Findings(found, self.is_bad(found))

    def is_bad(self, found: Iterable[Entry]) -> bool:
        """Whether any of the differences is incompatible."""
        return is_bad(found, self._compatible)

    def make(self, schema: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
        """Take in a schema that the comparison has made: it is kept alive, in its draft."""
        self._made.append(schema)
        self._dialects[id(schema)] = dialect
        return schema

    def _all_differences(self, old_schema: dict[str, Any], new_schema: dict[str, Any]) -> Iterator[Entry]:
        old, new = self.view(old_schema), self.view(new_schema)
        if new.has_base:
            found = tuple(self._base_differences(old_schema, old, new))
            if not self.is_bad(found) or not (
                self._follows_from_values(old, new_schema, new)
                or self._follows_from_subschemas(old, new_schema, new)
            ):
                yield from found
        yield from self._product_differences(old_schema, old, new)
        for group in new.sums:
            yield from self._sums.differences(old_schema, old, group)
        yield from self._negation_differences(old_schema, old, new)
        yield from self._condition_differences(old_schema, old, new)

    # --- the base

    def _base_differences(self, old_schema: dict[str, Any], old: View, new: View) -> Iterator[Entry]:
        if not old.has_base and old.sums:
            yield Difference(Kind.SUM_TYPE_NARROWED)
            return
        yield from type_differences(old, new)
        yield from value_differences(old, new)
        types = old.types & new.types
        if "string" in types:
            yield from string_differences(old, new)
        if types & {"integer", "fraction"}:
            yield from number_differences(old, new)
        if "object" in types:
            yield from object_differences(self, old_schema, old, new)
        if "array" in types:
            yield from array_differences(self, old, new)

    def _follows_from_values(self, old: View, new_schema: dict[str, Any], new: View) -> bool:
        """Whether the requirements of the new schema's base follow from the values that the old one lists."""
        if old.values is None:
            return False
        base = self._base(new_schema, new)
        return all(self._overlaps.fits(value, base) for value in old.values.values())

    def _follows_from_subschemas(self, old: View, new_schema: dict[str, Any], new: View) -> bool:
        """Whether the requirements of the new schema's base follow from subschemas of the old schema."""
        if not old.parts and not old.sums:
            return False
        if {"unevaluatedProperties", "unevaluatedItems"} & new.keywords.keys():
            return False  # which items and properties are evaluated depends on more than the base
        base = self._base(new_schema, new)
        if any(self.is_compatible(part.schema, base) for part in old.parts):
            return True
        return any(all(self.is_compatible(member, base) for member in group.members) for group in old.sums)

    def _base(self, schema: dict[str, Any], view: View) -> dict[str, Any]:
        """A schema of the base alone; the same object each time, as pairs are identified by ids."""
        if view.is_base:
            return schema
        if id(schema) not in self._bases:
            self._bases[id(schema)] = self.make(base_of(view), view.dialect)
        return self._bases[id(schema)]

    # --- subschemas that must hold

    def _product_differences(self, old_schema: dict[str, Any], old: View, new: View) -> Iterator[Entry]:
        if not new.parts:
            if old.parts:
                yield Difference(Kind.PRODUCT_TYPE_NARROWED, ("allOf",))
            return
        if len(old.parts) == len(new.parts) == 1:
            part = new.parts[0]
            found = self.differences(old.parts[0].schema, part.schema).below(*part.path)
            if not self.is_bad(found) or not self.is_compatible(old_schema, part.schema):
                yield from found
            return
        if len(new.parts) == 1 and not old.parts:
            part = new.parts[0]
            whole = self.differences(old_schema, part.schema)
            if whole.is_bad:
                yield from whole.below(*part.path)
            return
        befores, afters = [part.schema for part in old.parts], [part.schema for part in new.parts]
        matching = maximum_matching(
            len(afters),
            len(befores),
            lambda after, before: self.is_compatible(befores[before], afters[after]),
        )
        if len(befores) > len(afters):
            yield Difference(Kind.PRODUCT_TYPE_NARROWED, ("allOf",))
        left = [
            index
            for index in range(len(afters))
            if index not in matching and not self.is_compatible(old_schema, afters[index])
        ]
        if not left:
            return
        if len(afters) > len(befores):
            yield Difference(Kind.PRODUCT_TYPE_EXTENDED, ("allOf",))
        else:
            yield Difference(Kind.COMBINED_TYPE_SUBSCHEMAS_CHANGED, ("allOf",))
        for index in left:
            if index < len(befores):
                yield from self.differences(befores[index], afters[index]).below(*new.parts[index].path)

    # --- negations and conditions

    def _negation_differences(self, old_schema: dict[str, Any], old: View, new: View) -> Iterator[Entry]:
        if new.negated is None:
            if old.negated is not None:
                yield Difference(Kind.NOT_TYPE_NARROWED, ("not",))
            return
        views = (old, *(self.view(part.schema) for part in old.parts if isinstance(part.schema, dict)))
        excluded = [view.negated for view in views if view.negated is not None]
        if any(self.surely_fits(new.negated, each) for each in excluded):
            if not any(self.are_same(new.negated, each) for each in excluded):
                yield Difference(Kind.NOT_TYPE_NARROWED, ("not",))
        elif not self._overlaps.are_disjoint(old_schema, new.negated):
            yield Difference(Kind.NOT_TYPE_EXTENDED, ("not",))

    def _exactly(self) -> Comparison:
        """A comparison without tolerated differences, as each of them would be a gap under a negation."""
        if self._compatible is EXACT:
            return self
        if self._exact is None:
            self._exact = Comparison(self._graphs, EXACT, self._effort)
            self._exact._dialects = self._dialects  # those of the schemas made here, too
        return self._exact

    def _condition_differences(self, old_schema: dict[str, Any], old: View, new: View) -> Iterator[Entry]:
        if new.condition is None or not new.is_conditional:
            if old.is_conditional:
                yield Difference(Kind.SCHEMA_REMOVED, ("if",))
            return
        test, then, otherwise = new.condition
        if old.condition is not None and self.are_same(old.condition[0], test):
            for keyword, before, after in (
                ("then", old.condition[1], then),
                ("else", old.condition[2], otherwise),
            ):
                found = self.differences(before, after).below(keyword)
                if self.is_bad(found) and self.is_compatible(old_schema, after):
                    continue
                yield from found
        elif not (self.is_compatible(old_schema, then) and self.is_compatible(old_schema, otherwise)):
            yield Difference(Kind.TYPE_CHANGED if old.is_conditional else Kind.SCHEMA_ADDED, ("if",))

    # --- sameness

    def are_same_sums(self, left: Sum, right: Sum) -> bool:
        """Whether two sums have the same subschemas, one by one."""
        return (
            left.keyword == right.keyword
            and len(left.members) == len(right.members)
            and all(map(self.are_same, left.members, right.members))
        )

    def are_same(self, left: SchemaValue, right: SchemaValue) -> bool:
        """Whether two schemas have the same keywords and values, except annotations and order."""
        assumed: set[tuple[int, int]] = set()
        if not self._agree(left, right, assumed):
            return False
        self._same.update(assumed)  # all of them are true together
        return True

    def _agree(self, left: SchemaValue, right: SchemaValue, assumed: set[tuple[int, int]]) -> bool:
        """Whether two schemas are the same, assuming that of the pairs in `assumed`, still being compared."""
        if left is right:
            return True
        if not isinstance(left, dict) or not isinstance(right, dict):
            return False
        self.spend()
        pair = (id(left), id(right))
        if pair in self._same or pair in assumed:
            return True
        if pair in self._different:
            return False
        assumed.add(pair)
        if self._say_the_same(left, right, assumed):
            return True
        self._different.add(pair)  # for good: an assumption can only hide a difference
        return False

    def _say_the_same(
        self, left: dict[str, Any], right: dict[str, Any], assumed: set[tuple[int, int]]
    ) -> bool:
        dialect = self._dialects.get(id(left), DRAFT_7)
        if dialect is not self._dialects.get(id(right), DRAFT_7):
            return False
        targets, others = self.targets_of(left), self.targets_of(right)
        if len(targets) != len(others):
            return False
        if not all(self._agree(*pair, assumed) for pair in zip(targets, others, strict=True)):
            return False
        if targets and dialect.ref_hides_siblings:
            return True
        self.spend(self.view(left).size)
        known = dialect.keywords | {"exclusiveMinimum", "exclusiveMaximum"}
        mine = {name: value for name, value in left.items() if name in known}
        theirs = {name: value for name, value in right.items() if name in known}
        return mine.keys() == theirs.keys() and all(
            self._same_value(name, value, theirs[name], assumed) for name, value in mine.items()
        )

    def _same_value(self, keyword: str, left: Any, right: Any, assumed: set[tuple[int, int]]) -> bool:
        match left, right:
            case dict(), dict() if keyword in _SCHEMA_MAPS:
                return left.keys() == right.keys() and all(
                    self._same_value("items", below, right[name], assumed) for name, below in left.items()
                )
            case list(), list() if keyword in _SCHEMA_LISTS or keyword == "items":
                return len(left) == len(right) and all(
                    self._same_value("items", *pair, assumed) for pair in zip(left, right, strict=True)
                )
            case dict(), dict() if keyword in _SCHEMAS:
                return self._agree(left, right, assumed)
        return keyword in _REFERRING or json_key(left) == json_key(right)
