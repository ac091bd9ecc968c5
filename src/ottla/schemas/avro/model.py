"""The types of an Avro schema, with the same contents as Java's `Schema`.

Types are compared by identity, as a record may contain itself. They are complete once `parsing` returns them,
and are not changed after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

PRIMITIVES: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
TYPE_NAMES: Final = PRIMITIVES | {"record", "enum", "array", "map", "union", "fixed"}

Properties: TypeAlias = Mapping[str, Any]
"""Attributes without a meaning in Avro's grammar, including logical types, in the order of the text."""

AvroType: TypeAlias = "Primitive | Array | Map | Union | Record | Enum | Fixed"
NamedType: TypeAlias = "Record | Enum | Fixed"


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a record, enum or fixed. An empty namespace means none."""

    name: str
    namespace: str

    @property
    def full(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    def within(self, namespace: str) -> str:
        """The text by which a schema refers to this name inside of `namespace`."""
        if self.namespace and self.namespace == namespace and self.name not in TYPE_NAMES:
            return self.name
        return self.full


@dataclass(slots=True, eq=False)
class Primitive:
    kind: str
    properties: Properties

    @property
    def full_name(self) -> str:
        return self.kind


@dataclass(slots=True, eq=False)
class Array:
    items: AvroType
    properties: Properties
    kind: str = "array"

    @property
    def full_name(self) -> str:
        return self.kind


@dataclass(slots=True, eq=False)
class Map:
    values: AvroType
    properties: Properties
    kind: str = "map"

    @property
    def full_name(self) -> str:
        return self.kind


@dataclass(slots=True, eq=False)
class Union:
    branches: tuple[AvroType, ...]
    kind: str = "union"

    @property
    def full_name(self) -> str:
        return self.kind


@dataclass(slots=True, eq=False)
class Field:
    """A field of a record. `default` counts only if `has_default`: null is a default too."""

    name: str
    type: AvroType
    doc: str | None
    has_default: bool
    default: Any
    order: str
    aliases: tuple[str, ...]
    properties: Properties


@dataclass(slots=True, eq=False)
class Record:
    name: Name
    doc: str | None
    is_error: bool
    fields: list[Field] = field(default_factory=list)
    aliases: tuple[Name, ...] = ()
    properties: Properties = field(default_factory=dict)
    kind: str = "record"

    @property
    def full_name(self) -> str:
        return self.name.full


@dataclass(slots=True, eq=False)
class Enum:
    name: Name
    doc: str | None
    symbols: tuple[str, ...]
    default: str | None
    aliases: tuple[Name, ...]
    properties: Properties
    kind: str = "enum"

    @property
    def full_name(self) -> str:
        return self.name.full


@dataclass(slots=True, eq=False)
class Fixed:
    """`size` in bytes."""

    name: Name
    doc: str | None
    size: int
    aliases: tuple[Name, ...]
    properties: Properties
    kind: str = "fixed"

    @property
    def full_name(self) -> str:
        return self.name.full
