"""A table's schemas, and its rows as keys, values and envelopes."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ottla.connect.cdc.core.column_form import (
    ABSENT,
    NOT_SENT,
    Cell,
    ColumnForm,
    ConversionError,
    bound_to,
    with_schema,
)
from ottla.connect.cdc.core.column_rules import MappedColumn
from ottla.connect.cdc.core.envelope import Operation, envelope_schema
from ottla.connect.cdc.core.names import Names
from ottla.connect.data.building import struct_schema
from ottla.connect.data.schema import Schema, Struct

Convert = Callable[[Any], Any]
_log = logging.getLogger(__name__)


class OnFailure(enum.StrEnum):
    """event.converting.failure.handling.mode: what a value without a form does."""

    FAIL = "fail"
    WARN = "warn"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A column of a captured table. form: None for one that records leave out; default: of its schema."""

    name: str
    form: ColumnForm | None
    optional: bool = True
    default: Any = None
    in_value: bool = True
    """False where a column filter leaves it out; it may be in the key even so."""
    mapped: MappedColumn | None = None
    """What a rule makes of the column in values; keys have its own form."""
    field: str | None = None
    """The field's name, where it is not the column's."""
    doc: str | None = None
    """Of its schema, in place of the form's."""


class _Slot(NamedTuple):
    """A column's place in rows, and what makes a value of its field. name: of the field."""

    place: int
    column: str
    name: str
    schema: Schema
    convert: Convert
    null: Any
    unavailable: Any


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table as it is for a while. key_schema: None for a table without a key."""

    schema_name: str
    table_name: str
    topic: str
    key_schema: Schema | None
    row_schema: Schema
    envelope: Schema
    key_slots: tuple[_Slot, ...]
    row_slots: tuple[_Slot, ...]
    on_failure: OnFailure

    @property
    def id(self) -> str:
        """schema.table, as transactions count it."""
        return f"{self.schema_name}.{self.table_name}"

    def row(self, cells: Sequence[Cell]) -> Struct:
        """A row's struct. Raises ConversionError."""
        return Struct(self.row_schema, self._values(self.row_slots, cells))

    def key(self, cells: Sequence[Cell]) -> Struct | None:
        """A row's key; None for a table without one. Raises ConversionError."""
        if self.key_schema is None:
            return None
        return Struct(self.key_schema, self._values(self.key_slots, cells))

    def tells_key(self, cells: Sequence[Cell]) -> bool:
        """Whether old values hold the key: of a table with another replica identity they may not."""
        return all(cells[slot.place] is not None or slot.schema.optional for slot in self.key_slots)

    def event(
        self,
        operation: Operation,
        before: Struct | None,
        after: Struct | None,
        source: Struct,
        now_ns: int,
        transaction: Struct | None = None,
    ) -> Struct:
        """A change's envelope."""
        return Struct(
            self.envelope,
            {
                "before": before,
                "after": after,
                "source": source,
                "transaction": transaction,
                "op": operation.value,
                "ts_ms": now_ns // 1_000_000,
                "ts_us": now_ns // 1000,
                "ts_ns": now_ns,
            },
        )

    def _values(self, slots: Sequence[_Slot], cells: Sequence[Cell]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for slot in slots:
            place, _, name, _, convert, null, _ = slot
            cell = cells[place]
            if cell is None:
                values[name] = null
            elif cell is NOT_SENT:
                values[name] = self._unavailable(slot)
            else:
                try:
                    values[name] = convert(cell)
                except (ValueError, ArithmeticError) as problem:
                    values[name] = self._failed(slot, problem)
        return values

    def _unavailable(self, slot: _Slot) -> Any:
        if slot.unavailable is ABSENT:
            raise ConversionError(
                f"{self.id}.{slot.name} was not changed and is not sent, and its type has no placeholder: "
                f"set REPLICA IDENTITY FULL on {self.id}, or leave the column out (column.exclude.list)"
            )
        return slot.unavailable

    def _failed(self, slot: _Slot, problem: Exception) -> Any:
        """A value without a form: null if the settings let it be, and the column may be."""
        words = f"a value of {self.id}.{slot.name} can't be converted: {problem}"
        if self.on_failure is OnFailure.FAIL or not slot.schema.optional:
            raise ConversionError(words) from problem
        if self.on_failure is OnFailure.WARN:
            _log.warning("%s", words)
        return None


def table_shape(
    names: Names,
    source: Schema,
    schema_name: str,
    table_name: str,
    columns: Sequence[CapturedColumn],
    key: Sequence[str],
    on_failure: OnFailure = OnFailure.WARN,
) -> TableShape:
    """The shape of a table. key: the key's columns in their order. Raises DataError."""
    topic = names.table_topic(schema_name, table_name)
    slots = {
        column.name: slot
        for index, column in enumerate(columns)
        if (slot := _slot(index, column)) is not None
    }
    key_slots = tuple(slots[name] for name in key if name in slots)
    row_slots = tuple(
        slots[each.name] if each.mapped is None else _mapped_slot(index, each, each.mapped)
        for index, each in enumerate(columns)
        if each.in_value and each.name in slots
    )
    row_schema = struct_schema(
        [(each.name, each.schema) for each in row_slots], optional=True, name=names.schema(topic, "Value")
    )
    key_schema = None
    if key_slots:
        key_schema = struct_schema(
            [(each.name, each.schema) for each in key_slots], name=names.schema(topic, "Key")
        )
    envelope = envelope_schema(names.schema(topic, "Envelope"), row_schema, source)
    return TableShape(
        schema_name,
        table_name,
        topic,
        key_schema,
        row_schema,
        envelope,
        key_slots,
        row_slots,
        on_failure,
    )


def _slot(index: int, column: CapturedColumn) -> _Slot | None:
    form = column.form
    if form is None:
        return None
    optional = column.optional or form.schema.optional
    doc = form.schema.doc if column.doc is None else column.doc
    schema = replace(form.schema, optional=optional, default=column.default, doc=doc)
    fallback = form.fallback if column.default is None else column.default
    return _Slot(
        index,
        column.name,
        column.field or column.name,
        schema,
        bound_to(schema, form.convert),
        None if column.optional else with_schema(schema, fallback),
        with_schema(schema, form.unavailable),
    )


def _mapped_slot(index: int, column: CapturedColumn, mapped: MappedColumn) -> _Slot:
    slot = _slot(index, replace(column, form=mapped.form))
    assert slot is not None
    return slot if mapped.null is None else slot._replace(null=mapped.null)
