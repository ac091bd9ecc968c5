"""The transforms and predicates of this package, as plugins."""

from __future__ import annotations

from typing import Final

from ottla.connect.plugins.catalog import Kind, Plugin

_KAFKA_VERSION: Final = "4.3.1"
_DEBEZIUM_VERSION: Final = "3.6.1.Final"
_KAFKA: Final = "org.apache.kafka.connect.transforms"
_HERE: Final = "ottla.connect.transforms"


def _transform(name: str, module: str) -> Plugin:
    return Plugin((f"{_KAFKA}.{name}",), Kind.TRANSFORMATION, _KAFKA_VERSION, f"{_HERE}.{module}:{name}")


def _sided(name: str, module: str) -> tuple[Plugin, Plugin]:
    """The transform of keys and that of values."""
    return (
        Plugin((f"{_KAFKA}.{name}$Key",), Kind.TRANSFORMATION, _KAFKA_VERSION, f"{_HERE}.{module}:{name}Key"),
        Plugin(
            (f"{_KAFKA}.{name}$Value",), Kind.TRANSFORMATION, _KAFKA_VERSION, f"{_HERE}.{module}:{name}Value"
        ),
    )


def _debezium(name: str, module: str) -> Plugin:
    simple = name.rpartition(".")[2]
    return Plugin(
        (f"io.debezium.transforms.{name}",),
        Kind.TRANSFORMATION,
        _DEBEZIUM_VERSION,
        f"{_HERE}.debezium.{module}:{simple}",
    )


def _predicate(name: str) -> Plugin:
    return Plugin(
        (f"{_KAFKA}.predicates.{name}",), Kind.PREDICATE, _KAFKA_VERSION, f"{_HERE}.predicates:{name}"
    )


PLUGINS: Final[tuple[Plugin, ...]] = (
    *_sided("Cast", "cast"),
    _transform("DropHeaders", "headers"),
    *_sided("ExtractField", "whole_fields"),
    _transform("Filter", "routers"),
    *_sided("Flatten", "flatten"),
    *_sided("HeaderFrom", "headers"),
    *_sided("HoistField", "whole_fields"),
    *_sided("InsertField", "insert_field"),
    _transform("InsertHeader", "headers"),
    *_sided("MaskField", "mask_field"),
    _transform("RegexRouter", "routers"),
    *_sided("ReplaceField", "replace_field"),
    *_sided("SetSchemaMetadata", "schema_metadata"),
    *_sided("TimestampConverter", "timestamp_converter"),
    _transform("TimestampRouter", "routers"),
    _transform("ValueToKey", "whole_fields"),
    _debezium("ExtractNewRecordState", "unwrap"),
    _debezium("outbox.EventRouter", "outbox"),
    _predicate("HasHeaderKey"),
    _predicate("RecordIsTombstone"),
    _predicate("TopicNameMatches"),
)
