"""`ottla produce` and `ottla consume` with schemas of a registry, beside Confluent's serializers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from support.clients.confluent import create_topic, read_all
from support.clients.encrypting import encryption
from support.clients.record_commands import RecordRun, consumed, run
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
JSON_SCHEMA = json.dumps(
    {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], "title": "Order"}
)
PROTOBUF = 'syntax = "proto3";\nmessage Order { int64 id = 1; string note = 2; }\n'


def produce(
    broker: OttlaBroker, registry: ServiceProcess, topic: str, *words: str, input: bytes
) -> RecordRun:
    return run(broker.bootstrap, "produce", topic, "--registry", registry.url, *words, input=input)


def consume(broker: OttlaBroker, registry: ServiceProcess, topic: str, *words: str) -> list[object]:
    out = consumed(broker.bootstrap, topic, "--registry", registry.url, "--json", *words)
    return [json.loads(line)["value"] for line in out.splitlines()]


@pytest.mark.parametrize(
    ("form", "suffix", "schema", "given", "read"),
    [
        ("avro", "avsc", AVRO, {"id": 1, "note": {"string": "x"}}, {"id": 1, "note": {"string": "x"}}),
        ("json_schema", "json", JSON_SCHEMA, {"id": 1}, {"id": 1}),
        ("protobuf", "proto", PROTOBUF, {"id": "1"}, {"id": "1", "note": ""}),
    ],
)
def test_values_of_each_format_come_back(
    broker: OttlaBroker,
    registry: ServiceProcess,
    unique_name: str,
    tmp_path: Path,
    form: str,
    suffix: str,
    schema: str,
    given: object,
    read: object,
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    file = tmp_path / f"order.{suffix}"
    file.write_text(schema)
    line = json.dumps(given).encode() + b"\n"
    # the file registers the schema; then the subject's newest version is taken, for lines of both kinds
    first = produce(broker, registry, topic, "--value-format", form, "--schema", str(file), input=line)
    assert first.code == 0, first.err
    second = produce(broker, registry, topic, "--value-format", form, input=line)
    assert second.code == 0, second.err
    records = json.dumps({"value": given}).encode() + b'\n{"value": null}\n'
    third = produce(broker, registry, topic, "--value-format", form, "--json", input=records)
    assert third.code == 0, third.err
    assert consume(broker, registry, topic, "--value-format", form) == [read, read, read, None]
    assert consume(broker, registry, topic, "--value-format", "auto") == [read, read, read, None]
    raw = read_all(broker.bootstrap, topic, 4)[0].value()
    assert raw is not None and raw[0] == 0
    # by the schema's id alone
    schema_id = str(int.from_bytes(raw[1:5], "big"))
    fourth = produce(broker, registry, topic, "--schema-id", schema_id, input=line)
    assert fourth.code == 0, fourth.err
    assert read_all(broker.bootstrap, topic, 5)[4].value() == raw


@pytest.mark.long
def test_confluents_avro_serializers_and_ottla_read_each_other(
    broker: OttlaBroker, registry: ServiceProcess, unique_name: str
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    client = SchemaRegistryClient({"url": registry.url})
    context = SerializationContext(topic, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, AvroSerializer(client, AVRO)({"id": 7, "note": None}, context))
    assert producer.flush(20) == 0
    line = b'{"id": 8, "note": {"string": "y"}}\n'
    assert produce(broker, registry, topic, "--value-format", "avro", input=line).code == 0
    assert consume(broker, registry, topic, "--value-format", "avro") == [
        {"id": 7, "note": None},
        {"id": 8, "note": {"string": "y"}},
    ]
    read = AvroDeserializer(client)(read_all(broker.bootstrap, topic, 2)[1].value(), context)
    assert read == {"id": 8, "note": "y"}


def test_values_that_do_not_fit_are_named_by_their_line(
    broker: OttlaBroker, registry: ServiceProcess, unique_name: str, tmp_path: Path
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    missing = produce(broker, registry, topic, "--value-format", "avro", input=b"{}\n")
    assert missing.code == 1
    assert f"the registry refuses subject {topic}-value" in missing.err
    (tmp_path / "order.avsc").write_text(AVRO)
    words = ("--value-format", "avro", "--schema", str(tmp_path / "order.avsc"))
    done = produce(broker, registry, topic, *words, input=b'{"id": 1}\n{"id": 2}\n{"id": "x"}\n{"id": 4}\n')
    assert done.code == 1
    assert done.err.startswith("ottla produce: line 3: the value: the value does not fit its Avro schema")
    assert done.err.endswith("; 2 records were written\n")
    assert len(consume(broker, registry, topic, "--value-format", "avro")) == 2
    # a record without a schema stops a reader that asked for one, after those before it
    assert run(broker.bootstrap, "produce", topic, input=b"plain\n").code == 0
    stopped = run(
        broker.bootstrap, "consume", topic, "--registry", registry.url, "--value-format", "avro", "--exit"
    )
    assert (stopped.code, len(stopped.lines)) == (1, 2)
    assert f"{topic}-0 offset 2: the value can't be decoded as avro" in stopped.err
    assert consume(broker, registry, topic, "--value-format", "auto")[2] == "plain"


def test_nothing_is_written_in_the_clear_where_a_rule_encrypts(
    broker: OttlaBroker, registry: ServiceProcess, unique_name: str
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    client = SchemaRegistryClient({"url": registry.url})
    for form, schema_type, schema in (
        ("json_schema", "JSON", JSON_SCHEMA),
        ("protobuf", "PROTOBUF", PROTOBUF),
    ):
        subject = f"{topic}-{form}"
        schema_id = client.register_schema(subject, Schema(schema, schema_type, [], None, encryption(topic)))
        refused = produce(broker, registry, topic, "--schema-id", str(schema_id), input=b'{"id": 1}\n')
        assert refused.code == 1 and "encrypt (ENCRYPT)" in refused.err, refused.err
    framed = b"\0" + schema_id.to_bytes(4, "big") + b"\0\x08\x01"
    assert run(broker.bootstrap, "produce", topic, input=framed).code == 0
    words = ("--registry", registry.url, "--exit", "--value-format")
    stopped = run(broker.bootstrap, "consume", topic, *words, "protobuf")
    assert stopped.code == 1 and "encrypt (ENCRYPT)" in stopped.err
    assert run(broker.bootstrap, "consume", topic, *words, "bytes").lines == [framed]


@pytest.mark.long
def test_keys_have_formats_too(
    broker: OttlaBroker, registry: ServiceProcess, unique_name: str, tmp_path: Path
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    (tmp_path / "key.avsc").write_text('"long"')
    words = (
        "-K",
        "|",
        "--key-format",
        "avro",
        "--key-schema",
        str(tmp_path / "key.avsc"),
        "--value-format",
        "json",
    )
    done = produce(broker, registry, topic, *words, input=b'12|{"a": 1}\n')
    assert done.code == 0, done.err
    out = consumed(
        broker.bootstrap, topic, "--registry", registry.url, "--key-format", "avro", "-f", "%k=%v\\n"
    )
    assert out == b'12={"a": 1}\n'
