"""JSON Schemas with shared and recursive definitions: comparing each pair of them once gives the same result
as comparing each of their uses, in a number of steps that grows with the schemas and not with their
expansion.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from ottla.schemas.effort import Effort, TooMuchWork
from ottla.schemas.json_schema.comparison import Comparison
from ottla.schemas.json_schema.differences import COMPATIBLE, Difference
from ottla.schemas.json_schema.findings import Findings
from ottla.schemas.json_schema.json_schema_format import JsonSchema, JsonSchemaFormat
from ottla.schemas.model import CompatibilityPolicy

FORMAT = JsonSchemaFormat()
NAIVE_STEPS = 300_000
MOST = 5_000
"""The most differences to compare: expanded there may be a million."""

policies = st.sampled_from([CompatibilityPolicy.STRICT, CompatibilityPolicy.LENIENT])


class _Forgets(dict[Any, Any]):
    """The memory of a comparison that remembers no pairs."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


class _Drops(list[Any]):
    def append(self, item: Any) -> None:
        pass


def compared(
    old: JsonSchema, new: JsonSchema, policy: CompatibilityPolicy, *, naively: bool = False
) -> tuple[Findings, Comparison]:
    effort = Effort(NAIVE_STEPS) if naively else Effort()
    comparison = Comparison((old._graph, new._graph), COMPATIBLE[policy], effort)
    if naively:
        vars(comparison).update(_known=_Forgets(), _unsettled=_Drops())
    return comparison.differences(old._root, new._root), comparison


def parse(definitions: list[Any]) -> JsonSchema:
    named = {f"d{index}": definition for index, definition in enumerate(definitions)}
    root = {"definitions": named, "$ref": f"#/definitions/d{len(definitions) - 1}"}
    return FORMAT.parse(json.dumps(root), {})


leaves = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
        {"type": "string", "maxLength": 3},
        {"type": "string", "maxLength": 5},
        {"enum": ["x", "y"]},
        {},
        {"type": ["string", "integer"]},
    ]
)


@st.composite
def graphs(draw: st.DrawFn, *, cyclic: bool) -> list[Any]:
    """Definitions that refer to those before them; with `cyclic` to any."""
    count = draw(st.integers(2, 6))
    definitions: list[Any] = [draw(leaves)]
    for index in range(1, count):
        others = st.integers(0, count - 1 if cyclic else index - 1)
        reference = others.map(lambda other: {"$ref": f"#/definitions/d{other}"})
        one, two = draw(reference), draw(reference | leaves)
        shapes: list[Any] = [
            {"type": "object", "properties": {"a": one, "b": two}},
            {"type": "object", "properties": {"a": one}, "additionalProperties": two},
            {"type": "object", "properties": {"a": one, "b": two}, "additionalProperties": False},
            {"type": "object", "properties": {"b": one}, "patternProperties": {"^a": two}},
            {"anyOf": [one, two]},
            {"oneOf": [one, two]},
            {"allOf": [one, two]},
            {"type": "array", "items": one},
            {"type": "array", "contains": one},
            {"not": one},
            {"if": one, "then": two},
        ]
        definitions.append(draw(st.sampled_from(shapes)))
    return definitions


@st.composite
def pairs(draw: st.DrawFn, *, cyclic: bool) -> tuple[JsonSchema, JsonSchema]:
    """Two schemas: of one graph with some definitions exchanged, or of two."""
    before = draw(graphs(cyclic=cyclic))
    if draw(st.booleans()):
        after = draw(graphs(cyclic=cyclic))
    else:
        after = list(before)
        for index in draw(st.sets(st.integers(0, len(before) - 1), max_size=2)):
            after[index] = draw(leaves)
    return parse(before), parse(after)


def told(found: Findings) -> list[Difference]:
    return list(islice(found.all(), MOST))


@settings(deadline=None, max_examples=200)
@given(pairs(cyclic=False), policies)
def test_shared_definitions_compare_as_unshared_ones(
    schemas: tuple[JsonSchema, JsonSchema], policy: CompatibilityPolicy
) -> None:
    once, _ = compared(*schemas, policy)
    try:
        unshared, _ = compared(*schemas, policy, naively=True)
    except TooMuchWork:
        assume(False)
    event(f"incompatible: {once.is_bad}")
    assert once.is_bad is unshared.is_bad
    assert told(once) == told(unshared)


