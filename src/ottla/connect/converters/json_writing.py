"""Values as JSON: a schema is compiled into functions that turn its values into what `orjson` writes."""

from __future__ import annotations

import base64
import binascii
import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ottla.connect.data.checking import BITS, java_class
from ottla.connect.data.java_text import decimal_text, shortest_float32, value_text
from ottla.connect.data.json_text import write_json
from ottla.connect.data.logical import bytes_of_int, moment_number, unscaled_reader
from ottla.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, DataError, Moment, Schema, Struct, Type

Write = Callable[[Any], Any]
"""Turns a value into what `orjson` writes. Raises DataError."""
_STRICT: Final = (
    orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_SCALARS: Final[dict[Type, type]] = {Type.BOOLEAN: bool, Type.STRING: str}
MAX_KEPT_TYPES: Final = 1000
_TYPE_NAMES: Final = {Type.FLOAT32: "float", Type.FLOAT64: "double"}


@dataclass(frozen=True, slots=True)
class JsonWriting:
    """How values are written.

    numeric_decimals: decimals as numbers, else as base64 of their bytes. pairs_are_objects: entries of maps
    whose keys are no strings have the fields key and value, else they are arrays. one_of: the name of structs
    of which the one field that is not null is written.
    """

    numeric_decimals: bool = False
    replace_null_with_default: bool = True
    pairs_are_objects: bool = False
    one_of: str | None = None

    def writer(self, schema: Schema) -> Write:
        """The function for values of a schema."""
        present = self._present(schema)
        if schema.default is not None and self.replace_null_with_default:
            default = schema.default
            return lambda value: present(default if value is None else value)
        if schema.optional:
            return lambda value: None if value is None else present(value)

        def required(value: Any) -> Any:
            if value is None:
                raise DataError(
                    "Conversion error: null value for field that is required and has no default value"
                )
            return present(value)

        return required

    def schema_json(self, schema: Schema) -> dict[str, Any]:
        """The JSON object of a schema."""
        told: dict[str, Any] = {"type": _TYPE_NAMES.get(schema.type, schema.type.value)}
        match schema.type:
            case Type.ARRAY:
                told["items"] = _known(self, schema.values)
            case Type.MAP:
                told["keys"], told["values"] = _known(self, schema.keys), _known(self, schema.values)
            case Type.STRUCT:
                told["fields"] = [
                    self.schema_json(each.schema) | {"field": each.name} for each in schema.fields
                ]
            case _:
                pass
        told["optional"] = schema.optional
        names = {"name": schema.name, "version": schema.version, "doc": schema.doc}
        told |= {name: value for name, value in names.items() if value is not None}
        if schema.parameters:
            told["parameters"] = dict(schema.parameters)
        if schema.default is not None:
            told["default"] = self.writer(schema)(schema.default)
        return told

    def _present(self, schema: Schema) -> Write:
        """The function for values that are not null."""
        match schema.name:
            case str() if schema.name == DECIMAL:
                return self._decimal(schema)
            case str() if schema.name in (DATE, TIME, TIMESTAMP):
                return _moment(schema)
        match schema.type:
            case Type.STRUCT:
                return self._struct(schema)
            case Type.ARRAY:
                items = _any if schema.values is None else self.writer(schema.values)
                return lambda value: [items(each) for each in _checked(value, list, schema)]
            case Type.MAP:
                return self._map(schema)
            case Type.BYTES:
                return lambda value: base64.b64encode(_checked(value, bytes, schema)).decode()
            case Type.FLOAT32:
                return lambda value: _float(shortest_float32(_checked(value, float, schema)))
            case Type.FLOAT64:
                return lambda value: _float(_checked(value, float, schema))
        return _scalar(schema)

    def _struct(self, schema: Schema) -> Write:
        writers = {each.name: self.writer(each.schema) for each in schema.fields}
        if schema.name is not None and schema.name == self.one_of:
            return lambda value: _one_of(writers, _checked(value, Struct, schema))
        names = tuple(writers)
        plain = [self._written_as_they_are(each.schema) for each in schema.fields]
        # Most values are their own JSON. Which fields are not follows from the types of a struct's values,
        # and is kept by them: a struct of 16 fields takes a third of the time of a look at each field.
        made_by_types: dict[tuple[type, ...], tuple[tuple[str, Write], ...]] = {}
        last: Any = schema  # which is no value
        told_last: Any = {}

        def write(value: Any) -> Any:
            nonlocal last, told_last
            if value is last:  # a block that many records have in common
                return told_last
            struct = _checked(value, Struct, schema)
            if struct.schema is not schema and struct.schema != schema:
                raise DataError("Mismatching schema.")
            told = struct.values
            if tuple(told) != names or type(told) is not dict:
                told = {name: told.get(name) for name in names}
            types = tuple(map(type, told.values()))
            made = made_by_types.get(types)
            if made is None:
                made = tuple(
                    (name, writers[name])
                    for name, found, as_is in zip(names, types, plain, strict=True)
                    if found not in as_is
                )
                if len(made_by_types) < MAX_KEPT_TYPES:
                    made_by_types[types] = made
            if made:
                told = dict(told)
                for name, writer in made:
                    told[name] = writer(told[name])
            last, told_last = value, told
            return told

        return write

    def _written_as_they_are(self, schema: Schema) -> tuple[type, ...]:
        """The types of values that are their own JSON; those of all others have to be made."""
        found: tuple[type, ...] = ()
        if schema.optional and (schema.default is None or not self.replace_null_with_default):
            found = (type(None),)
        if schema.name in (DECIMAL, DATE, TIME, TIMESTAMP):
            return found
        if schema.type in BITS:
            return (int, *found)
        return (_SCALARS[schema.type], *found) if schema.type in _SCALARS else found

    def _map(self, schema: Schema) -> Write:
        keys = _any if schema.keys is None else self.writer(schema.keys)
        values = _any if schema.values is None else self.writer(schema.values)
        if schema.keys is not None and schema.keys.type is Type.STRING:
            return lambda value: {
                keys(key): values(each) for key, each in _checked(value, dict, schema).items()
            }
        if self.pairs_are_objects:
            return lambda value: [
                {"key": keys(key), "value": values(each)}
                for key, each in _checked(value, dict, schema).items()
            ]
        return lambda value: [
            [keys(key), values(each)] for key, each in _checked(value, dict, schema).items()
        ]

    def _decimal(self, schema: Schema) -> Write:
        numeric, number_of = self.numeric_decimals, unscaled_reader(schema)

        def write(value: Any) -> Any:
            if not isinstance(value, decimal.Decimal):
                raise DataError(
                    f"Invalid type for Decimal, expected BigDecimal but was class {java_class(value)}"
                )
            if numeric:
                return orjson.Fragment(decimal_text(value))
            return binascii.b2a_base64(bytes_of_int(number_of(value)), newline=False).decode()

        return write


def _one_of(writers: dict[str, Write], value: Struct) -> Any:
    for name, write in writers.items():
        given = value.values.get(name)
        if given is not None:
            return write(given)
    return None


def _known(writing: JsonWriting, schema: Schema | None) -> dict[str, Any] | None:
    return None if schema is None else writing.schema_json(schema)


def _checked(value: Any, wanted: type, schema: Schema) -> Any:
    if type(value) is wanted:
        return value
    raise DataError(f"Invalid type for {schema.type.name}: class {java_class(value)}")


def _scalar(schema: Schema) -> Write:
    wanted = int if schema.type in BITS else _SCALARS[schema.type]
    name = schema.type.name

    def write(value: Any) -> Any:
        if type(value) is wanted:
            return value
        raise DataError(f"Invalid type for {name}: class {java_class(value)}")

    return write


def _moment(schema: Schema) -> Write:
    kind = (schema.name or "").rpartition(".")[2]

    def write(value: Any) -> Any:
        if not isinstance(value, Moment):
            raise DataError(f"Invalid type for {kind}, expected Date but was class {java_class(value)}")
        return moment_number(schema, value)

    return write


def _float(value: float) -> Any:
    return value if math.isfinite(value) else value_text(value)


def _any(value: Any) -> Any:
    """A value without a schema."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return _float(value)
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return [_any(each) for each in value]
        case dict():
            if all(isinstance(key, str) for key in value):
                return {key: _any(each) for key, each in value.items()}
            return [[_any(key), _any(each)] for key, each in value.items()]
        case Struct():
            raise DataError("Mismatching schema.")
    raise DataError(f"Java class class {java_class(value)} does not have corresponding schema type.")


def plain_json(value: Any) -> bytes:
    """The JSON of a value without a schema. Raises DataError."""
    try:
        text = orjson.dumps(value, option=_STRICT)
        if b"null" not in text:  # which may be a NaN, which Connect writes as a text
            return text
    except orjson.JSONEncodeError:
        pass  # something that only the long way knows
    try:
        return write_json(_any(value))
    except RecursionError:
        raise DataError("values lie too deep in each other") from None
