"""One look at a table or query: its rows as batches of records, each with the place behind it.

Rows of one timestamp without a number have one place. They come in one batch, whose offset moves past them
only with the last of them, so that a transaction has all or none; up to a number of rows that fits memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.connect.connectors.jdbc.columns import (
    Column,
    ColumnKind,
    FieldOf,
    Mapping,
    converted,
    field_of,
)
from ottla.connect.connectors.jdbc.criteria import Criteria, Place
from ottla.connect.connectors.jdbc.database import Reading, Row
from ottla.connect.data.building import struct_schema
from ottla.connect.data.record import SourceBatch, SourcePartition, SourceRecord
from ottla.connect.data.schema import Schema, Struct

MAX_GROUP: Final = 100_000
"""Rows of one timestamp that are kept together."""
MAX_SCHEMAS: Final = 16

Placed = tuple[Row, Place]


@dataclass(slots=True)
class Fields:
    """The schemas of a table's rows, which stay the same object as long as the table does."""

    mapping: Mapping
    name: str | None
    _scales: dict[str, int] = field(default_factory=dict)
    _schemas: dict[tuple[tuple[str, Schema], ...], Schema] = field(default_factory=dict)

    def of(self, columns: Sequence[Column], rows: Sequence[Row]) -> tuple[Schema, Sequence[FieldOf]]:
        """The schema of rows, and its fields. Raises DataError for two columns of one name."""
        fields = [self._field(column, [row[place] for row in rows]) for place, column in enumerate(columns)]
        shape = tuple((each.name, each.schema) for each in fields)
        schema = self._schemas.get(shape)
        if schema is None:
            schema = struct_schema(shape, name=self.name)
            if len(self._schemas) >= MAX_SCHEMAS:
                self._schemas.clear()
            self._schemas[shape] = schema
        return schema, fields

    def _field(self, column: Column, values: Sequence[Any]) -> FieldOf:
        needs_values = column.kind is ColumnKind.ANY or (
            column.kind in (ColumnKind.NUMERIC, ColumnKind.DECIMAL) and column.scale is None
        )
        found = field_of(column, self.mapping, values if needs_values else ())
        scale = found.schema.parameters.get("scale")
        if scale is None or column.scale is not None or column.kind is ColumnKind.ANY:
            return found
        # A NUMERIC without a scale gets the largest one seen, which does not shrink again.
        known = max(int(scale), self._scales.get(column.name, 0))
        self._scales[column.name] = known
        return field_of(replace(column, scale=known), self.mapping, ())


@dataclass(frozen=True, slots=True)
class Look:
    """What is read, and where it goes. columns: a table's; None: a query's, as the reading has them."""

    topic: str
    partition: SourcePartition
    criteria: Criteria
    fields: Fields
    columns: tuple[Column, ...] | None = None

    def batches(self, reading: Reading, start: Place) -> Iterator[Sequence[SourceRecord]]:
        """The records of a reading. Raises DataError, and what the reading raises."""
        columns = reading.columns if self.columns is None else self.columns
        if not self.criteria.moments and not self.criteria.is_unique:
            for rows in reading.batches:
                yield self._records(columns, [(row, Place()) for row in rows])
            return
        names = [each.name for each in columns]
        zone = self.fields.mapping.zone
        placed = (
            [(row, self.criteria.place_of(names, row, zone)) for row in rows] for rows in reading.batches
        )
        for batch in placed if self.criteria.is_unique else grouped(placed, start):
            yield self._records(columns, batch)

    def _records(self, columns: Sequence[Column], placed: Sequence[Placed]) -> Sequence[SourceRecord]:
        rows = [row for row, _ in placed]
        schema, fields = self.fields.of(columns, rows)
        places = [place for _, place in placed]
        values = [
            Struct(
                schema, {each.name: converted(each, value) for each, value in zip(fields, row, strict=True)}
            )
            for row in rows
        ]
        return SourceBatch(self.topic, self.partition, lambda index: places[index].offset, values, schema)


def grouped(batches: Iterator[Sequence[Placed]], start: Place) -> Iterator[Sequence[Placed]]:
    """Batches that end where a timestamp does; but for the last of one, rows have the place before."""
    before = start
    held: list[Placed] = []
    for batch in batches:
        held += batch
        last = held[-1][1]
        if held[0][1] != last:
            end = next(index for index in range(len(held) - 1, -1, -1) if held[index][1] != last) + 1
            yield _steps(held[:end], before)
            before, held = held[end - 1][1], held[end:]
        elif len(held) >= MAX_GROUP:
            # The last one moves the place past them all when it comes.
            yield [(row, before) for row, _ in held[:-1]]
            held = held[-1:]
    if held:
        yield _steps(held, before)


def _steps(placed: Sequence[Placed], before: Place) -> Sequence[Placed]:
    found: list[Placed] = []
    for index, (row, place) in enumerate(placed):
        is_last = index + 1 == len(placed) or placed[index + 1][1] != place
        if is_last:
            before = place
        found.append((row, before))
    return found
