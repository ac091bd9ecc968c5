"""The schemas around rows: a change's envelope, its source block, transactions and heartbeats."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ottla.connect.data.building import OPTIONAL, REQUIRED, struct_schema
from ottla.connect.data.schema import Schema, Struct, Type

ENVELOPE_VERSION: Final = 2
_INT64: Final = REQUIRED[Type.INT64]
_STRING: Final = REQUIRED[Type.STRING]


class Operation(enum.StrEnum):
    """What happened to a row; the value is the envelope's `op`."""

    READ = "r"
    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"
    MESSAGE = "m"


class SnapshotMark(enum.StrEnum):
    """The source block's `snapshot`."""

    TRUE = "true"
    FIRST = "first"
    FIRST_IN_TABLE = "first_in_data_collection"
    LAST_IN_TABLE = "last_in_data_collection"
    LAST = "last"
    FALSE = "false"
    INCREMENTAL = "incremental"


def _versioned(schema: Schema, version: int) -> Schema:
    return replace(schema, version=version)


TRANSACTION_BLOCK: Final = _versioned(
    struct_schema(
        (("id", _STRING), ("total_order", _INT64), ("data_collection_order", _INT64)),
        optional=True,
        name="event.block",
    ),
    1,
)
"""Which transaction a change is of, and its place there."""
COLLECTION_COUNT: Final = _versioned(
    struct_schema(
        (("data_collection", _STRING), ("event_count", _INT64)), optional=True, name="event.collection"
    ),
    1,
)
_SNAPSHOT: Final = Schema(
    Type.STRING,
    optional=True,
    default=SnapshotMark.FALSE.value,
    name="io.debezium.data.Enum",
    version=1,
    parameters={"allowed": ",".join(SnapshotMark)},
)


def source_schema(name: str, own: Iterable[tuple[str, Schema]]) -> Schema:
    """The schema of a connector's source block: what all have, then its own fields."""
    common = (
        ("version", _STRING),
        ("connector", _STRING),
        ("name", _STRING),
        ("ts_ms", _INT64),
        ("snapshot", _SNAPSHOT),
        ("db", _STRING),
        ("sequence", OPTIONAL[Type.STRING]),
        ("ts_us", OPTIONAL[Type.INT64]),
        ("ts_ns", OPTIONAL[Type.INT64]),
    )
    return _versioned(struct_schema((*common, *own), name=name), 1)


def envelope_schema(name: str, row: Schema, source: Schema) -> Schema:
    """The schema of a table's changes."""
    fields = (
        ("before", row),
        ("after", row),
        ("source", source),
        ("transaction", TRANSACTION_BLOCK),
        ("op", _STRING),
        ("ts_ms", OPTIONAL[Type.INT64]),
        ("ts_us", OPTIONAL[Type.INT64]),
        ("ts_ns", OPTIONAL[Type.INT64]),
    )
    return _versioned(struct_schema(fields, name=name), ENVELOPE_VERSION)


def transaction_key_schema(name: str = "io.debezium.connector.common.TransactionMetadataKey") -> Schema:
    """The schema of the keys of a transaction's records."""
    return _versioned(struct_schema((("id", _STRING),), name=name), 1)


def transaction_value_schema(name: str = "io.debezium.connector.common.TransactionMetadataValue") -> Schema:
    """The schema of a transaction's beginning and end."""
    fields = (
        ("status", _STRING),
        ("id", _STRING),
        ("event_count", OPTIONAL[Type.INT64]),
        ("data_collections", Schema(Type.ARRAY, optional=True, values=COLLECTION_COUNT)),
        ("ts_ms", _INT64),
    )
    return _versioned(struct_schema(fields, name=name), 1)


HEARTBEAT_KEY: Final = _versioned(
    struct_schema((("serverName", _STRING),), name="io.debezium.connector.common.ServerNameKey"), 1
)
HEARTBEAT_VALUE: Final = _versioned(
    struct_schema((("ts_ms", _INT64),), name="io.debezium.connector.common.Heartbeat"), 1
)


def heartbeat_key(prefix: str) -> Struct:
    """The key of a connector's heartbeats."""
    return Struct(HEARTBEAT_KEY, {"serverName": prefix})


def heartbeat_value(now_ms: int) -> Struct:
    """A heartbeat of a moment."""
    return Struct(HEARTBEAT_VALUE, {"ts_ms": now_ms})
