"""SetSchemaMetadata: the name and the version of a schema.

Connect's own fails on schemas that are no STRUCT; here they get their name and version as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import HIGH, Table, by_name, integer, string
from ottla.config.settings import Settings
from ottla.connect.data.caches import SchemaCache
from ottla.connect.data.record import Record
from ottla.connect.data.schema import DataError, Schema, Struct, Type
from ottla.connect.transforms.common import REPLACE_NULL_WITH_DEFAULT, VERSION, Source, copied, sources_of
from ottla.connect.transforms.sides import KEY, VALUE, Side, Sided

SCHEMA_NAME: Final = string.optional("schema.name", "The schema's new name.", importance=HIGH)
SCHEMA_VERSION: Final = integer.optional("schema.version", "The schema's new version.", importance=HIGH)


class SetSchemaMetadata:
    """See Transform."""

    TABLE: ClassVar[Table] = Table(
        "SetSchemaMetadata", by_name((SCHEMA_NAME, SCHEMA_VERSION, REPLACE_NULL_WITH_DEFAULT))
    )
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings, side: Side) -> None:
        """Raises ConfigError."""
        self.side: Final = side
        self._name = settings[SCHEMA_NAME]
        self._version = settings[SCHEMA_VERSION]
        self.replace_null: Final = settings[REPLACE_NULL_WITH_DEFAULT]
        if self._name is None and self._version is None:
            raise ConfigError("Neither schema name nor version configured")
        self._plans: SchemaCache[tuple[Schema, list[Source]]] = SchemaCache(self._plan)

    def apply(self, record: Record) -> Record:
        """See Transform."""
        schema, value = self.side.schema_of(record), self.side.value_of(record)
        if schema is None:
            if value is None:
                return record
            raise DataError("Schema required for [updating schema metadata]")
        changed, sources = self._plans.get(schema)
        if isinstance(value, Struct):
            value = Struct(changed, copied(sources, value))
        return self.side.replaced(record, changed, value)

    def _plan(self, schema: Schema) -> tuple[Schema, list[Source]]:
        sources = sources_of(schema, self.replace_null) if schema.type is Type.STRUCT else []
        return self.changed_schema(schema), sources

    def changed_schema(self, schema: Schema) -> Schema:
        """The schema of values that had another one."""
        return replace(
            schema,
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
        )


SetSchemaMetadataKey: Final = Sided(SetSchemaMetadata, KEY)
SetSchemaMetadataValue: Final = Sided(SetSchemaMetadata, VALUE)
