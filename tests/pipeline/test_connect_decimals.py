"""Decimals in JSON with schemas are the bytes and values of Connect's JsonConverter, both ways."""

from __future__ import annotations

import base64
import json
import random
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from ottla.connect.converters.json_converter import JsonConverter
from ottla.connect.data.building import decimal_schema
from ottla.connect.data.logical import bytes_of_int, from_unscaled
from ottla.connect.data.schema import Field, Schema, Struct, Type
from ottla.connect.spark.types import spark_type_of_connect
from ottla.pipeline.formats.connect_json import ConnectJsonFormat

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDS = 40


def numbers(source: random.Random) -> list[int]:
    """Unscaled numbers of every size, those at the ends of their bytes among them."""
    found = [0, 1, -1, 127, 128, -128, -129, (1 << 63) - 1, 1 << 63, -(1 << 63), (1 << 64) - 1, 1 << 64]
    found += [-(1 << 64), -(1 << 64) - 1, 10**38 - 1, 1 - 10**38]
    sizes = [source.randint(1, 38) for _ in range(RECORDS)]
    return found + [source.choice((1, -1)) * source.randrange(10**size) for size in sizes]


def converter(**properties: str) -> JsonConverter:
    made = JsonConverter()
    made.configure({name.replace("_", "."): text for name, text in properties.items()}, False)
    return made


def schema_of(scale: int) -> Schema:
    return Schema(Type.STRUCT, True, fields=(Field("d", decimal_schema(scale, True)),))


def decode(spark: SparkSession, data: list[bytes | None], kind: Any) -> list[Any]:
    frame = spark.createDataFrame([(at, each) for at, each in enumerate(data)], "at INT, data BINARY")
    found = frame.select("at", ConnectJsonFormat.of(kind).decode(F.col("data"), "t", False).alias("f"))
    return [row["f"] for row in sorted(found.collect(), key=lambda row: int(row["at"]))]


@pytest.mark.parametrize("scale", [9, *(pytest.param(each, marks=pytest.mark.long) for each in (0, 1, 38))])
@pytest.mark.parametrize("form", ["BASE64", "NUMERIC"])
def test_decimals_are_read_as_connect_writes_them(spark: SparkSession, scale: int, form: str) -> None:
    values = [from_unscaled(number, scale) for number in numbers(random.Random(scale))]
    connect = converter(decimal_format=form)
    schema = schema_of(scale)
    data = [connect.from_connect("t", schema, Struct(schema, {"d": each})) for each in [*values, None]]
    kind = spark_type_of_connect(json.loads(data[0] or b"")["schema"])
    assert kind == StructType([StructField("d", DecimalType(38, scale))])
    found = decode(spark, data, kind)
    assert [row["error"] for row in found] == [None] * len(found)
    assert [row["value"]["d"] for row in found] == [*values, None]


@pytest.mark.parametrize("scale", [5, *(pytest.param(each, marks=pytest.mark.long) for each in (0, 38))])
@pytest.mark.parametrize("form", ["BASE64", "NUMERIC"])
def test_decimals_are_written_as_connect_reads_them(spark: SparkSession, scale: int, form: str) -> None:
    values = [from_unscaled(number, scale) for number in numbers(random.Random(scale))]
    kind = StructType([StructField("d", DecimalType(38, scale)), StructField("s", StringType())])
    given = [(at, each) for at, each in enumerate([*values, None])]
    frame = spark.createDataFrame(given, f"at INT, d DECIMAL(38,{scale})")
    rows = frame.select("at", F.struct("d", F.lit("x").alias("s")).alias("v"))
    format_ = ConnectJsonFormat.of(kind, numeric_decimals=form == "NUMERIC")
    written = rows.select("at", format_.encode(F.col("v"), "t", False).alias("data")).collect()
    data = [bytes(row["data"]) for row in sorted(written, key=lambda row: int(row["at"]))]
    if form == "BASE64":
        texts = [json.loads(each)["payload"]["d"] for each in data]
        assert texts == [
            *(base64.b64encode(bytes_of_int(number)).decode() for number in numbers(random.Random(scale))),
            None,
        ]
    else:
        # byte for byte: BigDecimal's text, with an exponent where the number is small
        connect, schema = converter(decimal_format=form, schemas_enable="false"), schema_of(scale)
        for each, value in zip(data, values, strict=False):
            text = connect.from_connect("t", schema, Struct(schema, {"d": value})) or b""
            assert each.partition(b'"payload":')[2].startswith(text[:-1] + b",")
    found = [converter().to_connect("t", each)[1].get("d") for each in data]
    assert found == [*values, None]


NUMBERS = {
    "12345678901.5e-3": "12345678.9015",
    "1.23456789012345678901234567890123e27": "1234567890123456789012345678.90123",
    "-1E+3": "-1000",
    "1200e-2": "12",
    "0e-999999999": "0",
    "-0.0E5": "0",
    "1.50" + "0" * 60: "1.5",
    "0." + "0" * 50: "0",
    "1e-5": "0.00001",
    "1e-6": None,
    "1.0000001e1": None,
    "1e33": None,
    "9e999999999": None,
    "9e-999999999": None,
    "1" * 39: None,
    "0." + "0" * 40 + "1": None,
}


def test_numbers_with_exponents_and_many_digits_are_read_exactly_or_told(spark: SparkSession) -> None:
    kind = DecimalType(38, 5)
    whole = StructType(
        [
            StructField("a", ArrayType(StructType([StructField("x", LongType()), StructField("d", kind)]))),
            StructField("m", MapType(StringType(), kind)),
            StructField("on", DateType()),
            StructField("d", kind),
        ]
    )

    def told(number: str) -> bytes:
        items = f'[{{"x": 1, "d": 2.5}}, {{"d": {number}}}, null]'
        payload = f'{{"d": {number}, "e": 1e5, "on": 1, "m": {{"ä": "AQ==", "b": {number}}}, "a": {items}}}'
        return f'{{"schema": {{"name": "1e5"}}, "payload": {payload}}}'.encode()

    found = decode(spark, [told(each) for each in NUMBERS], whole)
    for (number, expected), row in zip(NUMBERS.items(), found, strict=True):
        assert (row["error"] is None) == (expected is not None), number
        if expected is None:
            continue
        value, d = row["value"], Decimal(expected)
        assert (value["d"], value["m"]) == (d, {"ä": Decimal("0.00001"), "b": d}), number
        assert [each and each["d"] for each in value["a"]] == [Decimal("2.5"), d, None], number


def test_what_is_no_decimal_of_its_type_is_an_error(spark: SparkSession) -> None:
    kind = StructType([StructField("d", DecimalType(5, 2))])
    texts = ['"no base64"', '""', "1.234", "123456", '"f////////////////////w=="', "true", "1.5", '"AQ=="']
    data = [b'{"schema":null,"payload":{"d":%b}}' % each.encode() for each in texts]
    found = decode(spark, list(data), kind)
    told = [None if row["error"] else row["value"]["d"] for row in found]
    assert told == [None] * 6 + [Decimal("1.50"), Decimal("0.01")]
