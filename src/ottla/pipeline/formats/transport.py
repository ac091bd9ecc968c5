"""Carries typed columns to Python writers: as JSON made in the JVM, in forms that lose nothing.

One column of texts goes to Python instead of many columns of many types: `to_json` is compiled code, orjson
makes dicts of it, and no value passes through pandas, whose integers with nulls are floats and whose times
end in 2262. A TIMESTAMP travels as a number of microseconds, a TIMESTAMP_NTZ and a decimal as a text, a date
as a number of days, binary as base64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

if TYPE_CHECKING:
    from pyspark.sql import Column


def transport_text(column: Column, wanted: DataType) -> Column:
    """JSON of a value cast to `wanted`; a value that is not a struct becomes `{"v": …}`; null stays null."""
    cast = column if isinstance(wanted, StructType) else column.cast(wanted)
    carried = _carried(cast, wanted)
    if not isinstance(wanted, StructType):
        carried = F.when(column.isNotNull(), F.struct(carried.alias("v")))
    return F.to_json(carried, {"ignoreNullFields": "false"})


def _carried(column: Column, wanted: DataType) -> Column:
    match wanted:
        case StructType():
            fields = [
                _carried(column.getField(each.name), each.dataType).alias(each.name) for each in wanted.fields
            ]
            return F.when(column.isNotNull(), F.struct(*fields))
        case ArrayType():
            return F.transform(column, lambda each: _carried(each, wanted.elementType))
        case MapType():
            return F.transform_values(column, lambda _, each: _carried(each, wanted.valueType))
        case TimestampType():
            return F.unix_micros(column.cast("timestamp"))
        case TimestampNTZType():
            return column.cast("timestamp_ntz").cast("string")
        case DateType():
            return F.unix_date(column.cast("date"))
        case DecimalType():
            return column.cast(wanted).cast("string")
        case _:
            return column.cast(wanted)
