"""HoistField, ExtractField and ValueToKey: a value becomes a field, a field the value, fields the key."""

from __future__ import annotations

from typing import ClassVar, Final

from ottla.config.setting import HIGH, Table, by_name, repeating_list, string
from ottla.config.settings import Settings
from ottla.connect.data.building import struct_schema
from ottla.connect.data.caches import SchemaCache
from ottla.connect.data.checking import check_value
from ottla.connect.data.record import Record
from ottla.connect.data.schema import DataError, Field, Schema, Struct
from ottla.connect.plugins.required import Required, require
from ottla.connect.transforms.common import (
    REPLACE_NULL_WITH_DEFAULT,
    SOME_NAMES,
    VERSION,
    Source,
    require_map,
    require_struct,
    source_of,
)
from ottla.connect.transforms.field_paths import (
    FIELD_SYNTAX_VERSION,
    field_at,
    path_steps,
    value_in_map,
    value_in_struct,
)
from ottla.connect.transforms.sides import KEY, VALUE, Side, Sided

HOISTED_FIELD: Final = string.optional("field", "The one field of the new struct or map.", Required())
EXTRACTED_FIELD: Final = string.optional("field", "The field that becomes the value.", Required())
KEY_FIELDS: Final = repeating_list.optional(
    "fields", "The fields of the value that make the key.", Required(SOME_NAMES), importance=HIGH
)
EXTRACTION: Final = "field extraction"
COPYING: Final = "copying fields from value to key"


class HoistField:
    """See Transform."""

    TABLE: ClassVar[Table] = Table("HoistField", by_name((HOISTED_FIELD,)))
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings, side: Side) -> None:
        """Raises ConfigError."""
        self.side: Final = side
        self.field: Final = require(settings, HOISTED_FIELD)
        self._schemas: SchemaCache[Schema] = SchemaCache(self.changed_schema)

    def apply(self, record: Record) -> Record:
        """See Transform."""
        schema, value = self.side.schema_of(record), self.side.value_of(record)
        if schema is None:
            return self.side.replaced(record, None, {self.field: value})
        changed = self._schemas.get(schema)
        check_value(schema, value, self.field)
        return self.side.replaced(record, changed, Struct(changed, {self.field: value}))

    def changed_schema(self, schema: Schema) -> Schema:
        """The schema of values that had another one. Raises DataError."""
        return struct_schema(((self.field, schema),))


class ExtractField:
    """See Transform."""

    TABLE: ClassVar[Table] = Table(
        "ExtractField", by_name((EXTRACTED_FIELD, FIELD_SYNTAX_VERSION, REPLACE_NULL_WITH_DEFAULT))
    )
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings, side: Side) -> None:
        """Raises ConfigError."""
        self.side: Final = side
        self._path = require(settings, EXTRACTED_FIELD)
        self.steps: Final = path_steps(self._path, settings[FIELD_SYNTAX_VERSION])
        self.replace_null: Final = settings[REPLACE_NULL_WITH_DEFAULT]
        self._fields: SchemaCache[Field] = SchemaCache(self.field)

    def apply(self, record: Record) -> Record:
        """See Transform."""
        schema, value = self.side.schema_of(record), self.side.value_of(record)
        if schema is None:
            found = None if value is None else value_in_map(require_map(value, EXTRACTION), self.steps)
            return self.side.replaced(record, None, found)
        struct = None if value is None else require_struct(value, EXTRACTION, schema)
        field = self._fields.get(schema)
        found = None if struct is None else value_in_struct(struct, self.steps, self.replace_null)
        return self.side.replaced(record, field.schema, found)

    def field(self, schema: Schema) -> Field:
        """The extracted field of a schema. Raises DataError."""
        found = field_at(schema, self.steps)
        if found is None:
            raise DataError(f"Unknown field: {self._path}")
        return found


class ValueToKey:
    """See Transform."""

    TABLE: ClassVar[Table] = Table("ValueToKey", by_name((KEY_FIELDS, REPLACE_NULL_WITH_DEFAULT)))
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""
        self.fields: Final = require(settings, KEY_FIELDS)
        self.replace_null: Final = settings[REPLACE_NULL_WITH_DEFAULT]
        self._plans: SchemaCache[tuple[Schema, list[Source]]] = SchemaCache(self._plan)

    def apply(self, record: Record) -> Record:
        """See Transform."""
        if record.value_schema is None:
            values = require_map(record.value, COPYING)
            return KEY.replaced(record, None, {name: values.get(name) for name in self.fields})
        struct = require_struct(record.value, COPYING, record.value_schema)
        schema, sources = self._plans.get(struct.schema)
        key = {each.name: each.of(struct.values) for each in sources}
        return KEY.replaced(record, schema, Struct(schema, key))

    def _plan(self, schema: Schema) -> tuple[Schema, list[Source]]:
        fields = self.key_fields(schema)
        return (
            struct_schema((each.name, each.schema) for each in fields),
            [source_of(each, self.replace_null) for each in fields],
        )

    def key_fields(self, schema: Schema) -> list[Field]:
        """The fields of a value's schema that make the key. Raises DataError."""
        found: list[Field] = []
        for name in self.fields:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            found.append(field)
        return found


HoistFieldKey: Final = Sided(HoistField, KEY)
HoistFieldValue: Final = Sided(HoistField, VALUE)
ExtractFieldKey: Final = Sided(ExtractField, KEY)
ExtractFieldValue: Final = Sided(ExtractField, VALUE)
