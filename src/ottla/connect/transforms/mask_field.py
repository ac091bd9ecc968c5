"""MaskField: puts the null value of its type (0, false, an empty text) or a given one in a field's place."""

from __future__ import annotations

import decimal
from typing import Any, ClassVar, Final

from ottla.config.setting import HIGH, LOW, Table, by_name, repeating_list, string
from ottla.config.settings import Settings
from ottla.config.validators import Rule
from ottla.connect.data.caches import SchemaCache
from ottla.connect.data.checking import BITS, check_value, java_class
from ottla.connect.data.java_text import float32, wrapped
from ottla.connect.data.record import Record
from ottla.connect.data.schema import DataError, Moment, Schema, Struct, Type
from ottla.connect.data.values import big_decimal, long_of, number_of
from ottla.connect.plugins.required import Required, require
from ottla.connect.transforms.common import (
    REPLACE_NULL_WITH_DEFAULT,
    SOME_NAMES,
    VERSION,
    Source,
    fields_of,
    require_map,
    require_struct,
    source_of,
)
from ottla.connect.transforms.sides import KEY, VALUE, Side, Sided

PURPOSE: Final = "mask fields"
FIELDS: Final = repeating_list.optional(
    "fields", "The fields to mask.", Required(SOME_NAMES), importance=HIGH
)
REPLACEMENT: Final = string.optional(
    "replacement",
    "A value for all masked fields, which have to be numbers or texts.",
    Rule("not empty", lambda value: "String must be non-empty" if value == "" else None),
    importance=LOW,
)


class MaskField:
    """See Transform."""

    TABLE: ClassVar[Table] = Table("MaskField", by_name((FIELDS, REPLACEMENT, REPLACE_NULL_WITH_DEFAULT)))
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings, side: Side) -> None:
        """Raises ConfigError."""
        self.side: Final = side
        self.fields: Final = require(settings, FIELDS)
        self.replacement: Final = settings[REPLACEMENT]
        self.replace_null: Final = settings[REPLACE_NULL_WITH_DEFAULT]
        self._plans: SchemaCache[list[tuple[Source, Schema | None]]] = SchemaCache(self._plan)

    def apply(self, record: Record) -> Record:
        """See Transform."""
        value = self.side.value_of(record)
        if self.side.schema_of(record) is None:
            changed = dict(require_map(value, PURPOSE))
            for name in self.fields:
                changed[name] = self.masked(changed.get(name), None)
            return self.side.replaced(record, None, changed)
        struct = require_struct(value, PURPOSE, self.side.schema_of(record))
        values: dict[str, Any] = {}
        for source, schema in self._plans.get(struct.schema):
            found = source.of(struct.values)
            if schema is not None:
                found = self.masked(found, schema)
                check_value(schema, found, source.name)
            values[source.name] = found
        # As in Connect, the record keeps its own schema, which is the struct's but for its identity.
        return self.side.replaced(record, self.side.schema_of(record), Struct(struct.schema, values))

    def _plan(self, schema: Schema) -> list[tuple[Source, Schema | None]]:
        return [
            (source_of(each, self.replace_null), each.schema if each.name in self.fields else None)
            for each in fields_of(schema)
        ]

    def masked(self, value: Any, schema: Schema | None) -> Any:
        """What stands in place of a value. Raises DataError."""
        if value is None:
            return None
        if self.replacement is not None:
            return _replacement(value, schema, self.replacement)
        for kind, null in _NULLS:
            if isinstance(value, kind):
                return null
        if isinstance(value, list):
            return []
        if isinstance(value, dict):
            return {}
        raise DataError(f"Cannot mask value of type: class {java_class(value, schema)}")


_NULLS: Final[tuple[tuple[type, Any], ...]] = (
    (bool, False),
    (int, 0),
    (float, 0.0),
    (decimal.Decimal, decimal.Decimal(0)),
    (Moment, Moment(0)),
    (str, ""),
)


def _replacement(value: Any, schema: Schema | None, text: str) -> Any:
    match value:
        case bool():
            pass
        case str():
            return text
        case int():
            kind = schema.type if schema is not None and schema.type in BITS else Type.INT64
            number = number_of(text)
            assert not isinstance(number, float)
            return wrapped(long_of(number), kind)
        case float():
            wide = float(number_of(text))
            return float32(wide) if schema is not None and schema.type is Type.FLOAT32 else wide
        case decimal.Decimal():
            found = big_decimal(text)
            if found is None:
                raise DataError(f"Unable to convert {text} (class java.lang.String) to number")
            return found
    raise DataError(f"Cannot mask value of type class {java_class(value, schema)} with custom replacement.")


MaskFieldKey: Final = Sided(MaskField, KEY)
MaskFieldValue: Final = Sided(MaskField, VALUE)
