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
from pyspark.sql.types import DecimalType, StringType, StructField, StructType

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


def digits(value: Decimal) -> int:
    return len("".join(map(str, value.as_tuple().digits)).rstrip("0"))


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
    # Spark reads a number with an exponent as a DOUBLE: one with many digits is told, and not rounded
    is_lost = [form == "NUMERIC" and "E" in str(each) and digits(each) > 9 for each in values]
    assert [row["error"] is not None for row in found] == [*is_lost, False]
    expected = [None if lost else each for each, lost in zip(values, is_lost, strict=True)]
    assert [None if row["error"] else row["value"]["d"] for row in found] == [*expected, None]


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
    found = [converter().to_connect("t", each)[1].get("d") for each in data]
    assert found == [*values, None]


def test_what_is_no_decimal_of_its_type_is_an_error(spark: SparkSession) -> None:
    kind = StructType([StructField("d", DecimalType(5, 2))])
    texts = ['"no base64"', '""', "1.234", "123456", '"f////////////////////w=="', "true", "1.5", '"AQ=="']
    data = [b'{"schema":null,"payload":{"d":%b}}' % each.encode() for each in texts]
    found = decode(spark, list(data), kind)
    told = [None if row["error"] else row["value"]["d"] for row in found]
    assert told == [None] * 6 + [Decimal("1.50"), Decimal("0.01")]
