"""Operators in Python on Spark: exact values, timers, restarts, and the errors of functions that fail."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from ottla.streams.host.keyed_host import bucket_ids, observation_name, run_keyed
from ottla.streams.operators.aggregate import StreamAggregate
from ottla.streams.operators.aggregation import Aggregate, Count
from ottla.streams.operators.operator import KeyedOperator
from ottla.streams.operators.processor import (
    Processor,
    ProcessorContext,
    ProcessorOperator,
    ProcessorRecord,
)
from ottla.streams.operators.stream_table_join import StreamTableJoin
from ottla.streams.operators.windowed_aggregate import WindowedAggregate
from ottla.streams.operators.windows import TumblingWindows

pytestmark = pytest.mark.spark

RECORDS = (
    "key STRING, value BIGINT, timestamp TIMESTAMP, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
    "topic STRING, partition INT, offset BIGINT"
)
STRING, BIGINT = StringType(), LongType()
WINDOWED_KEY = StructType(
    [StructField("key", STRING), StructField("start", TimestampType()), StructField("end", TimestampType())]
)
_numbers = itertools.count()


@dataclass
class Bench:
    """A query that runs over batches of a test, one file each, and its output."""

    spark: SparkSession
    directory: Path
    given: list[Any] = field(default_factory=list)
    _offsets: Iterator[int] = field(default_factory=itertools.count)

    def frame(self) -> DataFrame:
        (self.directory / "input").mkdir(exist_ok=True)
        reader = self.spark.readStream.schema(RECORDS).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.directory / "input"))

    def add(self, *rows: tuple[str | None, int | None, int]) -> None:
        """One batch of (key, value, timestamp in ms)."""
        lines = []
        for key, value, at_ms in rows:
            time = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
            row = {"key": key, "value": value, "timestamp": time, "topic": "t", "partition": 0}
            lines.append(json.dumps(row | {"offset": next(self._offsets)}))
        name = f"{next(_numbers):06}.json"
        hidden = self.directory / "input" / f".{name}"
        hidden.write_text("\n".join(lines), encoding="utf-8")
        hidden.rename(self.directory / "input" / name)

    @contextmanager
    def running(self, frame: DataFrame, mode: str = "update") -> Iterator[StreamingQuery]:
        def collect(batch: DataFrame, number: int) -> None:
            self.given += batch.drop("topic", "partition", "offset").collect()

        writer = frame.writeStream.outputMode(mode).foreachBatch(collect)
        query = writer.option("checkpointLocation", str(self.directory / "checkpoint")).start()
        try:
            yield query
        finally:
            query.stop()

    def take(self) -> list[Any]:
        given, self.given = self.given, []
        return given


@pytest.fixture(autouse=True)
def functions_of_this_module_travel() -> Iterator[None]:
    """Spark's workers can't import the test: its functions go to them by value, as those of a notebook do."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    yield
    cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path)


def counts(rows: Sequence[Any]) -> dict[Any, Any]:
    return {row.key: row.value for row in rows}


