"""Protobuf messages -> Spark types, batches of messages -> Arrow columns, values -> messages.

| Protobuf | Spark | | Protobuf | Spark |
|---|---|---|---|---|
| bool, string, bytes | BOOLEAN, STRING, BINARY | | enum | STRING (a number that has no name as its digits) |
| int32, sint32, sfixed32 | INT | | message | STRUCT |
| uint32, fixed32, int64, sint64, sfixed64 | BIGINT | | repeated T, map | ARRAY<T>, MAP<K, V> |
| uint64, fixed64 | DECIMAL(20, 0) | | google.protobuf wrappers | nullable T |
| float, double | FLOAT, DOUBLE | | Timestamp | TIMESTAMP (nanoseconds are cut) |

A field without presence is never null; one with presence (message, optional, member of a oneof) is null if it
is not set. Messages that contain themselves are refused.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.pipeline.formats.format import FormatError

TIMESTAMP: Final = "google.protobuf.Timestamp"
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Int32", "UInt32", "Int64", "UInt64", "Float", "Double", "String", "Bytes")
)
_UNSIGNED_64: Final = DecimalType(20, 0)
_SCALARS: Final[dict[int, tuple[DataType, pa.DataType]]] = {
    FieldDescriptor.CPPTYPE_BOOL: (BooleanType(), pa.bool_()),
    FieldDescriptor.CPPTYPE_INT32: (IntegerType(), pa.int32()),
    FieldDescriptor.CPPTYPE_UINT32: (LongType(), pa.int64()),
    FieldDescriptor.CPPTYPE_INT64: (LongType(), pa.int64()),
    FieldDescriptor.CPPTYPE_UINT64: (_UNSIGNED_64, pa.decimal128(20, 0)),
    FieldDescriptor.CPPTYPE_FLOAT: (FloatType(), pa.float32()),
    FieldDescriptor.CPPTYPE_DOUBLE: (DoubleType(), pa.float64()),
}
Build: TypeAlias = Callable[[Sequence[Any]], pa.Array]
"""Builds a column from the values of one field, None where it is not set."""


@dataclass(frozen=True, slots=True)
class MessageShape:
    """A message as columns.

    array: builds an array of messages, None for null. fill: sets a message's fields from transported JSON.
    """

    spark: DataType
    array: Build
    fill: Callable[[Any, Any], None]


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one kind of value is converted.

    spark: its type. build: makes a column of such values. plain: turns a value of the transport's JSON into
    Protobuf's. fill: sets a message's fields from JSON; None if the value is not a message.
    """

    spark: DataType
    build: Build
    plain: Callable[[Any], Any]
    fill: Callable[[Any, Any], None] | None = None


def shape_of(descriptor: Descriptor) -> MessageShape:
    """The shape of a message. Raises FormatError for a type that Spark does not have."""
    kind = _message(descriptor, (), descriptor.name)
    assert kind.fill is not None
    return MessageShape(kind.spark, kind.build, kind.fill)


def _message(descriptor: Descriptor, within: tuple[str, ...], path: str) -> _Kind:
    if descriptor.full_name == TIMESTAMP:
        return _Kind(TimestampType(), _timestamps, _identity, _fill_timestamp)
    if descriptor.full_name in _WRAPPERS:
        return _wrapper(descriptor)
    if descriptor.full_name in within:
        raise FormatError(f"{path}: {descriptor.full_name} contains itself, Spark has no such type")
    inner = (*within, descriptor.full_name)
    fields = [(each, _field(each, inner, f"{path}.{each.name}")) for each in descriptor.fields]
    if not fields:
        # Spark drops a struct without fields: such a message becomes a BOOLEAN, whether it is set
        return _Kind(BooleanType(), _presence, _identity, _fill_empty)
    names = [each.name for each, _ in fields]
    spark = StructType([StructField(each.name, kind.spark, each.has_presence) for each, kind in fields])
    readers = [(_reader(each), kind.build) for each, kind in fields]

    def build(messages: Sequence[Any]) -> pa.Array:
        missing = [message is None for message in messages]
        columns = [column(read(messages)) for read, column in readers]
        mask = pa.array(missing, pa.bool_()) if True in missing else None
        return pa.StructArray.from_arrays(columns, names, mask=mask)

    setters = [(each.name, _setter(each, kind)) for each, kind in fields]

    def fill(message: Any, value: Any) -> None:
        for name, setter in setters:
            given = value.get(name)
            if given is not None:
                setter(message, given)

    return _Kind(spark, build, _identity, fill)


def _field(field: FieldDescriptor, within: tuple[str, ...], path: str) -> _Kind:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return _map(entry, within, path)
    kind = _value(field, within, path)
    if not field.is_repeated:
        return kind

    def build(lists: Sequence[Any]) -> pa.Array:
        offsets, flat = _flattened(lists)
        return pa.ListArray.from_arrays(offsets, kind.build(flat))

    return _Kind(ArrayType(kind.spark, containsNull=False), build, _identity)


def _map(entry: Descriptor, within: tuple[str, ...], path: str) -> _Kind:
    key = _value(entry.fields_by_name["key"], within, f"{path}.key")
    value = _value(entry.fields_by_name["value"], within, f"{path}.value")

    def build(maps: Sequence[Any]) -> pa.Array:
        items = [None if each is None else list(each.items()) for each in maps]
        offsets, flat = _flattened(items)
        keys, values = key.build([each[0] for each in flat]), value.build([each[1] for each in flat])
        return pa.MapArray.from_arrays(offsets, keys, values)

    return _Kind(MapType(key.spark, value.spark, valueContainsNull=False), build, _identity)


