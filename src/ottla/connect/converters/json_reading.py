"""JSON as values: a schema is compiled into functions that turn parsed JSON into its values.

A scalar of another type than the schema's is read as Jackson gives it: a number from a text is 0, a text
from a number is null.
"""

from __future__ import annotations

import base64
import binascii
import decimal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect.data.building import struct_schema, with_default
from ottla.connect.data.checking import BITS
from ottla.connect.data.java_text import float32, wrapped
from ottla.connect.data.json_text import node_type
from ottla.connect.data.logical import decimal_of_bytes, moment_of_number
from ottla.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, DataError, Schema, Struct, Type

Read = Callable[[Any], Any]
"""Turns parsed JSON into a value. Raises DataError."""
_TYPES: Final = {
    "boolean": Type.BOOLEAN,
    "int8": Type.INT8,
    "int16": Type.INT16,
    "int32": Type.INT32,
    "int64": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "bytes": Type.BYTES,
    "string": Type.STRING,
}
_INT32: Final = range(-(1 << 31), 1 << 31)


@dataclass(frozen=True, slots=True)
class JsonReading:
    """How JSON is read. pairs_are_objects, one_of: see JsonWriting."""

    replace_null_with_default: bool = True
    pairs_are_objects: bool = False
    one_of: str | None = None

    def reader(self, schema: Schema, place: str | None = None) -> Read:
        """The function for values of a schema. place: in a struct, whose fields are checked; else None."""
        present = self._present(schema, place)
        type_name = schema.type.name
        default = schema.default if self.replace_null_with_default else None
        if schema.optional:
            return lambda node: default if node is None else present(node)

        def required(node: Any) -> Any:
            if node is None:
                if default is not None:
                    return default
                raise DataError(f"Invalid null value for required {type_name} field")
            value = present(node)
            if value is None and place is not None:
                raise DataError(f"Invalid value: null used for required {place}, schema type: {type_name}")
            return value

        return required

    def schema(self, node: Any) -> Schema | None:
        """The schema that a JSON object describes. Raises DataError."""
        try:
            return self._schema(node)
        except RecursionError:
            raise DataError("the schema's types lie too deep in each other") from None

    def _schema(self, node: Any) -> Schema | None:
        if node is None:
            return None
        if not isinstance(node, dict) or not isinstance(node.get("type"), str):
            raise DataError("Schema must contain 'type' field")
        schema = self._bare(node["type"], node)
        parameters = node.get("parameters")
        if not isinstance(parameters, dict):
            parameters = {}
        if not all(isinstance(each, str) for each in parameters.values()):
            raise DataError("Schema parameters must have string values.")
        version = node.get("version")
        built = Schema(
            schema.type,
            node.get("optional") is True,
            name=_text(node.get("name")),
            version=wrapped(version, Type.INT32) if type(version) is int else None,
            doc=_text(node.get("doc")),
            parameters=parameters,
            fields=schema.fields,
            keys=schema.keys,
            values=schema.values,
        )
        if "default" not in node:
            return built
        default = self.reader(built)(node["default"])
        if default is None and not built.optional:
            raise DataError("Invalid default value")
        return with_default(built, default)

    def _bare(self, name: str, node: dict[str, Any]) -> Schema:
        match name:
            case "array":
                items = self._schema(node.get("items"))
                if items is None:
                    raise DataError("Array schema did not specify the element type")
                return Schema(Type.ARRAY, values=items)
            case "map":
                if "keys" not in node:
                    raise DataError("Map schema did not specify the key type")
                if "values" not in node:
                    raise DataError("Map schema did not specify the value type")
                keys, values = self._schema(node["keys"]), self._schema(node["values"])
                if keys is None or values is None:
                    raise DataError(f"{'keySchema' if keys is None else 'valueSchema'} cannot be null.")
                return Schema(Type.MAP, keys=keys, values=values)
            case "struct":
                fields = node.get("fields")
                if not isinstance(fields, list):
                    raise DataError('Struct schema\'s "fields" argument is not an array.')
                return struct_schema(self._fields(fields))
        if name not in _TYPES:
            raise DataError(f"Unknown schema type: {name}")
        return Schema(_TYPES[name])

    def _fields(self, nodes: list[Any]) -> Iterable[tuple[str, Schema]]:
        for node in nodes:
            name = node.get("field") if isinstance(node, dict) else None
            if not isinstance(name, str):
                raise DataError("Struct schema's field name not specified properly")
            schema = self._schema(node)
            assert schema is not None
            yield name, schema

    def _present(self, schema: Schema, place: str | None) -> Read:
        if schema.name == DECIMAL:
            return lambda node: _decimal(schema, node)
        if schema.name in (DATE, TIME, TIMESTAMP):
            return _moment(schema)
        match schema.type:
            case Type.STRUCT:
                return self._struct(schema)
            case Type.ARRAY:
                assert schema.values is not None
                items = self.reader(schema.values, place and f"element of array {place}")
                return lambda node: [items(each) for each in _elements(node)]
            case Type.MAP:
                return self._map(schema, place)
            case Type.BOOLEAN:
                return lambda node: node is True
            case Type.STRING:
                return _text
            case Type.BYTES:
                return _bytes
            case Type.FLOAT32:
                return lambda node: float32(_double(node))
            case Type.FLOAT64:
                return _double
        return _whole(schema.type)

    def _one_of(self, schema: Schema) -> Read:
        readers = [(each, self.reader(each.schema)) for each in schema.fields]

        def read(node: Any) -> Any:
            for field, reader in readers:
                if _may_be(field.schema, node):
                    return Struct(schema, {field.name: reader(node)})
            raise DataError(f"no branch of the union is a {node_type(node)}")

        return read

    def _struct(self, schema: Schema) -> Read:
        if schema.name is not None and schema.name == self.one_of:
            return self._one_of(schema)
        readers = [(each.name, self.reader(each.schema, f'field: "{each.name}"')) for each in schema.fields]

        def read(node: Any) -> Any:
            if type(node) is not dict:
                raise DataError(f"Structs should be encoded as JSON objects, but found {node_type(node)}")
            get = node.get
            return Struct(schema, {name: reader(get(name)) for name, reader in readers})

        return read

    def _map(self, schema: Schema, place: str | None) -> Read:
        assert schema.keys is not None
        assert schema.values is not None
        values = self.reader(schema.values, place and f"value of map {place}")
        if schema.keys.type is Type.STRING:

            def read_object(node: Any) -> Any:
                if type(node) is not dict:
                    raise DataError(
                        "Maps with string fields should be encoded as JSON objects, but found "
                        f"{node_type(node)}"
                    )
                return {key: values(each) for key, each in node.items()}

            return read_object
        keys = self.reader(schema.keys, place and f"key of map {place}")
        objects = self.pairs_are_objects

        def read_pairs(node: Any) -> Any:
            found = {}
            for entry in _entries(node) if objects else _pairs(node):
                try:
                    found[keys(entry[0])] = values(entry[1])
                except TypeError:
                    raise DataError("an array or map can't be the key of a map here") from None
            return found

        return read_pairs


