"""Mappings of an index from a Connect schema."""

from __future__ import annotations

from typing import Any, Final

from ottla.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type

_TYPES: Final = {
    Type.INT8: "byte",
    Type.INT16: "short",
    Type.INT32: "integer",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.BYTES: "binary",
}
_LOGICAL: Final = {DATE: "date", TIMESTAMP: "date", TIME: "long", DECIMAL: "double"}


def mapping(schema: Schema) -> dict[str, Any]:
    """The mapping of a field, or of a document with the schema of a STRUCT."""
    if schema.name in _LOGICAL:
        return {"type": _LOGICAL[schema.name]}
    match schema.type:
        case Type.STRUCT:
            return {"properties": {each.name: mapping(each.schema) for each in schema.fields}}
        case Type.ARRAY if schema.values is not None:
            return mapping(schema.values)
        case Type.MAP:
            return {"type": "object"}
        case Type.STRING:
            return {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
    return {"type": _TYPES[schema.type]}
