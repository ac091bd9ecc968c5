"""Topics whose records must name registered schemas: a broker beside a registry that the test plays."""

from __future__ import annotations

import asyncio
import json
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.controller.topic_creation import create_topics
from ottla.broker.replication import schema_lookup, schema_validation
from ottla.broker.replication.schema_lookup import (
    KnownSchema,
    RegistryUnavailable,
    SchemaLookup,
    fetch_schema,
    record_names,
)
from ottla.broker.replication.schema_rules import PartRule
from ottla.core.settings.config_descriptions import describe_topic
from ottla.core.settings.config_layers import ConfigSource
from ottla.core.settings.schema_validation_settings import (
    RECORD_NAME_STRATEGY,
    SCHEMA_REGISTRY_URL,
    SCHEMA_VALIDATION_TOPIC_SETTINGS,
    TOPIC_NAME_STRATEGY,
    TOPIC_RECORD_NAME_STRATEGY,
)
from ottla.core.settings.topic_settings import TOPIC_SETTINGS
from ottla.protocol.apis import ApiKey
from ottla.protocol.batch_validation import LOOP_RECORDS, MAX_RECORD_ERRORS
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import incremental_alter_configs_request as incremental
from ottla.protocol.messages.alter_configs_request import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_batch import NewRecord, encode_batch
from support.nodes.in_process import RawClient, connect, create_topic, running_broker

VALUES = {"confluent.value.schema.validation": "true"}
AWAY = {"confluent.schema.registry.url": "http://127.0.0.1:1"}
KEYS = {"confluent.key.schema.validation": "true"}
USER = {"schema": '{"type":"record","name":"User","namespace":"n","fields":[]}'}


