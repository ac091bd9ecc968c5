"""Differences between two schemas' sums: subschemas of which one must hold (`anyOf`, `oneOf`).

Confluent's rules pair the old members with new ones that they fit, and know nothing of the values that two
members of a `oneOf` share, which it refuses. So a `oneOf` is compatible here

* if each old value surely fits exactly one member, whatever the old schema is; or
* if Confluent's rules accept it (a `oneOf` whose members can be paired, or a schema without subschemas that
  fits a member) and no data is known to fit two members now: a scalar, or all data of an old member.

Between these lies data whose members may overlap, which objects nearly always may: there the rules decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ottla.schemas.json_schema.comparing import Comparing
from ottla.schemas.json_schema.differences import Difference, Kind
from ottla.schemas.json_schema.findings import Entry
from ottla.schemas.json_schema.matching import maximum_matching
from ottla.schemas.json_schema.overlaps import Overlaps
from ottla.schemas.json_schema.views import SchemaValue, Sum, View, base_of

_MAX_SHADOWS: Final = 400
"""The most pairs of members of two `oneOf`s that are looked at for data that fits two members."""


class Sums:
    """Compares sums for one comparison. All methods raise the exceptions of its effort."""

    def __init__(self, comparison: Comparing, overlaps: Overlaps) -> None:
        self._comparison = comparison
        self._fits = comparison.is_compatible
        self._surely_fits = comparison.surely_fits
        self._are_same = comparison.are_same
        self._is_bad = comparison.is_bad
        self._overlaps = overlaps
        self._split: dict[int, tuple[SchemaValue, ...]] = {}

    def differences(self, old_schema: dict[str, Any], old: View, group: Sum) -> Iterator[Entry]:
        """The differences from an old schema to a sum that is one of the new schema's requirements."""
        attempts: list[tuple[Entry, ...]] = []
        for before in (*old.sums, *self._types_as_sum(old_schema, old, group.keyword)):
            found = self._group_differences(before, group)
            if not self._is_bad(found) and self._leaves_one(old_schema, old, before, group):
                yield from found
                return
            attempts.append(found)
        if group.keyword == "anyOf":
            is_kept = any(self._fits(old_schema, member) for member in group.members)
        else:
            is_kept = self._becomes_one_of(old_schema, old, group)
        bad = next((found for found in attempts if self._is_bad(found)), None)
        if is_kept:
            yield Difference(
                Kind.COMBINED_TYPE_EXTENDED if old.parts else Kind.SUM_TYPE_EXTENDED, (group.keyword,)
            )
        elif bad is not None:
            yield from bad
        elif attempts or any(self._fits(old_schema, member) for member in group.members):
            yield Difference(Kind.COMBINED_TYPE_SUBSCHEMAS_CHANGED, (group.keyword,))
        else:
            kind = Kind.COMBINED_TYPE_CHANGED if old.parts else Kind.TYPE_CHANGED
            yield Difference(kind, (group.keyword,))

    def _leaves_one(self, old_schema: dict[str, Any], old: View, before: Sum, group: Sum) -> bool:
        """Whether data of an old sum whose members were matched with those of the new one fits only one.

        For a `oneOf` before and after, Confluent's rules ask for the matching only. That stands unless some
        data is known to fit two members now.
        """
        if group.keyword == "anyOf":
            return True
        if any(before is each for each in old.sums):
            return not self._overlaps.shared_scalar(old_schema, group.members)
        return all(self._fits_only_one(old_schema, member, group) for member in before.members)

    def _becomes_one_of(self, old_schema: dict[str, Any], old: View, group: Sum) -> bool:
        """Whether the data of a schema, as a whole, may be read with a `oneOf`.

        It may if each value surely fits exactly one member. For a schema without subschemas, Confluent's
        rules ask no more than that it fits a member; that stands unless some data is known to fit two.
        """
        if self._fits_only_one(old_schema, old_schema, group):
            return True
        if self._comparison.is_exact or not old.is_base or old.type_words > 1:
            return False
        return (
            any(self._fits(old_schema, member) for member in group.members)
            and sum(self._surely_fits(old_schema, member) for member in group.members) < 2
            and not self._overlaps.shared_scalar(old_schema, group.members)
        )

    def _fits_only_one(self, old_schema: dict[str, Any], alternative: SchemaValue, group: Sum) -> bool:
        """Whether each value of the old schema that fits the alternative surely fits one member, no other."""
        fitting = [
            index
            for index, member in enumerate(group.members)
            if self._fits(alternative, member) or self._fits(old_schema, member)
        ]
        return len(fitting) == 1 and all(
            self._overlaps.are_disjoint(alternative, member)
            or self._overlaps.are_disjoint(old_schema, member)
            for index, member in enumerate(group.members)
            if index != fitting[0]
        )

    def _types_as_sum(self, schema: dict[str, Any], view: View, keyword: str) -> list[Sum]:
        """The sum that is equivalent to `type: [a, b]`: a schema for each of the types."""
        if view.type_words < 2:
            return []
        if id(schema) not in self._split:
            base = base_of(view)
            names = [name for name in base["type"] if name != "integer" or "number" not in base["type"]]
            self._split[id(schema)] = tuple(
                self._comparison.make({**base, "type": name}, view.dialect) for name in names
            )
        return [Sum(keyword, self._split[id(schema)])]

    def _group_differences(self, before: Sum, after: Sum) -> tuple[Entry, ...]:
        path = (after.keyword,)
        found: list[Entry] = []
        if before.keyword != after.keyword:
            if after.keyword == "oneOf":
                return (Difference(Kind.COMBINED_TYPE_CHANGED, path),)
            found.append(Difference(Kind.COMBINED_TYPE_EXTENDED, path))
        matching = maximum_matching(
            len(before.members),
            len(after.members),
            lambda old, new: self._may_pair(after, before.members[old], after.members[new]),
        )
        left = [index for index in range(len(before.members)) if index not in matching]
        if after.keyword == "anyOf":  # two old members may follow one new member
            left = [
                index
                for index in left
                if not any(self._fits(before.members[index], member) for member in after.members)
            ]
        elif self._comparison.is_exact and len(after.members) != len(before.members):
            return (Difference(Kind.COMBINED_TYPE_SUBSCHEMAS_CHANGED, path),)
        if len(after.members) > len(before.members):
            found.append(Difference(Kind.SUM_TYPE_EXTENDED, path))
        elif left and len(after.members) < len(before.members):
            found.append(Difference(Kind.SUM_TYPE_NARROWED, path))
        if left and len(after.members) >= len(before.members):
            found.append(Difference(Kind.COMBINED_TYPE_SUBSCHEMAS_CHANGED, path))
            # Members left on both sides: most likely one became the other.
            free = (index for index in range(len(after.members)) if index not in matching.values())
            for index, other in zip(left, free, strict=False):
                below = self._comparison.differences(before.members[index], after.members[other])
                found += below.below(after.keyword, str(other))
        elif after.keyword == "oneOf" and self._is_shadowed(before, after, matching):
            found.append(Difference(Kind.COMBINED_TYPE_SUBSCHEMAS_CHANGED, path))
        return tuple(found)

    def _is_shadowed(self, before: Sum, after: Sum, matching: Mapping[int, int]) -> bool:
        """Whether all data of an old member of a `oneOf` surely fits a new or changed one besides its own."""
        if self._comparison.is_exact:
            return False  # the members are the same
        partners = {new: old for old, new in matching.items()}
        changed = [
            index
            for index, member in enumerate(after.members)
            if index not in partners or not self._are_same(before.members[partners[index]], member)
        ]
        if len(changed) * len(before.members) > _MAX_SHADOWS:
            return False
        return any(
            partners.get(index) != old
            and self._surely_fits(before.members[old], after.members[index])
            and not any(
                self._surely_fits(before.members[old], other)
                for other in before.members
                if other is not before.members[old]
            )
            for index in changed
            for old in matching
        )

    def _may_pair(self, after: Sum, old: SchemaValue, new: SchemaValue) -> bool:
        if after.keyword == "oneOf" and self._comparison.is_exact:
            # A wider member may also fit values of another member; only Confluent's rules allow that.
            return self._are_same(old, new)
        return self._fits(old, new)
