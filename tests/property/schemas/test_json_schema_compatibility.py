"""JSON Schema compatibility keeps its promise: valid data stays valid, for any schemas.

Two of Confluent's rules accept changes after which a validator refuses data, on purpose. A property with a
`default` may become required (readers fill the default in): the schemas drawn here have no defaults. And an
object, an array or a text with a pattern may come to fit two members of a `oneOf`: such a value is told
apart, and must then still fit one member at least. `format` is an annotation.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from ottla.schemas.format import InvalidSchema
from ottla.schemas.json_schema.dialects import (
    DRAFT_4,
    DRAFT_6,
    DRAFT_7,
    DRAFT_2019_09,
    DRAFT_2020_12,
    Dialect,
    check_against_meta_schema,
)
from ottla.schemas.json_schema.documents import json_key
from ottla.schemas.json_schema.json_schema_format import JsonSchema, JsonSchemaFormat
from ottla.schemas.model import CompatibilityPolicy
from support.exploration import examples

FORMAT = JsonSchemaFormat()
DRAFTS = {
    DRAFT_4: "http://json-schema.org/draft-04/schema#",
    DRAFT_6: "http://json-schema.org/draft-06/schema#",
    DRAFT_7: "http://json-schema.org/draft-07/schema#",
    DRAFT_2019_09: "https://json-schema.org/draft/2019-09/schema",
    DRAFT_2020_12: "https://json-schema.org/draft/2020-12/schema",
}
LATEST = DRAFTS[DRAFT_2020_12]
drafts = st.sampled_from(list(DRAFTS))
SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

NAMES = ("a", "b", "ab")
PATTERNS = ("^a", "b$")
COMBINING = ("allOf", "anyOf", "oneOf")
TYPES = ("string", "integer", "number", "object", "array", "null", "boolean")

small = st.integers(0, 3)
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 4),
    st.sampled_from([0.5, 1.0, 1.5]),
    st.text("ab", max_size=3),
)
json_values = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


def anything_or_nothing(draft: Dialect) -> st.SearchStrategy[Any]:
    """A schema that any value fits, or none; draft 4 has no booleans for them."""
    return st.sampled_from([{}, {"not": {}}] if draft is DRAFT_4 else [True, False])


def smallest(draft: Dialect) -> st.SearchStrategy[Any]:
    """Schemas of one keyword: members of sums that often overlap, and often are the same."""
    return anything_or_nothing(draft) | st.sampled_from(
        [
            {"type": "string"},
            {"type": "integer"},
            {"type": "number"},
            {"type": ["string", "null"]},
            {"minimum": 1},
            {"maxLength": 1},
            {"enum": [1, "a"]},
            {"required": ["a"]},
        ]
    )


@st.composite
def schemas(draw: st.DrawFn, depth: int, draft: Dialect) -> Any:
    """A schema of the draft; `$ref` leads to `#/definitions/d`."""
    if draw(st.integers(0, 11)) == 0:
        return draw(anything_or_nothing(draft))
    inner = schemas(depth - 1, draft) if depth else smallest(draft)
    groups = ["type", "string", "number", "values"]
    groups += ["object", "object", "array", "combined", "combined", "rest", "ref"] if depth else []
    schema: dict[str, Any] = {}
    for group in draw(st.lists(st.sampled_from(groups), min_size=1, max_size=3, unique=True)):
        schema.update(draw(_keywords(group, inner, draft)))
    return schema


@st.composite
def _keywords(draw: st.DrawFn, group: str, inner: st.SearchStrategy[Any], draft: Dialect) -> dict[str, Any]:
    choices: dict[str, st.SearchStrategy[Any]]
    match group:
        case "type":
            types = st.sampled_from(TYPES)
            choices = {"type": types | st.lists(types, min_size=1, max_size=3, unique=True)}
        case "string":
            choices = {"minLength": small, "maxLength": small, "pattern": st.sampled_from(PATTERNS)}
        case "number":
            limit = st.sampled_from([-1, 0, 0.5, 1, 2])
            choices = {"minimum": limit, "maximum": limit, "multipleOf": st.sampled_from([0.5, 1, 2, 4])}
            if draft is not DRAFT_4:
                choices |= {"exclusiveMinimum": limit, "exclusiveMaximum": limit}
        case "values":
            choices = {"enum": st.lists(json_values, min_size=1, max_size=3, unique_by=json_key)}
            if draft is not DRAFT_4:
                choices["const"] = json_values
        case "object":
            choices = _object_keywords(inner, draft)
        case "array":
            choices = _array_keywords(inner, draft)
        case "combined":
            several = st.lists(inner, min_size=1, max_size=3)
            choices = {"allOf": several, "anyOf": several, "oneOf": several, "not": inner}
        case "rest" if "if" in draft.keywords:
            choices = {"if": inner, "then": inner, "else": inner}
        case "rest":
            choices = {"not": inner}
        case _:
            choices = {"$ref": st.just("#/definitions/d")}
    count = draw(st.integers(1, 3))
    picked = draw(st.lists(st.sampled_from(sorted(choices)), min_size=1, max_size=count, unique=True))
    said = {keyword: draw(choices[keyword]) for keyword in picked}
    if draft is DRAFT_4:
        said |= {word: True for word, limit in EXCLUSIVE.items() if limit in said and draw(st.booleans())}
    return said


EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
"""In draft 4 a limit is marked as exclusive."""


def _object_keywords(inner: st.SearchStrategy[Any], draft: Dialect) -> dict[str, st.SearchStrategy[Any]]:
    names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)
    choices: dict[str, st.SearchStrategy[Any]] = {
        "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        "additionalProperties": st.booleans() | inner,
        "patternProperties": st.dictionaries(st.sampled_from(PATTERNS), inner, max_size=2),
        "required": names,
        "minProperties": small,
        "maxProperties": small,
        "propertyNames": inner,
        "dependentRequired": st.dictionaries(st.sampled_from(NAMES), names, max_size=2),
        "dependentSchemas": st.dictionaries(st.sampled_from(NAMES), inner, max_size=1),
        "unevaluatedProperties": st.booleans() | inner,
        "dependencies": st.dictionaries(st.sampled_from(NAMES), names | inner, max_size=2),
    }
    return {keyword: values for keyword, values in choices.items() if keyword in draft.keywords}


def _array_keywords(inner: st.SearchStrategy[Any], draft: Dialect) -> dict[str, st.SearchStrategy[Any]]:
    tuple_of = st.lists(inner, min_size=1, max_size=2)
    choices: dict[str, st.SearchStrategy[Any]] = {
        "minItems": small,
        "maxItems": small,
        "uniqueItems": st.booleans(),
        "contains": inner,
        "minContains": small,
        "maxContains": small,
        "items": inner if "prefixItems" in draft.keywords else inner | tuple_of,
        "prefixItems": tuple_of,
        "additionalItems": st.booleans() | inner,
        "unevaluatedItems": st.booleans() | inner,
    }
    return {keyword: values for keyword, values in choices.items() if keyword in draft.keywords}


@st.composite
def evolved(draw: st.DrawFn, schema: Any, draft: Dialect) -> Any:
    """`schema` with a few changes somewhere in it."""
    new = copy.deepcopy(schema)
    for _ in range(draw(st.integers(1, 2))):
        places = [place for place in _places(new, ()) if isinstance(_at(new, place), dict)]
        if not places:
            return draw(schemas(1, draft))
        place = draw(st.sampled_from(places))
        new = _replaced(new, place, _without_idle_marks(draw(_changed(_at(new, place), draft)), draft))
    return new


def _without_idle_marks(schema: Any, draft: Dialect) -> Any:
    """The schema without marks of limits that it does not have, which draft 4 refuses."""
    if draft is not DRAFT_4 or not isinstance(schema, dict):
        return schema
    return {
        name: value for name, value in schema.items() if name not in EXCLUSIVE or EXCLUSIVE[name] in schema
    }


@st.composite
def _changed(draw: st.DrawFn, schema: dict[str, Any], draft: Dialect) -> Any:
    combined = sorted(schema.keys() & set(COMBINING))
    changes = ["drop", "narrow", "more", "wider", "wrap", "another", "share", "split"]
    changes += ["criterion", "criterion", "member", "member"] if combined else []
    match draw(st.sampled_from(changes)):
        case "drop" if schema:
            gone = draw(st.sampled_from(sorted(schema)))
            return {name: value for name, value in schema.items() if name != gone}
        case "narrow":
            group = draw(st.sampled_from(["type", "string", "number", "values", "object", "array"]))
            return {**schema, **draw(_keywords(group, st.just({"type": "string"}), draft))}
        case "more":
            more = draw(schemas(1, draft))
            return {**schema, **more} if isinstance(more, dict) else schema
        case "wider":
            return {name: draw(_wider(name, value, draft)) for name, value in schema.items()}
        case "wrap":
            others = draw(st.lists(smallest(draft) | schemas(1, draft), max_size=2))
            return {draw(st.sampled_from(COMBINING)): draw(st.permutations([*others, schema]))}
        case "share":
            keyword = draw(st.sampled_from(COMBINING))
            return {**schema, keyword: [*schema.get(keyword, []), draw(schemas(1, draft))]}
        case "split" if isinstance(schema.get("type"), list):
            members = [{"type": name} for name in schema["type"]]
            rest = {name: value for name, value in schema.items() if name != "type"}
            return {**rest, draw(st.sampled_from(["anyOf", "oneOf"])): members}
        case "criterion":
            keyword = draw(st.sampled_from(combined))
            rest = {name: value for name, value in schema.items() if name != keyword}
            return {**rest, draw(st.sampled_from(COMBINING)): schema[keyword]}
        case "member":
            return draw(_with_other_members(schema, draw(st.sampled_from(combined)), draft))
        case _:
            return draw(schemas(1, draft))


@st.composite
def _with_other_members(draw: st.DrawFn, schema: dict[str, Any], keyword: str, draft: Dialect) -> Any:
    """The schema with one of the keyword's subschemas added, dropped, wider, or in another place."""
    members = list(schema[keyword])
    index = draw(st.integers(0, len(members) - 1))
    match draw(st.sampled_from(["add", "drop", "wider", "move"])):
        case "add":
            members.insert(index, draw(smallest(draft) | schemas(1, draft)))
        case "drop" if len(members) > 1:
            del members[index]
        case "wider" if isinstance(members[index], dict):
            members[index] = {
                name: draw(_wider(name, value, draft)) for name, value in members[index].items()
            }
        case _:
            members = draw(st.permutations(members))
    return {**schema, keyword: members}


