"""The Delta sink on a real topic, read back by delta-rs and duckdb."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.client.cluster import KafkaCluster, Topic
from support.clients.confluent import eventually, produce
from support.connect.lakes import delta_rows, duckdb_rows
from support.connect.spark_host import BATCH_TIMEOUT_S, SparkHost

pytestmark = [pytest.mark.spark, pytest.mark.long]
CLASS = "ottla.connect.spark.DeltaSinkConnector"


def send(host: SparkHost, topic: str, rows: list[tuple[int, Any]]) -> None:
    records = [
        {"key": str(key).encode(), "value": None if value is None else json.dumps(value).encode()}
        for key, value in rows
    ]
    produce(host.bootstrap, topic, records)


@pytest.fixture
def topic(host: SparkHost, unique_name: str) -> str:
    KafkaCluster(host.bootstrap).ensure_topics([Topic(unique_name, partitions=2)])
    return unique_name


def test_rows_are_appended_once_and_again_only_where_offsets_were_altered(
    host: SparkHost, topic: str, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    given = {
        "connector.class": CLASS,
        "topics": topic,
        "delta.path": str(table),
        "delta.evolve-schema-enabled": "true",
    }
    send(host, topic, [(at, {"id": at}) for at in range(40)])
    run = host.start(topic, given)
    eventually(lambda: len(delta_rows(table)) == 40, "the rows are there", BATCH_TIMEOUT_S)
    assert host.stop(run) is None
    send(host, topic, [(at, {"id": at, "more": {"x": "y"}}) for at in range(40, 50)])
    run = host.start(topic, given)
    eventually(lambda: len(delta_rows(table)) == 50, "the others, too", BATCH_TIMEOUT_S)
    assert host.stop(run) is None
    assert sorted(row["id"] for row in delta_rows(table)) == list(range(50))
    assert [row["more"] for row in delta_rows(table) if row["id"] >= 40] == [{"x": "y"}] * 10
    assert duckdb_rows(f"SELECT count(*) c FROM delta_scan('{table}')") == [{"c": 50}]

    kafka = KafkaCluster(host.bootstrap)
    ends = kafka.end_positions(topic)
    kafka.commit(f"connect-{topic}", topic, {0: ends[0] - 2, 1: ends[1] - 1})
    run = host.start(topic, given, generation=3)
    eventually(lambda: len(delta_rows(table)) == 53, "three rows again", BATCH_TIMEOUT_S)
    assert host.stop(run) is None


@pytest.mark.parametrize("upsert", ["false", "true"])
def test_a_topic_without_values_makes_no_table_yet(
    host: SparkHost, topic: str, tmp_path: Path, upsert: str
) -> None:
    given = {
        "connector.class": CLASS,
        "topics": topic,
        "delta.path": str(tmp_path / "table"),
        "delta.upsert-mode-enabled": upsert,
        "delta.id-columns": "id",
        "key.converter": "org.apache.kafka.connect.converters.LongConverter",
    }
    kafka = KafkaCluster(host.bootstrap)
    # given a topic that is empty, then has records without values
    run = host.start(topic, given)
    keys = [number.to_bytes(8) for number in range(3)]
    produce(host.bootstrap, topic, [{"key": key, "value": None} for key in keys])
    ends = kafka.end_positions(topic)
    eventually(
        lambda: kafka.committed(f"connect-{topic}", topic) == ends, "they are passed over", BATCH_TIMEOUT_S
    )
    assert not (tmp_path / "table").exists()
    # when there is a value
    produce(host.bootstrap, topic, [{"key": keys[1], "value": b'{"id": 1, "a": 2}'}])
    # then the table has its columns
    eventually(
        lambda: delta_rows(tmp_path / "table") == [{"id": 1, "a": 2}], "the row is there", BATCH_TIMEOUT_S
    )
    assert host.stop(run) is None


def test_upserts_replace_and_delete_rows(host: SparkHost, topic: str, tmp_path: Path) -> None:
    table = tmp_path / "table"
    given = {
        "connector.class": CLASS,
        "topics": topic,
        "delta.path": str(table),
        "delta.upsert-mode-enabled": "true",
        "delta.id-columns": "id",
    }
    send(host, topic, [(at % 10, {"id": str(at % 10), "at": at}) for at in range(30)])
    run = host.start(topic, given)
    eventually(lambda: len(delta_rows(table)) == 10, "a row for each id", BATCH_TIMEOUT_S)
    send(host, topic, [(3, None), (4, {"id": "4", "at": 99})])
    expected = {str(at): at + 20 for at in range(10)} | {"4": 99}
    del expected["3"]
    eventually(
        lambda: {row["id"]: row["at"] for row in delta_rows(table)} == expected, "changed", BATCH_TIMEOUT_S
    )
    assert host.stop(run) is None


def test_a_sink_of_any_format_of_spark_writes_rows_with_their_places(
    host: SparkHost, topic: str, tmp_path: Path
) -> None:
    given = {
        "connector.class": "ottla.connect.spark.SparkFormatSinkConnector",
        "topics": topic,
        "spark.format": "json",
        "spark.option.path": str(tmp_path / "out"),
        "spark.place.columns": "true",
    }
    send(host, topic, [(at, {"id": at}) for at in range(5)])
    run = host.start(topic, given)

    def rows() -> list[Any]:
        files = (tmp_path / "out").glob("part-*.json")
        return [json.loads(line) for path in files for line in path.read_text().splitlines()]

    eventually(lambda: len(rows()) == 5, "the rows are there", BATCH_TIMEOUT_S)
    assert host.stop(run) is None
    assert {row["kafka_topic"] for row in rows()} == {topic}
    places = {(row["kafka_partition"], row["kafka_offset"]) for row in rows()}
    ends = KafkaCluster(host.bootstrap).end_positions(topic)
    assert places == {(partition, offset) for partition, end in ends.items() for offset in range(end)}
