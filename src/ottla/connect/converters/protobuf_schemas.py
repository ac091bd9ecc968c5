"""Connect's schemas as Protobuf messages and back.

Date, Time and Timestamp are google.type.Date, google.type.TimeOfDay and google.protobuf.Timestamp. INT8 and
INT16 are int32, and read as INT32; parameters and defaults are not kept. Decimals are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from ottla.connect.data.building import struct_schema
from ottla.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, DataError, Field, Schema, Type

DEFAULT_NAME: Final = "ConnectDefault"
KNOWN: Final = {
    DATE: ("google.type.Date", "google/type/date.proto"),
    TIME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    TIMESTAMP: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
}
_LOGICAL: Final = {
    "google.type.Date": Schema(Type.INT32, optional=True, name=DATE, version=1),
    "google.type.TimeOfDay": Schema(Type.INT32, optional=True, name=TIME, version=1),
    "google.protobuf.Timestamp": Schema(Type.INT64, optional=True, name=TIMESTAMP, version=1),
}
_WRAPPERS: Final = re.compile(r"google\.protobuf\.\w+Value")
_F: Final = FieldDescriptorProto
_SCALARS: Final = {
    Type.INT8: _F.TYPE_INT32,
    Type.INT16: _F.TYPE_INT32,
    Type.INT32: _F.TYPE_INT32,
    Type.INT64: _F.TYPE_INT64,
    Type.FLOAT32: _F.TYPE_FLOAT,
    Type.FLOAT64: _F.TYPE_DOUBLE,
    Type.BOOLEAN: _F.TYPE_BOOL,
    Type.STRING: _F.TYPE_STRING,
    Type.BYTES: _F.TYPE_BYTES,
}
_FROM_PROTOBUF: Final = {
    FieldDescriptor.TYPE_INT32: Type.INT32,
    FieldDescriptor.TYPE_SINT32: Type.INT32,
    FieldDescriptor.TYPE_SFIXED32: Type.INT32,
    FieldDescriptor.TYPE_UINT32: Type.INT64,
    FieldDescriptor.TYPE_FIXED32: Type.INT64,
    FieldDescriptor.TYPE_INT64: Type.INT64,
    FieldDescriptor.TYPE_SINT64: Type.INT64,
    FieldDescriptor.TYPE_SFIXED64: Type.INT64,
    FieldDescriptor.TYPE_UINT64: Type.INT64,
    FieldDescriptor.TYPE_FIXED64: Type.INT64,
    FieldDescriptor.TYPE_FLOAT: Type.FLOAT32,
    FieldDescriptor.TYPE_DOUBLE: Type.FLOAT64,
    FieldDescriptor.TYPE_BOOL: Type.BOOLEAN,
    FieldDescriptor.TYPE_STRING: Type.STRING,
    FieldDescriptor.TYPE_BYTES: Type.BYTES,
    FieldDescriptor.TYPE_ENUM: Type.STRING,
}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(slots=True)
class ProtobufWriting:
    """Makes the file of one schema. optional_keyword: fields that may be null are `optional`."""

    optional_keyword: bool = False
    _imports: dict[str, None] = field(default_factory=dict)
    _unnamed: int = 0

    def file(self, schema: Schema) -> FileDescriptorProto:
        """The file whose first message is the schema's. Raises DataError."""
        if schema.type is not Type.STRUCT:
            raise DataError(f"Protobuf writes structs, and the value is {schema.type.name}")
        package, _, name = (schema.name or "").rpartition(".")
        file = FileDescriptorProto(name="connect.proto", syntax="proto3")
        if package:
            file.package = package
        scope = f".{package}" if package else ""
        self._fill(file.message_type.add(), schema, name or f"{DEFAULT_NAME}1", scope)
        file.dependency.extend(self._imports)
        return file

    def _fill(self, message: DescriptorProto, schema: Schema, name: str, scope: str) -> None:
        message.name = _checked(name)
        for number, each in enumerate(schema.fields, 1):
            self._add(message, each, number, f"{scope}.{name}")
        # The oneofs that stand for `optional` come behind all others.
        for made in message.field:
            if made.proto3_optional:
                made.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{made.name}")

    def _add(self, message: DescriptorProto, each: Field, number: int, scope: str) -> None:
        made = message.field.add(name=_checked(each.name), number=number, label=_F.LABEL_OPTIONAL)
        schema = each.schema
        if schema.type is Type.ARRAY:
            assert schema.values is not None
            if schema.values.type in (Type.ARRAY, Type.MAP):
                raise DataError(f"Protobuf has no arrays of arrays or maps: {each.name}")
            made.label = _F.LABEL_REPEATED
            schema = schema.values
        elif schema.type is Type.MAP:
            self._add_map(message, made, schema, scope)
            return
        self._type(message, made, schema, scope)
        if schema.optional and self.optional_keyword and made.label == _F.LABEL_OPTIONAL:
            made.proto3_optional = made.type != _F.TYPE_MESSAGE

    def _add_map(
        self, message: DescriptorProto, made: FieldDescriptorProto, schema: Schema, scope: str
    ) -> None:
        assert schema.keys is not None
        assert schema.values is not None
        entry = DescriptorProto(name=_entry_name(made.name))
        entry.options.map_entry = schema.keys.type in (Type.STRING, Type.INT32, Type.INT64, Type.BOOLEAN)
        within = f"{scope}.{entry.name}"
        self._add(entry, Field("key", Schema(schema.keys.type)), 1, within)
        if schema.values.type in (Type.ARRAY, Type.MAP):
            raise DataError(f"Protobuf has no maps of arrays or maps: {made.name}")
        value = entry.field.add(name="value", number=2, label=_F.LABEL_OPTIONAL)
        self._type(message, value, schema.values, scope)
        message.nested_type.append(entry)
        made.label, made.type, made.type_name = _F.LABEL_REPEATED, _F.TYPE_MESSAGE, within

    def _type(self, message: DescriptorProto, made: FieldDescriptorProto, schema: Schema, scope: str) -> None:
        if schema.name == DECIMAL:
            raise DataError(f"Decimals can't be written as Protobuf here: {made.name}")
        if schema.name in KNOWN:
            name, path = KNOWN[schema.name]
            self._imports[path] = None
            made.type, made.type_name = _F.TYPE_MESSAGE, f".{name}"
        elif schema.type is Type.STRUCT:
            self._unnamed += schema.name is None
            own = (schema.name or f"{DEFAULT_NAME}{self._unnamed + 1}").rpartition(".")[2]
            if all(each.name != own for each in message.nested_type):
                self._fill(message.nested_type.add(), schema, own, scope)
            made.type, made.type_name = _F.TYPE_MESSAGE, f"{scope}.{own}"
        else:
            made.type = _SCALARS[schema.type]


