"""What JSON values become as keys and values of records, format by format."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro
import orjson
import pytest
from google.protobuf.wrappers_pb2 import Int64Value

from ottla.client.registry.lookups import RegisteredSchema
from ottla.rest.records.encoding import PLAIN, EmbeddedFormat, Encode, SchemaEncoders, UnencodablePayload
from ottla.schemas.formats import format_of
from ottla.schemas.model import SchemaType

BINARY, JSON, STRING = (
    PLAIN[name] for name in (EmbeddedFormat.BINARY, EmbeddedFormat.JSON, EmbeddedFormat.STRING)
)


def avro(schema: Any, references: dict[str, str] | None = None) -> Encode:
    parsed = format_of(SchemaType.AVRO).parse(orjson.dumps(schema).decode(), references or {})
    return SchemaEncoders().of(RegisteredSchema(7, parsed))


@pytest.mark.parametrize(
    ("encode", "value", "written"),
    [
        (BINARY, "aGk=", b"hi"),
        (BINARY, "", b""),
        (BINARY, None, None),
        (JSON, {"b": 1, "a": [None, "é"]}, '{"b":1,"a":[null,"é"]}'.encode()),
        (JSON, "text", b'"text"'),
        (JSON, None, None),
        (STRING, "é", "é".encode()),
        (STRING, "", b""),
        (STRING, 5, b"5"),
        (STRING, None, None),
    ],
)
def test_formats_without_schemas(encode: Encode, value: Any, written: bytes | None) -> None:
    assert encode(value) == written


@pytest.mark.parametrize(
    ("encode", "value"),
    [(BINARY, "a"), (BINARY, "é"), (BINARY, "aG k="), (BINARY, 5), (BINARY, {}), (STRING, {}), (STRING, [])],
)
def test_values_that_their_format_does_not_have(encode: Encode, value: Any) -> None:
    with pytest.raises(UnencodablePayload):
        encode(value)


USER = {
    "type": "record",
    "name": "User",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": ["null", "int"], "default": None},
        {
            "name": "colour",
            "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]},
            "default": "RED",
        },
        {"name": "marks", "type": {"type": "map", "values": "long"}, "default": {}},
        {"name": "raw", "type": "bytes", "default": ""},
    ],
}


@pytest.mark.parametrize(
    ("schema", "value", "datum"),
    [
        ("int", 5, 5),
        ("string", "é", "é"),
        ("boolean", True, True),
        ("double", 1, 1.0),
        ("bytes", "ÿ", b"\xff"),
        (["null", "string"], {"string": "a"}, "a"),
        ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
        (
            USER,
            {"name": "x", "age": {"int": 3}, "marks": {"a": 1}},
            {"name": "x", "age": 3, "colour": "RED", "marks": {"a": 1}, "raw": b""},
        ),
    ],
)
def test_avro_is_read_in_its_own_json_encoding(schema: Any, value: Any, datum: Any) -> None:
    written = avro(schema)(value)
    assert written is not None and written[:5] == b"\0\0\0\0\7"
    rest = BytesIO(written[5:])
    assert fastavro.schemaless_reader(rest, fastavro.parse_schema(schema), None) == datum
    assert rest.read() == b""


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("int", 1.5),
        ("int", True),
        ("int", "5"),
        ("int", 2**31),
        ("long", 2**63),
        ("boolean", "true"),
        ("boolean", 1),
        ("string", 5),
        ("string", {}),
        ("bytes", "€"),
        (["null", "string"], "bare"),
        (["null", "string"], {"int": 5}),
        (["null", "string"], {"string": "a", "int": 5}),
        ({"type": "array", "items": "int"}, {"a": 1}),
        (USER, {}),
        (USER, []),
        (USER, "x"),
        (USER, {"name": "x", "colour": "GREEN"}),
        (USER, {"name": "x", "age": {"int": "3"}}),
    ],
)
def test_values_that_do_not_fit_their_avro_schema(schema: Any, value: Any) -> None:
    with pytest.raises(UnencodablePayload, match="Avro"):
        avro(schema)(value)


def test_an_avro_schema_may_be_a_union_whose_record_uses_another_of_its_types() -> None:
    task = {"type": "record", "name": "Task", "fields": [{"name": "state", "type": "State"}]}
    encode = avro([{"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}, task])
    assert encode({"Task": {"state": "DONE"}}) == b"\0\0\0\0\7\2\2"


@pytest.mark.parametrize(
    ("schema", "value", "written"),
    [
        (["null", "float", "double"], {"double": 1.1}, b"\4" + struct.pack("<d", 1.1)),
        (["long", "int"], {"int": 5}, b"\2\n"),
        (["string", {"type": "enum", "name": "E", "symbols": ["A"]}], {"E": "A"}, b"\2\0"),
        (["bytes", {"type": "fixed", "name": "F", "size": 1}], {"F": "a"}, b"\2a"),
        (
            [
                {"type": "record", "name": name, "fields": [{"name": "a", "type": "int", "default": 0}]}
                for name in ("First", "Second")
            ],
            {"Second": {"a": 1}},
            b"\2\2",
        ),
    ],
)
def test_a_unions_value_is_written_under_the_branch_that_it_names(
    schema: Any, value: Any, written: bytes
) -> None:
    assert avro(schema)(value) == b"\0\0\0\0\7" + written


def test_an_avro_record_may_contain_itself() -> None:
    node = {"name": "next", "type": ["null", "Node"], "default": None}
    schema = {"type": "record", "name": "Node", "fields": [{"name": "at", "type": "int"}, node]}
    value: Any = {"at": 1}
    for at in range(2, 100):
        value = {"at": at, "next": {"Node": value}}
    written = avro(schema)(value)
    assert written is not None
    read: Any = fastavro.schemaless_reader(BytesIO(written[5:]), fastavro.parse_schema(schema), None)
    assert [read["at"], read["next"]["at"]] == [99, 98]
    assert len(written) == 5 + sum(2 if at > 63 else 1 for at in range(1, 100)) + 99
    for _ in range(100_000):
        value = {"at": 1, "next": {"Node": value}}
    with pytest.raises(UnencodablePayload):
        avro(schema)(value)


@pytest.mark.parametrize(
    ("schema", "value", "written"),
    [
        ({"type": "int", "logicalType": "date"}, -719_162, None),
        ({"type": "int", "logicalType": "date"}, 2_932_896, None),
        ({"type": "int", "logicalType": "time-millis"}, 86_399_999, None),
        ({"type": "long", "logicalType": "timestamp-micros"}, -62_135_596_800_000_000, None),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "\x30\x39", b"\4\x30\x39"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\0\0\1", b"\2\1"),
        (
            {"type": "string", "logicalType": "uuid"},
            "0F8FAD5B-D9CB-469F-A165-70867728950E",
            b"\x480f8fad5b-d9cb-469f-a165-70867728950e",
        ),
    ],
)
def test_logical_types_are_written_as_fastavro_writes_them(
    schema: Any, value: Any, written: bytes | None
) -> None:
    plain = written if written is not None else avro(schema["type"])(value)
    assert avro(schema)(value) == (plain if written is None else b"\0\0\0\0\7" + written)


def test_a_schema_too_large_or_too_deep_for_a_function_is_used_all_the_same() -> None:
    deep: Any = "int"
    value: Any = 7
    for _ in range(60):
        deep, value = {"type": "array", "items": deep}, [value]
    assert avro(deep)(value) == b"\0\0\0\0\7" + b"\2" * 60 + b"\x0e" + b"\0" * 60
    fields = [{"name": f"f{place}", "type": "long"} for place in range(8_000)]
    wide = {"type": "record", "name": "Wide", "fields": fields}
    assert avro(wide)({f"f{place}": 1 for place in range(8_000)}) == b"\0\0\0\0\7" + b"\2" * 8_000


def test_names_in_a_schema_are_never_run_as_code() -> None:
    symbols = ["A", "B"]
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "value", "type": {"type": "enum", "name": "join", "symbols": symbols}, "default": "B"},
            {"name": "missing", "type": "string", "default": "'); raise SystemExit('"},
        ],
    }
    assert avro(schema)({}) == b"\0\0\0\0\7" + b"\2" + b"\x2c'); raise SystemExit('"


def test_an_avro_schema_may_refer_to_another() -> None:
    user = orjson.dumps(USER).decode()
    order = {"type": "record", "name": "Order", "fields": [{"name": "by", "type": "User"}]}
    written = avro(order, {"User": user})({"by": {"name": "x"}})
    assert written == b"\0\0\0\0\7" + b"\2x\0\0\0\0"


@dataclass(frozen=True)
class Stub:
    """A schema that says what a test wants it to."""

    schema_type: SchemaType
    canonical_text: str = "{}"

    def validate(self, value: Any) -> list[str]:
        return [] if value == {"good": 1} else ["no", "not at all"]

    def message_class(self, path: Sequence[int]) -> Any:
        assert tuple(path) == (0,)
        return Int64Value


def test_json_schema_goes_on_as_it_is_when_it_is_valid() -> None:
    encode = SchemaEncoders().of(RegisteredSchema(7, Stub(SchemaType.JSON)))  # type: ignore[arg-type]
    assert encode({"good": 1}) == b'\0\0\0\0\7{"good":1}'
    assert encode(None) is None
    with pytest.raises(UnencodablePayload, match="no; not at all"):
        encode({"bad": 1})


def test_protobuf_is_written_behind_the_path_of_its_message() -> None:
    encode = SchemaEncoders().of(RegisteredSchema(7, Stub(SchemaType.PROTOBUF)))  # type: ignore[arg-type]
    assert encode("5") == b"\0\0\0\0\7\0" + Int64Value(value=5).SerializeToString()
    assert encode(None) is None
    for value in ({"nonsense": 1}, [1], "x"):
        with pytest.raises(UnencodablePayload, match="Protobuf"):
            encode(value)


def test_an_encoder_is_made_once_and_again_for_another_parse_of_its_schema() -> None:
    encoders = SchemaEncoders()
    first = RegisteredSchema(7, format_of(SchemaType.AVRO).parse('"int"', {}))
    assert encoders.of(first) is encoders.of(first)
    again = RegisteredSchema(7, format_of(SchemaType.AVRO).parse('"int"', {}))
    assert encoders.of(again) is not encoders.of(first)