def test_values_arrive_and_leave_exactly(spark: SparkSession, tmp_path: Path) -> None:
    value = (
        "n: BIGINT, list: ARRAY<INT>, price: DECIMAL(38,10), raw: BINARY, time: TIMESTAMP, "
        "local: TIMESTAMP_NTZ, days: MAP<DATE, STRUCT<at: TIMESTAMP, ratio: DOUBLE>>, small: TINYINT, "
        "flag: BOOLEAN"
    )
    schema = RECORDS.replace("value BIGINT", f"value STRUCT<{value}>")
    end = datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - Spark's rows are naive
    at = datetime(2024, 2, 29, 1, 2, 3, 123456)  # noqa: DTZ001
    full = (
        2**63 - 1,
        [1, None, 3],
        Decimal("12345678901234567890.0123456789"),
        b"\x00\xff",
        end,
        at,
        {date(1, 1, 1): (at, float("-inf")), date(9999, 12, 31): (None, 0.1)},
        -128,
        True,
    )
    empty = (None,) * 9
    headers = [("trace", b"\x01"), ("none", None)]
    rows = [
        ("k", full, at, headers, "stream", 0, 0),
        ("k", empty, at, None, "stream", 0, 1),
        ("k", None, at, None, "stream", 0, 2),
    ]
    spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(tmp_path / "stream"))
    spark.createDataFrame([("k", full, at, None, "table", 0, 0)], schema).write.parquet(
        str(tmp_path / "table")
    )
    inputs = [spark.readStream.schema(schema).parquet(str(tmp_path / name)) for name in ("table", "stream")]
    value_type = inputs[0].schema["value"].dataType
    pair = StructType([StructField("left", value_type), StructField("right", value_type)])

    joined = run_keyed(inputs, StreamTableJoin(), name="join", key_type=STRING, value_type=pair)
    bench = Bench(spark, tmp_path)
    with bench.running(joined) as query:
        query.processAllAvailable()

    expected = spark.createDataFrame(rows[:2], schema).collect()
    assert [row.value.left for row in bench.given] == [row.value for row in expected]
    assert [row.value.right for row in bench.given] == [expected[0].value] * 2
    assert [row.timestamp for row in bench.given] == [
        row.timestamp.replace(microsecond=123000) for row in expected
    ]
    assert [row.headers for row in bench.given] == [expected[0].headers, None]


def test_state_of_many_keys_survives_restarts(bench: Bench) -> None:
    """Thousands of keys, so that pages split and are read and written together."""
    expected: dict[str, int] = {}

    def add(count: int, step: int) -> None:
        keys = [f"key-{number * step % 3000}" for number in range(count)]
        bench.add(*((key, 1, 1000) for key in keys))
        for key in keys:
            expected[key] = expected.get(key, 0) + 1

    frame = run_keyed(
        [bench.frame()], StreamAggregate(Count()), name="count", key_type=STRING, value_type=BIGINT
    )
    for _ in range(2):
        with bench.running(frame) as query:
            add(3000, 1)
            query.processAllAvailable()
            add(2000, 7)
            query.processAllAvailable()
    assert counts(bench.take()) == expected


def test_windows_close_without_further_input_and_late_records_are_counted(bench: Bench) -> None:
    operator = WindowedAggregate(TumblingWindows(1000, 500), Count(), emit_on_close=True)
    frame = run_keyed(
        [bench.frame()], operator, name="per second", key_type=WINDOWED_KEY, value_type=BIGINT, grace_ms=500
    )
    with bench.running(frame) as query:
        bench.add(*((key, 1, at_ms) for key in "abcdef" for at_ms in (10_000, 10_999)), ("a", 1, 11_000))
        query.processAllAvailable()
        assert bench.take() == []

        bench.add(("z", 1, 11_500))  # one key's record closes the windows of all
        query.processAllAvailable()
        closed = bench.take()
        assert {(row.key.key, row.value) for row in closed} == {(key, 2) for key in "abcdef"}
        assert {(row.key.start.second, row.key.end.second) for row in closed} == {(10, 11)}

        bench.add(("a", 1, 10_500), ("a", 1, 11_001), (None, 1, 11_001))
        query.processAllAvailable()
        assert bench.take() == []
        seen = [
            dict(each.observedMetrics[observation_name("per second")].asDict()) for each in observed(query)
        ]
        assert sum(each["late"] or 0 for each in seen) == 1
        assert sum(each["dropped"] or 0 for each in seen) == 1


def observed(query: StreamingQuery) -> list[Any]:
    return [each for each in query.recentProgress if each.observedMetrics]


class Reminder(Processor):
    stores = ("first",)
    event_time = False
    processing_time = True

    def process(self, record: ProcessorRecord, context: ProcessorContext) -> None:
        context.store("first").put(record.value)
        context.schedule_processing_time(context.processing_time_ms + 1)

    def punctuate(self, key: Any, at_ms: int, context: ProcessorContext) -> None:
        context.forward(key, context.store("first").get(), timestamp_ms=0)


