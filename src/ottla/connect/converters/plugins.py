"""The converters of this package, as plugins."""

from __future__ import annotations

from typing import Final

from ottla.connect.plugins.catalog import Kind, Plugin

_KAFKA_VERSION: Final = "4.3.1"
_CONFLUENT_VERSION: Final = "8.0.0"
_KAFKA: Final = "org.apache.kafka.connect"
_HERE: Final = "ottla.connect.converters"


def _both(name: str, target: str) -> tuple[Plugin, Plugin]:
    """A converter of records that converts headers as well."""
    return (
        Plugin((name,), Kind.CONVERTER, _KAFKA_VERSION, target),
        Plugin((name,), Kind.HEADER_CONVERTER, _KAFKA_VERSION, target),
    )


def _confluent(name: str, target: str) -> Plugin:
    return Plugin((f"io.confluent.connect.{name}",), Kind.CONVERTER, _CONFLUENT_VERSION, f"{_HERE}.{target}")


PLUGINS: Final[tuple[Plugin, ...]] = (
    *_both(f"{_KAFKA}.json.JsonConverter", f"{_HERE}.json_converter:JsonConverter"),
    *_both(f"{_KAFKA}.storage.StringConverter", f"{_HERE}.primitives:StringConverter"),
    *_both(f"{_KAFKA}.converters.ByteArrayConverter", f"{_HERE}.primitives:ByteArrayConverter"),
    *_both(f"{_KAFKA}.converters.BooleanConverter", f"{_HERE}.primitives:BooleanConverter"),
    *_both(f"{_KAFKA}.converters.ShortConverter", f"{_HERE}.primitives:ShortConverter"),
    *_both(f"{_KAFKA}.converters.IntegerConverter", f"{_HERE}.primitives:IntegerConverter"),
    *_both(f"{_KAFKA}.converters.LongConverter", f"{_HERE}.primitives:LongConverter"),
    *_both(f"{_KAFKA}.converters.FloatConverter", f"{_HERE}.primitives:FloatConverter"),
    *_both(f"{_KAFKA}.converters.DoubleConverter", f"{_HERE}.primitives:DoubleConverter"),
    _confluent("avro.AvroConverter", "avro_converter:AvroConverter"),
    _confluent("json.JsonSchemaConverter", "json_schema_converter:JsonSchemaConverter"),
    _confluent("protobuf.ProtobufConverter", "protobuf_converter:ProtobufConverter"),
    Plugin(
        (f"{_KAFKA}.storage.SimpleHeaderConverter",),
        Kind.HEADER_CONVERTER,
        _KAFKA_VERSION,
        f"{_HERE}.simple_headers:SimpleHeaderConverter",
    ),
)
