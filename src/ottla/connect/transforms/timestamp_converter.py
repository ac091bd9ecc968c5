"""TimestampConverter: timestamps as texts, Unix times, and Connect's Date, Time and Timestamp."""

from __future__ import annotations

import enum
import time
from dataclasses import replace
from typing import Any, ClassVar, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import HIGH, LOW, Table, by_name, string
from ottla.config.settings import Settings
from ottla.config.validators import OneOf
from ottla.connect.data.building import (
    DATE_SCHEMA,
    REQUIRED,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    as_optional,
    struct_schema,
    with_default,
)
from ottla.connect.data.caches import SchemaCache
from ottla.connect.data.checking import java_class
from ottla.connect.data.dates import DatePattern, DoesNotMatch
from ottla.connect.data.java_text import wrapped
from ottla.connect.data.logical import DAY_MS
from ottla.connect.data.record import Record
from ottla.connect.data.schema import DATE, TIME, TIMESTAMP, DataError, Moment, Schema, Struct, Type
from ottla.connect.plugins.required import Required, require
from ottla.connect.transforms.common import (
    REPLACE_NULL_WITH_DEFAULT,
    VERSION,
    Source,
    fields_of,
    null_refused,
    require_map,
    require_struct,
    source_of,
)
from ottla.connect.transforms.sides import KEY, VALUE, Side, Sided

PURPOSE: Final = "converting timestamp formats"
_PRECISIONS: Final = ("nanoseconds", "microseconds", "milliseconds", "seconds")
FIELD: Final = string(
    "field", "", "The field with the timestamp; empty where the whole value is one.", importance=HIGH
)
TARGET_TYPE: Final = string.optional(
    "target.type",
    "What the timestamp becomes.",
    Required(OneOf(("string", "unix", "Date", "Time", "Timestamp"))),
    importance=HIGH,
)
FORMAT: Final = string(
    "format", "", "The pattern of texts that are written or read, as of java.text.SimpleDateFormat."
)
UNIX_PRECISION: Final = string(
    "unix.precision",
    "milliseconds",
    "The unit of Unix times that are written or read; less than a millisecond is lost.",
    OneOf(_PRECISIONS),
    importance=LOW,
)
_MAX_LONG: Final = (1 << 63) - 1


class Form(enum.Enum):
    """How a timestamp is told."""

    STRING = "string"
    UNIX = "unix"
    DATE = "Date"
    TIME = "Time"
    TIMESTAMP = "Timestamp"


SCHEMAS: Final = {
    Form.STRING: REQUIRED[Type.STRING],
    Form.UNIX: REQUIRED[Type.INT64],
    Form.DATE: DATE_SCHEMA,
    Form.TIME: TIME_SCHEMA,
    Form.TIMESTAMP: TIMESTAMP_SCHEMA,
}
_LOGICAL: Final = {DATE: Form.DATE, TIME: Form.TIME, TIMESTAMP: Form.TIMESTAMP}


