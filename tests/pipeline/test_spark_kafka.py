"""Spark's Kafka connector on a broker: round trips, partitions, progress that lag tools see."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from ottla.client.cluster import KafkaCluster, Topic
from ottla.client.errors import ClusterError
from ottla.pipeline.query.progress import ProgressPublisher
from ottla.pipeline.query.topics import stream_from, stream_to
from ottla.pipeline.spark.errors import SparkError
from ottla.pipeline.spark.session import SparkSettings, start_session
from support.clients.confluent import eventually
from support.servers.cluster import Cluster

pytestmark = pytest.mark.spark
BATCH_TIMEOUT_SECONDS = 90


@pytest.fixture
def kafka(cluster: Cluster) -> KafkaCluster:
    return KafkaCluster(cluster.bootstrap)


def produce(kafka: KafkaCluster, topic: str, records: dict[str, str]) -> None:
    producer = Producer(kafka.producer_options())
    for key, value in records.items():
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0


def test_what_spark_writes_any_client_reads_on_the_same_partitions(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str
) -> None:
    kafka.ensure_topics([Topic(unique_name, partitions=5)])
    records = {f"key {number}": f"välue {number}" for number in range(200)}
    frame = spark.createDataFrame(list(records.items()), "key STRING, value STRING")

    frame.write.format("kafka").options(
        **{"kafka.bootstrap.servers": kafka.bootstrap, "topic": unique_name}
    ).save()
    produce(kafka, unique_name, records)

    placed = [(message.key(), message.value(), message.partition()) for message in kafka.read(unique_name)]
    assert len(placed) == 400
    # Each key twice on one partition: once by Spark's Java client and once by ours.
    assert len(set(placed)) == 200
    assert {(key.decode(), value.decode()) for key, value, _ in placed} == set(records.items())


def test_spark_reads_records_of_any_client(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str
) -> None:
    kafka.ensure_topics([Topic(unique_name, partitions=3)])
    records = {str(number): "x" * number for number in range(300)}
    produce(kafka, unique_name, records)

    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    rows = reader.option("subscribe", unique_name).load()
    rows = rows.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")

    assert {row[0]: row[1] for row in rows.collect()} == records


def test_a_query_goes_on_where_it_stopped_and_its_group_shows_it(
    spark: SparkSession, kafka: KafkaCluster, unique_name: str, tmp_path: Path
) -> None:
    source, sink, group = f"{unique_name}-in", f"{unique_name}-out", f"{unique_name}-group"
    kafka.ensure_topics([Topic(source, partitions=2), Topic(sink, partitions=2)])
    publisher = ProgressPublisher(kafka)
    listener = publisher.listener()
    spark.streams.addListener(listener)

    def run_until_caught_up() -> None:
        publisher.follow(unique_name, group, [source], tmp_path)
        frame = stream_from(spark, kafka.bootstrap, source, max_offsets_per_trigger=60)
        query = (
            stream_to(frame.selectExpr("key", "upper(CAST(value AS STRING)) AS value"), kafka.bootstrap, sink)
            .queryName(unique_name)
            .option("checkpointLocation", tmp_path.as_uri())
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(BATCH_TIMEOUT_SECONDS)

    try:
        produce(kafka, source, {str(number): f"a{number}" for number in range(100)})
        run_until_caught_up()
        produce(kafka, source, {str(number): f"b{number}" for number in range(50)})
        eventually(lambda: kafka.lag(group, source) == 50, "the group is where the query is")
        run_until_caught_up()
        # A third start has nothing to read, and tells the group where the checkpoint is.
        publisher.follow(unique_name, group, [source], tmp_path)
    finally:
        spark.streams.removeListener(listener)

    assert kafka.lag(group, source) == 0
    written = [message.value() for message in kafka.read(sink)]
    expected = [f"A{number}".encode() for number in range(100)] + [
        f"B{number}".encode() for number in range(50)
    ]
    assert sorted(written) == sorted(expected)


def test_reading_since_positions_gives_only_later_records(kafka: KafkaCluster, unique_name: str) -> None:
    kafka.ensure_topics([Topic(unique_name, partitions=2)])
    produce(kafka, unique_name, {str(number): "first" for number in range(20)})
    middle = kafka.end_positions(unique_name)
    produce(kafka, unique_name, {str(number): "second" for number in range(10)})

    assert [message.value() for message in kafka.read(unique_name, middle)] == [b"second"] * 10
    assert sum(kafka.end_positions(unique_name).values()) == 30
    assert list(kafka.read(unique_name, kafka.end_positions(unique_name))) == []


def test_what_is_not_there_is_an_error(kafka: KafkaCluster, unique_name: str) -> None:
    with pytest.raises(ClusterError, match=unique_name):
        kafka.end_positions(unique_name)
    with pytest.raises(ClusterError, match=r"no Kafka broker answers at 127\.0\.0\.1:1"):
        KafkaCluster("127.0.0.1:1").wait_until_answering(0.2)


def test_a_process_has_one_session(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SparkError, match="has a Spark session already"):
        start_session(SparkSettings("second", tmp_path))
    with pytest.raises(SparkError, match="has a Spark session already"):
        start_session(SparkSettings("connect", tmp_path, master="sc://127.0.0.1"))


def test_nothing_of_spark_is_on_the_error_stream(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    frame: DataFrame = spark.range(10)
    frame.selectExpr("assert_true(id >= 0)").collect()
    assert capfd.readouterr().err == ""
