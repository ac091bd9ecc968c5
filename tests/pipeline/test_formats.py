"""The formats that run in the JVM: those of Kafka's serializers, strict JSON, windowed keys."""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.serialization import DoubleSerializer, IntegerSerializer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from ottla.pipeline import formats
from ottla.pipeline.formats import Format
from ottla.streams.compile.given import Given
from ottla.streams.compile.inputs import QueryInputs
from ottla.streams.compile.poison import DeadLetters
from ottla.streams.compile.reading import source as read_source
from ottla.streams.plan.node import Formats, Start, Topics
from ottla.streams.plan.nodes.source import Source

pytestmark = pytest.mark.spark
UNUSED = "a topic"


def decode(spark: SparkSession, cases: Sequence[tuple[Format, bytes | None]]) -> list[Row]:
    """Each payload by its own format: one job for all of them."""
    kinds: list[Format] = []
    for made, _ in cases:
        if made not in kinds:
            kinds.append(made)
    rows = [(at, kinds.index(made), payload) for at, (made, payload) in enumerate(cases)]
    frame = spark.createDataFrame(rows, "at INT, kind INT, payload BINARY").coalesce(1)
    columns = [
        made.decode(F.when(F.col("kind") == at, F.col("payload")), UNUSED, False).alias(f"d{at}")
        for at, made in enumerate(kinds)
    ]
    found = frame.select("at", "kind", *columns).orderBy("at").collect()
    return [row[f"d{row.kind}"] for row in found]


def encode(spark: SparkSession, made: Format, values: Sequence[Any]) -> list[bytes | None]:
    schema = StructType([StructField("at", formats.spark_type("INT")), StructField("v", made.data_type())])
    frame = spark.createDataFrame(list(enumerate(values)), schema)
    rows = frame.select("at", made.encode(F.col("v"), UNUSED, False).alias("b")).orderBy("at").collect()
    return [None if row.b is None else bytes(row.b) for row in rows]


SMALLEST, LARGEST = 5e-324, 1.7976931348623157e308
DOUBLES = [0.0, -0.0, 1.5, 0.1, -LARGEST, SMALLEST, -2.2250738585072014e-308, math.inf, -math.inf]
FLOATS = [0.0, -1.5, 1.401298464324817e-45, 3.4028234663852886e38, math.inf]
ID = str(uuid.UUID(int=2**100))


def test_kafkas_own_serializers_go_both_ways(spark: SparkSession) -> None:
    values: dict[Format, list[Any]] = {
        formats.BYTES: [b"", b"\xff"],
        formats.TEXT: ["", "ünï"],
        formats.INT16: [0, -1, 2**15 - 1, -(2**15)],
        formats.INT32: [0, -1, 2**31 - 1, -(2**31)],
        formats.INT64: [0, -1, 2**63 - 1, -(2**63)],
        formats.FLOAT32: FLOATS,
        formats.FLOAT64: DOUBLES,
        formats.BOOLEAN: [True, False],
        formats.UUID: [ID],
    }
    wire: dict[Format, Any] = {
        formats.BYTES: bytes,
        formats.TEXT: str.encode,
        formats.INT16: lambda value: struct.pack(">h", value),
        formats.INT32: IntegerSerializer(),
        formats.INT64: lambda value: struct.pack(">q", value),
        formats.FLOAT32: lambda value: struct.pack(">f", value),
        formats.FLOAT64: DoubleSerializer(),
        formats.BOOLEAN: lambda value: b"\1" if value else b"\0",
        formats.UUID: str.encode,
    }
    cases = [(made, value) for made, all_values in values.items() for value in all_values]
    payloads = [(made, wire[made](value)) for made, value in cases]

    rows = decode(spark, [*payloads, *((made, None) for made in values)])

    assert [row.error for row in rows] == [None] * len(rows)
    # Floats by their texts: -0.0 is not 0.0. Bytes are a bytearray in PySpark 4.0.
    found = [bytes(row.value) if isinstance(row.value, bytearray) else row.value for row in rows]
    assert [str(value) for value in found[: len(cases)]] == [str(value) for _, value in cases]
    assert [row.value for row in rows[len(cases) :]] == [None] * len(values)
    for made, all_values in values.items():
        assert encode(spark, made, [*all_values, None]) == [*map(wire[made], all_values), None], made


