"""JSON of an outbox's payload as a struct, with the schema that follows from the JSON itself."""

from __future__ import annotations

from typing import Any, Final

from ottla.connect.data.building import OPTIONAL, struct_schema
from ottla.connect.data.checking import check_value
from ottla.connect.data.json_text import node_type
from ottla.connect.data.schema import DataError, Schema, Struct, Type

_INT32: Final = range(-(1 << 31), 1 << 31)
_INT64: Final = range(-(1 << 63), 1 << 63)


def payload_schema(key: str | None, node: Any, *, keep_nulls: bool) -> Schema | None:
    """The schema of parsed JSON; None where there is none (null, an empty array). Raises DataError.

    keep_nulls: null has the schema of optional bytes.
    """
    match node:
        case None:
            return OPTIONAL[Type.BYTES] if keep_nulls else None
        case bool():
            return OPTIONAL[Type.BOOLEAN]
        case str():
            return OPTIONAL[Type.STRING]
        case int():
            return _number_schema(node)
        case list():
            if not node:
                return None
            items = _items(key, node, keep_nulls)
            return Schema(Type.ARRAY, optional=True, values=items)
        case dict():
            fields: dict[str, Schema] = {}
            for name, each in node.items():
                schema = payload_schema(f"{key}.{name}" if key else name, each, keep_nulls=keep_nulls)
                if schema is not None:
                    fields[name] = schema
            return struct_schema(fields.items(), optional=True, name=key)
    return OPTIONAL[Type.FLOAT64]


def _number_schema(node: int) -> Schema:
    if node in _INT32:
        return OPTIONAL[Type.INT32]
    return OPTIONAL[Type.INT64] if node in _INT64 else OPTIONAL[Type.FLOAT64]


def _items(key: str | None, nodes: list[Any], keep_nulls: bool) -> Schema:
    present = [each for each in nodes if each is not None]
    if any(node_type(each) != node_type(present[0]) for each in present):
        raise DataError(
            f"Field is not a homogenous array ({'x'.join(sorted(set(map(node_type, present))))})."
        )
    if present and isinstance(present[0], dict):
        merged: Schema | None = None
        for each in present:
            schema = payload_schema(key, each, keep_nulls=keep_nulls)
            assert schema is not None
            merged = schema if merged is None else _merged(merged, schema)
        assert merged is not None
        return merged
    schemas = [payload_schema(None, each, keep_nulls=keep_nulls) for each in present]
    if present and node_type(present[0]) == "NUMBER" and any(each != schemas[0] for each in schemas):
        raise DataError("Field is not a homogenous array, different number types")
    found = schemas[0] if schemas else payload_schema(None, None, keep_nulls=keep_nulls)
    if found is None:
        raise DataError(f"Array '{key or ''}' has unrecognized member schema.")
    return found


def _merged(left: Schema, right: Schema) -> Schema:
    fields = {each.name: each.schema for each in left.fields}
    for each in right.fields:
        known = fields.get(each.name)
        if known is None or (known.type is Type.BYTES and each.schema.type is not Type.BYTES):
            fields[each.name] = each.schema
    return struct_schema(fields.items(), like=left)


def payload_struct(node: Any, schema: Schema | None) -> Struct:
    """The struct of parsed JSON. Raises DataError for JSON that is no object, or does not fit."""
    if schema is None or schema.type is not Type.STRUCT:
        raise DataError(f"Not a struct schema: {schema}")
    values: dict[str, Any] = {}
    for field in schema.fields:
        if field.name in node:
            value = _value(node[field.name], field.schema)
            check_value(field.schema, value, field.name)
            values[field.name] = value
    return Struct(schema, values)


def _value(node: Any, schema: Schema) -> Any:
    match node:
        case dict():
            return payload_struct(node, schema)
        case list():
            assert schema.values is not None
            return [_value(each, schema.values) for each in node]
    return node
