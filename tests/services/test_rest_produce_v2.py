"""Records posted through `ottla rest`, read by Kafka's clients: v2, and the common part of both APIs."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Message
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.json_format import MessageToDict

from ottla.schemas.formats import format_of
from ottla.schemas.model import SchemaType
from support.clients.confluent import create_topic
from support.clients.whole_topics import read_everything
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

JSON = "application/vnd.kafka.json.v2+json"
BINARY = "application/vnd.kafka.binary.v2+json"

JAVA_MURMUR2 = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}
"""Keys and their hashes in Java's client."""


def post(rest: ServiceProcess, path: str, body: Any, content_type: str) -> Any:
    answer = httpx.post(f"{rest.url}{path}", json=body, headers={"content-type": content_type}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def told_at(answer: Any) -> list[tuple[int, int]]:
    return [(told["partition"], told["offset"]) for told in answer["offsets"]]


def test_records_are_where_the_answer_says(
    broker: OttlaBroker, rest: ServiceProcess, unique_name: str
) -> None:
    create_topic(broker.bootstrap, unique_name, 3)
    records = [{"key": {"k": place}, "value": [place, "é"], "partition": place % 3} for place in range(500)]
    records.append({"key": None, "value": None, "partition": 1})
    answer = post(rest, f"/topics/{unique_name}", {"records": records}, JSON)
    read = {(m.partition(), m.offset()): m for m in read_everything(broker.bootstrap, unique_name)}
    assert len(read) == len(records)
    for record, place in zip(records, told_at(answer), strict=True):
        message: Message = read[place]
        for said, found in ((record["key"], message.key()), (record["value"], message.value())):
            assert (None if found is None else json.loads(found)) == said


@pytest.mark.parametrize("api", ["v2", "v3"])
def test_keys_go_where_java_puts_them(
    broker: OttlaBroker, rest: ServiceProcess, unique_name: str, api: str
) -> None:
    create_topic(broker.bootstrap, unique_name, 7)
    keys = {name: base64.b64encode(name.encode()).decode() for name in JAVA_MURMUR2}
    if api == "v2":
        records = [{"key": key, "value": "aGk="} for key in keys.values()]
        answer = post(rest, f"/topics/{unique_name}", {"records": records}, BINARY)
        partitions = [partition for partition, _ in told_at(answer)]
    else:
        cluster = httpx.get(f"{rest.url}/v3/clusters").json()["data"][0]["cluster_id"]
        url = f"{rest.url}/v3/clusters/{cluster}/topics/{unique_name}/records"
        body = "".join(json.dumps({"key": {"type": "BINARY", "data": key}}) for key in keys.values())
        answers = httpx.post(
            url, content=body, headers={"content-type": "application/json"}
        ).text.splitlines()
        partitions = [json.loads(line)["partition_id"] for line in answers]
    assert partitions == [(hashed & 0x7FFFFFFF) % 7 for hashed in JAVA_MURMUR2.values()]


def test_a_partition_may_be_in_the_path(broker: OttlaBroker, rest: ServiceProcess, unique_name: str) -> None:
    create_topic(broker.bootstrap, unique_name, 3)
    answer = post(rest, f"/topics/{unique_name}/partitions/2", {"records": [{"value": "aGk="}]}, BINARY)
    assert told_at(answer) == [(2, 0)]
    refused = httpx.post(
        f"{rest.url}/topics/{unique_name}/partitions/3",
        json={"records": [{"value": "aGk="}]},
        headers={"content-type": BINARY},
    )
    assert (refused.status_code, refused.json()["error_code"]) == (404, 40402)


AVRO_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "User",
        "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": ["null", "int"]}],
    }
)
JSON_SCHEMA = json.dumps({"title": "User", "type": "object", "properties": {"age": {"type": "integer"}}})
PROTOBUF_SCHEMA = 'syntax = "proto3"; message User { string name = 1; int32 age = 2; } message Other { }'