@settings(deadline=None, max_examples=300)
@given(pairs(cyclic=True), policies)
def test_recursive_schemas_are_judged_as_if_nothing_was_remembered(
    schemas: tuple[JsonSchema, JsonSchema], policy: CompatibilityPolicy
) -> None:
    try:
        unshared, _ = compared(*schemas, policy, naively=True)
    except (TooMuchWork, RecursionError):
        assume(False)
    once, comparison = compared(*schemas, policy)
    event(f"incompatible: {once.is_bad}")
    assert once.is_bad is unshared.is_bad
    bad = list(islice(once.all(COMPATIBLE[policy]), MOST))
    assert bool(bad) is once.is_bad
    subschemas = len(schemas[0]._graph.dialects) * len(schemas[1]._graph.dialects)
    # pairs in both orders (`contains`, `not`), and once more for each that is settled
    assert comparison.pairs <= (2 * subschemas + 10) ** 2


@pytest.mark.parametrize("leaves", [("string", "integer"), ("integer", "number"), ("string", "string")])
@pytest.mark.parametrize("depth", [8, 16, 32])
@pytest.mark.parametrize(
    "shape",
    [
        lambda below, top: {"type": "object", "properties": {"a": below, "b": below}},
        lambda below, top: {"allOf": [below, {"type": "object", "properties": {"a": below}}]},
        lambda below, top: {"anyOf": [below, {"type": "array", "items": below}]},
        lambda below, top: {"oneOf": [{"type": "array", "items": below}, {"items": below, "maxItems": 3}]},
        lambda below, top: {"properties": {"a": below, "b": below, "c": top}},
        lambda below, top: {"items": {"anyOf": [below, top, below]}},
    ],
    ids=["properties", "allOf", "anyOf", "oneOf", "recursive", "recursive anyOf"],
)
def test_steps_grow_with_definitions_and_not_with_their_expansion(
    shape: Any, depth: int, leaves: tuple[str, str]
) -> None:
    def schema(leaf: str) -> JsonSchema:
        top = {"$ref": f"#/definitions/d{depth}"}
        links = [{"type": leaf}]
        links += [shape({"$ref": f"#/definitions/d{index}"}, top) for index in range(depth)]
        return parse(links)

    old, new = schema(leaves[0]), schema(leaves[1])
    effort = Effort()
    comparison = Comparison((old._graph, new._graph), COMPATIBLE[CompatibilityPolicy.STRICT], effort)
    comparison.differences(old._root, new._root)
    assert comparison.pairs <= 4 * (depth + 1) ** 2
    assert len(new.incompatibilities(old)) <= 100


@pytest.mark.parametrize(
    "references",
    [
        {"P": {"a": "Q"}, "Q": {"a": "P"}},
        {"P": {"a": "M"}, "Q": {"a": "M"}, "M": {"a": "Q", "c": "P"}},
        {"P": {"a": "M"}, "Q": {"a": "M"}, "M": {"a": "N"}, "N": {"a": "Q", "c": "M", "d": "P"}},
        {"P": {"a": "M", "c": "Q"}, "M": {"a": "P"}, "Q": {"a": "M"}},
    ],
    ids=["directly", "through one that is compatible so far", "through two", "through one that was compared"],
)
def test_results_that_rest_on_a_pair_found_incompatible_are_forgotten(
    references: dict[str, dict[str, str]],
) -> None:
    """P no longer fits P, and Q, which leads to P, was found to fit while that was not known yet."""

    def part(name: str, below: dict[str, str], **more: Any) -> dict[str, Any]:
        properties: dict[str, Any] = {key: {"$ref": f"#/definitions/{to}"} for key, to in below.items()}
        return {"type": "object", "required": [name], "properties": {**properties, **more}}

    links = dict(references)
    p = links.pop("P")
    definitions = {name: part(name, below) for name, below in links.items()}
    leads_to_p = {"$ref": "#/definitions/Q"}
    before = {
        "definitions": {**definitions, "P": part("b", p, b={"type": "string"})},
        "anyOf": [{"$ref": "#/definitions/P"}, leads_to_p],
    }
    after = {
        "definitions": {**definitions, "P": part("b", p, b={"type": "integer"})},
        "anyOf": [{"$ref": "#/definitions/P"}, leads_to_p, {"required": ["b"]}],
    }
    old, new = FORMAT.parse(json.dumps(before), {}), FORMAT.parse(json.dumps(after), {})
    unshared, _ = compared(old, new, CompatibilityPolicy.STRICT, naively=True)
    once, _ = compared(old, new, CompatibilityPolicy.STRICT)
    assert unshared.is_bad
    assert once.is_bad
