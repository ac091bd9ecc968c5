"""Records' times that TIMESTAMP of WITH takes from a column: of those that are read, and of those written.

A deletion has no columns but its key's, so it keeps the record's own time. A record whose column has no time
is a poison record: nothing can say which window it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.sql.catalog.sources import Column as SourceColumn
from ottla.sql.catalog.sources import Source
from ottla.sql.functions import java_times
from ottla.sql.language.statements import Role
from ottla.sql.lowering.formats import TopicFormats
from ottla.sql.types.sql_types import STRING
from ottla.streams.plan.records import Expression, PythonRecord, Record, python

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column


def event_time(
    source: Source, formats: TopicFormats, of: Callable[[str, Record], Column]
) -> Expression | None:
    """The time of a record of a source's topic; None where it is its own. of: a column by its name."""
    column = None if source.timestamp is None else source.column(source.timestamp)
    if column is None:
        return None
    if column.type == STRING:
        whole = not (formats.value_struct if column.role is Role.VALUE else formats.key_struct)
        windowed = source.windowed is not None
        return python(ParsedTime(column, source.timestamp_format or "", whole, windowed), returns="TIMESTAMP")
    name, in_value = column.name, column.role is Role.VALUE

    def milliseconds(record: Record) -> Column:
        from pyspark.sql import functions as F

        # A TIMESTAMP is the number of milliseconds that it is in topics.
        time = F.timestamp_millis(of(name, record))
        return F.when(record.value.isNull(), record.timestamp).otherwise(time) if in_value else time

    return milliseconds


def written_time(target: Source, formats: TopicFormats) -> Expression | None:
    """The time of a record that a query writes; None where it is the record's own."""

    def of(name: str, record: Record) -> Column:
        column = target.column(name)
        assert column is not None
        if column.role is Role.VALUE:
            return record.value.getField(name) if formats.value_struct else record.value
        key = record.key if target.windowed is None else record.key.getField("key")
        return key.getField(name) if formats.key_struct else key

    return event_time(target, formats, of)


@dataclass(frozen=True, slots=True)
class ParsedTime:
    """The time that a text column says. whole: it is the whole key or value, no field."""

    column: SourceColumn
    pattern: str
    whole: bool
    windowed: bool

    @property
    def __name__(self) -> str:
        return f"TIMESTAMP {self.column.name}"

    def __call__(self, record: PythonRecord) -> datetime:
        """Raises ValueError for a record without such a text."""
        in_value = self.column.role is Role.VALUE
        if in_value and record.value is None:
            return record.timestamp
        found = record.value if in_value else record.key
        if not in_value and self.windowed:
            found = found["key"]
        if not self.whole:
            name = self.column.name
            # What is read has a field in either spelling (formats.py), what is written in one.
            found = found.get(name) or found.get(name.lower())
        if found is None:
            raise ValueError(f"{self.column.name} is NULL: the record has no time")
        return java_times.parsed(found, self.pattern).astimezone(java_times.zone("UTC"))
