"""Cast: fields, or the whole key or value, as another type."""

from __future__ import annotations

import base64
import decimal
from dataclasses import replace
from typing import Any, ClassVar, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import HIGH, Table, by_name, repeating_list
from ottla.config.settings import Settings
from ottla.config.validators import Rule
from ottla.connect.data.building import struct_schema, with_default
from ottla.connect.data.caches import SchemaCache
from ottla.connect.data.checking import BITS, java_class
from ottla.connect.data.dates import date_text
from ottla.connect.data.java_text import (
    float32,
    parsed_double,
    parsed_int,
    shortest_float32,
    value_text,
    whole_of_float,
    wrapped,
)
from ottla.connect.data.logical import moment_number
from ottla.connect.data.record import Record
from ottla.connect.data.schema import DataError, Moment, Schema, Struct, Type
from ottla.connect.data.values import infer_schema, long_of
from ottla.connect.plugins.required import Required, require
from ottla.connect.transforms.common import (
    REPLACE_NULL_WITH_DEFAULT,
    VERSION,
    Source,
    fields_of,
    require_map,
    require_struct,
    source_of,
)
from ottla.connect.transforms.replace_field import java_split
from ottla.connect.transforms.sides import KEY, VALUE, Side, Sided

PURPOSE: Final = "cast types"
TARGETS: Final = (
    Type.INT8,
    Type.INT16,
    Type.INT32,
    Type.INT64,
    Type.FLOAT32,
    Type.FLOAT64,
    Type.BOOLEAN,
    Type.STRING,
)
_SOURCES: Final = (*TARGETS, Type.BYTES)


def parse_casts(items: tuple[str, ...]) -> dict[str | None, Type]:
    """Types by the names of fields; by None for the whole value. Raises ConfigError."""
    casts: dict[str | None, Type] = {}
    for item in items:
        parts = java_split(item, ":")
        if len(parts) > 2:
            raise ConfigError(f"Invalid rename mapping: {item}")
        casts[parts[0].strip() if len(parts) == 2 else None] = _target(parts[-1].strip())
    if None in casts and len(items) > 1:
        raise ConfigError(
            "Cast transformations that specify a type to cast the entire value to may only specify a single "
            "cast in their spec"
        )
    return casts


def _target(name: str) -> Type:
    try:
        found = Type[name.upper()]
    except KeyError:
        raise ConfigError(f"Invalid type found in casting spec: {name}") from None
    if found not in TARGETS:
        raise ConfigError(
            f"Cast transformation does not support casting to {found.name}; supported types are "
            f"[{', '.join(each.name for each in TARGETS)}]"
        )
    return found


def _spec_problem(items: tuple[str, ...]) -> str | None:
    if not items:
        return "Must specify at least one field to cast."
    try:
        parse_casts(items)
    except ConfigError as problem:
        return str(problem)
    return None


SPEC: Final = repeating_list.optional(
    "spec",
    "Fields and their new types, as field:type; or one type for the whole value. Types are int8, int16, "
    "int32, int64, float32, float64, boolean and string. Bytes can only be cast to strings.",
    Required(Rule("pairs field:type, or one type", _spec_problem)),
    importance=HIGH,
)


