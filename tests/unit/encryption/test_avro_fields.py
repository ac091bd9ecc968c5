"""Which fields of an Avro value are changed: by tags of their own, by the metadata's, and never too few."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.schema_registry.wildcard_matcher import wildcard_match
from fastavro import parse_schema
from hypothesis import given
from hypothesis import strategies as st

from ottla.encryption.avro_fields import AvroFields, OtherShape, matches

PII = {"confluent:tags": ["PII"]}
NODE = {
    "type": "record",
    "name": "Node",
    "namespace": "n.s",
    "fields": [
        {"name": "open", "type": "string"},
        {"name": "name", "type": "string", **PII},
        {"name": "next", "type": ["null", "Node"], "default": None},
        {"name": "others", "type": {"type": "array", "items": "n.s.Node"}, "default": []},
        {"name": "map", "type": {"type": "map", "values": ["null", "bytes"]}, "default": {}, **PII},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A"]}, "default": "A"},
    ],
}


def fields(schema: Any, tags: tuple[str, ...] = ("PII",), **paths: list[str]) -> AvroFields:
    named: dict[str, Any] = {}
    given_paths = {path.replace("_", "."): found for path, found in paths.items()}
    return AvroFields(parse_schema(json.loads(json.dumps(schema)), named), named, tags, given_paths)


def marked(kind: str, value: Any) -> Any:
    return f"<{kind}:{value}>"


def node(text: str, /, **more: Any) -> dict[str, Any]:
    return {"open": text, "name": text, "next": None, "others": [], "map": {}, "kind": "A", **more}


def test_tagged_fields_are_changed_wherever_their_record_is() -> None:
    value = node(
        "a",
        next={"n.s.Node": node("b", others=[node("c", map={"x": None, "y": {"bytes": "z"}})])},
    )
    assert fields(NODE).changed(value, marked) == node(
        "a",
        name="<string:a>",
        next={
            "n.s.Node": node(
                "b",
                name="<string:b>",
                others=[node("c", name="<string:c>", map={"x": None, "y": {"bytes": "<bytes:z>"}})],
            )
        },
    )
    assert value["name"] == "a", "the value that was given stays as it is"


def test_tags_of_the_metadata_count_too_and_no_tags_mean_all_fields() -> None:
    by_path = fields(NODE, ("PII",), n_s_Node_open=["OTHER", "PII"])
    assert by_path.changed(node("a"), marked) == node("a", open="<string:a>", name="<string:a>")
    by_pattern = AvroFields(by_path.schema, by_path.named, ("X",), {"**.name": ["X"], "*.open": ["X"]})
    assert by_pattern.changed(node("a"), marked) == node("a", name="<string:a>")
    every = fields(NODE, ())
    changed = every.changed(node("a"), marked)
    assert (changed["open"], changed["kind"]) == ("<string:a>", "<enum:A>")
    assert fields("string", ()).changed("a", marked) == "a", "a value that is no field has no tags"


def test_missing_fields_are_changed_from_their_defaults() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": "string", "default": "x", **PII},
            {"name": "b", "type": ["string", "null"], "default": "y", **PII},
            {"name": "c", "type": {"type": "array", "items": "string"}, "default": ["z"], **PII},
            {
                "name": "d",
                "type": {"type": "record", "name": "D", "fields": [{"name": "e", "type": "string", **PII}]},
                "default": {"e": "v"},
            },
            {"name": "f", "type": "int", "default": 7},
        ],
    }
    assert fields(schema).changed({}, marked) == {
        "a": "<string:x>",
        "b": {"string": "<string:y>"},
        "c": ["<string:z>"],
        "d": {"e": "<string:v>"},
        "f": 7,
    }


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (NODE, "a"),
        (NODE, {"open": "a"}),
        (NODE, node("a", next="b")),
        (NODE, node("a", next={"Node": node("b")})),
        (NODE, node("a", next={"n.s.Node": node("b"), "null": None})),
        (NODE, node("a", others={})),
        (NODE, node("a", map=[])),
        (NODE, node("a", map={"x": "bare"})),
    ],
)
def test_a_value_of_another_shape_is_refused_not_left_as_it_is(schema: Any, value: Any) -> None:
    with pytest.raises(OtherShape):
        fields(schema).changed(value, marked)


parts = st.text("ab.*?+(\\[", max_size=8)


@given(st.text("ab.", max_size=8), parts)
def test_patterns_match_as_confluent_s_client_has_it(name: str, pattern: str) -> None:
    if "\\" not in pattern and "[" not in pattern:  # which the client leaves to the regular expression
        assert matches(name, pattern) is wildcard_match(name, pattern)
    assert matches("[a", "[a") and matches("a\\b", "a\\b")
