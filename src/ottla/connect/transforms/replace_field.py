"""ReplaceField: leaves fields out and renames others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ottla.config.setting import Table, by_name, repeating_list
from ottla.config.settings import Settings
from ottla.config.validators import Rule
from ottla.connect.data.building import struct_schema
from ottla.connect.data.caches import SchemaCache
from ottla.connect.data.checking import check_value
from ottla.connect.data.record import Record
from ottla.connect.data.schema import DataError, Field, Schema, Struct
from ottla.connect.transforms.common import (
    NAMES,
    REPLACE_NULL_WITH_DEFAULT,
    VERSION,
    Source,
    fields_of,
    require_map,
    require_struct,
)
from ottla.connect.transforms.sides import KEY, VALUE, Side, Sided

PURPOSE: Final = "field replacement"


def java_split(text: str, separator: str) -> list[str]:
    """As String.split: empty parts at the end are left out."""
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts if text else [""]


def _rename_problem(values: tuple[str, ...]) -> str | None:
    wrong = [each for each in values if len(java_split(each, ":")) != 2]
    return f"Invalid rename mapping: {wrong[0]}" if wrong else None


EXCLUDE: Final = repeating_list("exclude", (), "Fields to leave out; it goes before include.", NAMES)
INCLUDE: Final = repeating_list("include", (), "Fields to keep; empty for all.", NAMES)
RENAMES: Final = repeating_list(
    "renames",
    (),
    "Fields to rename, as old:new.",
    Rule("pairs of names with a colon between them", _rename_problem),
)


@dataclass(frozen=True, slots=True)
class Kept:
    """A field of the changed struct, and the field that its value is read from."""

    field: Field
    source: Source
    same_schema: bool


class ReplaceField:
    """See Transform."""

    TABLE: ClassVar[Table] = Table(
        "ReplaceField", by_name((EXCLUDE, INCLUDE, RENAMES, REPLACE_NULL_WITH_DEFAULT))
    )
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings, side: Side) -> None:
        """Raises ConfigError."""
        self.side: Final = side
        self.replace_null: Final = settings[REPLACE_NULL_WITH_DEFAULT]
        exclude, include = settings[EXCLUDE], settings[INCLUDE]
        self._exclude = frozenset(exclude)
        self._include = frozenset(include)
        self._renames: dict[str, str] = dict(java_split(each, ":") for each in settings[RENAMES])
        self._sources = {new: old for old, new in self._renames.items()}
        self._plans: SchemaCache[tuple[Schema, list[Kept]]] = SchemaCache(self.plan)

    def apply(self, record: Record) -> Record:
        """See Transform."""
        value = self.side.value_of(record)
        if value is None:
            return record
        if self.side.schema_of(record) is None:
            changed = {
                self._renames.get(name, name): each
                for name, each in require_map(value, PURPOSE).items()
                if self._keeps(name)
            }
            return self.side.replaced(record, None, changed)
        struct = require_struct(value, PURPOSE, self.side.schema_of(record))
        schema, kept = self._plans.get(struct.schema)
        values: dict[str, Any] = {}
        for each in kept:
            name = each.field.name
            found = each.source.of(struct.values, name)
            if not each.same_schema:
                check_value(each.field.schema, found, name)
            values[name] = found
        return self.side.replaced(record, schema, Struct(schema, values))

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def plan(self, schema: Schema) -> tuple[Schema, list[Kept]]:
        """The changed schema, and where its fields come from. Raises DataError."""
        changed = struct_schema(
            (
                (self._renames.get(each.name, each.name), each.schema)
                for each in fields_of(schema)
                if self._keeps(each.name)
            ),
            like=schema,
        )
        return changed, [self._kept(schema, each) for each in changed.fields]

    def _kept(self, schema: Schema, field: Field) -> Kept:
        name = self._sources.get(field.name, field.name)
        found = schema.field(name)
        if found is None:
            raise DataError(f"{name} is not a valid field name")
        default = found.schema.default if self.replace_null else None
        source = Source(name, default, not field.schema.optional, field.schema.type.name)
        return Kept(field, source, found.schema is field.schema)


ReplaceFieldKey: Final = Sided(ReplaceField, KEY)
ReplaceFieldValue: Final = Sided(ReplaceField, VALUE)
