"""Fields that confluent-kafka encrypts by rules of the registry, with keys that the registry keeps."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import RuleSet, Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.serde import RuleError
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from support.clients.confluent import create_topic, produce, read_all
from support.clients.encrypting import LATEST, Party, encryption, tagged_message
from support.clients.record_commands import consumed, run
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

SECRET = "only producers and some consumers"
REGISTRY_SECRET = "the registry's own"
DAY_MS = 86_400_000
KEKS = "/dek-registry/v1/keks"
PII = {"confluent:tags": ["PII"]}
HOME = {
    "type": "record",
    "name": "Home",
    "fields": [{"name": "street", "type": "string", **PII}, {"name": "floor", "type": "int"}],
}
PERSON = {
    "type": "record",
    "name": "Person",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "ssn", "type": "string", **PII},
        {"name": "photo", "type": "bytes", **PII},
        {"name": "nick", "type": ["null", "string"], "default": None, **PII},
        {"name": "mails", "type": {"type": "array", "items": "string"}, **PII},
        {"name": "notes", "type": {"type": "map", "values": "string"}, **PII},
        {"name": "homes", "type": {"type": "array", "items": HOME}},
        {"name": "open", "type": "string"},
    ],
}
LETTERS = string.ascii_letters + 'äß€😀\n"\\\0 '


@pytest.fixture(scope="module")
def keeper(broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A registry of the module's own, with a secret for shared keys."""
    own = {
        "kafkastore.topic": "_keeper",
        "schema.registry.group.id": "keeper",
        "dek.registry.topic": "_keeper_keys",
        "ottla.local.kms.secret": REGISTRY_SECRET,
    }
    directory = tmp_path_factory.mktemp("keeper")
    with ServiceProcess.start("registry", broker.bootstrap, directory, own) as running:
        yield running


@pytest.fixture
def connect(keeper: ServiceProcess) -> Iterator[Callable[[], SchemaRegistryClient]]:
    opened: list[SchemaRegistryClient] = []

    def one() -> SchemaRegistryClient:
        opened.append(SchemaRegistryClient({"url": keeper.url}))
        return opened[-1]

    yield one
    for client in opened:
        client.__exit__()


@pytest.fixture
def value(unique_name: str) -> SerializationContext:
    return SerializationContext(unique_name, MessageField.VALUE)


Connect = Callable[[], SchemaRegistryClient]


def register(
    client: SchemaRegistryClient,
    value: SerializationContext,
    schema: str,
    rules: RuleSet,
    schema_type: str = "AVRO",
) -> None:
    client.register_schema(f"{value.topic}-value", Schema(schema, schema_type, [], None, rules))


def writer(client: SchemaRegistryClient, party: Party, schema: Any = PERSON) -> AvroSerializer:
    return AvroSerializer(client, json.dumps(schema), conf=dict(LATEST), **party.arguments)


def reader(client: SchemaRegistryClient, party: Party) -> AvroDeserializer:
    return AvroDeserializer(client, **party.arguments)


def secret_text(drawn: random.Random) -> str:
    return "".join(drawn.choices(LETTERS, k=drawn.choice((0, 1, 12, 300)))) + "~geheim~"


def person(drawn: random.Random, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "ssn": drawn.choice((secret_text(drawn), "", "😀" * 20)),
        "photo": drawn.choice((drawn.randbytes(200) + b"~geheim~", b"", b"\0")),
        "nick": drawn.choice((None, secret_text(drawn))),
        "mails": [secret_text(drawn) for _ in range(drawn.randrange(4))],
        "notes": {f"k{at}": secret_text(drawn) for at in range(drawn.randrange(3))},
        "homes": [{"street": secret_text(drawn), "floor": at} for at in range(drawn.randrange(3))],
        "open": f"seen-{number}",
    }


def copied(value: Any) -> Any:
    """The serializer changes the records that it is given."""
    match value:
        case dict():
            return {name: copied(one) for name, one in value.items()}
        case list():
            return [copied(one) for one in value]
    return value


def files_of(broker: OttlaBroker) -> bytes:
    return b"".join(path.read_bytes() for path in broker.data_dir.rglob("*") if path.is_file())


def as_json(record: Any) -> dict[str, Any]:
    """A person in Avro's JSON encoding."""
    nick = record["nick"]
    named = None if nick is None else {"string": nick}
    return {**record, "photo": record["photo"].decode("latin-1"), "nick": named}


