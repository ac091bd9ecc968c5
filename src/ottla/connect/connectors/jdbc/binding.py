"""Values of a sink's fields as parameters of statements, where all systems agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

from ottla.connect.connectors.jdbc.database import Bind
from ottla.connect.connectors.jdbc.moments import NS_PER_MS, date_text, time_text, timestamp_text
from ottla.connect.data.schema import DATE, DECIMAL, SCALE, TIME, TIMESTAMP, DataError, Schema, Type

MAX_SCALE: Final = 1000


def as_it_is(value: Any) -> Any:
    """The value itself."""
    return value


def checked_text(value: Any) -> str:
    """A text that can be sent. Raises DataError for half a surrogate pair."""
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise DataError(f"a text that is none: {problem}") from None
    return text


def moment_texts(zone: ZoneInfo, *, offset: bool) -> dict[Type | str, Bind]:
    """What makes texts of the values of Date, Time and Timestamp, by the schema's name."""
    return {
        DATE: lambda value: date_text(value.epoch_ms),
        TIME: lambda value: time_text(value.epoch_ms),
        TIMESTAMP: lambda value: timestamp_text(value.epoch_ms * NS_PER_MS, zone, digits=3, offset=offset),
    }


def scale_of(schema: Schema) -> int:
    """The scale of a Decimal's schema. Raises DataError."""
    text = schema.parameters.get(SCALE, "")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 4 and int(digits) <= MAX_SCALE):
        raise DataError(f"a Decimal's scale is {text[:20]!r}")
    return int(text)


def logical(schema: Schema) -> str | None:
    """The name of a schema whose values are Decimals, Dates, Times or Timestamps, None for all others."""
    return schema.name if schema.name in (DECIMAL, DATE, TIME, TIMESTAMP) else None


def type_of(schema: Schema, types: Mapping[Type | str, str]) -> str:
    """The SQL type for a schema, of those by logical names and types. Raises DataError for none."""
    name = logical(schema)
    found = types.get(schema.type if name is None else name)
    if found is None:
        raise DataError(f"a column can't have values of {schema}")
    return found


def binder(schema: Schema, made: dict[Type | str, Bind]) -> Bind:
    """The one for a schema: by its logical name, else by its type. Raises DataError for structs and maps."""
    name = logical(schema)
    found = made.get(schema.type if name is None else name)
    if found is None:
        raise DataError(f"a column can't have values of {schema}")
    return found
