"""Schemas as Connect's SchemaBuilder makes them: those of every type, the logical ones, structs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from ottla.connect.data.checking import check_value
from ottla.connect.data.schema import DATE, DECIMAL, SCALE, TIME, TIMESTAMP, DataError, Field, Schema, Type

REQUIRED: Final[Mapping[Type, Schema]] = MappingProxyType({each: Schema(each) for each in Type})
"""A bare schema of each type, for values that can't be null."""
OPTIONAL: Final[Mapping[Type, Schema]] = MappingProxyType(
    {each: Schema(each, optional=True) for each in Type}
)
"""A bare schema of each type, for values that may be null."""
DATE_SCHEMA: Final = Schema(Type.INT32, name=DATE, version=1)
TIME_SCHEMA: Final = Schema(Type.INT32, name=TIME, version=1)
TIMESTAMP_SCHEMA: Final = Schema(Type.INT64, name=TIMESTAMP, version=1)


def as_optional(schema: Schema) -> Schema:
    """The same schema for values that may be null."""
    return schema if schema.optional else replace(schema, optional=True)


def decimal_schema(scale: int, optional: bool = False) -> Schema:
    """The schema of decimals with so many digits after the point."""
    return Schema(Type.BYTES, optional, name=DECIMAL, version=1, parameters={SCALE: str(scale)})


def struct_schema(
    fields: Iterable[tuple[str, Schema]],
    *,
    like: Schema | None = None,
    optional: bool = False,
    default: Any = None,
    name: str | None = None,
) -> Schema:
    """A STRUCT's schema. like: gives name, version, doc and parameters. Raises DataError."""
    made: dict[str, Field] = {}
    for field_name, schema in fields:
        if not field_name:
            raise DataError("fieldName cannot be null.")
        if field_name in made:
            raise DataError(f"Cannot create field because of field name duplication {field_name}")
        made[field_name] = Field(field_name, schema)
    if like is None:
        return with_default(Schema(Type.STRUCT, optional, name=name, fields=tuple(made.values())), default)
    built = Schema(
        Type.STRUCT,
        optional,
        name=like.name,
        version=like.version,
        doc=like.doc,
        parameters=like.parameters,
        fields=tuple(made.values()),
    )
    return with_default(built, default)


def with_default(schema: Schema, default: Any) -> Schema:
    """The schema with a default; None: as it is. Raises DataError for a default that does not fit."""
    if default is None:
        return schema
    try:
        check_value(schema, default)
    except DataError as problem:
        raise DataError("Invalid default value") from problem
    return replace(schema, default=default)
