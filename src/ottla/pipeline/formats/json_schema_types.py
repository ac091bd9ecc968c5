"""JSON Schemas <-> Spark types.

An object with properties is a STRUCT (a `required` property is NOT NULL unless null is one of its types); an
object with only `additionalProperties` a MAP; an array an ARRAY; integer BIGINT; number DOUBLE; string
STRING, or by its format a DATE or a TIMESTAMP, or BINARY with `contentEncoding: base64`. `T or null` (by
`type`, `anyOf` or `oneOf`) is a nullable T. A schema without a type, or with several, is a STRING of JSON.
References within the schema are followed; a schema that contains itself is refused.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.pipeline.formats.format import FormatError


def spark_type_of_json_schema(text: str) -> DataType:
    """The Spark type of a JSON Schema's text. Raises FormatError."""
    try:
        root = json.loads(text)
    except ValueError as problem:
        raise FormatError(f"not a JSON Schema: {problem}") from None
    if not isinstance(root, dict):
        return StringType()
    return _type(root, root, (), "")[0]


def _type(schema: Any, root: Any, followed: tuple[str, ...], path: str) -> tuple[DataType, bool]:
    """The Spark type, and whether null is one of the values."""
    if not isinstance(schema, dict):
        return StringType(), True
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in followed:
            raise FormatError(f"{path or 'the root'}: {reference} contains itself, Spark has no such type")
        return _type(_at(root, reference, path), root, (*followed, reference), path)
    for word in ("anyOf", "oneOf"):
        branches = schema.get(word)
        if isinstance(branches, list):
            rest = [each for each in branches if each != {"type": "null"}]
            if len(rest) != 1:
                return StringType(), True
            found, nullable = _type(rest[0], root, followed, path)
            return found, nullable or len(rest) < len(branches)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        rest = [each for each in kinds if each != "null"]
        if len(rest) != 1:
            return StringType(), True
        found, _ = _typed(rest[0], schema, root, followed, path), True
        return found, len(rest) < len(kinds)
    if kinds is None and "properties" in schema:
        kinds = "object"
    if not isinstance(kinds, str):
        return StringType(), True
    return _typed(kinds, schema, root, followed, path), kinds == "null"


def _typed(kind: str, schema: dict[str, Any], root: Any, followed: tuple[str, ...], path: str) -> DataType:
    match kind:
        case "object":
            return _object(schema, root, followed, path)
        case "array":
            items = schema.get("items", True)
            element, nullable = _type(items, root, followed, f"{path}[]")
            return ArrayType(element, nullable)
        case "integer":
            return LongType()
        case "number":
            return DoubleType()
        case "boolean":
            return BooleanType()
        case "string" if schema.get("format") == "date-time":
            return TimestampType()
        case "string" if schema.get("format") == "date":
            return DateType()
        case "string" if schema.get("contentEncoding") == "base64":
            return BinaryType()
    return StringType()


def _object(schema: dict[str, Any], root: Any, followed: tuple[str, ...], path: str) -> DataType:
    properties = schema.get("properties")
    if isinstance(properties, dict) and properties:
        required = schema.get("required", ())
        fields = []
        for name, each in properties.items():
            found, nullable = _type(each, root, followed, f"{path}.{name}".lstrip("."))
            fields.append(StructField(name, found, nullable or name not in required))
        return StructType(fields)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        found, nullable = _type(additional, root, followed, f"{path}{{}}")
        return MapType(StringType(), found, nullable)
    return StringType()


def _at(root: Any, reference: str, path: str) -> Any:
    if not reference.startswith("#"):
        raise FormatError(
            f"{path or 'the root'}: the reference {reference} leads out of the schema: give the values' type"
        )
    found = root
    for part in reference.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or name not in found:
            raise FormatError(f"{path or 'the root'}: there is no schema at {reference}")
        found = found[name]
    return found


def json_schema_of(spark_type: DataType, title: str) -> str:
    """The text of a JSON Schema for a Spark type. Raises FormatError."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "title": title}
    return json.dumps(schema | _schema_of(spark_type))


def _schema_of(spark_type: DataType) -> dict[str, Any]:
    match spark_type:
        case StructType():
            properties = {
                each.name: _or_null(_schema_of(each.dataType), each.nullable) for each in spark_type.fields
            }
            required = [each.name for each in spark_type.fields if not each.nullable]
            made: dict[str, Any] = {"type": "object", "properties": properties}
            return made | {"required": required} if required else made
        case ArrayType():
            items = _or_null(_schema_of(spark_type.elementType), spark_type.containsNull)
            return {"type": "array", "items": items}
        case MapType() if isinstance(spark_type.keyType, StringType):
            values = _or_null(_schema_of(spark_type.valueType), spark_type.valueContainsNull)
            return {"type": "object", "additionalProperties": values}
        case ByteType() | ShortType() | IntegerType() | LongType():
            return {"type": "integer"}
        case FloatType() | DoubleType() | DecimalType():
            return {"type": "number"}
        case BooleanType():
            return {"type": "boolean"}
        case StringType():
            return {"type": "string"}
        case BinaryType():
            return {"type": "string", "contentEncoding": "base64"}
        case DateType():
            return {"type": "string", "format": "date"}
        case TimestampType():
            return {"type": "string", "format": "date-time"}
    raise FormatError(f"JSON Schema has no type for {spark_type.simpleString()}")


def _or_null(schema: dict[str, Any], nullable: bool) -> dict[str, Any]:
    return {"anyOf": [{"type": "null"}, schema]} if nullable else schema