@pytest.mark.parametrize(
    ("form", "schema", "value", "expected"),
    [
        ("avro", AVRO_SCHEMA, {"name": "é", "age": {"int": 5}}, {"name": "é", "age": 5}),
        ("jsonschema", JSON_SCHEMA, {"age": 5}, {"age": 5}),
        ("protobuf", PROTOBUF_SCHEMA, {"name": "é", "age": 5}, {"name": "é", "age": 5}),
    ],
)
def test_records_with_schemas_are_read_by_confluents_deserializers(
    broker: OttlaBroker,
    registry: ServiceProcess,
    rest: ServiceProcess,
    unique_name: str,
    form: str,
    schema: str,
    value: Any,
    expected: Any,
) -> None:
    create_topic(broker.bootstrap, unique_name)
    content_type = f"application/vnd.kafka.{form}.v2+json"
    first = post(
        rest, f"/topics/{unique_name}", {"value_schema": schema, "records": [{"value": value}]}, content_type
    )
    schema_id = first["value_schema_id"]
    post(
        rest,
        f"/topics/{unique_name}",
        {"value_schema_id": schema_id, "records": [{"value": value}, {"value": None}]},
        content_type,
    )
    client = SchemaRegistryClient({"url": registry.url})
    assert client.get_latest_version(f"{unique_name}-value").schema_id == schema_id
    deserialize: Any
    match form:
        case "avro":
            deserialize = AvroDeserializer(client)
        case "jsonschema":
            deserialize = JSONDeserializer(None, schema_registry_client=client)
        case _:
            message_class = format_of(SchemaType.PROTOBUF).parse(schema, {}).message_class((0,))  # type: ignore[attr-defined]
            read_message = ProtobufDeserializer(message_class, {"use.deprecated.format": False}, client)

            def deserialize(data: bytes, context: SerializationContext) -> Any:
                return MessageToDict(read_message(data, context))

    context = SerializationContext(unique_name, MessageField.VALUE)
    values = [message.value() for message in read_everything(broker.bootstrap, unique_name)]
    assert [deserialize(data, context) for data in values[:2]] == [expected, expected]
    assert values[2] is None


def test_a_value_that_does_not_fit_its_schema_is_refused(
    broker: OttlaBroker, registry: ServiceProcess, rest: ServiceProcess, unique_name: str
) -> None:
    create_topic(broker.bootstrap, unique_name)
    answer = httpx.post(
        f"{rest.url}/topics/{unique_name}",
        json={"value_schema": AVRO_SCHEMA, "records": [{"value": {"name": 5}}]},
        headers={"content-type": "application/vnd.kafka.avro.v2+json"},
    )
    assert (answer.status_code, answer.json()["error_code"]) == (422, 42203)
    assert read_everything(broker.bootstrap, unique_name) == []


def test_a_topic_is_made_on_demand_only_where_the_cluster_does_that(
    broker: OttlaBroker, rest: ServiceProcess, unique_name: str, tmp_path: Path
) -> None:
    body = {"records": [{"value": 1}]}
    assert told_at(post(rest, f"/topics/{unique_name}", body, JSON))[0][1] == 0
    strict = {"auto.create.topics.enable": "false"}
    with (
        OttlaBroker.start(tmp_path / "strict", settings=strict) as other,
        ServiceProcess.start("rest", other.bootstrap, tmp_path / "log") as proxy,
    ):
        answer = httpx.post(f"{proxy.url}/topics/none", json=body, headers={"content-type": JSON}, timeout=60)
        assert (answer.status_code, answer.json()["error_code"]) == (404, 40401)


def test_a_record_that_the_topic_refuses_fails_in_its_place(
    broker: OttlaBroker, rest: ServiceProcess, unique_name: str
) -> None:
    create_topic(broker.bootstrap, unique_name, 2, {"max.message.bytes": "1000"})
    records = [{"value": "x", "partition": 0}, {"value": "x" * 2_000, "partition": 1}]
    good, bad = post(rest, f"/topics/{unique_name}", {"records": records}, JSON)["offsets"]
    assert (good["partition"], good["offset"], good["error_code"]) == (0, 0, None)
    assert (bad["partition"], bad["offset"], bad["error_code"]) == (None, None, 50002)


def test_while_no_broker_answers_records_fail_and_later_ones_do_not(tmp_path: Path) -> None:
    timeout = {"api.v3.produce.response.timeout.ms": "1000"}
    headers = {"content-type": JSON}
    body = {"records": [{"value": 1, "partition": 0}]}
    with (
        OttlaBroker.start(tmp_path / "broker") as own,
        ServiceProcess.start("rest", own.bootstrap, tmp_path / "log", timeout) as proxy,
    ):
        assert told_at(post(proxy, "/topics/t", body, JSON)) == [(0, 0)]
        own.kill()
        refused = httpx.post(f"{proxy.url}/topics/t", json=body, headers=headers, timeout=60)
        (told,) = refused.json()["offsets"]
        assert (refused.status_code, told["offset"], told["error_code"]) == (200, None, 50003)
        own.restart()
        # librdkafka may take its time to connect again
        for _ in range(60):
            (told,) = post(proxy, "/topics/t", body, JSON)["offsets"]
            if told["error_code"] is None:
                break
        assert (told["partition"], told["offset"]) == (0, 1)
