"""confluent-kafka's serializers and deserializers on the registry: all formats, all ways to name subjects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from support.clients.confluent import create_topic, produce, read_all
from support.schemas.protobuf_messages import message_class
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}],
}
WITH_NOTE = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": "none"}]}
BASKET = {
    "type": "record",
    "name": "Basket",
    "fields": [{"name": "orders", "type": {"type": "array", "items": "shop.Order"}}],
}
PERSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "https://shop.example/person.json",
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}
TEAM = {
    "$schema": PERSON["$schema"],
    "title": "Team",
    "type": "object",
    "properties": {"lead": {"$ref": PERSON["$id"]}},
}
READING = """
syntax = "proto3";
package lab;
import "google/protobuf/timestamp.proto";
message Room { string name = 1; message Reading { double value = 1; google.protobuf.Timestamp at = 2; } }
"""
HOUSE = """
syntax = "proto3";
package lab;
import "IMPORTED";
message House { repeated Room rooms = 1; }
"""
RULES = """
syntax = "proto2";
package validate;
import "google/protobuf/descriptor.proto";
message Rules { optional int32 least = 1; repeated string words = 2; }
extend google.protobuf.FieldOptions { optional Rules rules = 1071; }
"""
ITEM = """
syntax = "proto3";
package lab;
import "validate/validate.proto";
message Item { int32 count = 1 [(validate.rules) = { least: 3 words: ["a"] }]; }
"""
TASK_NAMESPACE = "com.corp.concepts.taskmanager.models"
TASK_STATE = {
    "type": "enum",
    "name": "TaskState",
    "namespace": TASK_NAMESPACE,
    "symbols": ["ASSIGNED", "STARTED", "COMPLETED", "PENDING"],
}
STRATEGIES = {
    "{topic}-value": topic_subject_name_strategy,
    "{record}": record_subject_name_strategy,
    "{topic}-{record}": topic_record_subject_name_strategy,
}


@pytest.fixture
def client(registry: ServiceProcess) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as opened:
        yield opened


@pytest.fixture
def other(registry: ServiceProcess) -> Iterator[SchemaRegistryClient]:
    """A client that has seen no schema yet."""
    with SchemaRegistryClient({"url": registry.url}) as opened:
        yield opened


@pytest.fixture
def value(unique_name: str) -> SerializationContext:
    return SerializationContext(unique_name, MessageField.VALUE)


@pytest.mark.parametrize("subject", STRATEGIES)
def test_avro(
    client: SchemaRegistryClient, other: SchemaRegistryClient, value: SerializationContext, subject: str
) -> None:
    text = json.dumps({**ORDER, "namespace": value.topic.replace("-", "_")})
    serializer = AvroSerializer(client, text, conf={"subject.name.strategy": STRATEGIES[subject]})
    payload = serializer({"id": 7, "item": "tea"}, value)
    name = subject.format(topic=value.topic, record=f"{value.topic.replace('-', '_')}.Order")
    registered = other.get_latest_version(name)
    assert payload is not None and payload[:5] == b"\0" + registered.schema_id.to_bytes(4, "big")
    assert AvroDeserializer(other)(payload, value) == {"id": 7, "item": "tea"}


@pytest.mark.parametrize("subject", STRATEGIES)
def test_json_schema(
    client: SchemaRegistryClient, other: SchemaRegistryClient, value: SerializationContext, subject: str
) -> None:
    text = json.dumps({**PERSON, "title": f"Person of {value.topic}"})
    serializer = JSONSerializer(text, client, conf={"subject.name.strategy": STRATEGIES[subject]})
    payload = serializer({"name": "Ada", "age": 36}, value)
    registered = other.get_latest_version(
        subject.format(topic=value.topic, record=f"Person of {value.topic}")
    )
    assert registered.schema.schema_type == "JSON"
    assert JSONDeserializer(None, schema_registry_client=other)(payload, value) == {"name": "Ada", "age": 36}
    with pytest.raises(SerializationError):
        serializer({"age": 36}, value)


@pytest.mark.parametrize("subject", STRATEGIES)
def test_protobuf(
    client: SchemaRegistryClient,
    other: SchemaRegistryClient,
    value: SerializationContext,
    tmp_path: Path,
    subject: str,
) -> None:
    package = value.topic.replace("-", "_")
    source = READING.replace("package lab", f"package {package}")
    reading = message_class(tmp_path, {"room.proto": source}, f"{package}.Room.Reading")
    serializer = ProtobufSerializer(reading, client, conf={"subject.name.strategy": STRATEGIES[subject]})
    message = reading(value=21.5)
    message.at.seconds = 1_700_000_000
    payload = serializer(message, value)
    registered = other.get_latest_version(subject.format(topic=value.topic, record=f"{package}.Room.Reading"))
    assert registered.schema.schema_type == "PROTOBUF" and "message Room" in registered.schema.schema_str
    assert payload is not None and payload[5:8] == b"\x04\x00\x00"  # the message's path in its file: 0, 0
    found = ProtobufDeserializer(reading, schema_registry_client=other)(payload, value)
    assert (found.value, found.at.seconds) == (21.5, 1_700_000_000)


def test_references_of_avro(
    client: SchemaRegistryClient, other: SchemaRegistryClient, value: SerializationContext
) -> None:
    client.register_schema(f"{value.topic}-order", Schema(json.dumps(ORDER), "AVRO"))
    schema = Schema(json.dumps(BASKET), "AVRO", [SchemaReference("shop.Order", f"{value.topic}-order", 1)])
    payload = AvroSerializer(client, schema)({"orders": [{"id": 7, "item": "tea"}]}, value)
    assert AvroDeserializer(other)(payload, value) == {"orders": [{"id": 7, "item": "tea"}]}


def test_references_of_json_schema(
    client: SchemaRegistryClient, other: SchemaRegistryClient, value: SerializationContext
) -> None:
    client.register_schema(f"{value.topic}-person", Schema(json.dumps(PERSON), "JSON"))
    reference = SchemaReference(PERSON["$id"], f"{value.topic}-person", 1)
    schema = Schema(json.dumps(TEAM), "JSON", [reference])
    serializer = JSONSerializer(schema, client)
    payload = serializer({"lead": {"name": "Ada"}}, value)
    assert JSONDeserializer(None, schema_registry_client=other)(payload, value) == {"lead": {"name": "Ada"}}
    with pytest.raises(SerializationError):
        serializer({"lead": {"age": 3}}, value)


def test_references_of_protobuf_are_registered_by_the_serializer(
    client: SchemaRegistryClient, other: SchemaRegistryClient, value: SerializationContext, tmp_path: Path
) -> None:
    imported = f"{value.topic}.proto"
    sources = {imported: READING, "house.proto": HOUSE.replace("IMPORTED", imported)}
    house = message_class(tmp_path, sources, "lab.House")
    message = house()
    message.rooms.add(name="attic")
    payload = ProtobufSerializer(house, client)(message, value)
    found = other.get_latest_version(f"{value.topic}-value").schema.references
    assert [(one.name, one.subject, one.version) for one in found] == [(imported, imported, 1)]
    decoded = ProtobufDeserializer(house, schema_registry_client=other)(payload, value)
    assert [room.name for room in decoded.rooms] == ["attic"]


def test_protobuf_with_options_whose_file_is_not_registered(
    registry: ServiceProcess,
    client: SchemaRegistryClient,
    other: SchemaRegistryClient,
    value: SerializationContext,
    tmp_path: Path,
) -> None:
    """The program has the options' file compiled in; the text is registered without it."""
    item = message_class(tmp_path, {"validate/validate.proto": RULES, "item.proto": ITEM}, "lab.Item")
    subject = f"{value.topic}-value"
    schema_id = client.register_schema(subject, Schema(ITEM, "PROTOBUF"))
    with SchemaRegistryClient({"url": registry.url}) as third:  # a client keeps one format of a schema
        registered = third.get_latest_version(subject).schema
    assert '[(validate.rules) = {least: 3, words: ["a"]}]' in registered.schema_str
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    payload = ProtobufSerializer(item, client, conf=conf)(item(count=5), value)
    for reading in ({}, {"use.latest.version": True}):  # the latter looks up the descriptor that it was given
        read = ProtobufDeserializer(item, conf=reading, schema_registry_client=other)(payload, value)
        assert read.count == 5
    assert client.register_schema(subject, registered) == schema_id
    assert other.lookup_schema(subject, Schema(ITEM, "PROTOBUF")).version == 1
    assert other.test_compatibility(subject, Schema(ITEM.replace("least: 3", "least: 4"), "PROTOBUF"))
    missing = ITEM.replace("int32 count", "validate.Rules count")
    with pytest.raises(SchemaRegistryError) as refusal:
        client.register_schema(subject, Schema(missing, "PROTOBUF"))
    assert refusal.value.error_code == 42201 and "validate/validate.proto" in str(refusal.value)


