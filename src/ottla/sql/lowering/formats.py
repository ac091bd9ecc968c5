"""The formats of a source's topic, for Spark.

ksqlDB writes names in upper case and reads them in any. Here a JSON field is read by its column's name, or by
that name in lower case; what is written otherwise (`userId`) needs a column in backticks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

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
    from pyspark.sql import Column

    from ottla.pipeline.formats.format import Format

_LOWER = "$lower$"
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
            return JsonFormat.of(both_spellings(of) if reads else of)
        case "DELIMITED":
            return DelimitedFormat(struct_of(columns), source.value_delimiter, struct)
    raise SqlError(f"{source.name}: there is no format {name}", None)


def both_spellings(of: DataType, *, told_apart: bool = False) -> DataType:
    """The type with each field of its structs twice: as it is, and in lower case.

    told_apart: the second one is named by `_LOWER` and the column's name: Spark's expressions, unlike its
    reader of JSON, take names that differ by case alone for one name.
    """
    match of:
        case StructType():
            fields = []
            for each in of.fields:
                inner = both_spellings(each.dataType, told_apart=told_apart)
                fields.append(StructField(each.name, inner))
                if _has_other_spelling(each.name, of):
                    other = _LOWER + each.name if told_apart else each.name.lower()
                    fields.append(StructField(other, inner))
            return StructType(fields)
        case ArrayType():
            return ArrayType(both_spellings(of.elementType, told_apart=told_apart))
        case MapType():
            return MapType(of.keyType, both_spellings(of.valueType, told_apart=told_apart))
        case _:
            return of


def one_spelling(column: Column, of: DataType) -> Column:
    """A value of `both_spellings(of)` as one of `of`."""
    return _merged(column.cast(both_spellings(of, told_apart=True)), of) if _has_struct(of) else column


def _merged(column: Column, of: DataType) -> Column:
    match of:
        case StructType():
            fields = []
            for each in of.fields:
                found = _merged(column.getField(each.name), each.dataType)
                if _has_other_spelling(each.name, of):
                    lower = _merged(column.getField(_LOWER + each.name), each.dataType)
                    found = F.coalesce(found, lower)
                fields.append(found.alias(each.name))
            return F.when(column.isNotNull(), F.struct(*fields))
        case ArrayType() if _has_struct(of):
            return F.transform(column, lambda each: _merged(each, of.elementType))
        case MapType() if _has_struct(of):
            return F.transform_values(column, lambda _, each: _merged(each, of.valueType))
        case _:
            return column


def _has_other_spelling(name: str, of: StructType) -> bool:
    return name.lower() not in of.names


def _has_struct(of: DataType) -> bool:
    match of:
        case StructType():
            return True
        case ArrayType():
            return _has_struct(of.elementType)
        case MapType():
            return _has_struct(of.valueType)
        case _:
            return False
