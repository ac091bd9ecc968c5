"""Avro schemas: valid ones, their texts, and references. The tables hold in Java too."""

from __future__ import annotations

import json

import pytest

from ottla.schemas.avro.avro_format import AvroFormat, AvroSchema
from ottla.schemas.avro.json_text import MAX_DEPTH, MAX_TEXT_CHARS
from ottla.schemas.format import InvalidSchema
from ottla.schemas.formats import format_of
from ottla.schemas.model import SchemaType
from support.schemas.avro_cases import CANONICAL, INVALID, INVALID_WHEN_NEW, array, enum, field, record

CUSTOMER = json.dumps(record("sales.Customer", field("name", "string")))
ORDER = json.dumps(record("sales.Order", field("by", "Customer"), field("for", "sales.Customer")))


def parse(text: str, references: dict[str, str] | None = None, *, new: bool = True) -> AvroSchema:
    return AvroFormat().parse(text, references or {}, new=new)


def test_the_format_is_found_by_its_type() -> None:
    found = format_of(SchemaType.AVRO)
    assert found.schema_type is SchemaType.AVRO
    assert found.parse('"int"', {}).schema_type is SchemaType.AVRO


@pytest.mark.parametrize("case", CANONICAL)
def test_the_canonical_text(case: str) -> None:
    text, canonical = CANONICAL[case]
    assert parse(text).canonical_text == canonical


# Java writes these two so that they are read back as something else.
READ_BACK_OTHERWISE = {"aliases are short within the namespace"}


@pytest.mark.parametrize("case", sorted(CANONICAL.keys() - READ_BACK_OTHERWISE))
def test_the_canonical_text_is_its_own(case: str) -> None:
    _, canonical = CANONICAL[case]
    assert parse(canonical).canonical_text == canonical


