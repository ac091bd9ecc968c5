"""Connect's schemas and values as Arrow's, and back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from ottla.connect.data.schema import (
    DATE,
    DECIMAL,
    SCALE,
    TIME,
    TIMESTAMP,
    DataError,
    Field,
    Moment,
    Schema,
    Struct,
    Type,
)

Convert = Callable[[Any], Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS: Final = 86_400_000
_MILLISECOND: Final = timedelta(milliseconds=1)
_PRECISION: Final = 38

_TO_ARROW: Final = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}
_NUMBERS: Final[tuple[tuple[Callable[[pa.DataType], bool], Type], ...]] = (
    (types.is_boolean, Type.BOOLEAN),
    (types.is_int8, Type.INT8),
    (types.is_int16, Type.INT16),
    (types.is_uint8, Type.INT16),
    (types.is_int32, Type.INT32),
    (types.is_uint16, Type.INT32),
    (types.is_int64, Type.INT64),
    (types.is_uint32, Type.INT64),
    (types.is_float16, Type.FLOAT32),
    (types.is_float32, Type.FLOAT32),
    (types.is_float64, Type.FLOAT64),
    (types.is_null, Type.STRING),
)


def connect_schema(columns: pa.Schema, name: str) -> Schema:
    """The schema of rows with these columns. Raises DataError for a type that Connect does not have."""
    return Schema(
        Type.STRUCT,
        name=name,
        fields=tuple(
            Field(each.name, _connect_type(each.type, each.nullable, each.name)) for each in columns
        ),
    )


def row_converter(schema: Schema, columns: pa.Schema) -> Callable[[dict[str, Any]], Struct]:
    """A function that makes a value of the schema from a row as `to_pylist` gives it."""
    converters = [(each.name, _from_arrow(each.type)) for each in columns]
    changed = [(name, convert) for name, convert in converters if convert is not None]

    def row(values: dict[str, Any]) -> Struct:
        for name, convert in changed:
            if values[name] is not None:
                values[name] = convert(values[name])
        return Struct(schema, values)

    return row


def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns of a STRUCT's fields. Raises DataError for any other schema."""
    if schema.type is not Type.STRUCT:
        raise DataError("columns are written of structs alone, that is of values with a schema")
    return pa.schema([_arrow_field(each.name, each.schema) for each in schema.fields])


def arrow_value(schema: Schema, value: Any) -> Any:
    """The value as pyarrow takes it. Raises DataError where it does not fit its schema."""
    if value is None:
        if not schema.optional and schema.default is None:
            raise DataError("null is not allowed here")
        return None if schema.default is None else arrow_value(schema, schema.default)
    match value:
        case Moment() if schema.name == DATE:
            return value.epoch_ms // _DAY_MS
        case Moment():
            return value.epoch_ms
        case Struct() if schema.type is Type.STRUCT:
            return {each.name: _field_value(each, value) for each in schema.fields}
        case list() if schema.values is not None:
            return [arrow_value(schema.values, item) for item in value]
        case dict() if schema.type is Type.MAP and schema.values is not None and schema.keys is not None:
            return [
                (arrow_value(schema.keys, key), arrow_value(schema.values, item))
                for key, item in value.items()
            ]
    return value


def _field_value(field: Field, struct: Struct) -> Any:
    try:
        return arrow_value(field.schema, struct.get(field.name))
    except DataError as problem:
        raise DataError(f"{field.name}: {problem}") from None


def _arrow_field(name: str, schema: Schema) -> pa.Field:
    return pa.field(name, _arrow_type(schema), nullable=schema.optional)


def _arrow_type(schema: Schema) -> pa.DataType:
    match schema.name:
        case _ if schema.name == TIMESTAMP:
            return pa.timestamp("ms", tz="UTC")
        case _ if schema.name == DATE:
            return pa.date32()
        case _ if schema.name == TIME:
            return pa.time32("ms")
        case _ if schema.name == DECIMAL:
            return pa.decimal128(_PRECISION, int(schema.parameters.get(SCALE, "0")))
    match schema.type:
        case Type.STRUCT:
            return pa.struct([_arrow_field(each.name, each.schema) for each in schema.fields])
        case Type.ARRAY if schema.values is not None:
            return pa.list_(_arrow_field("item", schema.values))
        case Type.MAP if schema.keys is not None and schema.values is not None:
            return pa.map_(_arrow_type(schema.keys), _arrow_field("value", schema.values))
    return _TO_ARROW[schema.type]


def _connect_type(kind: pa.DataType, nullable: bool, name: str) -> Schema:
    if types.is_dictionary(kind):
        kind = kind.value_type
    for test, connect in _NUMBERS:
        if test(kind):
            return Schema(connect, optional=nullable or types.is_null(kind))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return Schema(Type.STRING, optional=nullable)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return Schema(Type.BYTES, optional=nullable)
    if types.is_timestamp(kind):
        return Schema(Type.INT64, optional=nullable, name=TIMESTAMP, version=1)
    if types.is_date(kind):
        return Schema(Type.INT32, optional=nullable, name=DATE, version=1)
    if types.is_time(kind):
        return Schema(Type.INT32, optional=nullable, name=TIME, version=1)
    if types.is_decimal(kind):
        return Schema(
            Type.BYTES, optional=nullable, name=DECIMAL, version=1, parameters={SCALE: str(kind.scale)}
        )
    if types.is_uint64(kind):
        return Schema(Type.BYTES, optional=nullable, name=DECIMAL, version=1, parameters={SCALE: "0"})
    if types.is_struct(kind):
        fields = tuple(Field(each.name, _connect_type(each.type, each.nullable, each.name)) for each in kind)
        return Schema(Type.STRUCT, optional=nullable, fields=fields)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        items = _connect_type(kind.value_type, kind.value_field.nullable, name)
        return Schema(Type.ARRAY, optional=nullable, values=items)
    if types.is_map(kind):
        return Schema(
            Type.MAP,
            optional=nullable,
            keys=_connect_type(kind.key_type, False, name),
            values=_connect_type(kind.item_type, kind.item_field.nullable, name),
        )
    raise DataError(f"column {name}: Connect has no type for {kind}")


def _from_arrow(kind: pa.DataType) -> Convert | None:
    """What makes Connect's value from Python's of a type; None where they are the same."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_timestamp(kind):
        return _moment_of_datetime
    if types.is_date(kind):
        return _moment_of_date
    if types.is_time(kind):
        return _moment_of_time
    if types.is_uint64(kind):
        return _decimal_of
    if types.is_struct(kind):
        return _struct_converter(kind)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        convert = _from_arrow(kind.value_type)
        return None if convert is None else lambda items: [_or_none(convert, item) for item in items]
    if types.is_map(kind):
        key, value = _from_arrow(kind.key_type) or _same, _from_arrow(kind.item_type) or _same
        return lambda items: {key(one): _or_none(value, other) for one, other in items}
    return None


def _struct_converter(kind: pa.DataType) -> Convert:
    schema = _connect_type(kind, True, "struct")
    converters = [(each.name, _from_arrow(each.type) or _same) for each in kind]
    return lambda values: Struct(
        schema, {name: _or_none(convert, values[name]) for name, convert in converters}
    )


def _or_none(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def _moment_of_datetime(value: datetime) -> Moment:
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return Moment(int((aware - _EPOCH) // _MILLISECOND))


def _moment_of_date(value: date) -> Moment:
    return Moment((value - _EPOCH.date()).days * _DAY_MS)


def _moment_of_time(value: time) -> Moment:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return Moment(seconds * 1000 + value.microsecond // 1000)


def _decimal_of(value: int) -> Decimal:
    return Decimal(value)
