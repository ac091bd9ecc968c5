"""Avro's JSON encoding becomes the bytes that Avro's specification says, for random schemas and values."""

from __future__ import annotations

import contextlib
import copy
import struct
from collections.abc import Callable
from typing import Any

import fastavro
import orjson
import pytest
from fastavro.read import LOGICAL_READERS
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ottla.client.registry.lookups import RegisteredSchema
from ottla.rest.records import encoding
from ottla.rest.records.avro_encoding import compiled
from ottla.rest.records.encoding import SchemaEncoders, UnencodablePayload
from ottla.schemas.formats import format_of
from ottla.schemas.model import SchemaType

Schema = Any
INTEGERS = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([0, -1, 63, 64, -64, -65, 8191, 8192, 2**21])
LONGS = st.integers(-(2**63), 2**63 - 1) | INTEGERS
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**64 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
BINARY = st.text(st.characters(max_codepoint=255), max_size=20)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": INTEGERS,
    "long": LONGS,
    "float": FLOATS,
    "double": DOUBLES,
    "string": TEXTS,
    "bytes": BINARY,
}
LOGICAL: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("int", "date"): st.integers(-800_000, 3_000_000),
    ("int", "time-millis"): st.integers(-1, 86_400_000),
    ("long", "time-micros"): st.integers(-1, 86_400_000_000),
    ("long", "timestamp-millis"): st.integers(-62_135_596_800_001, 253_402_300_800_000),
    ("long", "timestamp-micros"): st.integers(-62_135_596_800_000_001, 253_402_300_800_000_000),
    ("long", "local-timestamp-millis"): st.integers(-62_135_596_800_001, 253_402_300_800_000),
    ("long", "local-timestamp-micros"): st.integers(-62_135_596_800_000_001, 253_402_300_800_000_000),
    ("string", "uuid"): st.uuids().map(str) | st.uuids().map(lambda found: str(found).upper()) | TEXTS,
    ("string", "of-ours"): TEXTS,
}


@st.composite
def schemas(
    draw: st.DrawFn, depth: int = 3, names: list[int] | None = None, in_union: bool = False
) -> Schema:
    """A schema whose named types are Name1, Name2 …, each defined once and never referred to."""
    names = [] if names is None else names
    kinds = ["primitive", "primitive", "logical", "enum", "fixed"]
    if depth:
        kinds += ["record", "record", "array", "map"] + ([] if in_union else ["union", "union"])

    def inner() -> Schema:
        return draw(schemas(depth - 1, names))

    def name() -> str:
        names.append(len(names))
        return f"n.Name{len(names)}"

    match draw(st.sampled_from(kinds)):
        case "logical":
            kind, logical = draw(st.sampled_from(sorted(LOGICAL)))
            return {"type": kind, "logicalType": logical}
        case "enum":
            return {"type": "enum", "name": name(), "symbols": ["A", "B", "C"]}
        case "fixed":
            return {"type": "fixed", "name": name(), "size": draw(st.integers(1, 4))}
        case "array":
            return {"type": "array", "items": inner()}
        case "map":
            return {"type": "map", "values": inner()}
        case "record":
            own = name()
            fields = [{"name": f"f{place}", "type": inner()} for place in range(draw(st.integers(0, 4)))]
            return {"type": "record", "name": own, "fields": fields}
        case "union":
            branches = draw(st.lists(schemas(depth - 1, names, in_union=True), min_size=1, max_size=4))
            found = {label_of(branch): branch for branch in branches}
            if draw(st.booleans()):
                found["null"] = "null"
            return draw(st.permutations(list(found.values())))
    return draw(st.sampled_from(sorted(PRIMITIVES)))


def label_of(branch: Schema) -> str:
    label: str = branch.get("name", branch["type"]) if isinstance(branch, dict) else branch
    return label


MISFITS = st.sampled_from(
    [
        None,
        True,
        0,
        1.5,
        "",
        "B",
        "\u20ac",
        [],
        {},
        2**31,
        -(2**31) - 1,
        2**63,
        -(2**63),
        {"int": 1},
        {"int": 1, "string": "x"},
        [1],
    ]
)


def values(schema: Schema, misfits: bool = False) -> st.SearchStrategy[Any]:
    """Values of this schema, in Avro's JSON encoding; with `misfits`, parts of some are of other types."""
    if misfits:
        return MISFITS | _values(schema, misfits)
    return _values(schema, misfits)


def _values(schema: Schema, misfits: bool) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.one_of(
            *(
                st.none()
                if branch == "null"
                else st.fixed_dictionaries({label_of(branch): values(branch, misfits)})
                for branch in schema
            )
        )
    if isinstance(schema, str):
        return PRIMITIVES[schema]
    match schema["type"]:
        case "enum":
            return st.sampled_from(schema["symbols"])
        case "fixed":
            size = schema["size"]
            return st.text(st.characters(max_codepoint=255), min_size=size, max_size=size)
        case "array":
            return st.lists(values(schema["items"], misfits), max_size=4)
        case "map":
            return st.dictionaries(TEXTS, values(schema["values"], misfits), max_size=4)
        case "record":
            return st.fixed_dictionaries(
                {each["name"]: values(each["type"], misfits) for each in schema["fields"]}
            )
    return LOGICAL[schema["type"], schema["logicalType"]]


