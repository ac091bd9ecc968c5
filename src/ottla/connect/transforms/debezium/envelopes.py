"""The envelopes of Debezium's change events: before, after, source, op."""

from __future__ import annotations

from typing import Any, Final

from ottla.connect.data.record import Record
from ottla.connect.data.schema import DataError, Schema, Struct, Type
from ottla.connect.transforms.common import require_struct

VERSION: Final = "3.6.1.Final"
"""The version of Debezium whose transforms these are like."""
BEFORE: Final = "before"
AFTER: Final = "after"
SOURCE: Final = "source"
OPERATION: Final = "op"
DELETE: Final = "d"
UPDATE: Final = "u"
_SUFFIX: Final = ".Envelope"


def is_envelope(record: Record) -> bool:
    """Whether a record's value is a change event. Others (heartbeats, schema changes) are left alone."""
    schema = record.value_schema
    return schema is not None and schema.name is not None and schema.name.endswith(_SUFFIX)


def extracted(record: Record, name: str) -> tuple[Schema, Any]:
    """A field of the value, with its default for null. Raises DataError."""
    schema = record.value_schema
    assert schema is not None
    struct = require_struct(record.value, "field extraction", schema)
    field = schema.field(name)
    if field is None:
        raise DataError(f"Unknown field: {name}")
    return field.schema, struct.get(name)


def typed(struct: Struct, name: str, type_: Type) -> Any:
    """A field of a type, without its default. Raises DataError."""
    field = struct.schema.field(name)
    if field is None:
        raise DataError(f"{name} is not a valid field name")
    if field.schema.type is not type_:
        raise DataError(f"Field '{name}' is not of type {type_.name}")
    return struct.values.get(name)
