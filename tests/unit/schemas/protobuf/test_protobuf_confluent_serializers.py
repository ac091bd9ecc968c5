"""confluent-kafka's Protobuf serializer and deserializer, with our texts in a small registry between."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.schema_registry import RegisteredSchema, Schema
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.schemas.framing import split_frame, split_message_index
from ottla.schemas.protobuf.protobuf_format import ProtobufFormat, ProtobufSchema

LINE = """
    syntax = "proto3"; package shop.parts; import "google/type/money.proto";
    message Line { string product = 1; google.type.Money price = 2; }
"""
ORDER = """
    syntax = "proto3"; package shop; import "parts/line.proto"; import "google/protobuf/timestamp.proto";
    import "confluent/meta.proto";
    message Ignored {}
    message Order {
      map<string, int32> counts = 1; repeated parts.Line lines = 2; google.protobuf.Timestamp placed = 3;
      message Note { string text = 1 [(confluent.field_meta).doc = "free text"]; }
    }
"""


class TextRegistry:
    """The part of a registry that the clients use in this test; keeps canonical texts as ottla's does."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, Schema]] = []

    def config(self) -> dict[str, Any]:
        return {}

    def get_associations_by_resource_name(self, **_asked: object) -> list[object]:
        return []

    def references_of(self, schema: Schema) -> dict[str, str]:
        found: dict[str, str] = {}
        for reference in schema.references or []:
            registered = self.get_version(str(reference.subject), int(reference.version or 0)).schema
            found |= self.references_of(registered)
            found[str(reference.name)] = str(registered.schema_str)
        return found

    def parsed(self, schema: Schema) -> ProtobufSchema:
        return ProtobufFormat().parse(str(schema.schema_str), self.references_of(schema))

    def register_schema(self, subject: str, schema: Schema, normalize_schemas: bool = False) -> int:
        return self.register_schema_full_response(subject, schema).schema_id or 0

    def register_schema_full_response(
        self, subject: str, schema: Schema, normalize_schemas: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        text = self.parsed(schema).canonical_text
        stored = (subject, Schema(text, "PROTOBUF", schema.references))
        if stored not in self.texts:
            self.texts.append(stored)
        number = self.texts.index(stored) + 1
        return RegisteredSchema(subject=subject, version=1, schema_id=number, guid=None, schema=stored[1])

    lookup_schema = register_schema_full_response

    def get_schema(self, schema_id: int, subject: str | None = None, fmt: str | None = None) -> Schema:
        schema = self.texts[schema_id - 1][1]
        return Schema(self.parsed(schema).formatted(fmt or ""), "PROTOBUF", schema.references)

    def get_latest_version(self, subject: str, fmt: str | None = None) -> RegisteredSchema:
        return self.get_version(subject, 1, fmt=fmt)

    def get_version(
        self, subject: str, version: int, deleted: bool = False, fmt: str | None = None
    ) -> RegisteredSchema:
        (number,) = [number for number, (name, _) in enumerate(self.texts, 1) if name == subject]
        schema = self.get_schema(number, subject, fmt)
        return RegisteredSchema(subject=subject, version=version, schema_id=number, guid=None, schema=schema)


@pytest.mark.parametrize("path", [(0,), (1,), (1, 1)])
def test_messages_go_there_and_back(path: tuple[int, ...]) -> None:
    schema = ProtobufFormat().parse(ORDER, {"parts/line.proto": LINE})
    kind = schema.message_class(path)
    message = kind()
    if path == (1,):
        message = kind(counts={"a": 1}, lines=[{"product": "tea", "price": {"currency_code": "EUR"}}])
    elif path == (1, 1):
        message = kind(text="soon")
    registry, context = TextRegistry(), SerializationContext("orders", MessageField.VALUE)

    payload = ProtobufSerializer(kind, registry, {})(message, context)  # type: ignore[arg-type] # looks like one
    read = ProtobufDeserializer(kind, {}, registry)(payload, context)  # type: ignore[arg-type]

    assert read == message
    assert payload is not None
    schema_id, rest = split_frame(payload)
    index, data = split_message_index(rest)
    assert index == path
    subject, stored = registry.texts[schema_id - 1]
    assert subject == "orders-value"
    assert registry.parsed(stored).message_class(index).FromString(bytes(data)).SerializeToString() == bytes(
        data
    )


def test_python_and_java_register_the_same_schema() -> None:
    """Confluent's registry did not find the one as the other (#2956, #3477)."""
    schema = ProtobufFormat().parse(ORDER, {"parts/line.proto": LINE})
    registry = TextRegistry()
    kind = schema.message_class((1,))

    ProtobufSerializer(kind, registry, {})(  # type: ignore[arg-type] # looks like one
        kind(), SerializationContext("orders", MessageField.VALUE)
    )

    assert [subject for subject, _ in registry.texts] == ["parts/line.proto", "orders-value"]
    assert registry.texts[1][1].schema_str == schema.canonical_text


RULES = """
    syntax = "proto2"; package validate; import "google/protobuf/descriptor.proto";
    message Rules { optional int32 least = 1; }
    extend google.protobuf.FieldOptions { optional Rules rules = 1071; }
"""
RULED = """
    syntax = "proto3"; package shop;
    import "validate/validate.proto"; import "google/protobuf/timestamp.proto";
    message Item { int32 count = 1 [(validate.rules).least = 3]; google.protobuf.Timestamp made = 2; }
"""


def test_a_schema_whose_options_are_not_declared_can_be_used() -> None:
    """A text is registered without the file of its options; the programs have that file compiled in."""
    registry, context = TextRegistry(), SerializationContext("items", MessageField.VALUE)
    registry.register_schema("items-value", Schema(RULED, "PROTOBUF"))
    kind = ProtobufFormat().parse(RULED, {"validate/validate.proto": RULES}).message_class((0,))
    written = kind(count=5, made={"seconds": 7})

    serialize = ProtobufSerializer(
        kind,  # type: ignore[arg-type] # looks like one
        registry,
        {"auto.register.schemas": False, "use.latest.version": True},
    )
    payload = serialize(written, context)
    for conf in ({}, {"use.latest.version": True}):  # the latter looks up the descriptor that it was given
        read = ProtobufDeserializer(kind, conf, registry)(payload, context)  # type: ignore[arg-type]
        assert read == written

    assert [subject for subject, _ in registry.texts] == ["items-value"]
    assert "(validate.rules).least = 3" in str(registry.texts[0][1].schema_str)


def test_a_serializer_registers_the_file_of_the_options_as_a_reference() -> None:
    registry, context = TextRegistry(), SerializationContext("items", MessageField.VALUE)
    kind = ProtobufFormat().parse(RULED, {"validate/validate.proto": RULES}).message_class((0,))

    payload = ProtobufSerializer(kind, registry, {})(kind(count=5), context)  # type: ignore[arg-type]
    read = ProtobufDeserializer(kind, {}, registry)(payload, context)  # type: ignore[arg-type]

    assert read == kind(count=5)
    assert [subject for subject, _ in registry.texts] == ["validate/validate.proto", "items-value"]
