"""Python values into a topology under test and out of it: checked against the Spark type they stand for.

In: dictionaries or dataclasses for structs, lists, dictionaries for maps, datetimes (a naive one is UTC). A
value that does not fit is an error at once, with the path to the wrong part; nothing is left out or rounded.
Out: the same, structs as dictionaries or as the dataclass that was asked for. A key that is a struct comes
as a named tuple, so that it can be a key of a dictionary: `("anna", start, end)` for a window. Times come
as naive datetimes in UTC, as functions of a topology see them.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import types
import typing
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ValueOfWrongType(Exception):
    """A Python value does not fit the format it is written in; the message says where and why."""


def to_arrow_value(value: Any, data_type: DataType, path: str) -> Any:
    """The value as pyarrow takes it for this type. Raises ValueOfWrongType."""
    from pyspark.sql import types as T

    if value is None:
        return None
    match data_type:
        case T.StructType():
            return _struct(value, data_type, path)
        case T.ArrayType():
            if not isinstance(value, Sequence | set | frozenset) or isinstance(value, str | bytes):
                raise _wrong(value, data_type, path)
            return [
                to_arrow_value(each, data_type.elementType, f"{path}[{i}]") for i, each in enumerate(value)
            ]
        case T.MapType():
            if not isinstance(value, Mapping):
                raise _wrong(value, data_type, path)
            return [
                (
                    to_arrow_value(key, data_type.keyType, f"{path} (a key)"),
                    to_arrow_value(each, data_type.valueType, f"{path}[{key!r}]"),
                )
                for key, each in value.items()
            ]
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, UUID):
        value = str(value)
    wanted = _PYTHON_TYPES.get(type(data_type).__name__, (object,))
    is_truth = isinstance(value, bool)  # a bool is an int to Python, but no number to a topic
    if not isinstance(value, wanted) or (is_truth and wanted not in ((bool,), (object,))):
        raise _wrong(value, data_type, path)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value


_WHOLE = (int,)
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "StringType": (str,),
    "BinaryType": (bytes, bytearray, memoryview),
    "BooleanType": (bool,),
    "ByteType": _WHOLE,
    "ShortType": _WHOLE,
    "IntegerType": _WHOLE,
    "LongType": _WHOLE,
    "FloatType": (float, int),
    "DoubleType": (float, int),
    "DecimalType": (Decimal, int),
    "TimestampType": (datetime,),
    "TimestampNTZType": (datetime,),
    "DateType": (date,),
    "DayTimeIntervalType": (timedelta,),
}


def _struct(value: Any, data_type: StructType, path: str) -> dict[str, Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        fields = value._asdict()
    elif isinstance(value, tuple) and len(value) == len(data_type.fields):
        fields = dict(zip(data_type.names, value, strict=True))
    elif isinstance(value, Mapping):
        fields = dict(value)
    else:
        raise _wrong(value, data_type, path)
    unknown = [name for name in fields if name not in data_type.names]
    if unknown:
        raise ValueOfWrongType(
            f"{path} has no field {unknown[0]!r}: its fields are {', '.join(data_type.names)}"
        )
    return {
        field.name: to_arrow_value(fields.get(field.name), field.dataType, f"{path}.{field.name}")
        for field in data_type.fields
    }


def _wrong(value: Any, data_type: DataType, path: str) -> ValueOfWrongType:
    return ValueOfWrongType(f"{path} is {data_type.simpleString()}, not {type(value).__name__}: {value!r}")


def from_arrow_value(value: Any, data_type: DataType, wanted: Any = None) -> Any:
    """A value of this type that pyarrow read, as the kit gives it; `wanted` may name a dataclass."""
    from pyspark.sql import types as T

    if value is None:
        return None
    match data_type:
        case T.StructType():
            hints = _hints_of(wanted)
            fields = {
                field.name: from_arrow_value(value[field.name], field.dataType, hints.get(field.name))
                for field in data_type.fields
            }
            return wanted(**fields) if hints else fields
        case T.ArrayType():
            inner = _argument(wanted, 0)
            return [from_arrow_value(each, data_type.elementType, inner) for each in value]
        case T.MapType():
            key_type, value_type = _argument(wanted, 0), _argument(wanted, 1)
            pairs = value.items() if isinstance(value, dict) else value
            return {
                from_arrow_value(key, data_type.keyType, key_type): from_arrow_value(
                    each, data_type.valueType, value_type
                )
                for key, each in pairs
            }
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def hashable(key: Any) -> Any:
    """A key that can be one of a dictionary: structs as named tuples, lists as tuples."""
    if isinstance(key, dict):
        return _named_tuple(tuple(key))(*(hashable(each) for each in key.values()))
    return tuple(hashable(each) for each in key) if isinstance(key, list) else key


@functools.lru_cache(256)
def _named_tuple(names: tuple[str, ...]) -> Any:
    return collections.namedtuple("Key", names, rename=True)


def _hints_of(wanted: Any) -> Mapping[str, Any]:
    """The fields of a dataclass, maybe an optional one; nothing for anything else."""
    for each in (wanted, *_alternatives(wanted)):
        if isinstance(each, type) and dataclasses.is_dataclass(each):
            return typing.get_type_hints(each)
    return {}


def _alternatives(wanted: Any) -> tuple[Any, ...]:
    return typing.get_args(wanted) if typing.get_origin(wanted) in (typing.Union, types.UnionType) else ()


def _argument(wanted: Any, number: int) -> Any:
    for each in (wanted, *_alternatives(wanted)):
        arguments = typing.get_args(each)
        if typing.get_origin(each) not in (None, typing.Union, types.UnionType) and len(arguments) > number:
            return arguments[number]
    return None


def milliseconds(time: datetime | int) -> int:
    """Milliseconds since 1970 of a time; a naive one is UTC, a number is it already."""
    if isinstance(time, bool) or not isinstance(time, int | datetime):
        raise ValueOfWrongType(f"a timestamp is a datetime or milliseconds since 1970, not {time!r}")
    if isinstance(time, int):
        return time
    aware = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    return (aware - EPOCH) // timedelta(milliseconds=1)
