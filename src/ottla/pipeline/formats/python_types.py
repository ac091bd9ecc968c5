"""Python's type annotations -> Spark's types: dataclasses, TypedDicts, NamedTuples, Optional, containers.

| Python | Spark | | Python | Spark |
|---|---|---|---|---|
| `bool` | BOOLEAN | | `list[T]`, `Sequence[T]`, `set[T]`, `tuple[T, ...]` | ARRAY<T> |
| `int` | BIGINT | | `dict[K, V]`, `Mapping[K, V]` | MAP<K, V> |
| `float` | DOUBLE | | dataclass, TypedDict, NamedTuple | STRUCT |
| `str`, `uuid.UUID`, `Enum` of texts, `Literal` of texts | STRING | | `T | None` | nullable T |
| `bytes` | BINARY | | `datetime` | TIMESTAMP |
| `Decimal` | DECIMAL(38, 18) | | `date` | DATE |
| `timedelta` | INTERVAL DAY TO SECOND | | `Annotated[T, DataType()]` | that Spark type |

For another width, annotate it: `Annotated[int, IntegerType()]`. A field that is not optional is NOT NULL,
unless it has a default, as it may then be left out.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from typing import Annotated, Any, Final, TypeAlias, Union, get_args, get_origin

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.pipeline.formats.ddl import DdlError, parse_ddl
from ottla.pipeline.formats.format import FormatError

TypeLike: TypeAlias = Any
"""A Spark type, its DDL text, or a Python annotation."""

_SCALARS: Final[dict[Any, DataType]] = {
    bool: BooleanType(),
    int: LongType(),
    float: DoubleType(),
    str: StringType(),
    bytes: BinaryType(),
    bytearray: BinaryType(),
    uuid.UUID: StringType(),
    decimal.Decimal: DecimalType(38, 18),
    datetime.datetime: TimestampType(),
    datetime.date: DateType(),
    datetime.timedelta: DayTimeIntervalType(),
}
_SEQUENCES: Final = (list, set, frozenset, collections.abc.Sequence, collections.abc.Iterable)
_SEQUENCES_AND_SETS: Final = (*_SEQUENCES, collections.abc.Set, collections.abc.Collection)
_MAPPINGS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_ABSENT: Final = dataclasses.MISSING


def spark_type(wanted: TypeLike) -> DataType:
    """The Spark type of a DataType, a DDL text (`a INT, b STRING`) or a Python annotation.

    Raises FormatError. The result does not say whether the root may be null.
    """
    if isinstance(wanted, DataType):
        return wanted
    if isinstance(wanted, type) and issubclass(wanted, DataType):
        return wanted()
    if isinstance(wanted, str):
        return _from_ddl(wanted)
    return spark_type_of(wanted)


def spark_type_of(annotation: Any) -> DataType:
    """The Spark type of a Python annotation. Raises FormatError if Spark has no such type."""
    return _type_and_nullable(annotation, ())[0]


def _from_ddl(text: str) -> DataType:
    try:
        return parse_ddl(text)
    except DdlError as problem:
        raise FormatError(f"no Spark type: {text!r} ({problem})") from None


def _type_and_nullable(annotation: Any, within: tuple[Any, ...]) -> tuple[DataType, bool]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _optional(annotation, arguments, within)
    if origin is Annotated:
        for extra in arguments[1:]:
            if isinstance(extra, DataType):
                return extra, _type_and_nullable(arguments[0], within)[1]
        return _type_and_nullable(arguments[0], within)
    if origin is typing.Literal:
        found = {type(value) for value in arguments}
        if len(found) == 1 and (kind := found.pop()) in _SCALARS:
            return _SCALARS[kind], False
        raise _unknown(annotation)
    if origin in (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
        return _type_and_nullable(arguments[0], within)
    if isinstance(annotation, DataType):
        return annotation, False
    if isinstance(annotation, typing.NewType):
        return _type_and_nullable(annotation.__supertype__, within)
    if annotation in _SCALARS:
        return _SCALARS[annotation], False
    return _composite(annotation, origin, arguments, within), False


def _composite(annotation: Any, origin: Any, arguments: tuple[Any, ...], within: tuple[Any, ...]) -> DataType:
    if origin in _SEQUENCES_AND_SETS and len(arguments) == 1:
        element, nullable = _type_and_nullable(arguments[0], within)
        return ArrayType(element, nullable)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        element, nullable = _type_and_nullable(arguments[0], within)
        return ArrayType(element, nullable)
    if origin in _MAPPINGS and len(arguments) == 2:
        key, _ = _type_and_nullable(arguments[0], within)
        value, nullable = _type_and_nullable(arguments[1], within)
        return MapType(key, value, nullable)
    if isinstance(annotation, type):
        if issubclass(annotation, enum.Enum):
            return _enum(annotation)
        fields = _fields(annotation)
        if fields is not None:
            return _struct(annotation, fields, within)
    raise _unknown(annotation)


def _optional(annotation: Any, arguments: tuple[Any, ...], within: tuple[Any, ...]) -> tuple[DataType, bool]:
    rest = [argument for argument in arguments if argument is not type(None)]
    if len(rest) != 1 or len(rest) == len(arguments):
        raise FormatError(
            f"{_name(annotation)}: Spark has no type for one of several; only `T | None` has one"
        )
    return _type_and_nullable(rest[0], within)[0], True


def _enum(annotation: type[enum.Enum]) -> DataType:
    kinds = {type(member.value) for member in annotation}
    if kinds == {str}:
        return StringType()
    if kinds == {int}:
        return LongType()
    raise FormatError(f"the enum {annotation.__name__} needs members of texts or of whole numbers")


def _fields(annotation: type) -> dict[str, bool] | None:
    """The names of a class's fields, and whether each may be left out; None for a class without fields."""
    if dataclasses.is_dataclass(annotation):
        return {
            field.name: field.default is not _ABSENT or field.default_factory is not _ABSENT
            for field in dataclasses.fields(annotation)
        }
    if typing.is_typeddict(annotation):
        # not by __optional_keys__, which misses annotations that are texts
        hints = typing.get_type_hints(annotation, include_extras=True)
        total = getattr(annotation, "__total__", True)
        return {
            name: get_origin(hint) is typing.NotRequired
            or (not total and get_origin(hint) is not typing.Required)
            for name, hint in hints.items()
        }
    if issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        defaults = getattr(annotation, "_field_defaults", {})
        return {name: name in defaults for name in annotation._fields}
    return None


def _struct(annotation: type, fields: dict[str, bool], within: tuple[Any, ...]) -> StructType:
    if annotation in within:
        raise FormatError(f"{annotation.__name__} contains itself: Spark has no recursive types")
    try:
        hints = typing.get_type_hints(annotation, include_extras=True)
    except NameError as problem:
        raise FormatError(f"{annotation.__name__}: {problem}") from None
    built: list[StructField] = []
    for name, may_be_left_out in fields.items():
        try:
            field_type, nullable = _type_and_nullable(hints[name], (*within, annotation))
        except FormatError as problem:
            raise FormatError(f"{annotation.__name__}.{name}: {problem}") from None
        built.append(StructField(name, field_type, nullable or may_be_left_out))
    if not built:
        raise FormatError(f"{annotation.__name__} has no fields")
    return StructType(built)


def _unknown(annotation: Any) -> FormatError:
    return FormatError(
        f"Spark has no type for {_name(annotation)}: use a dataclass, TypedDict, list, dict, str, int, "
        "float, bool, bytes, Decimal, date or datetime, or Annotated[…, a Spark type]"
    )


def _name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
