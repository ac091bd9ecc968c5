"""JSON with its schema in each record, as Connect's JsonConverter writes it: `{"schema": …, "payload": …}`.

The payload is read strictly as the type that the reader asks for; the schema within the record is not used
for that. As in Connect, dates are days and timestamps milliseconds: written timestamps are cut to
milliseconds. Decimals are written as base64 of their bytes, or as numbers; both are read, with all digits.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

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
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from ottla.pipeline.formats.connect_decimals import (
    MAY_BE_DOUBLE,
    decimal_bytes,
    numbers_as_texts,
    read_decimal,
    text_type,
    unread_decimal,
)
from ottla.pipeline.formats.format import ERROR, VALUE, FormatError, decoded
from ottla.pipeline.formats.json_format import JsonFormat, check_json_can_say, json_text
from ottla.pipeline.formats.python_types import TypeLike, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

_TYPES: Final[dict[type[DataType], dict[str, Any]]] = {
    ByteType: {"type": "int8"},
    ShortType: {"type": "int16"},
    IntegerType: {"type": "int32"},
    LongType: {"type": "int64"},
    FloatType: {"type": "float"},
    DoubleType: {"type": "double"},
    BooleanType: {"type": "boolean"},
    StringType: {"type": "string"},
    BinaryType: {"type": "bytes"},
    DateType: {"type": "int32", "name": "org.apache.kafka.connect.data.Date", "version": 1},
    TimestampType: {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1},
}


@dataclass(frozen=True, slots=True)
class ConnectJsonFormat:
    """JSON of one type with its schema in each record.

    numeric_decimals: written as numbers. has_schema: whether the schema is written, else the payload alone.
    """

    type: DataType
    numeric_decimals: bool = False
    has_schema: bool = True

    @classmethod
    def of(
        cls, wanted: TypeLike, *, numeric_decimals: bool = False, has_schema: bool = True
    ) -> ConnectJsonFormat:
        """The format of a Spark type, a DDL text or a Python annotation. Raises FormatError."""
        found = spark_type(wanted)
        check_json_can_say(found)
        connect_schema(found, nullable=True)
        return cls(found, numeric_decimals, has_schema)

    @property
    def native(self) -> bool:
        return True

    def bind(self, topic: str | None, is_key: bool) -> Self:
        return self

    def data_type(self) -> DataType:
        return self.type

    def describe(self) -> str:
        return "json with its schema"

    def decode(self, column: Column, topic: Column | str, is_key: bool) -> Column:
        envelope = StructType(
            [StructField("schema", StringType()), StructField("payload", _wire_type(self.type))]
        )
        inner = JsonFormat(envelope).decode(column, topic, is_key)
        no_envelope = column.isNotNull() & ~column.cast("string").contains('"payload"')
        texts = _texts(column, self.type)

        def result(both: Column) -> Column:
            found, text = both.getField("found"), both.getField("text")
            error = F.coalesce(
                found.getField(ERROR),
                F.when(no_envelope, F.lit("the JSON has no schema and payload around it")),
            )
            payload = found.getField(VALUE).getField("payload")
            unread = unread_decimal(payload, text, self.type)
            if unread is not None:
                error = F.coalesce(error, unread)
            return decoded(_from_wire(payload, text, self.type), error)

        both = F.struct(inner.alias("found"), texts.alias("text"))
        return F.get(F.transform(F.array(both), result), 0)

    def encode(self, column: Column, topic: str, is_key: bool) -> Column:
        numeric = self.numeric_decimals
        payload = json_text(
            _to_wire(column, self.type, numeric),
            _wire_type(self.type, _Wire.NUMBERS if numeric else _Wire.TEXTS),
        )
        if self.has_schema:
            schema = json.dumps(connect_schema(self.type, nullable=True), separators=(",", ":"))
            payload = F.concat(F.lit(f'{{"schema":{schema},"payload":'), payload, F.lit("}"))
        return F.encode(payload, "utf-8")


def connect_schema(spark: DataType, *, nullable: bool) -> dict[str, Any]:
    """Connect's schema of a Spark type, as its JSON. Raises FormatError."""
    match spark:
        case StructType():
            fields = [
                connect_schema(each.dataType, nullable=each.nullable) | {"field": each.name}
                for each in spark.fields
            ]
            return {"type": "struct", "fields": fields, "optional": nullable}
        case ArrayType():
            items = connect_schema(spark.elementType, nullable=spark.containsNull)
            return {"type": "array", "items": items, "optional": nullable}
        case MapType():
            keys = connect_schema(spark.keyType, nullable=False)
            values = connect_schema(spark.valueType, nullable=spark.valueContainsNull)
            return {"type": "map", "keys": keys, "values": values, "optional": nullable}
        case DecimalType():
            told = {"connect.decimal.precision": str(spark.precision), "scale": str(spark.scale)}
            name = "org.apache.kafka.connect.data.Decimal"
            return {"type": "bytes", "name": name, "version": 1, "parameters": told, "optional": nullable}
    known = _TYPES.get(type(spark))
    if known is None:
        raise FormatError(f"JSON with its schema has no {spark.simpleString()} here")
    return known | {"optional": nullable}


