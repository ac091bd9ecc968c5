"""Spark's formats as sources: each row once in the topic, over restarts and kills of the host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.client.cluster import KafkaCluster
from ottla.connect.host.messages import Ended, Role
from support.clients.confluent import eventually
from support.connect.spark_host import BATCH_TIMEOUT_S, SparkHost, spark_host
from support.servers.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.long]

CLASS = "ottla.connect.spark.SparkFormatSourceConnector"


def config(topic: str, directory: Path, **more: str) -> dict[str, str]:
    given = {
        "connector.class": CLASS,
        "topic": topic,
        "spark.path": str(directory / "in"),
        "spark.checkpoint.location": str(directory / "checkpoints"),
        "spark.interval.ms": "100",
    }
    return given | {name.replace("_", "."): text for name, text in more.items()}


def values(kafka: KafkaCluster, topic: str) -> list[Any]:
    if kafka.missing_topics([topic]):
        return []
    found = [each.value() for each in kafka.read(topic, {})]
    return [json.loads(each) if each is not None and each[:1] == b"{" else each for each in found]


def put(directory: Path, name: str, text: str) -> None:
    """A file, whole at once."""
    (directory / "in").mkdir(parents=True, exist_ok=True)
    (directory / name).write_text(text)
    (directory / name).rename(directory / "in" / name)


def test_rows_of_files_are_records_and_a_reset_reads_them_again(
    host: SparkHost, unique_name: str, tmp_path: Path
) -> None:
    kafka = KafkaCluster(host.bootstrap)
    given = config(
        unique_name, tmp_path, spark_format="csv", spark_schema="id INT, d DECIMAL(9,2), name STRING"
    ) | {"spark.key.column": "name", "value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    put(tmp_path, "a.csv", "1,2.55,x\n2,,y\n")
    run = host.start(unique_name, given, role=Role.SOURCE_TASK)
    eventually(lambda: len(values(kafka, unique_name)) == 2, "the first file is there", BATCH_TIMEOUT_S)
    assert host.stop(run) is None
    first, second = values(kafka, unique_name)
    assert first["payload"] == {"id": 1, "d": "AP8=", "name": "x"}
    assert second["payload"] == {"id": 2, "d": None, "name": "y"}
    assert [each.key() for each in kafka.read(unique_name, {})] == [b"x", b"y"]

    put(tmp_path, "b.csv", "3,1,z\n")
    run = host.start(unique_name, given, role=Role.SOURCE_TASK)
    eventually(lambda: len(values(kafka, unique_name)) == 3, "the new file alone is read", BATCH_TIMEOUT_S)
    assert host.stop(run) is None

    run = host.start(unique_name, given, role=Role.SOURCE_TASK, generation=1)
    eventually(lambda: len(values(kafka, unique_name)) == 6, "all is read again", BATCH_TIMEOUT_S)
    assert host.stop(run) is None


def test_transforms_and_other_converters_go_record_by_record(
    host: SparkHost, unique_name: str, tmp_path: Path
) -> None:
    kafka = KafkaCluster(host.bootstrap)
    transforms = {
        "transforms": "hoist,header,route",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.header.type": "org.apache.kafka.connect.transforms.InsertHeader",
        "transforms.header.header": "h",
        "transforms.header.value.literal": "1",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "$1-routed",
    }
    put(tmp_path, "a.txt", "one\ntwo\n")
    given = config(unique_name, tmp_path, spark_format="text") | transforms
    run = host.start(unique_name, given, role=Role.SOURCE_TASK)
    topic = f"{unique_name}-routed"
    eventually(lambda: len(values(kafka, topic)) == 2, "both lines are there", BATCH_TIMEOUT_S)
    assert host.stop(run) is None
    assert values(kafka, topic) == [{"line": "one"}, {"line": "two"}]
    assert [each.headers() for each in kafka.read(topic, {})] == [[("h", b"1")]] * 2


def test_a_format_that_cannot_stream_is_refused(host: SparkHost, unique_name: str, tmp_path: Path) -> None:
    given = config(unique_name, tmp_path, spark_format="jdbc")
    run = host.begin(unique_name, given, role=Role.SOURCE_TASK)
    end = host.wait_for(run, (Ended,), BATCH_TIMEOUT_S)
    assert isinstance(end, Ended)
    assert end.trace is not None
    assert "spark.format=jdbc can't be read as a stream" in end.trace


def test_killed_hosts_leave_each_row_once(cluster: Cluster, unique_name: str, tmp_path: Path) -> None:
    kafka = KafkaCluster(cluster.bootstrap)
    given = config(unique_name, tmp_path, spark_format="text") | {"spark.option.maxFilesPerTrigger": "3"}
    given["value.converter"] = "org.apache.kafka.connect.storage.StringConverter"
    sent = 0
    for life in range(3):
        for number in range(12):
            put(tmp_path, f"{life}-{number}.txt", "".join(f"{sent + at}\n" for at in range(50)))
            sent += 50
        with spark_host(cluster.bootstrap, tmp_path / f"host-{life}") as host:
            before = len(values(kafka, unique_name))
            host.start(unique_name, given, role=Role.SOURCE_TASK)
            wanted = sent if life == 2 else before + 1
            eventually(
                lambda wanted=wanted: len(values(kafka, unique_name)) >= wanted,
                "rows are there",
                2 * BATCH_TIMEOUT_S,
            )
            host.kill()
    assert sorted(int(each) for each in values(kafka, unique_name)) == list(range(sent))
