"""Connect's schemas: types, optional values, defaults, and the names that make a type a logical one.

A value is a Python value of its schema's type:

    INT8 to INT64     int                       STRING    str
    FLOAT32, FLOAT64  float                     BYTES     bytes
    BOOLEAN           bool                      ARRAY     list
    MAP               dict                      STRUCT    Struct

and of the logical types: Decimal (BYTES) decimal.Decimal; Date, Time (INT32) and Timestamp (INT64) Moment.
Without a schema (None) a value is what schemaless JSON gives: None, bool, int, float, str, bytes, list, dict.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
SCALE: Final = "scale"
"""The parameter of a Decimal's schema that tells its digits after the point."""


class Type(enum.Enum):
    """A schema's type; the value is its name in lower case, as in JSON."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """A java.util.Date: the value of a Date, Time or Timestamp. Milliseconds since 1970, of any size."""

    epoch_ms: int


class DataError(ValueError):
    """A value that does not fit its schema, or a schema that can't be."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A value's schema. `fields` of a STRUCT in their order; `values` of an ARRAY or MAP; `keys` of a MAP."""

    type: Type
    optional: bool = False
    default: Any = field(default=None, hash=False)
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    fields: tuple[Field, ...] = ()
    keys: Schema | None = None
    values: Schema | None = None

    def __str__(self) -> str:
        """As in Connect's errors: Schema{STRING}, Schema{my.Record:STRUCT}."""
        return f"Schema{{{'' if self.name is None else f'{self.name}:'}{self.type.name}}}"

    def field(self, name: str) -> Field | None:
        """The field of this name."""
        for each in self.fields:
            if each.name == name:
                return each
        return None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a STRUCT."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """A value of a STRUCT: one value for each field; a field left out is None or its schema's default."""

    schema: Schema
    values: Mapping[str, Any]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return (
            (self.values is other.values)
            or all(self.values.get(each.name) == other.values.get(each.name) for each in self.schema.fields)
        ) and self.schema == other.schema

    def __hash__(self) -> int:
        return hash((self.schema, *(self.values.get(each.name) for each in self.schema.fields)))

    def get(self, name: str) -> Any:
        """The value of a field, or the default of its schema. Raises DataError for an unknown name."""
        found = self.schema.field(name)
        if found is None:
            raise DataError(f"{name} is not a valid field name")
        value = self.values.get(name)
        return found.schema.default if value is None else value

    def get_without_default(self, name: str) -> Any:
        """The value of a field, None where it is not set. Raises DataError for an unknown name."""
        if self.schema.field(name) is None:
            raise DataError(f"{name} is not a valid field name")
        return self.values.get(name)