@pytest.mark.parametrize("algorithm", ["AES128_GCM", "AES256_GCM", "AES256_SIV"])
def test_marked_fields_reach_nobody_without_the_secret(
    broker: OttlaBroker,
    keeper: ServiceProcess,
    connect: Connect,
    value: SerializationContext,
    algorithm: str,
) -> None:
    drawn = random.Random(value.topic)
    records = [person(drawn, number) for number in range(25)]
    register(connect(), value, json.dumps(PERSON), encryption(value.topic, dek_algorithm=algorithm))
    create_topic(broker.bootstrap, value.topic)
    write = writer(connect(), Party(SECRET))
    produce(broker.bootstrap, value.topic, ({"value": write(copied(one), value)} for one in records))
    fetched = [message.value() for message in read_all(broker.bootstrap, value.topic, len(records))]
    # the broker has ciphertext alone, on its disk and in its answers
    on_disk = files_of(broker)
    assert all(f"seen-{number}".encode() in on_disk for number in range(25))
    for told in (on_disk, *fetched):
        assert b"~geheim~" not in told and "😀😀".encode() not in told and b"fmdlaGVpbX4" not in told
    read = reader(connect(), Party(SECRET))
    assert [read(one, value) for one in fetched] == records
    if algorithm == "AES128_GCM":
        told = consumed(broker.bootstrap, value.topic, *words(keeper, SECRET), "--json")
        assert [json.loads(line)["value"] for line in told.splitlines()] == [as_json(one) for one in records]
    for party in (Party(), Party("another secret")):
        refused = reader(connect(), party)
        for one in fetched[:3]:
            with pytest.raises(SerializationError):
                refused(one, value)


@pytest.mark.parametrize("of_payload", [False, True])
def test_the_client_reads_the_fields_that_ottla_encrypts(
    broker: OttlaBroker,
    keeper: ServiceProcess,
    connect: Connect,
    value: SerializationContext,
    of_payload: bool,
) -> None:
    drawn = random.Random(value.topic)
    records = [person(drawn, number) for number in range(10)]
    rule = encryption(value.topic, of_payload=of_payload, dek_expiry_days="1")
    register(connect(), value, json.dumps(PERSON), rule)
    create_topic(broker.bootstrap, value.topic)
    lines = [json.dumps(as_json(one)) for one in records]
    # a missing field is written with its default
    lines.append(json.dumps({name: part for name, part in as_json(records[0]).items() if name != "nick"}))
    given = "\n".join(lines).encode() + b"\n"
    written = run(broker.bootstrap, "produce", value.topic, *words(keeper, SECRET), input=given)
    assert written.code == 0, written.err
    fetched = [message.value() for message in read_all(broker.bootstrap, value.topic, len(lines))]
    assert all(b"~geheim~" not in one and (b"seen-" in one) is not of_payload for one in fetched)
    read = reader(connect(), Party(SECRET))
    assert [read(one, value) for one in fetched] == [*records, {**records[0], "nick": None}]
    told = consumed(broker.bootstrap, value.topic, *words(keeper, SECRET), "--json")
    assert [json.loads(line)["value"] for line in told.splitlines()][:-1] == [as_json(one) for one in records]
    if not of_payload:
        stopped = run(broker.bootstrap, "consume", value.topic, *words(keeper, "another"), "--exit")
        assert (stopped.code, stopped.lines) == (1, []) and "offset 0" in stopped.err
        refused = run(broker.bootstrap, "produce", value.topic, *words(keeper), input=given)
        assert refused.code == 1 and "LOCAL_SECRET" in refused.err, refused.err


def words(keeper: ServiceProcess, secret: str | None = None) -> list[str]:
    """The options of `ottla produce` and `ottla consume` for values with a schema of the registry."""
    given = ["--registry", keeper.url, "--value-format", "avro"]
    if secret is None:
        return given
    return [*given, "--registry-set", f"rule.executors._default_.param.secret={secret}"]


