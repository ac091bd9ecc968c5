"""Flatten: fields of structs within structs, or of maps within maps, as fields of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final

from ottla.config.setting import Table, by_name, string
from ottla.config.settings import Settings
from ottla.connect.data.building import struct_schema, with_default
from ottla.connect.data.caches import SchemaCache
from ottla.connect.data.checking import java_class
from ottla.connect.data.record import Record
from ottla.connect.data.schema import DataError, Schema, Struct, Type
from ottla.connect.transforms.common import VERSION, fields_of, null_refused, require_map, require_struct
from ottla.connect.transforms.sides import KEY, VALUE, Side, Sided

PURPOSE: Final = "flattening"
DELIMITER: Final = string("delimiter", ".", "The text between the names that make a field's new name.")


class Flatten:
    """See Transform."""

    TABLE: ClassVar[Table] = Table("Flatten", by_name((DELIMITER,)))
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings, side: Side) -> None:
        """Raises ConfigError."""
        self.side: Final = side
        self.delimiter: Final = settings[DELIMITER]
        self._schemas: SchemaCache[Schema] = SchemaCache(self.changed_schema)

    def apply(self, record: Record) -> Record:
        """See Transform."""
        schema, value = self.side.schema_of(record), self.side.value_of(record)
        if value is None:
            return record
        if schema is None:
            flat: dict[str, Any] = {}
            self._flatten_map(require_map(value, PURPOSE), "", flat)
            return self.side.replaced(record, None, flat)
        struct = require_struct(value, PURPOSE, schema)
        changed = self._schemas.get(schema)
        values: dict[str, Any] = {}
        self._flatten_struct(struct, "", values, changed)
        return self.side.replaced(record, changed, Struct(changed, values))

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self.delimiter}{name}" if prefix else name

    def _flatten_map(self, values: dict[str, Any], prefix: str, flat: dict[str, Any]) -> None:
        for key, value in values.items():
            name = self._name(prefix, key)
            match value:
                case dict():
                    self._flatten_map(value, name, flat)
                case None | bool() | int() | float() | str() | bytes() | list():
                    flat[name] = value
                case Struct():
                    raise DataError(
                        f"Flatten transformation does not support class {java_class(value)} for record "
                        f"without schemas (for field {name})."
                    )
                case _:
                    raise DataError(
                        f"Flatten transformation was passed a value of type class {java_class(value)} which "
                        "is not supported by Connect's data API"
                    )

    def _flatten_struct(self, struct: Struct, prefix: str, flat: dict[str, Any], changed: Schema) -> None:
        for field in struct.schema.fields:
            name = self._name(prefix, field.name)
            value = struct.values.get(field.name)
            if field.schema.type is Type.STRUCT:
                if value is not None:
                    self._flatten_struct(value, name, flat, changed)
                continue
            if value is None:
                value = field.schema.default
                if value is None and not field.schema.optional and not _is_optional(changed, name):
                    raise null_refused(name, field.schema.type.name)
            flat[name] = value

    def changed_schema(self, schema: Schema) -> Schema:
        """The schema of values that had another one. Raises DataError."""
        fields_of(schema)
        return struct_schema(self._fields(schema, "", schema.optional, schema.default), like=schema)

    def _fields(
        self, schema: Schema, prefix: str, optional: bool, default: Struct | None
    ) -> Iterator[tuple[str, Schema]]:
        for field in schema.fields:
            name = self._name(prefix, field.name)
            may_be_null = optional or field.schema.optional
            of_field = field.schema.default
            if of_field is None and default is not None:
                of_field = default.get(field.name)
            match field.schema.type:
                case Type.STRUCT:
                    yield from self._fields(field.schema, name, may_be_null, of_field)
                case Type.MAP:
                    raise DataError(
                        "Flatten transformation does not support MAP for record with schemas (for field "
                        f"{name})."
                    )
                case _:
                    bare = replace(field.schema, optional=may_be_null, default=None)
                    yield name, with_default(bare, of_field)


def _is_optional(schema: Schema, name: str) -> bool:
    field = schema.field(name)
    return field is not None and field.schema.optional


FlattenKey: Final = Sided(Flatten, KEY)
FlattenValue: Final = Sided(Flatten, VALUE)
