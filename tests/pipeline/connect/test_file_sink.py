"""The file sink on a real topic: files by manifests, read back by pyarrow and duckdb."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ottla.client.cluster import KafkaCluster, Topic
from support.clients.confluent import eventually, produce
from support.connect.lakes import duckdb_rows
from support.connect.spark_host import BATCH_TIMEOUT_S, SparkHost

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def kafka(host: SparkHost) -> KafkaCluster:
    return KafkaCluster(host.bootstrap)


def rows(directory: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(directory.rglob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def send(kafka: KafkaCluster, topic: str, values: list[Any]) -> None:
    produce(
        kafka.bootstrap,
        topic,
        [{"value": json.dumps(value).encode(), "partition": at % 2} for at, value in enumerate(values)],
    )


def test_files_are_named_by_topic_partition_and_offset_and_have_each_row_once(
    host: SparkHost, kafka: KafkaCluster, unique_name: str, tmp_path: Path
) -> None:
    kafka.ensure_topics([Topic(unique_name, partitions=2)])
    given = {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "topics": unique_name,
        "ottla.url": str(tmp_path),
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        "flush.size": "20",
    }
    values = [{"id": at, "name": f"n{at}"} for at in range(100)]
    send(kafka, unique_name, values)
    run = host.start(unique_name, given)
    files = tmp_path / "topics" / unique_name
    eventually(lambda: len(rows(files)) == 100, "all rows are there", BATCH_TIMEOUT_S)
    assert host.stop(run) is None
    assert sorted(rows(files), key=lambda row: row["id"]) == values
    names = sorted(str(path.relative_to(files)) for path in files.rglob("*.parquet"))
    expected = [
        f"partition={partition}/{unique_name}+{partition}+{first:010d}.snappy.parquet"
        for partition in (0, 1)
        for first in (0, 20, 40)
    ]
    assert names == expected
    send(kafka, unique_name, [{"id": 100, "name": "after"}])
    run = host.start(unique_name, given)
    eventually(lambda: len(rows(files)) == 101, "the row after the stop is there", BATCH_TIMEOUT_S)
    assert host.stop(run) is None
    counted = duckdb_rows(f"SELECT count(DISTINCT id) c FROM '{files}/**/*.parquet'")
    assert counted == [{"c": 101}]


def test_directories_are_by_fields_or_by_time(
    host: SparkHost, kafka: KafkaCluster, unique_name: str, tmp_path: Path
) -> None:
    kafka.ensure_topics([Topic(unique_name, partitions=2)])
    send(
        kafka,
        unique_name,
        [{"id": at, "to": ("a/../b", "c")[at % 2], "at": at * 86_400_000} for at in range(4)],
    )
    base = {"connector.class": "S3SinkConnector", "topics": unique_name, "format.class": "json"}
    by_field = {
        **base,
        "ottla.url": str(tmp_path / "field"),
        "partitioner.class": "FieldPartitioner",
        "partition.field.name": "to",
    }
    by_day = {
        **base,
        "ottla.url": str(tmp_path / "day"),
        "partitioner.class": "io.confluent.connect.storage.partitioner.DailyPartitioner",
        "timestamp.extractor": "RecordField",
        "timestamp.field": "at",
    }
    first = host.begin(f"{unique_name}-field", by_field)
    second = host.begin(f"{unique_name}-day", by_day)

    def directories(name: str) -> set[str]:
        base = tmp_path / name / "topics" / unique_name
        return {str(path.parent.relative_to(base)) for path in base.rglob("*.json")}

    days = {f"year=1970/month=01/day={day:02d}" for day in range(1, 5)}
    eventually(lambda: directories("field") == {"to=a%2F..%2Fb", "to=c"}, "by field", BATCH_TIMEOUT_S)
    eventually(lambda: directories("day") == days, "by day", BATCH_TIMEOUT_S)
    assert host.stop(first) is None
    assert host.stop(second) is None
