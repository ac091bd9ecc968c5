"""HeaderFrom, InsertHeader and DropHeaders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import HIGH, Table, by_name, repeating_list, string
from ottla.config.settings import Settings
from ottla.config.validators import OneOf
from ottla.connect.data.building import struct_schema
from ottla.connect.data.caches import SchemaCache
from ottla.connect.data.record import Header, Record
from ottla.connect.data.schema import DataError, Schema, Struct
from ottla.connect.data.values import parse_string
from ottla.connect.plugins.required import Required, require
from ottla.connect.transforms.common import (
    NOT_EMPTY_LIST,
    REPLACE_NULL_WITH_DEFAULT,
    VERSION,
    Source,
    copied,
    fields_of,
    require_map,
    require_struct,
    source_of,
    sources_of,
)
from ottla.connect.transforms.sides import KEY, VALUE, Side, Sided, headers_replaced

FIELDS: Final = repeating_list.optional(
    "fields", "The fields that become headers.", Required(NOT_EMPTY_LIST), importance=HIGH
)
HEADERS: Final = repeating_list.optional(
    "headers",
    "The names of the headers, in the order of the fields.",
    Required(NOT_EMPTY_LIST),
    importance=HIGH,
)
OPERATION: Final = string.optional(
    "operation",
    "Whether the fields go from the key or value (move) or stay in it (copy).",
    Required(OneOf(("move", "copy"))),
    importance=HIGH,
)
HEADER: Final = string.optional("header", "The header's name.", Required(), importance=HIGH)
VALUE_LITERAL: Final = string.optional(
    "value.literal", "The header's value, read as the type that it looks like.", Required(), importance=HIGH
)
DROPPED: Final = repeating_list.optional(
    "headers", "The names of the headers to drop.", Required(NOT_EMPTY_LIST), importance=HIGH
)


@dataclass(frozen=True, slots=True)
class _Plan:
    """headers: name, how the value is read, its schema (None: no such field). schema, kept: of the struct."""

    headers: list[tuple[str, Source, Schema | None]]
    schema: Schema
    kept: list[Source]


class HeaderFrom:
    """See Transform."""

    TABLE: ClassVar[Table] = Table(
        "HeaderFrom", by_name((FIELDS, HEADERS, OPERATION, REPLACE_NULL_WITH_DEFAULT))
    )
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings, side: Side) -> None:
        """Raises ConfigError."""
        self.side: Final = side
        fields, headers = require(settings, FIELDS), require(settings, HEADERS)
        if len(fields) != len(headers):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")
        self._pairs = list(zip(fields, headers, strict=True))
        self._moves = require(settings, OPERATION) == "move"
        self._purpose = f"header {require(settings, OPERATION)}"
        self._replace_null = settings[REPLACE_NULL_WITH_DEFAULT]
        self._plans: SchemaCache[_Plan] = SchemaCache(self._plan)

    def apply(self, record: Record) -> Record:
        """See Transform."""
        schema, value = self.side.schema_of(record), self.side.value_of(record)
        if schema is None:
            values = require_map(value, self._purpose)
            added = tuple(Header(header, values.get(field)) for field, header in self._pairs)
            if self._moves:
                fields = {field for field, _ in self._pairs}
                values = {name: each for name, each in values.items() if name not in fields}
            return headers_replaced(self.side.replaced(record, None, dict(values)), record.headers + added)
        struct = require_struct(value, self._purpose, schema)
        plan = self._plans.get(schema)
        if self._moves:
            changed = self.side.replaced(record, plan.schema, Struct(plan.schema, copied(plan.kept, struct)))
        else:
            changed = record
        added = tuple(_header(name, source, of, struct) for name, source, of in plan.headers)
        return headers_replaced(changed, record.headers + added)

    def _plan(self, schema: Schema) -> _Plan:
        moved = {field for field, _ in self._pairs} if self._moves else set()
        kept = [each for each in fields_of(schema) if each.name not in moved]
        changed = struct_schema(((each.name, each.schema) for each in kept), like=schema)
        sources = [each for each in sources_of(schema, self._replace_null) if each.name not in moved]
        headers: list[tuple[str, Source, Schema | None]] = []
        for name, header in self._pairs:
            field = schema.field(name)
            if field is None:
                headers.append((header, Source(name, None, True, ""), None))
                continue
            source = source_of(field, self._replace_null)
            headers.append((header, Source(name, source.default, False, source.type_name), field.schema))
        return _Plan(headers, changed, sources)


def _header(name: str, source: Source, schema: Schema | None, struct: Struct) -> Header:
    if schema is None:
        raise DataError(f"Field does not exist: {source.name}")
    value = source.of(struct.values)
    if value is None and not schema.optional:
        raise DataError(f"A null value requires an optional schema but was {schema}")
    return Header(name, value, schema)


class InsertHeader:
    """See Transform."""

    TABLE: ClassVar[Table] = Table("InsertHeader", by_name((HEADER, VALUE_LITERAL)))
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""
        schema, value = parse_string(require(settings, VALUE_LITERAL))
        self._header = (Header(require(settings, HEADER), value, schema),)

    def apply(self, record: Record) -> Record:
        """See Transform."""
        return headers_replaced(record, record.headers + self._header)


class DropHeaders:
    """See Transform."""

    TABLE: ClassVar[Table] = Table("DropHeaders", by_name((DROPPED,)))
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""
        names = require(settings, DROPPED)
        self._names = frozenset(names)

    def apply(self, record: Record) -> Record:
        """See Transform."""
        if not record.headers:
            return record
        kept = tuple(each for each in record.headers if each.name not in self._names)
        return headers_replaced(record, kept)


HeaderFromKey: Final = Sided(HeaderFrom, KEY)
HeaderFromValue: Final = Sided(HeaderFrom, VALUE)
