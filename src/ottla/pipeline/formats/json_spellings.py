"""JSON objects whose fields have two spellings: by a field's name, or by that name in lower case.

A type is read with each field of its structs twice, and what was read becomes one field again. The name as it
is wins, unless its value is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column

_LOWER: Final = "$lower$"


def both_spellings(of: DataType, *, told_apart: bool = False) -> DataType:
    """The type with each field of its structs twice: as it is, and in lower case.

    told_apart: the second one is named by `_LOWER` and the column's name: Spark's expressions, unlike its
    reader of JSON, take names that differ by case alone for one name.
    """
    match of:
        case StructType():
            fields = []
            for each in of.fields:
                inner = both_spellings(each.dataType, told_apart=told_apart)
                fields.append(StructField(each.name, inner))
                if _has_other_spelling(each.name, of):
                    other = _LOWER + each.name if told_apart else each.name.lower()
                    fields.append(StructField(other, inner))
            return StructType(fields)
        case ArrayType():
            return ArrayType(both_spellings(of.elementType, told_apart=told_apart))
        case MapType():
            return MapType(of.keyType, both_spellings(of.valueType, told_apart=told_apart))
        case _:
            return of


def one_spelling(column: Column, of: DataType) -> Column:
    """A value of `both_spellings(of)` as one of `of`."""
    return _merged(column.cast(both_spellings(of, told_apart=True)), of) if _has_struct(of) else column


def _merged(column: Column, of: DataType) -> Column:
    match of:
        case StructType():
            fields = []
            for each in of.fields:
                found = _merged(column.getField(each.name), each.dataType)
                if _has_other_spelling(each.name, of):
                    lower = _merged(column.getField(_LOWER + each.name), each.dataType)
                    found = F.coalesce(found, lower)
                fields.append(found.alias(each.name))
            return F.when(column.isNotNull(), F.struct(*fields))
        case ArrayType() if _has_struct(of):
            return F.transform(column, lambda each: _merged(each, of.elementType))
        case MapType() if _has_struct(of):
            return F.transform_values(column, lambda _, each: _merged(each, of.valueType))
        case _:
            return column


def _has_other_spelling(name: str, of: StructType) -> bool:
    return name.lower() not in of.names


def _has_struct(of: DataType) -> bool:
    match of:
        case StructType():
            return True
        case ArrayType():
            return _has_struct(of.elementType)
        case MapType():
            return _has_struct(of.valueType)
        case _:
            return False
