"""Connect's schemas as Avro's and back, with the properties by which Confluent keeps the difference.

`connect.type`, `connect.name`, `connect.version`, `connect.doc`, `connect.parameters` and `connect.default`
are such properties; they are left out with connect.meta.data=false.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.connect.converters.avro_names import NAMESPACE, UNION
from ottla.connect.converters.avro_values import from_avro_default
from ottla.connect.data.building import struct_schema, with_default
from ottla.connect.data.logical import decimal_bytes, decimal_scale, moment_number
from ottla.connect.data.schema import (
    DATE,
    DECIMAL,
    SCALE,
    TIME,
    TIMESTAMP,
    DataError,
    Moment,
    Schema,
    Struct,
    Type,
)

DEFAULT_NAME: Final = "ConnectDefault"
MAP_ENTRY: Final = "MapEntry"
_PRECISION: Final = 64
_PRIMITIVES: Final = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_FROM_AVRO: Final = {
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "boolean": Type.BOOLEAN,
    "string": Type.STRING,
    "bytes": Type.BYTES,
    "fixed": Type.BYTES,
    "enum": Type.STRING,
}
_LOGICAL: Final = {DATE: "date", TIME: "time-millis", TIMESTAMP: "timestamp-millis"}
_FROM_LOGICAL: Final = {
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME,
    ("long", "timestamp-millis"): TIMESTAMP,
}


@dataclass(slots=True)
class AvroWriting:
    """Turns one schema of Connect's into one of Avro's."""

    metadata: bool = True
    _defined: dict[str, Schema] = field(default_factory=dict)

    def avro(self, schema: Schema) -> Any:
        """The Avro schema as JSON. Raises DataError."""
        found = self._present(schema)
        if not schema.optional:
            return found
        return [found, "null"] if schema.default is not None else ["null", found]

    def _present(self, schema: Schema) -> Any:
        match schema.type:
            case Type.STRUCT:
                return self._record(schema)
            case Type.ARRAY:
                assert schema.values is not None
                node: Any = {"type": "array", "items": self.avro(schema.values)}
            case Type.MAP:
                node = self._map(schema)
            case _:
                node = {"type": _PRIMITIVES[schema.type]}
        if schema.type in (Type.INT8, Type.INT16) and self.metadata:
            node["connect.type"] = schema.type.value
        node |= self._metadata(schema)
        if schema.name == DECIMAL:
            node |= {"logicalType": "decimal", "precision": _PRECISION, "scale": decimal_scale(schema)}
        elif schema.name in _LOGICAL:
            node["logicalType"] = _LOGICAL[schema.name]
        return node["type"] if len(node) == 1 and isinstance(node["type"], str) else node

    def _map(self, schema: Schema) -> dict[str, Any]:
        assert schema.keys is not None
        assert schema.values is not None
        if schema.keys.type is Type.STRING and not schema.keys.optional:
            return {"type": "map", "values": self.avro(schema.values)}
        name = self._unused(MAP_ENTRY, schema)
        entry: dict[str, Any] = {"type": "record", "name": name, "namespace": NAMESPACE}
        entry["fields"] = [
            {"name": "key", "type": self.avro(schema.keys)},
            {"name": "value", "type": self.avro(schema.values)},
        ]
        return {"type": "array", "items": entry | {"connect.internal.type": MAP_ENTRY}}

    def _unused(self, base: str, schema: Schema) -> str:
        name, number = base, 1
        while f"{NAMESPACE}.{name}" in self._defined:
            number += 1
            name = f"{base}{number}"
        self._defined[f"{NAMESPACE}.{name}"] = schema
        return name

    def _record(self, schema: Schema) -> Any:
        if schema.name is not None:
            known = self._defined.get(schema.name)
            if known is not None:
                if known.fields != schema.fields:
                    raise DataError(f"two different structs have the name {schema.name}")
                return schema.name
            self._defined[schema.name] = schema
            namespace, _, name = schema.name.rpartition(".")
        else:
            namespace, name = NAMESPACE, self._unused(DEFAULT_NAME, schema)
        node: dict[str, Any] = {"type": "record", "name": name}
        if namespace:
            node["namespace"] = namespace
        if schema.doc is not None:
            node["doc"] = schema.doc
        node["fields"] = [self._field(each.name, each.schema) for each in schema.fields]
        return node | self._metadata(schema)

    def _field(self, name: str, schema: Schema) -> dict[str, Any]:
        node: dict[str, Any] = {"name": name, "type": self.avro(schema)}
        if schema.default is not None:
            node["default"] = _default(schema, schema.default)
        elif schema.optional:
            node["default"] = None
        if schema.doc is not None and schema.type is not Type.STRUCT:
            node["doc"] = schema.doc
        return node

    def _metadata(self, schema: Schema) -> dict[str, Any]:
        if not self.metadata:
            return {}
        told: dict[str, Any] = {}
        if schema.doc is not None:
            told["connect.doc"] = schema.doc
        if schema.version is not None:
            told["connect.version"] = schema.version
        if schema.parameters:
            told["connect.parameters"] = dict(schema.parameters)
        if schema.default is not None:
            told["connect.default"] = _default(schema, schema.default)
        if schema.name is not None:
            told["connect.name"] = schema.name
        return told


def _default(schema: Schema, value: Any) -> Any:
    """A default as Avro's JSON; bytes are texts of their code points."""
    match value:
        case decimal.Decimal():
            return decimal_bytes(schema, value).decode("latin-1")
        case Moment():
            return moment_number(schema, value)
        case bytes():
            return value.decode("latin-1")
        case list():
            assert schema.values is not None
            return [_default(schema.values, each) for each in value]
        case dict():
            assert schema.values is not None
            return {key: _default(schema.values, each) for key, each in value.items()}
        case Struct():
            return {each.name: _default(each.schema, value.get(each.name)) for each in schema.fields}
    return value


