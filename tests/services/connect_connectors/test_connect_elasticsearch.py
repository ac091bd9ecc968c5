"""The search index sink on real Elasticsearch servers."""

from __future__ import annotations

import json
import random
from collections.abc import Hashable, Iterator
from itertools import count
from typing import Any

import pytest
import requests

from ottla.connect.connectors.elasticsearch.sink import ElasticsearchSink
from ottla.connect.data.record import Record, SinkRecord, TopicPartition
from ottla.connect.data.schema import TIMESTAMP, Field, Moment, Schema, Struct, Type
from ottla.connect.plugins.api import RecordError
from ottla.connect.testing import Target, check_sink, drawn_records, settings_of, write_records
from support.servers.elasticsearch import elasticsearch

# Two servers in Java: half a minute before the first test.
pytestmark = pytest.mark.long

_numbers = count()


@pytest.fixture(scope="module", params=[pytest.param("6.8.23", marks=pytest.mark.long), "7.17.29"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with elasticsearch(request.param) as running:
        yield running


@pytest.fixture
def topic() -> str:
    return f"Tweets-{next(_numbers)}"


def _sink(url: str, **texts: str) -> ElasticsearchSink:
    given = {"connection.url": url, "read.timeout.ms": "30000"}
    given |= {name.replace("_", "."): text for name, text in texts.items()}
    return ElasticsearchSink(settings_of(ElasticsearchSink, given))


def _records(
    topic: str, *values: Any, first: int = 0, key: str = "k", schema: Schema | None = None
) -> list[SinkRecord]:
    return [
        SinkRecord(Record(topic, 0, key, None, value, schema), TopicPartition(topic, 0), offset)
        for offset, value in enumerate(values, first)
    ]


def _documents(url: str, index: str) -> dict[str, Any]:
    index = index.lower()
    requests.post(f"{url}/{index}/_refresh", timeout=30)
    answer = requests.get(f"{url}/{index}/_search?size=1000", timeout=30).json()
    return {hit["_id"]: hit["_source"] for hit in answer.get("hits", {}).get("hits", ())}


@pytest.mark.parametrize("by_key", [True, False])
def test_documents_are_the_last_of_their_keys_whatever_is_killed(url: str, by_key: bool) -> None:
    chance = random.Random(f"{by_key}")
    drawn = drawn_records(chance, 80, topics=("a", "b"), tombstones=0.2 if by_key else 0.0)

    def new_target() -> Target:
        name = f"kills-{next(_numbers)}"

        def connect() -> ElasticsearchSink:
            texts = {"behavior_on_null_values": "delete", "key_ignore": str(not by_key), "batch_size": "7"}
            return _Renaming(name, _sink(url, **texts))  # type: ignore[return-value]

        def content() -> list[Hashable]:
            return [
                (topic, id.replace(name, ""), json.dumps(fields, sort_keys=True))
                for topic in ("a", "b")
                for id, fields in _documents(url, f"{name}-{topic}").items()
            ]

        return Target(connect, content)

    drawn = [_keyed_by_partition(each) for each in drawn]
    expected = check_sink(new_target, drawn, exactly_once=False, runs=2)
    assert set(expected.values()) == {1}
    if not by_key:
        assert len(expected) == len(drawn)


def _keyed_by_partition(each: SinkRecord) -> SinkRecord:
    record = each.record
    key = f"{record.key}/{each.place.partition}"
    return SinkRecord(
        Record(record.topic, record.partition, key, None, record.value, record.value_schema),
        each.place,
        each.offset,
    )


class _Renaming:
    """A sink whose records have the topics of one run of the test, as a transform would give them."""

    def __init__(self, name: str, sink: ElasticsearchSink) -> None:
        self._name, self._sink = name, sink
        self.open, self.flush, self.lose, self.close = sink.open, sink.flush, sink.lose, sink.close

    def write(self, records: list[SinkRecord]) -> None:
        renamed = []
        for each in records:
            record = each.record
            topic = f"{self._name}-{record.topic}"
            renamed.append(
                SinkRecord(
                    Record(topic, 0, record.key, None, record.value, record.value_schema),
                    each.place,
                    each.offset,
                )
            )
        self._sink.write(renamed)


def test_an_older_record_never_replaces_a_newer_one(url: str, topic: str) -> None:
    sink = _sink(url, behavior_on_null_values="delete")
    sink.write(_records(topic, {"n": 1}, {"n": 2}))
    sink.write(_records(topic, {"n": 1}))
    assert _documents(url, topic) == {"k": {"n": 2}}
    sink.write(_records(topic, None, first=2))
    sink.write(_records(topic, {"n": 2}, first=1))
    assert _documents(url, topic) == {}


def test_upserts_put_fields_into_the_document(url: str, topic: str) -> None:
    _sink(url, write_method="upsert").write(_records(topic, {"a": 1}, {"b": 2}))
    assert _documents(url, topic) == {"k": {"a": 1, "b": 2}}


def test_documents_that_do_not_fit_are_refused_with_their_records(url: str, topic: str) -> None:
    sink = _sink(url, batch_size="4")
    sink.write(_records(topic, {"n": 1}, key="first"))
    values: list[Any] = [
        {"n": 2},
        {"n": "no number"},
        {"n": 3},
        "no document",
        {"n": [{}]},
        {"n": 4},
        None,
        {"n": 5},
    ]
    records = [
        each
        for offset, value in enumerate(values, 1)
        for each in _records(topic, value, first=offset, key=f"k{offset}")
    ]
    with pytest.raises(RecordError, match=r"number|parse|type \[long\]") as refused:
        sink.write(records)
    assert refused.value.position == 1
    assert [each.offset for each in write_records(sink, records)] == [2, 4, 5, 7]
    assert {id: each["n"] for id, each in _documents(url, topic).items()} == {
        "first": 1,
        "k1": 2,
        "k3": 3,
        "k6": 4,
        "k8": 5,
    }


@pytest.mark.parametrize("behavior", ["warn", "ignore"])
def test_documents_that_do_not_fit_can_be_left_out(
    url: str, topic: str, behavior: str, caplog: pytest.LogCaptureFixture
) -> None:
    texts = {
        "behavior_on_malformed_documents": behavior,
        "drop_invalid_message": "true",
        "behavior_on_null_values": "ignore",
    }
    _sink(url, **texts).write(_records(topic, {"n": 1}, {"n": "x"}, "none", None))
    assert _documents(url, topic) == {"k": {"n": 1}}
    assert ("offset 1 is left out" in caplog.text) == (behavior == "warn")


def test_the_mapping_comes_of_the_schema(url: str, topic: str) -> None:
    schema = Schema(
        Type.STRUCT,
        fields=(
            Field("at", Schema(Type.INT64, name=TIMESTAMP, version=1)),
            Field("small", Schema(Type.INT8)),
            Field("text", Schema(Type.STRING)),
            Field("list", Schema(Type.ARRAY, values=Schema(Type.FLOAT64))),
            Field("inner", Schema(Type.STRUCT, fields=(Field("flag", Schema(Type.BOOLEAN)),))),
        ),
    )
    inner = Struct(schema.fields[4].schema, {"flag": True})
    value = Struct(schema, {"at": Moment(5), "small": 1, "text": "t", "list": [1.5], "inner": inner})
    _sink(url).write(_records(topic, value, schema=schema))
    assert _documents(url, topic) == {
        "k": {"at": 5, "small": 1, "text": "t", "list": [1.5], "inner": {"flag": True}}
    }
    typed = "?include_type_name=false" if 'number" : "6' in requests.get(url, timeout=30).text else ""
    found = requests.get(f"{url}/{topic.lower()}/_mapping{typed}", timeout=30).json()
    properties = found[topic.lower()]["mappings"]["properties"]
    assert {name: each.get("type") for name, each in properties.items()} == {
        "at": "date",
        "small": "byte",
        "text": "text",
        "list": "double",
        "inner": None,
    }
