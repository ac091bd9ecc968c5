"""What a sink's record is to a table: its key's columns, its other columns, and where their values are.

Records of one topic with the same schemas have one shape. Rules and words of pk.mode, pk.fields and
fields.whitelist are Confluent's.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect.connectors.jdbc.sink_settings import InsertMode, KeyMode
from ottla.connect.data.record import Record, SinkRecord
from ottla.connect.data.schema import DataError, Schema, Struct, Type

KAFKA_COLUMNS: Final = ("__connect_topic", "__connect_partition", "__connect_offset")
_KAFKA_SCHEMAS: Final = (Schema(Type.STRING), Schema(Type.INT32), Schema(Type.INT64))

Take = Callable[[SinkRecord], Any]


class Operation(enum.Enum):
    """What is done with a row."""

    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Source:
    """A column that records have a value for. name: of the column; take: its value, None for null."""

    name: str
    schema: Schema
    take: Take

    @property
    def may_be_null(self) -> bool:
        """Whether records without a value for it have to be taken."""
        return self.schema.optional or self.schema.default is not None


@dataclass(frozen=True, slots=True)
class Shape:
    """What is done with records, and with which columns. keys: in the order of pk.fields."""

    operation: Operation
    keys: tuple[Source, ...]
    others: tuple[Source, ...]

    @property
    def columns(self) -> tuple[Source, ...]:
        """All columns, the key's first."""
        return self.keys + self.others


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that shapes are made by. fold: what a field's name is as a column's."""

    insert_mode: InsertMode
    key_mode: KeyMode
    key_fields: tuple[str, ...]
    whitelist: frozenset[str]
    deletes: bool
    replaces_null: bool
    fold: Callable[[str], str]

    def shape_of(self, record: Record) -> Shape:
        """The shape of a record, which only its schemas and the lack of a value decide. Raises DataError."""
        if record.value is None:
            if not self.deletes:
                raise DataError("a record without a value, and delete.enabled is false")
            return Shape(Operation.DELETE, self._keys(record, None), ())
        schema = record.value_schema
        if schema is None or schema.type is not Type.STRUCT or not isinstance(record.value, Struct):
            raise DataError("a row is made of a struct with its schema alone")
        keys = self._keys(record, schema)
        names = {each.name for each in keys}
        others = tuple(
            each
            for each in self._fields(schema, _value)
            if each.name not in names and (not self.whitelist or self._listed(each.name))
        )
        if not keys and not others:
            raise DataError("the record has no field that is written")
        if self.insert_mode is InsertMode.UPDATE and not others:
            raise DataError("an update needs a field besides those of the key")
        return Shape(Operation(self.insert_mode.value), keys, others)

    def _listed(self, column: str) -> bool:
        return any(self.fold(each) == column for each in self.whitelist)

    def _keys(self, record: Record, value: Schema | None) -> tuple[Source, ...]:
        match self.key_mode:
            case KeyMode.NONE:
                return ()
            case KeyMode.KAFKA:
                names = map(self.fold, self.key_fields or KAFKA_COLUMNS)
                takes: tuple[Take, ...] = (
                    lambda each: each.place.topic,
                    lambda each: each.place.partition,
                    lambda each: each.offset,
                )
                return tuple(map(Source, names, _KAFKA_SCHEMAS, takes))
            case KeyMode.RECORD_KEY:
                return self._record_key(record.key_schema)
            case KeyMode.RECORD_VALUE:
                if value is None:
                    raise DataError("a record without a value has no key in it")
                return self._chosen(value, _value)

    def _record_key(self, schema: Schema | None) -> tuple[Source, ...]:
        if schema is None:
            raise DataError("pk.mode is record_key, but the record's key has no schema, or there is none")
        if schema.type is Type.STRUCT:
            return self._chosen(schema, _key)
        if len(self.key_fields) != 1:
            raise DataError(f"pk.fields has {len(self.key_fields)} names, but the record's key is one value")
        return (Source(self.fold(self.key_fields[0]), schema, lambda each: each.record.key),)

    def _chosen(self, schema: Schema, part: Callable[[SinkRecord], Any]) -> tuple[Source, ...]:
        if not self.key_fields:
            return self._fields(schema, part)
        by_name = {each.name: each for each in self._fields(schema, part)}
        missing = [each for each in self.key_fields if self.fold(each) not in by_name]
        if missing:
            raise DataError(f"the record has no field {missing[0]!r}, which pk.fields names")
        return tuple(by_name[self.fold(each)] for each in self.key_fields)

    def _fields(self, schema: Schema, part: Callable[[SinkRecord], Any]) -> tuple[Source, ...]:
        found: dict[str, Source] = {}
        for each in schema.fields:
            column = self.fold(each.name)
            if column in found:
                raise DataError(f"two fields of the record have the column {column!r}")
            found[column] = Source(column, each.schema, self._taker(part, each.name, each.schema.default))
        return tuple(found.values())

    def _taker(self, part: Callable[[SinkRecord], Any], name: str, default: Any) -> Take:
        replacement = default if self.replaces_null else None

        def take(record: SinkRecord) -> Any:
            struct = part(record)
            if not isinstance(struct, Struct):
                raise DataError("the record's key is no struct, though its schema is")
            value = struct.values.get(name)
            return replacement if value is None else value

        return take


def _key(record: SinkRecord) -> Any:
    return record.record.key


def _value(record: SinkRecord) -> Any:
    return record.record.value
