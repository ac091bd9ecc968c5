"""Topics with schema validation, and confluent-kafka's serializers: a broker with a registry beside it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import ConfigResource
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_batch import Codec, NewRecord, encode_batch
from support.clients.confluent import TIMEOUT_S, admin_client, consumer, create_topic, produce, read_all
from support.clients.wire import BASE_TIMESTAMP_MS, WireClient
from support.schemas.protobuf_messages import message_class
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

VALUE = {"confluent.value.schema.validation": "true"}
KEY = {"confluent.key.schema.validation": "true"}
PACKAGE = "io.confluent.kafka.serializers.subject."
STRATEGIES = {
    "TopicNameStrategy": topic_subject_name_strategy,
    "RecordNameStrategy": record_subject_name_strategy,
    "TopicRecordNameStrategy": topic_record_subject_name_strategy,
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}],
}
PERSON = {"title": "Person", "type": "object", "properties": {"name": {"type": "string"}}}
ROOM = """
syntax = "proto3";
package lab;
message Room { message Reading { double value = 1; } }
"""


@pytest.fixture(scope="module")
def registry_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def validating(registry_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaBroker]:
    """A broker that asks the registry of the next fixture."""
    settings = {"confluent.schema.registry.url": f"http://127.0.0.1:{registry_port}"}
    directory = tmp_path_factory.mktemp("validating")
    with OttlaBroker.start(directory / "broker", settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def beside(
    validating: OttlaBroker, registry_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    directory = tmp_path_factory.mktemp("beside")
    with ServiceProcess.start("registry", validating.bootstrap, directory, port=registry_port) as running:
        yield running


@pytest.fixture
def client(beside: ServiceProcess) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": beside.url}) as opened:
        yield opened


def named_after(strategy: str) -> dict[str, str]:
    return {**VALUE, "confluent.value.subject.name.strategy": PACKAGE + strategy}


def end_offset(bootstrap: str, topic: str) -> int:
    with consumer(bootstrap, f"reader-of-{topic}") as reader:
        _, end = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
    return int(end)


def refused(bootstrap: str, topic: str, **record: Any) -> KafkaError:
    """The error of a record that is not taken."""
    with pytest.raises(KafkaException) as failure:
        produce(bootstrap, topic, [record])
    error = failure.value.args[0]
    assert isinstance(error, KafkaError)
    return error


def payload_of(
    kind: str, client: SchemaRegistryClient, topic: str, strategy: str, directory: Path
) -> bytes | None:
    """A value as confluent-kafka writes it; its schema is registered by the way."""
    conf = {"subject.name.strategy": STRATEGIES[strategy]}
    context = SerializationContext(topic, MessageField.VALUE)
    match kind:
        case "avro":
            serialize = AvroSerializer(client, json.dumps(ORDER), conf=conf)
            return serialize({"id": 7}, context)
        case "json":
            return JSONSerializer(json.dumps(PERSON), client, conf=conf)({"name": "Ada"}, context)
        case _:
            reading = message_class(directory, {"room.proto": ROOM}, "lab.Room.Reading")
            return ProtobufSerializer(reading, client, conf=conf)(reading(value=21.5), context)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_records_of_the_serializers_are_taken(
    validating: OttlaBroker,
    client: SchemaRegistryClient,
    unique_name: str,
    tmp_path: Path,
    kind: str,
    strategy: str,
) -> None:
    topic = create_topic(validating.bootstrap, unique_name, config=named_after(strategy))
    value = payload_of(kind, client, topic, strategy, tmp_path)
    produce(validating.bootstrap, topic, [{"value": value}, {"key": b"k", "value": None}])
    assert [each.value() for each in read_all(validating.bootstrap, topic, 2)] == [value, None]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_plain_bytes_are_refused_and_nothing_of_their_batch_is_kept(
    validating: OttlaBroker, client: SchemaRegistryClient, unique_name: str, tmp_path: Path, codec: str
) -> None:
    topic = create_topic(validating.bootstrap, unique_name, config=VALUE)
    good = payload_of("avro", client, topic, "TopicNameStrategy", tmp_path)
    values = [good, b"plain bytes", good]
    with pytest.raises(KafkaException) as failure:
        produce(validating.bootstrap, topic, [{"value": value} for value in values], compression_type=codec)
    assert failure.value.args[0].code() in (KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD)
    # librdkafka sends records apart after an answer that it tries again, as when the registry is slow: here
    # they stay one batch.
    apart = end_offset(validating.bootstrap, topic)
    assert apart < len(values)
    together = encode_batch(
        [NewRecord(None, value, BASE_TIMESTAMP_MS) for value in values], codec=Codec[codec.upper()]
    )
    with WireClient.connect(validating.bootstrap) as wire:
        deadline = time.monotonic() + TIMEOUT_S
        code = ErrorCode.REQUEST_TIMED_OUT
        while code == ErrorCode.REQUEST_TIMED_OUT and time.monotonic() < deadline:
            code = wire.produce(topic, 0, together).error_code
    assert code == ErrorCode.INVALID_RECORD
    assert end_offset(validating.bootstrap, topic) == apart


def test_a_schema_of_another_subject_is_refused(
    validating: OttlaBroker, client: SchemaRegistryClient, unique_name: str, tmp_path: Path
) -> None:
    topic = create_topic(validating.bootstrap, unique_name, config=VALUE)
    other = payload_of("json", client, f"{topic}-other", "TopicNameStrategy", tmp_path)
    assert refused(validating.bootstrap, topic, value=other).code() == KafkaError.INVALID_RECORD
    assert (
        refused(validating.bootstrap, topic, value=b"\0\x7f\xff\xff\xffdata").code()
        == KafkaError.INVALID_RECORD
    )


def test_a_key_of_its_own_subject(
    validating: OttlaBroker, client: SchemaRegistryClient, unique_name: str
) -> None:
    topic = create_topic(validating.bootstrap, unique_name, config=KEY)
    serialize = AvroSerializer(client, '"string"')
    key = serialize("k", SerializationContext(topic, MessageField.KEY))
    produce(validating.bootstrap, topic, [{"key": key, "value": b"plain bytes"}, {"value": b"no key"}])
    assert refused(validating.bootstrap, topic, key=b"k", value=b"v").code() == KafkaError.INVALID_RECORD


def test_records_in_transactions_are_validated_too(
    validating: OttlaBroker, client: SchemaRegistryClient, unique_name: str, tmp_path: Path
) -> None:
    topic = create_topic(validating.bootstrap, unique_name, config=VALUE)
    good = payload_of("avro", client, topic, "TopicNameStrategy", tmp_path)
    producer = Producer({"bootstrap.servers": validating.bootstrap, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, value=good)
    producer.commit_transaction(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, value=b"plain bytes")
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT_S)
    producer.abort_transaction(TIMEOUT_S)
    found = read_all(validating.bootstrap, topic, 1)
    assert [each.value() for each in found] == [good]
    assert end_offset(validating.bootstrap, topic) == 3, "the record, a commit and an abort"


def test_an_admin_client_sees_the_settings_of_topics_that_ask(
    validating: OttlaBroker, client: SchemaRegistryClient, unique_name: str
) -> None:
    asking = create_topic(validating.bootstrap, unique_name, config=named_after("RecordNameStrategy"))
    plain = create_topic(validating.bootstrap, f"{unique_name}-plain")

    def shown(topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = admin_client(validating.bootstrap).describe_configs([resource])[resource].result(TIMEOUT_S)
        return {name: entry.value for name, entry in found.items() if name.startswith("confluent.")}

    assert shown(asking) == named_after("RecordNameStrategy")
    assert shown(plain) == {}


def test_a_registry_that_was_killed_holds_up_batches_until_it_is_back(
    validating: OttlaBroker,
    beside: ServiceProcess,
    client: SchemaRegistryClient,
    unique_name: str,
    tmp_path: Path,
) -> None:
    topic = create_topic(validating.bootstrap, unique_name, config=VALUE)
    value = payload_of("avro", client, topic, "TopicNameStrategy", tmp_path)
    beside.kill()
    try:
        with pytest.raises(KafkaException) as failure:
            produce(validating.bootstrap, topic, [{"value": value}], message_timeout_ms=1500)
        assert failure.value.args[0].code() == KafkaError._MSG_TIMED_OUT, "tried again until its time is over"
        assert end_offset(validating.bootstrap, topic) == 0
    finally:
        beside.server.start()
    produce(validating.bootstrap, topic, [{"value": value}])
    assert [each.value() for each in read_all(validating.bootstrap, topic, 1)] == [value]
