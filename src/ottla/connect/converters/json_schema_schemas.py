"""Connect's schemas as JSON Schemas and back, with the properties by which Confluent keeps the difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.connect.converters.json_reading import JsonReading
from ottla.connect.converters.json_writing import JsonWriting
from ottla.connect.data.building import struct_schema, with_default
from ottla.connect.data.logical import is_decimal
from ottla.connect.data.schema import DataError, Schema, Type

ONE_OF: Final = "io.confluent.connect.json.OneOf"
_DIALECT: Final = "http://json-schema.org/draft-07/schema#"
_KINDS: Final = {
    Type.INT8: "integer",
    Type.INT16: "integer",
    Type.INT32: "integer",
    Type.INT64: "integer",
    Type.FLOAT32: "number",
    Type.FLOAT64: "number",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "string",
    Type.ARRAY: "array",
    Type.MAP: "object",
    Type.STRUCT: "object",
}
_FROM_JSON: Final = {
    "integer": Type.INT64,
    "number": Type.FLOAT64,
    "boolean": Type.BOOLEAN,
    "string": Type.STRING,
}
_TYPES: Final = {each.value: each for each in Type}
MAX_DEPTH: Final = 100


def json_schema(schema: Schema, writing: JsonWriting, index: int | None = None) -> dict[str, Any]:
    """The JSON Schema of a schema. index: its place among the fields of a struct."""
    node = _present(schema, writing)
    if schema.name is not None:
        node["title"] = schema.name
    if schema.version is not None:
        node["connect.version"] = schema.version
    if schema.parameters:
        node["connect.parameters"] = dict(schema.parameters)
    if schema.doc is not None:
        node["description"] = schema.doc
    if schema.default is not None:
        node["default"] = writing.writer(schema)(schema.default)
    if index is not None:
        node["connect.index"] = index
    if schema.optional:
        outer: dict[str, Any] = {"oneOf": [{"type": "null"}, node]}
        return outer if index is None else outer | {"connect.index": index}
    return node


def root_text(schema: Schema, writing: JsonWriting) -> dict[str, Any]:
    """The JSON Schema that is registered."""
    return {"$schema": _DIALECT} | json_schema(schema, writing)


def _present(schema: Schema, writing: JsonWriting) -> dict[str, Any]:
    node: dict[str, Any] = {"type": _KINDS[schema.type]}
    match schema.type:
        case Type.ARRAY:
            assert schema.values is not None
            node["items"] = json_schema(schema.values, writing)
        case Type.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            node["connect.type"] = "map"
            if schema.keys.type is Type.STRING:
                node["additionalProperties"] = json_schema(schema.values, writing)
            else:
                entry = {
                    "key": json_schema(schema.keys, writing, 0),
                    "value": json_schema(schema.values, writing, 1),
                }
                node |= {"type": "array", "items": {"type": "object", "properties": entry}}
        case Type.STRUCT:
            node["properties"] = {
                each.name: json_schema(each.schema, writing, at) for at, each in enumerate(schema.fields)
            }
        case Type.INT64 | Type.FLOAT64 | Type.BOOLEAN | Type.STRING:
            if schema.name is not None:
                node["connect.type"] = schema.type.value
        case _:
            node["connect.type"] = schema.type.value
    if is_decimal(schema) and writing.numeric_decimals:
        node["type"] = "number"
    return node


@dataclass(frozen=True, slots=True)
class JsonSchemaReading:
    """Turns one JSON Schema into a schema of Connect's. root: the whole of it, for its references."""

    root: Any
    reading: JsonReading

    def schema(self, node: Any, depth: int = 0) -> Schema:
        """Raises DataError for a schema that Connect can't have."""
        if depth > MAX_DEPTH:
            raise DataError("the JSON Schema contains itself, which a schema of Connect can't")
        if not isinstance(node, dict):
            raise DataError("the JSON Schema allows any value, and has no type")
        if "$ref" in node:
            return self.schema(self._referred(node["$ref"]), depth + 1)
        for word in ("oneOf", "anyOf"):
            if isinstance(node.get(word), list):
                return self._choice(node, node[word], depth)
        if isinstance(node.get("allOf"), list):
            return self._all_of(node, depth)
        kind = node.get("type")
        if isinstance(kind, list):
            return self._choice(node, [{**node, "type": each} for each in kind], depth)
        return self._with_metadata(self._bare(kind, node, depth), node)

    def _referred(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise DataError(f"the reference {reference} leads out of the JSON Schema")
        found = self.root
        for step in reference.lstrip("#/").split("/") if reference != "#" else ():
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise DataError(f"the JSON Schema has nothing at {reference}")
            found = found[name]
        return found

    def _choice(self, node: Mapping[str, Any], branches: list[Any], depth: int) -> Schema:
        present = [each for each in branches if not _is_null(each)]
        optional = len(present) < len(branches)
        if len(present) == 1:
            found = self.schema(present[0], depth + 1)
            return replace(found, optional=optional or found.optional)
        fields = [
            (f"{ONE_OF}.field.{at}", replace(self.schema(each, depth + 1), optional=True))
            for at, each in enumerate(present)
        ]
        return struct_schema(fields, name=ONE_OF, optional=optional)

    def _all_of(self, node: Mapping[str, Any], depth: int) -> Schema:
        merged: dict[str, Any] = {}
        for part in (*node["allOf"], {name: each for name, each in node.items() if name != "allOf"}):
            found = self._referred(part["$ref"]) if isinstance(part, dict) and "$ref" in part else part
            if not isinstance(found, dict):
                raise DataError("a part of allOf is no object")
            properties = {**merged.get("properties", {}), **found.get("properties", {})}
            merged |= found
            if properties:
                merged["properties"] = properties
        return self.schema(merged, depth + 1)

    def _bare(self, kind: Any, node: Mapping[str, Any], depth: int) -> Schema:
        connect = node.get("connect.type")
        match kind:
            case "array":
                items = self.schema(node.get("items"), depth + 1)
                if connect == "map":
                    keys, values = (items.field(name) for name in ("key", "value"))
                    if keys is None or values is None:
                        raise DataError("the entries of a map have a key and a value")
                    return Schema(Type.MAP, keys=keys.schema, values=values.schema)
                return Schema(Type.ARRAY, values=items)
            case "object":
                return self._object(node, depth)
            case "null":
                raise DataError("the JSON Schema allows null alone")
        if connect in _TYPES:
            return Schema(_TYPES[connect])
        if kind is None and isinstance(node.get("properties"), dict):
            return self._object(node, depth)
        if kind is None and isinstance(node.get("enum"), list):
            return Schema(Type.STRING)
        if kind not in _FROM_JSON:
            raise DataError(f"the JSON Schema has no type of Connect's: {kind}")
        return Schema(_FROM_JSON[kind])

    def _object(self, node: Mapping[str, Any], depth: int) -> Schema:
        properties = node.get("properties")
        values = node.get("additionalProperties")
        if node.get("connect.type") == "map" or (not properties and isinstance(values, dict)):
            of_values = self.schema(values, depth + 1)
            return Schema(Type.MAP, keys=Schema(Type.STRING), values=of_values)
        found = dict(properties) if isinstance(properties, dict) else {}
        names = sorted(found, key=lambda name: _index(found[name], len(found)))
        return struct_schema((name, self.schema(found[name], depth + 1)) for name in names)

    def _with_metadata(self, schema: Schema, node: Mapping[str, Any]) -> Schema:
        title, doc, version = node.get("title"), node.get("description"), node.get("connect.version")
        parameters = node.get("connect.parameters")
        built = replace(
            schema,
            name=title if isinstance(title, str) else None,
            doc=doc if isinstance(doc, str) else None,
            version=version if type(version) is int else None,
            parameters=parameters if isinstance(parameters, dict) else {},
        )
        if node.get("default") is None:
            return built
        return with_default(built, self.reading.reader(built)(node["default"]))


def _is_null(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") == "null"


def _index(node: Any, otherwise: int) -> int:
    found = node.get("connect.index") if isinstance(node, dict) else None
    return found if type(found) is int else otherwise
