"""Avro bodies in batches: every value right, every fault its own record's, without a Spark."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import DataType, LongType, StructField, StructType

from ottla.pipeline.formats.avro import _write, reader
from ottla.pipeline.formats.avro_types import avro_schema_of, shape_of
from ottla.pipeline.formats.format import FormatError
from ottla.pipeline.formats.framed import Poison, _decode_group, to_arrow
from ottla.pipeline.formats.python_types import spark_type

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "a.Event",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "text", "type": ["null", "string"]},
            {"name": "ratio", "type": "double"},
            {"name": "small", "type": {"type": "array", "items": ["null", "int"]}},
            {"name": "any", "type": ["long", "string", "boolean", "null", "bytes"]},
            {"name": "by_name", "type": {"type": "map", "values": "bytes"}},
        ],
    }
)
EVENTS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "text": st.none() | st.text(max_size=5),
        "ratio": st.floats(),
        "small": st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=3),
        "any": st.none() | st.integers(-5, 5) | st.text(max_size=3) | st.booleans() | st.binary(max_size=3),
        "by_name": st.dictionaries(st.text(max_size=2), st.binary(max_size=2), max_size=2),
    }
)
BRANCHES = {int: "long", str: "string", bool: "boolean", bytes: "bytes"}


def body(value: Any, schema: str = SCHEMA) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema)), value)
    return stream.getvalue()


def decode(bodies: list[bytes], writer: str = SCHEMA, readers: str = SCHEMA) -> tuple[list[Any], list[Any]]:
    values: list[Any] = [None] * len(bodies)
    errors: list[str | None] = [None] * len(bodies)
    framed = [b"\0\0\0\0\1" + each for each in bodies]
    _decode_group(framed, range(len(bodies)), reader(writer, readers), values, errors)
    shape = shape_of(readers)
    return to_arrow(values, errors, shape.arrow, shape.spark).to_pylist(), errors


def as_columns(event: dict[str, Any]) -> dict[str, Any]:
    """The event as its columns say it."""
    branch = dict.fromkeys(BRANCHES.values())
    if event["any"] is not None:
        branch[BRANCHES[type(event["any"])]] = event["any"]
    said = {name: branch[name] for name in ("long", "string", "boolean", "bytes")}
    changed = {"any": None if event["any"] is None else said, "by_name": list(event["by_name"].items())}
    return {
        name: changed.get(name, event[name]) for name in ("id", "text", "ratio", "small", "any", "by_name")
    }


def comparable(value: Any) -> str:
    return repr(value)  # NaN equals NaN


@settings(max_examples=40, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=20))
def test_what_fastavro_writes_is_read(events: list[dict[str, Any]]) -> None:
    values, errors = decode([body(event) for event in events])

    assert errors == [None] * len(events)
    assert comparable(values) == comparable([as_columns(event) for event in events])


@settings(max_examples=40, deadline=None)
@given(st.lists(EVENTS, min_size=2, max_size=8), st.data())
def test_a_broken_body_fails_only_its_own_record(events: list[dict[str, Any]], data: st.DataObject) -> None:
    bodies = [body(event) for event in events]
    broken = data.draw(st.sets(st.integers(0, len(events) - 1), min_size=1, max_size=2))
    for at in broken:
        bodies[at] = bodies[at][:-1] if data.draw(st.booleans()) else bodies[at] + b"\0"

    values, errors = decode(bodies)

    for at, event in enumerate(events):
        if at in broken:
            assert values[at] is None and errors[at], at
        else:
            assert errors[at] is None and comparable(values[at]) == comparable(as_columns(event))


def test_faults_that_cancel_out_are_found() -> None:
    event = {"id": 1, "text": None, "ratio": 0.0, "small": [], "any": None, "by_name": {}}
    whole = body(event)
    decoder = reader(SCHEMA, SCHEMA)

    # The second body is read from the random mark on: one in sixty of them has a text that is no UTF-8.
    for _ in range(300):
        with pytest.raises((Poison, EOFError, UnicodeDecodeError)):
            decoder.all([whole + b"\0", whole[:-1]])
    _, errors = decode([whole + b"\0", whole[:-1], whole])

    assert errors[0] and errors[1] and errors[2] is None


def test_a_value_that_spark_has_no_place_for_is_its_records_fault() -> None:
    schema = json.dumps({"type": "long", "logicalType": "timestamp-millis"})

    values, errors = decode([body(5, '"long"'), body(2**62, '"long"')], schema, schema)

    assert values[0] is not None and values[1] is None
    assert errors[0] is None and errors[1]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ('{"type": "array", "items": "null"}', "array of nulls"),
        (
            '{"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]}',
            "contains itself",
        ),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 40}', "38 digits"),
        ('{"type": "nothing"}', "not an Avro schema"),
    ],
)
def test_schemas_without_columns_are_refused(schema: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        shape_of(schema)


def test_a_schema_made_for_a_type_stands_for_that_type() -> None:
    wanted = spark_type(
        "id BIGINT NOT NULL, at TIMESTAMP, wall TIMESTAMP_NTZ, day DATE, price DECIMAL(9, 2), raw BINARY,"
        "lines ARRAY<STRUCT<sku: STRING, n: INT>>, by MAP<STRING, DOUBLE>, ok BOOLEAN"
    )

    assert shape_of(avro_schema_of(wanted, "shop.Order")).spark == wanted


def test_a_name_that_is_used_twice_is_defined_once() -> None:
    point = {"type": "record", "name": "x.Point", "fields": [{"name": "at", "type": "long"}]}
    fields = [{"name": "a", "type": point}, {"name": "b", "type": "x.Point"}]
    schema = json.dumps({"type": "record", "name": "x.Pair", "fields": fields})

    values, errors = decode([body({"a": {"at": 1}, "b": {"at": 2}}, schema)], schema, schema)

    assert (values, errors) == ([{"a": {"at": 1}, "b": {"at": 2}}], [None])
    at: DataType = StructType([StructField("at", LongType(), False)])
    assert shape_of(schema).spark == StructType([StructField("a", at, False), StructField("b", at, False)])


def test_what_does_not_fit_a_schema_is_not_written() -> None:
    with pytest.raises(FormatError, match=r"can't be written as avro \(orders-value\)"):
        _write('"long"', 1, ['{"v": "x"}'], "avro (orders-value)")
    with pytest.raises(FormatError, match="exactly one must be set, not 2"):
        _write('["long", "string"]', 1, ['{"long": 1, "string": "x"}'], "avro")


def test_numbers_that_are_none_and_branches_are_written() -> None:
    written = _write('["null", "double", "string"]', 7, ['{"double": "NaN", "string": null}', None], "avro")

    assert written[1] is None and written[0] is not None and written[0][:6] == b"\0\0\0\0\7\2"
    assert pa.array(
        decode([written[0][5:]], '["null", "double", "string"]', '["null", "double", "string"]')[0]
    )
