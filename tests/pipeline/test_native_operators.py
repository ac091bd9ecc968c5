"""Native operators on a broker: global tables that change, windows that close in a pause, bad topologies."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.query.source import KafkaSource, read_batch, read_stream
from ottla.streams.compile import native_aggregate, native_join
from ottla.streams.operators.join_kind import JoinKind
from ottla.streams.operators.windows import JoinWindows, SlidingWindows, TumblingWindows, Windows
from ottla.streams.plan.node import EventTime, TopologyError
from ottla.streams.plan.nodes.aggregate import Emit, NativeAggregate
from ottla.streams.plan.nodes.join import GlobalJoin, StreamJoin
from ottla.streams.plan.records import Record
from ottla.streams.run.global_snapshots import GlobalSnapshot, GlobalSnapshots
from ottla.streams.run.heartbeat import Heartbeat, heartbeat_topic, heartbeats
from support.pipeline.spark_batches import one_task_each, run, stream_of
from support.pipeline.stream_models import Fact
from support.servers.cluster import Cluster

pytestmark = pytest.mark.spark
TIMEOUT_SECONDS = 90
NOON = 1_700_000_000_000


@pytest.fixture
def kafka(cluster: Cluster) -> KafkaCluster:
    return KafkaCluster(cluster.bootstrap)


@pytest.fixture(autouse=True)
def small_shuffles(spark: SparkSession) -> Iterator[None]:
    with one_task_each(spark):
        yield


def produce(kafka: KafkaCluster, topic: str, *records: tuple[str | None, str | None, int]) -> None:
    producer = Producer(kafka.producer_options())
    for key, value, timestamp_ms in records:
        producer.produce(topic, value, key, timestamp=timestamp_ms)
    assert producer.flush(30) == 0


def as_text(frame: DataFrame) -> DataFrame:
    return frame.withColumns({name: F.col(name).cast("STRING") for name in ("key", "value")})


def eventually(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@contextlib.contextmanager
def running(frame: DataFrame, mode: str, place: Path, seen: list[Any]) -> Iterator[StreamingQuery]:
    """A query that puts its rows into `seen`."""
    writer = frame.writeStream.outputMode(mode).option("checkpointLocation", place.as_uri())
    query = writer.foreachBatch(lambda batch, _: seen.extend(batch.collect())).start()
    try:
        yield query
    finally:
        query.stop()


def joined_with(stream: DataFrame, table: DataFrame, kind: JoinKind) -> DataFrame:
    def key(record: Record) -> Column:
        return F.nullif(record.value, F.lit("stranger"))

    node = GlobalJoin("people", None, None, key, kind, None)  # type: ignore[arg-type]
    frame = native_join.global_join(stream, table, node)
    return frame.select("key", F.col("value.left"), F.col("value.right"), "offset")


def test_a_global_table_is_met_as_it_is(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str, tmp_path: Path
) -> None:
    people, visits = f"{unique_name}-people", f"{unique_name}-visits"
    kafka.ensure_topics([Topic(people, partitions=2), Topic(visits)])
    produce(kafka, people, ("ann", "Ann", NOON), ("bob", "Bob", NOON), (None, "nobody", NOON))
    stream = as_text(read_stream(spark, KafkaSource(kafka.bootstrap, (visits,))))
    table = as_text(read_batch(spark, KafkaSource(kafka.bootstrap, (people,))))
    seen: list[Any] = []

    def visit(*names: str | None) -> list[tuple[str | None, str | None]]:
        before = len(seen)
        produce(kafka, visits, *[("door", name, NOON) for name in names])
        named = sum(name is not None for name in names)
        eventually(lambda: len(seen) == before + named, f"visits of {names}")
        return sorted(((row.left, row.right) for row in seen[before:]), key=str)

    with running(joined_with(stream, table, JoinKind.LEFT), "append", tmp_path / "left", seen):
        # A key that is null meets nothing; a record without a value is left out.
        assert visit(None, "ann", "bob", "zoe", "stranger") == [
            ("ann", "Ann"), ("bob", "Bob"), ("stranger", None), ("zoe", None)
        ]  # fmt: skip
        produce(kafka, people, ("ann", "Anna", NOON), ("bob", None, NOON), ("zoe", "Zoe", NOON))
        assert visit("ann", "bob", "zoe") == [("ann", "Anna"), ("bob", None), ("zoe", "Zoe")]
    inner: list[Any] = []
    with running(joined_with(stream, table, JoinKind.INNER), "append", tmp_path / "inner", inner) as query:
        query.processAllAvailable()
    assert [(row.left, row.offset) for row in inner] == [("ann", 1), ("zoe", 3), ("ann", 5), ("zoe", 7)]


def test_a_global_table_in_memory_follows_its_topic(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str, tmp_path: Path
) -> None:
    people, visits = f"{unique_name}-people", f"{unique_name}-visits"
    kafka.ensure_topics([Topic(people), Topic(visits)])
    produce(kafka, people, ("ann", "Ann", NOON))
    stream = as_text(read_stream(spark, KafkaSource(kafka.bootstrap, (visits,))))
    rows = native_join.global_table_rows(as_text(read_batch(spark, KafkaSource(kafka.bootstrap, (people,)))))
    snapshot = GlobalSnapshot(people, rows, lambda: kafka.end_positions(people), rest=0)
    failures: list[BaseException] = []
    snapshots = GlobalSnapshots([snapshot], check_ms=20, failed=failures.append)
    seen: list[Any] = []

    snapshots.start()
    try:
        with running(joined_with(stream, rows, JoinKind.INNER), "append", tmp_path / "join", seen) as query:
            produce(kafka, visits, ("door", "ann", NOON))
            eventually(lambda: len(seen) == 1, "the first visit")
            plan = query._jsq.explainInternal(False)  # type: ignore[attr-defined]
            assert "InMemoryTableScan" in plan
            produce(kafka, people, ("ann", "Anna", NOON))

            def visited_again() -> bool:
                produce(kafka, visits, ("door", "ann", NOON))
                query.processAllAvailable()
                return seen[-1].right == "Anna"

            eventually(visited_again, "the new name")
    finally:
        snapshots.stop()

    assert [row.right for row in seen[:1]] == ["Ann"]
    assert not failures
    assert not rows.is_cached


def test_windows_close_in_a_pause_and_after_a_restart(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str, tmp_path: Path
) -> None:
    beats = heartbeat_topic(unique_name, "counts")
    kafka.ensure_topics([Topic(unique_name), beats])
    counts = NativeAggregate("counts", None, TumblingWindows(600, 0), None, False, Emit.WINDOW_CLOSE)  # type: ignore[arg-type]
    frame = native_aggregate.aggregate(
        as_text(read_stream(spark, KafkaSource(kafka.bootstrap, (unique_name,)))),
        counts,
        heartbeats(spark, kafka.bootstrap, beats.name),
    )
    seen: list[Any] = []
    failures: list[BaseException] = []

    @contextlib.contextmanager
    def with_heartbeats(query: StreamingQuery) -> Iterator[None]:
        waits = EventTime(0, 600)
        beat = Heartbeat.of(query, kafka, beats.name, idle_ms=200, waits=waits, failed=failures.append)
        beat.start()
        try:
            yield
        finally:
            beat.stop()

    start = NOON - NOON % 600
    with running(frame, "append", tmp_path / "checkpoint", seen) as query, with_heartbeats(query):
        produce(kafka, unique_name, ("a", "1", start), ("a", "2", start + 1), ("b", "3", start + 2))
        eventually(lambda: len(seen) == 2, "the first windows")
        assert sorted((row.key.key, row.value) for row in seen) == [("a", 2), ("b", 1)]
    with running(frame, "append", tmp_path / "checkpoint", seen) as query, with_heartbeats(query):
        produce(kafka, unique_name, ("a", "4", start + 6000), ("late", "5", start))
        eventually(lambda: len(seen) == 3, "the window after the restart")

    assert (seen[2].key.key, seen[2].value) == ("a", 1)
    assert not failures
    # They end when everything is closed: 600 ms of windows, 200 ms between heartbeats, two pauses.
    assert sum(kafka.end_positions(beats.name).values()) < 20


def test_a_heartbeat_thread_ends_with_its_query_and_tells_its_error(kafka: KafkaCluster) -> None:
    class Query:
        isActive = True
        lastProgress = None

        @property
        def status(self) -> dict[str, Any]:
            raise RuntimeError("no such query")

    failures: list[BaseException] = []
    told = threading.Event()

    def failed(error: BaseException) -> None:
        failures.append(error)
        told.set()

    waits = EventTime(0, None)
    beat = Heartbeat.of(Query(), kafka, "none", idle_ms=1, waits=waits, failed=failed)  # type: ignore[arg-type]
    beat.start()

    assert told.wait(TIMEOUT_SECONDS)
    beat.stop()
    assert [str(error) for error in failures] == ["no such query"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (JoinKind.INNER, {("a", 1, 10), ("a", 1, 11)}),
        (JoinKind.LEFT, {("a", 1, 10), ("a", 1, 11), ("b", 2, None), (None, 3, None)}),
        (
            JoinKind.OUTER,
            {("a", 1, 10), ("a", 1, 11), ("b", 2, None), (None, 3, None), ("a", None, 12), (None, None, 13)},
        ),
    ],
)
def test_records_close_in_time_meet_and_the_others_come_alone(
    spark: SparkSession, tmp_path: Path, kind: JoinKind, expected: set[tuple[object, ...]]
) -> None:
    end = Fact(None, None, 100_000, heartbeat=True)
    lefts = [[Fact("a", 1, 1000), Fact("b", 2, 1000), Fact(None, 3, 1000), Fact("a", None, 1000), end]]
    rights = [[Fact("a", 10, 990), Fact("a", 11, 1005), Fact("a", 12, 1006), Fact(None, 13, 1000)]]
    node = StreamJoin("pairs", None, None, JoinWindows(10, 5, 0), kind, None)  # type: ignore[arg-type]

    frame = native_join.stream_join(
        stream_of(spark, tmp_path / "left", lefts),
        stream_of(spark, tmp_path / "right", rights),
        node,
        stream_of(spark, tmp_path / "beats", lefts, heartbeats=True),
    )
    ran = run(frame, tmp_path, "append", ["key", "value.left", "value.right"])

    assert {tuple(row) for batch in ran.rows for row in batch} == expected


def test_a_joiner_gives_the_value_and_one_stream_may_meet_itself(spark: SparkSession, tmp_path: Path) -> None:
    stream = stream_of(spark, tmp_path / "facts", [[Fact("a", 1, 1000), Fact("a", 2, 1000)]])

    def both(left: Column, right: Column) -> Column:
        return left * 10 + right

    node = StreamJoin("pairs", None, None, JoinWindows(0, 0, 0), JoinKind.INNER, both)  # type: ignore[arg-type]
    ran = run(native_join.stream_join(stream, stream, node, None), tmp_path, "append", ["key", "value"])

    assert sorted(row.value for batch in ran.rows for row in batch) == [11, 12, 21, 22]


def test_poison_records_pass_a_global_join(spark: SparkSession) -> None:
    columns = "key STRING, value STRING, timestamp TIMESTAMP, offset BIGINT, _error STRING"
    moment = datetime(2023, 11, 14, tzinfo=UTC)
    records = [
        ("1", "ann", moment, 1, None),
        ("2", "zoe", moment, 2, None),
        ("3", None, moment, 3, "bad JSON"),
    ]
    table = spark.createDataFrame([("ann", "Ann")], "key STRING, value STRING")

    def key(record: Record) -> Column:
        return record.value

    node = GlobalJoin("people", None, None, key, JoinKind.INNER, None)  # type: ignore[arg-type]
    frame = spark.createDataFrame(records, columns).withColumns(
        {"headers": F.lit(None), "topic": F.lit("visits"), "partition": F.lit(0)}
    )
    joined = native_join.global_join(frame, table, node)

    assert sorted(
        (each.offset, each.value and each.value.right, each._error) for each in joined.collect()
    ) == [
        (1, "Ann", None),
        (3, None, "bad JSON"),
    ]


def no_aggregates(record: Record) -> dict[str, Column]:
    return {}


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ((SlidingWindows(10, 0), None, Emit.CHANGES), "sliding"),
        ((None, None, Emit.WINDOW_CLOSE), "only windows close"),
        ((None, no_aggregates, Emit.CHANGES), "0 aggregates"),
    ],
)
def test_an_aggregate_that_can_not_be_names_its_node(
    spark: SparkSession, tmp_path: Path, node: tuple[Windows | None, Any, Emit], message: str
) -> None:
    windows, aggregates, emit = node
    frame = stream_of(spark, tmp_path / "facts", [])

    with pytest.raises(TopologyError, match=f"^totals: .*{message}"):
        native_aggregate.aggregate(
            frame, NativeAggregate("totals", None, windows, aggregates, False, emit), None
        )  # type: ignore[arg-type]