@dataclass(frozen=True, slots=True)
class AvroReading:
    """Turns one schema of Avro's, complete with all named types, into one of Connect's."""

    metadata: bool = True
    _named: dict[str, Any] = field(default_factory=dict)

    def schema(self, node: Any, namespace: str = "", within: tuple[str, ...] = ()) -> Schema:
        """Raises DataError for a schema that Connect can't have, such as one that contains itself."""
        match node:
            case str():
                return self._of_name(node, namespace, within)
            case list():
                return self._union(node, namespace, within)
            case dict():
                return self._of_object(node, namespace, within)
        raise DataError("no Avro schema")

    def _of_name(self, name: str, namespace: str, within: tuple[str, ...]) -> Schema:
        if name in _FROM_AVRO:
            return Schema(_FROM_AVRO[name])
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._named.get(full, self._named.get(name))
        if found is None:
            raise DataError(f"the Avro type {name} is not defined")
        return self.schema(found, full.rpartition(".")[0], within)

    def _union(self, branches: list[Any], namespace: str, within: tuple[str, ...]) -> Schema:
        present = [each for each in branches if each != "null"]
        optional = len(present) < len(branches)
        if len(present) == 1:
            found = self.schema(present[0], namespace, within)
            return replace(found, optional=True) if optional else found
        fields = [
            (branch_name(each), replace(self.schema(each, namespace, within), optional=True))
            for each in present
        ]
        return struct_schema(fields, name=UNION, optional=optional)

    def _of_object(self, node: Mapping[str, Any], namespace: str, within: tuple[str, ...]) -> Schema:
        kind = node.get("type")
        if not isinstance(kind, str):
            return self.schema(kind, namespace, within)
        match kind:
            case "record" | "error":
                return self._record(node, namespace, within)
            case "array":
                items = node["items"]
                if isinstance(items, dict) and items.get("connect.internal.type") == MAP_ENTRY:
                    entry = self.schema(items, namespace, within)
                    keys, values = (each.schema for each in entry.fields)
                    return self._with_metadata(Schema(Type.MAP, keys=keys, values=values), node)
                found = Schema(Type.ARRAY, values=self.schema(items, namespace, within))
            case "map":
                values = self.schema(node["values"], namespace, within)
                found = Schema(Type.MAP, keys=Schema(Type.STRING), values=values)
            case "enum" | "fixed":
                self._named[_full_name(node, namespace)] = node
                found = Schema(_FROM_AVRO[kind])
            case _ if kind in _FROM_AVRO:
                found = Schema(_narrow(kind, node))
            case _:
                return self._of_name(kind, namespace, within)
        return self._with_metadata(self._logical(found, kind, node), node)

    def _logical(self, schema: Schema, kind: str, node: Mapping[str, Any]) -> Schema:
        logical = node.get("logicalType")
        if logical == "decimal" and kind in ("bytes", "fixed"):
            parameters = {SCALE: str(node.get("scale", 0))}
            return replace(schema, name=DECIMAL, version=1, parameters=parameters)
        name = _FROM_LOGICAL.get((kind, str(logical)))
        return schema if name is None else replace(schema, name=name, version=1)

    def _record(self, node: Mapping[str, Any], namespace: str, within: tuple[str, ...]) -> Schema:
        name = _full_name(node, namespace)
        if name in within:
            raise DataError(f"the Avro record {name} contains itself, which a schema of Connect can't")
        self._named[name] = node
        inner = name.rpartition(".")[0]
        fields = []
        for each in node["fields"]:
            schema = self.schema(each["type"], inner, (*within, name))
            if schema.default is None and each.get("default") is not None and schema.type is not Type.STRUCT:
                schema = with_default(schema, self._default(schema, each["default"]))
            if schema.doc is None and isinstance(each.get("doc"), str):
                schema = replace(schema, doc=each["doc"])
            fields.append((each["name"], schema))
        doc = node.get("doc")
        built = replace(struct_schema(fields, name=name), doc=doc if isinstance(doc, str) else None)
        if name.startswith(f"{NAMESPACE}.{DEFAULT_NAME}"):
            built = replace(built, name=None)
        return self._with_metadata(built, node)

    def _with_metadata(self, schema: Schema, node: Mapping[str, Any]) -> Schema:
        if not self.metadata:
            return schema
        parameters = node.get("connect.parameters")
        built = replace(
            schema,
            name=node.get("connect.name", schema.name),
            version=node.get("connect.version", schema.version),
            doc=node.get("connect.doc", schema.doc),
            parameters=parameters if isinstance(parameters, dict) else schema.parameters,
        )
        default = node.get("connect.default")
        return with_default(built, None if default is None else self._default(built, default))

    def _default(self, schema: Schema, told: Any) -> Any:
        return from_avro_default(schema, told)


def branch_name(node: Any) -> str:
    """The name of the field that stands for a branch of a union."""
    if isinstance(node, str):
        return node.rpartition(".")[2]
    kind = node["type"]
    return str(node.get("name", kind)).rpartition(".")[2] if isinstance(kind, str) else branch_name(kind)


def _narrow(kind: str, node: Mapping[str, Any]) -> Type:
    return {"int8": Type.INT8, "int16": Type.INT16}.get(str(node.get("connect.type")), _FROM_AVRO[kind])


def _full_name(node: Mapping[str, Any], namespace: str) -> str:
    name = str(node["name"])
    space = node.get("namespace", namespace)
    return name if "." in name or not space else f"{space}.{name}"


def bare(node: Any) -> Any:
    """An Avro schema without its logical types: values are read and written as the types below them."""
    match node:
        case dict():
            return {name: bare(each) for name, each in node.items() if name not in _NOT_READ}
        case list():
            return [bare(each) for each in node]
    return node


_NOT_READ: Final = frozenset(("logicalType", "precision", "scale", "connect.default"))
