"""Transforms of sinks on real topics: into directories and tables by routed topics, and dead letters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ottla.client.cluster import KafkaCluster, Topic
from support.clients.confluent import eventually, produce
from support.connect.lakes import iceberg_rows
from support.connect.spark_host import BATCH_TIMEOUT_S, SparkHost

pytestmark = [pytest.mark.spark, pytest.mark.long]

KAFKA = "org.apache.kafka.connect.transforms"
ROUTE = {
    "transforms.route.type": f"{KAFKA}.RegexRouter",
    "transforms.route.regex": ".*-(.*)",
    "transforms.route.replacement": "all_$1",
}


def send(kafka: KafkaCluster, topic: str, values: list[Any]) -> None:
    texts = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in values]
    produce(kafka.bootstrap, topic, [{"value": each, "partition": 0} for each in texts])


@pytest.mark.parametrize("ddl", ["id BIGINT, name STRING", ""], ids=["columns", "rows"])
def test_topics_that_are_routed_to_one_directory_keep_all_their_rows(
    host: SparkHost, unique_name: str, tmp_path: Path, ddl: str
) -> None:
    kafka = KafkaCluster(host.bootstrap)
    topics = [f"{unique_name}{number}-x" for number in range(2)]
    kafka.ensure_topics([Topic(each) for each in topics])
    for number, topic in enumerate(topics):
        send(kafka, topic, [{"id": number * 10 + at, "name": "n"} for at in range(10)])
    given = {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "topics": ",".join(topics),
        "ottla.url": str(tmp_path),
        "flush.size": "4",
        "rotate.interval.ms": "0",
        "transforms": "route,mask,number",
        **ROUTE,
        "transforms.mask.type": f"{KAFKA}.MaskField$Value",
        "transforms.mask.fields": "name",
        "transforms.mask.replacement": "***",
        "transforms.number.type": f"{KAFKA}.InsertField$Value",
        "transforms.number.offset.field": "at",
    }
    if ddl:
        given["value.schema"] = ddl
    run = host.start(unique_name, given)
    directory = tmp_path / "topics" / "all_x"

    def rows() -> list[dict[str, Any]]:
        found = [row for path in directory.rglob("*.parquet") for row in pq.read_table(path).to_pylist()]
        return sorted(found, key=lambda row: row["id"])

    eventually(lambda: len(rows()) >= 20, "all rows are there", BATCH_TIMEOUT_S)
    assert host.stop(run) is None
    assert rows() == [
        {"id": number * 10 + at, "name": "***", "at": at} for number in range(2) for at in range(10)
    ]
    assert {path.name for path in (tmp_path / "topics").iterdir()} == {"all_x"}


def test_tables_by_topic_and_dead_letters_of_a_transform(
    host: SparkHost, unique_name: str, tmp_path: Path
) -> None:
    kafka = KafkaCluster(host.bootstrap)
    topic, dead = f"{unique_name}-x", f"{unique_name}-dead"
    kafka.ensure_topics([Topic(topic)])
    send(kafka, topic, [{"id": "1"}, {"id": "no number"}, b"no json", {"id": "3"}, {"id": "-4"}])
    given = {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "topics": topic,
        "iceberg.tables.dynamic-enabled": "true",
        "iceberg.tables.route-field": "table",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.catalog.warehouse": str(tmp_path),
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        "transforms": "number,route,table",
        "transforms.number.type": f"{KAFKA}.Cast$Value",
        "transforms.number.spec": "id:int32",
        **ROUTE | {"transforms.route.replacement": "db.all_$1"},
        "transforms.table.type": f"{KAFKA}.InsertField$Value",
        "transforms.table.topic.field": "table",
    }
    run = host.start(unique_name, given)
    table = tmp_path / "db" / "all_x"
    eventually(lambda: len(iceberg_rows(table)) == 3, "the good rows are there", BATCH_TIMEOUT_S)
    assert host.stop(run) is None
    assert sorted(row["id"] for row in iceberg_rows(table)) == [-4, 1, 3]
    letters = {each.value(): dict(each.headers() or ()) for each in kafka.read(dead, {})}
    prefix = "__connect.errors."
    assert {value: headers[f"{prefix}stage"] for value, headers in letters.items()} == {
        b'{"id": "no number"}': b"TRANSFORMATION",
        b"no json": b"VALUE_CONVERTER",
    }
    refused = letters[b'{"id": "no number"}']
    assert refused[f"{prefix}class.name"] == b"org.apache.kafka.connect.transforms.Cast$Value"
    assert (refused[f"{prefix}topic"], refused[f"{prefix}offset"]) == (topic.encode(), b"1")
