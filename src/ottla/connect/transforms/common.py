"""What transforms share: settings, checks of values with Connect's words, and plans to copy structs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.config.setting import MEDIUM, boolean
from ottla.config.validators import Rule
from ottla.connect.data.checking import java_class
from ottla.connect.data.schema import DataError, Field, Schema, Struct, Type

VERSION: Final = "4.3.1"
"""The version of Apache Kafka whose transforms these are like."""
REPLACE_NULL_WITH_DEFAULT: Final = boolean(
    "replace.null.with.default",
    True,
    "Whether fields that are null are read as their defaults.",
    importance=MEDIUM,
)


def _list_problem(values: tuple[str, ...], may_be_empty: bool) -> str | None:
    if not values and not may_be_empty:
        return "the list must not be empty"
    if len(set(values)) < len(values):
        return "values must not be duplicated"
    return None if all(values) else "values must not be empty"


SOME_NAMES: Final = Rule("at least one name, each once", lambda values: _list_problem(values, False))
NAMES: Final = Rule("names, each once", lambda values: _list_problem(values, True))
NOT_EMPTY_LIST: Final = Rule("at least one item", lambda values: None if values else "Empty list")


def require_map(value: Any, purpose: str) -> dict[str, Any]:
    """A value without a schema that has to be a map. Raises DataError."""
    if not isinstance(value, dict):
        raise DataError(
            f"Only Map objects supported in absence of schema for [{purpose}], found: {java_class(value)}"
        )
    return value


def require_struct(value: Any, purpose: str, schema: Schema | None = None) -> Struct:
    """A value that has to be a struct. Raises DataError."""
    if not isinstance(value, Struct):
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {java_class(value, schema)}")
    return value


def fields_of(schema: Schema) -> tuple[Field, ...]:
    """The fields of a STRUCT. Raises DataError for another type."""
    if schema.type is not Type.STRUCT:
        raise DataError("Cannot list fields on non-struct type")
    return schema.fields


@dataclass(frozen=True, slots=True)
class Source:
    """A field that is read from one struct for another. default: read in place of null; None for nothing."""

    name: str
    default: Any
    required: bool
    type_name: str

    def of(self, values: Mapping[str, Any], target: str | None = None) -> Any:
        """The field's value. Raises DataError for null where the field `target` does not allow it."""
        value = values.get(self.name)
        if value is None:
            value = self.default
            if value is None and self.required:
                raise null_refused(target or self.name, self.type_name)
        return value


def null_refused(name: str, type_name: str) -> DataError:
    """The error of a field that can't be null."""
    return DataError(f'Invalid value: null used for required field: "{name}", schema type: {type_name}')


def source_of(field: Field, replace_null: bool, target: Schema | None = None) -> Source:
    """How a field is read. target: the schema of the field that it is read for, where that is another."""
    default = field.schema.default if replace_null else None
    written = field.schema if target is None else target
    return Source(field.name, default, not written.optional, written.type.name)


def sources_of(schema: Schema, replace_null: bool) -> list[Source]:
    """How all fields of a STRUCT are read. Raises DataError for another type."""
    return [source_of(each, replace_null) for each in fields_of(schema)]


def copied(sources: list[Source], struct: Struct) -> dict[str, Any]:
    """The values of a struct's fields. Raises DataError for null where it can't be."""
    values = struct.values
    return {each.name: each.of(values) for each in sources}
