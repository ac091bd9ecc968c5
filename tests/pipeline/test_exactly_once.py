"""The exactly-once sink: the rows it writes, the rows of a repeated batch it skips, refused plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.query.topics import stream_from
from ottla.pipeline.sink.exactly_once import (
    Identity,
    SinkError,
    reset_sink,
    source_column,
    write_batch_exactly_once,
    write_exactly_once,
)
from support.clients.confluent import eventually, produce
from support.pipeline.pipeline_kills import PYTHON_SINK
from support.servers.cluster import Cluster

pytestmark = pytest.mark.spark
QUERY_TIMEOUT_SECONDS = 90
IN_JVM, IN_PYTHON, AS_DATA_SOURCE = {}, {"client_options": PYTHON_SINK}, {"as_data_source": True}
WRITERS = pytest.mark.parametrize(
    "writer",
    [IN_JVM, IN_PYTHON, pytest.param(AS_DATA_SOURCE, marks=pytest.mark.long)],
    ids=["jvm", "python", "data-source"],
)


@pytest.fixture
def kafka(cluster: Cluster) -> KafkaCluster:
    return KafkaCluster(cluster.bootstrap)


def values(kafka: KafkaCluster, topic: str) -> list[bytes | None]:
    return [message.value() for message in kafka.read(topic)]


def finish(query: StreamingQuery) -> None:
    """Wait for an availableNow query; its failure is raised."""
    assert query.awaitTermination(QUERY_TIMEOUT_SECONDS)


def failure_of(query: StreamingQuery) -> str:
    with pytest.raises(Exception) as failure:
        finish(query)
    return str(failure.value)


def started(
    frame: DataFrame, kafka: KafkaCluster, name: str, checkpoint: Path, **options: Any
) -> StreamingQuery:
    writer = write_exactly_once(frame, bootstrap=kafka.bootstrap, query_name=name, **options)
    return writer.option("checkpointLocation", checkpoint.as_uri()).trigger(availableNow=True).start()


def forget_last_commit(checkpoint: Path) -> None:
    """Leave the checkpoint as a driver does that is killed after a batch's tasks, before the batch's end."""
    last = max(
        (path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()),
        key=lambda p: int(p.name),
    )
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


@WRITERS
def test_every_column_of_a_row_arrives(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str, tmp_path: Path, writer: Mapping[str, Any]
) -> None:
    source, sink, other = (f"{unique_name}-{end}" for end in ("in", "out", "other"))
    kafka.ensure_topics([Topic(source, 2), Topic(sink, 3), Topic(other, 1)])
    produce(kafka.bootstrap, source, [{"value": str(i).encode(), "key": b"key %d" % i} for i in range(30)])
    number = f.col("value").cast("string").cast("int")
    frame = stream_from(spark, kafka.bootstrap, source).select(
        source_column(),
        f.when(number == 7, None).otherwise(f.col("value")).alias("value"),
        f.when(number == 8, None).otherwise(f.col("key")).alias("key"),
        f.when(number == 9, other).alias("topic"),
        f.when(number == 10, 2).cast("int").alias("partition"),
        f.when(number == 11, f.timestamp_millis(f.lit(1_700_000_000_123))).alias("timestamp"),
        f.when(
            number == 12,
            f.array(
                f.struct(f.lit("a").alias("key"), f.lit(b"1").alias("value")),
                f.struct(f.lit("a").alias("key"), f.lit(None).cast("binary").alias("value")),
            ),
        ).alias("headers"),
    )

    finish(started(frame, kafka, unique_name, tmp_path, topic=sink, **writer))

    written = {message.value(): message for message in kafka.read(sink)}
    assert len(written) == 29
    assert written[None].key() == b"key 7"
    assert written[b"8"].key() is None
    assert values(kafka, other) == [b"9"]
    assert written[b"10"].partition() == 2
    assert written[b"11"].timestamp()[1] == 1_700_000_000_123
    assert written[b"12"].headers() == [("a", b"1"), ("a", None)]
    # Keys are where Java's producers and Spark's own sink put them.
    placed = {message.key(): message.partition() for message in written.values() if message.value() != b"10"}
    rows = [(key,) for key in placed if key]
    spark.createDataFrame(rows, "key BINARY").selectExpr("key", "key AS value").write.format("kafka").options(
        **{"kafka.bootstrap.servers": kafka.bootstrap, "topic": sink}
    ).save()
    javas = {
        message.key(): message.partition() for message in kafka.read(sink) if message.key() == message.value()
    }
    assert javas == {key: partition for key, partition in placed.items() if key}


@WRITERS
def test_a_repeated_batch_writes_only_missing_rows(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str, tmp_path: Path, writer: Mapping[str, Any]
) -> None:
    """One task committed, another failed; on the replay Spark numbers the tasks the other way round.

    Kafka has forgotten the units' groups by then, as it does when an application is away for a week.
    """
    source, sink = f"{unique_name}-in", f"{unique_name}-out"
    partitions = 4
    kafka.ensure_topics([Topic(source, partitions), Topic(sink, 2)])
    rows = [{"value": b"%d of %d" % (i, p), "partition": p} for p in range(partitions) for i in range(50)]
    produce(kafka.bootstrap, source, rows)
    read = stream_from(spark, kafka.bootstrap, source)

    def attempt(*broken: int) -> StreamingQuery:
        value = f.when(
            f.col("partition").isin(*broken, -1) & f.col("value").cast("string").startswith("40 "),
            f.raise_error(f.lit("broken")).cast("binary"),
        ).otherwise(f.col("value"))
        return started(
            read.select(value.alias("value"), source_column()),
            kafka,
            unique_name,
            tmp_path,
            topic=sink,
            **writer,
        )

    assert "broken" in failure_of(attempt(0))
    first = Counter(values(kafka, sink))
    assert set(first.values()) <= {1}
    assert not any(value and value.endswith(b" of 0") for value in first)
    for group in kafka.groups(f"{unique_name}-sink-"):
        assert kafka.delete_group(group)
    finish(attempt())
    forget_last_commit(tmp_path)
    finish(attempt())

    assert Counter(values(kafka, sink)) == Counter(row["value"] for row in rows)
    assert len(reset_sink(kafka.bootstrap, unique_name)) == partitions


@WRITERS
def test_rows_that_break_off_are_not_taken_for_all(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str, tmp_path: Path, writer: Mapping[str, Any]
) -> None:
    """A failure before the sink closes the worker's input in the middle, which looks like its end."""
    source, sink = f"{unique_name}-in", f"{unique_name}-out"
    kafka.ensure_topics([Topic(source, 1), Topic(sink, 1)])
    count = 35_000  # several Arrow batches
    produce(kafka.bootstrap, source, [{"value": b"%d" % i} for i in range(count)])
    read = stream_from(spark, kafka.bootstrap, source)
    broken = read.select(
        source_column(),
        f.when(f.col("value") == b"30000", f.raise_error(f.lit("broken")).cast("binary"))
        .otherwise(f.col("value"))
        .alias("value"),
    )

    assert "broken" in failure_of(started(broken, kafka, unique_name, tmp_path, topic=sink, **writer))
    assert values(kafka, sink) == []
    whole = read.select(source_column(), "value")
    finish(started(whole, kafka, unique_name, tmp_path, topic=sink, **writer))

    assert values(kafka, sink) == [b"%d" % i for i in range(count)]


