"""Payloads of Avro and Protobuf to JSON."""

from __future__ import annotations

import asyncio
import io
import json
from dataclasses import dataclass
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ottla.client.registry.lookups import RegisteredSchema
from ottla.rest.consumers.consumer_settings import DataFormat
from ottla.rest.consumers.decoding import Decoded, RecordDecoder, SchemaDecoders
from ottla.schemas import framing
from ottla.schemas.avro.avro_format import AvroFormat
from ottla.schemas.model import SchemaType
from support.rest.rest_consumers import FakeRecord, in_line

SCHEMA_ID = 7


class OneSchema:
    """A registry with one schema."""

    def __init__(self, parsed: Any) -> None:
        self.parsed = parsed

    async def by_id(self, schema_id: int) -> RegisteredSchema:
        return RegisteredSchema(schema_id, self.parsed)


def decode(data_format: DataFormat, parsed: Any, data: bytes) -> Decoded:
    decoder = RecordDecoder(data_format, SchemaDecoders(OneSchema(parsed)))  # type: ignore[arg-type]
    record = FakeRecord(value_bytes=framing.frame(SCHEMA_ID, data))
    return asyncio.run(decoder.decode([record], in_line))  # type: ignore[arg-type]


def avro(schema: Any) -> Any:
    return AvroFormat().parse(json.dumps(schema), {})


def written(schema: Any, value: Any) -> bytes:
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema), value)
    return data.getvalue()


def told(schema: Any, data: bytes) -> Any:
    decoded = decode(DataFormat.AVRO, avro(schema), data)
    assert decoded.problem is None
    return json.loads(decoded.parts[0])["value"]


POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}]}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ("string", "ü", "ü"),
        ("bytes", b"\xff\x01", "\u00ff\u0001"),
        (["null", "string"], None, None),
        (["null", "string"], "a", {"string": "a"}),
        (["null", POINT, PLACE], ("Place", {"x": 1}), {"Place": {"x": 1}}),
        (
            {"type": "map", "values": ["null", "long"]},
            {"a": 2**40, "b": None},
            {"a": {"long": 2**40}, "b": None},
        ),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ({"type": "fixed", "name": "F", "size": 2}, b"\x00\xe9", "\u0000é"),
        ({"type": "array", "items": POINT}, [{"x": 1}, {"x": 2}], [{"x": 1}, {"x": 2}]),
        ("double", float("nan"), "NaN"),
        ("double", float("-inf"), "-Infinity"),
        (["null", {"type": "long", "logicalType": "timestamp-millis"}], 2**62, {"long": 2**62}),
        ({"type": "int", "logicalType": "date"}, -(2**31), -(2**31)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\x04\xd2", "\u0004Ò"),
        ({"type": "string", "logicalType": "uuid"}, "not a uuid", "not a uuid"),
    ],
)
def test_avro_has_its_own_json(schema: Any, value: Any, expected: Any) -> None:
    plain = json.loads(json.dumps(schema).replace('"logicalType"', '"ignored"'))
    assert told(schema, written(plain, value)) == expected


def test_avro_of_several_names_and_references_to_them() -> None:
    schema = {
        "type": "record",
        "name": "Tree",
        "namespace": "a.b",
        "fields": [
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["OAK"]}},
            {"name": "same", "type": "Kind"},
            {"name": "next", "type": ["null", "Tree"]},
        ],
    }
    value = {"kind": "OAK", "same": "OAK", "next": {"kind": "OAK", "same": "OAK", "next": None}}
    expected = {"kind": "OAK", "same": "OAK", "next": {"a.b.Tree": {**value["next"]}}}  # type: ignore[dict-item]
    assert told(schema, written(schema, value)) == expected


def test_data_nested_without_end_do_not_fit_and_do_no_harm() -> None:
    chain = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
    decoded = decode(DataFormat.AVRO, avro(chain), b"\x02" * 300_000 + b"\0")
    assert decoded.problem is not None and "RecursionError" in decoded.problem.reason


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "record", "name": "Empty", "fields": []},
        {"type": "record", "name": "Nulls", "fields": [{"name": "n", "type": "null"}]},
    ],
)
def test_items_that_take_no_bytes_are_not_counted_out(items: Any) -> None:
    quintillion = b"\x80\x80\x90\xbb\xba\xd6\xad\xf0\x0d"
    decoded = decode(DataFormat.AVRO, avro({"type": "array", "items": items}), quintillion + b"\0")
    assert decoded.problem is not None and "no bytes" in decoded.problem.reason


@pytest.mark.parametrize("data", [b"", b"\x0a", b"\x7f", b"\xff" * 20])
def test_avro_that_is_cut_short_does_not_fit(data: bytes) -> None:
    assert decode(DataFormat.AVRO, avro(["null", "string"]), data).problem is not None


@dataclass(frozen=True)
class Shop:
    """A Protobuf schema as the format's implementation gives it: message classes by their paths."""

    schema_type: SchemaType = SchemaType.PROTOBUF

    def message_class(self, path: Any) -> Any:
        file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
        order = file.message_type.add(name="Order")
        line = order.nested_type.add(name="Line")
        fields = descriptor_pb2.FieldDescriptorProto
        for name, number, kind in (("item_name", 1, fields.TYPE_STRING), ("count", 2, fields.TYPE_INT64)):
            line.field.add(name=name, number=number, type=kind, label=fields.LABEL_OPTIONAL)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        found = pool.FindMessageTypeByName("shop.Order")
        for index in path[1:]:
            found = found.nested_types[index]
        return message_factory.GetMessageClass(found)


def test_protobuf_has_its_json_mapping_with_defaults() -> None:
    line = Shop().message_class((0, 0))(item_name="nut")
    decoded = decode(
        DataFormat.PROTOBUF, Shop(), framing.encode_message_index((0, 0)) + line.SerializeToString()
    )
    assert json.loads(decoded.parts[0])["value"] == {"itemName": "nut", "count": "0"}


@pytest.mark.parametrize("data", [b"", b"\0\xff", b"\x04\0\x63", b"\x80\x80\x80\x80\x80\x80"])
def test_protobuf_that_is_none_does_not_fit(data: bytes) -> None:
    assert decode(DataFormat.PROTOBUF, Shop(), data).problem is not None


def test_a_schema_of_another_type_does_not_fit() -> None:
    decoded = decode(DataFormat.AVRO, Shop(), b"\0")
    assert decoded.problem is not None and "PROTOBUF" in decoded.problem.reason
