"""Which Avro schemas can read data of which others: the rules, case by case (`support/schemas`)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.schemas.avro.avro_format import AvroFormat, AvroSchema
from ottla.schemas.avro.compatibility import MAX_FINDINGS, compare
from ottla.schemas.format import Incompatibility
from support.schemas.avro_cases import PAIRS, Pair, enum, field, fixed, record


def parse(schema: Any) -> AvroSchema:
    return AvroFormat().parse(json.dumps(schema), {})


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.rule)
def test_a_rule(pair: Pair) -> None:
    found = compare(parse(pair.reader).root, parse(pair.writer).root)
    assert tuple((finding.type, finding.location) for finding in found) == pair.found


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.rule)
def test_the_format_says_the_same(pair: Pair) -> None:
    found = parse(pair.reader).incompatibilities(parse(pair.writer))
    assert tuple(reason.type for reason in found) == tuple(kind for kind, _ in pair.found)


@pytest.mark.parametrize(
    ("reader", "writer", "told"),
    [
        (
            record("R", field("b", "int")),
            record("R"),
            Incompatibility(
                "READER_FIELD_MISSING_DEFAULT_VALUE",
                "The field 'b' at path '/fields/0' in the new schema has no default value and is missing in "
                "the old schema",
                "b",
            ),
        ),
        (
            record("R", field("a", "int")),
            record("R", field("a", "string")),
            Incompatibility(
                "TYPE_MISMATCH",
                "The type (path '/fields/0/type') of a field in the new schema does not match with "
                "the old schema",
                "reader type: INT not compatible with writer type: STRING",
            ),
        ),
        (
            record("n.R"),
            record("m.S"),
            Incompatibility(
                "NAME_MISMATCH", "The name of the schema has changed (path '/name')", "expected: m.S"
            ),
        ),
        (
            enum("E", "A"),
            enum("E", "A", "C", "B"),
            Incompatibility(
                "MISSING_ENUM_SYMBOLS",
                "The new schema is missing enum symbols '[B, C]' at path '/symbols' in the old schema",
                "[B, C]",
            ),
        ),
        (
            fixed("F", 4),
            fixed("F", 8),
            Incompatibility(
                "FIXED_SIZE_MISMATCH",
                "The size of FIXED type field at path '/size' in the new schema does not match with "
                "the old schema",
                "expected: 8, found: 4",
            ),
        ),
        (
            ["null", "int"],
            ["null", "string"],
            Incompatibility(
                "MISSING_UNION_BRANCH",
                "The new schema is missing a type inside a union field at path '/1' in the old schema",
                "reader union lacking writer type: STRING",
            ),
        ),
    ],
)
def test_what_is_told(reader: Any, writer: Any, told: Incompatibility) -> None:
    assert list(parse(reader).incompatibilities(parse(writer))) == [told]


def test_a_field_whose_names_are_two_of_the_writers_is_told() -> None:
    reader = parse(record("R", field("a", "int", aliases=["b"])))
    writer = parse(record("R", field("a", "int"), field("b", "int")))
    (reason,) = reader.incompatibilities(writer)
    assert reason.type == "NAME_MISMATCH"
    assert "name several fields of R: a, b" in reason.description


def test_types_of_references_are_compared() -> None:
    order = json.dumps(record("Order", field("customer", "Customer")))
    old = AvroFormat().parse(order, {"Customer": json.dumps(record("Customer"))})
    new = AvroFormat().parse(order, {"Customer": json.dumps(record("Customer", field("name", "string")))})
    (reason,) = new.incompatibilities(old)
    assert "'/fields/0/type/fields/0'" in reason.description
    assert not old.incompatibilities(new)


def ring(size: int, kind: str) -> list[Any]:
    """Records of one short name that refer to each other in a ring, with one more field each."""
    return [
        record(f"n{n}.R", field("value", kind), field("next", f"n{(n + 1) % size}.R")) for n in range(size)
    ]


def test_rings_of_records_end_however_long_they_are() -> None:
    # The pairs of two rings whose lengths have no common factor are all of them: 2,450, one within another.
    reader, writer = parse(ring(49, "long")), parse(ring(50, "int"))
    assert not reader.incompatibilities(writer)
    assert writer.incompatibilities(reader)


def test_reasons_are_bounded() -> None:
    # Each level is used twice by the one above: the one reason at the bottom is met 2 to the 39th times.
    def ladder(kind: str) -> AvroSchema:
        levels = [record(f"R{n}", field("a", f"R{n - 1}"), field("b", f"R{n - 1}")) for n in range(1, 40)]
        types = json.dumps([record("R0", field("a", kind)), *levels])
        return AvroFormat().parse('"R39"', {"types": types})

    assert len(compare(ladder("int").root, ladder("string").root)) == MAX_FINDINGS


def test_schemas_that_would_take_too_long_are_not_compared() -> None:
    def enums(prefix: str) -> AvroSchema:
        return parse([enum(f"{prefix}{n}", "A") for n in range(2_000)])

    (reason,) = enums("R").incompatibilities(enums("W"))
    assert "too many types" in reason.description
