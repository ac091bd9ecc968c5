"""How a column's values stand in records: their schema, and the function from the database's value."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect.data.schema import DataError, Schema, Struct, Type


class _Absent(enum.Enum):
    """A placeholder that a form does not have."""

    ABSENT = "absent"


ABSENT: Final = _Absent.ABSENT
"""In `unavailable`: there is no value of the schema that could say that the real one was not sent."""


class NotSent(enum.Enum):
    """A value that the database did not send, as it lies out of line and was not changed."""

    NOT_SENT = "not sent"


NOT_SENT: Final = NotSent.NOT_SENT
Cell = str | bytes | int | float | None | NotSent
"""A value of a row: its text, or what else its database's log gives; NULL, or not sent."""


class ConversionError(DataError):
    """A value of the database that has no form in a record with these settings."""


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """A column's form. schema: the required one; convert: raises ConversionError or ValueError.

    fallback: stands for NULL in a column that can't be null, as in the old row of a delete that names its key
    alone. unavailable: stands for a value that the database did not send (unchanged TOAST), or ABSENT.
    """

    schema: Schema
    convert: Callable[[Any], Any]
    fallback: Any
    unavailable: Any = ABSENT


def bound_to(schema: Schema, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What gives structs the schema of their field, which may be optional where the form's is not."""
    if schema.type is not Type.STRUCT:
        return convert

    def bound(cell: Any) -> Any:
        return with_schema(schema, convert(cell))

    return bound


def with_schema(schema: Schema, value: Any) -> Any:
    """The value, a struct as one of this schema."""
    return Struct(schema, value.values) if isinstance(value, Struct) else value