def test_a_serializer_that_may_not_register_uses_a_known_schema(
    client: SchemaRegistryClient, other: SchemaRegistryClient, value: SerializationContext
) -> None:
    strict = AvroSerializer(other, json.dumps(ORDER), conf={"auto.register.schemas": False})
    with pytest.raises(SchemaRegistryError) as refusal:
        strict({"id": 7, "item": "tea"}, value)
    assert (refusal.value.http_status_code, refusal.value.error_code) == (404, 40401)
    schema_id = client.register_schema(f"{value.topic}-value", Schema(json.dumps(ORDER), "AVRO"))
    payload = strict({"id": 7, "item": "tea"}, value)
    assert payload is not None and payload[1:5] == schema_id.to_bytes(4, "big")


def test_a_serializer_that_uses_the_latest_version(
    client: SchemaRegistryClient, other: SchemaRegistryClient, value: SerializationContext
) -> None:
    client.register_schema(f"{value.topic}-value", Schema(json.dumps(ORDER), "AVRO"))
    latest = client.register_schema(f"{value.topic}-value", Schema(json.dumps(WITH_NOTE), "AVRO"))
    conf: dict[str, Any] = {"auto.register.schemas": False, "use.latest.version": True}
    payload = AvroSerializer(other, json.dumps(ORDER), conf=conf)({"id": 7, "item": "tea"}, value)
    assert payload is not None and payload[1:5] == latest.to_bytes(4, "big")
    assert AvroDeserializer(other)(payload, value) == {"id": 7, "item": "tea", "note": "none"}
    as_ordered = AvroDeserializer(other, json.dumps(ORDER))
    assert as_ordered(payload, value) == {"id": 7, "item": "tea"}


