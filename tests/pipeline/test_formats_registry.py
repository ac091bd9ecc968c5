"""Formats of the Schema Registry against Confluent's own serializers, both ways, and bad payloads."""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from ottla.pipeline import formats
from ottla.pipeline.formats import Format, FormatError
from support.schemas.protobuf_messages import message_class
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

pytestmark = pytest.mark.spark

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": "string"},
        {"name": "price", "type": ["null", "double"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "raw", "type": "bytes"},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]},
            },
        },
        {"name": "extra", "type": ["null", "string", "long", "Line"], "default": None},
    ],
}
NOON = dt.datetime(2026, 1, 2, 12, 0, 0, 123000, tzinfo=dt.UTC)


def order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "item": f"ïtem {number}",
        "price": None if number % 2 else number / 4,
        "state": "PAID",
        "at": NOON,
        "day": dt.date(2026, 1, 2),
        "total": Decimal("12.34"),
        "raw": b"\x00\xff",
        "tags": {"a": number % 100},
        "lines": [{"sku": "x"}, {"sku": "y"}],
        "extra": [None, "words", 2**40, {"sku": "z"}][number % 4],
    }


EXTRA = [
    None,
    Row(string="words", long=None, Line=None),
    Row(string=None, long=2**40, Line=None),
    Row(string=None, long=None, Line=Row(sku="z")),
]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    directory = tmp_path_factory.mktemp("formats")
    with (
        OttlaBroker.start(directory / "broker") as broker,
        ServiceProcess.start("registry", broker.bootstrap, directory) as running,
    ):
        yield running


@pytest.fixture
def client(registry: ServiceProcess) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def decode(spark: SparkSession, made: Format, payloads: Sequence[bytes | None]) -> list[Row]:
    """Rows of value and error, in order."""
    frame = spark.createDataFrame(list(enumerate(payloads)), "at INT, payload BINARY")
    result = frame.select("at", made.decode(F.col("payload"), "unused", False).alias("d")).orderBy("at")
    return [row.d for row in result.collect()]


def encode(spark: SparkSession, made: Format, values: Sequence[Any], topic: str) -> list[bytes | None]:
    schema = f"at INT, v {made.data_type().simpleString()}"
    frame = spark.createDataFrame(list(enumerate(values)), schema)
    rows = frame.select("at", made.encode(F.col("v"), topic, False).alias("b")).orderBy("at").collect()
    return [None if row.b is None else bytes(row.b) for row in rows]


def test_avro_of_confluents_serializer_is_read(
    spark: SparkSession, registry: ServiceProcess, client: SchemaRegistryClient, unique_name: str
) -> None:
    serialize = AvroSerializer(client, json.dumps(ORDER))
    payloads = [serialize(order(number), value_of(unique_name)) for number in range(40)]

    made = formats.avro(registry.url).bind(unique_name, False)
    rows = decode(spark, made, [*payloads, None])

    assert made.describe() == f"avro ({unique_name}-value, version 1)"
    assert [row.error for row in rows] == [None] * 41
    assert rows[40].value is None
    for number, row in enumerate(rows[:40]):
        wanted = order(number)
        assert row.value.extra == EXTRA[number % 4]
        assert row.value["at"].replace(tzinfo=dt.UTC) == NOON
        assert row.value.lines == [Row(sku="x"), Row(sku="y")]
        for name in ("id", "item", "price", "state", "day", "total", "raw", "tags"):
            assert row.value[name] == wanted[name], name


def test_avro_is_written_as_confluents_deserializer_reads_it(
    spark: SparkSession, registry: ServiceProcess, client: SchemaRegistryClient, unique_name: str
) -> None:
    serialize = AvroSerializer(client, json.dumps(ORDER))
    payloads = [serialize(order(number), value_of(unique_name)) for number in range(8)]
    made = formats.avro(registry.url).bind(unique_name, False)

    frame = spark.createDataFrame(list(enumerate([*payloads, None])), "at INT, payload BINARY")
    values = frame.select("at", made.decode(F.col("payload"), unique_name, False).value.alias("v"))
    rows = values.select("at", made.encode(F.col("v"), unique_name, False).alias("b")).orderBy("at").collect()

    deserialize = AvroDeserializer(client)
    assert rows[8].b is None
    assert [deserialize(bytes(row.b), value_of(unique_name)) for row in rows[:8]] == [
        order(number) for number in range(8)
    ]


