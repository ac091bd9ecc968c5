"""include.schema.changes: DDL as records of a topic of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ottla.connect.cdc.mariadb.model import Column, Table, TableChange, quoted_option
from ottla.connect.cdc.mariadb.source_block import SOURCE
from ottla.connect.data.building import OPTIONAL, REQUIRED, struct_schema
from ottla.connect.data.record import Record
from ottla.connect.data.schema import Schema, Struct, Type

_STRING: Final = REQUIRED[Type.STRING]
_TEXT: Final = OPTIONAL[Type.STRING]
_NUMBER: Final = OPTIONAL[Type.INT32]
_FLAG: Final = OPTIONAL[Type.BOOLEAN]


def _named(schema: Schema, name: str) -> Schema:
    return replace(schema, name=name, version=1)


KEY: Final = _named(
    struct_schema((("databaseName", _STRING),)), "io.debezium.connector.mariadb.SchemaChangeKey"
)
COLUMN: Final = _named(
    struct_schema(
        (
            ("name", _STRING),
            ("jdbcType", REQUIRED[Type.INT32]),
            ("nativeType", _NUMBER),
            ("typeName", _STRING),
            ("typeExpression", _TEXT),
            ("charsetName", _TEXT),
            ("length", _NUMBER),
            ("scale", _NUMBER),
            ("position", REQUIRED[Type.INT32]),
            ("optional", _FLAG),
            ("autoIncremented", _FLAG),
            ("generated", _FLAG),
            ("comment", _TEXT),
            ("defaultValueExpression", _TEXT),
            ("enumValues", Schema(Type.ARRAY, optional=True, values=_STRING)),
        )
    ),
    "io.debezium.connector.schema.Column",
)
TABLE: Final = _named(
    struct_schema(
        (
            ("defaultCharsetName", _TEXT),
            ("primaryKeyColumnNames", Schema(Type.ARRAY, optional=True, values=_STRING)),
            ("columns", Schema(Type.ARRAY, values=COLUMN)),
            ("comment", _TEXT),
        ),
        optional=True,
    ),
    "io.debezium.connector.schema.Table",
)
CHANGE: Final = _named(
    struct_schema((("type", _STRING), ("id", _STRING), ("table", TABLE))),
    "io.debezium.connector.schema.Change",
)
VALUE: Final = _named(
    struct_schema(
        (
            ("source", SOURCE),
            ("ts_ms", REQUIRED[Type.INT64]),
            ("databaseName", _TEXT),
            ("schemaName", _TEXT),
            ("ddl", _TEXT),
            ("tableChanges", Schema(Type.ARRAY, values=CHANGE)),
        )
    ),
    "io.debezium.connector.mariadb.SchemaChangeValue",
)


def schema_change_record(
    topic: str, source: Struct, now_ms: int, database: str, ddl: str, changes: tuple[TableChange, ...]
) -> Record:
    """The record of a statement; the topic has one partition, as the order of DDL matters."""
    value = Struct(
        VALUE,
        {
            "source": source,
            "ts_ms": now_ms,
            "databaseName": database,
            "schemaName": None,
            "ddl": ddl,
            "tableChanges": [_change(each) for each in changes],
        },
    )
    return Record(topic, 0, Struct(KEY, {"databaseName": database}), KEY, value, VALUE)


def _change(change: TableChange) -> Struct:
    table = None if change.table is None else _table(change.table)
    return Struct(CHANGE, {"type": change.kind, "id": change.id.quoted, "table": table})


def _table(table: Table) -> Struct:
    return Struct(
        TABLE,
        {
            "defaultCharsetName": table.charset,
            "primaryKeyColumnNames": list(table.key),
            "columns": [_column(each, at) for at, each in enumerate(table.columns, 1)],
            "comment": table.comment,
        },
    )


def _column(column: Column, position: int) -> Struct:
    values: dict[str, Any] = {
        "name": column.name,
        "jdbcType": column.jdbc_type,
        "nativeType": None,
        "typeName": column.type,
        "typeExpression": column.type,
        "charsetName": column.charset,
        "length": column.length,
        "scale": column.scale,
        "position": position,
        "optional": column.is_nullable,
        "autoIncremented": column.is_auto_increment,
        "generated": column.is_auto_increment,
        "comment": column.comment,
        "defaultValueExpression": column.default,
        "enumValues": [quoted_option(each) for each in column.options] or None,
    }
    return Struct(COLUMN, values)
