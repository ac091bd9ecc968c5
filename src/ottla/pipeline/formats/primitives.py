"""Formats without a schema: bytes, text, and the numbers of Kafka's own serializers. All of them are native.

Numbers are big-endian, as Java's serializers write them. They are converted by way of hex digits, as Spark
has no cast between BINARY and numbers. A payload that is not exactly as long as its type is an error.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
)

from ottla.pipeline.formats.format import decoded

if TYPE_CHECKING:
    from pyspark.sql import Column

_UUID_PATTERN = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


class Primitive(enum.Enum):
    """Kafka's serializers, each with the Spark type of its values and its length in bytes (0: any length)."""

    BYTES = ("bytes", BinaryType(), 0)
    TEXT = ("text", StringType(), 0)
    INT16 = ("int16", ShortType(), 2)
    INT32 = ("int32", IntegerType(), 4)
    INT64 = ("int64", LongType(), 8)
    FLOAT32 = ("float32", FloatType(), 4)
    FLOAT64 = ("float64", DoubleType(), 8)
    BOOLEAN = ("boolean", BooleanType(), 1)
    UUID = ("uuid", StringType(), 36)
    VOID = ("void", NullType(), 0)

    def __init__(self, label: str, spark_type: DataType, size_bytes: int) -> None:
        self.label = label
        self.spark_type = spark_type
        self.size_bytes = size_bytes


@dataclass(frozen=True, slots=True)
class PrimitiveFormat:
    """One of Kafka's own serializers."""

    kind: Primitive

    @property
    def native(self) -> bool:
        return True

    def bind(self, topic: str | None, is_key: bool) -> Self:
        return self

    def data_type(self) -> DataType:
        return self.kind.spark_type

    def describe(self) -> str:
        return self.kind.label

    def decode(self, column: Column, topic: Column | str, is_key: bool) -> Column:
        return decoded(_value(self.kind, column), _error(self.kind, column))

    def encode(self, column: Column, topic: str, is_key: bool) -> Column:
        match self.kind:
            case Primitive.BYTES:
                return column
            case Primitive.TEXT:
                return F.encode(column, "utf-8")
            case Primitive.UUID:
                return F.encode(F.lower(column), "utf-8")
            case Primitive.VOID:
                return F.lit(None).cast("binary")
            case Primitive.BOOLEAN:
                return F.when(column, F.unhex(F.lit("01"))).when(~column, F.unhex(F.lit("00")))
            case Primitive.FLOAT32:
                bits = F.java_method(
                    F.lit("java.lang.Float"), F.lit("floatToRawIntBits"), column.cast("float")
                )
                return F.when(column.isNotNull(), number_bytes(bits.cast("bigint"), 4))
            case Primitive.FLOAT64:
                bits = F.java_method(
                    F.lit("java.lang.Double"), F.lit("doubleToRawLongBits"), column.cast("double")
                )
                return F.when(column.isNotNull(), number_bytes(bits.cast("bigint"), 8))
            case _:
                # the cast fails for a number that does not fit: none is ever cut
                return number_bytes(column.cast(self.kind.spark_type).cast("bigint"), self.kind.size_bytes)


def number_bytes(number: Column, size_bytes: int) -> Column:
    """A BIGINT as `size_bytes` big-endian bytes in two's complement. The number must fit."""
    digits = F.lpad(F.hex(number), 16, "0")
    return F.unhex(digits if size_bytes == 8 else F.substring(digits, 17 - 2 * size_bytes, 2 * size_bytes))


def number_from(column: Column, size_bytes: int) -> Column:
    """Big-endian bytes in two's complement as a BIGINT. The bytes must be exactly `size_bytes` long."""
    if size_bytes == 8:
        return F.conv(F.hex(column), 16, -10).cast("bigint")
    unsigned = F.conv(F.hex(column), 16, 10).cast("bigint")
    modulus = 1 << (8 * size_bytes)
    return F.when(unsigned >= modulus // 2, unsigned - modulus).otherwise(unsigned)


def invalid_utf8(column: Column) -> Column:
    """An error for bytes that are not UTF-8, else null."""
    return F.when(~F.is_valid_utf8(column), F.lit("the bytes are not valid UTF-8"))


def _error(kind: Primitive, column: Column) -> Column:
    match kind:
        case Primitive.BYTES:
            return F.lit(None).cast("string")
        case Primitive.TEXT:
            return invalid_utf8(column)
        case Primitive.VOID:
            return F.when(column.isNotNull(), F.lit("bytes where there should be none"))
    length = F.octet_length(column)
    wrong_length = F.when(
        length != kind.size_bytes,
        F.concat(F.lit(f"{kind.label} has {kind.size_bytes} bytes, not "), length.cast("string")),
    )
    match kind:
        case Primitive.UUID:
            no_uuid = F.when(~column.cast("string").rlike(_UUID_PATTERN), F.lit("the text is no UUID"))
            return F.coalesce(wrong_length, invalid_utf8(column), no_uuid)
        case Primitive.BOOLEAN:
            other = F.when(~F.hex(column).isin("00", "01"), F.lit("a boolean is the byte 0 or 1"))
            return F.coalesce(wrong_length, other)
        case _:
            return wrong_length


def _value(kind: Primitive, column: Column) -> Column:
    match kind:
        case Primitive.BYTES:
            return column
        case Primitive.TEXT:
            return column.cast("string")
        case Primitive.VOID:
            return F.lit(None).cast("void")
        case Primitive.UUID:
            return F.lower(column.cast("string"))
        case Primitive.BOOLEAN:
            return F.hex(column) == "01"
        case Primitive.FLOAT32:
            return _float_from(column, size_bytes=4, fraction_bits=23, exponent_bits=8).cast("float")
        case Primitive.FLOAT64:
            return _float_from(column, size_bytes=8, fraction_bits=52, exponent_bits=11)
        case _:
            right_length = F.when(F.octet_length(column) == kind.size_bytes, column)
            return number_from(right_length, kind.size_bytes).cast(kind.spark_type)


def _float_from(column: Column, *, size_bytes: int, fraction_bits: int, exponent_bits: int) -> Column:
    """IEEE 754 by arithmetic that is exact in a DOUBLE: an integer times a power of two."""
    bits = number_from(F.when(F.octet_length(column) == size_bytes, column), size_bytes)
    fraction = bits.bitwiseAND((1 << fraction_bits) - 1)
    largest = (1 << exponent_bits) - 1
    exponent = F.shiftright(bits, fraction_bits).bitwiseAND(largest)
    bias = (1 << (exponent_bits - 1)) - 1
    smallest_power = 1 - bias - fraction_bits
    mantissa = F.when(exponent == 0, fraction).otherwise(fraction + (1 << fraction_bits)).cast("double")
    power = F.greatest(exponent, F.lit(1)).cast("double") + float(smallest_power - 1)
    # 2^-1074 is exact, and so is the number that it multiplies: no step rounds
    finite = mantissa * F.pow(F.lit(2.0), power)
    special = F.when(fraction == 0, F.lit(float("inf"))).otherwise(F.lit(float("nan")))
    size = F.when(exponent == largest, special).otherwise(finite)
    return F.when(bits < 0, -size).otherwise(size)