@st.composite
def _wider(draw: st.DrawFn, keyword: str, value: Any, draft: Dialect) -> Any:
    """A value that more data fits, in most cases."""
    if draw(st.booleans()) or (draft is DRAFT_4 and keyword in EXCLUSIVE):
        return value
    match keyword, value:
        case (
            ("maxLength" | "maxItems" | "maxProperties" | "maximum" | "exclusiveMaximum" | "maxContains"),
            _,
        ):
            return value + 1
        case (("minLength" | "minItems" | "minProperties" | "minContains"), _):
            return max(0, value - 1)
        case (("minimum" | "exclusiveMinimum"), _):
            return value - 1
        case "required", list():
            return value[1:] or value
        case "enum", list():
            more = draw(json_values)
            return value if json_key(more) in map(json_key, value) else [*value, more]
        case (("anyOf" | "oneOf"), list()):
            return [*value, draw(schemas(1, draft))]
        case "allOf", list():
            return value[1:] or value
        case (("properties" | "patternProperties"), dict()):
            names = NAMES if keyword == "properties" else PATTERNS
            if value and draw(st.booleans()):
                gone = draw(st.sampled_from(sorted(value)))
                return {name: below for name, below in value.items() if name != gone}
            return {**value, draw(st.sampled_from(names)): draw(schemas(1, draft))}
        case (("additionalProperties" | "unevaluatedProperties" | "additionalItems"), _):
            return draw(st.booleans() | schemas(0, draft))
        case "type", str():
            return [value, "null"] if value != "null" else value
        case _:
            return value


