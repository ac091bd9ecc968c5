"""The Iceberg sink on a real topic, read back by pyiceberg and duckdb."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.client.cluster import KafkaCluster, Topic
from support.clients.confluent import eventually, produce
from support.connect.lakes import duckdb_rows, iceberg_rows
from support.connect.spark_host import BATCH_TIMEOUT_S, SparkHost

pytestmark = [pytest.mark.spark, pytest.mark.long]
CLASS = "org.apache.iceberg.connect.IcebergSinkConnector"


def config(topic: str, warehouse: Path, **more: str) -> dict[str, str]:
    return {
        "connector.class": CLASS,
        "topics": topic,
        "iceberg.tables": "db.rows",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.catalog.warehouse": str(warehouse),
        **more,
    }


def send(kafka: KafkaCluster, topic: str, values: list[Any], keys: list[Any] | None = None) -> None:
    records = [
        {
            "key": None if keys is None else str(keys[at]).encode(),
            "value": None if value is None else json.dumps(value).encode(),
            "partition": at % 2 if keys is None else hash(keys[at]) % 2,
        }
        for at, value in enumerate(values)
    ]
    produce(kafka.bootstrap, topic, records)


def committed(kafka: KafkaCluster, connector: str, topic: str) -> Mapping[int, int]:
    return kafka.committed(f"connect-{connector}", topic)


@pytest.fixture
def kafka(host: SparkHost) -> KafkaCluster:
    return KafkaCluster(host.bootstrap)


@pytest.fixture
def topic(kafka: KafkaCluster, unique_name: str) -> str:
    kafka.ensure_topics([Topic(unique_name, partitions=2)])
    return unique_name


def test_a_topic_without_values_makes_no_table_yet(
    host: SparkHost, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    """A table without columns would leave out all fields that come later."""
    table = tmp_path / "db" / "rows"
    # given a topic that is empty, then has records without values
    run = host.start(topic, config(topic, tmp_path))
    send(kafka, topic, [None, None, None])
    ends = kafka.end_positions(topic)
    eventually(lambda: committed(kafka, topic, topic) == ends, "they are passed over", BATCH_TIMEOUT_S)
    assert not table.exists()
    # when there is a value
    send(kafka, topic, [{"id": 1, "a": 2}])
    # then the table has its columns
    eventually(lambda: iceberg_rows(table) == [{"id": 1, "a": 2}], "the row is there", BATCH_TIMEOUT_S)
    assert host.stop(run) is None


def test_rows_are_there_once_over_stops_and_new_fields_become_columns(
    host: SparkHost, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    table = tmp_path / "db" / "rows"
    given = config(topic, tmp_path, **{"iceberg.tables.evolve-schema-enabled": "true"})
    values: list[dict[str, Any]] = [{"id": at, "name": f"n{at}"} for at in range(50)]
    send(kafka, topic, values)
    run = host.start(topic, given)
    eventually(lambda: len(iceberg_rows(table)) == 50, "the first rows are there", BATCH_TIMEOUT_S)
    assert host.stop(run) is None

    more = [{"id": at, "name": f"n{at}", "score": at / 2} for at in range(50, 80)]
    send(kafka, topic, more)
    run = host.start(topic, given)
    eventually(lambda: len(iceberg_rows(table)) == 80, "the others are there, too", BATCH_TIMEOUT_S)
    assert host.stop(run) is None

    found = sorted(iceberg_rows(table), key=lambda row: row["id"])
    assert found == [{**row, "score": None} for row in values] + more
    assert committed(kafka, topic, topic) == kafka.end_positions(topic)
    counted = duckdb_rows(f"SELECT count(*) c, sum(id) s FROM iceberg_scan('{table}')")
    assert counted == [{"c": 80, "s": sum(range(80))}]


def test_upserts_keep_the_last_record_of_each_id_and_tombstones_delete(
    host: SparkHost, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    table = tmp_path / "db" / "rows"
    given = config(
        topic,
        tmp_path,
        **{
            "iceberg.tables.upsert-mode-enabled": "true",
            "iceberg.tables.default-id-columns": "id",
            "iceberg.tables.evolve-schema-enabled": "true",
            "ottla.batch.max.records": "60",
        },
    )
    chance = random.Random(7)
    keys, values, model = [], [], {}
    for at in range(300):
        key = chance.randrange(25)
        value = None if at > 20 and chance.random() < 0.3 else {"id": str(key), "at": at}
        keys.append(key)
        values.append(value)
        if value is None:
            model.pop(str(key), None)
        else:
            model[str(key)] = value
    send(kafka, topic, values, keys)
    run = host.start(topic, given)
    eventually(
        lambda: committed(kafka, topic, topic) == kafka.end_positions(topic), "all is read", BATCH_TIMEOUT_S
    )
    assert host.stop(run) is None
    assert {row["id"]: row for row in iceberg_rows(table)} == model
    assert len(iceberg_rows(table)) == len(model)


def test_altered_offsets_with_a_new_generation_repeat_rows_from_there(
    host: SparkHost, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    table = tmp_path / "db" / "rows"
    send(kafka, topic, [{"id": at} for at in range(40)])
    run = host.start(topic, config(topic, tmp_path))
    eventually(lambda: len(iceberg_rows(table)) == 40, "the rows are there", BATCH_TIMEOUT_S)
    assert host.stop(run) is None

    # The group alone is no truth: the ledger is.
    kafka.commit(f"connect-{topic}", topic, {0: 0, 1: 0})
    run = host.start(topic, config(topic, tmp_path))
    send(kafka, topic, [{"id": 40}])
    eventually(lambda: len(iceberg_rows(table)) == 41, "one more row is there", BATCH_TIMEOUT_S)
    assert host.stop(run) is None

    kafka.commit(f"connect-{topic}", topic, {0: 21, 1: 15})
    run = host.start(topic, config(topic, tmp_path), generation=1)
    eventually(lambda: len(iceberg_rows(table)) == 46, "five rows are there again", BATCH_TIMEOUT_S)
    assert host.stop(run) is None
    ids = sorted(row["id"] for row in iceberg_rows(table))
    assert ids == sorted([*range(41), *range(31, 40, 2)])


def test_records_that_cannot_be_converted_end_the_task_or_are_dead_letters(
    host: SparkHost, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    table = tmp_path / "db" / "rows"
    poison = [{"value": b"{oops", "partition": 1, "key": b"k"}]
    send(kafka, topic, [{"id": at} for at in range(4)])
    produce(kafka.bootstrap, topic, poison)
    send(kafka, topic, [{"id": at} for at in range(4, 8)])

    run = host.begin(topic, config(topic, tmp_path))
    trace = host.ended(run)
    assert trace is not None
    assert "Tolerance exceeded in error handler: VALUE_CONVERTER" in trace
    assert f"topic={topic}, partition=1, offset=2" in trace
    assert iceberg_rows(table) == []

    letters = f"{topic}-dead"
    tolerant = config(
        topic,
        tmp_path,
        **{
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": letters,
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        },
    )
    run = host.start(topic, tolerant)
    eventually(lambda: len(iceberg_rows(table)) == 8, "the good ones are there", BATCH_TIMEOUT_S)
    assert host.stop(run) is None
    [letter] = list(kafka.read(letters))
    assert (letter.key(), letter.value()) == (b"k", b"{oops")
    headers = dict(letter.headers() or [])
    assert headers["__connect.errors.topic"] == topic.encode()
    assert headers["__connect.errors.offset"] == b"2"
    assert headers["__connect.errors.connector.name"] == topic.encode()


def test_rows_go_to_the_tables_that_a_field_names(
    host: SparkHost, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    given = config(topic, tmp_path, **{"iceberg.tables.dynamic-enabled": "true"})
    given |= {"iceberg.tables.route-field": "table", "ottla.batch.max.records": "10"}
    del given["iceberg.tables"]
    send(kafka, topic, [{"id": at, "table": f"db.t{at % 3}"} for at in range(30)])
    run = host.start(topic, given)
    tables = [tmp_path / "db" / f"t{number}" for number in range(3)]
    eventually(lambda: all(len(iceberg_rows(each)) == 10 for each in tables), "all rows", BATCH_TIMEOUT_S)
    assert host.stop(run) is None

    kafka.commit(f"connect-{topic}", topic, {0: 0, 1: 0})  # read again: the tables' ledgers leave them out
    run = host.start(topic, given)
    send(kafka, topic, [{"id": 30, "table": "db.t0"}])
    eventually(lambda: len(iceberg_rows(tables[0])) == 11, "the new row is there", BATCH_TIMEOUT_S)
    eventually(
        lambda: committed(kafka, topic, topic) == kafka.end_positions(topic), "all is read", BATCH_TIMEOUT_S
    )
    assert host.stop(run) is None
    assert [len(iceberg_rows(each)) for each in tables] == [11, 10, 10]


def test_records_of_several_embedded_schemas_fill_one_table(
    host: SparkHost, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    def record(value: dict[str, Any], *types: tuple[str, str]) -> dict[str, Any]:
        fields = [{"field": name, "type": kind, "optional": True} for name, kind in types]
        return {"schema": {"type": "struct", "fields": fields, "optional": False}, "payload": value}

    send(
        kafka,
        topic,
        [
            record({"id": 1}, ("id", "int32")),
            record({"id": 2, "name": "b"}, ("id", "int32"), ("name", "string")),
            record({"id": 2**40, "name": None}, ("id", "int64"), ("name", "string")),
        ],
    )
    given = config(topic, tmp_path, **{"value.converter": "org.apache.kafka.connect.json.JsonConverter"})
    run = host.start(topic, given)
    table = tmp_path / "db" / "rows"
    eventually(lambda: len(iceberg_rows(table)) == 3, "all rows are there", BATCH_TIMEOUT_S)
    assert host.stop(run) is None
    found = sorted(iceberg_rows(table), key=lambda row: row["id"])
    assert found == [{"id": 1, "name": None}, {"id": 2, "name": "b"}, {"id": 2**40, "name": None}]
