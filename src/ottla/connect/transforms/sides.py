"""The two sides of a record, its key and its value: most transforms work on either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.connect.data.record import Header, Record
from ottla.connect.data.schema import Schema


@dataclass(frozen=True, slots=True)
class Side:
    """A side of a record: how its schema and its value are read and replaced."""

    name: str
    schema_of: Callable[[Record], Schema | None]
    value_of: Callable[[Record], Any]
    replaced: Callable[[Record, Schema | None, Any], Record]


def _key_replaced(record: Record, schema: Schema | None, value: Any) -> Record:
    return Record(
        record.topic,
        record.partition,
        value,
        schema,
        record.value,
        record.value_schema,
        record.timestamp_ms,
        record.headers,
        record.offset,
    )


def _value_replaced(record: Record, schema: Schema | None, value: Any) -> Record:
    return Record(
        record.topic,
        record.partition,
        record.key,
        record.key_schema,
        value,
        schema,
        record.timestamp_ms,
        record.headers,
        record.offset,
    )


def topic_replaced(record: Record, topic: str) -> Record:
    """The record with another topic."""
    return Record(
        topic,
        record.partition,
        record.key,
        record.key_schema,
        record.value,
        record.value_schema,
        record.timestamp_ms,
        record.headers,
        record.offset,
    )


def headers_replaced(record: Record, headers: tuple[Header, ...]) -> Record:
    """The record with other headers."""
    return Record(
        record.topic,
        record.partition,
        record.key,
        record.key_schema,
        record.value,
        record.value_schema,
        record.timestamp_ms,
        headers,
        record.offset,
    )


KEY: Final = Side("key", lambda record: record.key_schema, lambda record: record.key, _key_replaced)
VALUE: Final = Side("value", lambda record: record.value_schema, lambda record: record.value, _value_replaced)


class SidedTransform(Protocol):
    """A transform of one side."""

    def apply(self, record: Record) -> Record | None:
        """See Transform."""


class SidedClass(Protocol):
    """The class of transforms that work on either side."""

    TABLE: Table
    VERSION: str

    def __call__(self, settings: Settings, side: Side, /) -> SidedTransform: ...


class Sided:
    """Stands for the class of transforms of one side: called with settings, it makes one."""

    __slots__ = ("TABLE", "VERSION", "_made_from", "side")

    def __init__(self, made_from: Any, side: Side) -> None:
        self.TABLE: Final[Table] = made_from.TABLE
        self.VERSION: Final[str] = made_from.VERSION
        self._made_from: Final[SidedClass] = made_from
        self.side: Final = side

    def __call__(self, settings: Settings) -> SidedTransform:
        return self._made_from(settings, self.side)
