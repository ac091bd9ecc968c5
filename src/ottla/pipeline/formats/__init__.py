"""Formats of keys and values: the arguments `key=` and `value=` of sources and sinks.

Formats without a schema are constants (`TEXT`, `INT64`, …); the others are made by a function:

    json(Order)                        avro(registry)
    json("id BIGINT, item STRING")     avro(registry, schema=Order)
    protobuf(registry, message="a.B")  time_windowed(TEXT, window_size_ms=60_000)

`Order` may be a dataclass, a TypedDict, a NamedTuple, a Spark type or its DDL text.
"""

from __future__ import annotations

from typing import Final

from ottla.pipeline.formats.avro import AvroFormat
from ottla.pipeline.formats.connect_json import ConnectJsonFormat
from ottla.pipeline.formats.format import ERROR, VALUE, Format, FormatError
from ottla.pipeline.formats.json_format import JsonFormat
from ottla.pipeline.formats.json_schema import JsonSchemaFormat
from ottla.pipeline.formats.primitives import Primitive, PrimitiveFormat
from ottla.pipeline.formats.protobuf import ProtobufFormat
from ottla.pipeline.formats.python_types import TypeLike, spark_type, spark_type_of
from ottla.pipeline.formats.registry import RegistryError, SchemaRegistry
from ottla.pipeline.formats.subjects import SubjectStrategy
from ottla.pipeline.formats.windowed import WindowedFormat

BYTES: Final = PrimitiveFormat(Primitive.BYTES)
TEXT: Final = PrimitiveFormat(Primitive.TEXT)
INT16: Final = PrimitiveFormat(Primitive.INT16)
INT32: Final = PrimitiveFormat(Primitive.INT32)
INT64: Final = PrimitiveFormat(Primitive.INT64)
FLOAT32: Final = PrimitiveFormat(Primitive.FLOAT32)
FLOAT64: Final = PrimitiveFormat(Primitive.FLOAT64)
BOOLEAN: Final = PrimitiveFormat(Primitive.BOOLEAN)
UUID: Final = PrimitiveFormat(Primitive.UUID)
VOID: Final = PrimitiveFormat(Primitive.VOID)


def json(schema: TypeLike | None = None) -> Format:
    """JSON of a type; without a type, any JSON as its text. Raises FormatError.

    Fields that are not nullable must be present. `json("VARIANT")` keeps any JSON as a VARIANT.
    """
    return JsonFormat.of(schema)


def json_with_schema(schema: TypeLike) -> Format:
    """Connect's JSON with its schema in each record. Raises FormatError."""
    return ConnectJsonFormat.of(schema)


def avro(
    registry: SchemaRegistry | str,
    schema: TypeLike | None = None,
    *,
    subject: str | None = None,
    strategy: SubjectStrategy = SubjectStrategy.TOPIC,
    auto_register: bool = True,
    name: str = "Record",
) -> Format:
    """Avro through the Schema Registry, given as its address or as settings.

    schema: the text of an Avro schema, or a type from which one is made, whose record is called `name`;
    without it, the subject's latest schema when the query starts. Raises FormatError.
    """
    return AvroFormat.of(_registry(registry), schema, subject, strategy, auto_register, name)


def protobuf(
    registry: SchemaRegistry | str,
    schema: str | None = None,
    *,
    message: str | None = None,
    subject: str | None = None,
    strategy: SubjectStrategy = SubjectStrategy.TOPIC,
    auto_register: bool = True,
) -> Format:
    """Protobuf through the Schema Registry.

    schema: the text of a .proto file; without it, the subject's latest schema when the query starts.
    message: a message's full name; by default the schema's first message. Raises FormatError.
    """
    return ProtobufFormat.of(_registry(registry), schema, message, subject, strategy, auto_register)


def json_schema(
    registry: SchemaRegistry | str,
    schema: TypeLike | None = None,
    *,
    subject: str | None = None,
    strategy: SubjectStrategy = SubjectStrategy.TOPIC,
    auto_register: bool = True,
    validate: bool = False,
    title: str = "Record",
) -> Format:
    """JSON with a JSON Schema of the Schema Registry.

    schema: the text of a JSON Schema, or a type from which one is made, called `title`; without it, the
    subject's latest schema when the query starts. validate: check each payload against the schema that it
    names (slow, as it is done in Python). Raises FormatError.
    """
    return JsonSchemaFormat.of(_registry(registry), schema, subject, strategy, auto_register, validate, title)


def time_windowed(inner: Format, window_size_ms: int) -> Format:
    """Keys of time windows as Kafka Streams writes them: STRUCT<key, start, end>. Raises FormatError."""
    return WindowedFormat(inner, window_size_ms)


def session_windowed(inner: Format) -> Format:
    """Keys of session windows as Kafka Streams writes them: STRUCT<key, start, end>."""
    return WindowedFormat(inner, None)


def _registry(registry: SchemaRegistry | str) -> SchemaRegistry:
    return SchemaRegistry(registry) if isinstance(registry, str) else registry


__all__ = [
    "BOOLEAN",
    "BYTES",
    "ERROR",
    "FLOAT32",
    "FLOAT64",
    "INT16",
    "INT32",
    "INT64",
    "TEXT",
    "UUID",
    "VALUE",
    "VOID",
    "Format",
    "FormatError",
    "RegistryError",
    "SchemaRegistry",
    "SubjectStrategy",
    "TypeLike",
    "avro",
    "json",
    "json_schema",
    "json_with_schema",
    "protobuf",
    "session_windowed",
    "spark_type",
    "spark_type_of",
    "time_windowed",
]
