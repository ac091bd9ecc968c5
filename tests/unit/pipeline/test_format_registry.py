"""The formats' registry client against a server of ours that fails as it is told to."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from ottla.client.errors import ClientOptionError
from ottla.pipeline import formats
from ottla.pipeline.formats import RegistryError, SchemaRegistry
from ottla.pipeline.formats.avro import reader
from ottla.pipeline.formats.format import FormatError
from ottla.pipeline.formats.framed import decode_framed
from ottla.pipeline.formats.registry import UnknownSchema, latest_schema
from ottla.pipeline.formats.subjects import SchemaChoice
from ottla.schemas.model import SchemaType
from support.registry.fake_registry import NOT_FOUND, FakeRegistry


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    running = FakeRegistry()
    yield running
    running.close()


def decode(registry: SchemaRegistry, payloads: list[bytes | None]) -> tuple[list[Any], list[str | None]]:
    values, errors = decode_framed(
        payloads,
        registry,
        SchemaType.AVRO,
        '"long"',
        lambda schema: reader(schema.parsed.canonical_text, '"long"'),
        lambda found, _: pa.array(found, pa.int64()),
    )
    return values.to_pylist(), errors


def test_a_schema_is_asked_for_once_and_an_unknown_one_is_a_poison_record(fake: FakeRegistry) -> None:
    fake.answer = lambda path: (200, {"schema": '"long"'}) if path == "/schemas/ids/1" else NOT_FOUND
    registry = SchemaRegistry(fake.url)
    payloads = [struct.pack(">bi", 0, schema_id) + b"\x04" for schema_id in (1, 9, 1, 9)]

    for _ in range(2):
        values, errors = decode(registry, [*payloads, None])
        assert values == [2, None, 2, None, None]
        assert errors[0] is None and errors[4] is None
        assert errors[1] == errors[3] == "schema 9 of the payload: Schema 9 not found"

    assert sorted(fake.asked) == ["/schemas/ids/1", "/schemas/ids/9"]


def test_a_schema_whose_rule_encrypts_is_neither_read_nor_written_with(fake: FakeRegistry) -> None:
    rule = {"name": "crypt", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD"}
    fake.answer = lambda path: (
        200,
        {"schema": '"long"', "id": 1, "version": 1, "ruleSet": {"domainRules": [rule]}},
    )
    registry = SchemaRegistry(fake.url)
    _, errors = decode(registry, [struct.pack(">bi", 0, 1) + b"\x04"])
    assert "crypt (ENCRYPT)" in str(errors[0])
    choice = SchemaChoice(registry, SchemaType.AVRO, subject="s")
    found = choice.found("t", False)
    with pytest.raises(FormatError, match=r"crypt \(ENCRYPT\)"):
        choice.registered(found, "t", False)


@pytest.mark.parametrize(
    "answer",
    [
        (500, {"error_code": 50001, "message": "broken"}),
        (401, {"error_code": 40101, "message": "who are you"}),
        (404, b"<html>nothing here</html>"),
        (200, {"no": "schema"}),
    ],
)
def test_a_registry_that_gives_no_answer_fails_the_batch(fake: FakeRegistry, answer: tuple[int, Any]) -> None:
    fake.answer = lambda path: answer
    with pytest.raises(RegistryError) as raised:
        decode(SchemaRegistry(fake.url, attempts=2), [b"\0\0\0\0\1\4"])

    assert fake.url in str(raised.value) and "\n" not in str(raised.value)
    assert len(fake.asked) == (2 if answer[0] == 500 else 1)


def test_a_registry_that_is_not_there_is_asked_a_bounded_number_of_times() -> None:
    registry = SchemaRegistry("http://user:secret@127.0.0.1:9", attempts=2)
    with pytest.raises(RegistryError, match="does not answer \\(2 attempts") as raised:
        decode(registry, [b"\0\0\0\0\1\4"])
    assert "secret" not in str(raised.value)


def test_the_next_instance_answers_for_one_that_is_away(fake: FakeRegistry) -> None:
    fake.answer = lambda path: (200, {"schema": '"long"'})
    assert decode(SchemaRegistry(f"http://127.0.0.1:9,{fake.url}"), [b"\0\0\0\0\1\4"])[0] == [2]


def test_references_come_before_schemas_that_need_them(fake: FakeRegistry) -> None:
    line = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
    order = {"type": "record", "name": "Order", "fields": [{"name": "line", "type": "Line"}]}
    reference = {"name": "Line", "subject": "lines/é", "version": 3}
    fake.answer = lambda path: (
        (200, {"schema": json.dumps(line)})
        if path == "/subjects/lines%2F%C3%A9/versions/3?deleted=true"
        else (200, {"schema": json.dumps(order), "references": [reference], "id": 4, "version": 2})
    )

    bound = formats.avro(SchemaRegistry(fake.url)).bind("orders", False)

    assert bound.data_type().simpleString() == "struct<line:struct<sku:string>>"
    assert bound.describe() == "avro (orders-value, version 2)"
    assert bound.bind("another", True) is bound


def test_references_in_a_circle_are_an_unknown_schema(fake: FakeRegistry) -> None:
    reference = {"name": "R", "subject": "r", "version": 1}
    fake.answer = lambda path: (200, {"schema": '"long"', "references": [reference], "id": 1})
    with pytest.raises(UnknownSchema, match="leads back to itself: R -> R"):
        latest_schema(SchemaRegistry(fake.url), "s", SchemaType.AVRO)
    assert len(fake.asked) == 2


def test_who_we_are_is_said_and_not_shown(fake: FakeRegistry) -> None:
    fake.answer = lambda path: (200, {"schema": '"long"', "id": 1})
    properties = {"schema.registry.url": fake.url, "basic.auth.user.info": "ada:pass:word"}
    registry = SchemaRegistry.from_properties(properties)
    latest_schema(registry, "s", SchemaType.AVRO)

    assert fake.authorizations == ["Basic YWRhOnBhc3M6d29yZA=="]
    assert "pass" not in repr(registry)
    with pytest.raises(ClientOptionError, match=r"no property of a registry: schema\.registry\.uri"):
        SchemaRegistry.from_properties({"schema.registry.uri": fake.url})
    with pytest.raises(ClientOptionError, match="http"):
        SchemaRegistry("localhost:8081")
