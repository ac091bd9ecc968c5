"""Differences between two schemas' arrays: items by position, other items, uniqueness, `contains`.

The content model is as that of objects, with positions instead of names: `additionalItems` (2020-12: `items`
beside `prefixItems`) applies to the items without a schema of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.schemas.json_schema.comparing import Comparing
from ottla.schemas.json_schema.dialects import DRAFT_2020_12
from ottla.schemas.json_schema.differences import Difference, Kind
from ottla.schemas.json_schema.findings import Entry
from ottla.schemas.json_schema.objects import content_model_differences
from ottla.schemas.json_schema.scalars import ARRAY_LIMITS, limit_differences
from ottla.schemas.json_schema.views import SchemaValue, View, is_false


@dataclass(frozen=True, slots=True)
class _Arrays:
    """A schema's keywords for arrays."""

    places: tuple[SchemaValue, ...]
    places_keyword: str
    others: SchemaValue
    others_keyword: str
    unevaluated: SchemaValue
    """The schema for items that no subschema that applies in place covers either."""


def array_differences(comparison: Comparing, old: View, new: View) -> Iterator[Entry]:
    """The differences between two schemas' keywords for arrays."""
    before, after = _arrays(old), _arrays(new)
    yield from limit_differences(old.keywords, new.keywords, ARRAY_LIMITS)
    was_unique, is_unique = bool(old.keywords.get("uniqueItems")), bool(new.keywords.get("uniqueItems"))
    if was_unique != is_unique:
        yield Difference(
            Kind.UNIQUE_ITEMS_ADDED if is_unique else Kind.UNIQUE_ITEMS_REMOVED, ("uniqueItems",)
        )
    if before.places or after.places:
        for index in range(max(len(before.places), len(after.places))):
            yield from _place_differences(comparison, before, after, index)
        yield from content_model_differences(
            comparison, before.others, after.others, after.others_keyword, "ITEMS"
        )
    else:
        yield from _item_differences(comparison, before, after)
    yield from _unevaluated_differences(before, after)
    yield from _contains_differences(comparison, old, new)


def _arrays(view: View) -> _Arrays:
    said = view.keywords
    items = said.get("items")
    places_keyword, others_keyword = "items", "additionalItems"
    if view.dialect is DRAFT_2020_12:
        places, others, places_keyword, others_keyword = (
            said.get("prefixItems", ()),
            items,
            "prefixItems",
            "items",
        )
    elif isinstance(items, list):
        places, others = items, said.get("additionalItems")
    else:
        places, others, others_keyword = (), items, "items"
    unevaluated: SchemaValue = True
    if others is None and "unevaluatedItems" in said:
        if view.has_subschemas or "contains" in said:
            unevaluated = said["unevaluatedItems"]
        else:
            others, others_keyword = said["unevaluatedItems"], "unevaluatedItems"
    return _Arrays(
        places=tuple(places),
        places_keyword=places_keyword,
        others=True if others is None else others,
        others_keyword=others_keyword,
        unevaluated=unevaluated,
    )


def _item_differences(comparison: Comparing, before: _Arrays, after: _Arrays) -> Iterator[Entry]:
    """The differences between the schemas of all items, if both schemas have one."""
    path = (after.others_keyword if after.others is not True else before.others_keyword,)
    before_open = comparison.is_unrestricted(before.others)
    after_open = comparison.is_unrestricted(after.others)
    if before_open and not after_open:
        yield Difference(Kind.SCHEMA_ADDED, path)
    elif after_open and not before_open:
        yield Difference(Kind.SCHEMA_REMOVED, path)
    elif not before_open:
        yield from comparison.differences(before.others, after.others).below(*path)


def _place_differences(comparison: Comparing, before: _Arrays, after: _Arrays, index: int) -> Iterator[Entry]:
    path = (after.places_keyword, str(index))
    was = before.places[index] if index < len(before.places) else None
    now = after.places[index] if index < len(after.places) else None
    if was is not None and now is not None:
        yield from comparison.differences(was, now).below(*path)
    elif now is not None:
        yield Difference(_added_item(comparison, before.others, now), path)
    elif was is not None:
        yield Difference(_removed_item(comparison, after.others, was), path)


def _added_item(comparison: Comparing, others: SchemaValue, schema: SchemaValue) -> Kind:
    if comparison.is_unrestricted(others):
        if comparison.is_unrestricted(schema):
            return Kind.ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL
        return Kind.ITEM_ADDED_TO_OPEN_CONTENT_MODEL
    if is_false(others):
        return Kind.ITEM_ADDED_TO_CLOSED_CONTENT_MODEL
    if comparison.is_compatible(others, schema):
        return Kind.ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
    return Kind.ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL


def _removed_item(comparison: Comparing, others: SchemaValue, schema: SchemaValue) -> Kind:
    if comparison.is_unrestricted(others):
        return Kind.ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL
    if is_false(others):
        if is_false(schema):
            return Kind.ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL
        return Kind.ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL
    if comparison.is_compatible(schema, others):
        return Kind.ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
    return Kind.ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL


def _unevaluated_differences(before: _Arrays, after: _Arrays) -> Iterator[Entry]:
    """The differences in `unevaluatedItems` beside subschemas that apply in place.

    The items that those subschemas cover are not worked out. So the keyword may be removed; if it stays, only
    schemas that are the same as a whole are compatible.
    """
    path = ("unevaluatedItems",)
    if after.unevaluated is not True:
        closed = is_false(after.unevaluated)
        yield Difference(Kind.UNEVALUATED_ITEMS_REMOVED if closed else Kind.UNEVALUATED_ITEMS_NARROWED, path)
    elif before.unevaluated is not True:
        closed = is_false(before.unevaluated)
        yield Difference(Kind.UNEVALUATED_ITEMS_ADDED if closed else Kind.UNEVALUATED_ITEMS_EXTENDED, path)


def _contains_differences(comparison: Comparing, old: View, new: View) -> Iterator[Entry]:
    """The differences in `contains`: at least `minContains` items (1) must fit, at most `maxContains`."""
    if "contains" not in new.keywords:
        if "contains" in old.keywords:
            yield Difference(Kind.SCHEMA_REMOVED, ("contains",))
        return
    least, most = new.keywords.get("minContains", 1), new.keywords.get("maxContains")
    if "contains" not in old.keywords:
        if least > 0 or most is not None:
            yield Difference(Kind.SCHEMA_ADDED, ("contains",))
        return
    was_least, was_most = old.keywords.get("minContains", 1), old.keywords.get("maxContains")
    if least > was_least:
        yield Difference(Kind.MIN_ITEMS_INCREASED, ("minContains",))
    if most is not None and was_most is None:
        yield Difference(Kind.MAX_ITEMS_ADDED, ("maxContains",))
    elif most is not None and most < was_most:
        yield Difference(Kind.MAX_ITEMS_DECREASED, ("maxContains",))
    if least > 0:
        found = comparison.differences(old.keywords["contains"], new.keywords["contains"])
        yield from found.below("contains")
    if most is not None and not comparison.surely_fits(new.keywords["contains"], old.keywords["contains"]):
        # More items may fit than before, and then there may be too many.
        yield Difference(Kind.TYPE_CHANGED, ("contains",))
