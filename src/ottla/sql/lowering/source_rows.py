"""A source's topic as rows: a record's value becomes a struct of the columns that a query uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.sql.catalog.sources import Column as SourceColumn
from ottla.sql.catalog.sources import Source
from ottla.sql.language.statements import Role
from ottla.sql.lowering.event_times import event_time
from ottla.sql.lowering.formats import TopicFormats, topic_formats
from ottla.sql.lowering.rows import Places, field_name
from ottla.sql.lowering.spark_types import spark_type
from ottla.sql.plan.bound import BoundColumn
from ottla.sql.plan.query_plan import FromSource
from ottla.sql.types.sql_types import SqlType
from ottla.streams.dsl import Stream, Streams, Table
from ottla.streams.plan.records import Record

if TYPE_CHECKING:
    from pyspark.sql import Column

_EMPTY = "$"
"""The field of a row that has no column."""


def source_rows(
    app: Streams,
    named: FromSource,
    used: Mapping[str, Mapping[str, SqlType]],
    starts_at: str = "earliest",
    registry: Mapping[str, str] | None = None,
) -> tuple[Stream | Table, Places]:
    """A source's rows, and where its columns are in them. Raises SqlError."""
    source, formats = named.source, topic_formats(named.source, reads=True, registry=registry)
    columns = [BoundColumn(named.alias, name, of) for name, of in used[named.alias].items()]

    def value(record: Record) -> Column:
        from pyspark.sql import functions as F

        fields = [
            _column(source, formats, each.name, record).cast(spark_type(each.type)).alias(field_name(each))
            for each in columns
        ]
        return F.struct(*(fields or [F.lit(1).alias(_EMPTY)]))

    time = event_time(source, formats, lambda name, record: _column(source, formats, name, record))
    places = Places({(each.source, each.name): ("value", field_name(each)) for each in columns})
    if source.is_table:
        table = app.table(source.topic, key=formats.key, value=formats.value, timestamp=time)
        return table.map_values(value), places
    stream = app.stream(
        source.topic,
        key=formats.key,
        value=formats.value,
        start=starts_at,
        timestamp=time,
    )
    if source.values:
        stream = stream.filter(lambda record: record.value.isNotNull())
    return stream.map_values(value), places


def _column(source: Source, formats: TopicFormats, name: str, record: Record) -> Column:
    from pyspark.sql import functions as F

    match name:
        case "ROWTIME":
            return F.unix_millis(record.timestamp)
        case "ROWPARTITION":
            return record.partition
        case "ROWOFFSET":
            return record.offset
        case "WINDOWSTART" | "WINDOWEND":
            return F.unix_millis(record.key.getField("start" if name == "WINDOWSTART" else "end"))
    column = source.column(name)
    assert column is not None, f"{source.name} has no column {name}"
    match column.role:
        case Role.HEADERS:
            return _headers(column, record)
        case Role.VALUE:
            return record.value.getField(name) if formats.value_struct else record.value
    key = record.key if source.windowed is None else record.key.getField("key")
    return key.getField(name) if formats.key_struct else key


def _headers(column: SourceColumn, record: Record) -> Column:
    from pyspark.sql import functions as F

    if column.header is None:
        return F.transform(
            record.headers, lambda each: F.struct(each["key"].alias("KEY"), each["value"].alias("VALUE"))
        )
    named = F.filter(record.headers, lambda each: each["key"] == F.lit(column.header))
    return F.try_element_at(named, F.lit(-1)).getField("value")
