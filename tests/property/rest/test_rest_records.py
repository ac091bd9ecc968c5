"""Streams of records are split correctly however they are cut, and no body causes an internal error."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.rest.records.concatenated_json import MalformedStream, ObjectStream, ObjectTooLarge
from ottla.rest.v2 import produce
from ottla.rest.v3 import records
from ottla.web.application import json_application
from support.rest.fake_producing import CLUSTER_ID, FakeProducing, FakeRegistry

TEXTS = st.text(st.sampled_from('ab"\\{}[]:,é€\n\u0000 '), max_size=6)
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXTS
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)
SPACES = st.sampled_from([b"", b"\n", b"\r\n", b" \t", b"\n\n"])


def cut(text: bytes, lengths: list[int]) -> list[bytes]:
    pieces, start = [], 0
    for length in lengths:
        pieces.append(text[start : start + length])
        start += length
    return [*pieces, text[start:]]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(OBJECTS, SPACES, st.sampled_from([None, 1]), st.booleans()), max_size=5),
    st.lists(st.integers(0, 20), max_size=15),
)
def test_a_stream_has_the_objects_that_were_written(
    written: list[tuple[dict[str, Any], bytes, int | None, bool]], lengths: list[int]
) -> None:
    text = b"".join(
        json.dumps(found, indent=indent, ensure_ascii=ascii_only).encode() + space
        for found, space, indent, ascii_only in written
    )
    stream = ObjectStream(1 << 20)
    found = [record for piece in cut(text, lengths) for record in stream.feed(piece)]
    stream.end()
    assert found == [record for record, *_ in written]


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from('{}[]",:\\a1 \n'), max_size=40), st.lists(st.integers(0, 8), max_size=10))
def test_a_stream_means_the_same_however_it_is_cut(text: str, lengths: list[int]) -> None:
    assert read(cut(text.encode(), lengths)) == read([text.encode()])


def read(pieces: list[bytes]) -> tuple[list[dict[str, Any]], bool]:
    """The objects, and whether the stream ended correctly."""
    stream, found = ObjectStream(1 << 20), []
    try:
        for piece in pieces:
            for record in stream.feed(piece):
                found.append(record)  # noqa: PERF402  # what a comprehension has found is lost
        stream.end()
    except (MalformedStream, ObjectTooLarge):
        return found, False
    return found, True


KINDS = st.sampled_from(["BINARY", "JSON", "STRING", "AVRO", "JSONSCHEMA", "PROTOBUF", "XML"]) | VALUES
SCHEMAS = st.sampled_from(['"int"', '{"type":"array","items":"string"}', "{", "5"]) | VALUES
IDS = st.sampled_from([0, 1, 2, 99, -1]) | VALUES
PARTS = VALUES | st.fixed_dictionaries(
    {},
    optional={
        "type": KINDS,
        "data": VALUES,
        "schema": SCHEMAS,
        "schema_id": IDS,
        "schema_version": IDS,
        "subject": TEXTS,
        "subject_name_strategy": st.sampled_from(["TOPIC_NAME", "RECORD_NAME", "x"]) | VALUES,
    },
)
HEADERS = VALUES | st.lists(st.fixed_dictionaries({}, optional={"name": VALUES, "value": VALUES}), max_size=2)
RECORDS = VALUES | st.fixed_dictionaries(
    {},
    optional={
        "id": TEXTS | st.sampled_from(["a", "b"]),
        "partition_id": IDS,
        "headers": HEADERS,
        "key": PARTS,
        "value": PARTS,
        "timestamp": VALUES | st.sampled_from(["2021-02-05T19:14:42Z", "0001-01-01T00:00:00+14:00"]),
    },
)
BATCHES_V2 = VALUES | st.fixed_dictionaries(
    {
        "records": st.lists(
            st.fixed_dictionaries({}, optional={"key": VALUES, "value": VALUES, "partition": IDS})
        )
    },
    optional={
        "key_schema": SCHEMAS,
        "key_schema_id": IDS,
        "value_schema": SCHEMAS,
        "value_schema_id": IDS,
        "other": VALUES,
    },
)
CODES = {400, 404, 408, 413, 415, 422}


def ask(path: str, content_type: str, body: bytes) -> httpx.Response:
    registry = FakeRegistry({1: ("t-value", 1, "AVRO", '"int"'), 2: ("s", 1, "AVRO", '["null","string"]')})
    producing = FakeProducing(registry.client(), {"t": 3})
    routes = [*produce.routes(producing), *records.routes(producing)]  # type: ignore[arg-type]
    app = json_application(routes)

    async def story() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://proxy") as client:
            return await client.post(path, content=body, headers={"content-type": content_type})

    answer = asyncio.run(story())
    assert producing.work.held_bytes == 0
    return answer


def check_error(answer: dict[str, Any]) -> None:
    assert set(answer) == {"error_code", "message"} and answer["message"]
    code = answer["error_code"]
    assert code in CODES or code // 100 in CODES


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=30) | BATCHES_V2.map(orjson.dumps), st.sampled_from(sorted(produce.FORMATS)))
def test_no_batch_of_v2_is_a_fault_of_ours(body: bytes, content_type: str) -> None:
    answer = ask("/topics/t", content_type, body)
    assert answer.status_code == 200 or answer.status_code in CODES
    if answer.status_code != 200:
        check_error(answer.json())


@settings(max_examples=150, deadline=None)
@given(st.lists(RECORDS.map(orjson.dumps) | st.binary(max_size=10), max_size=4))
def test_no_stream_of_v3_is_a_fault_of_ours(texts: list[bytes]) -> None:
    answer = ask(f"/v3/clusters/{CLUSTER_ID}/topics/t/records", "application/json", b"".join(texts))
    assert answer.status_code in (200, 422)
    for line in answer.content.splitlines():
        told = orjson.loads(line)
        if told["error_code"] != 200:
            check_error(told)


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=30)
    | st.fixed_dictionaries({"entries": st.lists(RECORDS, max_size=3)}).map(orjson.dumps)
)
def test_no_batch_of_v3_is_a_fault_of_ours(body: bytes) -> None:
    answer = ask(f"/v3/clusters/{CLUSTER_ID}/topics/t/records:batch", "application/json", body)
    if answer.status_code == 207:
        assert set(answer.json()) == {"successes", "failures"}
    else:
        assert answer.status_code in CODES
        check_error(answer.json())
