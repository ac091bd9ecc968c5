"""Spark's own Kafka connector (kafka-clients 3.9): batch and streaming, reading and writing, with headers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.clients.confluent import admin_client, create_topic, produce, read_all
from support.clients.wire import BASE_TIMESTAMP_MS
from support.servers.cluster import Cluster

pytestmark = pytest.mark.spark
QUERY_TIMEOUT_S = 90


def read(spark: SparkSession, cluster: Cluster, topic: str, **options: Any) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.options(subscribe=topic, **options).load()


def run_to_the_end(query: Any) -> None:
    """Wait for a query with the availableNow trigger."""
    try:
        assert query.awaitTermination(QUERY_TIMEOUT_S), "the query did not end in time"
        assert query.exception() is None
    finally:
        query.stop()


def test_batch_read_with_headers(spark: SparkSession, cluster: Cluster, unique_name: str) -> None:
    # given
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    records = [
        {"key": b"a", "value": b"1", "headers": [("trace", b"\x01"), ("trace", b"\x02")], "partition": 0},
        {"key": None, "value": b"2", "timestamp": BASE_TIMESTAMP_MS, "partition": 1},
        {"key": b"c", "value": None, "partition": 1},
    ]
    for record in records:
        produce(cluster.bootstrap, topic, [record])
    # when
    frame = read(spark, cluster, topic, startingOffsets="earliest", includeHeaders="true")
    rows = frame.selectExpr("*", "unix_millis(timestamp) AS time_ms").orderBy("partition", "offset").collect()
    # then
    assert [(row.partition, row.offset) for row in rows] == [(0, 0), (1, 0), (1, 1)]
    assert [(row.key, row.value) for row in rows] == [(b"a", b"1"), (None, b"2"), (b"c", None)]
    assert [(header.key, header.value) for header in rows[0].headers] == [
        ("trace", b"\x01"),
        ("trace", b"\x02"),
    ]
    assert rows[1].time_ms == BASE_TIMESTAMP_MS
    assert rows[1].timestampType == 0


def test_batch_write_with_headers_and_topics(spark: SparkSession, cluster: Cluster, unique_name: str) -> None:
    # given: a column that says the topic
    topics = [create_topic(cluster.bootstrap, f"{unique_name}-{letter}") for letter in "ab"]
    schema = "topic STRING, key STRING, value STRING, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    rows = [(topics[n % 2], f"k{n}", f"v{n}", [("n", bytes([n]))]) for n in range(10)]
    frame = spark.createDataFrame(rows, schema)
    # when
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "includeHeaders": "true"}
    frame.write.format("kafka").options(**options, **{"kafka.compression.type": "zstd"}).save()
    # then
    for index, topic in enumerate(topics):
        messages = read_all(cluster.bootstrap, topic, 5)
        numbers = range(index, 10, 2)
        assert {m.value(): m.key() for m in messages} == {b"v%d" % n: b"k%d" % n for n in numbers}
        assert {m.value(): m.headers() for m in messages} == {
            b"v%d" % n: [("n", bytes([n]))] for n in numbers
        }


def test_offsets_by_timestamp_and_by_number(spark: SparkSession, cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    times = [{"value": b"%d" % n, "timestamp": BASE_TIMESTAMP_MS + n * 1000} for n in range(10)]
    produce(cluster.bootstrap, topic, times)

    def values(**options: str) -> list[int]:
        frame = read(spark, cluster, topic, **options).selectExpr("CAST(CAST(value AS STRING) AS INT) AS n")
        return [row.n for row in frame.orderBy("n").collect()]

    start, end = f'{{"{topic}": {{"0": 3}}}}', f'{{"{topic}": {{"0": 7}}}}'
    assert values(startingOffsets=start, endingOffsets=end) == [3, 4, 5, 6]
    assert values(startingTimestamp=str(BASE_TIMESTAMP_MS + 6500)) == [7, 8, 9]
    assert values(startingOffsets="earliest", minPartitions="4") == list(range(10))


def test_streaming_reads_writes_and_goes_on(
    spark: SparkSession, cluster: Cluster, unique_name: str, tmp_path: Path
) -> None:
    # given
    source = create_topic(cluster.bootstrap, f"{unique_name}-in", partitions=3)
    sink = create_topic(cluster.bootstrap, f"{unique_name}-out", partitions=2)

    def run() -> None:
        options = {
            "kafka.bootstrap.servers": cluster.bootstrap,
            "kafka.isolation.level": "read_committed",
            "subscribePattern": f"{unique_name}-i.*",
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            "maxOffsetsPerTrigger": "40",
        }
        frame = spark.readStream.format("kafka").options(**options).load()
        doubled = frame.selectExpr("key", "concat(value, value) AS value", "headers")
        writer = doubled.writeStream.format("kafka").options(
            **{"kafka.bootstrap.servers": cluster.bootstrap, "topic": sink, "includeHeaders": "true"},
            checkpointLocation=str(tmp_path / "checkpoint"),
        )
        run_to_the_end(writer.trigger(availableNow=True).start())

    def send(numbers: range) -> None:
        records = ({"key": b"%d" % n, "value": b"%d," % n, "headers": [("n", b"%d" % n)]} for n in numbers)
        produce(cluster.bootstrap, source, records)

    # when: two runs with new records between them
    send(range(100))
    run()
    send(range(100, 150))
    run()
    # then: every record once
    messages = read_all(cluster.bootstrap, sink, 150, partitions=(0, 1))
    assert {m.key(): m.value() for m in messages} == {b"%d" % n: b"%d,%d," % (n, n) for n in range(150)}
    assert all(m.headers() == [("n", m.key())] for m in messages)
    # and Spark leaves no group with committed offsets behind
    groups = admin_client(cluster.bootstrap).list_consumer_groups().result(20).valid
    assert not [g.group_id for g in groups if unique_name in g.group_id]