@pytest.mark.parametrize("case", INVALID)
def test_no_schema(case: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(INVALID[case], new=False)


@pytest.mark.parametrize("case", INVALID_WHEN_NEW)
def test_a_default_that_does_not_fit_is_an_error_in_new_schemas_only(case: str) -> None:
    parse(INVALID_WHEN_NEW[case], new=False)
    with pytest.raises(InvalidSchema, match=r"the default .* of the field a of R"):
        parse(INVALID_WHEN_NEW[case], new=True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (json.dumps(record("R", field("a", "Missing"))), r'"Missing" is no known type \(at /fields/0/type\)'),
        (json.dumps(array(["int", "int"])), r"the union has int twice \(at /items\)"),
        (
            json.dumps(record("R", field("a", enum("E", "b-c")))),
            r'"b-c" is no name: .* \(at /fields/0/type\)',
        ),
        ("{", "the schema is not JSON: Expecting property name"),
        ('{"type": "int", "x": NaN}', "the schema is not JSON: NaN is no JSON number"),
    ],
)
def test_an_error_names_the_problem_and_the_place(text: str, told: str) -> None:
    with pytest.raises(InvalidSchema, match=told):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[" * 900 + "]" * 900,
        '{"type":"array","items":' * 400 + '"int"' + "}" * 400,
        '{"type":"int","x":' + "[" * 900 + "]" * 900 + "}",
        '{"x":' * 100_000,
        '{"type":"int","x":"\\ud800"}',
        '{"type":"int","\\udc00":1}',
        '{"type":"int","x":' + "9" * 5000 + "}",
        '{"type":"int","x":1.' + "9" * 5000 + "}",
        '"' + "x" * MAX_TEXT_CHARS + '"',
        "/*" * 100_000,
        '"' + '/*"' * 1_000_000,
        '{"a":"\\\\' * 100_000,
        '{"type":"int","__fastavro_parsed":true',
        json.dumps(enum("E", *(f"S{n}" for n in range(100_000)), "S99999")),
    ],
    ids=lambda text: text[:30],
)
def test_a_text_beyond_the_bounds_is_invalid(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(text)


def test_definitions_side_by_side_may_not_nest_beyond_the_bound_either() -> None:
    many = [record(f"R{n}", field("next", f"R{n + 1}")) for n in range(MAX_DEPTH)]
    with pytest.raises(InvalidSchema, match="nested more than"):
        parse(json.dumps([*many, record(f"R{MAX_DEPTH}")]))


def test_the_deepest_schema() -> None:
    text = '{"type":"array","items":' * (MAX_DEPTH - 1) + '"int"' + "}" * (MAX_DEPTH - 1)
    assert parse(text).canonical_text == text


def test_large_defaults_of_defaults_are_bounded() -> None:
    levels = [record("R0", field("a", "int", default=1))]
    for n in range(1, 40):
        inner = f"R{n - 1}"
        levels.append(record(f"R{n}", field("a", inner, default={}), field("b", inner, default={})))
    with pytest.raises(InvalidSchema, match="nested too deep"):
        parse(json.dumps(levels))


# -- references --------------------------------------------------------------------------------------


def test_types_of_references_are_named_in_the_canonical_text() -> None:
    parsed = parse(ORDER, {"sales.Customer": CUSTOMER})
    assert parsed.canonical_text == (
        '{"type":"record","name":"Order","namespace":"sales","fields":['
        '{"name":"by","type":"Customer"},{"name":"for","type":"Customer"}]}'
    )
    assert parsed.name == "sales.Order"


def test_resolved_has_the_types_of_references_inside() -> None:
    parsed = parse(ORDER, {"sales.Customer": CUSTOMER})
    resolved = parsed.formatted("resolved")
    assert resolved == (
        '{"type":"record","name":"Order","namespace":"sales","fields":['
        '{"name":"by","type":{"type":"record","name":"Customer","fields":[{"name":"name","type":"string"}]}},'
        '{"name":"for","type":"Customer"}]}'
    )
    assert parse(resolved).canonical_text == resolved
    assert parsed.formatted("") == parsed.formatted("anything") == parsed.canonical_text


def test_references_of_references_come_first() -> None:
    town = json.dumps(enum("geo.Town", "BERLIN"))
    customer = json.dumps(record("sales.Customer", field("town", "geo.Town")))
    parsed = parse('["sales.Customer", "geo.Town"]', {"geo.Town": town, "sales.Customer": customer})
    assert parsed.canonical_text == '["sales.Customer","geo.Town"]'
    assert parsed.name is None


def test_a_type_within_a_reference_is_known_too() -> None:
    customer = json.dumps(record("sales.Customer", field("state", enum("State", "NEW"))))
    parsed = parse('{"type":"array","items":"sales.State"}', {"sales.Customer": customer})
    assert parsed.canonical_text == '{"type":"array","items":"sales.State"}'


def test_a_reference_may_not_be_defined_again() -> None:
    with pytest.raises(InvalidSchema, match=r"sales.Customer is defined twice"):
        parse(CUSTOMER, {"sales.Customer": CUSTOMER})


def test_an_invalid_reference_is_named() -> None:
    with pytest.raises(InvalidSchema, match=r"the reference sales.Customer: "):
        parse(ORDER, {"sales.Customer": "{"})


def test_a_reference_that_is_missing() -> None:
    with pytest.raises(InvalidSchema, match=r'"sales.Customer" is no known type'):
        parse(ORDER)


# -- normal form -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"type":"int","b":1,"a":{"d":1,"c":2}}', '{"type":"int","a":{"c":2,"d":1},"b":1}'),
        (json.dumps(record("n.R")), json.dumps(record("R", namespace="n"))),
        (json.dumps(record("n.R", aliases=["m.B", "A"])), json.dumps(record("n.R", aliases=["n.A", "m.B"]))),
        (
            json.dumps(record("R", field("a", {"type": "map", "values": "int"}, default={"x": 1, "y": 2}))),
            json.dumps(record("R", field("a", {"type": "map", "values": "int"}, default={"y": 2, "x": 1}))),
        ),
    ],
)
def test_texts_that_mean_the_same_have_one_normal_form(one: str, other: str) -> None:
    assert parse(one).canonical_text != parse(other).canonical_text or one != other
    assert parse(one).normalized() == parse(other).normalized()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (json.dumps(record("n.R")), json.dumps(record("m.R"))),
        (json.dumps(enum("E", "A", "B")), json.dumps(enum("E", "B", "A"))),
        ('["null","int"]', '["int","null"]'),
        (json.dumps(record("R", doc="a")), json.dumps(record("R", doc="b"))),
        (json.dumps(record("n.R", aliases=["A"])), json.dumps(record("n.R", aliases=[".A"]))),
    ],
)
def test_texts_that_differ_have_two(one: str, other: str) -> None:
    assert parse(one).normalized() != parse(other).normalized()


def test_the_normal_form() -> None:
    text = json.dumps(record("n.R", field("a", enum("E", "A"), y=1, x=2), field("b", "E"), doc="d", z=1, k=2))
    assert parse(text).normalized() == (
        '{"type":"record","name":"n.R","doc":"d","fields":['
        '{"name":"a","type":{"type":"enum","name":"n.E","symbols":["A"]},"x":2,"y":1},'
        '{"name":"b","type":"n.E"}],"k":2,"z":1}'
    )


@pytest.mark.parametrize("case", CANONICAL)
def test_the_normal_form_is_a_schema_that_means_the_same(case: str) -> None:
    parsed = parse(CANONICAL[case][0])
    again = parse(parsed.normalized())
    assert again.normalized() == parsed.normalized()
    assert not parsed.incompatibilities(again)
    assert not again.incompatibilities(parsed)


def test_the_normal_form_keeps_references() -> None:
    parsed = parse(ORDER, {"sales.Customer": CUSTOMER})
    assert parse(parsed.normalized(), {"sales.Customer": CUSTOMER}).normalized() == parsed.normalized()
    assert '{"name":"by","type":"sales.Customer"}' in parsed.normalized()
