"""The kinds of differences between two JSON Schemas, and which of them are compatible for readers.

The names and the two lists are Confluent's, as clients see them in answers and logs. A difference is
described for data that was written with the old schema and is read with the new one.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.schemas.model import CompatibilityPolicy

Path = tuple[str, ...]


class Kind(enum.StrEnum):
    """The kind of a difference."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[Any]) -> str:
        return name

    SCHEMA_ADDED = enum.auto()
    SCHEMA_REMOVED = enum.auto()
    TYPE_EXTENDED = enum.auto()
    TYPE_NARROWED = enum.auto()
    TYPE_CHANGED = enum.auto()

    MAX_LENGTH_ADDED = enum.auto()
    MAX_LENGTH_REMOVED = enum.auto()
    MAX_LENGTH_INCREASED = enum.auto()
    MAX_LENGTH_DECREASED = enum.auto()
    MIN_LENGTH_ADDED = enum.auto()
    MIN_LENGTH_REMOVED = enum.auto()
    MIN_LENGTH_INCREASED = enum.auto()
    MIN_LENGTH_DECREASED = enum.auto()
    PATTERN_ADDED = enum.auto()
    PATTERN_REMOVED = enum.auto()
    PATTERN_CHANGED = enum.auto()

    MAXIMUM_ADDED = enum.auto()
    MAXIMUM_REMOVED = enum.auto()
    MAXIMUM_INCREASED = enum.auto()
    MAXIMUM_DECREASED = enum.auto()
    MINIMUM_ADDED = enum.auto()
    MINIMUM_REMOVED = enum.auto()
    MINIMUM_INCREASED = enum.auto()
    MINIMUM_DECREASED = enum.auto()
    EXCLUSIVE_MAXIMUM_ADDED = enum.auto()
    EXCLUSIVE_MAXIMUM_REMOVED = enum.auto()
    EXCLUSIVE_MAXIMUM_INCREASED = enum.auto()
    EXCLUSIVE_MAXIMUM_DECREASED = enum.auto()
    EXCLUSIVE_MINIMUM_ADDED = enum.auto()
    EXCLUSIVE_MINIMUM_REMOVED = enum.auto()
    EXCLUSIVE_MINIMUM_INCREASED = enum.auto()
    EXCLUSIVE_MINIMUM_DECREASED = enum.auto()
    MULTIPLE_OF_ADDED = enum.auto()
    MULTIPLE_OF_REMOVED = enum.auto()
    MULTIPLE_OF_EXPANDED = enum.auto()
    MULTIPLE_OF_REDUCED = enum.auto()
    MULTIPLE_OF_CHANGED = enum.auto()

    REQUIRED_ATTRIBUTE_ADDED = enum.auto()
    REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED = enum.auto()
    REQUIRED_ATTRIBUTE_REMOVED = enum.auto()
    MAX_PROPERTIES_ADDED = enum.auto()
    MAX_PROPERTIES_REMOVED = enum.auto()
    MAX_PROPERTIES_INCREASED = enum.auto()
    MAX_PROPERTIES_DECREASED = enum.auto()
    MIN_PROPERTIES_ADDED = enum.auto()
    MIN_PROPERTIES_REMOVED = enum.auto()
    MIN_PROPERTIES_INCREASED = enum.auto()
    MIN_PROPERTIES_DECREASED = enum.auto()
    ADDITIONAL_PROPERTIES_ADDED = enum.auto()
    ADDITIONAL_PROPERTIES_REMOVED = enum.auto()
    ADDITIONAL_PROPERTIES_EXTENDED = enum.auto()
    ADDITIONAL_PROPERTIES_NARROWED = enum.auto()
    UNEVALUATED_PROPERTIES_ADDED = enum.auto()
    UNEVALUATED_PROPERTIES_REMOVED = enum.auto()
    UNEVALUATED_PROPERTIES_EXTENDED = enum.auto()
    UNEVALUATED_PROPERTIES_NARROWED = enum.auto()
    DEPENDENCY_ARRAY_ADDED = enum.auto()
    DEPENDENCY_ARRAY_REMOVED = enum.auto()
    DEPENDENCY_ARRAY_EXTENDED = enum.auto()
    DEPENDENCY_ARRAY_NARROWED = enum.auto()
    DEPENDENCY_ARRAY_CHANGED = enum.auto()
    DEPENDENCY_SCHEMA_ADDED = enum.auto()
    DEPENDENCY_SCHEMA_REMOVED = enum.auto()
    REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL = enum.auto()
    REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL = enum.auto()
    OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL = enum.auto()
    PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL = enum.auto()
    REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL = enum.auto()
    REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL = enum.auto()
    OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL = enum.auto()
    PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL = enum.auto()
    PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL = enum.auto()
    PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL = enum.auto()
    PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = enum.auto()
    PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = enum.auto()
    PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = enum.auto()
    PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = enum.auto()

    MAX_ITEMS_ADDED = enum.auto()
    MAX_ITEMS_REMOVED = enum.auto()
    MAX_ITEMS_INCREASED = enum.auto()
    MAX_ITEMS_DECREASED = enum.auto()
    MIN_ITEMS_ADDED = enum.auto()
    MIN_ITEMS_REMOVED = enum.auto()
    MIN_ITEMS_INCREASED = enum.auto()
    MIN_ITEMS_DECREASED = enum.auto()
    UNIQUE_ITEMS_ADDED = enum.auto()
    UNIQUE_ITEMS_REMOVED = enum.auto()
    ADDITIONAL_ITEMS_ADDED = enum.auto()
    ADDITIONAL_ITEMS_REMOVED = enum.auto()
    ADDITIONAL_ITEMS_EXTENDED = enum.auto()
    ADDITIONAL_ITEMS_NARROWED = enum.auto()
    UNEVALUATED_ITEMS_ADDED = enum.auto()
    UNEVALUATED_ITEMS_REMOVED = enum.auto()
    UNEVALUATED_ITEMS_EXTENDED = enum.auto()
    UNEVALUATED_ITEMS_NARROWED = enum.auto()
    ITEM_ADDED_TO_OPEN_CONTENT_MODEL = enum.auto()
    ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL = enum.auto()
    ITEM_ADDED_TO_CLOSED_CONTENT_MODEL = enum.auto()
    ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL = enum.auto()
    ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL = enum.auto()
    ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL = enum.auto()
    ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = enum.auto()
    ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = enum.auto()
    ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = enum.auto()
    ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = enum.auto()

    ENUM_ARRAY_EXTENDED = enum.auto()
    ENUM_ARRAY_NARROWED = enum.auto()
    ENUM_ARRAY_CHANGED = enum.auto()

    COMBINED_TYPE_EXTENDED = enum.auto()
    COMBINED_TYPE_CHANGED = enum.auto()
    COMBINED_TYPE_SUBSCHEMAS_CHANGED = enum.auto()
    PRODUCT_TYPE_EXTENDED = enum.auto()
    PRODUCT_TYPE_NARROWED = enum.auto()
    SUM_TYPE_EXTENDED = enum.auto()
    SUM_TYPE_NARROWED = enum.auto()
    NOT_TYPE_EXTENDED = enum.auto()
    NOT_TYPE_NARROWED = enum.auto()


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference, and its place: the parts of a JSON pointer, from the schema that was compared."""

    kind: Kind
    path: Path = ()

    def below(self, *prefix: str) -> Difference:
        """The same difference, seen from a schema that contains the compared one at `prefix`."""
        return Difference(self.kind, (*prefix, *self.path)) if prefix else self

    @property
    def pointer(self) -> str:
        """The place as clients see it: `#/properties/name`."""
        return "/".join(("#", *(part.replace("~", "~0").replace("/", "~1") for part in self.path)))


READERS_WITH_DEFAULTS: Final = frozenset(
    {
        Kind.REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED,
        Kind.REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL,
    }
)
"""Compatible for readers that fill in defaults; a validator refuses data without the property."""

_STRICT: Final = READERS_WITH_DEFAULTS | frozenset(
    {
        Kind.SCHEMA_REMOVED,
        Kind.TYPE_EXTENDED,
        Kind.MAX_LENGTH_INCREASED,
        Kind.MAX_LENGTH_REMOVED,
        Kind.MIN_LENGTH_DECREASED,
        Kind.MIN_LENGTH_REMOVED,
        Kind.PATTERN_REMOVED,
        Kind.MAXIMUM_INCREASED,
        Kind.MAXIMUM_REMOVED,
        Kind.MINIMUM_DECREASED,
        Kind.MINIMUM_REMOVED,
        Kind.EXCLUSIVE_MAXIMUM_INCREASED,
        Kind.EXCLUSIVE_MAXIMUM_REMOVED,
        Kind.EXCLUSIVE_MINIMUM_DECREASED,
        Kind.EXCLUSIVE_MINIMUM_REMOVED,
        Kind.MULTIPLE_OF_REDUCED,
        Kind.MULTIPLE_OF_REMOVED,
        Kind.REQUIRED_ATTRIBUTE_REMOVED,
        Kind.MAX_PROPERTIES_INCREASED,
        Kind.MAX_PROPERTIES_REMOVED,
        Kind.MIN_PROPERTIES_DECREASED,
        Kind.MIN_PROPERTIES_REMOVED,
        Kind.DEPENDENCY_ARRAY_NARROWED,
        Kind.DEPENDENCY_ARRAY_REMOVED,
        Kind.DEPENDENCY_SCHEMA_REMOVED,
        Kind.ADDITIONAL_PROPERTIES_ADDED,
        Kind.ADDITIONAL_PROPERTIES_EXTENDED,
        Kind.UNEVALUATED_PROPERTIES_ADDED,
        Kind.UNEVALUATED_PROPERTIES_EXTENDED,
        Kind.PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL,
        Kind.PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL,
        Kind.PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL,
        Kind.PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
        Kind.PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
        Kind.OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL,
        Kind.MAX_ITEMS_INCREASED,
        Kind.MAX_ITEMS_REMOVED,
        Kind.MIN_ITEMS_DECREASED,
        Kind.MIN_ITEMS_REMOVED,
        Kind.UNIQUE_ITEMS_REMOVED,
        Kind.ADDITIONAL_ITEMS_ADDED,
        Kind.ADDITIONAL_ITEMS_EXTENDED,
        Kind.UNEVALUATED_ITEMS_ADDED,
        Kind.UNEVALUATED_ITEMS_EXTENDED,
        Kind.ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL,
        Kind.ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL,
        Kind.ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL,
        Kind.ITEM_ADDED_TO_CLOSED_CONTENT_MODEL,
        Kind.ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
        Kind.ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
        Kind.ENUM_ARRAY_EXTENDED,
        Kind.COMBINED_TYPE_EXTENDED,
        Kind.SUM_TYPE_EXTENDED,
        Kind.PRODUCT_TYPE_NARROWED,
        Kind.NOT_TYPE_NARROWED,
    }
)

_LENIENT: Final = _STRICT | frozenset(
    {
        Kind.ADDITIONAL_PROPERTIES_NARROWED,
        Kind.ADDITIONAL_PROPERTIES_REMOVED,
        Kind.UNEVALUATED_PROPERTIES_NARROWED,
        Kind.UNEVALUATED_PROPERTIES_REMOVED,
        Kind.REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL,
        Kind.OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL,
        Kind.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL,
        Kind.PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
        Kind.PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
    }
)

COMPATIBLE: Final[Mapping[CompatibilityPolicy, frozenset[Kind]]] = {
    policy: _LENIENT if policy is CompatibilityPolicy.LENIENT else _STRICT for policy in CompatibilityPolicy
}
"""The differences that are compatible for readers; all others are incompatible."""

EXACT: Final = _STRICT - READERS_WITH_DEFAULTS
"""The differences after which every value that fits the old schema surely fits the new one."""


_LIMITS: Final = {
    "MAX_LENGTH": "maxLength",
    "MIN_LENGTH": "minLength",
    "PATTERN": "pattern",
    "MAXIMUM": "maximum",
    "MINIMUM": "minimum",
    "EXCLUSIVE_MAXIMUM": "exclusiveMaximum",
    "EXCLUSIVE_MINIMUM": "exclusiveMinimum",
    "MULTIPLE_OF": "multipleOf",
    "MAX_PROPERTIES": "maxProperties",
    "MIN_PROPERTIES": "minProperties",
    "MAX_ITEMS": "maxItems",
    "MIN_ITEMS": "minItems",
    "UNIQUE_ITEMS": "uniqueItems",
    "ADDITIONAL_PROPERTIES": "additionalProperties",
    "UNEVALUATED_PROPERTIES": "unevaluatedProperties",
    "ADDITIONAL_ITEMS": "additionalItems",
    "UNEVALUATED_ITEMS": "unevaluatedItems",
    "DEPENDENCY_ARRAY": "a list of dependent properties",
    "DEPENDENCY_SCHEMA": "a dependent schema",
}
_CHANGES: Final = {
    "_ADDED": "the new schema asks for {what}, the old one does not",
    "_REMOVED": "the new schema allows none of {what}, the old one does",
    "_INCREASED": "the new schema has a larger {what}",
    "_DECREASED": "the new schema has a smaller {what}",
    "_EXPANDED": "the new schema's {what} is a multiple of the old one's",
    "_EXTENDED": "the new schema has more in {what}",
    "_NARROWED": "the new schema lets through less in {what}",
    "_CHANGED": "the new schema has another value of {what}",
}
_SENTENCES: Final[Mapping[Kind, str]] = {
    Kind.SCHEMA_ADDED: "the new schema restricts what the old one left open",
    Kind.TYPE_NARROWED: "the new schema allows fewer types",
    Kind.TYPE_CHANGED: "the new schema is of another type",
    Kind.REQUIRED_ATTRIBUTE_ADDED: "the new schema requires a property that the old one does not",
    Kind.REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL: (
        "the new schema adds a required property; the old one allows any value under its name, or none"
    ),
    Kind.REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL: (
        "the new schema adds a required property; the old one allows any value under its name"
    ),
    Kind.OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL: (
        "the new schema adds a property; the old one allows any value under its name"
    ),
    Kind.REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL: (
        "the new schema adds a required property that has no default"
    ),
    Kind.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL: (
        "the new schema lacks a property of the old one and allows no others"
    ),
    Kind.PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL: (
        "the new schema adds a property; the old one allows other values under its name"
    ),
    Kind.PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL: (
        "the new schema lacks a property of the old one and allows only other values under its name"
    ),
    Kind.ITEM_ADDED_TO_OPEN_CONTENT_MODEL: "the new schema adds an item; the old one allows any value there",
    Kind.ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL: (
        "the new schema lacks an item of the old one and allows no others"
    ),
    Kind.ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL: (
        "the new schema adds an item; the old one allows other values there"
    ),
    Kind.ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL: (
        "the new schema lacks an item of the old one and allows only other values there"
    ),
    Kind.ENUM_ARRAY_NARROWED: "the new schema lists fewer values",
    Kind.ENUM_ARRAY_CHANGED: "the new schema lists other values",
    Kind.COMBINED_TYPE_CHANGED: "the new schema combines its subschemas in another way",
    Kind.COMBINED_TYPE_SUBSCHEMAS_CHANGED: (
        "the new schema has no match for some of the old subschemas, or more than one in a oneOf"
    ),
    Kind.PRODUCT_TYPE_EXTENDED: "the new schema must fit more subschemas",
    Kind.SUM_TYPE_NARROWED: "the new schema has fewer subschemas to choose from",
    Kind.NOT_TYPE_EXTENDED: "the new schema excludes more",
}


def describe(difference: Difference) -> str:
    """A sentence about an incompatible difference, with its place."""
    return f"Found incompatible change at '{difference.pointer}': {_sentence(difference.kind)}"


def _sentence(kind: Kind) -> str:
    if sentence := _SENTENCES.get(kind):
        return sentence
    for ending, change in _CHANGES.items():
        if kind.endswith(ending):
            return change.format(what=_LIMITS.get(kind.removesuffix(ending), "it"))
    return "the new schema differs"
