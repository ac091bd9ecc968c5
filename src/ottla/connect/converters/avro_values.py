"""Connect's values as those that `fastavro` reads and writes, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connect.converters.avro_names import UNION, as_bytes
from ottla.connect.data.checking import check_value
from ottla.connect.data.java_text import float32
from ottla.connect.data.logical import decimal_bytes, decimal_of_bytes, moment_number, moment_of_number
from ottla.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, DataError, Schema, Struct, Type

Convert = Callable[[Any], Any]


def to_avro(schema: Schema) -> Convert:
    """The function that turns a schema's values into those that are written. It raises DataError."""
    present = _to_avro(schema)
    default = schema.default
    if default is not None:
        return lambda value: present(default if value is None else value)
    if schema.optional:
        return lambda value: None if value is None else present(value)

    def required(value: Any) -> Any:
        if value is None:
            raise DataError("Found null value for non-optional schema")
        return present(value)

    return required


def _to_avro(schema: Schema) -> Convert:
    if schema.name == DECIMAL:
        return lambda value: decimal_bytes(schema, _of(schema, value))
    if schema.name in (DATE, TIME, TIMESTAMP):
        return lambda value: moment_number(schema, _of(schema, value))
    match schema.type:
        case Type.STRUCT:
            fields = [(each.name, to_avro(each.schema)) for each in schema.fields]

            def struct(value: Any) -> Any:
                get = _of(schema, value).values.get
                return {name: convert(get(name)) for name, convert in fields}

            return struct
        case Type.ARRAY:
            assert schema.values is not None
            items = to_avro(schema.values)
            return lambda value: [items(each) for each in value]
        case Type.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            keys, values = to_avro(schema.keys), to_avro(schema.values)
            if schema.keys.type is Type.STRING and not schema.keys.optional:
                return lambda value: {keys(key): values(each) for key, each in value.items()}
            return lambda value: [{"key": keys(key), "value": values(each)} for key, each in value.items()]
    return lambda value: _of(schema, value)


def _of(schema: Schema, value: Any) -> Any:
    """The value. Raises DataError where it is not of its schema."""
    if schema.type is not Type.STRUCT:
        check_value(schema, value)
    elif not isinstance(value, Struct):
        raise DataError(f"Invalid Java object for schema with type STRUCT: {type(value).__name__}")
    return value


def from_avro(schema: Schema) -> Convert:
    """The function that turns values that were read into a schema's. It raises DataError."""
    present = _from_avro(schema)
    return lambda value: None if value is None else present(value)


def _from_avro(schema: Schema) -> Convert:
    if schema.name == DECIMAL:
        return lambda value: decimal_of_bytes(schema, value)
    if schema.name in (DATE, TIME, TIMESTAMP):
        return lambda value: moment_of_number(schema, value)
    match schema.type:
        case Type.STRUCT if schema.name == UNION:
            return _from_union(schema)
        case Type.STRUCT:
            fields = [(each.name, from_avro(each.schema)) for each in schema.fields]
            return lambda value: Struct(schema, {name: convert(value[name]) for name, convert in fields})
        case Type.ARRAY:
            assert schema.values is not None
            items = from_avro(schema.values)
            return lambda value: [items(each) for each in value]
        case Type.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            keys, values = from_avro(schema.keys), from_avro(schema.values)
            if schema.keys.type is Type.STRING and not schema.keys.optional:
                return lambda value: {keys(key): values(each) for key, each in value.items()}
            return lambda value: {keys(each["key"]): values(each["value"]) for each in value}
        case Type.FLOAT32:
            return lambda value: float32(float(value))
        case Type.FLOAT64:
            return float
    return lambda value: value


def _from_union(schema: Schema) -> Convert:
    branches = {each.name: from_avro(each.schema) for each in schema.fields}

    def union(value: Any) -> Any:
        # `fastavro` gives the name of the branch along, if it is told to.
        name, content = value if isinstance(value, tuple) else (_branch_of(schema, value), value)
        simple = str(name).rpartition(".")[2]
        if simple not in branches:
            raise DataError(f"the union has no branch {simple}")
        return Struct(schema, {simple: branches[simple](content)})

    return union


def _branch_of(schema: Schema, value: Any) -> str:
    for each in schema.fields:
        try:
            check_value(each.schema, from_avro(each.schema)(value))
        except (DataError, TypeError, KeyError, ValueError, AttributeError):
            continue
        return each.name
    raise DataError("the value fits no branch of the union")


def from_avro_default(schema: Schema, told: Any) -> Any:
    """A default, as Avro's JSON has it, as a value of its schema. Raises DataError."""
    if told is None:
        return None
    if schema.name == DECIMAL:
        return decimal_of_bytes(schema, as_bytes(told))
    if schema.name in (DATE, TIME, TIMESTAMP):
        return moment_of_number(schema, int(told))
    match schema.type:
        case Type.BYTES:
            return as_bytes(told)
        case Type.FLOAT32:
            return float32(float(told))
        case Type.FLOAT64:
            return float(told)
        case Type.ARRAY:
            assert schema.values is not None
            return [from_avro_default(schema.values, each) for each in told]
        case Type.MAP:
            assert schema.values is not None
            return {key: from_avro_default(schema.values, each) for key, each in told.items()}
        case Type.STRUCT:
            values = {
                each.name: from_avro_default(each.schema, told.get(each.name)) for each in schema.fields
            }
            return Struct(schema, values)
    return told
