"""JSON Schema texts: valid schemas, their stored text, their references, and values that fit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.schemas.avro.avro_format import AvroFormat
from ottla.schemas.effort import Effort
from ottla.schemas.format import InvalidSchema
from ottla.schemas.formats import format_of
from ottla.schemas.json_schema.differences import COMPATIBLE, Difference, Kind, describe
from ottla.schemas.json_schema.documents import MAX_DEPTH, MAX_TEXT_CHARACTERS, MAX_VALUES
from ottla.schemas.json_schema.json_schema_format import (
    MAX_INCOMPATIBILITIES,
    MAX_MESSAGES,
    JsonSchema,
    JsonSchemaFormat,
)
from ottla.schemas.json_schema.matching import maximum_matching
from ottla.schemas.json_schema.patterns import Patterns
from ottla.schemas.model import CompatibilityPolicy, SchemaType

FORMAT = JsonSchemaFormat()
DRAFTS = {
    "4": "http://json-schema.org/draft-04/schema#",
    "6": "http://json-schema.org/draft-06/schema#",
    "7": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}


def parse(schema: Any, references: dict[str, Any] | None = None) -> JsonSchema:
    texts = {name: json.dumps(each) for name, each in (references or {}).items()}
    return FORMAT.parse(json.dumps(schema), texts)


def test_the_format_is_found_by_its_type() -> None:
    found = format_of(SchemaType.JSON)

    assert isinstance(found, JsonSchemaFormat)
    assert found.schema_type is found.parse("true", {}).schema_type is SchemaType.JSON


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (' { "type" : "string" } ', '{"type":"string"}'),
        ('{"type":"object","title":"T"}', '{"type":"object","title":"T"}'),
        ("true", "true"),
        (" false\n", "false"),
        ("{}", "{}"),
        ('{"title":"a","title":"b"}', '{"title":"b"}'),
        ('{"maximum":1.10,"minimum":-1E+2}', '{"maximum":1.10,"minimum":-1E+2}'),
        ('{"maximum":1e999}', '{"maximum":1e999}'),
        ('{"maximum":9223372036854775808}', '{"maximum":9223372036854775808}'),
        ('{"enum":[123456789012345678901234567890]}', '{"enum":[123456789012345678901234567890]}'),
        ('{"title":"\\u00e9\\u0001 \\/"}', '{"title":"é\\u0001 /"}'),
        ('{"custom":{"x":[1,2]}}', '{"custom":{"x":[1,2]}}'),
    ],
)
def test_the_canonical_text_has_no_blanks_and_keeps_order_and_spelling(text: str, stored: str) -> None:
    assert FORMAT.parse(text, {}).canonical_text == stored
    assert FORMAT.parse(stored, {}).canonical_text == stored


def test_the_normal_form_sorts_keys_at_every_level_and_nothing_else() -> None:
    text = '{"type":["string","null"],"a":{"d":1.0,"c":{"f":2,"e":3}},"enum":[{"z":1,"y":2}]}'
    schema = FORMAT.parse(text, {})

    assert schema.normalized() == (
        '{"a":{"c":{"e":3,"f":2},"d":1.0},"enum":[{"y":2,"z":1}],"type":["string","null"]}'
    )


def test_the_name_is_the_title() -> None:
    assert parse({"title": "User"}).name == "User"
    assert parse({}).name is None
    assert parse(True).name is None


def test_there_are_no_other_formats_of_the_text() -> None:
    assert parse({"b": 1, "a": 2}).formatted("resolved") == '{"b":1,"a":2}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ('{"a":1}}', "not JSON"),
        ("{'a':1}", "not JSON"),
        ('{"maximum":NaN}', "NaN"),
        ('{"maximum":-Infinity}', "Infinity"),
        ("\ufeff{}", "not JSON"),
        ("null", "an object or a boolean"),
        ("5", "an object or a boolean"),
        ('"string"', "an object or a boolean"),
        ("[]", "an object or a boolean"),
        ('{"type":"strin"}', "$.type"),
        ('{"type":5}', "$.type"),
        ('{"properties":[]}', "$.properties"),
        ('{"properties":{"a":{"minLength":-1}}}', "$.properties.a.minLength"),
        ('{"multipleOf":0}', "$.multipleOf"),
        ('{"required":"a"}', "$.required"),
        ('{"title":5}', "$.title"),
        ('{"$schema":7}', "$schema"),
        ('{"$id":7}', "$id"),
        ('{"$ref":7}', "$ref"),
        ('{"$ref":"#/definitions/none"}', "#/definitions/none"),
        ('{"$ref":"#none"}', "#none"),
        ('{"$ref":"other.json"}', "other.json"),
        ('{"$ref":"http://example.com/other.json"}', "example.com"),
        ('{"$ref":"file:///etc/passwd"}', "file:"),
        ('{"$ref":"http://[half"}', "http://[half"),
        ('{"properties":{"a":{"$ref":"#/title"}},"title":"T"}', "no schema"),
        ('{"allOf":[{"$ref":"#/allOf/x"}]}', "#/allOf/x"),
        ('{"title":"\\ud800"}', "UTF-8"),
        ('{"maximum":' + "9" * 5000 + "}", "not JSON"),
        ("[" * 100_000, "nested"),
        ('{"not":' * 70 + "{}" + "}" * 70, "nested"),
        ('{"title":"' + "x" * MAX_TEXT_CHARACTERS + '"}', "longer"),
        ('{"enum":[' + "1," * MAX_VALUES + "1]}", "values"),
    ],
)
def test_what_is_no_schema_says_why(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        FORMAT.parse(text, {})

    assert reason in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("draft", DRAFTS)
def test_a_schema_is_held_to_its_draft(draft: str) -> None:
    uri = DRAFTS[draft]

    assert parse({"$schema": uri, "type": "object", "properties": {"a": {"minimum": 1}}}).canonical_text
    with pytest.raises(InvalidSchema):
        parse({"$schema": uri, "properties": {"a": {"minimum": "1"}}})
    # Up to draft 4 an exclusive limit is a flag, later it is a number; booleans are schemas from draft 6.
    for schema, is_draft_4 in (
        ({"maximum": 1, "exclusiveMaximum": True}, True),
        ({"exclusiveMaximum": 1}, False),
        ({"properties": {"a": True}}, False),
    ):
        if is_draft_4 == (draft == "4"):
            parse({"$schema": uri, **schema})
        else:
            with pytest.raises(InvalidSchema):
                parse({"$schema": uri, **schema})


@pytest.mark.parametrize("draft", DRAFTS)
def test_the_draft_counts_with_and_without_its_hash_and_by_either_scheme(draft: str) -> None:
    bare = DRAFTS[draft].rstrip("#").split("://")[1]

    for uri in (f"http://{bare}", f"https://{bare}#"):
        tuple_of_draft = {"$schema": uri, "items": [{"type": "string"}]}
        if draft == "2020-12":
            with pytest.raises(InvalidSchema):
                parse(tuple_of_draft)
        else:
            parse(tuple_of_draft)


def test_without_a_known_draft_it_is_draft_7() -> None:
    for named in ({}, {"$schema": "http://example.com/own"}, {"$schema": "http://json-schema.org/schema#"}):
        assert parse({**named, "if": {}, "then": {"const": 1}}).validate(2)
        assert not parse({**named, "$defs": {}, "dependentRequired": {"a": ["b"]}}).validate({"a": 1})


def test_as_deep_as_allowed_a_schema_is_checked_and_compared_in_every_draft() -> None:
    for uri in DRAFTS.values():
        deep: dict[str, Any] = {"type": "integer"}
        for _ in range(MAX_DEPTH // 2 - 1):
            deep = {"properties": {"a": deep}}
        old = parse({"$schema": uri, **deep})
        new = parse(json.loads(json.dumps({"$schema": uri, **deep}).replace("integer", "number")))
        assert [each.type for each in old.incompatibilities(new)] == ["TYPE_NARROWED"]
        assert not new.incompatibilities(old)


# --- references

ADDRESS = {
    "type": "object",
    "properties": {"zip": {"type": "string"}},
    "definitions": {"zip": {"maxLength": 5}},
}


@pytest.mark.parametrize(
    ("name", "id_of_root", "reference"),
    [
        ("address.json", None, "address.json"),
        ("address.json", "http://example.com/schemas/root.json", "address.json"),
        ("./address.json", "http://example.com/schemas/root.json", "address.json"),
        ("shared/address.json", "http://example.com/root.json", "shared/address.json"),
        ("http://example.com/address.json", None, "http://example.com/address.json"),
        ("http://example.com/address.json", "http://example.com/root.json", "address.json"),
        ("address.json", "http://example.com/schemas/root.json", "http://example.com/schemas/address.json"),
        ("urn:example:address", None, "urn:example:address"),
    ],
)
def test_a_reference_is_found_by_its_name(name: str, id_of_root: str | None, reference: str) -> None:
    identity = {"$id": id_of_root} if id_of_root else {}
    schema = parse({**identity, "properties": {"home": {"$ref": reference}}}, {name: ADDRESS})
    part = parse(
        {**identity, "properties": {"zip": {"$ref": f"{reference}#/definitions/zip"}}}, {name: ADDRESS}
    )

    assert schema.validate({"home": {"zip": "1"}}) == []
    assert schema.validate({"home": {"zip": 1}}) != []
    assert part.validate({"zip": "123456"}) != []


def test_a_reference_is_found_by_its_own_id_whatever_its_name() -> None:
    schema = parse({"$ref": "http://example.com/a"}, {"address": {"$id": "http://example.com/a", **ADDRESS}})

    assert schema.validate({"zip": 1})


def test_references_refer_to_each_other_and_back_to_themselves() -> None:
    person = {"properties": {"home": {"$ref": "address.json"}, "friend": {"$ref": "#"}}}
    schema = parse({"items": {"$ref": "person.json"}}, {"address.json": ADDRESS, "person.json": person})

    assert schema.validate([{"friend": {"friend": {"home": {"zip": "1"}}}}]) == []
    assert schema.validate([{"friend": {"friend": {"home": {"zip": 1}}}}]) != []


def test_a_reference_that_is_no_schema_or_leads_nowhere_is_refused_by_name() -> None:
    for text in ("[]", "{", '{"$ref":"gone.json"}'):
        with pytest.raises(InvalidSchema, match=r"other\.json|gone\.json"):
            FORMAT.parse('{"$ref":"other.json"}', {"other.json": text})


def test_a_reference_may_be_of_another_draft() -> None:
    old = {"$schema": DRAFTS["4"], "type": "number", "maximum": 9, "exclusiveMaximum": True}
    schema = parse({"$schema": DRAFTS["2020-12"], "$ref": "old.json"}, {"old.json": old})
    inline = parse({"type": "number", "exclusiveMaximum": 9})

    assert schema.differences(inline) == inline.differences(schema) == ()


def test_lists_and_schemas_among_dependencies_are_told_apart() -> None:
    schema = {
        "$id": "http://example.com/root.json",
        "dependencies": {"a": {"$ref": "other.json"}, "b": ["c"], "d": {"$ref": "#part"}},
        "definitions": {"part": {"$id": "#part", "required": ["e"]}},
    }
    for order in (schema, {**schema, "dependencies": dict(reversed(schema["dependencies"].items()))}):
        found = parse(order, {"other.json": {"required": ["x"]}})
        assert found.validate({"a": 1})
        assert found.validate({"b": 1})
        assert found.validate({"d": 1})
        assert found.validate({"a": 1, "x": 1, "d": 1, "e": 1}) == []
    with pytest.raises(InvalidSchema):
        parse(schema)


def test_the_same_text_with_other_references_is_compared() -> None:
    text = {"properties": {"a": {"$ref": "a.json"}}}
    old, new = parse(text, {"a.json": {"type": "integer"}}), parse(text, {"a.json": {"type": "string"}})

    assert [each.type for each in new.incompatibilities(old)] == ["TYPE_CHANGED"]
    assert "'#/properties/a'" in new.incompatibilities(old)[0].description


# --- incompatibilities


def test_the_lenient_policy_allows_an_optional_property() -> None:
    old = parse({"type": "object", "properties": {"a": {"type": "string"}}})
    new = parse({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}})

    (found,) = new.incompatibilities(old)

    assert found.type == "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
    assert found.description == (
        "Found incompatible change at '#/properties/b': the new schema adds a property; "
        "the old one allows any value under its name"
    )
    assert type(found.type) is str
    assert new.incompatibilities(old, CompatibilityPolicy.LENIENT) == []


def test_every_incompatible_difference_has_a_sentence_of_its_own() -> None:
    incompatible = set(Kind) - COMPATIBLE[CompatibilityPolicy.STRICT]

    for kind in incompatible:
        sentence = describe(Difference(kind, ("a",)))
        assert sentence.startswith("Found incompatible change at '#/a': the new ")
        assert not sentence.endswith((" it", "differs"))


def test_there_are_so_many_incompatibilities_at_most() -> None:
    old = parse({"properties": {f"p{index}": {"type": "string"} for index in range(300)}})
    new = parse({"properties": {f"p{index}": {"type": "integer"} for index in range(300)}})

    assert len(new.incompatibilities(old)) == MAX_INCOMPATIBILITIES


def test_a_comparison_of_too_many_steps_is_given_up_as_incompatible() -> None:
    def nested(depth: int, leaf: dict[str, Any]) -> dict[str, Any]:
        if depth == 0:
            return leaf
        return {"anyOf": [nested(depth - 1, {**leaf, "maxLength": depth * 7 + each}) for each in range(3)]}

    old, new = parse(nested(6, {"type": "string"})), parse(nested(6, {"type": "string", "minLength": 1}))

    assert [each.type for each in new.incompatibilities(old)] == ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]


def test_a_long_chain_of_references_is_compared_or_given_up_but_does_not_end_the_server() -> None:
    def chain(leaf: str) -> JsonSchema:
        links = {
            f"d{index}": {"properties": {"a": {"$ref": f"#/definitions/d{index + 1}"}}}
            for index in range(2000)
        }
        return parse({"$ref": "#/definitions/d0", "definitions": {**links, "d2000": {"type": leaf}}})

    assert chain("integer").incompatibilities(chain("string"))


def test_another_format_is_not_compared() -> None:
    with pytest.raises(TypeError):
        parse({}).incompatibilities(AvroFormat().parse('"string"', {}))


def test_a_matching_gives_up_a_pair_if_more_pairs_fit_without_it() -> None:
    fitting = {(0, 0), (0, 1), (1, 0), (2, 1), (2, 2)}

    assert maximum_matching(3, 3, lambda left, right: (left, right) in fitting) == {0: 1, 1: 0, 2: 2}
    assert maximum_matching(2, 1, lambda left, right: True) == {0: 0}
    assert maximum_matching(0, 3, lambda left, right: True) == {}


# --- patterns


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("^x-", "x-a", True),
        ("^x-", "ax-", False),
        ("b", "abc", True),
        ("^[a-z]+_id$", "user_id", True),
        (r"^\d{3}$", "123", True),
        (r"^(a|b)$", "b", True),
        ("(a+)+$", "aaa", None),
        ("(a|a)*$", "aaa", None),
        ("(a{1,9}){1,9}", "aaa", None),
        (".*.*.*x", "aaa", None),
        ("a?" * 30 + "a" * 30, "a" * 30, None),
        ("(a|a)" * 20 + "b", "a" * 20, None),
        (r"(a)\1", "aa", None),
        ("(", "a", None),
        (r"\p{L}", "a", None),
        ("x" * 1000, "a", None),
        ("^x", "x" * 1000, None),
        (r"[+*]\+", "*+", True),
    ],
)
def test_a_pattern_is_run_where_that_is_cheap(pattern: str, name: str, found: bool | None) -> None:
    assert Patterns(Effort()).matches(pattern, name) is found


def test_no_pattern_is_run_when_a_schema_is_registered_and_compared() -> None:
    slow = {"^(a+)+$": {"type": "string"}}
    name = "a" * 40 + "!"
    old = parse({"patternProperties": slow, "properties": {name: {"type": "string"}}})
    new = parse(
        {"patternProperties": slow, "additionalProperties": {"type": "string"}, "enum": [{name: "x"}]}
    )

    assert new.incompatibilities(old)


# --- values


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        (True, {"a": 1}, True),
        (False, None, False),
        ({"type": "integer"}, 2**70, True),
        ({"type": "integer", "maximum": 2**70}, 2**70 + 1, False),
        ({"type": "integer"}, 1.0, True),
        ({"type": "integer"}, 1.5, False),
        ({"type": "integer"}, True, False),
        ({"maximum": 1.5}, 1.25, True),
        ({"maximum": 1.5}, 1.75, False),
        ({"multipleOf": 0.5}, 1.5, True),
        ({"multipleOf": 0.5}, 1.25, False),
        ({"const": 1.50}, 1.5, True),
        ({"enum": ["a"]}, "b", False),
        ({"items": True, "additionalItems": False}, [1], True),
        ({"items": [True], "additionalItems": False}, [1], True),
        ({"items": [True], "additionalItems": False}, [1, 2], False),
        ({"type": "string", "format": "date"}, "no date", True),
        ({"$schema": DRAFTS["2020-12"], "prefixItems": [{"type": "string"}], "items": False}, ["a"], True),
        (
            {"$schema": DRAFTS["2020-12"], "prefixItems": [{"type": "string"}], "items": False},
            ["a", 1],
            False,
        ),
    ],
)
def test_a_value_fits_or_not(schema: Any, value: object, fits: bool) -> None:
    assert (parse(schema).validate(value) == []) is fits


def test_what_does_not_fit_is_told_with_its_place_a_handful_at_most() -> None:
    schema = parse({"items": {"type": "string"}})

    found = schema.validate(list(range(100)))

    assert found[0] == "0 is not of type 'string' at '$[0]'"
    assert len(found) == MAX_MESSAGES
    assert all(len(message) < 1000 for message in schema.validate([["x" * 100_000]]))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#"}, 1),
        ({"allOf": [{"$ref": "#"}]}, 1),
        ({"pattern": "("}, "x"),
        ({"patternProperties": {"[": {}}}, {"a": 1}),
    ],
)
def test_a_schema_that_can_t_be_used_lets_nothing_through(schema: Any, value: object) -> None:
    assert len(parse(schema).validate(value)) == 1


def test_a_value_nested_too_deeply_is_told_not_raised() -> None:
    value: Any = 1
    for _ in range(5000):
        value = [value]

    assert parse({"items": {"$ref": "#"}}).validate(value)