def test_state_is_written_by_the_numbers_of_its_tasks_and_a_lost_checkpoint_is_noticed(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str, tmp_path: Path
) -> None:
    source, sink = f"{unique_name}-in", f"{unique_name}-out"
    kafka.ensure_topics([Topic(source, 2), Topic(sink, 2)])
    produce(kafka.bootstrap, source, [{"key": b"%d" % (i % 5), "value": b"x"} for i in range(20)])
    counts = (
        stream_from(spark, kafka.bootstrap, source)
        .groupBy("key")
        .agg(f.count("*").cast("string").alias("value"))
    )

    update = {"topic": sink, "output_mode": "update"}

    finish(started(counts, kafka, unique_name, tmp_path / "checkpoint", **update))
    forget_last_commit(tmp_path / "checkpoint")
    finish(started(counts, kafka, unique_name, tmp_path / "checkpoint", **update))
    lost = failure_of(started(counts, kafka, unique_name, tmp_path / "other", **update))

    written = Counter((message.key(), message.value()) for message in kafka.read(sink))
    assert written == Counter({(b"%d" % key, b"4"): 1 for key in range(5)})
    assert f"reset_sink('{unique_name}')" in lost
    assert set(reset_sink(kafka.bootstrap, unique_name)) <= {f"{unique_name}-sink-{task}" for task in (0, 1)}


def test_batches_of_foreach_batch_are_written_once(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str, tmp_path: Path
) -> None:
    source, sink = f"{unique_name}-in", f"{unique_name}-out"
    kafka.ensure_topics([Topic(source, 1), Topic(sink, 1)])
    produce(kafka.bootstrap, source, [{"value": b"%d" % i} for i in range(10)])

    def write_twice(batch: DataFrame, batch_id: int) -> None:
        for _ in range(2):
            write_batch_exactly_once(
                batch.select("value", source_column()),
                bootstrap=kafka.bootstrap,
                query_name=unique_name,
                batch_id=batch_id,
                query_id="query-1",
                identity=Identity.SOURCE,
                topic=sink,
            )

    frame = stream_from(spark, kafka.bootstrap, source)
    writer = frame.writeStream.foreachBatch(write_twice).trigger(availableNow=True)
    finish(writer.option("checkpointLocation", tmp_path.as_uri()).start())

    assert values(kafka, sink) == [b"%d" % i for i in range(10)]


