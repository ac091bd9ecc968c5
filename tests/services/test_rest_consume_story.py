"""A user of the REST proxy with curl: create an instance, subscribe, read, delete; in each format."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from support.clients.confluent import create_topic, produce
from support.rest.rest_instances import Instance
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

BIRD = """{"type": "record", "name": "Bird", "namespace": "zoo", "fields": [
    {"name": "species", "type": "string"}, {"name": "ring", "type": ["null", "int"], "default": null}]}"""


def test_binary_data(broker: OttlaBroker, rest: ServiceProcess) -> None:
    topic = create_topic(broker.bootstrap, "story-binary")
    produce(
        broker.bootstrap, topic, [{"key": b"k\xff", "value": b"\x00\x01"}, {"key": b"gone", "value": None}]
    )
    with Instance.make(rest.url, "story-binary-readers") as instance:
        instance.subscribe(topic)
        assert instance.get("subscription") == {"topics": [topic]}
        assert instance.read_records(2) == [
            {
                "topic": topic,
                "key": base64.b64encode(b"k\xff").decode(),
                "value": "AAE=",
                "partition": 0,
                "offset": 0,
            },
            {
                "topic": topic,
                "key": base64.b64encode(b"gone").decode(),
                "value": None,
                "partition": 0,
                "offset": 1,
            },
        ]
        assert instance.http.delete(instance.base).status_code == 204
        assert instance.ask_records().json()["error_code"] == 40403


def test_json_data_written_and_read_over_http(broker: OttlaBroker, rest: ServiceProcess) -> None:
    topic = create_topic(broker.bootstrap, "story-json")
    records = [{"key": {"n": n}, "value": {"text": "ü", "n": n}} for n in range(3)]
    written = httpx.post(
        f"{rest.url}/topics/{topic}",
        json={"records": records},
        headers={"content-type": "application/vnd.kafka.json.v2+json"},
    )
    assert written.status_code == 200, written.text
    with Instance.make(rest.url, "story-json-readers", "json") as instance:
        instance.subscribe(topic)
        found = instance.read_records(3)
        assert [{"key": each["key"], "value": each["value"]} for each in found] == records


def serialized(registry: ServiceProcess, topic: str, data_format: str) -> bytes:
    """A bird as confluent-kafka's serializers write it."""
    client = SchemaRegistryClient({"url": registry.url})
    bird: Any = {"species": "dipper", "ring": 7}
    context = SerializationContext(topic, MessageField.VALUE)
    match data_format:
        case "avro":
            written = AvroSerializer(client, BIRD)(bird, context)
        case "jsonschema":
            schema = '{"title": "Bird", "type": "object", "properties": {"ring": {"type": "integer"}}}'
            written = JSONSerializer(schema, client)(bird, context)
        case _:
            message = bird_message()(species="dipper", ring=7)
            written = ProtobufSerializer(type(message), client, {"use.deprecated.format": False})(
                message, context
            )
    assert written is not None
    return written


def bird_message() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="zoo/bird.proto", package="zoo", syntax="proto3")
    fields = descriptor_pb2.FieldDescriptorProto
    bird = file.message_type.add(name="Bird")
    for name, number, kind in (("species", 1, fields.TYPE_STRING), ("ring", 2, fields.TYPE_INT32)):
        bird.field.add(name=name, number=number, type=kind, label=fields.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("zoo.Bird"))


@pytest.mark.parametrize(
    ("data_format", "expected"),
    [
        ("avro", {"species": "dipper", "ring": {"int": 7}}),
        ("jsonschema", {"species": "dipper", "ring": 7}),
        ("protobuf", {"species": "dipper", "ring": 7}),
    ],
)
def test_data_with_schemas(
    broker: OttlaBroker, registry: ServiceProcess, rest: ServiceProcess, data_format: str, expected: Any
) -> None:
    topic = create_topic(broker.bootstrap, f"story-{data_format}")
    value = serialized(registry, topic, data_format)
    produce(broker.bootstrap, topic, [{"value": value}, {"value": None}, {"value": value}])
    with Instance.make(rest.url, f"story-{data_format}-readers", data_format) as instance:
        instance.subscribe(topic)
        assert instance.read_values(3) == [expected, None, expected]


def test_a_record_without_a_schema_is_named_and_readable_as_binary(
    broker: OttlaBroker, rest: ServiceProcess
) -> None:
    topic = create_topic(broker.bootstrap, "story-undecodable")
    produce(broker.bootstrap, topic, [{"value": b"not Avro"}])
    with Instance.make(rest.url, "story-undecodable-avro", "avro") as instance:
        instance.assign(topic, 0)
        for _ in range(2):
            refused = instance.ask_records()
            assert (refused.status_code, refused.json()["error_code"]) == (422, 42207)
            assert f"partition {topic}-0 at offset 0" in refused.json()["message"]
    with Instance.make(rest.url, "story-undecodable-binary") as instance:
        instance.assign(topic, 0)
        assert [base64.b64decode(each["value"]) for each in instance.read()] == [b"not Avro"]


def test_a_first_read_waits_for_its_partitions(broker: OttlaBroker, rest: ServiceProcess) -> None:
    topic = create_topic(broker.bootstrap, "story-first-read", partitions=3)
    produce(broker.bootstrap, topic, [{"value": b"%d" % n, "partition": n} for n in range(3)])
    with Instance.make(rest.url, "story-first-readers", fetch_min_bytes=2) as instance:
        instance.subscribe(topic)
        assert len(instance.read()) == 3  # more than two bytes, so one read waits for all


def test_a_pattern_reads_the_topics_that_match_as_a_whole(broker: OttlaBroker, rest: ServiceProcess) -> None:
    for name in ("zoo-birds", "zoo-fish", "azoo-fish", "zoo-fishes"):
        create_topic(broker.bootstrap, name)
        produce(broker.bootstrap, name, [{"value": name.encode()}])
    with Instance.make(rest.url, "story-pattern-readers") as instance:
        instance.post("subscription", {"topic_pattern": "zoo-(birds|fish)"})
        assert {each["topic"] for each in instance.read_records(2)} == {"zoo-birds", "zoo-fish"}
        assert instance.get("subscription") == {"topics": ["zoo-birds", "zoo-fish"]}