class TimestampConverter:
    """See Transform."""

    TABLE: ClassVar[Table] = Table(
        "TimestampConverter", by_name((FIELD, TARGET_TYPE, FORMAT, UNIX_PRECISION, REPLACE_NULL_WITH_DEFAULT))
    )
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings, side: Side) -> None:
        """Raises ConfigError."""
        self.side: Final = side
        self.field: Final = settings[FIELD]
        self.target: Final = Form(require(settings, TARGET_TYPE))
        self.precision: Final = settings[UNIX_PRECISION]
        self.replace_null: Final = settings[REPLACE_NULL_WITH_DEFAULT]
        self.pattern: Final = _pattern(settings[FORMAT], self.target)
        self._plans: SchemaCache[tuple[Schema, list[_Field]]] = SchemaCache(self._plan)

    def apply(self, record: Record) -> Record:
        """See Transform."""
        schema, value = self.side.schema_of(record), self.side.value_of(record)
        if schema is None:
            return self.side.replaced(record, None, self._without_schema(value))
        if not self.field:
            form = form_of(schema)
            return self.side.replaced(record, self.target_schema(schema), self.converted(value, form, schema))
        struct = None if value is None else require_struct(value, PURPOSE, schema)
        changed, fields = self._plans.get(schema)
        if struct is None:
            return self.side.replaced(record, changed, None)
        return self.side.replaced(record, changed, Struct(changed, self._values(struct, fields)))

    def _without_schema(self, value: Any) -> Any:
        if value is None or not self.field:
            return self.converted(value, None, None)
        changed = dict(require_map(value, PURPOSE))
        changed[self.field] = self.converted(changed.get(self.field), None, None)
        return changed

    def _values(self, struct: Struct, fields: list[_Field]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for each in fields:
            name = each.source.name
            if each.form is None:
                values[name] = each.source.of(struct.values)
                continue
            if isinstance(each.form, DataError):
                raise DataError(str(each.form))
            value = struct.values.get(name)
            found = self.converted(each.source.default if value is None else value, each.form, each.schema)
            if found is None and each.source.required:
                raise null_refused(name, SCHEMAS[self.target].type.name)
            values[name] = found
        return values

    def _plan(self, schema: Schema) -> tuple[Schema, list[_Field]]:
        fields = [
            _Field(
                source_of(each, self.replace_null),
                each.schema,
                _form_or_problem(each.schema) if each.name == self.field else None,
            )
            for each in fields_of(schema)
        ]
        return self.changed_schema(schema, fields), fields

    def changed_schema(self, schema: Schema, fields: list[_Field] | None = None) -> Schema:
        """The schema of structs that had another one. Raises DataError. fields: to convert a default with."""
        changed = struct_schema(
            (
                (each.name, self.target_schema(each.schema) if each.name == self.field else each.schema)
                for each in fields_of(schema)
            ),
            like=schema,
        )
        if schema.optional:
            changed = replace(changed, optional=True)
        if schema.default is None or fields is None:
            return changed
        return with_default(changed, Struct(changed, self._values(schema.default, fields)))

    def target_schema(self, schema: Schema) -> Schema:
        """The schema of a converted timestamp."""
        target = SCHEMAS[self.target]
        return as_optional(target) if schema.optional else target

    def converted(self, value: Any, form: Form | None, schema: Schema | None) -> Any:
        """A timestamp in the target's form. Raises DataError."""
        if value is None:
            return None
        return self._told(self._epoch_ms(value, _inferred(value) if form is None else form, schema))

    def _epoch_ms(self, value: Any, form: Form, schema: Schema | None) -> int:
        match form:
            case Form.STRING:
                if not isinstance(value, str):
                    raise _unexpected("string timestamp to be a String", value, schema)
                return self._parsed(value)
            case Form.UNIX:
                if not isinstance(value, int) or isinstance(value, bool):
                    raise _unexpected("Unix timestamp to be a Long", value, schema)
                return _milliseconds(value, self.precision)
        if not isinstance(value, Moment):
            raise _unexpected(f"{form.value} to be a java.util.Date", value, schema)
        return value.epoch_ms

    def _parsed(self, text: str) -> int:
        if self.pattern is None:
            raise DataError("TimestampConverter needs the option format to read timestamps that are texts")
        unread = self.pattern.unreadable()
        if unread is not None:
            raise DataError(f"the letters {unread} of the pattern {self.pattern.pattern} can't be read here")
        try:
            return self.pattern.parse(text)
        except DoesNotMatch:
            raise DataError(
                f"Could not parse timestamp: value ({text}) does not match pattern ({self.pattern.pattern})"
            ) from None

    def _told(self, epoch_ms: int) -> Any:
        match self.target:
            case Form.STRING:
                assert self.pattern is not None
                return self.pattern.format(epoch_ms)
            case Form.UNIX:
                return _in_unit(epoch_ms, self.precision)
            case Form.DATE:
                return Moment(wrapped(epoch_ms - epoch_ms % DAY_MS, Type.INT64))
            case Form.TIME:
                return Moment(epoch_ms % DAY_MS)
        return Moment(epoch_ms)


class _Field:
    """A field: how it is read, its schema, and how its timestamp is told (or why not) if it is converted."""

    __slots__ = ("form", "schema", "source")

    def __init__(self, source: Source, schema: Schema, form: Form | DataError | None) -> None:
        self.source = source
        self.schema = schema
        self.form = form


def form_of(schema: Schema) -> Form:
    """How the values of a schema tell timestamps. Raises DataError where they don't."""
    logical = _LOGICAL.get(schema.name or "")
    if logical is not None:
        return logical
    match schema.type:
        case Type.STRING:
            return Form.STRING
        case Type.INT64:
            return Form.UNIX
    raise DataError(f"Schema {schema} does not correspond to a known timestamp type format")


def _form_or_problem(schema: Schema) -> Form | DataError:
    """The problem is told when a value comes: null has no form."""
    try:
        return form_of(schema)
    except DataError as problem:
        return problem


def _inferred(value: Any) -> Form:
    match value:
        case Moment():
            return Form.TIMESTAMP
        case str():
            return Form.STRING
        case int() if not isinstance(value, bool):
            return Form.UNIX
    raise DataError(f"TimestampConverter does not support class {java_class(value)} objects as timestamps")


def _unexpected(expected: str, value: Any, schema: Schema | None) -> DataError:
    return DataError(f"Expected {expected}, but found class {java_class(value, schema)}")


def _pattern(text: str, target: Form) -> DatePattern | None:
    if not text.strip():
        if target is Form.STRING:
            raise ConfigError(
                "TimestampConverter requires format option to be specified when using string timestamps"
            )
        return None
    try:
        return DatePattern(text, int(time.time()) // 86_400)
    except ValueError as problem:
        raise ConfigError(
            "TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: "
            f"{text} ({problem})"
        ) from None


def _milliseconds(value: int, unit: str) -> int:
    match unit:
        case "seconds":
            return _saturated(value * 1_000)
        case "microseconds":
            return _divided(value, 1_000)
        case "nanoseconds":
            return _divided(value, 1_000_000)
    return value


def _in_unit(epoch_ms: int, unit: str) -> int:
    match unit:
        case "seconds":
            return _divided(epoch_ms, 1_000)
        case "microseconds":
            return _saturated(epoch_ms * 1_000)
        case "nanoseconds":
            return _saturated(epoch_ms * 1_000_000)
    return epoch_ms


def _divided(value: int, by: int) -> int:
    """Towards zero, as in Java."""
    return value // by if value >= 0 else -(-value // by)


def _saturated(value: int) -> int:
    return max(-_MAX_LONG - 1, min(_MAX_LONG, value))


TimestampConverterKey: Final = Sided(TimestampConverter, KEY)
TimestampConverterValue: Final = Sided(TimestampConverter, VALUE)