def _value(field: FieldDescriptor, within: tuple[str, ...], path: str) -> _Kind:
    if field.message_type is not None:
        return _message(field.message_type, within, path)
    if field.enum_type is not None:
        return _enum(field.enum_type)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _Kind(BinaryType(), lambda values: pa.array(values, pa.binary()), base64.b64decode)
    if field.type == FieldDescriptor.TYPE_STRING:
        return _Kind(StringType(), lambda values: pa.array(values, pa.string()), _identity)
    spark, arrow = _SCALARS[field.cpp_type]
    if spark == _UNSIGNED_64:
        return _Kind(spark, _unsigned, int)
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return _Kind(spark, lambda values: pa.array(values, arrow), float)
    return _Kind(spark, lambda values: pa.array(values, arrow), _identity)


def _enum(descriptor: EnumDescriptor) -> _Kind:
    names = {number: value.name for number, value in descriptor.values_by_number.items()}
    numbers = {name: value.number for name, value in descriptor.values_by_name.items()}

    def build(values: Sequence[Any]) -> pa.Array:
        told = [None if each is None else names.get(each, str(each)) for each in values]
        return pa.array(told, pa.string())

    def plain(name: str) -> int:
        if name in numbers:
            return numbers[name]
        try:
            return int(name)
        except ValueError:
            raise ValueError(f"the enum {descriptor.full_name} has no {name!r}") from None

    return _Kind(StringType(), build, plain)


def _wrapper(descriptor: Descriptor) -> _Kind:
    inner = _value(descriptor.fields_by_name["value"], (), descriptor.full_name)

    def build(messages: Sequence[Any]) -> pa.Array:
        return inner.build([None if each is None else each.value for each in messages])

    def fill(message: Any, value: Any) -> None:
        message.SetInParent()
        message.value = inner.plain(value)

    return _Kind(inner.spark, build, _identity, fill)


def _reader(field: FieldDescriptor) -> Callable[[Sequence[Any]], list[Any]]:
    name = field.name
    if field.has_presence:

        def with_presence(messages: Sequence[Any]) -> list[Any]:
            return [
                getattr(each, name) if each is not None and each.HasField(name) else None for each in messages
            ]

        return with_presence

    def plain(messages: Sequence[Any]) -> list[Any]:
        return [None if each is None else getattr(each, name) for each in messages]

    return plain


def _setter(field: FieldDescriptor, kind: _Kind) -> Callable[[Any, Any], None]:
    name = field.name
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return _map_setter(name, entry)
    if not field.is_repeated:
        if kind.fill is not None:
            fill = kind.fill
            return lambda message, value: fill(getattr(message, name), value)
        return lambda message, value: setattr(message, name, kind.plain(value))
    element = _value(field, (), name) if entry is None else _message(entry, (), name)

    def set_all(message: Any, values: Any) -> None:
        target = getattr(message, name)
        for value in values:
            if value is None:
                raise ValueError(f"{name}: a repeated field has no nulls")
            if element.fill is not None:
                element.fill(target.add(), value)
            else:
                target.append(element.plain(value))

    return set_all


def _map_setter(name: str, entry: Descriptor) -> Callable[[Any, Any], None]:
    key_field = entry.fields_by_name["key"]
    value = _value(entry.fields_by_name["value"], (), name)
    if key_field.type == FieldDescriptor.TYPE_STRING:
        key_of: Callable[[str], Any] = str
    elif key_field.type == FieldDescriptor.TYPE_BOOL:
        key_of = "true".__eq__
    else:
        key_of = int

    def set_all(message: Any, values: Any) -> None:
        target = getattr(message, name)
        for key, given in values.items():
            if given is None:
                raise ValueError(f"{name}: a map has no nulls")
            if value.fill is not None:
                value.fill(target[key_of(key)], given)
            else:
                target[key_of(key)] = value.plain(given)

    return set_all


def _identity(value: Any) -> Any:
    return value


def _flattened(lists: Sequence[Any]) -> tuple[pa.Array, list[Any]]:
    """The offsets and the items of lists; a missing list counts as empty, as its whole message is null."""
    offsets, flat = [0], []
    for each in lists:
        if each:
            flat.extend(each)
        offsets.append(len(flat))
    return pa.array(offsets, pa.int32()), flat


def _timestamps(messages: Sequence[Any]) -> pa.Array:
    micros = [None if each is None else each.seconds * 1_000_000 + each.nanos // 1_000 for each in messages]
    return pa.array(micros, pa.timestamp("us", "UTC"))


def _fill_timestamp(message: Any, micros: int) -> None:
    message.SetInParent()
    message.seconds, rest = divmod(micros, 1_000_000)
    message.nanos = rest * 1_000


def _unsigned(values: Sequence[Any]) -> pa.Array:
    return pa.array([None if each is None else Decimal(each) for each in values], pa.decimal128(20, 0))


def _presence(messages: Sequence[Any]) -> pa.Array:
    return pa.array([None if each is None else True for each in messages], pa.bool_())


def _fill_empty(message: Any, value: Any) -> None:
    if value:
        message.SetInParent()