class Cast:
    """See Transform."""

    TABLE: ClassVar[Table] = Table("Cast", by_name((SPEC, REPLACE_NULL_WITH_DEFAULT)))
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings, side: Side) -> None:
        """Raises ConfigError."""
        self.side: Final = side
        self.casts: Final = parse_casts(require(settings, SPEC))
        self.whole: Final = self.casts.get(None)
        self.replace_null: Final = settings[REPLACE_NULL_WITH_DEFAULT]
        self._plans: SchemaCache[tuple[Schema, list[_Field]]] = SchemaCache(self._plan)

    def apply(self, record: Record) -> Record:
        """See Transform."""
        schema, value = self.side.schema_of(record), self.side.value_of(record)
        if value is None:
            return record
        if schema is None:
            return self.side.replaced(record, None, self._without_schema(value))
        changed, fields = self._plans.get(schema)
        if self.whole is not None:
            return self.side.replaced(record, changed, cast_value(schema, value, self.whole))
        struct = require_struct(value, PURPOSE, schema)
        values: dict[str, Any] = {}
        for each in fields:
            found = each.source.of(struct.values)
            if each.target is not None:
                found = cast_value(each.schema, found, each.target)
            values[each.source.name] = found
        return self.side.replaced(record, changed, Struct(changed, values))

    def _without_schema(self, value: Any) -> Any:
        if self.whole is not None:
            return cast_value(None, value, self.whole)
        changed = dict(require_map(value, PURPOSE))
        for name, target in self.casts.items():
            assert name is not None
            changed[name] = cast_value(None, changed.get(name), target)
        return changed

    def _plan(self, schema: Schema) -> tuple[Schema, list[_Field]]:
        changed = self.changed_schema(schema)
        if self.whole is not None:
            return changed, []
        return changed, [
            _Field(
                source_of(each, self.replace_null, changed.fields[at].schema),
                each.schema,
                self.casts.get(each.name),
            )
            for at, each in enumerate(fields_of(schema))
        ]

    def changed_schema(self, schema: Schema) -> Schema:
        """The schema of values that had another one. Raises DataError."""
        if self.whole is not None:
            built = Schema(
                self.whole,
                schema.optional,
                name=schema.name,
                version=schema.version,
                doc=schema.doc,
                parameters=schema.parameters,
            )
            return _with_cast_default(built, schema)
        fields = ((each.name, self._field_schema(each.name, each.schema)) for each in fields_of(schema))
        built = struct_schema(fields, like=schema)
        if schema.optional:
            built = replace(built, optional=True)
        return _with_cast_default(built, schema)

    def _field_schema(self, name: str, schema: Schema) -> Schema:
        target = self.casts.get(name)
        return schema if target is None else _with_cast_default(Schema(target, schema.optional), schema)


class _Field:
    """A field: how it is read, its schema, and the type that it is cast to, if any."""

    __slots__ = ("schema", "source", "target")

    def __init__(self, source: Source, schema: Schema, target: Type | None) -> None:
        self.source = source
        self.schema = schema
        self.target = target


def _with_cast_default(built: Schema, schema: Schema) -> Schema:
    return with_default(built, cast_value(schema, schema.default, built.type))


def cast_value(schema: Schema | None, value: Any, target: Type) -> Any:
    """A value as another type. Raises DataError."""
    if value is None:
        return None
    if schema is None:
        inferred = _type_without_schema(value)
    else:
        inferred = schema.type
    if inferred not in _SOURCES:
        raise DataError(
            f"Cast transformation does not support casting from {inferred.name}; supported types are "
            f"[{', '.join(each.name for each in _SOURCES)}]"
        )
    if target is Type.STRING:
        return _as_text(value, schema)
    if schema is not None and isinstance(value, Moment):
        value = moment_number(schema, value)
    if not isinstance(value, bool | int | float | str | decimal.Decimal):
        raise DataError(f"Unexpected type in Cast transformation: class {java_class(value, schema)}")
    try:
        if target is Type.BOOLEAN:
            return _as_boolean(value)
        if target in BITS:
            return _as_whole(value, target)
        wide = parsed_double(value) if isinstance(value, str) else _as_double(value)
    except ValueError:
        raise DataError(f"Value ({value}) was out of range for requested data type") from None
    if target is Type.FLOAT32:
        # Without a schema nothing else would tell that the number has 32 bits: it is the one that prints so.
        return float32(wide) if schema is not None else shortest_float32(wide)
    return wide


def _type_without_schema(value: Any) -> Type:
    match value:
        case list():
            return Type.ARRAY
        case dict():
            return Type.MAP
    found = infer_schema(value)
    if found is None:
        raise DataError(
            f"Cast transformation was passed a value of type class {java_class(value)} which is not "
            "supported by Connect's data API"
        )
    return found.type


def _as_text(value: Any, schema: Schema | None) -> str:
    match value:
        case Moment():
            return date_text(value.epoch_ms)
        case bytes():
            return base64.b64encode(value).decode()
    return value_text(value, schema)


def _as_boolean(value: Any) -> bool:
    match value:
        case bool():
            return value
        case str():
            return value.lower() == "true"
        case float():
            return whole_of_float(value, Type.INT64) != 0
        case decimal.Decimal():
            return long_of(value) != 0
    return bool(value)


def _as_whole(value: Any, target: Type) -> int:
    match value:
        case bool():
            return int(value)
        case int():
            return wrapped(value, target)
        case float():
            return whole_of_float(value, target)
        case decimal.Decimal():
            return wrapped(long_of(value), target)
    return parsed_int(value, target)


def _as_double(value: bool | int | float | decimal.Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


CastKey: Final = Sided(Cast, KEY)
CastValue: Final = Sided(Cast, VALUE)
