"""The formats of a source's topic, for Spark.

ksqlDB writes names in upper case and reads them in any. Here a JSON field is read by its column's name, or by
that name in lower case; what is written otherwise (`userId`) needs a column in backticks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.pipeline.formats.json_format import JsonFormat
from ottla.pipeline.formats.primitives import Primitive, PrimitiveFormat
from ottla.pipeline.formats.windowed import WindowedFormat
from ottla.sql.catalog.sources import Column as SourceColumn
from ottla.sql.catalog.sources import Source
from ottla.sql.language.errors import SqlError
from ottla.sql.language.statements import WindowKind
from ottla.sql.lowering.delimited import DelimitedFormat
from ottla.sql.lowering.registry_format import RegistryFormat
from ottla.sql.lowering.registry_values import NO_REGISTRY, REGISTRY_FORMATS
from ottla.sql.lowering.spark_types import spark_type, struct_of
from ottla.sql.types.sql_types import Base, SqlType

if TYPE_CHECKING:
    from ottla.pipeline.formats.format import Format

_PRIMITIVES = {
    Base.INTEGER: Primitive.INT32,
    Base.BIGINT: Primitive.INT64,
    Base.DOUBLE: Primitive.FLOAT64,
    Base.STRING: Primitive.TEXT,
    Base.BYTES: Primitive.BYTES,
}


@dataclass(frozen=True, slots=True)
class TopicFormats:
    """A topic's formats. key_struct, value_struct: the columns are fields, not the whole key or value."""

    key: Format
    value: Format
    key_struct: bool
    value_struct: bool


def topic_formats(source: Source, *, reads: bool, registry: Mapping[str, str] | None = None) -> TopicFormats:
    """The formats of a source's topic. reads: for reading it. registry: settings of its client.

    Raises SqlError for formats of a registry where there is none.
    """
    keys, values = source.keys, source.values
    key_struct = len(keys) > 1
    key: Format
    if _is_encoded(source.key_format) and keys:
        key = _of_registry(source, key_struct, True, registry)
    else:
        # Keys are compared whole, so a key has one form: its columns by their own names.
        key = _format(source, source.key_format, _typed(keys), key_struct, False)
    if source.windowed is not None:
        size = None if source.windowed.kind is WindowKind.SESSION else source.windowed.size_ms
        key = WindowedFormat(key, size)
    whole = source.value_format == "KAFKA" or (len(values) == 1 and not source.wrap_single_value)
    value: Format
    if _is_encoded(source.value_format) and values:
        value = _of_registry(source, not whole, False, registry)
    else:
        value = _format(source, source.value_format, _typed(values), not whole, reads)
    return TopicFormats(key, value, key_struct, bool(values) and not whole)


def _typed(columns: tuple[SourceColumn, ...]) -> tuple[tuple[str, SqlType], ...]:
    return tuple((each.name, each.type) for each in columns)


def _is_encoded(name: str) -> bool:
    return name in REGISTRY_FORMATS or name == NO_REGISTRY


def _of_registry(
    source: Source, struct: bool, is_key: bool, registry: Mapping[str, str] | None
) -> RegistryFormat:
    name = source.key_format if is_key else source.value_format
    if not registry and name != NO_REGISTRY:
        raise SqlError(f"{source.name}: {name} needs a Schema Registry", None, "set ksql.schema.registry.url")
    columns = source.keys if is_key else source.values
    given = tuple(sorted((registry or {}).items()))
    return RegistryFormat(name, source.topic, columns, struct, is_key, given)


def _format(
    source: Source, name: str, columns: tuple[tuple[str, SqlType], ...], struct: bool, reads: bool
) -> Format:
    if not columns or name == "NONE":
        return PrimitiveFormat(Primitive.BYTES)
    match name:
        case "KAFKA":
            return PrimitiveFormat(_PRIMITIVES[columns[0][1].base])
        case "JSON":
            of = struct_of(columns) if struct else spark_type(columns[0][1])
            return JsonFormat.of(of, lower_too=reads)
        case "DELIMITED":
            return DelimitedFormat(struct_of(columns), source.value_delimiter, struct)
    raise SqlError(f"{source.name}: there is no format {name}", None)
