"""Queries on Spark over topics in formats of the Schema Registry, and over plain Protobuf."""

from __future__ import annotations

import random
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess
from support.sql.sql_server import SqlServer

LIMIT_S = 150.0
"""For five queries to start one after the other, on a machine with other work."""
EARLIEST = {"auto.offset.reset": "earliest"}
PROTOBUF_COLUMNS = "n, text, day, moment, xs, s, m"


def values_of(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The values of a topic's first records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        found = consumer.consume(count, timeout=30)
        values = [each.value() for each in found if each.error() is None]
    finally:
        consumer.close()
    assert None not in values
    return [each for each in values if each is not None]


@pytest.mark.long
def test_queries_go_through_every_format_of_the_registry(
    broker: OttlaBroker, registry: ServiceProcess, tmp_path: Path
) -> None:
    """Each query reads what the one before has written; a foreign client reads the Avro."""
    seed = random.getrandbits(32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    name = f"S_{uuid.uuid4().hex[:8]}".upper()
    settings = {"ksql.schema.registry.url": registry.url}
    with SqlServer.start(broker.bootstrap, tmp_path, name.lower(), settings=settings, warm=True) as server:
        server.run(
            f"CREATE STREAM {name} (k BIGINT KEY, n BIGINT, text STRING, amount DECIMAL(8, 2), day DATE, "
            "moment TIMESTAMP, xs ARRAY<INT>, s STRUCT<a INT, b STRING>, m MAP<STRING, DOUBLE>) "
            f"WITH (kafka_topic='{name}', format='avro', partitions=2);"
        )
        steps = ("AVRO", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR", "JSON")
        source = name
        for number, format_name in enumerate(steps):
            columns = "*" if number < 2 else f"k, {PROTOBUF_COLUMNS}"
            server.run(
                f"CREATE STREAM {name}_{number} WITH (format='{format_name}') AS "
                f"SELECT {columns} FROM {source};",
                EARLIEST,
            )
            source = f"{name}_{number}"
        wanted: list[list[Any]] = []
        for _ in range(12):
            key, n, text = dice.randint(-5, 5), dice.randint(-(2**63), 2**63 - 1), dice.choice("aüz")
            server.run(
                f"INSERT INTO {name} VALUES ({key}, {n}, '{text}', 12.30, '2024-02-29', "
                f"'2024-02-29T01:02:03.004', ARRAY[1, {key}], STRUCT(a := {key}, b := 'x'), MAP('y' := 1.5));"
            )
            inner = [[1, key], {"A": key, "B": "x"}, {"y": 1.5}]
            wanted.append([key, n, text, "2024-02-29", "2024-02-29T01:02:03.004", *inner])
        server.until(
            f"SELECT * FROM {source};",
            lambda rows: sorted(map(str, rows)) == sorted(map(str, wanted)),
            LIMIT_S,
        )
        for side in ("key", "value"):
            (found,) = server.run(f"ASSERT SCHEMA SUBJECT '{name}_0-{side}';")
            assert found["exists"] is True

        # Columns that nobody lists come from the registry.
        server.run(f"CREATE STREAM {name}_I WITH (kafka_topic='{name}_0', format='avro');")
        (described,) = server.run(f"DESCRIBE {name}_I;")
        fields = [each["name"] for each in described["sourceDescription"]["fields"]]
        assert fields == ["ROWKEY", "N", "TEXT", "AMOUNT", "DAY", "MOMENT", "XS", "S", "M"]
        found = server.rows(f"SELECT rowkey, {PROTOBUF_COLUMNS} FROM {name}_I;")
        assert sorted(map(str, found)) == sorted(map(str, wanted))
        refused = server.refused(f"CREATE STREAM {name}_J WITH (kafka_topic='{name}_none', format='avro');")
        assert "no schema of the subject" in refused["message"]

        client = SchemaRegistryClient({"url": registry.url})
        decode = AvroDeserializer(client)
        at = SerializationContext(f"{name}_0", MessageField.VALUE)
        records = values_of(broker.bootstrap, f"{name}_0", len(wanted))
        assert len(records) == len(wanted)
        assert sorted(decode(each, at)["N"] for each in records) == sorted(row[1] for row in wanted)


def test_without_a_registry_a_query_is_refused_with_the_setting(broker: OttlaBroker, tmp_path: Path) -> None:
    name = f"S_{uuid.uuid4().hex[:8]}".upper()
    with SqlServer.start(broker.bootstrap, tmp_path, name.lower()) as server:
        server.run(
            f"CREATE STREAM {name} (a INT, b INT) "
            f"WITH (kafka_topic='{name}', value_format='avro', partitions=1);"
        )
        refused = server.refused(f"CREATE STREAM {name}_2 AS SELECT a FROM {name};")["message"]
        assert "AVRO needs a Schema Registry" in refused
