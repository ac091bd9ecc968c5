"""Columns of a CREATE without any: those of a schema of the registry.

Names become upper case, as ksqlDB has them. A key or a value that is no record is one column: ROWKEY, ROWVAL.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final, cast

from ottla.connect.converters.avro_schemas import AvroReading
from ottla.connect.converters.json_reading import JsonReading
from ottla.connect.converters.json_schema_schemas import ONE_OF, JsonSchemaReading
from ottla.connect.converters.protobuf_schemas import message_schema
from ottla.connect.data.schema import DATE, DECIMAL, SCALE, TIME, TIMESTAMP, DataError, Schema, Type
from ottla.schemas.format import ParsedSchema
from ottla.schemas.protobuf.protobuf_format import ProtobufSchema
from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.expressions import TypeText
from ottla.sql.language.statements import ColumnText, CreateSource, Property, Role, SourceKind

MAX_DIGITS: Final = 38
_PRECISION: Final = "connect.decimal.precision"
_NAMES: Final = {
    Type.BOOLEAN: "BOOLEAN",
    Type.INT8: "INTEGER",
    Type.INT16: "INTEGER",
    Type.INT32: "INTEGER",
    Type.INT64: "BIGINT",
    Type.FLOAT32: "DOUBLE",
    Type.FLOAT64: "DOUBLE",
    Type.STRING: "STRING",
    Type.BYTES: "BYTES",
}
_TIMES: Final = {DATE: "DATE", TIME: "TIME", TIMESTAMP: "TIMESTAMP"}


def with_columns(
    statement: CreateSource, key: ParsedSchema | None, value: ParsedSchema | None
) -> CreateSource:
    """The statement with the columns of schemas before and behind its own. Raises SqlError."""
    columns = statement.columns
    properties = dict(statement.properties)
    if key is not None:
        role = Role.PRIMARY_KEY if statement.kind is SourceKind.TABLE else Role.KEY
        found = _schema(key, statement.at)
        single = not isinstance(key, ProtobufSchema) and len(found.fields) == 1
        columns = (*_columns(found, statement.at, role, "ROWKEY", whole=single), *columns)
    if value is not None:
        found = _schema(value, statement.at)
        if found.type is not Type.STRUCT:
            properties.setdefault("WRAP_SINGLE_VALUE", Property(statement.at, False))
        columns = (*columns, *_columns(found, statement.at, Role.VALUE, "ROWVAL", whole=False))
    return replace(statement, columns=columns, properties=properties)


def _schema(parsed: ParsedSchema, at: Position) -> Schema:
    try:
        if isinstance(parsed, ProtobufSchema):
            message = cast(Any, parsed.message_class((0,)))
            return message_schema(message.DESCRIPTOR)
        if parsed.schema_type.value == "AVRO":
            return AvroReading().schema(json.loads(parsed.formatted("resolved")))
        root = json.loads(parsed.canonical_text)
        return JsonSchemaReading(root, JsonReading(pairs_are_objects=True, one_of=ONE_OF)).schema(root)
    except (DataError, LookupError) as problem:
        raise SqlError(
            f"the schema in the registry has no columns: {problem}", at, "list the columns"
        ) from None


def _columns(schema: Schema, at: Position, role: Role, name: str, *, whole: bool) -> tuple[ColumnText, ...]:
    if schema.type is not Type.STRUCT or whole:
        return (ColumnText(at, name, _type(schema, at), role),)
    return tuple(ColumnText(at, each.name.upper(), _type(each.schema, at), role) for each in schema.fields)


def _type(schema: Schema, at: Position) -> TypeText:
    """The SQL type of a schema. Raises SqlError."""
    if schema.name == DECIMAL:
        scale = int(schema.parameters.get(SCALE, "0"))
        precision = min(int(schema.parameters.get(_PRECISION, str(MAX_DIGITS))), MAX_DIGITS)
        if not 0 <= scale <= precision:
            raise SqlError(f"a decimal in the registry has the scale {scale}", at, "list the columns")
        return TypeText(at, "DECIMAL", (precision, scale))
    if schema.name in _TIMES:
        return TypeText(at, _TIMES[schema.name])
    match schema.type:
        case Type.ARRAY:
            assert schema.values is not None
            return TypeText(at, "ARRAY", elements=(_type(schema.values, at),))
        case Type.MAP:
            assert schema.keys is not None and schema.values is not None
            return TypeText(at, "MAP", elements=(_type(schema.keys, at), _type(schema.values, at)))
        case Type.STRUCT:
            fields = tuple((each.name.upper(), _type(each.schema, at)) for each in schema.fields)
            return TypeText(at, "STRUCT", fields=fields)
    return TypeText(at, _NAMES[schema.type])