STRICT = formats.json("a INT NOT NULL, b STRING, l ARRAY<INT>, d DOUBLE, n STRUCT<x: BIGINT>")
LINES = formats.json("ARRAY<STRUCT<a: INT NOT NULL>>")
BAD: list[tuple[Format, bytes, str]] = [
    (formats.TEXT, b"\xff", "not valid UTF-8"),
    (formats.TEXT, b"\xed\xa0\x80", "not valid UTF-8"),
    (formats.INT16, b"\0", "int16 has 2 bytes, not 1"),
    (formats.INT32, b"", "int32 has 4 bytes, not 0"),
    (formats.INT64, b"123456789", "int64 has 8 bytes, not 9"),
    (formats.FLOAT32, b"\0\0", "float32 has 4 bytes"),
    (formats.FLOAT64, b"x", "float64 has 8 bytes"),
    (formats.BOOLEAN, b"\2", "the byte 0 or 1"),
    (formats.UUID, b"x" * 36, "no UUID"),
    (formats.VOID, b"x", "should be none"),
    (STRICT, b"", "not valid JSON"),
    (STRICT, b"  ", "not valid JSON"),
    (STRICT, b"\xff{}", "not valid UTF-8"),
    (STRICT, b"{'a': 1}", "not valid JSON"),
    (STRICT, b'{"a": 1', "not valid JSON"),
    (STRICT, b'{"a": 1,}', "not valid JSON"),
    (STRICT, b'{"a": 01}', "not valid JSON"),
    (STRICT, b'{"a": 1} x', "not one JSON value"),
    (STRICT, b'{"a": 1}{"a": 2}', "not one JSON value"),
    (STRICT, b'{"a": 1},{"a": 2}', "not one JSON value"),
    (STRICT, b'{"a": 1}]', "not one JSON value"),
    (STRICT, b'[{"a": 1}]', "not one JSON value of the type struct<a:int"),
    (STRICT, b'"a"', "not one JSON value"),
    (STRICT, b'{"a": "1"}', "not one JSON value"),
    (STRICT, b'{"a": 1.5}', "not one JSON value"),
    (STRICT, b'{"a": true}', "not one JSON value"),
    (STRICT, b'{"a": 3000000000}', "not one JSON value"),
    (STRICT, b'{"a": 1, "l": [1, "x"]}', "not one JSON value"),
    (STRICT, b'{"a": 1, "n": {"x": 9223372036854775808}}', "not one JSON value"),
    (STRICT, b'{"a": 1, "d": 1e400}', "does not fit its type"),
    (STRICT, b"{}", "a is missing or null"),
    (STRICT, b'{"a": null}', "a is missing or null"),
    (STRICT, b"[" * 100_000, "not valid JSON"),
    (STRICT, b'{"b":' + b"[" * 5000 + b"]" * 5000 + b"}", ""),
    (LINES, b"[{}]", "[].a is missing or null"),
    (LINES, b'{"a": 1}', "not one JSON value"),
    (formats.json("INT"), b'"5"', "not one JSON value"),
    (formats.json("MAP<STRING, INT>"), b"[]", "not one JSON value"),
    (formats.json("TIMESTAMP"), b'"2026-02-30T00:00:00Z"', "not one JSON value"),
    (formats.json(), b"{", "not valid JSON"),
    (formats.json_with_schema("a INT"), b'{"a": 1}', "no schema and payload"),
    (formats.time_windowed(formats.TEXT, 60_000), b"1234567", "at least 8 bytes"),
    (formats.time_windowed(formats.TEXT, 60_000), b"\xff" * 8, "out of range"),
    (formats.time_windowed(formats.TEXT, 60_000), b"k\x7f" + b"\xff" * 7, "out of range"),
    (formats.session_windowed(formats.INT32), b"\0" * 16, "int32 has 4 bytes, not 0"),
    (formats.session_windowed(formats.TEXT), b"k" + struct.pack(">qq", 1, 2), "out of range"),
]


def test_bad_payloads_have_an_error_and_no_exception(spark: SparkSession) -> None:
    rows = decode(spark, [(made, payload) for made, payload, _ in BAD])

    for (made, payload, said), row in zip(BAD, rows, strict=True):
        shown = f"{made.describe()} {payload[:60]!r}"
        assert row.value is None and row.error, shown
        assert said in row.error and "\n" not in row.error, shown


def test_what_json_leaves_out_or_says_otherwise(spark: SparkSession) -> None:
    good: list[tuple[Format, bytes, Any]] = [
        (STRICT, b' {"a": 1} ', Row(a=1, b=None, l=None, d=None, n=None)),
        (STRICT, b'{"a": 1, "a": 2, "zzz": 5}', Row(a=2, b=None, l=None, d=None, n=None)),
        (
            STRICT,
            b'{"a": 1, "b": {"x": [1]}, "n": {}}',
            Row(1, '{"x":[1]}', None, None, (None,)),
        ),
        (STRICT, b"null", None),
        (LINES, b"[]", []),
        (formats.json("DOUBLE"), b'"Infinity"', math.inf),
        (formats.json("DECIMAL(5, 2)"), b"1.5", Decimal("1.50")),
        (formats.json("BINARY"), b'"AQI="', bytearray(b"\1\2")),
        (formats.json(), b'{"a": [1, 2]}', '{"a": [1, 2]}'),
        (formats.json_with_schema("a INT"), b'{"schema": null, "payload": null}', None),
    ]
    rows = decode(spark, [(made, payload) for made, payload, _ in good])
    for (made, payload, value), row in zip(good, rows, strict=True):
        assert (row.value, row.error) == (value, None), f"{made.describe()} {payload!r}"


