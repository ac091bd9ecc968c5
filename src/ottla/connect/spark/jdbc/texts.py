"""Rows as the texts that a database reads fastest, made by Spark's own expressions: no row meets Python.

PostgreSQL gets lines of CSV for COPY, MariaDB the tuples of an INSERT. There texts and bytes are literals in
hexadecimal, so nothing in a record is ever a part of a statement's grammar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
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
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla.connect.connectors.jdbc.address import System
from ottla.connect.data.building import (
    DATE_SCHEMA,
    REQUIRED,
    TIMESTAMP_SCHEMA,
    as_optional,
    decimal_schema,
    struct_schema,
)
from ottla.connect.data.schema import DataError, Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import Column

UTC: Final = "UTC"
_PLAIN: Final[dict[type[DataType], Schema]] = {
    ByteType: REQUIRED[Type.INT8],
    ShortType: REQUIRED[Type.INT16],
    IntegerType: REQUIRED[Type.INT32],
    LongType: REQUIRED[Type.INT64],
    FloatType: REQUIRED[Type.FLOAT32],
    DoubleType: REQUIRED[Type.FLOAT64],
    BooleanType: REQUIRED[Type.BOOLEAN],
    StringType: REQUIRED[Type.STRING],
    BinaryType: REQUIRED[Type.BYTES],
    DateType: DATE_SCHEMA,
    TimestampType: TIMESTAMP_SCHEMA,
    TimestampNTZType: TIMESTAMP_SCHEMA,
}
_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)


def schema_of(kind: DataType) -> Schema:
    """Connect's schema of a type. Raises DataError for one that no column of a database has."""
    if isinstance(kind, DecimalType):
        return decimal_schema(kind.scale)
    if isinstance(kind, ArrayType):
        values = schema_of(kind.elementType)
        return Schema(Type.ARRAY, values=as_optional(values) if kind.containsNull else values)
    found = _PLAIN.get(type(kind))
    if found is None:
        raise DataError(f"a column can't have values of {kind.simpleString()}")
    return found


def struct_of_columns(kind: StructType, only: frozenset[str] | None = None) -> Schema:
    """The schema of a struct's fields; only: the names of those that matter, None: all. Raises DataError."""
    fields = []
    for each in kind.fields:
        if only is not None and each.name not in only:
            continue
        try:
            schema = schema_of(each.dataType)
        except DataError as problem:
            raise DataError(f"field {each.name!r}: {problem}") from None
        fields.append((each.name, as_optional(schema) if each.nullable else schema))
    return struct_schema(fields)


def row_text(system: System, columns: list[tuple[Column, DataType]], zone: str) -> Column:
    """A row's text: a line of CSV without what stands before its first comma; or the rest of a tuple."""
    texts = [_field(system, column, kind, zone) for column, kind in columns]
    if system is System.POSTGRESQL:
        return F.concat(F.concat_ws(",", *texts), F.lit("\n"))
    return F.concat(F.concat_ws(",", *texts), F.lit("),"))


def _field(system: System, column: Column, kind: DataType, zone: str) -> Column:
    if system is System.POSTGRESQL:
        return F.coalesce(_csv(_postgres_text(column, kind, zone), kind), F.lit(""))
    return F.coalesce(_maria_literal(column, kind, zone), F.lit("NULL"))


def _csv(text: Column, kind: DataType) -> Column:
    if isinstance(kind, StringType | ArrayType):
        return F.concat(F.lit('"'), F.replace(text, F.lit('"'), F.lit('""')), F.lit('"'))
    return text


def _postgres_text(column: Column, kind: DataType, zone: str) -> Column:
    match kind:
        case StringType():
            return column
        case BinaryType():
            return F.concat(F.lit("\\x"), F.hex(column))
        case ArrayType():
            return _array(column, kind.elementType, zone)
        case DateType():
            return date_column(column)
        case TimestampType():
            return timestamp_column(column, zone, offset=True)
        case TimestampNTZType():
            return timestamp_column(column, UTC, offset=False)
    return column.cast("string")


def _array(column: Column, kind: DataType, zone: str) -> Column:
    def item(each: Column) -> Column:
        text = _postgres_text(each, kind, zone)
        for sign in ("\\", '"'):
            text = F.replace(text, F.lit(sign), F.lit("\\" + sign))
        return F.coalesce(F.concat(F.lit('"'), text, F.lit('"')), F.lit("NULL"))

    items: Any = F.transform(column, item)
    return F.concat(F.lit("{"), F.array_join(items, ","), F.lit("}"))


def _maria_literal(column: Column, kind: DataType, zone: str) -> Column:
    match kind:
        case StringType():
            return F.concat(F.lit("_utf8mb4 x'"), F.hex(F.encode(column, "utf-8")), F.lit("'"))
        case BinaryType():
            return F.concat(F.lit("x'"), F.hex(column), F.lit("'"))
        case BooleanType():
            return F.when(column, "1").when(~column, "0")
        case DateType():
            return _in_quotes(date_column(column))
        case TimestampType():
            return _in_quotes(timestamp_column(column, zone, offset=False))
        case TimestampNTZType():
            return _in_quotes(timestamp_column(column, UTC, offset=False))
        case _ if isinstance(kind, _WHOLE):
            return column.cast("string")
    return _in_quotes(column.cast("string"))  # a number with a point, which has no quotes


def _in_quotes(text: Column) -> Column:
    return F.concat(F.lit("'"), text, F.lit("'"))


def date_column(column: Column) -> Column:
    """A day as databases write it, before 1 and behind 9999 too (moments.date_text)."""
    usual = column.between(F.lit("0001-01-01").cast("date"), F.lit("9999-12-31").cast("date"))
    day = F.concat(_year(column), F.date_format(column, "-MM-dd"), _era(column))
    return F.when(usual, column.cast("string")).otherwise(day)


def timestamp_column(column: Column, zone: str, *, offset: bool) -> Column:
    """A timestamp in local time of a zone (moments.timestamp_text); offset: with its distance from UTC."""
    local = column if zone == UTC else F.from_utc_timestamp(column, zone)
    tail = F.lit("")
    if offset:
        tail = F.lit("+00") if zone == UTC else _offset(column, local)
    usual = local.between(F.lit("0001-01-02").cast("timestamp"), F.lit("9999-12-30").cast("timestamp"))
    day = F.concat(_year(local), F.date_format(local, "-MM-dd HH:mm:ss.SSSSSS"), tail, _era(local))
    return F.when(usual, F.concat(local.cast("string"), tail)).otherwise(day)


def _year(column: Column) -> Column:
    """A year in four digits or more, of those before Christ too: the year 0 is 1 BC."""
    year = F.year(column)
    text = F.when(year < 1, 1 - year).otherwise(year).cast("string")
    return F.when(F.length(text) < 4, F.lpad(text, 4, "0")).otherwise(text)


def _era(column: Column) -> Column:
    return F.when(F.year(column) < 1, F.lit(" BC")).otherwise(F.lit(""))


def _offset(moment: Column, local: Column) -> Column:
    seconds = ((F.unix_micros(local) - F.unix_micros(moment)) / 1_000_000).cast("int")
    size = F.abs(seconds)
    parts = (size / 3600).cast("int"), (size % 3600 / 60).cast("int"), size % 60
    return F.concat(F.when(seconds < 0, "-").otherwise("+"), F.format_string("%02d:%02d:%02d", *parts))
