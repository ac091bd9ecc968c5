"""Avro schemas beside Apache Avro's Java library: validity, text, and the differences of two of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from ottla.schemas.avro.avro_format import AvroFormat, AvroSchema
from ottla.schemas.avro.compatibility import NotComparable, compare
from ottla.schemas.format import InvalidSchema
from support.java.avro_oracle import AvroOracle, RefusedByJava, avro_oracle
from support.schemas.avro_cases import CANONICAL, INVALID, INVALID_WHEN_NEW, PAIRS, Pair
from support.schemas.avro_schemas import avro_pairs, avro_schemas

pytestmark = pytest.mark.java

SLOW = settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def java() -> Iterator[AvroOracle]:
    with avro_oracle() as oracle:
        yield oracle


def parse(schema: Any, *, new: bool = False) -> AvroSchema:
    return AvroFormat().parse(schema if isinstance(schema, str) else json.dumps(schema), {}, new=new)


def ours(reader: Any, writer: Any) -> list[tuple[str, str, str]]:
    found = compare(parse(json.dumps(reader)).root, parse(json.dumps(writer)).root)
    return [(finding.type, finding.location, finding.message) for finding in found]


@pytest.mark.parametrize("case", CANONICAL)
def test_java_writes_the_same_text(java: AvroOracle, case: str) -> None:
    text, canonical = CANONICAL[case]
    assert java.canonical_text(text) == canonical


@pytest.mark.parametrize("case", INVALID)
def test_java_refuses_the_same_texts(java: AvroOracle, case: str) -> None:
    with pytest.raises(RefusedByJava):
        java.canonical_text(INVALID[case], new=False)


@pytest.mark.parametrize("case", INVALID_WHEN_NEW)
def test_java_refuses_the_same_defaults_of_new_schemas_only(java: AvroOracle, case: str) -> None:
    with pytest.raises(RefusedByJava):
        java.canonical_text(INVALID_WHEN_NEW[case])
    stored = java.canonical_text(INVALID_WHEN_NEW[case], new=False)
    assert parse(INVALID_WHEN_NEW[case]).canonical_text == stored


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.rule)
def test_java_finds_the_same_reasons(java: AvroOracle, pair: Pair) -> None:
    found = java.incompatibilities(json.dumps(pair.reader), json.dumps(pair.writer))
    assert tuple((kind, place) for kind, place, _ in found) == pair.found
    assert ours(pair.reader, pair.writer) == found


def test_java_names_the_types_of_references_alike(java: AvroOracle) -> None:
    customer = '{"type":"record","name":"Customer","namespace":"n","fields":[]}'
    for namespace in ("n", "m", ""):
        order = json.dumps(
            {
                "type": "record",
                "name": "Order",
                "namespace": namespace,
                "fields": [{"name": "customer", "type": "n.Customer"}],
            }
        )
        parsed = AvroFormat().parse(order, {"n.Customer": customer})
        assert parsed.canonical_text == java.canonical_text_within(customer, order)


@SLOW
@given(schema=avro_schemas())
def test_java_writes_the_same_text_of_any_schema(java: AvroOracle, schema: Any) -> None:
    text = json.dumps(schema)
    try:
        expected = java.canonical_text(text)
    except RefusedByJava:
        expected = None
    try:
        found = parse(text, new=True).canonical_text
    except InvalidSchema:
        found = None
    assert found == expected


@SLOW
@given(pair=avro_pairs())
def test_java_finds_the_same_reasons_for_any_pair(java: AvroOracle, pair: tuple[Any, Any]) -> None:
    reader, writer = pair
    try:
        expected = java.incompatibilities(json.dumps(reader), json.dumps(writer))
    except RefusedByJava:
        with pytest.raises((NotComparable, InvalidSchema)):
            ours(reader, writer)
        return
    assert ours(reader, writer) == expected
