"""InsertField: adds the record's topic, partition, offset, timestamp or a fixed text as fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import Table, by_name, string
from ottla.config.settings import Settings
from ottla.connect.data.building import OPTIONAL, REQUIRED, TIMESTAMP_SCHEMA, as_optional, struct_schema
from ottla.connect.data.caches import SchemaCache
from ottla.connect.data.record import Record
from ottla.connect.data.schema import DataError, Moment, Schema, Struct, Type
from ottla.connect.transforms.common import (
    REPLACE_NULL_WITH_DEFAULT,
    VERSION,
    Source,
    copied,
    require_map,
    require_struct,
    sources_of,
)
from ottla.connect.transforms.sides import KEY, VALUE, Side, Sided

_SUFFIX: Final = " With ! at its end it is required, with ? or nothing it may be null."
TOPIC_FIELD: Final = string.optional("topic.field", "The field for the topic." + _SUFFIX)
PARTITION_FIELD: Final = string.optional("partition.field", "The field for the partition." + _SUFFIX)
OFFSET_FIELD: Final = string.optional("offset.field", "The field for the offset; for sinks only." + _SUFFIX)
TIMESTAMP_FIELD: Final = string.optional("timestamp.field", "The field for the timestamp." + _SUFFIX)
STATIC_FIELD: Final = string.optional("static.field", "The field for a fixed text." + _SUFFIX)
STATIC_VALUE: Final = string.optional("static.value", "The text for static.field.")
PURPOSE: Final = "field insertion"


@dataclass(frozen=True, slots=True)
class Insertion:
    """A field to insert.

    of: its value, None where the record has none, which leaves the field out. source: the part of the record
    that it is; None for a fixed text.
    """

    name: str
    schema: Schema
    of: Callable[[Record], Any]
    is_moment: bool
    source: str | None
    text: str | None


class InsertField:
    """See Transform."""

    TABLE: ClassVar[Table] = Table(
        "InsertField",
        by_name(
            (
                TOPIC_FIELD,
                PARTITION_FIELD,
                OFFSET_FIELD,
                TIMESTAMP_FIELD,
                STATIC_FIELD,
                STATIC_VALUE,
                REPLACE_NULL_WITH_DEFAULT,
            )
        ),
    )
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings, side: Side) -> None:
        """Raises ConfigError."""
        self.side: Final = side
        self.replace_null: Final = settings[REPLACE_NULL_WITH_DEFAULT]
        text = settings[STATIC_VALUE]
        self.insertions: Final = [
            each
            for each in (
                _insertion(
                    settings[TOPIC_FIELD], REQUIRED[Type.STRING], lambda record: record.topic, "topic"
                ),
                _insertion(
                    settings[PARTITION_FIELD],
                    REQUIRED[Type.INT32],
                    lambda record: record.partition,
                    "partition",
                ),
                _insertion(settings[OFFSET_FIELD], REQUIRED[Type.INT64], _offset, "offset"),
                _insertion(
                    settings[TIMESTAMP_FIELD],
                    TIMESTAMP_SCHEMA,
                    lambda record: record.timestamp_ms,
                    "timestamp",
                ),
                _insertion(settings[STATIC_FIELD], REQUIRED[Type.STRING], lambda record: text, None, text),
            )
            if each is not None
        ]
        if not self.insertions:
            raise ConfigError("No field insertion configured")
        if settings[STATIC_FIELD] is not None and text is None:
            raise ConfigError(
                "Invalid value null for configuration static.value: No value specified for static field: "
                f"{settings[STATIC_FIELD]}"
            )
        self._plans: SchemaCache[tuple[Schema, list[Source]]] = SchemaCache(self._plan)

    def apply(self, record: Record) -> Record:
        """See Transform."""
        value = self.side.value_of(record)
        if value is None:
            return record
        if self.side.schema_of(record) is None:
            changed = dict(require_map(value, PURPOSE))
            for insertion in self.insertions:
                inserted = insertion.of(record)
                if inserted is not None:
                    changed[insertion.name] = inserted
            return self.side.replaced(record, None, changed)
        struct = require_struct(value, PURPOSE, self.side.schema_of(record))
        schema, sources = self._plans.get(struct.schema)
        values = copied(sources, struct)
        for insertion in self.insertions:
            inserted = insertion.of(record)
            if inserted is not None:
                values[insertion.name] = Moment(inserted) if insertion.is_moment else inserted
        return self.side.replaced(record, schema, Struct(schema, values))

    def _plan(self, schema: Schema) -> tuple[Schema, list[Source]]:
        return self.changed_schema(schema), sources_of(schema, self.replace_null)

    def changed_schema(self, schema: Schema) -> Schema:
        """The schema of values that had another one. Raises DataError for a field that is there already."""
        fields = [(each.name, each.schema) for each in schema.fields]
        return struct_schema([*fields, *((each.name, each.schema) for each in self.insertions)], like=schema)


def _insertion(
    name: str | None,
    schema: Schema,
    of: Callable[[Record], Any],
    source: str | None,
    text: str | None = None,
) -> Insertion | None:
    if name is None:
        return None
    is_moment = schema is TIMESTAMP_SCHEMA
    if name.endswith("!"):
        return Insertion(name[:-1], schema, of, is_moment, source, text)
    optional = as_optional(schema) if is_moment else OPTIONAL[schema.type]
    return Insertion(name.removesuffix("?"), optional, of, is_moment, source, text)


def _offset(record: Record) -> int:
    if record.offset is None:
        raise DataError(
            f"Only SinkRecord supported for [{PURPOSE}], found: org.apache.kafka.connect.source.SourceRecord"
        )
    return record.offset


InsertFieldKey: Final = Sided(InsertField, KEY)
InsertFieldValue: Final = Sided(InsertField, VALUE)
