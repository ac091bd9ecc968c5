"""The Redis sink on a real server."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ottla.config.errors import ConfigError
from ottla.connect.connectors.common import Superseded
from ottla.connect.connectors.redis.sink import RedisSink
from ottla.connect.data.record import Record, SinkRecord, TopicPartition
from ottla.connect.plugins.api import RetriableError
from ottla.connect.testing import Target, check_sink, drawn_records, settings_of, write_records
from support.servers.redis_server import redis_server

redis = pytest.importorskip("redis")
pytestmark = pytest.mark.system("redis-server")

PLACE = TopicPartition("t", 0)
_databases = count()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis"), "--databases", "100") as running:
        yield running


class Database:
    """An empty database of the server."""

    def __init__(self, port: int) -> None:
        self.port, self.number = port, next(_databases)
        self.client = redis.Redis(port=port, db=self.number)

    def sink(self, **texts: str) -> RedisSink:
        given = {"redis.hosts": f"127.0.0.1:{self.port}", "redis.database": str(self.number)}
        given |= {name.replace("_", "."): text for name, text in texts.items()}
        return RedisSink(settings_of(RedisSink, given))

    def content(self) -> list[Hashable]:
        found: list[Hashable] = []
        for key in sorted(self.client.keys()):
            if key.startswith(b"__kafka.offset."):
                continue
            match self.client.type(key):
                case b"string":
                    found.append((key, self.client.get(key)))
                case b"hash":
                    found.append((key, tuple(sorted(self.client.hgetall(key).items()))))
                case b"stream":
                    found += [(key, tuple(sorted(entry.items()))) for _, entry in self.client.xrange(key)]
        return found


@pytest.fixture
def database(port: int) -> Iterator[Database]:
    made = Database(port)
    yield made
    made.client.close()


def _records(*values: Any, key: Any = "k", first: int = 0) -> list[SinkRecord]:
    return [
        SinkRecord(Record("t", 0, key, None, value), PLACE, offset)
        for offset, value in enumerate(values, first)
    ]


@pytest.mark.parametrize("command", ["SET", "HSET", "XADD"])
@pytest.mark.parametrize("seed", range(3))
def test_records_are_written_exactly_once(port: int, command: str, seed: int) -> None:
    drawn = [_with_own_key(each) for each in drawn_records(random.Random(f"{command}/{seed}"), 150)]
    databases: list[Database] = []

    def new_target() -> Target:
        database = Database(port)
        databases.append(database)
        return Target(lambda: database.sink(redis_command=command, redis_key="${topic}"), database.content)

    expected = check_sink(new_target, drawn, exactly_once=True, seed=seed, runs=3)
    for each in databases:
        each.client.close()
    assert (sum(expected.values()) == len(drawn)) == (command == "XADD")


def _with_own_key(each: SinkRecord) -> SinkRecord:
    """The record with a key that no other partition has, and with its offset in the value of a stream."""
    record = each.record
    key = f"{record.key}/{each.place.partition}"
    return SinkRecord(
        Record(record.topic, 0, key, None, record.value, record.value_schema), each.place, each.offset
    )


def test_values_and_keys_are_bytes_texts_or_json(database: Database) -> None:
    sink = database.sink(redis_key="p:")
    sink.write(
        _records("text", key="a")
        + _records(b"\xff\x00", key=b"\x00b", first=1)
        + _records({"x": [1, None]}, key=5, first=2)
    )
    assert database.content() == [(b"p:\x00b", b"\xff\x00"), (b"p:5", b'{"x":[1,null]}'), (b"p:a", b"text")]


def test_a_hash_has_the_fields_of_the_last_value_alone(database: Database) -> None:
    sink = database.sink(redis_command="hset")
    sink.write(_records({"a": 1, "b": "x", "c": None}, {"b": True, "d": {"n": 1.5}}))
    assert database.content() == [(b"k", ((b"b", b"true"), (b"d", b'{"n":1.5}')))]
    sink.write(_records(None, first=2))
    assert database.content() == []


def test_a_stream_has_each_record_in_order(database: Database) -> None:
    database.sink(redis_command="XADD").write(_records({"n": 1}, "text", None))
    entries = [entry for _, entry in database.client.xrange("t")]
    assert entries == [{b"n": b"1", b"key": b"k"}, {b"value": b"text", b"key": b"k"}, {b"key": b"k"}]


def test_a_key_that_is_no_stream_is_found_before_anything_is_written(database: Database) -> None:
    database.client.set("t", "a string")
    sink = database.sink(redis_command="XADD")
    with pytest.raises(ValueError, match="t is a string, no stream"):
        sink.write(_records({"n": 1}))
    assert database.sink(redis_command="XADD").open([PLACE]) == {}


def test_records_that_make_no_key_are_refused(database: Database) -> None:
    sink = database.sink(redis_command="HSET")
    bad = [
        *_records({"n": 1}, key=None, first=1),
        *_records("text", first=2),
        *_records({"n": float("nan")}, first=3),
    ]
    assert (
        write_records(sink, [*_records({"n": 0}, key="a"), *bad, *_records({"n": 1}, key="b", first=4)])
        == bad
    )
    assert [each[0] for each in database.content()] == [b"a", b"b"]  # type: ignore[index]


def test_offsets_are_kept_by_connector_and_generation_and_a_superseded_task_is_told(
    database: Database,
) -> None:
    first = database.sink(name="one")
    first.open([PLACE])
    first.write(_records("1", "2"))
    second = database.sink(name="one")
    assert second.open([PLACE]) == {PLACE: 2}
    second.write(_records("3", first=2))
    with pytest.raises(Superseded):
        first.write(_records("old", first=2))
    assert database.content() == [(b"k", b"3")]
    assert database.sink(name="two").open([PLACE]) == {}
    assert database.sink(name="one", ottla_generation="1").open([PLACE]) == {}


def test_a_commit_whose_answer_was_lost_counts_when_the_batch_comes_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = database.sink(redis_command="XADD")
    sink.open([PLACE])
    pipeline = type(database.client.pipeline())
    real = pipeline.execute

    def execute(self: Any, *arguments: Any) -> Any:
        monkeypatch.setattr(pipeline, "execute", real)
        real(self, *arguments)
        raise redis.ConnectionError("the answer was lost")

    monkeypatch.setattr(pipeline, "execute", execute)
    with pytest.raises(RetriableError, match="the answer was lost"):
        sink.write(_records({"n": 1}))
    sink.write(_records({"n": 1}, {"n": 2}))
    assert len(database.content()) == 2


def test_a_server_that_is_away_or_full_is_retriable_and_the_batch_is_whole_later(tmp_path: Path) -> None:
    with redis_server(tmp_path, "--maxmemory", "1", "--requirepass", "secret") as port:
        given = {"redis.hosts": f"127.0.0.1:{port}", "redis.password": "secret", "name": "full"}
        sink = RedisSink(settings_of(RedisSink, given))
        with pytest.raises(RetriableError, match=r"OOM|memory|maxmemory"):
            sink.write(_records("1"))
        client = redis.Redis(port=port, password="secret")
        assert client.keys() == []
        client.config_set("maxmemory", "0")
        client.close()
        sink.write(_records("1"))
        wrong = RedisSink(settings_of(RedisSink, {**given, "redis.password": "wrong"}))
        with pytest.raises(redis.AuthenticationError):
            wrong.open([PLACE])
    with pytest.raises(RetriableError, match=r"Redis at 127\.0\.0\.1"):
        sink.write(_records("2", first=1))
    with redis_server(tmp_path, "--requirepass", "secret") as port:
        again = RedisSink(settings_of(RedisSink, {**given, "redis.hosts": f"127.0.0.1:{port}"}))
        assert again.open([PLACE]) == {PLACE: 1}
        again.close()
    sink.close()


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({"redis.hosts": "a:1,b:2"}, "redis.hosts=a:1,b:2: one server"),
        ({"redis.hosts": "a:x"}, "redis.hosts=a:x: a server is host:port"),
        ({"redis.command": "APPEND"}, "redis.command=APPEND"),
        ({"redis.client.mode": "Cluster"}, "redis.client.mode=Cluster"),
        ({"redis.ssl.truststore.path": "/x"}, "redis.ssl.truststore.path"),
        ({"redis.database": "-1"}, "redis.database=-1"),
    ],
)
def test_bad_settings_are_named(texts: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        RedisSink(settings_of(RedisSink, texts))