def test_a_serializer_is_refused_an_incompatible_schema(
    client: SchemaRegistryClient, other: SchemaRegistryClient, value: SerializationContext
) -> None:
    AvroSerializer(client, json.dumps(ORDER))({"id": 7, "item": "tea"}, value)
    with_count = {**ORDER, "fields": [*ORDER["fields"], {"name": "count", "type": "int"}]}
    with pytest.raises(SchemaRegistryError) as refusal:
        AvroSerializer(other, json.dumps(with_count))({"id": 7, "item": "tea", "count": 1}, value)
    assert refusal.value.http_status_code == 409


def test_the_task_of_the_seed_is_a_union_at_the_top(
    client: SchemaRegistryClient, other: SchemaRegistryClient, value: SerializationContext
) -> None:
    texts = ["id", "userid", "duedate", "title", "details"]
    fields = [*({"name": name, "type": "string"} for name in texts), {"name": "status", "type": "TaskState"}]
    task = {"type": "record", "name": "Task", "namespace": TASK_NAMESPACE, "fields": fields}
    serializer = AvroSerializer(client, json.dumps([TASK_STATE, task]))
    wanted = {**dict.fromkeys(texts, "x"), "status": "STARTED"}
    payload = serializer(wanted, value)
    assert AvroDeserializer(other)(payload, value) == wanted
    resolved = other.get_latest_version(f"{value.topic}-value", "resolved").schema.schema_str
    assert [one["name"] for one in json.loads(resolved)] == ["TaskState", "Task"]


def test_users_are_written_and_read_through_the_broker(
    broker: OttlaBroker, client: SchemaRegistryClient, other: SchemaRegistryClient, unique_name: str
) -> None:
    user = {
        "namespace": "example.avro",
        "type": "record",
        "name": "User",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "favorite_number", "type": ["int", "null"]},
            {"name": "favorite_color", "type": ["string", "null"]},
        ],
    }
    topic = create_topic(broker.bootstrap, unique_name)
    key, value = (SerializationContext(topic, field) for field in (MessageField.KEY, MessageField.VALUE))
    keys, values = AvroSerializer(client, '"string"'), AvroSerializer(client, json.dumps(user))
    users = [
        {"name": "Ada", "favorite_number": 7, "favorite_color": None},
        {"name": "Bob", "favorite_number": None, "favorite_color": "red"},
    ]
    records = [{"key": keys(each["name"], key), "value": values(each, value)} for each in users]
    produce(broker.bootstrap, topic, records)
    found = read_all(broker.bootstrap, topic, len(users))
    decode = AvroDeserializer(other)
    assert [decode(message.key(), key) for message in found] == ["Ada", "Bob"]
    assert [decode(message.value(), value) for message in found] == users
    assert sorted(other.get_subjects(topic)) == [f"{topic}-key", f"{topic}-value"]