def _entry_name(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise DataError(f"{name} can't be a name in Protobuf")
    return name


def message_schema(message: Descriptor, within: tuple[str, ...] = ()) -> Schema:
    """The schema of a message. Raises DataError for one that contains itself."""
    if message.full_name in within:
        raise DataError(f"the message {message.full_name} contains itself, which a schema of Connect can't")
    inner = (*within, message.full_name)
    return struct_schema(
        ((each.name, field_schema(each, inner)) for each in message.fields), name=message.full_name
    )


def field_schema(each: FieldDescriptor, within: tuple[str, ...]) -> Schema:
    """The schema of a field. Raises DataError."""
    if is_map(each):
        keys, values = message_of(each).fields
        return Schema(Type.MAP, optional=True, keys=_single(keys, within), values=_single(values, within))
    found = _single(each, within)
    return Schema(Type.ARRAY, optional=True, values=found) if each.is_repeated else found


def message_of(each: FieldDescriptor) -> Descriptor:
    """The message that a field holds. Raises DataError for a field of another type."""
    if each.message_type is None:
        raise DataError(f"the field {each.full_name} holds no message")
    return each.message_type


def is_map(each: FieldDescriptor) -> bool:
    """Whether a field is a map, or the list of entries that stands for one."""
    message: Any = each.message_type
    if message is None or not each.is_repeated:
        return False
    names = [inner.name for inner in message.fields]
    return bool(message.GetOptions().map_entry) or (
        message.name == _entry_name(each.name) and names == ["key", "value"]
    )


def wrapper_of(each: FieldDescriptor) -> bool:
    """Whether a field is one of the messages that hold one value that may be null."""
    return each.message_type is not None and bool(_WRAPPERS.fullmatch(each.message_type.full_name))


def _single(each: FieldDescriptor, within: tuple[str, ...]) -> Schema:
    if each.message_type is None:
        return Schema(_FROM_PROTOBUF[each.type], optional=True)
    logical = _LOGICAL.get(each.message_type.full_name)
    if logical is not None:
        return logical
    if wrapper_of(each):
        return _single(each.message_type.fields_by_name["value"], within)
    found = message_schema(each.message_type, within)
    return Schema(Type.STRUCT, optional=True, name=found.name, fields=found.fields)
