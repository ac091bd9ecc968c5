"""Avro, JSON Schema and Protobuf: values come back as they were written, framed and registered."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ottla.client.registry.lookups import RegisteredSchema
from ottla.client.registry.wire import RegistryRefusal, RegistryUnreachable
from ottla.config.errors import ConfigError
from ottla.connect.converters import registry_schemas
from ottla.connect.converters.avro_converter import AvroConverter
from ottla.connect.converters.json_schema_converter import JsonSchemaConverter
from ottla.connect.converters.protobuf_converter import ProtobufConverter
from ottla.connect.data.building import (
    DATE_SCHEMA,
    OPTIONAL,
    REQUIRED,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    struct_schema,
)
from ottla.connect.data.schema import DataError, Field, Moment, Schema, Struct, Type
from ottla.connect.plugins.api import RetriableError
from ottla.schemas.formats import format_of
from ottla.schemas.model import SchemaType
from support.connect.random_values import RandomValues
from support.java.connect_oracle import tell, tell_schema

CONFIG = {"schema.registry.url": "http://registry"}


class FakeClient:
    """A registry in memory."""

    def __init__(self) -> None:
        self.subjects: list[str] = []
        self.by_text: dict[tuple[SchemaType, str], RegisteredSchema] = {}
        self.problem: Exception | None = None

    def register(self, subject: str, schema_type: SchemaType, text: str) -> RegisteredSchema:
        if self.problem is not None:
            raise self.problem
        self.subjects.append(subject)
        parsed = format_of(schema_type).parse(text, {}, new=True)
        return self.by_text.setdefault(
            (schema_type, text), RegisteredSchema(len(self.by_text) + 1, parsed, subject, 1)
        )

    def registered(self, subject: str, schema_type: SchemaType, text: str) -> RegisteredSchema:
        found = self.by_text.get((schema_type, text))
        if found is None:
            raise RegistryRefusal(404, 40403, "Schema not found")
        return found

    def latest(self, subject: str) -> RegisteredSchema:
        return list(self.by_text.values())[-1]

    def by_id(self, schema_id: int) -> RegisteredSchema:
        if self.problem is not None:
            raise self.problem
        for found in self.by_text.values():
            if found.id == schema_id:
                return found
        raise RegistryRefusal(404, 40403, "Schema not found")


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeClient]:
    made = FakeClient()
    monkeypatch.setattr(registry_schemas, "client_of", lambda access: made)
    yield made


def converter(kind: Any, is_key: bool = False, **config: str) -> Any:
    made = kind()
    made.configure(CONFIG | {name.replace("_", "."): text for name, text in config.items()}, is_key)
    return made


def for_avro(schema: Schema, at: list[int]) -> Schema:
    """The schema with names that Avro can have, each once."""
    if schema.type is Type.STRUCT:
        at[0] += 1
        number = at[0]
        fields = tuple(
            Field(f"f{place}", for_avro(each.schema, at)) for place, each in enumerate(schema.fields)
        )
        return replace(schema, fields=fields, name=f"n.R{number}", version=None, doc=None, parameters={})
    return replace(
        schema,
        values=None if schema.values is None else for_avro(schema.values, at),
        keys=None if schema.keys is None else for_avro(schema.keys, at),
    )


@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter])
def test_random_structs_come_back_as_they_were_written(kind: Any, client: FakeClient) -> None:
    seed = random.randrange(1 << 32)
    values = RandomValues(random.Random(seed))
    made = converter(kind)
    for _ in range(60):
        schema = for_avro(values.struct_schema(2, defaults=False, optional=False), [0])
        value = values.value(schema)
        data = made.from_connect("t", schema, value)
        found_schema, found = made.to_connect("t", data)
        told = f"seed {seed} {tell_schema(schema)}"
        expected = tell(value, schema)
        no_json = any(word in json.dumps(expected) for word in ("NaN", "Infinity", "-0.0"))
        if kind is JsonSchemaConverter and no_json:
            continue
        assert tell(found, found_schema) == expected, told
        assert tell_schema(found_schema) == tell_schema(schema), told


def test_protobuf_structs_come_back_by_their_fields(client: FakeClient) -> None:
    inner = struct_schema((("x", OPTIONAL[Type.FLOAT64]),), name="p.Inner", optional=True)
    schema = struct_schema(
        (
            ("a", OPTIONAL[Type.INT32]),
            ("b", OPTIONAL[Type.STRING]),
            ("inner", inner),
            ("list", Schema(Type.ARRAY, optional=True, values=OPTIONAL[Type.INT64])),
            (
                "by_name",
                Schema(Type.MAP, optional=True, keys=OPTIONAL[Type.STRING], values=OPTIONAL[Type.BYTES]),
            ),
            ("by_number", Schema(Type.MAP, True, keys=Schema(Type.INT8), values=inner)),
            ("day", replace(DATE_SCHEMA, optional=True)),
            ("time", replace(TIME_SCHEMA, optional=True)),
            ("at", replace(TIMESTAMP_SCHEMA, optional=True)),
        ),
        name="p.Outer",
    )
    value = Struct(
        schema,
        {
            "a": None,
            "b": "x",
            "inner": Struct(inner, {"x": 1.5}),
            "list": [1, -(1 << 40)],
            "by_name": {"k": b"\0\1"},
            "by_number": {5: Struct(inner, {"x": 2.5})},
            "day": Moment(86_400_000 * 365),
            "time": Moment(12_345_678),
            "at": Moment(-1),
        },
    )
    made = converter(ProtobufConverter, optional_for_nullables="true")
    _, found = made.to_connect("t", made.from_connect("t", schema, value))
    assert found.schema.name == "p.Outer"
    named = replace(inner, name="p.Outer.Inner")
    for each in schema.fields:
        expected = value.values[each.name]
        if each.name == "inner":
            expected = Struct(named, {"x": 1.5})
        if each.name == "by_number":
            expected = {5: Struct(named, {"x": 2.5})}
        assert found.get(each.name) == expected, each.name


@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter, ProtobufConverter])
def test_null_is_null_and_unframed_bytes_are_refused(kind: Any, client: FakeClient) -> None:
    made = converter(kind)
    assert made.to_connect("t", None) == (None, None)
    assert made.from_connect("t", None, None) is None
    for data in (b"", b"\1\0\0\0\1", b"abc"):
        with pytest.raises(DataError, match="Unknown magic byte"):
            made.to_connect("t", data)
    with pytest.raises(DataError, match="40403"):
        made.to_connect("t", b"\0\0\0\0\x63x")


SCHEMA = struct_schema((("a", REQUIRED[Type.INT32]),), name="n.R")
VALUE = Struct(SCHEMA, {"a": 1})


@pytest.mark.parametrize(
    ("strategy", "is_key", "subject"),
    [
        ("TopicNameStrategy", False, "t-value"),
        ("TopicNameStrategy", True, "t-key"),
        ("RecordNameStrategy", False, "n.R"),
        ("TopicRecordNameStrategy", True, "t-n.R"),
    ],
)
def test_subjects_are_named_by_the_strategy(
    strategy: str, is_key: bool, subject: str, client: FakeClient
) -> None:
    name = f"io.confluent.kafka.serializers.subject.{strategy}"
    made = converter(AvroConverter, is_key, key_subject_name_strategy=name, value_subject_name_strategy=name)
    assert made.from_connect("t", SCHEMA, VALUE)[:5] == b"\0\0\0\0\1"
    assert client.subjects == [subject]


def test_a_schema_that_is_not_registered_is_refused_without_auto_register(client: FakeClient) -> None:
    made = converter(AvroConverter, auto_register_schemas="false")
    with pytest.raises(DataError, match="Schema not found"):
        made.from_connect("t", SCHEMA, VALUE)
    converter(AvroConverter).from_connect("t", SCHEMA, VALUE)
    assert made.from_connect("t", SCHEMA, VALUE) is not None


def test_a_registry_that_is_away_is_a_reason_to_try_again(client: FakeClient) -> None:
    client.problem = RegistryUnreachable("away")
    made = converter(AvroConverter)
    with pytest.raises(RetriableError):
        made.from_connect("t", SCHEMA, VALUE)
    with pytest.raises(RetriableError):
        made.to_connect("t", b"\0\0\0\0\1")


def test_the_address_of_the_registry_is_required() -> None:
    with pytest.raises(ConfigError, match="Missing required configuration"):
        AvroConverter().configure({}, False)


@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter, ProtobufConverter])
def test_damaged_bodies_are_refused_and_nothing_else(kind: Any, client: FakeClient) -> None:
    source = random.Random()
    made = converter(kind)
    schema = struct_schema((("a", REQUIRED[Type.STRING]), ("b", OPTIONAL[Type.INT64])), name="n.R")
    data = made.from_connect("t", schema, Struct(schema, {"a": "text", "b": 1 << 40}))
    for _ in range(100):
        at = source.randrange(5, len(data))
        broken = data[:at] + source.randbytes(source.randint(0, 3)) + data[at + source.randint(0, 2) :]
        try:
            made.to_connect("t", broken)
        except DataError:
            continue