def test_avro_of_older_and_newer_writers_becomes_the_readers_record(
    spark: SparkSession, registry: ServiceProcess, client: SchemaRegistryClient, unique_name: str
) -> None:
    def record(*fields: dict[str, Any]) -> str:
        return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})

    old = record({"name": "id", "type": "int"}, {"name": "gone", "type": "string"})
    new = record({"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]})
    union = record({"name": "id", "type": "long"}, {"name": "u", "type": ["long", "string"]})
    reader = record(
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": "none"},
        {"name": "u", "type": ["null", "long", "string"], "default": None},
    )
    payloads = [
        AvroSerializer(client, schema)(value, value_of(f"{unique_name}-{at}"))
        for at, (schema, value) in enumerate(
            [
                (old, {"id": 1, "gone": "x"}),
                (new, {"id": 2, "note": None}),
                (new, {"id": 3, "note": "n"}),
                (union, {"id": 4, "u": "text"}),
                (union, {"id": 5, "u": 7}),
            ]
        )
    ]

    rows = decode(spark, formats.avro(registry.url, reader), payloads)

    assert [row.error for row in rows] == [None] * 5
    assert [(row.value.id, row.value.note, row.value.u) for row in rows] == [
        (1, "none", None),
        (2, None, None),
        (3, "n", None),
        (4, "none", Row(long=None, string="text")),
        (5, "none", Row(long=7, string=None)),
    ]


def test_each_bad_avro_payload_has_an_error_of_its_own(
    spark: SparkSession, registry: ServiceProcess, client: SchemaRegistryClient, unique_name: str
) -> None:
    serialize = AvroSerializer(client, json.dumps(ORDER))
    good = serialize(order(4), value_of(unique_name))
    other = client.register_schema(f"{unique_name}-json", Schema('{"type": "object"}', "JSON"))
    bad = {
        b"": "too short",
        b"\0\0": "too short",
        b'{"id": 1}': "begins with a zero byte",
        b"\0\0\0\0\0": "schema 0",
        b"\0\x7f\xff\xff\xff" + good[5:]: "schema 2147483647",
        struct.pack(">bi", 0, other) + good[5:]: "of the type JSON, not AVRO",
        good[:-1]: "",
        good[:9]: "",
        good + b"x": "1 bytes are left over",
        good[:5]: "",
        good[:6] + b"\xff" * 40: "",
    }

    # Between good ones, and two whose faults make up for one another: one byte too many, one too few.
    payloads = [good, *(each for payload in bad for each in (payload, good)), good + b"\0", good[:-1], good]
    rows = decode(spark, formats.avro(registry.url).bind(unique_name, False), payloads)

    for payload, row in zip(payloads, rows, strict=True):
        if payload == good:
            assert row.error is None and row.value.id == 4
        else:
            assert row.value is None and row.error, payload
            assert bad.get(payload, "") in row.error, payload


def test_a_missing_subject_or_a_bad_schema_stops_the_start(
    spark: SparkSession, registry: ServiceProcess
) -> None:
    with pytest.raises(FormatError, match=r"no schema under the subject nowhere-value .*register it"):
        formats.avro(registry.url).bind("nowhere", False)
    with pytest.raises(FormatError, match="give a subject"):
        formats.avro(registry.url).bind(None, False)
    with pytest.raises(FormatError, match=r"is not a valid AVRO schema|not an Avro schema"):
        formats.avro(registry.url, '{"type": "recrd"}')
    with pytest.raises(FormatError, match="contains itself"):
        formats.avro(
            registry.url,
            '{"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]}',
        )
    with pytest.raises(FormatError, match="auto_register is off"):
        unregistered = formats.avro(registry.url, '"string"', auto_register=False)
        unregistered.encode(F.lit("x"), "nowhere", False)


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Ignored { bool b = 1; }
message Order {
  enum State { NEW = 0; PAID = 1; }
  message Line { string sku = 1; uint64 n = 2; }
  int64 id = 1;
  string item = 2;
  optional double price = 3;
  State state = 4;
  google.protobuf.Timestamp at = 5;
  repeated Line lines = 6;
  map<int32, string> names = 7;
  oneof pick { string word = 8; uint32 number = 9; }
  google.protobuf.Int64Value boxed = 10;
  bytes raw = 11;
  repeated float measures = 12;
}
"""


def proto_order(order_class: Any, number: int) -> Any:
    made = order_class(id=number, item=f"ïtem {number}", state=number % 2, raw=b"\0\xff", measures=[0.5, 1.5])
    if number % 2:
        made.price = number / 4
        made.word = "w"
        made.boxed.value = number
    else:
        made.number = 4_000_000_000
    made.at.FromDatetime(NOON.replace(tzinfo=None))
    made.lines.add(sku="x", n=2**64 - 1)
    made.names[7] = "seven"
    return made


def test_protobuf_goes_both_ways_with_confluents_serializers(
    spark: SparkSession,
    registry: ServiceProcess,
    client: SchemaRegistryClient,
    unique_name: str,
    tmp_path: Path,
) -> None:
    order_class = message_class(tmp_path, {"shop.proto": PROTO}, "shop.Order")
    serialize = ProtobufSerializer(order_class, client, {"use.deprecated.format": False})
    sent = [proto_order(order_class, number) for number in range(6)]
    payloads = [serialize(message, value_of(unique_name)) for message in sent]

    made = formats.protobuf(registry.url, message="shop.Order").bind(unique_name, False)
    ignored = message_class(tmp_path, {"shop.proto": PROTO}, "shop.Ignored")
    other = ProtobufSerializer(ignored, client, {"use.deprecated.format": False})
    bad = [other(ignored(b=True), value_of(unique_name)), payloads[0][:8], payloads[0] + b"\xff", b"\0" * 5]
    rows = decode(spark, made, [*payloads, None, *bad])

    assert [row.error for row in rows[:7]] == [None] * 7
    value = rows[3].value
    assert (value.id, value.item, value.price, value.state) == (3, "ïtem 3", 0.75, "PAID")
    assert (value.word, value.number, value.boxed) == ("w", None, 3)
    assert value["at"].replace(tzinfo=dt.UTC) == NOON
    assert value.lines == [Row(sku="x", n=Decimal(2**64 - 1))]
    assert value.names == {7: "seven"} and bytes(value.raw) == b"\0\xff" and value.measures == [0.5, 1.5]
    assert (rows[2].value.price, rows[2].value.word, rows[2].value.number) == (None, None, 4_000_000_000)
    assert rows[6].value is None
    assert "not a shop.Order" in rows[7].error
    assert all(row.value is None and row.error for row in rows[7:])

    frame = spark.createDataFrame(list(enumerate(payloads)), "at INT, payload BINARY")
    values = frame.select("at", made.decode(F.col("payload"), unique_name, False).value.alias("v"))
    written = values.select("at", made.encode(F.col("v"), unique_name, False).alias("b")).orderBy("at")
    deserialize = ProtobufDeserializer(order_class, {"use.deprecated.format": False})
    assert [deserialize(bytes(row.b), value_of(unique_name)) for row in written.collect()] == sent


PERSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Person",
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "age": {"type": ["integer", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name"],
}


def test_json_schema_goes_both_ways_with_confluents_serializers(
    spark: SparkSession, registry: ServiceProcess, client: SchemaRegistryClient, unique_name: str
) -> None:
    serialize = JSONSerializer(json.dumps(PERSON), client)
    payloads = [serialize({"name": "Ada", "age": 36, "tags": ["x"]}, value_of(unique_name)), None]
    prefix = payloads[0][:5]
    bad = [prefix, b"{}", prefix + b"{}", prefix + b'{"name": 1', prefix + b'{"name": "A", "age": "x"}']

    made = formats.json_schema(registry.url).bind(unique_name, False)
    rows = decode(spark, made, [*payloads, *bad])
    assert made.native
    assert rows[0].value == Row(name="Ada", age=36, tags=["x"]) and rows[0].error is None
    assert rows[1] == Row(value=None, error=None)
    assert all(row.value is None and row.error for row in rows[2:])

    strict = formats.json_schema(registry.url, validate=True).bind(unique_name, False)
    short = prefix + b'{"name": "A"}'
    unknown = b"\0\x7f\0\0\0" + b'{"name": "Ada"}'
    assert decode(spark, made, [short])[0].error is None
    checked = decode(spark, strict, [payloads[0], short, unknown])
    assert checked[0].error is None
    assert "too short" in checked[1].error and "schema 2130706432" in checked[2].error

    written = encode(spark, made, [("Bob", None, ["y"]), None], unique_name)
    assert written[1] is None
    assert JSONDeserializer(json.dumps(PERSON), schema_registry_client=client)(
        written[0], value_of(unique_name)
    ) == {"name": "Bob", "age": None, "tags": ["y"]}


def test_a_python_type_is_registered_and_written(
    spark: SparkSession, registry: ServiceProcess, client: SchemaRegistryClient, unique_name: str
) -> None:
    made = formats.avro(
        registry.url, "id BIGINT NOT NULL, at TIMESTAMP, wall TIMESTAMP_NTZ", name="shop.Event"
    )
    wall = dt.datetime(1500, 1, 1, 1, 2, 3, 456)  # noqa: DTZ001
    (payload,) = encode(spark, made, [(5, NOON, wall)], unique_name)

    assert client.get_subjects() and f"{unique_name}-value" in client.get_subjects()
    found = AvroDeserializer(client)(payload, value_of(unique_name))
    assert found == {"id": 5, "at": NOON, "wall": wall}
    (row,) = decode(spark, made, [payload])
    assert row.value.wall == wall and row.error is None