TYPE = formats.spark_type(
    "id BIGINT NOT NULL, word STRING, ratio DOUBLE, flag BOOLEAN, price DECIMAL(12, 3), day DATE,"
    "at TIMESTAMP,"
    "raw BINARY, words ARRAY<STRING>, by MAP<STRING, BIGINT>, inner STRUCT<x: INT, y: STRING>"
)
VALUES = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    st.none() | st.text(),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.booleans(),
    st.none() | st.decimals(-(10**8), 10**8, places=3),
    st.none() | st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    st.none() | st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)),  # noqa: DTZ001
    st.none() | st.binary(),
    st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3),
    st.none() | st.dictionaries(st.text(max_size=3), st.none() | st.integers(-5, 5), max_size=3),
    st.none() | st.tuples(st.none() | st.integers(-5, 5), st.none() | st.text(max_size=3)),
)


def round_trip(spark: SparkSession, made: Format, data_type: DataType, values: Sequence[Any]) -> list[Row]:
    schema = StructType([StructField("at", formats.spark_type("INT")), StructField("v", data_type)])
    frame = spark.createDataFrame(list(enumerate(values)), schema)
    bytes_of = frame.select("at", "v", made.encode(F.col("v"), UNUSED, False).alias("b"))
    back = bytes_of.select("at", "v", "b", made.decode(F.col("b"), UNUSED, False).alias("d"))
    return back.orderBy("at").collect()


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(VALUES, min_size=100, max_size=200))
def test_json_that_we_write_is_read_as_it_was(spark: SparkSession, values: list[Any]) -> None:
    for row in round_trip(spark, formats.json(TYPE), TYPE, values):
        assert row.d.error is None, bytes(row.b)
        assert row.d.value == row.v
        assert json.loads(bytes(row.b))["id"] == row.v.id


def test_connects_json_goes_both_ways(spark: SparkSession) -> None:
    wanted = formats.spark_type("id BIGINT NOT NULL, at TIMESTAMP, days ARRAY<DATE>, by MAP<STRING, DATE>")
    day, moment = dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3, 4, 5, 6000)  # noqa: DTZ001
    made = formats.json_with_schema(wanted)

    full, nothing = round_trip(spark, made, wanted, [(1, moment, [day, None], {"x": day}), None])

    assert full.d == Row(value=full.v, error=None) and full.v.id == 1
    assert nothing.b is None and nothing.d == Row(value=None, error=None)
    told = json.loads(bytes(full.b))
    assert told["payload"] == {"id": 1, "at": 1767323045006, "days": [20455, None], "by": {"x": 20455}}
    assert told["schema"]["fields"][1] == {
        "type": "int64",
        "name": "org.apache.kafka.connect.data.Timestamp",
        "version": 1,
        "optional": True,
        "field": "at",
    }


def test_windowed_keys_are_those_of_kafka_streams(spark: SparkSession) -> None:
    windowed = formats.time_windowed(formats.TEXT, 60_000)
    session = formats.session_windowed(formats.INT32)
    minute = dt.datetime(1970, 1, 1, 0, 1)  # noqa: DTZ001
    cases = [
        (windowed, b"key" + struct.pack(">q", 60_000), Row("key", minute, minute + dt.timedelta(minutes=1))),
        (session, struct.pack(">iqq", 7, 61_000, 60_000), Row(7, minute, minute + dt.timedelta(seconds=1))),
    ]

    rows = decode(spark, [(made, payload) for made, payload, _ in cases])

    for (made, payload, value), row in zip(cases, rows, strict=True):
        assert tuple(row.value) == tuple(value) and row.error is None
        assert encode(spark, made, [tuple(value), None]) == [payload, None]


@pytest.mark.parametrize("dead_letters", [False, True])
def test_a_record_is_parsed_once_whatever_follows(spark: SparkSession, dead_letters: bool) -> None:
    """Spark copies a filter's columns below what makes them; a record's JSON would be parsed again there."""
    value = formats.json("user STRING, n INT")
    source = Source("in", Topics(("t",)), Formats(formats.TEXT, value), Start(), None, table=False)
    raw = spark.createDataFrame(
        [(b"k", b'{"user": "a", "n": 4}', "t", 0, 1, dt.datetime(2025, 6, 1, tzinfo=dt.UTC), None)],
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,"
        " headers ARRAY<STRUCT<key: STRING, value: BINARY>>",
    )
    poison = DeadLetters("dead", ("in",)) if dead_letters else None
    frame = read_source(source, Given((), QueryInputs({source: raw}, {}), poison)).frame
    wanted = frame.where(F.col("value.n") > 3).select("value.user")

    plan = wanted._jdf.queryExecution().optimizedPlan().toString()  # type: ignore[operator]
    assert plan.count("from_json(") == 1
    assert wanted.collect() == [Row(user="a")]
