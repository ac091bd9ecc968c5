"""Rows for a table's columns: what a table lacks for a batch, and a batch's columns as a table has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from ottla.config.errors import UserError
from ottla.connect.spark.types import widened

if TYPE_CHECKING:
    from pyspark.sql import Column


class ColumnsError(UserError):
    """Rows that a table has no place for; the message says which column."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a table's columns, as the end of `ALTER TABLE t`."""

    clause: str


def quoted(*path: str) -> str:
    """A column's name in SQL."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in path)


def type_text(kind: DataType) -> str:
    """A type in SQL, with its names quoted."""
    match kind:
        case StructType():
            fields = ", ".join(f"{quoted(each.name)}: {type_text(each.dataType)}" for each in kind.fields)
            return f"STRUCT<{fields}>"
        case ArrayType():
            return f"ARRAY<{type_text(kind.elementType)}>"
        case MapType():
            return f"MAP<{type_text(kind.keyType)}, {type_text(kind.valueType)}>"
    return kind.simpleString().upper()


def missing(table: StructType, rows: StructType, path: tuple[str, ...] = ()) -> Iterator[Change]:
    """What a table needs so that it can hold some rows: new columns, wider types, fewer NOT NULLs."""
    known = {each.name: each for each in table.fields}
    for field in rows.fields:
        here = (*path, field.name)
        column = known.pop(field.name, None)
        if column is None:
            yield Change(f"ADD COLUMN {quoted(*here)} {type_text(field.dataType)}")
            continue
        if not column.nullable and field.nullable:
            yield Change(f"ALTER COLUMN {quoted(*here)} DROP NOT NULL")
        yield from _missing_within(column.dataType, field.dataType, here)
    for column in known.values():
        if not column.nullable:
            yield Change(f"ALTER COLUMN {quoted(*path, column.name)} DROP NOT NULL")


def _missing_within(column: DataType, value: DataType, path: tuple[str, ...]) -> Iterator[Change]:
    match column, value:
        case StructType(), StructType():
            yield from missing(column, value, path)
        case ArrayType(), ArrayType():
            yield from _missing_within(column.elementType, value.elementType, (*path, "element"))
        case MapType(), MapType():
            yield from _missing_within(column.valueType, value.valueType, (*path, "value"))
        case _:
            both = widened(column, value)
            if both is not None and both != column:
                yield Change(f"ALTER COLUMN {quoted(*path)} TYPE {type_text(both)}")


def conformed(column: Column, value: DataType, wanted: DataType, path: str) -> Column:
    """A value of one type as one of another. Raises ColumnsError where values could be lost."""
    match value, wanted:
        case StructType(), StructType():
            made = [
                _field(column, value, each, f"{path}.{each.name}").alias(each.name) for each in wanted.fields
            ]
            return F.when(column.isNotNull(), F.struct(*made))
        case ArrayType(), ArrayType():
            if value.elementType == wanted.elementType:
                return column
            return F.transform(
                column, lambda each: conformed(each, value.elementType, wanted.elementType, f"{path}[]")
            )
        case MapType(), MapType():
            if value.valueType == wanted.valueType and value.keyType == wanted.keyType:
                return column
            return F.transform_values(
                column, lambda _, each: conformed(each, value.valueType, wanted.valueType, f"{path}{{}}")
            )
    if value == wanted:
        return column
    if widened(value, wanted) == wanted or value.typeName() == "void":
        return column.cast(wanted)
    if isinstance(wanted, StringType):
        nested = isinstance(value, StructType | ArrayType | MapType)
        return F.to_json(column) if nested else column.cast(wanted)
    if {value.typeName(), wanted.typeName()} == {"timestamp", "timestamp_ntz"}:
        return column.cast(wanted)
    raise ColumnsError(
        f"column {path} is {wanted.simpleString()}, which {value.simpleString()} does not fit into"
    )


def _field(row: Column | None, rows: StructType, wanted: StructField, path: str) -> Column:
    found = next((each for each in rows.fields if each.name == wanted.name), None)
    if found is None:
        if not wanted.nullable:
            raise ColumnsError(f"column {path} may not be null, and the records have no such field")
        return F.lit(None).cast(wanted.dataType)
    column = F.col(quoted(found.name)) if row is None else row.getField(found.name)
    return conformed(column, found.dataType, wanted.dataType, path)


def table_columns(rows: StructType, table: StructType) -> list[Column]:
    """The columns of a table, from those of rows. Raises ColumnsError."""
    return [_field(None, rows, each, each.name).alias(each.name) for each in table.fields]
