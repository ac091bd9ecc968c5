"""Decimals as JSON numbers, written and read by Connect's JsonConverter, record by record and as columns."""

from __future__ import annotations

import json
import random
from decimal import Context, Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StructField, StructType

from ottla.connect.converters.json_converter import JsonConverter
from ottla.connect.data.building import decimal_schema
from ottla.connect.data.logical import from_unscaled
from ottla.connect.data.schema import DataError, Field, Schema, Struct, Type
from ottla.pipeline.formats.connect_json import ConnectJsonFormat
from support.java.connect_oracle import ConnectOracle, RefusedByJava, tell, tell_schema

pytestmark = [pytest.mark.java, pytest.mark.slow]

JSON = "org.apache.kafka.connect.json.JsonConverter"
NUMERIC = {"decimal.format": "NUMERIC"}
BARE = NUMERIC | {"schemas.enable": "false"}
MOST_DIGITS = 38
EXACT = Context(prec=200, Emax=10**6, Emin=-(10**6))


def converter(config: dict[str, str]) -> JsonConverter:
    made = JsonConverter()
    made.configure(config, False)
    return made


def struct_of(scale: int) -> Schema:
    return Schema(Type.STRUCT, True, fields=(Field("d", decimal_schema(scale, True)),))


def random_decimal(source: random.Random, most_digits: int, most_scale: int) -> Decimal:
    number = source.randrange(10 ** source.randint(1, most_digits)) * source.choice((1, -1))
    return from_unscaled(number, source.randint(0, most_scale))


def number_text(source: random.Random) -> str:
    """A JSON number in one of the ways to write it."""
    whole = str(source.randrange(10 ** source.choice((1, 3, 18, 30, 45))))
    text = source.choice(("", "-")) + whole
    if source.random() < 0.6:
        text += "." + "".join(source.choices("0012345678900", k=source.choice((1, 4, 12, 45))))
    if source.random() < 0.6:
        power = source.choice((0, 1, 7, 20, 38, 60, 999, 999_999))
        text += source.choice("eE") + source.choice(("", "+", "-")) + str(source.randint(0, power))
    return text


def enveloped(text: str, scale: int) -> bytes:
    schema = {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": str(scale)},
        "field": "d",
        "optional": True,
    }
    told = json.dumps({"type": "struct", "fields": [schema], "optional": True})
    return f'{{"schema": {told}, "payload": {{"d": {text}}}}}'.encode()


@pytest.mark.parametrize("rounds", [150, pytest.param(10_000, marks=pytest.mark.long)])
def test_numbers_are_written_digit_for_digit_as_by_connect(rounds: int, oracle: ConnectOracle) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    ours = converter(BARE)
    for _ in range(rounds):
        value = random_decimal(source, 60, 60)
        schema = struct_of(-int(value.as_tuple().exponent))
        given = Struct(schema, {"d": value})
        java = oracle.data_of(JSON, BARE, schema, given)
        assert ours.from_connect("t", schema, given) == java, f"seed {seed} {value}"


@pytest.mark.parametrize("rounds", [300, pytest.param(20_000, marks=pytest.mark.long)])
def test_numbers_are_read_digit_for_digit_as_by_connect(rounds: int, oracle: ConnectOracle) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    ours = converter(NUMERIC)
    for _ in range(rounds):
        data = enveloped(number_text(source), source.randint(0, 40))
        java: Any = None
        try:
            java = oracle.value_of(JSON, NUMERIC, data)
        except RefusedByJava:
            with pytest.raises(DataError):
                ours.to_connect("t", data)
            continue
        schema, value = ours.to_connect("t", data)
        assert (tell_schema(schema), tell(value, schema)) == java, f"seed {seed} {data!r}"


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("scale", [0, 2, 9, 20, 38])
def test_columns_of_numbers_are_those_of_connect(
    scale: int, oracle: ConnectOracle, spark: SparkSession
) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    kind = StructType([StructField("d", DecimalType(MOST_DIGITS, scale))])
    values = [random_decimal(source, MOST_DIGITS, 0).scaleb(-scale, EXACT) for _ in range(300)]
    schema = struct_of(scale)
    frame = spark.createDataFrame(list(enumerate(values)), f"at INT, d DECIMAL(38,{scale})")
    format_ = ConnectJsonFormat.of(kind, numeric_decimals=True, has_schema=False)
    rows = frame.select("at", format_.encode(F.struct("d"), "t", False).alias("data")).collect()
    for row, value in zip(sorted(rows, key=lambda row: int(row["at"])), values, strict=True):
        java = oracle.data_of(JSON, BARE, schema, Struct(schema, {"d": value}))
        assert bytes(row["data"]) == java, f"seed {seed} {value}"

    data = [enveloped(number_text(source), scale) for _ in range(600)]
    frame = spark.createDataFrame(list(enumerate(data)), "at INT, data BINARY")
    decoded = ConnectJsonFormat.of(kind).decode(F.col("data"), "t", False).alias("f")
    found = sorted(frame.select("at", decoded).collect(), key=lambda row: int(row["at"]))
    fitting = 0
    for row, each in zip(found, data, strict=True):
        _, told = oracle.value_of(JSON, NUMERIC, each)
        assert told is not None
        (_, value) = converter(NUMERIC).to_connect("t", each)
        exact = fits(value.get("d"), scale)
        fitting += exact is not None
        assert (row["f"]["error"] is None) == (exact is not None), f"seed {seed} {each!r} {row}"
        assert exact is None or row["f"]["value"]["d"] == exact, f"seed {seed} {each!r} {row}"
    assert fitting > 10


def fits(value: Decimal, scale: int) -> Decimal | None:
    """The value with so many digits behind the point, None where it does not fit exactly."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    while len(digits) > 1 and digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    if digits == (0,):
        return Decimal(0)
    whole = len(digits) + exponent
    if -exponent > scale or whole > MOST_DIGITS - scale:
        return None
    return Decimal((sign, digits, exponent))
