"""Spark's types for SQL's: dates and times stay the whole numbers that they are in topics."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from ottla.sql.types.sql_types import Base, SqlType

_PLAIN: dict[Base, DataType] = {
    Base.BOOLEAN: BooleanType(),
    Base.INTEGER: IntegerType(),
    Base.BIGINT: LongType(),
    Base.DOUBLE: DoubleType(),
    Base.STRING: StringType(),
    Base.BYTES: BinaryType(),
    Base.DATE: IntegerType(),
    Base.TIME: IntegerType(),
    Base.TIMESTAMP: LongType(),
    Base.UNKNOWN: StringType(),
}


def spark_type(of: SqlType) -> DataType:
    """The Spark type of an SQL type's values."""
    match of.base:
        case Base.DECIMAL:
            return DecimalType(of.precision, of.scale)
        case Base.ARRAY:
            return ArrayType(spark_type(of.elements[0]))
        case Base.MAP:
            return MapType(spark_type(of.elements[0]), spark_type(of.elements[1]))
        case Base.STRUCT:
            return struct_of(of.fields)
        case _:
            return _PLAIN[of.base]


def struct_of(fields: tuple[tuple[str, SqlType], ...]) -> StructType:
    """A struct of SQL's types."""
    return StructType([StructField(name, spark_type(of)) for name, of in fields])