def _places(value: Any, place: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The positions of schemas in `value`, itself included."""
    found = [place]
    if isinstance(value, dict):
        for name, below in value.items():
            if name in ("properties", "patternProperties", "dependentSchemas"):
                for inner, each in below.items():
                    found += _places(each, (*place, name, inner))
            elif name in (*COMBINING, "prefixItems") or (name == "items" and isinstance(below, list)):
                for index, each in enumerate(below):
                    found += _places(each, (*place, name, index))
            elif name not in ("enum", "const", "dependencies", "dependentRequired") and isinstance(
                below, dict
            ):
                found += _places(below, (*place, name))
    return found


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        value = value[step]
    return value


def _replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    copied = copy.copy(value)
    copied[place[0]] = _replaced(value[place[0]], place[1:], new)
    return copied


@st.composite
def values_of(draw: st.DrawFn, schema: Any, depth: int = 3) -> Any:
    """A value that is likely to fit `schema`."""
    if not isinstance(schema, dict) or depth == 0 or draw(st.integers(0, 9)) == 0:
        return draw(json_values)
    if "const" in schema or "enum" in schema:
        return draw(st.sampled_from(schema.get("enum", [schema.get("const")])))
    if draw(st.booleans()):
        for keyword in COMBINING:
            if keyword in schema:
                return draw(values_of(draw(st.sampled_from(schema[keyword])), depth - 1))
    types = schema.get("type", _likely_types(schema))
    match draw(st.sampled_from(types if isinstance(types, list) else [types])):
        case "object":
            names = [*schema.get("required", []), *draw(st.lists(st.sampled_from(NAMES), max_size=2))]
            known = schema.get("properties", {})
            rest = schema.get("additionalProperties", schema.get("unevaluatedProperties", True))
            return {name: draw(values_of(known.get(name, rest), depth - 1)) for name in names}
        case "array":
            items = schema.get("items", True)
            places = schema.get("prefixItems", items if isinstance(items, list) else [])
            rest = schema.get("additionalItems", True) if isinstance(items, list) else items
            count = draw(st.integers(0, 3))
            return [
                draw(values_of(places[index] if index < len(places) else rest, depth - 1))
                for index in range(count)
            ]
        case "string":
            return draw(st.text("ab", max_size=4))
        case "integer":
            return draw(st.integers(-2, 4))
        case "number":
            return draw(st.sampled_from([-1, 0, 0.5, 1, 1.5, 2, 3, 4.0]))
        case "boolean":
            return draw(st.booleans())
        case _:
            return None


def _likely_types(schema: dict[str, Any]) -> list[str]:
    said = " ".join(schema)
    likely = [
        name
        for name, words in (
            ("object", ("ropert", "required", "depend")),
            ("array", ("tems", "ontains")),
            ("string", ("Length", "pattern")),
            ("number", ("imum", "multiple")),
        )
        if any(word in said for word in words)
    ]
    return likely or list(TYPES)


def rooted(schema: Any, definition: Any, draft: Dialect) -> dict[str, Any]:
    """A document of it: the target of `$ref` may refer to itself, but only through its own properties."""
    return {"$schema": DRAFTS[draft], "allOf": [schema], "definitions": {"d": definition}}


def parsed(schema: Any) -> JsonSchema:
    return _parsed(json.dumps(schema))


@lru_cache(maxsize=8)
def _parsed(text: str) -> JsonSchema:
    return FORMAT.parse(text, {})


POOL: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 3, 0.5, 1.5, "", "a", "b", "ab", "bba", "aaaa"),
    *({}, {"a": 1}, {"a": "a"}, {"b": 1}, {"b": "a"}, {"ab": 1}, {"ab": "b"}, {"a": None, "b": 0.5}),
    *({"a": {}}, {"a": {"a": "x"}, "b": "y"}, {"a": 1, "b": 2, "ab": 3}, {"b": {"a": 1}, "ab": []}),
    *([], [1], ["a"], [0.5], [1, 1], ["a", 1], [1, "a"], [1, 2, 3], ["a", "a", "a"], [{"a": 1}], [[1]]),
)
"""Values that distinguish most of the schemas drawn here."""
DEFINITIONS = (
    {"type": "object", "properties": {"a": {"$ref": "#/definitions/d"}}, "additionalProperties": False},
    {"type": ["object", "null"], "additionalProperties": {"$ref": "#/definitions/d"}},
    {"properties": {"a": {"$ref": "#/definitions/d"}, "b": {"type": "string"}}, "required": ["b"]},
    {"type": "array", "items": {"$ref": "#/definitions/d"}},
)


@settings(SETTINGS, max_examples=examples(200, 5_000))
@given(st.data(), drafts)
def test_data_of_the_old_schema_fits_a_compatible_new_one(data: st.DataObject, draft: Dialect) -> None:
    definitions = st.sampled_from(DEFINITIONS)
    old_schema = data.draw(schemas(data.draw(st.integers(0, 2)), draft), "old")
    new_schema = data.draw(evolved(old_schema, draft), "new")
    old_definition = data.draw(definitions)
    new_definition = data.draw(st.just(old_definition) | definitions)
    old = rooted(old_schema, old_definition, draft)
    new = rooted(new_schema, new_definition, draft)
    for written, reader, hint in ((old, new, old_schema), (new, old, new_schema)):
        if parsed(reader).incompatibilities(parsed(written)):
            continue
        event("compatible")
        for value in (*POOL, *data.draw(st.lists(values_of(hint), max_size=4))):
            if not parsed(written).validate(value):
                event("compatible, with a value that fits")
                assert not parsed(reader).validate(value) or is_shared_by_the_rules(reader, value)


def is_shared_by_the_rules(document: Any, value: Any) -> bool:
    """Whether a value is refused only as objects, arrays or texts with a pattern fit several members."""
    found = parsed(document)._validator.iter_errors(value)
    shared = [each for error in found for each in _fitting_several(error)]
    is_allowed = any(
        isinstance(each, (dict, list)) or (isinstance(each, str) and "pattern" in json.dumps(document))
        for each in shared
    )
    return is_allowed and not parsed(with_any_of(document)).validate(value)


def _fitting_several(error: Any) -> Iterator[Any]:
    """The parts of the value that fit several members of a `oneOf`."""
    if error.validator == "oneOf" and "is valid under each of" in error.message:
        yield error.instance
    for below in error.context or ():
        yield from _fitting_several(below)


def with_any_of(schema: Any) -> Any:
    """The schema with `anyOf` for each `oneOf` that is not within a negation or a condition."""
    match schema:
        case list():
            return [with_any_of(each) for each in schema]
        case dict():
            kept = {
                name: below if name in ("enum", "const", "not", "if", "required") else with_any_of(below)
                for name, below in schema.items()
                if name != "oneOf"
            }
            if isinstance(schema.get("oneOf"), list):
                kept["allOf"] = [*kept.get("allOf", []), {"anyOf": with_any_of(schema["oneOf"])}]
            return kept
    return schema


leaves = st.sampled_from(
    [True, False, {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"minimum": 1}]
)
limits = st.integers(0, 2)
FAMILIES: dict[str, st.SearchStrategy[Any]] = {
    "numbers": st.fixed_dictionaries(
        {"type": st.sampled_from(["number", "integer", ["number", "null"]])},
        optional={
            "minimum": limits,
            "maximum": limits,
            "exclusiveMinimum": limits,
            "exclusiveMaximum": limits,
            "multipleOf": st.sampled_from([0.5, 1, 2]),
        },
    ),
    "strings": st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={"minLength": limits, "maxLength": limits, "pattern": st.sampled_from(PATTERNS)},
    ),
    "objects": st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.sampled_from(NAMES), leaves, max_size=2),
            "additionalProperties": leaves,
            "patternProperties": st.dictionaries(st.sampled_from(PATTERNS), leaves, max_size=1),
            "required": st.lists(st.sampled_from(NAMES), max_size=1),
        },
    ),
    "arrays": st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": leaves | st.lists(leaves, min_size=1, max_size=2),
            "additionalItems": leaves,
            "uniqueItems": st.booleans(),
            "contains": leaves,
            "maxItems": limits,
        },
    ),
    "combinations": st.fixed_dictionaries(
        {},
        optional={
            "anyOf": st.lists(leaves, min_size=1, max_size=3),
            "oneOf": st.lists(leaves, min_size=1, max_size=3),
            "allOf": st.lists(leaves, min_size=1, max_size=2),
            "not": leaves,
            "type": st.sampled_from(["string", "number", ["string", "integer"]]),
            "enum": st.lists(st.sampled_from([1, 1.5, "a"]), min_size=1, unique=True),
        },
    ),
}
"""Schemas so small that one or two keywords of another one make a significant change."""


@pytest.mark.parametrize("family", FAMILIES)
def test_data_of_a_small_schema_fits_any_compatible_one(family: str) -> None:
    @settings(SETTINGS, max_examples=examples(250, 2_500))
    @given(FAMILIES[family], FAMILIES[family], st.data())
    def every_value_still_fits(old_schema: Any, other: Any, data: st.DataObject) -> None:
        words = sorted(old_schema.keys() | other.keys())
        changed = data.draw(st.sets(st.sampled_from(words), max_size=2)) if words else set()
        new_schema = {name: value for name, value in old_schema.items() if name not in changed}
        new_schema |= {name: value for name, value in other.items() if name in changed}
        old, new = parsed(old_schema), parsed(new_schema)
        if not new.incompatibilities(old):
            lost = [value for value in POOL if not old.validate(value) and new.validate(value)]
            assert [value for value in lost if not is_shared_by_the_rules(new_schema, value)] == []

    every_value_still_fits()


@settings(SETTINGS, max_examples=60)
@given(st.data(), drafts)
def test_a_schema_is_compatible_with_itself_under_all_policies(data: st.DataObject, draft: Dialect) -> None:
    schema = rooted(data.draw(schemas(3, draft)), data.draw(st.sampled_from(DEFINITIONS)), draft)
    one, other = parsed(schema), parsed({**schema, "title": "other"})

    for policy in CompatibilityPolicy:
        assert one.incompatibilities(one, policy) == []
        assert one.incompatibilities(other, policy) == []
        assert other.incompatibilities(one, policy) == []


@settings(SETTINGS, max_examples=40)
@given(st.data(), drafts)
def test_the_normal_form_is_its_own_and_means_the_same(data: st.DataObject, draft: Dialect) -> None:
    schema = parsed(rooted(data.draw(schemas(3, draft)), data.draw(st.sampled_from(DEFINITIONS)), draft))

    normal = FORMAT.parse(schema.normalized(), {})

    assert normal.normalized() == normal.canonical_text == schema.normalized()
    assert FORMAT.parse(schema.canonical_text, {}).canonical_text == schema.canonical_text
    assert not normal.incompatibilities(schema)
    assert not schema.incompatibilities(normal)
    for value in data.draw(st.lists(json_values, max_size=4)):
        assert bool(schema.validate(value)) == bool(normal.validate(value))


@settings(SETTINGS, max_examples=120)
@given(st.data())
def test_parsing_a_spoilt_text_raises_nothing_but_invalid_schema(data: st.DataObject) -> None:
    draft = data.draw(drafts)
    text = json.dumps(rooted(data.draw(schemas(2, draft)), DEFINITIONS[0], draft))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    put = data.draw(
        st.text(max_size=4)
        | st.sampled_from(
            ["1e999", "-", "null", "[[[[", '"$ref":"http://[",', '"$id":5,', '{"$ref":{}}', "9" * 5000]
        )
    )
    spoilt = text[:start] + put + text[end:]

    for references in ({}, {"a": spoilt}):
        try:
            schema = FORMAT.parse(spoilt if not references else '{"$ref":"a"}', references)
        except InvalidSchema:
            continue
        schema.incompatibilities(parsed(True))
        schema.validate({"a": [1]})


# fmt: off
keywords = st.sampled_from(
    ["$ref", "$id", "id", "$schema", "$anchor", "$dynamicRef", "$recursiveRef", "$defs", "definitions", "x",
     "type", "properties", "items", "allOf", "not", "if", "then", "enum", "const", "required", "dependencies",
     "title", "unevaluatedProperties", "patternProperties", "minimum", "maximum", "exclusiveMaximum",
     "multipleOf", "dependentSchemas", "format", "contains", "minContains"]
)
# fmt: on
strings = st.sampled_from(
    ["#", "#/", "a", "#a", "#/definitions/a", "a#b", "http://[", "%", "\ud800", "(", LATEST]
)
anything = st.recursive(
    atoms | strings | st.just(10**30) | st.just(1e308),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keywords | strings, inner, max_size=4),
    max_leaves=12,
)


@settings(SETTINGS, max_examples=300)
@given(anything)
def test_parsing_any_json_raises_nothing_but_invalid_schema(document: Any) -> None:
    try:
        schema = FORMAT.parse(json.dumps(document), {"a": json.dumps(document)})
    except InvalidSchema:
        return
    assert schema.incompatibilities(schema) == []
    schema.incompatibilities(parsed({"type": "string"}))
    parsed({"type": "string"}).incompatibilities(schema)
    schema.validate([{"a": "b"}])


@settings(SETTINGS, max_examples=300)
@given(st.dictionaries(keywords, anything, max_size=4), st.sampled_from([DRAFT_2019_09, DRAFT_2020_12]))
def test_a_meta_schema_in_one_agrees_with_the_one_in_parts(document: Any, dialect: Dialect) -> None:
    in_parts: Any = dialect.validator
    document = {name: value for name, value in document.items() if name != "$schema"}

    try:
        check_against_meta_schema(document, dialect)
        fits = True
    except InvalidSchema:
        fits = False

    assert in_parts(in_parts.META_SCHEMA).is_valid(document) is fits


@settings(SETTINGS, max_examples=30)
@given(
    st.integers(1, 400),
    st.sampled_from(["not", "items", "properties", "allOf"]),
    st.sampled_from([LATEST, ""]),
)
def test_parsing_a_deeply_nested_schema_raises_nothing_but_invalid_schema(
    depth: int, keyword: str, draft: str
) -> None:
    opening, closing = {"properties": ('{"properties":{"a":', "}}"), "allOf": ('{"allOf":[', "]}")}.get(
        keyword, (f'{{"{keyword}":', "}")
    )
    text = opening * depth + "{}" + closing * depth
    if draft:
        text = f'{{"$schema":"{draft}",{text[1:]}'

    try:
        schema = FORMAT.parse(text, {})
    except InvalidSchema:
        return
    schema.incompatibilities(parsed(True))
