"""Datagen: schemas to values, the same record from the same offset, pace."""

from __future__ import annotations

import decimal
import json
import random
import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from ottla.config.errors import ConfigError
from ottla.connect.connectors.datagen import source as datagen
from ottla.connect.connectors.datagen.generator import SchemaError, compile_avro
from ottla.connect.connectors.datagen.patterns import drawer
from ottla.connect.connectors.datagen.quickstarts import QUICKSTARTS
from ottla.connect.connectors.datagen.source import DatagenSource
from ottla.connect.connectors.plain import plain
from ottla.connect.data.schema import DECIMAL, TIMESTAMP, Moment, Type
from ottla.connect.testing import check_source, read_records, settings_of

FAST = {"kafka.topic": "made", "max.interval": "0"}


def _source(**texts: str) -> DatagenSource:
    given = {name.replace("_", "."): text for name, text in texts.items()}
    return DatagenSource(settings_of(DatagenSource, {**FAST, **given}))


def _drawn(avro: Any, count: int = 50) -> list[Any]:
    generator = compile_avro(avro)
    return [plain(generator.draw(random.Random(number), number)) for number in range(count)]


def _arguments(kind: str, **arguments: Any) -> Any:
    return {"type": kind, "arg.properties": arguments}


@pytest.mark.parametrize("quickstart", QUICKSTARTS)
def test_each_quickstart_goes_on_at_each_offset_with_the_same_records(quickstart: str) -> None:
    texts = {"quickstart": quickstart.upper(), "iterations": "30", "random_seed": "7", "tasks_max": "2"}
    found = check_source(lambda: _source(**texts), restarts=8)
    assert len(found) == 60
    key_field = QUICKSTARTS[quickstart].key_field
    for each in found:
        assert each.record.key == each.record.value.get(key_field)
        assert each.record.key_schema == each.record.value_schema.field(key_field).schema  # type: ignore[union-attr]
    tasks = [
        [plain(each.record.value) for each in found if each.source_partition["task.id"] == task]
        for task in (0, 1)
    ]
    assert tasks[0] != tasks[1]


def test_without_a_seed_the_offset_keeps_the_one_that_was_drawn() -> None:
    source = _source(quickstart="users")
    whole = read_records(source, {"task.id": 0}, limit=20)
    rest = read_records(_source(quickstart="users"), {"task.id": 0}, whole[9].source_offset, limit=10)
    assert rest == whole[10:]
    assert read_records(source, {"task.id": 0}, limit=20) != whole


def test_records_come_at_their_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    settings = settings_of(
        DatagenSource, {**FAST, "max.interval": "100", "quickstart": "users", "random.seed": "1"}
    )
    batches = DatagenSource(settings, now=lambda: clock[0]).read({"task.id": 0}, None)
    assert len(next(batches)) == 1
    assert next(batches) == []
    clock[0] = 1.0
    assert 10 < len(next(batches)) < 40
    clock[0] = 1000.0  # held up: the records of the time before are not made
    assert len(next(batches)) < 40


def test_an_endless_source_gives_bounded_batches() -> None:
    batches = _source(quickstart="users").read({"task.id": 0}, None)
    assert [len(batch) for batch in islice(batches, 3)] == [datagen.BATCH_RECORDS] * 3


@pytest.mark.parametrize(
    "pattern",
    [
        "abc",
        "[a-c]+x?",
        "(one|two){2,3}",
        r"\d{3}-\w\s[^a-z]",
        "a.b",
        "x*?y",
        "^(?:a|[^b])$",
        "[0-9]{4}(-[0-9]{4}){3}",
    ],
)
def test_drawn_texts_match_their_expression(pattern: str) -> None:
    draw = drawer(pattern)
    for seed in range(100):
        assert re.fullmatch(pattern, draw(random.Random(seed)))


@pytest.mark.parametrize("pattern", ["(", "a{1,99999}", r"(a)\1", "[^\x00-\x7f]"])
def test_expressions_without_texts_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"regular expression|class"):
        drawer(pattern)


def test_arguments_of_the_random_generator() -> None:
    assert set(_drawn(_arguments("int", range={"min": 3, "max": 5}))) == {3, 4, 5}
    assert all(
        0.5 <= value <= 0.75 for value in _drawn(_arguments("double", range={"min": 0.5, "max": 0.75}))
    )
    assert set(_drawn(_arguments("string", options=["a", "b"]))) == {"a", "b"}
    assert {len(value) for value in _drawn(_arguments("string", length=7))} == {7}
    assert all(
        re.fullmatch("<[0-9]>", value)
        for value in _drawn(_arguments("string", regex="[0-9]", prefix="<", suffix=">"))
    )
    assert set(_drawn(_arguments("boolean", odds=1.0))) == {True}
    assert _drawn(_arguments("long", iteration={"start": 5, "step": 2}), 4) == [5, 7, 9, 11]
    assert _drawn(_arguments("int", iteration={"start": 0, "restart": 3}), 5) == [0, 1, 2, 0, 1]
    assert _drawn(_arguments("int", iteration={"start": 0, "restart": 3, "initial": 2}), 3) == [2, 0, 1]
    assert _drawn(_arguments("int", iteration={"start": 3, "restart": 0}), 4) == [3, 2, 1, 3]
    assert _drawn(_arguments("string", iteration={"start": 1}, prefix="id-"), 2) == ["id-1", "id-2"]
    assert {None} < set(_drawn(["null", "int"]))
    assert {
        len(value) for value in _drawn({"type": "array", "items": "int", "arg.properties": {"length": 2}})
    } == {2}
    maps = _drawn(
        {"type": "map", "values": "int", "arg.properties": {"length": 1, "keys": {"options": ["k"]}}}
    )
    assert {tuple(value) for value in maps} == {("k",)}
    assert set(_drawn({"type": "enum", "name": "E", "symbols": ["X", "Y"]})) == {"X", "Y"}


