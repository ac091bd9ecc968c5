"""Schemas of a few kilobytes that mean a great deal of work: it is bounded, and counted in steps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from referencing import Registry

from ottla.registry.core.reading import SchemaRequest
from ottla.schemas.avro.avro_format import AvroFormat
from ottla.schemas.effort import Effort, TooMuchWork
from ottla.schemas.format import InvalidSchema, ParsedSchema
from ottla.schemas.formats import format_of
from ottla.schemas.json_schema.json_schema_format import JsonSchemaFormat
from ottla.schemas.json_schema.patterns import Patterns
from ottla.schemas.model import Reference, Schema, SchemaType
from support.registry.registry_core import InMemoryRegistry

JSON = JsonSchemaFormat()
LATEST = "https://json-schema.org/draft/2020-12/schema"


def doubling_json(depth: int, leaf: str) -> str:
    definitions: dict[str, Any] = {"d0": {"type": leaf}}
    for index in range(1, depth + 1):
        below = {"$ref": f"#/definitions/d{index - 1}"}
        definitions[f"d{index}"] = {"properties": {"a": below, "b": below}}
    return json.dumps({"definitions": definitions, "$ref": f"#/definitions/d{depth}"})


def doubling_avro(depth: int, leaf: str) -> str:
    fields: Any = [{"name": "a", "type": leaf}]
    record: Any = {"type": "record", "name": "R0", "fields": fields}
    for index in range(1, depth + 1):
        fields = [{"name": "a", "type": record}, {"name": "b", "type": f"R{index - 1}"}]
        record = {"type": "record", "name": f"R{index}", "fields": fields}
    return json.dumps(record)


def doubling_protobuf(depth: int, leaf: str) -> str:
    messages = [f"message M0 {{ {leaf} a = 1; }}"]
    messages += [f"message M{i} {{ M{i - 1} a = 1; M{i - 1} b = 2; }}" for i in range(1, depth + 1)]
    return "\n".join(['syntax = "proto3";', *messages])


@pytest.mark.parametrize(
    ("schema_type", "text", "leaves"),
    [
        (SchemaType.JSON, doubling_json, ("string", "integer")),
        (SchemaType.AVRO, doubling_avro, ("string", "int")),
        (SchemaType.PROTOBUF, doubling_protobuf, ("string", "int32")),
    ],
)
def test_definitions_that_refer_twice_to_the_one_before_take_steps_by_their_number(
    schema_type: SchemaType, text: Any, leaves: tuple[str, str]
) -> None:
    def steps(depth: int) -> int:
        parsing = format_of(schema_type)
        old, new = (parsing.parse(text(depth, leaf), {}, new=True) for leaf in leaves)
        effort = Effort()
        assert 1 <= len(new.incompatibilities(old, effort=effort)) <= 500
        assert new.normalized() == parsing.parse(new.normalized(), {}).normalized()
        assert len(new.formatted("resolved")) < 4 * len(text(depth, leaves[1]))
        return effort.spent

    assert steps(48) < 8 * steps(12)


def test_subjects_that_refer_twice_to_the_one_before_are_each_taken_once_by_name() -> None:
    registry = InMemoryRegistry()
    for index in range(14):
        below = [
            {"$ref": f"{name}{index - 1}.json"} if index else {"type": "string"} for name in ("left", "right")
        ]
        references = tuple(
            Reference(f"{name}{index - 1}.json", f"s{index - 1}", 1) for name in ("left", "right") if index
        )
        text = json.dumps({"type": "object", "properties": {"a": below[0], "b": below[1]}})
        request = SchemaRequest(Schema(SchemaType.JSON, text, references))
        registry.apply(registry.writes.register(f"s{index}", request))
        assert len(registry.reads.parser.referenced_texts(f"s{index}", references)) == 2 * index
        # another version of it, compared with the first
        wider = json.dumps({"type": "object", "properties": {"a": below[0], "b": below[1]}, "title": "T"})
        other = SchemaRequest(Schema(SchemaType.JSON, wider, references))
        assert registry.reads.incompatibilities(f"s{index}", None, other, normalize=True) == []


@pytest.mark.parametrize("kind", ["$anchor", "$id"])
def test_anchors_and_ids_are_looked_for_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    crawls = 0
    crawl = Registry.crawl

    def counted(self: Registry[Any]) -> Registry[Any]:
        nonlocal crawls
        crawls += bool(self._uncrawled)
        return crawl(self)

    monkeypatch.setattr(Registry, "crawl", counted)
    target = "#a{}" if kind == "$anchor" else "http://x/a{}"
    named = {f"d{i}": {kind: f"a{i}" if kind == "$anchor" else f"http://x/a{i}"} for i in range(200)}
    text = {"$schema": LATEST, "$defs": named, "allOf": [{"$ref": target.format(i)} for i in range(200)]}
    schema = JSON.parse(json.dumps(text), {})
    assert schema.validate(1) == []
    assert crawls <= 3


class _Counted(dict[str, int]):
    looks = 0

    def __len__(self) -> int:
        _Counted.looks += 1
        return super().__len__()


def test_objects_are_told_apart_without_comparing_each_with_each() -> None:
    schema = JSON.parse('{"uniqueItems": true}', {})
    _Counted.looks = 0
    assert schema.validate([_Counted(a=number) for number in range(300)]) == []
    assert _Counted.looks < 3_000
    assert len(schema.validate([{"a": 1}, {"a": 1.0}])) == 1
    assert schema.validate([[1], [True], 1, True, "1", None, 0, False]) == []


def test_a_list_of_objects_where_there_must_be_names_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="is not of type 'string'"):
        JSON.parse(json.dumps({"required": [{"a": index} for index in range(6_000)]}), {})


def test_searches_of_patterns_count_by_their_worst_case() -> None:
    def spent(pattern: str, name: str) -> int:
        effort = Effort()
        Patterns(effort).matches(pattern, name)
        return effort.spent

    assert spent("^S_", "a" * 200) < 100
    assert spent("^[a-z]+$", "a" * 20) < 100
    assert spent("a*a*b", "a" * 200) > 100_000
    with pytest.raises(TooMuchWork):
        patterns = Patterns(Effort())
        for number in range(100):
            patterns.matches(f"a*a*{number}", "a" * 200)


def test_schemas_too_large_to_be_compared_are_incompatible_and_say_so() -> None:
    def schema(limit: int) -> ParsedSchema:
        members = [{"type": "string", "maxLength": limit + index} for index in range(400)]
        return JSON.parse(json.dumps({"anyOf": members, "title": f"{limit}"}), {})

    (problem,) = schema(1).incompatibilities(schema(1_000))
    assert problem.type == "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
    assert "too large (some 40000 pairs of subschemas) to be compared" in problem.description
    with pytest.raises(TooMuchWork):
        schema(1).incompatibilities(schema(1_000), effort=Effort(10_000))


def test_repeated_comparisons_of_avro_count_too() -> None:
    """Unions of the same records in many fields: few pairs, asked for over and over."""

    def schema(leaf: str) -> ParsedSchema:
        records = [
            {"type": "record", "name": f"R{index}", "fields": [{"name": "a", "type": leaf}]}
            for index in range(40)
        ]
        names = [f"R{index}" for index in range(40)]
        fields = [{"name": f"f{index}", "type": names if index else records} for index in range(40)]
        return AvroFormat().parse(json.dumps({"type": "record", "name": "T", "fields": fields}), {})

    effort = Effort()
    assert schema("long").incompatibilities(schema("int"), effort=effort) == []
    assert effort.spent > 40 * 40 * 20
    with pytest.raises(TooMuchWork):
        schema("string").incompatibilities(schema("int"), effort=Effort(30_000))


def test_a_reason_that_would_be_megabytes_is_cut() -> None:
    registry = InMemoryRegistry()
    name = "n" * 300_000
    old = json.dumps({"properties": {name: {"properties": {f"p{i}": {"type": "string"} for i in range(90)}}}})
    registry.register("s", old, SchemaType.JSON)
    new = SchemaRequest(Schema(SchemaType.JSON, old.replace("string", "integer")))
    messages = registry.reads.incompatibilities("s", None, new)
    assert len(messages) == 93
    assert max(map(len, messages)) < 40_000


def test_a_value_is_not_checked_a_million_times_in_place() -> None:
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for index in range(1, 40):
        below = {"$ref": f"#/definitions/d{index - 1}"}
        definitions[f"d{index}"] = {"allOf": [below, below]}
    schema = JSON.parse(json.dumps({"definitions": definitions, "items": {"$ref": "#/definitions/d39"}}), {})
    assert schema.validate(["x"]) == ["the schema applies too many subschemas to one value to be checked"]
    assert schema.validate({}) == []
    # many values may take many steps
    plain = JSON.parse('{"items": {"allOf": [{"type": "integer"}, {"minimum": 0}]}}', {})
    assert plain.validate(list(range(12_000))) == []