def _may_be(schema: Schema, node: Any) -> bool:
    """Whether JSON has the form of a schema's values."""
    match node:
        case bool():
            return schema.type is Type.BOOLEAN
        case str():
            return schema.type in (Type.STRING, Type.BYTES)
        case int():
            return schema.type in BITS or schema.type in (Type.FLOAT32, Type.FLOAT64)
        case list():
            return schema.type is Type.ARRAY
        case dict() if schema.type is Type.STRUCT:
            return node.keys() <= {each.name for each in schema.fields}
        case dict():
            return schema.type is Type.MAP
    return schema.type in (Type.FLOAT32, Type.FLOAT64)


def _entries(node: Any) -> list[tuple[Any, Any]]:
    if not isinstance(node, list) or not all(isinstance(each, dict) for each in node):
        raise DataError(
            f"Maps with non-string fields should be encoded as JSON objects, not {node_type(node)}"
        )
    return [(each.get("key"), each.get("value")) for each in node]


def _pairs(node: Any) -> list[list[Any]]:
    if not isinstance(node, list):
        raise DataError(
            "Maps with non-string fields should be encoded as JSON array of tuples, but found "
            f"{node_type(node)}"
        )
    for entry in node:
        if not isinstance(entry, list):
            raise DataError(f"Found invalid map entry instead of array tuple: {node_type(entry)}")
        if len(entry) != 2:
            raise DataError(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
    return node


def _elements(node: Any) -> Iterable[Any]:
    if isinstance(node, list):
        return node
    return node.values() if isinstance(node, dict) else ()


def _text(node: Any) -> str | None:
    return node if isinstance(node, str) else None


def _bytes(node: Any) -> bytes | None:
    if not isinstance(node, str):
        return None
    try:
        return base64.b64decode("".join(node.split()), validate=True)
    except (binascii.Error, ValueError):
        raise DataError("Invalid bytes field") from None


def _double(node: Any) -> float:
    if isinstance(node, bool) or not isinstance(node, int | float | decimal.Decimal):
        return 0.0
    try:
        return float(node)
    except OverflowError:
        return float("inf") if node > 0 else float("-inf")


def _whole(type_: Type) -> Read:
    limit = 1 << (BITS[type_] - 1)

    def read(node: Any) -> int:
        if type(node) is int:
            return node if -limit <= node < limit else wrapped(node, type_)
        if isinstance(node, float | decimal.Decimal):
            return wrapped(_cut(node), type_)
        return 0

    return read


def _cut(number: float | decimal.Decimal) -> int:
    try:
        return int(number)
    except (OverflowError, ValueError):
        return 0


def _decimal(schema: Schema, node: Any) -> decimal.Decimal:
    match node:
        case bool():
            pass
        case int() | decimal.Decimal():
            return decimal.Decimal(node)
        case float():
            return decimal.Decimal(repr(node))
        case str():
            try:
                data = _bytes(node)
                assert data is not None
                return decimal_of_bytes(schema, data)
            except DataError as problem:
                raise DataError("Invalid bytes for Decimal field") from problem
    raise DataError(
        "Invalid type for Decimal, underlying representation should be numeric or bytes but was "
        f"{node_type(node)}"
    )


def _moment(schema: Schema) -> Read:
    kind = (schema.name or "").rpartition(".")[2]
    wide = schema.name == TIMESTAMP
    word = "integral" if wide else "integer"

    def read(node: Any) -> Any:
        if type(node) is not int or not (wide or node in _INT32):
            raise DataError(
                f"Invalid type for {kind}, underlying representation should be {word} but was "
                f"{node_type(node)}"
            )
        return moment_of_number(schema, wrapped(node, Type.INT64))

    return read


def plain_value(node: Any) -> Any:
    """Parsed JSON without a schema; whole numbers are cut to 64 bits, as Connect does."""
    match node:
        case int() if not isinstance(node, bool):
            return wrapped(node, Type.INT64)
        case list():
            return [plain_value(each) for each in node]
        case dict():
            return {key: plain_value(each) for key, each in node.items()}
    return node


def has_decimals(schema: Schema) -> bool:
    """Whether some value of a schema is a decimal, which is read with all its digits."""
    return schema.name == DECIMAL or any(map(has_decimals, _below(schema)))


def has_decimal_defaults(schema: Schema) -> bool:
    """Whether some default of a schema has a decimal: then the schema itself is read with all digits."""
    if schema.default is not None and has_decimals(schema):
        return True
    return any(map(has_decimal_defaults, _below(schema)))


def _below(schema: Schema) -> Iterable[Schema]:
    yield from (each.schema for each in schema.fields)
    yield from (each for each in (schema.keys, schema.values) if each is not None)