def test_logical_types_are_connects() -> None:
    stamp = compile_avro(
        {"type": "long", "logicalType": "timestamp-millis", "arg.properties": {"range": {"min": 5, "max": 5}}}
    )
    assert (stamp.schema.name, stamp.draw(random.Random(1), 0)) == (TIMESTAMP, Moment(5))
    price = compile_avro({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2})
    value = price.draw(random.Random(1), 0)
    assert price.schema.name == DECIMAL
    assert isinstance(value, decimal.Decimal)
    assert value.as_tuple().exponent == -2


def test_a_schema_names_its_records_and_optional_fields(tmp_path: Path) -> None:
    avro = {
        "type": "record",
        "name": "order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": _arguments("int", iteration={"start": 1})},
            {"name": "note", "type": ["null", "string"]},
            {
                "name": "to",
                "type": {"type": "record", "name": "place", "fields": [{"name": "city", "type": "string"}]},
            },
            {"name": "from", "type": "place"},
        ],
    }
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(avro))
    (record,) = read_records(
        _source(schema_filename=str(path), schema_keyfield="id"), {"task.id": 0}, limit=1
    )
    schema = record.record.value_schema
    assert schema is not None
    assert schema.name == "shop.order"
    assert [(each.name, each.schema.type, each.schema.optional) for each in schema.fields] == [
        ("id", Type.INT32, False),
        ("note", Type.STRING, True),
        ("to", Type.STRUCT, False),
        ("from", Type.STRUCT, False),
    ]
    assert record.record.key == 1


@pytest.mark.parametrize(
    ("avro", "place"),
    [
        ("decimal", "there is no type"),
        ({}, "neither a type's name"),
        (["int", "string"], "a union is of null"),
        ({"type": "record", "name": "r", "fields": [{"name": "f"}]}, "a field needs"),
        (
            {"type": "record", "name": "r", "fields": [{"name": "f", "type": "int"}] * 2},
            r"schema\.f: two fields",
        ),
        (_arguments("int", range={"min": 5, "max": 1}), "range"),
        (_arguments("int", range={"min": "a"}), "range"),
        (_arguments("int", options=[]), "options"),
        (_arguments("int", options=["x"]), "is no int32"),
        (_arguments("int", options=[True]), "is no int32"),
        (_arguments("string", regex="("), "regular expression"),
        (_arguments("string", length={"min": 5}), "length"),
        (_arguments("string", length=10**9), "length"),
        (_arguments("int", iteration={}), "start"),
        (_arguments("int", iteration={"start": 1, "step": 0}), "not 0"),
        (_arguments("int", iteration={"start": 1, "restart": 5, "step": -1}), "from its start"),
        (_arguments("boolean", iteration={"start": 1}), "can't be an iteration"),
        (_arguments("boolean", odds=2), "odds"),
        ({"type": "enum", "name": "e"}, "symbols"),
        ({"type": "array"}, r"schema\[\]"),
        ({"type": "fixed", "name": "f"}, "size"),
    ],
)
def test_schemas_that_can_not_be_are_refused_with_their_place(avro: Any, place: str) -> None:
    with pytest.raises(SchemaError, match=place):
        compile_avro(avro)


def test_a_schema_that_is_nested_too_deep_is_refused() -> None:
    avro: Any = "int"
    for _ in range(100):
        avro = {"type": "array", "items": avro}
    with pytest.raises(SchemaError, match="deeper than"):
        compile_avro(avro)


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({"kafka.topic": "t"}, "quickstart: exactly one of"),
        ({"quickstart": "users"}, "kafka.topic"),
        ({"kafka.topic": "t", "quickstart": "user"}, "quickstart=user"),
        ({"kafka.topic": "t", "quickstart": "users", "schema.string": '"int"'}, "not 2"),
        ({"kafka.topic": "t", "schema.string": "{"}, "schema.string={"),
        ({"kafka.topic": "t", "schema.filename": "/nowhere/x.avsc"}, "schema.filename.*No such file"),
        (
            {"kafka.topic": "t", "quickstart": "users", "schema.keyfield": "x"},
            "schema.keyfield=x.*registertime",
        ),
        ({"kafka.topic": "t", "quickstart": "users", "max.interval": "-1"}, "max.interval=-1"),
    ],
)
def test_bad_settings_are_named(texts: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        DatagenSource(settings_of(DatagenSource, texts))
