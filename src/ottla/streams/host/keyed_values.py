"""Take values of Spark's types to Python and back exactly: as JSON that Spark writes and reads itself.

Neither pandas nor Arrow's way through pandas keeps values as they are: integers beside nulls become floats,
arrays become numpy's, timestamps stop in 2262. JSON keeps the types that it has; the rest is brought into
such a form by native expressions before Spark writes it, and by the mirror of them after it has read it:

| Spark | JSON | Python |
|---|---|---|
| boolean, integers, string, struct, array | itself | bool, int, str, dict, list |
| float, double | number, or "NaN", "Infinity", "-Infinity" | float |
| decimal | text | Decimal |
| binary | base64 | bytes |
| date | text | date |
| timestamp, timestamp_ntz | microseconds since 1970 | datetime in UTC, naive |
| map | array of {k, v} | dict |

An operator's outputs are checked against the type that it promised: Spark would read null for others.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

Convert = Callable[[Any], Any]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC).replace(tzinfo=None)
_MICROSECOND = datetime.timedelta(microseconds=1)
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
JSON_OPTIONS = {"ignoreNullFields": "false"}


def to_json(column: Column) -> Column:
    """A struct as JSON text with all of its fields."""
    from pyspark.sql import functions as F

    return F.to_json(column, JSON_OPTIONS)


def loads(text: str) -> Any:
    return orjson.loads(text)


def dumps(value: Any) -> str:
    return orjson.dumps(value).decode()


def portable(column: Column, data_type: DataType) -> Column:
    """The column in the form that is exact as JSON. Raises TypeError for a type that has none."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType, TimestampNTZType, TimestampType

    match data_type:
        case DecimalType():
            return column.cast("STRING")
        case TimestampType():
            return F.unix_micros(column)
        case TimestampNTZType():
            return F.unix_micros(
                F.convert_timezone(F.current_timezone(), F.lit("UTC"), column).cast("TIMESTAMP")
            )
        case MapType(keyType=key, valueType=value):
            return F.transform(
                F.map_entries(column),
                lambda entry: F.struct(
                    portable(entry["key"], key).alias("k"), portable(entry["value"], value).alias("v")
                ),
            )
        case ArrayType(elementType=element) if not _is_plain(element):
            return F.transform(column, lambda each: portable(each, element))
        case StructType(fields=fields) if not all(_is_plain(each.dataType) for each in fields):
            built = F.struct(
                *(portable(column.getField(each.name), each.dataType).alias(each.name) for each in fields)
            )
            return F.when(column.isNotNull(), built)
    _is_plain(data_type)
    return column


def portable_type(data_type: DataType) -> DataType:
    """The type of `portable`'s result."""
    from pyspark.sql.types import (
        ArrayType,
        DecimalType,
        LongType,
        MapType,
        StringType,
        StructField,
        StructType,
        TimestampNTZType,
        TimestampType,
    )

    match data_type:
        case DecimalType():
            return StringType()
        case TimestampType() | TimestampNTZType():
            return LongType()
        case MapType(keyType=key, valueType=value):
            fields = [StructField("k", portable_type(key)), StructField("v", portable_type(value))]
            return ArrayType(StructType(fields))
        case ArrayType(elementType=element):
            return ArrayType(portable_type(element))
        case StructType(fields=fields):
            return StructType([StructField(each.name, portable_type(each.dataType)) for each in fields])
    return data_type


def restored(column: Column, data_type: DataType) -> Column:
    """The mirror of `portable`: a column of `portable_type` as one of the type."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType, TimestampNTZType, TimestampType

    match data_type:
        case DecimalType():
            return column.cast(data_type)
        case TimestampType():
            return F.timestamp_micros(column)
        case TimestampNTZType():
            local = F.timestamp_micros(column).cast("TIMESTAMP_NTZ")
            return F.convert_timezone(F.lit("UTC"), F.current_timezone(), local)
        case MapType(keyType=key, valueType=value):
            return F.map_from_entries(
                F.transform(
                    column,
                    lambda entry: F.struct(restored(entry["k"], key), restored(entry["v"], value)),
                )
            )
        case ArrayType(elementType=element) if not _is_plain(element):
            return F.transform(column, lambda each: restored(each, element))
        case StructType(fields=fields) if not all(_is_plain(each.dataType) for each in fields):
            built = F.struct(
                *(restored(column.getField(each.name), each.dataType).alias(each.name) for each in fields)
            )
            return F.when(column.isNotNull(), built)
    return column


def _is_plain(data_type: DataType) -> bool:
    """Whether Spark's JSON is exact for it as it is. Raises TypeError for a type that no form fits."""
    from pyspark.sql import types as T

    match data_type:
        case T.ArrayType(elementType=element):
            return _is_plain(element)
        case T.StructType(fields=fields):
            return sum(not _is_plain(each.dataType) for each in fields) == 0
        case T.MapType(keyType=key, valueType=value):
            _is_plain(key), _is_plain(value)
            return False
        case T.DecimalType() | T.TimestampType() | T.TimestampNTZType():
            return False
        case (
            T.BooleanType()
            | T.ByteType()
            | T.ShortType()
            | T.IntegerType()
            | T.LongType()
            | T.FloatType()
            | T.DoubleType()
            | T.StringType()
            | T.BinaryType()
            | T.DateType()
            | T.NullType()
        ):
            return True
    raise TypeError(f"a stateful operator in Python can't take values of type {data_type.simpleString()}")


