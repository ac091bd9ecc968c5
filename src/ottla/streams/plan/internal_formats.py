"""Formats that the user does not name: those of internal topics, and those that Python types stand for.

Keys of equal values have equal bytes, so that a key is always on the same partition and compaction finds it:
Kafka's own serializers where a type has one, JSON otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.pipeline.formats.format import FormatError
from ottla.pipeline.formats.json_format import JsonFormat
from ottla.pipeline.formats.primitives import Primitive, PrimitiveFormat
from ottla.pipeline.formats.python_types import spark_type_of
from ottla.streams.plan.node import Formats, TopologyError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from ottla.pipeline.formats.format import Format

    FormatOrType: TypeAlias = Format | type

_PRIMITIVES = (
    Primitive.BYTES,
    Primitive.TEXT,
    Primitive.INT16,
    Primitive.INT32,
    Primitive.INT64,
    Primitive.FLOAT32,
    Primitive.FLOAT64,
    Primitive.BOOLEAN,
)


def internal_formats(key: DataType, value: DataType) -> Formats:
    """The formats of an internal topic's keys and values."""
    return Formats(format_of(key), format_of(value))


def format_of(data_type: DataType) -> Format:
    """The format for a Spark type. Raises FormatError for a type that JSON can't hold."""
    for kind in _PRIMITIVES:
        if kind.spark_type == data_type:
            return PrimitiveFormat(kind)
    return JsonFormat.of(data_type)


def format_for_type(given: type) -> Format:
    """The format that a Python type stands for: str, int (64 bits), float, bytes, bool, else JSON.

    Raises FormatError.
    """
    return format_of(spark_type_of(given))


def as_format(given: FormatOrType) -> Format:
    """A format, or the one that a Python type stands for. Raises TopologyError."""
    if not isinstance(given, type):
        return given
    try:
        return format_for_type(given)
    except FormatError as error:
        raise TopologyError(str(error)) from error


def as_formats(key: FormatOrType, value: FormatOrType) -> Formats:
    """The formats of a topic, each given as `as_format` takes it."""
    return Formats(as_format(key), as_format(value))