def test_equal_values_have_equal_ciphertexts_with_siv_alone(
    connect: Connect, value: SerializationContext
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string", **PII}]}
    register(connect(), value, json.dumps(schema), encryption(value.topic, dek_algorithm="AES256_SIV"))
    write = writer(connect(), Party(SECRET), schema)
    assert write({"a": "x"}, value) == write({"a": "x"}, value) != write({"a": "y"}, value)


def test_json_schema(connect: Connect, value: SerializationContext) -> None:
    schema = {
        "title": "Person",
        "type": "object",
        "properties": {"name": {"type": "string"}, "ssn": {"type": "string", **PII}},
    }
    register(connect(), value, json.dumps(schema), encryption(value.topic), "JSON")
    write = JSONSerializer(json.dumps(schema), connect(), conf=dict(LATEST), **Party(SECRET).arguments)
    payload = write({"name": "Ada", "ssn": "~geheim~"}, value)
    assert payload is not None and b"Ada" in payload and b"~geheim~" not in payload
    read = JSONDeserializer(None, schema_registry_client=connect(), **Party(SECRET).arguments)
    assert read(payload, value) == {"name": "Ada", "ssn": "~geheim~"}


def test_protobuf(connect: Connect, value: SerializationContext) -> None:
    package = f"crypt_{value.topic.replace('-', '_')}"
    made = tagged_message(package)
    source = f"""
        syntax = "proto3";
        package {package};
        import "confluent/meta.proto";
        message Person {{ string name = 1; string ssn = 2 [(confluent.field_meta) = {{ tags: "PII" }}]; }}
    """
    register(connect(), value, source, encryption(value.topic), "PROTOBUF")
    write = ProtobufSerializer(made, connect(), conf=dict(LATEST), **Party(SECRET).arguments)
    payload = write(made(name="Ada", ssn="~geheim~"), value)
    assert payload is not None and b"Ada" in payload and b"~geheim~" not in payload
    read = ProtobufDeserializer(made, schema_registry_client=connect(), **Party(SECRET).arguments)
    assert read(payload, value) == made(name="Ada", ssn="~geheim~")


def test_a_whole_payload(connect: Connect, value: SerializationContext) -> None:
    register(connect(), value, json.dumps(PERSON), encryption(value.topic, of_payload=True))
    record = person(random.Random(value.topic), 7)
    payload = writer(connect(), Party(SECRET))(copied(record), value)
    assert payload is not None and b"seen-7" not in payload
    assert reader(connect(), Party(SECRET))(payload, value) == record
    with pytest.raises((SerializationError, RuleError)):
        reader(connect(), Party())(payload, value)


def test_keys_that_expire_are_replaced_and_old_records_stay_readable(
    connect: Connect, keeper: ServiceProcess, value: SerializationContext
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string", **PII}]}
    register(connect(), value, json.dumps(schema), encryption(value.topic, dek_expiry_days="1"))
    party = Party(SECRET)
    write = writer(connect(), party, schema)
    payloads = [write({"a": "0"}, value), write({"a": "1"}, value)]
    # By this clock every key is two days old at once, so each record gets a new one.
    party.clock.ahead_ms = 2 * DAY_MS
    payloads += [write({"a": str(number)}, value) for number in range(2, 5)]
    versions = httpx.get(f"{keeper.url}{KEKS}/{value.topic}/deks/{value.topic}-value/versions").json()
    assert versions == [1, 2, 3, 4]
    read = reader(connect(), Party(SECRET))
    assert [read(one, value) for one in payloads] == [{"a": str(number)} for number in range(5)]


def test_a_shared_key_needs_no_secret_at_clients(
    connect: Connect, keeper: ServiceProcess, value: SerializationContext
) -> None:
    kek = {"name": value.topic, "kmsType": "local-kms", "kmsKeyId": "any", "shared": True}
    assert httpx.post(f"{keeper.url}{KEKS}", json=kek).status_code == 200
    register(connect(), value, json.dumps(PERSON), encryption(value.topic))
    record = person(random.Random(value.topic), 1)
    payload = writer(connect(), Party())(copied(record), value)
    assert payload is not None and b"~geheim~" not in payload
    assert reader(connect(), Party())(payload, value) == record
    told = httpx.get(f"{keeper.url}{KEKS}/{value.topic}/deks/{value.topic}-value").json()
    assert told["keyMaterial"] and told["encryptedKeyMaterial"] != told["keyMaterial"]
    # ... and a client that has the registry's secret unwraps the same key by itself
    httpx.put(f"{keeper.url}{KEKS}/{value.topic}", json={"shared": False}).raise_for_status()
    assert reader(connect(), Party(REGISTRY_SECRET))(payload, value) == record
    with pytest.raises(SerializationError):
        reader(connect(), Party())(payload, value)