def decoder(data_type: DataType) -> Convert | None:
    """From JSON's value to Python's; None where they are the same."""
    from pyspark.sql import types as T

    match data_type:
        case T.FloatType() | T.DoubleType():
            return _float
        case T.DecimalType():
            return _optional(decimal.Decimal)
        case T.BinaryType():
            return _optional(base64.b64decode)
        case T.DateType():
            return _optional(datetime.date.fromisoformat)
        case T.TimestampType() | T.TimestampNTZType():
            return _optional(lambda micros: _EPOCH + datetime.timedelta(microseconds=micros))
        case T.ArrayType(elementType=element):
            if (each := decoder(element)) is None:
                return None
            return _optional(lambda values: [each(value) for value in values])
        case T.MapType(keyType=key_type, valueType=value_type):
            key, value = decoder(key_type) or _same, decoder(value_type) or _same
            return _optional(lambda entries: {key(entry["k"]): value(entry["v"]) for entry in entries})
        case T.StructType(fields=fields):
            return _struct_decoder([(each.name, decoder(each.dataType)) for each in fields])
    return None


def _struct_decoder(fields: list[tuple[str, Convert | None]]) -> Convert | None:
    converted = [(name, convert) for name, convert in fields if convert is not None]
    if not converted:
        return None

    def decode(struct: Any) -> Any:
        if struct is not None:
            for name, convert in converted:
                struct[name] = convert(struct[name])
        return struct

    return decode


def encoder(data_type: DataType, where: str) -> Convert:
    """From Python's value to JSON's; `where` begins the text of its TypeErrors and ValueErrors."""
    from pyspark.sql import types as T

    def wrong(value: Any) -> TypeError:
        return TypeError(f"{where} is {value!r}, which is no {data_type.simpleString()}")

    match data_type:
        case T.BooleanType():
            return _checked(lambda value: type(value) is bool, wrong)
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            limit = 1 << (_BITS[data_type.simpleString()] - 1)
            return _checked(lambda value: type(value) is int and -limit <= value < limit, wrong)
        case T.StringType():
            return _checked(lambda value: isinstance(value, str), wrong)
        case T.NullType():
            return _checked(lambda value: False, wrong)
        case T.FloatType() | T.DoubleType():
            return _float_encoder(wrong)
        case T.DecimalType(precision=precision, scale=scale):
            return _decimal_encoder(precision, scale, wrong)
        case T.BinaryType():
            return _converted(
                (bytes, bytearray, memoryview), lambda value: base64.b64encode(value).decode(), wrong
            )
        case T.DateType():
            return _date_encoder(wrong)
        case T.TimestampType() | T.TimestampNTZType():
            return _timestamp_encoder(wrong)
        case T.ArrayType(elementType=element_type):
            element = encoder(element_type, f"{where}[]")
            return _converted((list, tuple), lambda values: [element(value) for value in values], wrong)
        case T.MapType(keyType=key_type, valueType=value_type):
            key, value = encoder(key_type, f"a key of {where}"), encoder(value_type, f"a value of {where}")
            return _converted(
                (dict,), lambda entries: [{"k": key(k), "v": value(v)} for k, v in entries.items()], wrong
            )
        case T.StructType(fields=fields):
            return _struct_encoder(
                {each.name: encoder(each.dataType, f"{where}.{each.name}") for each in fields}, where, wrong
            )
    _is_plain(data_type)
    raise AssertionError(data_type)


def _struct_encoder(fields: dict[str, Convert], where: str, wrong: Callable[[Any], TypeError]) -> Convert:
    names = fields.keys()
    pairs = list(fields.items())

    def encode(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise wrong(value)
        if not value.keys() <= names:
            unknown = ", ".join(sorted(str(name) for name in value.keys() - names))
            raise ValueError(f"{where} has fields that its type does not: {unknown}")
        get = value.get
        return {name: convert(get(name)) for name, convert in pairs}

    return encode


def _checked(fits: Callable[[Any], bool], wrong: Callable[[Any], TypeError]) -> Convert:
    def encode(value: Any) -> Any:
        if value is None or fits(value):
            return value
        raise wrong(value)

    return encode


def _converted(classes: tuple[type, ...], convert: Convert, wrong: Callable[[Any], TypeError]) -> Convert:
    def encode(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, classes):
            raise wrong(value)
        return convert(value)

    return encode


def _float_encoder(wrong: Callable[[Any], TypeError]) -> Convert:
    def encode(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is int:
            return float(value)
        if not isinstance(value, float):
            raise wrong(value)
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    return encode


def _decimal_encoder(precision: int, scale: int, wrong: Callable[[Any], TypeError]) -> Convert:
    limit = decimal.Decimal(10) ** (precision - scale)
    unit = decimal.Decimal(1).scaleb(-scale)
    exact = decimal.Context(prec=precision + 2, traps=[decimal.Inexact, decimal.InvalidOperation])

    def encode(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is int:
            value = decimal.Decimal(value)
        if not isinstance(value, decimal.Decimal) or not value.is_finite() or abs(value) >= limit:
            raise wrong(value)
        try:
            return format(value.quantize(unit, context=exact), "f")
        except decimal.DecimalException as error:
            raise wrong(value) from error

    return encode


def _date_encoder(wrong: Callable[[Any], TypeError]) -> Convert:
    def encode(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not datetime.date:
            raise wrong(value)
        return value.isoformat()

    return encode


def _timestamp_encoder(wrong: Callable[[Any], TypeError]) -> Convert:
    def encode(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is int:  # milliseconds, as windows have them
            return value * 1000
        if not isinstance(value, datetime.datetime):
            raise wrong(value)
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return (value - _EPOCH) // _MICROSECOND

    return encode


def _optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _float(value: Any) -> Any:
    return float(value) if value is not None else None


def _same(value: Any) -> Any:
    return value