def test_a_processing_time_punctuator_comes_without_input(bench: Bench) -> None:
    frame = run_keyed(
        [bench.frame()], ProcessorOperator(Reminder()), name="remind", key_type=STRING, value_type=BIGINT
    )
    bench.add(("a", 7, 1000))
    with bench.running(frame) as query:
        # Spark runs batch after batch in this mode: a due timer fires in one of the next.
        wait_until(query, lambda: bool(bench.given))
    assert [(row.key, row.value) for row in bench.take()] == [("a", 7)]


def wait_until(query: StreamingQuery, condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        assert not query.awaitTermination(0.1), query.exception()
    raise AssertionError("nothing came in 60 s")


def failing_while(mark: Path, fail: Callable[[], None]) -> KeyedOperator:
    """Counts by a user's function that fails at the value 13 for as long as there is a file `mark`."""

    def add(count: int, value: int) -> int:
        if value == 13 and mark.exists():
            fail()
        return count + 1

    return StreamAggregate(Aggregate(int, add))


def kill_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def raise_error() -> None:
    raise ZeroDivisionError("unlucky number")


@pytest.mark.parametrize("fail", [pytest.param(raise_error, marks=pytest.mark.long), kill_worker])
def test_a_batch_that_fails_is_repeated_from_the_state_before_it(
    bench: Bench, tmp_path: Path, fail: Callable[[], None]
) -> None:
    mark = tmp_path / "fails"
    mark.touch()
    operator = failing_while(mark, fail)
    frame = run_keyed([bench.frame()], operator, name="count", key_type=STRING, value_type=BIGINT)
    bench.add(("a", 1, 0), ("b", 1, 0))
    with bench.running(frame) as query:
        query.processAllAvailable()
        bench.add(("a", 1, 0), ("b", 1, 0), ("a", 13, 0))
        with pytest.raises(StreamingQueryException) as failure:
            query.processAllAvailable()
    if fail is raise_error:
        assert "ZeroDivisionError: unlucky number" in str(failure.value)
        assert "in raise_error" in str(failure.value)
        assert "in count, at the record with key 'a'" in str(failure.value)
    assert counts(bench.take()) == {"a": 1, "b": 1}

    mark.unlink()
    with bench.running(frame) as query:
        query.processAllAvailable()
    assert counts(bench.take()) == {"a": 3, "b": 2}


def test_an_output_that_does_not_fit_its_type_fails_the_query(bench: Bench) -> None:
    operator = StreamAggregate(Aggregate(int, lambda count, value: f"{count}"))
    frame = run_keyed([bench.frame()], operator, name="wrong", key_type=STRING, value_type=BIGINT)
    bench.add(("a", 1, 0))
    with (
        bench.running(frame) as query,
        pytest.raises(StreamingQueryException, match="wrong: the value is '0', which is no bigint"),
    ):
        query.processAllAvailable()


def test_buckets_are_spread_evenly_over_the_tasks(spark: SparkSession) -> None:
    for buckets, partitions in ((2, 2), (6, 3), (5, 4)):
        ids = bucket_ids(buckets, partitions)
        rows = spark.createDataFrame([(each,) for each in ids], "id INT")
        found = [row[0] for row in rows.select(F.pmod(F.hash("id"), F.lit(partitions))).collect()]
        assert found == [number % partitions for number in range(buckets)]
        assert len(set(ids)) == buckets


def test_event_time_without_a_watermark_is_refused(bench: Bench) -> None:
    operator = WindowedAggregate(TumblingWindows(1000, 0), Count())
    with pytest.raises(ValueError, match="waits for event time and has no watermark"):
        run_keyed([bench.frame()], operator, name="windows", key_type=WINDOWED_KEY, value_type=BIGINT)