def test_frames_that_cannot_be_written_exactly_once_are_refused(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str, tmp_path: Path
) -> None:
    kafka.ensure_topics([Topic(unique_name, 1)])
    read = stream_from(spark, kafka.bootstrap, unique_name)
    table = spark.range(3).select(f.lit(b"a").alias("key"))
    whole = read.select("value", source_column())
    refused: dict[str, tuple[DataFrame, str]] = {
        "needs the column source in a frame without aggregation": (read.select("value"), "out"),
        "needs the column source in a frame": (read.join(f.broadcast(table), "key").select("value"), "out"),
        "needs bootstrap, query_name and topic": (whole, ""),
        "needs a column value": (whole.drop("value"), "out"),
        "knows no column offset": (whole.withColumn("offset", f.lit(1)), "out"),
        "column partition is BIGINT": (whole.withColumn("partition", f.lit(1).cast("bigint")), "out"),
        "column headers is STRING": (whole.withColumn("headers", f.lit("a")), "out"),
        "column source is STRING": (whole.withColumn("source", f.lit("a")), "out"),
        "takes a streaming frame": (table.select(f.col("key").alias("value")), "out"),
    }

    for message, (frame, topic) in refused.items():
        with pytest.raises(SinkError, match=message):
            write_exactly_once(frame, bootstrap=kafka.bootstrap, query_name=unique_name, topic=topic)
    writer = write_exactly_once(whole, bootstrap=kafka.bootstrap, query_name=unique_name, topic="out")
    with pytest.raises(SinkError, match="asynchronous progress tracking"):
        writer.options(asyncProgressTrackingEnabled=True)
    with pytest.raises(SinkError, match="asynchronous progress tracking"):
        writer.option("asyncProgressTrackingEnabled", "true")


def test_a_query_goes_from_one_writer_to_the_other(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str, tmp_path: Path
) -> None:
    """A batch that Python has written and Spark has not finished is skipped by the JVM, and vice versa."""
    source, sink = f"{unique_name}-in", f"{unique_name}-out"
    kafka.ensure_topics([Topic(source, 2), Topic(sink, 1)])
    frame = stream_from(spark, kafka.bootstrap, source).select("value", source_column())
    by_jvm: Mapping[str, Any] = {}
    by_python = {"client_options": PYTHON_SINK}

    for number, (first, second) in enumerate([(by_python, by_jvm), (by_jvm, by_python)] * 2):
        rows = [{"value": b"%d %d" % (number, i), "partition": i % 2} for i in range(20)]
        produce(kafka.bootstrap, source, rows)
        finish(started(frame, kafka, unique_name, tmp_path, topic=sink, **first))
        forget_last_commit(tmp_path)
        finish(started(frame, kafka, unique_name, tmp_path, topic=sink, **second))

    assert Counter(values(kafka, sink)) == Counter(b"%d %d" % (n, i) for n in range(4) for i in range(20))


def test_a_query_that_is_stopped_in_a_batch_leaves_no_transaction_open(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str, tmp_path: Path
) -> None:
    """Consumers of committed records would wait behind it for the transaction's own time, five minutes."""
    source, sink = f"{unique_name}-in", f"{unique_name}-out"
    kafka.ensure_topics([Topic(source, 1), Topic(sink, 1)])
    produce(kafka.bootstrap, source, [{"value": b"%d" % i, "partition": 0} for i in range(400)])
    # A tenth of a second a row, by a call that leaves the thread's interrupt as it is.
    pause = f.expr("java_method('java.util.concurrent.locks.LockSupport', 'parkNanos', 100000000L)")
    frame = stream_from(spark, kafka.bootstrap, source).select(
        source_column(), f.concat(f.coalesce(pause, f.lit("")), f.col("value").cast("string")).alias("value")
    )

    def end(*, committed: bool) -> int:
        return kafka.ends_of([(sink, 0)], committed=committed)[sink, 0]

    query = started(frame, kafka, unique_name, tmp_path, topic=sink)
    try:
        eventually(lambda: end(committed=False) > 0, "the transaction has records", QUERY_TIMEOUT_SECONDS)
    finally:
        query.stop()
    eventually(lambda: end(committed=True) == end(committed=False), "the transaction has ended")
    assert values(kafka, sink) == []


@WRITERS
def test_the_failure_of_a_query_tells_no_private_key(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str, tmp_path: Path, writer: Mapping[str, Any]
) -> None:
    source = f"{unique_name}-in"
    kafka.ensure_topics([Topic(source, 1)])
    produce(kafka.bootstrap, source, [{"value": b"1"}])
    broken = f.raise_error(f.lit("no such row")).cast("string").alias("value")
    frame = stream_from(spark, kafka.bootstrap, source).select(source_column(), broken)
    key = "-----BEGIN PRIVATE KEY-----\nhidden well\n-----END PRIVATE KEY-----"
    options = {**writer, "client_options": {**writer.get("client_options", {}), "ssl.key.pem": key}}

    failure = failure_of(started(frame, kafka, unique_name, tmp_path, topic="out", **options))

    assert "no such row" in failure
    assert "hidden well" not in failure
