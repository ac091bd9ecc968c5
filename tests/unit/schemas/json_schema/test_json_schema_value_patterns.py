"""Patterns on values: they mean what they mean to jsonschema, and none holds the process."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from ottla.schemas.json_schema.json_schema_format import JsonSchema, JsonSchemaFormat

SLOW = "^(a|aa)+$"
LONG = "a" * 60 + "!"


def parsed(schema: Any) -> JsonSchema:
    return JsonSchemaFormat().parse(json.dumps(schema), {})


@pytest.mark.parametrize(
    "schema, value",
    [
        ({"pattern": SLOW}, LONG),
        ({"patternProperties": {SLOW: {"type": "string"}}}, {LONG: 1}),
        ({"patternProperties": {SLOW: True}, "additionalProperties": False}, {LONG: 1}),
    ],
    ids=["pattern", "patternProperties", "additionalProperties"],
)
def test_a_pattern_that_does_not_end_is_a_reason(schema: Any, value: Any) -> None:
    (message,) = parsed(schema).validate(value)
    assert "takes longer than" in message


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^a.*z$"},
        {"patternProperties": {"^x-": {"type": "integer"}}},
        {"properties": {"a": {}}, "patternProperties": {"^x-": {}}, "additionalProperties": False},
        {"properties": {"a": {}}, "patternProperties": {"^x-": {}}, "additionalProperties": {"type": "null"}},
        {"additionalProperties": True},
    ],
)
@pytest.mark.parametrize(
    "value", ["abcz", "abc", 7, {}, {"a": 1}, {"x-1": 1}, {"x-1": "1", "b": None}, {"b": 2, "a": 3}, ["a"]]
)
@pytest.mark.parametrize("draft", ["draft-04", "draft-07", "draft/2020-12"])
def test_patterns_have_the_same_meaning_as_in_the_library(schema: Any, value: Any, draft: str) -> None:
    schema = {"$schema": f"https://json-schema.org/{draft}/schema", **schema}
    assert (not parsed(schema).validate(value)) is jsonschema.Draft7Validator(schema).is_valid(value)


def test_classes_of_letters_as_javascript_has_them() -> None:
    assert not parsed({"pattern": r"^\p{Lu}"}).validate("Ärger")
    assert parsed({"pattern": r"^\p{Lu}"}).validate("ärger")