@dataclass
class StubRegistry:
    """Answers as a registry does, from a table of schemas; what is asked is counted."""

    schemas: dict[int, tuple[list[str], dict[str, Any]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    status: int | None = None
    body: bytes | None = None
    silent_until: threading.Event | None = None
    url: str = ""

    def answer(self, path: str) -> tuple[int, Any]:
        answer = self._found(path)
        self.asked.append(path)
        if self.silent_until is not None:
            self.silent_until.wait(30)
        return answer

    def _found(self, path: str) -> tuple[int, Any]:
        if self.status is not None:
            return self.status, {"error_code": 50001, "message": "told to fail"}
        schema_id, _, what = path.removeprefix("/schemas/ids/").partition("/")
        known = self.schemas.get(int(schema_id))
        if known is None:
            return 404, {"error_code": 40403, "message": f"Schema {schema_id} not found"}
        return 200, known[0] if what == "subjects" else known[1]


@contextmanager
def stub_registry() -> Iterator[StubRegistry]:
    registry = StubRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = registry.answer(self.path)
            body = json.dumps(answer).encode() if registry.body is None else registry.body
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield registry
    finally:
        if registry.silent_until is not None:
            registry.silent_until.set()
        server.shutdown()
        server.server_close()
        thread.join()


def naming(schema_id: int, data: bytes = b"data") -> bytes:
    return struct.pack(">bi", 0, schema_id) + data


def batch_of(*values: bytes | None, key: bytes | None = None, codec: Codec = Codec.NONE) -> bytes:
    return encode_batch([NewRecord(key, value, 1_000) for value in values], codec=codec)


async def produce(client: RawClient, *batches: tuple[str, bytes], acks: int = -1) -> list[Any]:
    """What is said of each batch."""
    topics = [
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
        for topic, records in batches
    ]
    request = ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=topics)
    answer: Any = await client.call(ApiKey.PRODUCE, 12, request)
    return [topic.partition_responses[0] for topic in answer.responses]


async def produced(client: RawClient, topic: str, records: bytes) -> tuple[ErrorCode, list[tuple[int, str]]]:
    """The error, and the messages of single records."""
    (said,) = await produce(client, (topic, records))
    errors = [(each.batch_index, each.batch_index_error_message) for each in said.record_errors]
    return ErrorCode(said.error_code), errors


Scene = Callable[[Broker, RawClient, StubRegistry], Awaitable[None]]


def play(
    tmp_path: Path,
    scene: Scene,
    configs: Mapping[str, str] = VALUES,
    settings: Mapping[str, str] | None = None,
) -> None:
    """A broker with the topic `t` of these settings and the topic `free` that asks for nothing."""

    async def run(registry: StubRegistry) -> None:
        given = {"confluent.schema.registry.url": registry.url, **(settings or {})}
        async with running_broker(tmp_path, given) as broker:
            await create_topic(broker, "t", configs=configs)
            await create_topic(broker, "free")
            client = await connect(broker)
            await scene(broker, client, registry)
            client.close()

    with stub_registry() as registry:
        asyncio.run(run(registry))


def end_of(broker: Broker, topic: str = "t") -> int:
    return broker.partitions.partition(topic, 0).log.log_end_offset


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - it changes in another thread, or deep in the broker
            await asyncio.sleep(0.001)


OK: tuple[ErrorCode, list[tuple[int, str]]] = (ErrorCode.NONE, [])


def test_values_that_name_a_schema_of_the_topic_pass(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        registry.schemas[7] = (["other", "t-value"], USER)
        for codec in Codec:
            assert await produced(client, "t", batch_of(naming(7), naming(7, b""), codec=codec)) == OK
        assert end_of(broker) == 2 * len(Codec)
        assert registry.asked == ["/schemas/ids/7/subjects"], "remembered after the first"

    play(tmp_path, scene)


def test_a_batch_with_one_wrong_value_is_refused_whole(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        registry.schemas[7] = (["t-value"], USER)
        registry.schemas[8] = (["other-value"], USER)
        values = (naming(7), b"plain text", naming(8), naming(9), b"\0\0\0\0", naming(7))
        error, errors = await produced(client, "t", batch_of(*values))
        assert error is ErrorCode.INVALID_RECORD
        assert errors == [
            (1, "the value does not begin with a zero byte and the id of a schema"),
            (4, "the value does not begin with a zero byte and the id of a schema"),
        ]
        error, errors = await produced(client, "t", batch_of(naming(7), naming(8), naming(9), naming(8)))
        assert error is ErrorCode.INVALID_RECORD
        assert errors == [
            (1, "the value names schema 8, not registered under the subject t-value"),
            (2, "the value names schema 9, not registered under the subject t-value"),
            (3, "the value names schema 8, not registered under the subject t-value"),
        ]
        assert end_of(broker) == 0

    play(tmp_path, scene)


def test_tombstones_pass(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        assert await produced(client, "t", batch_of(None, key=None)) == OK
        assert registry.asked == []

    play(tmp_path, scene, {**KEYS, **VALUES})


def test_keys_have_a_subject_of_their_own(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        registry.schemas[1] = (["t-key"], USER)
        registry.schemas[2] = (["t-value"], USER)
        assert await produced(client, "t", batch_of(b"any value", key=naming(1))) == OK
        error, errors = await produced(client, "t", batch_of(b"any value", key=naming(2)))
        assert error is ErrorCode.INVALID_RECORD
        assert errors == [(0, "the key names schema 2, not registered under the subject t-key")]

    play(tmp_path, scene, KEYS)


def test_keys_and_values_at_once(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        registry.schemas[1] = (["t-key"], USER)
        registry.schemas[2] = (["t-value"], USER)
        assert await produced(client, "t", batch_of(naming(2), key=naming(1))) == OK
        _, errors = await produced(client, "t", batch_of(naming(1), key=naming(2)))
        assert [place for place, _ in errors] == [0, 0]

    play(tmp_path, scene, {**KEYS, **VALUES})


@pytest.mark.parametrize(
    ("strategy", "subject", "accepted"),
    [
        (RECORD_NAME_STRATEGY, "n.User", True),
        (RECORD_NAME_STRATEGY, "t-value", False),
        (RECORD_NAME_STRATEGY, "t-n.User", False),
        (TOPIC_RECORD_NAME_STRATEGY, "t-n.User", True),
        (TOPIC_RECORD_NAME_STRATEGY, "n.User", False),
        (TOPIC_RECORD_NAME_STRATEGY, "free-n.User", False),
    ],
)
def test_subjects_named_after_the_record(tmp_path: Path, strategy: str, subject: str, accepted: bool) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        registry.schemas[7] = ([subject], USER)
        error, _ = await produced(client, "t", batch_of(naming(7)))
        assert error is (ErrorCode.NONE if accepted else ErrorCode.INVALID_RECORD)

    play(tmp_path, scene, {**VALUES, "confluent.value.subject.name.strategy": strategy})


def test_other_topics_are_not_concerned(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        registry.schemas[7] = (["t-value"], USER)
        assert await produced(client, "free", batch_of(b"plain text")) == OK
        assert registry.asked == []
        named, plain = batch_of(naming(7)), batch_of(b"plain text")
        said = await produce(client, ("free", plain), ("t", plain), ("free", plain), ("t", named))
        assert [each.error_code for each in said] == [0, ErrorCode.INVALID_RECORD, 0, 0]
        assert (end_of(broker), end_of(broker, "free")) == (1, 3)

    play(tmp_path, scene)


def test_heavy_batches_are_looked_at_in_a_thread(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        registry.schemas[7] = (["t-value"], USER)
        heavy = batch_of(*[naming(7)] * (LOOP_RECORDS + 1), codec=Codec.GZIP)
        assert await produced(client, "t", heavy) == OK
        error, errors = await produced(client, "t", batch_of(*[b"x"] * (LOOP_RECORDS + 1), codec=Codec.LZ4))
        assert (error, len(errors)) == (ErrorCode.INVALID_RECORD, MAX_RECORD_ERRORS)
        unfolds = batch_of(naming(7, bytes(1 << 20)), codec=Codec.ZSTD)
        assert await produced(client, "t", unfolds) == OK

    play(tmp_path, scene)


def test_a_batch_of_too_many_schemas_is_refused_without_asking(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        values = [naming(n) for n in range(schema_validation.MAX_IDS_A_BATCH + 1)]
        (said,) = await produce(client, ("t", batch_of(*values)))
        assert said.error_code == ErrorCode.INVALID_RECORD
        assert said.error_message == "the batch names more than 1000 schemas"
        assert registry.asked == []

    play(tmp_path, scene)


def test_the_log_keeps_its_timestamps_when_it_stamps_batches(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        registry.schemas[7] = (["t-value"], USER)
        heavy = batch_of(*[naming(7)] * (LOOP_RECORDS + 1))
        for records in (batch_of(naming(7)), heavy):
            (said,) = await produce(client, ("t", records))
            assert said.error_code == 0
            assert said.log_append_time_ms > 1_000

    play(tmp_path, scene, {**VALUES, "message.timestamp.type": "LogAppendTime"})


def test_without_an_answer_the_connection_is_closed(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        from ottla.protocol.headers import encode_request

        data = [PartitionProduceData(index=0, records=batch_of(b"plain text"))]
        request = ProduceRequest(
            acks=0, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)]
        )
        payload = encode_request(ApiKey.PRODUCE, 12, 1, "test", request)
        await client.send(len(payload).to_bytes(4, "big") + payload)
        assert await client.closed_by_broker()

    play(tmp_path, scene)


# -- when the registry can't be asked ----------------------------------------------------------------


def test_a_registry_that_is_away_is_no_reason_to_take_a_batch(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        (said,) = await produce(client, ("t", batch_of(naming(7))))
        assert said.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert "the schema registry could not be asked: http://127.0.0.1:1: " in said.error_message
        assert "secret" not in said.error_message
        (said,) = await produce(client, ("t", batch_of(b"plain text")))
        assert said.error_code == ErrorCode.INVALID_RECORD, "for this nobody has to be asked"
        assert end_of(broker) == 0

    play(tmp_path, scene, settings={"confluent.schema.registry.url": "http://user:secret@127.0.0.1:1"})


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (500, None, "status 500"),
        (404, b"<html>", ""),
        (404, b'{"no":"error code"}', "not of a schema registry"),
        (200, b"[", ""),
        (200, b"{}", "no list of names"),
        (200, b"[" * 100_000, ""),
    ],
)
def test_an_answer_of_another_kind_is_none(tmp_path: Path, status: int, body: bytes | None, why: str) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        registry.status, registry.body = status, body
        (said,) = await produce(client, ("t", batch_of(naming(7))))
        assert said.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert why in said.error_message

    play(tmp_path, scene)


def test_nobody_waits_for_a_silent_registry_beyond_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_validation, "DEADLINE_SECONDS", 0.2)

    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        registry.silent_until = threading.Event()
        other = await connect(broker)
        asked = asyncio.ensure_future(produce(client, ("t", batch_of(naming(7)))))
        await until(lambda: bool(registry.asked))
        assert await produced(other, "free", batch_of(b"a")) == OK, "others are served meanwhile"
        assert not asked.done()
        (said,) = await asked
        assert said.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert "no answer within 0.2 s" in said.error_message
        other.close()

    play(tmp_path, scene)


def test_the_next_registry_is_asked_when_the_first_is_away(tmp_path: Path) -> None:
    with stub_registry() as second:
        second.schemas[7] = (["t-value"], USER)

        async def scene(broker: Broker, client: RawClient, _: StubRegistry) -> None:
            assert await produced(client, "t", batch_of(naming(7))) == OK

        urls = f"http://127.0.0.1:1,{second.url}/"
        play(tmp_path, scene, settings={"confluent.schema.registry.url": urls})


# -- what is remembered ------------------------------------------------------------------------------


def lookups(scene: Callable[[SchemaLookup, StubRegistry, list[float]], Awaitable[None]]) -> None:
    now = [0.0]

    async def run(registry: StubRegistry) -> None:
        lookup = SchemaLookup((registry.url,), lambda: now[0])
        try:
            await scene(lookup, registry, now)
        finally:
            lookup.close()

    with stub_registry() as registry:
        asyncio.run(run(registry))


RULE = PartRule("s", "value", TOPIC_NAME_STRATEGY)


def test_a_schema_that_is_registered_later_is_seen_soon() -> None:
    async def scene(lookup: SchemaLookup, registry: StubRegistry, now: list[float]) -> None:
        assert not await lookup.accepts(1, RULE)
        registry.schemas[1] = (["s-value"], USER)
        assert not await lookup.accepts(1, RULE)
        assert len(registry.asked) == 1
        now[0] += schema_lookup.MISSED_SECONDS
        assert await lookup.accepts(1, RULE)

    lookups(scene)


def test_a_schema_that_was_asked_for_by_others_is_seen_under_a_new_subject_at_once() -> None:
    other = PartRule("other", "value", TOPIC_NAME_STRATEGY)

    async def scene(lookup: SchemaLookup, registry: StubRegistry, now: list[float]) -> None:
        registry.schemas[1] = (["s-value"], USER)
        assert await lookup.accepts(1, RULE)
        registry.schemas[1] = (["s-value", "other-value"], USER)
        assert await lookup.accepts(1, other)
        assert await lookup.accepts(1, RULE)
        assert len(registry.asked) == 2

    lookups(scene)


def test_an_answer_on_its_way_to_others_is_no_reason_to_refuse() -> None:
    other = PartRule("other", "value", TOPIC_NAME_STRATEGY)

    async def scene(lookup: SchemaLookup, registry: StubRegistry, now: list[float]) -> None:
        registry.schemas[1] = (["s-value"], USER)
        registry.silent_until = threading.Event()
        first = asyncio.ensure_future(lookup.accepts(1, RULE))
        await until(lambda: bool(registry.asked))
        second = asyncio.ensure_future(lookup.accepts(1, other))
        await asyncio.sleep(0)
        registry.schemas[1] = (["s-value", "other-value"], USER)
        registry.silent_until.set()
        assert await asyncio.gather(first, second) == [True, True]

    lookups(scene)


def test_a_schema_that_goes_away_is_noticed_later() -> None:
    async def scene(lookup: SchemaLookup, registry: StubRegistry, now: list[float]) -> None:
        registry.schemas[1] = (["s-value"], USER)
        assert await lookup.accepts(1, RULE)
        del registry.schemas[1]
        now[0] += schema_lookup.FOUND_SECONDS - 1
        assert await lookup.accepts(1, RULE)
        now[0] += 1
        assert not await lookup.accepts(1, RULE)

    lookups(scene)


def test_who_asks_at_once_for_the_same_shares_an_answer() -> None:
    async def scene(lookup: SchemaLookup, registry: StubRegistry, now: list[float]) -> None:
        registry.schemas[1] = (["s-value"], USER)
        found = await asyncio.gather(*(lookup.accepts(1, RULE) for _ in range(20)))
        assert all(found)
        assert len(registry.asked) == 1

    lookups(scene)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_lookup, "MAX_REMEMBERED", 2)

    async def scene(lookup: SchemaLookup, registry: StubRegistry, now: list[float]) -> None:
        for schema_id in (1, 2, 1, 3, 1, 2):
            registry.schemas[schema_id] = (["s-value"], USER)
            assert await lookup.accepts(schema_id, RULE)
        asked = [path.split("/")[3] for path in registry.asked]
        assert asked == ["1", "2", "3", "2"], "the one that was used least lately is forgotten"

    lookups(scene)


def test_questions_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_lookup, "MAX_UNDER_WAY", 2)

    async def scene(lookup: SchemaLookup, registry: StubRegistry, now: list[float]) -> None:
        registry.silent_until = threading.Event()
        waiting = [asyncio.ensure_future(lookup.accepts(n, RULE)) for n in (1, 2)]
        await asyncio.sleep(0)
        with pytest.raises(RegistryUnavailable, match="2 questions are under way"):
            await lookup.accepts(3, RULE)
        registry.silent_until.set()
        assert await asyncio.gather(*waiting) == [False, False]

    lookups(scene)


def test_a_registry_that_is_away_is_left_alone_for_a_moment() -> None:
    async def scene(lookup: SchemaLookup, registry: StubRegistry, now: list[float]) -> None:
        registry.status = 500
        for _ in range(3):
            with pytest.raises(RegistryUnavailable, match="status 500"):
                await lookup.accepts(1, RULE)
        assert len(registry.asked) == 1
        registry.status = None
        registry.schemas[1] = (["s-value"], USER)
        now[0] += schema_lookup.DOWN_SECONDS
        assert await lookup.accepts(1, RULE)

    lookups(scene)


def test_urls() -> None:
    with stub_registry() as registry:
        registry.schemas[1] = (["s-value"], USER)
        without_scheme = registry.url.removeprefix("http://")
        assert fetch_schema([without_scheme], 1, False) == KnownSchema(frozenset({"s-value"}))
        assert fetch_schema([registry.url], 1, True) == KnownSchema(frozenset({"s-value"}), ("n.User",))
        for url in ("http://", "http://127.0.0.1:port", "http://[", "http://127.0.0.1:1"):
            with pytest.raises(RegistryUnavailable):
                fetch_schema([url], 1, False)


@pytest.mark.parametrize(
    ("kind", "text", "names"),
    [
        ("AVRO", '{"type":"record","name":"R","namespace":"a.b"}', ("a.b.R",)),
        ("AVRO", '{"type":"record","name":"a.R","namespace":"b"}', ("a.R",)),
        ("AVRO", '{"type":"record","name":"R"}', ("R",)),
        ("AVRO", '"string"', ()),
        ("AVRO", '["null","int"]', ()),
        ("JSON", '{"title":"User"}', ("User",)),
        ("JSON", '{"title":1}', ()),
        ("JSON", "true", ()),
        (
            "PROTOBUF",
            'syntax = "proto3"; package a.b; // message No {\n/* message No { */ message M { message N {} '
            'oneof o { int32 message = 1; } enum E { A = 0; } string s = 2 [default = "message Q {"]; } '
            "message P {}",
            ("a.b.M", "a.b.M.N", "a.b.P"),
        ),
        ("PROTOBUF", "message M {} }}}", ("M",)),
        ("PROTOBUF", "package", ()),
        ("OTHER", "", ()),
    ],
)
def test_names_of_records(kind: str, text: str, names: tuple[str, ...]) -> None:
    assert record_names({"schemaType": kind, "schema": text}) == names


# -- settings ----------------------------------------------------------------------------------------


async def creation_error(broker: Broker, configs: Mapping[str, str]) -> tuple[ErrorCode, str | None]:
    wanted = [CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
    topic = CreatableTopic(name="wanted", num_partitions=1, replication_factor=1, configs=wanted)
    (said,) = (await create_topics(broker, [topic])).topics
    return ErrorCode(said.error_code), said.error_message


def test_a_topic_may_ask_only_where_a_registry_is_named(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            for configs in (KEYS, VALUES):
                (name,) = configs
                assert await creation_error(broker, configs) == (
                    ErrorCode.INVALID_CONFIG,
                    f"{name} needs confluent.schema.registry.url on every broker",
                )
            assert await creation_error(broker, dict.fromkeys(VALUES, "false")) == (ErrorCode.NONE, None)

    asyncio.run(run())


@pytest.mark.parametrize(
    "configs",
    [
        {"confluent.value.schema.validation": "perhaps"},
        {"confluent.value.subject.name.strategy": "org.example.Strategy"},
        {"confluent.key.subject.name.strategy": "TopicNameStrategy"},
        {"confluent.header.schema.validation": "true"},
    ],
)
def test_values_that_are_none(tmp_path: Path, configs: Mapping[str, str]) -> None:
    async def run() -> None:
        async with running_broker(tmp_path, AWAY) as broker:
            error, _ = await creation_error(broker, configs)
            assert error is ErrorCode.INVALID_CONFIG

    asyncio.run(run())


def test_a_leader_without_a_registry_takes_nothing(tmp_path: Path) -> None:
    async def ask() -> None:
        async with running_broker(tmp_path, AWAY) as broker:
            await create_topic(broker, "t", configs=VALUES)

    async def restart() -> None:
        async with running_broker(tmp_path) as broker:
            client = await connect(broker)
            (said,) = await produce(client, ("t", batch_of(naming(7))))
            assert said.error_code == ErrorCode.INVALID_CONFIG
            assert "its leader has no confluent.schema.registry.url" in said.error_message
            client.close()

    asyncio.run(ask())
    asyncio.run(restart())


def test_the_setting_may_change_at_any_time(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        for value, error in (("true", ErrorCode.INVALID_RECORD), ("false", ErrorCode.NONE)):
            wanted = [AlterableConfig(name="confluent.value.schema.validation", value=value)]
            change = AlterConfigsRequest(
                resources=[AlterConfigsResource(resource_type=2, resource_name="free", configs=wanted)]
            )
            said: Any = await client.call(ApiKey.ALTER_CONFIGS, 2, change)
            assert said.responses[0].error_code == 0, said.responses[0].error_message
            asks = value == "true"
            await until(lambda asks=asks: ("free" in broker.replication.schemas.rules) is asks)
            assert (await produced(client, "free", batch_of(b"plain text")))[0] is error

    play(tmp_path, scene)


def test_the_registry_may_change_while_the_broker_runs(tmp_path: Path) -> None:
    with stub_registry() as second:
        second.schemas[7] = (["t-value"], USER)

        async def scene(broker: Broker, client: RawClient, first: StubRegistry) -> None:
            assert (await produced(client, "t", batch_of(naming(7))))[0] is ErrorCode.INVALID_RECORD
            wanted = incremental.AlterableConfig(name=SCHEMA_REGISTRY_URL.name, value=second.url)
            change = incremental.IncrementalAlterConfigsRequest(
                resources=[
                    incremental.AlterConfigsResource(
                        resource_type=4,
                        resource_name="",
                        configs=[wanted],
                    )
                ]
            )
            said: Any = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, change)
            assert said.responses[0].error_code == 0, said.responses[0].error_message
            await until(lambda: broker.config[SCHEMA_REGISTRY_URL] == (second.url,))
            assert await produced(client, "t", batch_of(naming(7))) == OK
            assert (len(first.asked), len(second.asked)) == (1, 1)

        play(tmp_path, scene)


def test_topics_show_these_settings_only_if_they_have_them(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient, registry: StubRegistry) -> None:
        plain = describe_topic(broker.config.layers, {})
        shown = [name for name, setting in TOPIC_SETTINGS.items() if not setting.internal]
        assert [entry.name for entry in plain] == shown
        own = describe_topic(broker.config.layers, VALUES)[len(plain) :]
        assert [(entry.name, entry.value, entry.source) for entry in own] == [
            ("confluent.value.schema.validation", "true", ConfigSource.TOPIC)
        ]
        assert not SCHEMA_VALIDATION_TOPIC_SETTINGS.keys() & TOPIC_SETTINGS.keys()

    play(tmp_path, scene)
