"""The records that a Kafka source reads, its start, and its errors for a source that can't be read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.query.source import (
    LATEST,
    RECORD_COLUMNS,
    FromOffsets,
    FromTimestamp,
    KafkaSource,
    SourceError,
    check_source,
    read_batch,
    read_stream,
)
from support.clients.confluent import produce
from support.servers.cluster import Cluster

TIMEOUT_S = 90


@pytest.fixture
def topic(cluster: Cluster, unique_name: str) -> str:
    """A topic of two partitions with the values 0 to 9, five in each, at the times 0 s to 9 s."""
    KafkaCluster(cluster.bootstrap).ensure_topics([Topic(unique_name, partitions=2)])
    records = [
        {"value": str(n).encode(), "key": b"k", "partition": n % 2, "timestamp": n * 1000 + 1}
        for n in range(10)
    ]
    produce(cluster.bootstrap, unique_name, records)
    return unique_name


def values(frame: DataFrame) -> list[str]:
    return sorted(row[0].decode() for row in frame.select("value").collect())


@pytest.mark.spark
def test_records_have_exactly_these_columns(spark: SparkSession, cluster: Cluster, unique_name: str) -> None:
    KafkaCluster(cluster.bootstrap).ensure_topics([Topic(unique_name)])
    record = {"key": b"k", "value": None, "timestamp": 5_000, "headers": [("h", b"1"), ("h", None)]}
    produce(cluster.bootstrap, unique_name, [record])
    source = KafkaSource(cluster.bootstrap, [unique_name])

    frame = read_batch(spark, source)

    assert frame.columns == list(RECORD_COLUMNS) == read_stream(spark, source).columns
    (row,) = frame.collect()
    assert (row.key, row.value, row.topic, row.partition, row.offset) == (b"k", None, unique_name, 0, 0)
    assert row.timestamp.astimezone(UTC) == datetime.fromtimestamp(5, UTC)
    assert [(header.key, header.value) for header in row.headers] == [("h", b"1"), ("h", None)]


@pytest.mark.spark
def test_where_a_batch_starts_and_ends(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    def read(start: object, end: object = LATEST) -> list[str]:
        source = KafkaSource(cluster.bootstrap, [topic], start=start)  # type: ignore[arg-type]
        return values(read_batch(spark, source, end))  # type: ignore[arg-type]

    assert read(FromTimestamp(7_000)) == ["7", "8", "9"]
    assert read(FromTimestamp(99_000)) == []
    assert read(FromOffsets({topic: {0: 4}})) == ["1", "3", "5", "7", "8", "9"]
    assert read(FromOffsets({topic: {0: 4}}), FromOffsets({topic: {1: 1}})) == ["1", "8"]
    assert read(FromTimestamp(3_000), FromTimestamp(5_000)) == ["3", "4"]


@pytest.mark.spark
def test_a_stream_by_pattern_in_small_batches(
    spark: SparkSession, cluster: Cluster, unique_name: str, tmp_path: Path
) -> None:
    for letter in "abc":
        KafkaCluster(cluster.bootstrap).ensure_topics([Topic(f"{unique_name}-{letter}")])
        produce(cluster.bootstrap, f"{unique_name}-{letter}", [{"value": letter + str(n)} for n in range(4)])
    source = KafkaSource(cluster.bootstrap, pattern=f"{unique_name}-[ab]", max_offsets_per_trigger=3)

    query = (
        read_stream(spark, source)
        .writeStream.format("memory")
        .queryName("by_pattern")
        .option("checkpointLocation", tmp_path.as_uri())
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(TIMEOUT_S)

    assert values(spark.table("by_pattern")) == [a + str(n) for a in "ab" for n in range(4)]
    assert max(progress["numInputRows"] for progress in query.recentProgress) <= 4
    assert check_source(source) == [f"{unique_name}-a", f"{unique_name}-b"]


@pytest.mark.spark
def test_what_a_transaction_aborted_is_not_read(
    spark: SparkSession, cluster: Cluster, unique_name: str
) -> None:
    KafkaCluster(cluster.bootstrap).ensure_topics([Topic(unique_name)])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": unique_name})
    producer.init_transactions(30)
    for value, end in (("good", producer.commit_transaction), ("bad", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(unique_name, value)
        producer.flush(10)
        end(10)

    assert values(read_batch(spark, KafkaSource(cluster.bootstrap, [unique_name]))) == ["good"]
    everything = KafkaSource(cluster.bootstrap, [unique_name], read_committed=False)
    assert values(read_batch(spark, everything)) == ["bad", "good"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["nowhere"], r"^topic nowhere does not exist on [\d.:]+: create it first$"),
        (["nowhere", "never"], r"^topics nowhere, never do not exist on [\d.:]+: create them first$"),
    ],
)
def test_a_topic_that_is_not_there_is_one_line_and_is_not_made(
    names: list[str], message: str, cluster: Cluster
) -> None:
    source = KafkaSource(cluster.bootstrap, names)
    for _ in range(2):
        with pytest.raises(SourceError, match=message):
            check_source(source)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("no-topic-is-called.*", r"no topic on [\d.:]+ has a name like no-topic"),
        ("(", "not a regular expression"),
    ],
)
def test_a_pattern_that_finds_nothing_is_one_line(pattern: str, message: str, cluster: Cluster) -> None:
    with pytest.raises(SourceError, match=message):
        check_source(KafkaSource(cluster.bootstrap, pattern=pattern))


def test_offsets_of_a_topic_or_partition_that_is_not_read_are_one_line(
    spark: SparkSession, cluster: Cluster, topic: str
) -> None:
    for offsets, message in (
        ({"another": {0: 1}}, "start names another, which"),
        ({topic: {7: 1}}, f"start names partition 7 of {topic}, which has 2"),
    ):
        source = KafkaSource(cluster.bootstrap, [topic], start=FromOffsets(offsets))
        with pytest.raises(SourceError, match=message):
            read_stream(spark, source)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs either topics or a pattern"),
        ({"topics": ["a"], "pattern": "a"}, "needs either topics or a pattern"),
        ({"topics": "orders"}, r"topics must be a list of names: \['orders'\]"),
        ({"topics": ["a,b"]}, "'a,b' is not a topic name"),
        ({"topics": [".."]}, "'..' is not a topic name"),
        (
            {"topics": ["a"], "max_offsets_per_trigger": 0},
            "max_offsets_per_trigger must be at least 1, not 0",
        ),
        ({"topics": ["a"], "start": FromTimestamp(-5)}, "not -5"),
    ],
)
def test_a_source_that_contradicts_itself_is_not_made(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        KafkaSource("127.0.0.1:9092", **arguments)  # type: ignore[arg-type]


def test_a_batch_from_the_end_is_refused(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    with pytest.raises(SourceError, match="not the latest"):
        read_batch(spark, KafkaSource(cluster.bootstrap, [topic], start=LATEST))


def test_a_client_option_that_spark_cannot_take_is_one_line(
    spark: SparkSession, cluster: Cluster, topic: str
) -> None:
    source = KafkaSource(cluster.bootstrap, [topic], client_options={"queued.min.messages": "5"})
    with pytest.raises(SourceError, match=r"queued\.min\.messages has no counterpart"):
        read_stream(spark, source)
