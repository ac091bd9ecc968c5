"""Documents over MongoDB's wire protocol, as sink and source, and MongoDB's own sink connector."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator
from itertools import count
from typing import Any

import pytest

from ottla.config.errors import ConfigError
from ottla.connect.connectors.mongodb.sink import MongoSink
from ottla.connect.connectors.plain import json_text
from ottla.connect.data.record import Record, SinkRecord, TopicPartition
from ottla.connect.plugins.api import RecordError, RetriableError
from ottla.connect.testing import Target, check_sink, drawn_records, settings_of, write_records
from support.connect.documents import (
    PLACE,
    check_ids,
    check_kills,
    check_reading,
    check_refusals,
    records,
    sink,
)
from support.servers.mongodb import mongodb

pymongo = pytest.importorskip("pymongo")
pytestmark = pytest.mark.java

STRATEGY = "com.mongodb.kafka.connect.sink.processor.id.strategy."
_numbers = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mongodb(tmp_path_factory.mktemp("mongodb")) as url:
        yield url


@pytest.fixture
def url(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of the test's own, read without the second of delay."""
    monkeypatch.setattr("ottla.connect.connectors.documents.mongodb.LATE_MS", -1000)
    return f"{server}/test{next(_numbers)}"


def test_documents_are_the_last_of_their_keys_whatever_is_killed(url: str) -> None:
    check_kills(lambda: url, exactly_once=False, seed=1)


def test_records_that_are_no_documents_are_refused(url: str) -> None:
    check_refusals(url, {"n": 2**63}, {"a": [{"b\0": 1}]})


def test_ids_come_of_keys_or_fields(url: str) -> None:
    check_ids(url)


def test_documents_are_read_back_in_the_order_of_their_changes(url: str) -> None:
    check_reading(url, 1)


def test_a_server_that_is_away_is_retriable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.connect.connectors.documents.mongodb.TIMEOUT_MS", 100)
    with pytest.raises(RetriableError, match="MongoDB") as failure:
        sink("mongodb://me:secret@127.0.0.1:1/d").write(records({"n": 1}))
    assert "secret" not in str(failure.value)


# -- MongoDB's own connector ------------------------------------------------------------------------


def _sink(server: str, database: str, **texts: str) -> MongoSink:
    given = {"connection.uri": server, "database": database}
    given |= {name.replace("_", "."): text for name, text in texts.items()}
    return MongoSink(settings_of(MongoSink, given))


def _documents(server: str, database: str, collection: str) -> list[dict[str, Any]]:
    with pymongo.MongoClient(server) as client:
        return list(client[database][collection].find())


@pytest.mark.parametrize("strategy", ["KafkaMetaDataStrategy", "FullKeyStrategy"])
def test_documents_are_once_there_by_their_ids(server: str, strategy: str) -> None:
    by_key = strategy == "FullKeyStrategy"
    drawn = []
    for each in drawn_records(random.Random(strategy), 120):
        key = {"key": each.record.key, "partition": each.place.partition}
        record = each.record
        drawn.append(
            SinkRecord(
                Record(record.topic, 0, key, None, record.value, record.value_schema), each.place, each.offset
            )
        )

    def new_target() -> Target:
        database = f"kills{next(_numbers)}"

        def content() -> list[Hashable]:
            return [
                (topic, json_text(fields))
                for topic in ("first", "second")
                for fields in _documents(server, database, topic)
            ]

        texts = {"document_id_strategy": STRATEGY + strategy, "max_batch_size": "7"}
        return Target(lambda: _sink(server, database, **texts, delete_on_null_values=str(by_key)), content)

    expected = check_sink(new_target, drawn, exactly_once=False, runs=3)
    assert set(expected.values()) == {1}


def test_ids_by_each_strategy(server: str) -> None:
    def written(strategy: str, key: Any, value: Any) -> list[dict[str, Any]]:
        database = f"ids{next(_numbers)}"
        record = SinkRecord(Record("t", 0, key, None, value), PLACE, 7)
        _sink(server, database, document_id_strategy=STRATEGY + strategy).write([record])
        return _documents(server, database, "t")

    assert written("ProvidedInKeyStrategy", {"_id": 5}, {"n": 1}) == [{"_id": 5, "n": 1}]
    assert written("ProvidedInValueStrategy", None, {"_id": "x", "n": 1}) == [{"_id": "x", "n": 1}]
    assert written("KafkaMetaDataStrategy", None, {"n": 1}) == [{"_id": "t#0#7", "n": 1}]
    assert written("FullKeyStrategy", "k", {"n": 1}) == [{"_id": "k", "n": 1}]
    (random_id,) = written("BsonOidStrategy", None, {"n": 1})
    assert len(str(random_id["_id"])) == 24


def test_records_that_mongodb_can_not_have_are_refused(server: str) -> None:
    database = f"bad{next(_numbers)}"
    bad = [
        *records("text", {"n": 2**70}, {"n": "\ud800"}, first=1),
        SinkRecord(Record("t", 0, None, None, {"n": 1}), PLACE, 9),
    ]
    drawn = [*records({"n": 1}, key="a"), *bad, *records({"n": 2}, key="b", first=10)]
    texts = {"document_id_strategy": STRATEGY + "FullKeyStrategy"}
    assert write_records(_sink(server, database, **texts), drawn) == bad
    assert sorted(each["_id"] for each in _documents(server, database, "t")) == ["a", "b"]
    with pytest.raises(RecordError, match="no field _id"):
        _sink(server, database, document_id_strategy=STRATEGY + "ProvidedInValueStrategy").write(
            records({"n": 1})
        )
    assert TopicPartition("t", 0) == PLACE


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({"database": "d"}, "connection.uri"),
        ({"connection.uri": "mongodb://h"}, "database"),
        ({"connection.uri": "http://me:secret@h", "database": "d"}, r"connection.uri=\[hidden\]"),
        (
            {"connection.uri": "mongodb://h", "database": "d", "document.id.strategy": "x"},
            "document.id.strategy=x",
        ),
        (
            {"connection.uri": "mongodb://h", "database": "d", "delete.on.null.values": "true"},
            "come of the key",
        ),
        (
            {"connection.uri": "mongodb://h", "database": "d", "change.data.capture.handler": "x"},
            "transforms",
        ),
    ],
)
def test_bad_settings_are_named(texts: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        MongoSink(settings_of(MongoSink, texts))