def specified(schema: Schema, value: Any) -> bytes:
    """The bytes by the text of the specification, slowly."""
    if isinstance(schema, list):
        if value is None:
            return long(schema.index("null"))
        ((label, inner),) = value.items()
        index = [label_of(branch) for branch in schema].index(label)
        return long(index) + specified(schema[index], inner)
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return long(value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "string":
            return long(len(value.encode())) + bytes(value.encode())
        case "bytes":
            return long(len(value)) + bytes(value.encode("latin-1"))
        case "fixed":
            return bytes(value.encode("latin-1"))
        case "enum":
            return long(schema["symbols"].index(value))
        case "array":
            return block(specified(schema["items"], item) for item in value)
        case "map":
            return block(
                specified("string", key) + specified(schema["values"], item) for key, item in value.items()
            )
    return b"".join(specified(each["type"], value[each["name"]]) for each in schema["fields"])


def long(value: int) -> bytes:
    number = value * 2 if value >= 0 else -value * 2 - 1
    written = bytearray()
    while number > 127:
        written.append(number % 128 + 128)
        number //= 128
    written.append(number)
    return bytes(written)


def block(items: Any) -> bytes:
    found = list(items)
    return (long(len(found)) if found else b"") + b"".join(found) + b"\0"


def by_fastavro(schema: Schema) -> Callable[[Any], bytes]:
    return encoding._fastavro_encoder(fastavro.parse_schema(copy.deepcopy(schema)))


def by_function(schema: Schema) -> Callable[[Any], bytes]:
    def left_out(_schema: Schema) -> Callable[[Any], bytes]:
        raise AssertionError("no type of these schemas is left to fastavro")

    return compiled(fastavro.parse_schema(copy.deepcopy(schema)), frozenset(LOGICAL_READERS), left_out)


def has_choice(schema: Schema) -> bool:
    """Whether a union has several branches beside null: fastavro forgets which one the JSON names."""
    match schema:
        case list():
            return sum(branch != "null" for branch in schema) > 1 or any(map(has_choice, schema))
        case dict():
            inner = [
                schema.get("items"),
                schema.get("values"),
                *(f["type"] for f in schema.get("fields", ())),
            ]
            return any(map(has_choice, inner))
    return False


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_value_becomes_the_bytes_of_the_specification_or_is_left_to_fastavro(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    value = data.draw(values(schema))
    try:
        written = by_function(schema)(value)
    except Exception:
        # a date that Python does not have, an integer that JSON has and a long does not, a UUID in capitals
        assume(False)
    assert written == specified(schema, value)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_what_the_function_takes_fits_the_schema_and_fastavro_writes_alike(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    value = data.draw(values(schema, misfits=True) | values(data.draw(schemas())))
    try:
        written = by_function(schema)(value)
    except Exception:
        return
    assert fits(schema, value)
    assert written == specified(schema, value)
    with contextlib.suppress(Exception):  # it refuses some values that fit, as maps of records with a key ""
        assert has_choice(schema) or by_fastavro(schema)(value) == written


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_json_is_encoded_as_before_or_refused_unless_it_fits(data: st.DataObject) -> None:
    schema = data.draw(schemas().filter(lambda found: not has_choice(found)))
    value = data.draw(values(schema, misfits=True) | values(data.draw(schemas())))
    assume(value is not None)
    parsed = format_of(SchemaType.AVRO).parse(orjson.dumps(schema).decode(), {})
    encode = SchemaEncoders().of(RegisteredSchema(7, parsed))
    try:
        before: bytes | None = b"\0\0\0\0\7" + by_fastavro(schema)(value)
    except Exception:
        before = None
    if before is not None:
        assert encode(value) == before
    elif not fits(schema, value):
        with pytest.raises(UnencodablePayload, match="the value does not fit its Avro schema"):
            encode(value)


def fits(schema: Schema, value: Any) -> bool:
    """Whether a JSON value is one of this schema, by the specification; further members don't count."""
    if isinstance(schema, list):
        if value is None or not isinstance(value, dict) or len(value) != 1:
            return value is None and "null" in schema
        ((label, inner),) = value.items()
        return any(label_of(each) == label != "null" and fits(each, inner) for each in schema)
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bits = 31 if kind == "int" else 63
            return type(value) is int and -(2**bits) <= value < 2**bits
        case "float" | "double":
            return type(value) in (int, float)
        case "string":
            return isinstance(value, str)
        case "bytes" | "fixed":
            size = schema["size"] if kind == "fixed" else None
            return isinstance(value, str) and max(value, default="") <= "\xff" and size in (None, len(value))
        case "enum":
            return value in schema["symbols"]
        case "array":
            return isinstance(value, list) and all(fits(schema["items"], each) for each in value)
        case "map":
            return isinstance(value, dict) and all(fits(schema["values"], each) for each in value.values())
    return isinstance(value, dict) and all(
        each["name"] in value and fits(each["type"], value[each["name"]]) for each in schema["fields"]
    )
