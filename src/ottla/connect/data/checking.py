"""Whether a value fits its schema, with the words of Connect where it does not.

A value's Java class is named in errors, as Connect does. Python has one int and one float: without a schema
they are called java.lang.Long and java.lang.Double.
"""

from __future__ import annotations

import decimal
from typing import Any, Final

from ottla.connect.data.schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    DataError,
    Moment,
    Schema,
    Struct,
    Type,
)

_CLASSES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "java.lang.Boolean"),
    (int, "java.lang.Long"),
    (float, "java.lang.Double"),
    (str, "java.lang.String"),
    (bytes, "[B"),
    (list, "java.util.ArrayList"),
    (dict, "java.util.HashMap"),
    (Struct, "org.apache.kafka.connect.data.Struct"),
    (Moment, "java.util.Date"),
    (decimal.Decimal, "java.math.BigDecimal"),
)
_NUMBERS: Final = {
    Type.INT8: "java.lang.Byte",
    Type.INT16: "java.lang.Short",
    Type.INT32: "java.lang.Integer",
    Type.FLOAT32: "java.lang.Float",
}
PYTHON_TYPES: Final[dict[Type, type[Any]]] = {
    Type.INT8: int,
    Type.INT16: int,
    Type.INT32: int,
    Type.INT64: int,
    Type.FLOAT32: float,
    Type.FLOAT64: float,
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.BYTES: bytes,
    Type.ARRAY: list,
    Type.MAP: dict,
    Type.STRUCT: Struct,
}
"""The Python type of a type's values."""
LOGICAL_TYPES: Final[dict[str, type[Any]]] = {
    DECIMAL: decimal.Decimal,
    DATE: Moment,
    TIME: Moment,
    TIMESTAMP: Moment,
}
"""The Python type of a logical type's values, by the name of its schema."""
BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
"""The size of the whole numbers."""


def java_class(value: Any, schema: Schema | None = None) -> str:
    """The name of a value's class in Java; "null" for None."""
    if value is None:
        return "null"
    for python, name in _CLASSES:
        if isinstance(value, python):
            if schema is not None and python in (int, float):
                return _NUMBERS.get(schema.type, name)
            return name
    return f"{type(value).__module__}.{type(value).__qualname__}"


def python_type(schema: Schema) -> type[Any]:
    """The type that values of a schema have, except None."""
    if schema.name is not None:
        logical = LOGICAL_TYPES.get(schema.name)
        if logical is not None:
            return logical
    return PYTHON_TYPES[schema.type]


def check_value(schema: Schema, value: Any, field: str | None = None) -> None:
    """Raises DataError for a value that does not fit its schema. field: its name in a struct."""
    _check(schema, value, "value" if field is None else f'field: "{field}"')


def _check(schema: Schema, value: Any, place: str) -> None:
    if value is None:
        if not schema.optional:
            raise DataError(f"Invalid value: null used for required {place}, schema type: {schema.type.name}")
        return
    wanted = python_type(schema)
    if type(value) is not wanted:
        name = "" if schema.name is None else f' "{schema.name}"'
        raise DataError(
            f"Invalid Java object for schema{name} with type {schema.type.name}: class {java_class(value)} "
            f"for {place}"
        )
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64 if wanted is int:
            limit = 1 << (BITS[schema.type] - 1)
            if not -limit <= value < limit:
                raise DataError(
                    f"Invalid value: {value} is out of the range of {schema.type.name} for {place}"
                )
        case Type.STRUCT:
            if value.schema is not schema and value.schema != schema:
                raise DataError("Struct schemas do not match.")
            check_struct(value)
        case Type.ARRAY:
            below = f"element of array {place}"
            items = _known(schema.values, below)
            for each in value:
                _check(items, each, below)
        case Type.MAP:
            of_key, of_value = f"key of map {place}", f"value of map {place}"
            keys, values = _known(schema.keys, of_key), _known(schema.values, of_value)
            for key, each in value.items():
                _check(keys, key, of_key)
                _check(values, each, of_value)
        case _:
            return


def check_struct(struct: Struct) -> None:
    """Raises DataError for a field that does not fit its schema; a field with a default may be left out."""
    for each in struct.schema.fields:
        value = struct.values.get(each.name)
        if value is None and (each.schema.optional or each.schema.default is not None):
            continue
        _check(each.schema, value, f'field: "{each.name}"')


def _known(schema: Schema | None, place: str) -> Schema:
    if schema is None:
        raise DataError(f"No schema defined for {place}")
    return schema
