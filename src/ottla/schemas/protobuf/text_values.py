"""Prints values of options and defaults as .proto text; reads a descriptor's options with its own pool.

Custom options are extensions: a descriptor that was parsed elsewhere has them as unknown fields, so options
are parsed once more with the pool of the files that declare them.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from typing import Any, Final, cast

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, UninterpretedOption
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.text_encoding import CUnescape

from ottla.schemas.format import InvalidSchema
from ottla.schemas.protobuf.names import ShortNames

_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED: Final = re.compile(r'[\\"\x00-\x1f\x7f]')
_BOOL: Final = re.compile("true|false")
_INTEGER: Final = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)")
_FLOAT: Final = re.compile(r"-?(?:inf|nan|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_WRITTEN: Final = frozenset({"map_entry", "uninterpreted_option"})
_MAX_VALUE_DEPTH: Final = 100


def identifier(name: str | bytes) -> str:
    """The name, checked; protobuf gives a name that is not UTF-8 as bytes. Raises InvalidSchema."""
    if not isinstance(name, str) or _IDENTIFIER.fullmatch(name) is None:
        raise InvalidSchema(f"{name!r} is no name")
    return name


def quoted(value: str | bytes) -> str:
    """A string literal. Bytes that are not UTF-8 (so protobuf gives such a string) are escaped."""
    if isinstance(value, bytes):
        return '"' + "".join(_byte(byte) for byte in value) + '"'
    return '"' + _ESCAPED.sub(_escape, value) + '"'


def quoted_bytes(value: bytes) -> str:
    """A string literal of bytes, which are a text in most cases."""
    try:
        return quoted(value.decode())
    except UnicodeDecodeError:
        return quoted(value)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _ESCAPES.get(character, f"\\{ord(character):03o}")


def _byte(byte: int) -> str:
    if 0x20 <= byte < 0x7F:
        return _ESCAPES.get(chr(byte), chr(byte))
    return f"\\{byte:03o}"


def default_text(field: FieldDescriptorProto) -> str:
    """The default of a field, which a descriptor keeps as a text. Raises InvalidSchema."""
    value = cast("str | bytes", field.default_value)
    match field.type:
        case FieldDescriptorProto.TYPE_STRING:
            return quoted(value)
        case FieldDescriptorProto.TYPE_BYTES:
            try:
                raw: bytes = CUnescape(value if isinstance(value, str) else value.decode("latin-1"))
            except (ValueError, TypeError):
                raise InvalidSchema(f"the default of {field.name!r} is not escaped rightly") from None
            return quoted(raw)
        case FieldDescriptorProto.TYPE_BOOL:
            allowed = _BOOL
        case FieldDescriptorProto.TYPE_FLOAT | FieldDescriptorProto.TYPE_DOUBLE:
            allowed = _FLOAT
        case FieldDescriptorProto.TYPE_ENUM:
            allowed = _IDENTIFIER
        case _:
            allowed = _INTEGER
    if not isinstance(value, str) or allowed.fullmatch(value) is None:
        raise InvalidSchema(f"{value!r} is no default for the field {field.name!r}")
    return value


class OptionReader:
    """Reads options with a pool: the descriptor's own, or one without custom options.

    `left_out` is the import path of a file whose extensions are left out. `with_uninterpreted` is for
    descriptors that protoc has made, whose uninterpreted options were checked and carried through it.
    """

    __slots__ = ("_classes", "_left_out", "_names", "_pool", "_with_uninterpreted")

    def __init__(
        self,
        pool: DescriptorPool | None,
        names: ShortNames | None,
        left_out: str | None,
        *,
        with_uninterpreted: bool = False,
    ) -> None:
        self._with_uninterpreted = with_uninterpreted
        self._pool = pool
        self._names = names
        self._left_out = left_out
        self._classes: dict[str, type[Message] | None] = {}

    def entries(self, options: Message, scope: str) -> Iterator[str]:
        """Each option that is set as `name = value`, in the order of their numbers.

        Uninterpreted ones have none, and come last: in their own order, and by name with full names.
        """
        if not options.ByteSize():
            return
        read = self._reread(options)
        for field, value in read.ListFields():
            if field.name in _NOT_WRITTEN and not field.is_extension:
                continue
            if field.is_extension and (read is options or _file_of(field) == self._left_out):
                continue
            if field.name == "features" and not field.is_extension:
                yield from self._features(value, scope)
                continue
            name = self._option_name(field, scope)
            for one in value if field.is_repeated else (value,):
                yield f"{name} = {self._value(field, one, 0)}"
        if self._with_uninterpreted:
            uninterpreted: list[UninterpretedOption] = cast("Any", read).uninterpreted_option
            carried = [(_name_text(one), _value_text(one)) for one in uninterpreted]
            if self._names is None:
                carried.sort(key=lambda entry: entry[0])
            yield from (f"{name} = {value}" for name, value in carried)

    def _reread(self, options: Message) -> Message:
        name = options.DESCRIPTOR.full_name
        if name not in self._classes:
            self._classes[name] = self._class(name)
        found = self._classes[name]
        if found is None:
            return options
        try:
            return found.FromString(options.SerializeToString())
        except DecodeError:
            raise InvalidSchema(f"{name} can't be read with the extensions of the schema's imports") from None

    def _class(self, name: str) -> type[Message] | None:
        if self._pool is None:
            return None
        try:
            return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))
        except KeyError:
            return None  # no file imports descriptor.proto: there are no custom options

    def _features(self, features: Message, scope: str) -> Iterator[str]:
        for field, value in features.ListFields():
            if not field.is_extension:
                yield f"features.{field.name} = {self._value(field, value, 0)}"
                continue
            for inner, inner_value in value.ListFields():
                name = self._option_name(field, scope)
                yield f"features.{name}.{inner.name} = {self._value(inner, inner_value, 0)}"

    def _option_name(self, field: FieldDescriptor, scope: str) -> str:
        if not field.is_extension:
            return field.name
        name = field.full_name
        return f"({self._names.of_extension(name, scope)})" if self._names is not None else f"(.{name})"

    def _value(self, field: FieldDescriptor, value: Any, depth: int) -> str:
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_MESSAGE:
                return self._aggregate(value, depth + 1)
            case FieldDescriptor.CPPTYPE_STRING:
                return quoted(value)
            case FieldDescriptor.CPPTYPE_BOOL:
                return "true" if value else "false"
            case FieldDescriptor.CPPTYPE_ENUM:
                return _constant(field, value)
            case FieldDescriptor.CPPTYPE_FLOAT:
                return _float(value, single=True)
            case FieldDescriptor.CPPTYPE_DOUBLE:
                return _float(value, single=False)
            case _:
                return str(value)

    def _aggregate(self, message: Message, depth: int) -> str:
        if depth > _MAX_VALUE_DEPTH:
            raise InvalidSchema(f"the value of an option is nested more than {_MAX_VALUE_DEPTH} deep")
        told: list[str] = []
        for field, value in message.ListFields():
            name = f"[{field.full_name}]" if field.is_extension else _text_name(field)
            if not field.is_repeated:
                told.append(f"{name}: {self._value(field, value, depth)}")
                continue
            told.append(f"{name}: [{', '.join(self._items(field, value, depth))}]")
        return "{" + ", ".join(told) + "}"

    def _items(self, field: FieldDescriptor, value: Any, depth: int) -> list[str]:
        kind = field.message_type
        if kind is None or not kind.GetOptions().map_entry:
            return [self._value(field, one, depth) for one in value]
        key_field, value_field = kind.fields_by_name["key"], kind.fields_by_name["value"]
        return [
            f"{{key: {self._value(key_field, key, depth)}, "
            f"value: {self._value(value_field, value[key], depth + 1)}}}"
            for key in sorted(value)
        ]


def _value_text(option: UninterpretedOption) -> str:
    """The value as .proto text."""
    if option.HasField("string_value"):
        return quoted_bytes(option.string_value)
    kind = next(field.name for field, _ in option.ListFields() if field.name != "name")
    return str(getattr(option, kind))


def _name_text(option: UninterpretedOption) -> str:
    """The name as .proto text: the names of extensions in parentheses."""
    return ".".join(f"({part.name_part})" if part.is_extension else part.name_part for part in option.name)


def _file_of(field: FieldDescriptor) -> str:
    path: str = field.file.name  # type: ignore[attr-defined] # every field has one, the stubs do not know
    return path


def _constant(field: FieldDescriptor, value: int) -> str:
    assert field.enum_type is not None
    known = field.enum_type.values_by_number.get(value)
    return str(value) if known is None else known.name


def _text_name(field: FieldDescriptor) -> str:
    """A field's name in a value; a group has the name of its type."""
    kind = field.message_type
    if kind is not None and field.type == FieldDescriptor.TYPE_GROUP and field.name == kind.name.lower():
        return kind.name
    return field.name


def _float(value: float, *, single: bool) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if single:
        for digits in range(6, 9):
            short = f"{value:.{digits}g}"
            if struct.unpack("<f", struct.pack("<f", float(short)))[0] == value:
                return short
        return f"{value:.9g}"
    return repr(value)
