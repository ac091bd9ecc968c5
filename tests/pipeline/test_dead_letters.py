"""Poison records: to the dead-letter topic as they were, counted, in the same query as the output."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from ottla.pipeline import formats
from ottla.pipeline.dead_letters import (
    FAIL,
    FAILURE,
    OBSERVATION,
    SKIP,
    Origin,
    dead_letters,
    decode_records,
    failure_of,
    good,
    routed,
    split,
)
from ottla.pipeline.formats import FormatError

pytestmark = pytest.mark.spark
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001
SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,"
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
RECORDS = [
    (b"\0\0\0\1", b'{"n": 1}', "orders", 0, 10, MOMENT, [("trace", b"t1")]),
    (b"\0\0\0\2", b"broken", "orders", 1, 11, MOMENT, [("trace", b"t2"), ("bare", None)]),
    (b"short key..", b'{"n": 3}', "orders", 0, 12, MOMENT, None),
    (b"\0\0\0\4", None, "orders", 0, 13, MOMENT, None),
    (None, b'{"n": 5}', "orders", 0, 14, MOMENT, []),
]
ORIGIN = Origin("shop", "totals")
POLICY = dead_letters("orders.dead")
VALUE = formats.json("n INT NOT NULL")


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    path = (tmp_path / "records").as_uri()
    spark.createDataFrame(RECORDS, SCHEMA).coalesce(1).write.parquet(path)
    yield path


def decoded(spark: SparkSession, path: str, *, stream: bool = False) -> DataFrame:
    frame = (spark.readStream if stream else spark.read).schema(SCHEMA).parquet(path)
    return decode_records(frame, formats.INT32, VALUE, "orders")


def output() -> list[Any]:
    doubled = formats.INT64.encode(F.col("value.n").cast("bigint") * 2, "out", False)
    key = formats.INT32.encode(F.col("key"), "out", True)
    return [F.lit("out"), key, doubled, F.col("headers"), F.col("timestamp")]


def headers(row: Row) -> dict[str, str | None]:
    return {each.key: None if each.value is None else bytes(each.value).decode() for each in row.headers}


def run_to_end(frame: DataFrame, name: str, checkpoint: Path) -> list[Any]:
    query = (
        frame.writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", checkpoint.as_uri())
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(60)
        return list(query.recentProgress)
    finally:
        query.stop()


def test_one_stateless_query_writes_output_and_dead_letters_and_counts_them(
    spark: SparkSession, files: str, tmp_path: Path
) -> None:
    frame = routed(decoded(spark, files, stream=True), output(), POLICY, ORIGIN)
    progress = run_to_end(frame, "routed", tmp_path / "checkpoint")
    rows = spark.table("routed").collect()

    written = {row.key and bytes(row.key): row for row in rows if row.topic == "out"}
    assert {key: row.value and bytes(row.value)[-1] for key, row in written.items()} == {
        b"\0\0\0\1": 2,
        b"\0\0\0\4": None,
        None: 10,
    }
    dead = {bytes(row.key): row for row in rows if row.topic == "orders.dead"}
    assert set(dead) == {b"\0\0\0\2", b"short key.."}
    broken = dead[b"\0\0\0\2"]
    assert bytes(broken.value) == b"broken" and broken.timestamp == MOMENT
    assert headers(broken) == {
        "trace": "t2",
        "bare": None,
        "__connect.errors.topic": "orders",
        "__connect.errors.partition": "1",
        "__connect.errors.offset": "11",
        "__connect.errors.connector.name": "shop",
        "__connect.errors.stage": "VALUE_CONVERTER",
        "__connect.errors.exception.class.name": "ottla.DecodeError",
        "__connect.errors.exception.message": "the text is not valid JSON",
        "__ottla.application": "shop",
        "__ottla.query": "totals",
    }
    assert headers(dead[b"short key.."])["__connect.errors.stage"] == "KEY_CONVERTER"
    assert bytes(dead[b"short key.."].value) == b'{"n": 3}'
    counts = [each.observedMetrics[OBSERVATION] for each in progress if each.observedMetrics]
    assert [(each.dead_letters, each.records) for each in counts] == [(2, 5)]


def test_a_query_with_state_takes_the_good_and_writes_the_union(
    spark: SparkSession, files: str, tmp_path: Path
) -> None:
    well, dead = split(decoded(spark, files, stream=True), POLICY, ORIGIN)
    assert dead is not None and FAILURE not in well.columns
    counts = well.groupBy("topic").count()
    total = counts.select(
        F.lit("counts").alias("topic"),
        F.encode("topic", "utf-8").alias("key"),
        formats.INT64.encode(F.col("count"), "counts", False).alias("value"),
        F.lit(None).cast("ARRAY<STRUCT<key: STRING, value: BINARY>>").alias("headers"),
        F.lit(None).cast("timestamp").alias("timestamp"),
    )
    written: list[Row] = []
    query = (
        total.union(dead)
        .writeStream.outputMode("update")
        .option("checkpointLocation", (tmp_path / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .foreachBatch(lambda batch, _: written.extend(batch.collect()))
        .start()
    )
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()

    assert sorted((row.topic, bytes(row.key)) for row in written) == [
        ("counts", b"orders"),
        ("orders.dead", b"\0\0\0\2"),
        ("orders.dead", b"short key.."),
    ]
    assert [bytes(row.value)[-1] for row in written if row.topic == "counts"] == [3]


def test_the_test_for_failures_does_not_decode_twice(spark: SparkSession, files: str) -> None:
    plan = good(decoded(spark, files), SKIP)._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count('],"end of ottla":1}') == 1, plan  # what the parser is given


def test_skipping_is_counted(spark: SparkSession, files: str, tmp_path: Path) -> None:
    frame = good(decoded(spark, files, stream=True), SKIP)
    progress = run_to_end(frame.select("offset"), "skipping", tmp_path / "checkpoint")

    assert sorted(row.offset for row in spark.table("skipping").collect()) == [10, 13, 14]
    assert [p.observedMetrics[OBSERVATION].dead_letters for p in progress if p.observedMetrics] == [2]


def test_failing_names_the_record(spark: SparkSession, files: str, tmp_path: Path) -> None:
    only = decoded(spark, files, stream=True).filter("offset = 11")
    with pytest.raises(StreamingQueryException) as raised:
        run_to_end(good(only, FAIL), "failing", tmp_path / "checkpoint")
    said = str(raised.value)
    assert (
        "record orders-1 at offset 11 can't be worked on (VALUE_CONVERTER): the text is not valid JSON"
        in said
    )


def test_policies_tell_what_they_do() -> None:
    assert POLICY.describe() == "dead letters to orders.dead"
    assert "fails" in FAIL.describe() and "counted" in SKIP.describe()
    with pytest.raises(FormatError, match="name of a topic"):
        dead_letters("")


def test_an_exception_of_a_users_function_is_told_bounded() -> None:
    def users(depth: int) -> None:
        if depth:
            users(depth - 1)
        raise ValueError("x" * 5000)

    try:
        users(300)
    except ValueError as problem:
        failure = failure_of(problem)

    assert failure.class_name == "ValueError"
    assert len(failure.message) == 1000 and len(failure.stack_trace) < 8_100
    assert "test_an_exception_of_a_users_function" not in failure.stack_trace
    assert "in users" in failure.stack_trace