class _Wire(enum.Enum):
    """What decimals are in JSON."""

    ANY = "any"
    """A text or a number: as they are read."""
    TEXTS = "texts"
    NUMBERS = "numbers"


def _wire_type(spark: DataType, decimals: _Wire = _Wire.ANY) -> DataType:
    match spark:
        case StructType():
            return StructType(
                [
                    StructField(each.name, _wire_type(each.dataType, decimals), each.nullable)
                    for each in spark.fields
                ]
            )
        case ArrayType():
            return ArrayType(_wire_type(spark.elementType, decimals), spark.containsNull)
        case MapType():
            return MapType(spark.keyType, _wire_type(spark.valueType, decimals), spark.valueContainsNull)
        case DateType():
            return IntegerType()
        case TimestampType():
            return LongType()
        case DecimalType():
            if decimals is _Wire.NUMBERS:
                return spark
            return VariantType() if decimals is _Wire.ANY else StringType()
    return spark


def _texts(column: Column, spark: DataType) -> Column:
    """The payload with the texts of its decimals, null where no number needs them."""
    kind = text_type(spark)
    if kind is None:
        return F.lit(None)
    text = column.cast("string")
    envelope = StructType([StructField("payload", kind)])
    found = F.from_json(numbers_as_texts(text), envelope)
    return F.when(text.rlike(MAY_BE_DOUBLE), found).getField("payload")


def _from_wire(column: Column, text: Column, spark: DataType) -> Column:
    """The value of what was read. text: the same as its `text_type`."""
    if _wire_type(spark) == spark:
        return column
    has_texts = text_type(spark) is not None
    match spark:
        case StructType():
            fields = []
            for field in spark.fields:
                texts = F.lit(None) if text_type(field.dataType) is None else text.getField(field.name)
                found = _from_wire(column.getField(field.name), texts, field.dataType)
                fields.append(found.alias(field.name))
            return F.when(column.isNotNull(), F.struct(*fields))
        case ArrayType():
            return F.transform(
                column,
                lambda each, at: _from_wire(each, F.get(text, at) if has_texts else text, spark.elementType),
            )
        case MapType():
            return F.transform_values(
                column,
                lambda key, each: _from_wire(
                    each, F.try_element_at(text, key) if has_texts else text, spark.valueType
                ),
            )
        case DateType():
            return F.date_from_unix_date(column)
        case DecimalType():
            return read_decimal(column, text, spark)
    return F.timestamp_millis(column)


def _to_wire(column: Column, spark: DataType, numeric: bool) -> Column:
    if _wire_type(spark) == spark:
        return column
    match spark:
        case StructType():
            fields = [
                _to_wire(column.getField(f.name), f.dataType, numeric).alias(f.name) for f in spark.fields
            ]
            return F.when(column.isNotNull(), F.struct(*fields))
        case ArrayType():
            return F.transform(column, lambda each: _to_wire(each, spark.elementType, numeric))
        case MapType():
            return F.transform_values(column, lambda _, each: _to_wire(each, spark.valueType, numeric))
        case DateType():
            return F.unix_date(column)
        case DecimalType():
            return column if numeric else F.base64(decimal_bytes(column, spark.scale))
    return F.unix_millis(column)
