"""Prints a descriptor as .proto text.

The text gives the same descriptor when it is parsed, except for the parts that a text can't express: the
file's own path, comments, and options that no import declares. The order of nested messages is kept, as
serializers refer to a message by its place: map fields and groups have messages of their own among the nested
ones, so these are written before or after the field as they were found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    Edition,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    MethodDescriptorProto,
    OneofDescriptorProto,
    ServiceDescriptorProto,
    SymbolVisibility,
)
from google.protobuf.message import Message

from ottla.schemas.format import InvalidSchema
from ottla.schemas.protobuf.names import ShortNames
from ottla.schemas.protobuf.text_values import OptionReader, default_text, identifier, quoted

_Field = FieldDescriptorProto
_MAX_FIELD: Final = 536_870_911
_MAX_ENUM: Final = 2_147_483_647
_SCALARS: Final = {
    _Field.TYPE_DOUBLE: "double",
    _Field.TYPE_FLOAT: "float",
    _Field.TYPE_INT32: "int32",
    _Field.TYPE_INT64: "int64",
    _Field.TYPE_UINT32: "uint32",
    _Field.TYPE_UINT64: "uint64",
    _Field.TYPE_SINT32: "sint32",
    _Field.TYPE_SINT64: "sint64",
    _Field.TYPE_FIXED32: "fixed32",
    _Field.TYPE_FIXED64: "fixed64",
    _Field.TYPE_SFIXED32: "sfixed32",
    _Field.TYPE_SFIXED64: "sfixed64",
    _Field.TYPE_BOOL: "bool",
    _Field.TYPE_STRING: "string",
    _Field.TYPE_BYTES: "bytes",
}
_VISIBILITIES: Final = {
    SymbolVisibility.VISIBILITY_EXPORT: "export ",
    SymbolVisibility.VISIBILITY_LOCAL: "local ",
}


def proto_text(file: FileDescriptorProto, options: OptionReader, names: ShortNames | None = None) -> str:
    """The text of a file; without `names`, types are written by their full names. Raises InvalidSchema."""
    return _Printer(file, options, names).text()


def default_json_name(name: str) -> str:
    """The default name of a field in JSON."""
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


@dataclass(frozen=True, slots=True)
class _Unit:
    """Fields that are written together: a field, a oneof with its fields, or extensions of one message."""

    fields: tuple[FieldDescriptorProto, ...]
    oneof: OneofDescriptorProto | None = None
    extendee: str | None = None


class _Printer:
    """Writes one file, line by line."""

    __slots__ = ("_depth", "_file", "_lines", "_names", "_options")

    def __init__(self, file: FileDescriptorProto, options: OptionReader, names: ShortNames | None) -> None:
        self._file = file
        self._options = options
        self._names = names
        self._lines: list[str] = []
        self._depth = 0

    def text(self) -> str:
        file = self._file
        self._line(f"{self._syntax()};")
        if file.package:
            self._line(f"package {_dotted(file.package)};")
        self._gap()
        public, weak = set(file.public_dependency), set(file.weak_dependency)
        for index, path in enumerate(file.dependency):
            kind = "public " if index in public else "weak " if index in weak else ""
            self._line(f"import {kind}{quoted(path)};")
        for path in getattr(file, "option_dependency", ()):
            self._line(f"import option {quoted(path)};")
        self._gap()
        self._option_lines(file.options, file.package)
        self._gap()
        self._members(_extension_units(file.extension), file.message_type, file.package)
        for enum in file.enum_type:
            self._enum(enum, file.package)
        for service in file.service:
            self._service(service, file.package)
        while self._lines and not self._lines[-1]:
            self._lines.pop()
        return "\n".join(self._lines) + "\n"

    def _syntax(self) -> str:
        match self._file.syntax:
            case "" | "proto2":
                return 'syntax = "proto2"'
            case "proto3":
                return 'syntax = "proto3"'
            case "editions":
                name = Edition.Name(self._file.edition) if self._file.edition in Edition.values() else ""
                return f'edition = "{name.removeprefix("EDITION_")}"'
        raise InvalidSchema(f"the syntax {self._file.syntax!r} is not known")

    # Lines

    def _line(self, text: str) -> None:
        self._lines.append("  " * self._depth + text)

    def _open(self, text: str) -> None:
        self._line(f"{text} {{")
        self._depth += 1

    def _close(self) -> None:
        if not self._lines[-1]:
            self._lines.pop()
        self._depth -= 1
        self._line("}")

    def _gap(self) -> None:
        """An empty line, unless there is one or a block has just begun."""
        if self._lines[-1] and not self._lines[-1].endswith("{"):
            self._lines.append("")

    # Options

    def _option_lines(self, options: Message, scope: str) -> None:
        for entry in self._options.entries(options, scope):
            self._line(f"option {entry};")

    def _bracketed(self, options: Message, scope: str, before: Sequence[str] = ()) -> str:
        entries = [*before, *self._options.entries(options, scope)]
        return f" [{', '.join(entries)}]" if entries else ""

    # Messages

    def _message(self, message: DescriptorProto, scope: str) -> None:
        self._gap()
        self._open(f"{_visibility(message)}message {identifier(message.name)}")
        self._message_body(message, _inner(scope, message.name))
        self._close()
        self._gap()

    def _message_body(self, message: DescriptorProto, scope: str) -> None:
        self._option_lines(message.options, scope)
        self._gap()
        units = [*_field_units(message), *_extension_units(message.extension)]
        self._members(units, message.nested_type, scope)
        for enum in message.enum_type:
            self._enum(enum, scope)
        self._gap()
        for range_ in message.extension_range:
            bracketed = self._bracketed(range_.options, scope)
            self._line(f"extensions {_range(range_.start, range_.end - 1, _MAX_FIELD)}{bracketed};")
        ranges = [_range(range_.start, range_.end - 1, _MAX_FIELD) for range_ in message.reserved_range]
        self._reserved(ranges, message.reserved_name)

    def _members(self, units: Iterable[_Unit], nested: Sequence[DescriptorProto], scope: str) -> None:
        """Write fields and nested messages so that the messages are parsed in the order of `nested`."""
        places = {message.name: place for place, message in enumerate(nested)}
        owned = [message.options.map_entry for message in nested]
        listed = list(units)
        for unit in listed:
            for field in unit.fields:
                if field.type == _Field.TYPE_GROUP:
                    owned[self._group_place(field, places, scope)] = True
        waiting = iter([place for place in range(len(nested)) if not owned[place]])
        following = next(waiting, len(nested))
        for unit in listed:
            own = [
                place for field in unit.fields if (place := self._own_place(field, places, scope, owned)) >= 0
            ]
            while own and following < min(own):
                self._message(nested[following], scope)
                following = next(waiting, len(nested))
            self._unit(unit, nested, places, scope)
        while following < len(nested):
            self._message(nested[following], scope)
            following = next(waiting, len(nested))

    def _own_place(
        self, field: FieldDescriptorProto, places: dict[str, int], scope: str, owned: Sequence[bool]
    ) -> int:
        """The position of a map field's or group's message among the nested ones; -1 for other fields."""
        if field.type not in (_Field.TYPE_MESSAGE, _Field.TYPE_GROUP):
            return -1
        place = places.get(_within(field.type_name, scope), -1)
        return place if place >= 0 and owned[place] else -1

    def _group_place(self, field: FieldDescriptorProto, places: dict[str, int], scope: str) -> int:
        name = _within(field.type_name, scope)
        if name not in places or field.name != name.lower():
            raise InvalidSchema(f"the group {field.name!r} has no message of its own")
        return places[name]

    def _unit(
        self, unit: _Unit, nested: Sequence[DescriptorProto], places: dict[str, int], scope: str
    ) -> None:
        if unit.oneof is not None:
            self._gap()
            self._open(f"oneof {identifier(unit.oneof.name)}")
            self._option_lines(unit.oneof.options, _inner(scope, unit.oneof.name))
        elif unit.extendee is not None:
            self._gap()
            self._open(f"extend {self._type_name(unit.extendee, scope)}")
        for field in unit.fields:
            self._field(field, unit, nested, places, scope)
        if unit.oneof is not None or unit.extendee is not None:
            self._close()
            self._gap()

    def _field(
        self,
        field: FieldDescriptorProto,
        unit: _Unit,
        nested: Sequence[DescriptorProto],
        places: dict[str, int],
        scope: str,
    ) -> None:
        name = identifier(field.name)
        place = places.get(_within(field.type_name, scope), -1) if field.type_name else -1
        entry = nested[place] if place >= 0 and nested[place].options.map_entry else None
        label = "" if unit.oneof is not None or entry is not None else self._label(field)
        special = [f"default = {default_text(field)}"] if field.HasField("default_value") else []
        if field.json_name and unit.extendee is None and field.json_name != default_json_name(field.name):
            special.append(f"json_name = {quoted(field.json_name)}")
        bracketed = self._bracketed(field.options, _inner(scope, name), special)
        if field.type == _Field.TYPE_GROUP:
            group = nested[self._group_place(field, places, scope)]
            self._open(f"{label}group {identifier(group.name)} = {field.number}{bracketed}")
            self._message_body(group, _inner(scope, group.name))
            self._close()
            return
        kind = self._kind(field, scope) if entry is None else self._map(entry, scope)
        self._line(f"{label}{kind} {name} = {field.number}{bracketed};")

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.label == _Field.LABEL_REPEATED:
            return "repeated "
        if field.label == _Field.LABEL_REQUIRED:
            return "required "
        return "optional " if field.proto3_optional or self._file.syntax in ("", "proto2") else ""

    def _kind(self, field: FieldDescriptorProto, scope: str) -> str:
        scalar = _SCALARS.get(field.type)
        return self._type_name(field.type_name, scope) if scalar is None or field.type_name else scalar

    def _map(self, entry: DescriptorProto, scope: str) -> str:
        fields = {field.number: field for field in entry.field}
        if set(fields) != {1, 2}:
            raise InvalidSchema(f"the entries of a map, {entry.name!r}, have not one key and one value")
        inner = _inner(scope, entry.name)
        return f"map<{self._kind(fields[1], inner)}, {self._kind(fields[2], inner)}>"

    def _type_name(self, name: str, scope: str) -> str:
        written = _dotted(name.removeprefix("."))
        if not name.startswith("."):
            return written
        return f".{written}" if self._names is None else self._names.of_type(written, scope)

    # Enums and services

    def _enum(self, enum: EnumDescriptorProto, scope: str) -> None:
        inner = _inner(scope, enum.name)
        self._gap()
        self._open(f"{_visibility(enum)}enum {identifier(enum.name)}")
        self._option_lines(enum.options, inner)
        self._gap()
        for value in enum.value:
            bracketed = self._bracketed(value.options, _inner(scope, value.name))
            self._line(f"{identifier(value.name)} = {value.number}{bracketed};")
        ranges = [_range(range_.start, range_.end, _MAX_ENUM) for range_ in enum.reserved_range]
        self._reserved(ranges, enum.reserved_name)
        self._close()
        self._gap()

    def _reserved(self, ranges: Sequence[str], names: Iterable[str]) -> None:
        if ranges:
            self._line(f"reserved {', '.join(ranges)};")
        write = identifier if self._file.syntax == "editions" else _reserved_name
        if written := [write(name) for name in names]:
            self._line(f"reserved {', '.join(written)};")

    def _service(self, service: ServiceDescriptorProto, scope: str) -> None:
        inner = _inner(scope, service.name)
        self._gap()
        self._open(f"service {identifier(service.name)}")
        self._option_lines(service.options, inner)
        self._gap()
        for method in service.method:
            self._method(method, inner)
        self._close()
        self._gap()

    def _method(self, method: MethodDescriptorProto, scope: str) -> None:
        taken = ("stream " if method.client_streaming else "") + self._type_name(method.input_type, scope)
        given = ("stream " if method.server_streaming else "") + self._type_name(method.output_type, scope)
        head = f"rpc {identifier(method.name)} ({taken}) returns ({given})"
        entries = list(self._options.entries(method.options, _inner(scope, method.name)))
        if not entries:
            self._line(f"{head};")
            return
        self._open(head)
        for entry in entries:
            self._line(f"option {entry};")
        self._close()


def _field_units(message: DescriptorProto) -> list[_Unit]:
    """The fields in their order, those of a oneof together at the place of the first."""
    members: dict[int, list[FieldDescriptorProto]] = {}
    order: list[FieldDescriptorProto | int] = []
    for field in message.field:
        if not field.HasField("oneof_index") or field.proto3_optional:
            order.append(field)
        elif not 0 <= field.oneof_index < len(message.oneof_decl):
            raise InvalidSchema(f"the field {field.name!r} is in a oneof that there is not")
        elif field.oneof_index in members:
            members[field.oneof_index].append(field)
        else:
            members[field.oneof_index] = [field]
            order.append(field.oneof_index)
    return [
        _Unit(tuple(members[one]), oneof=message.oneof_decl[one]) if isinstance(one, int) else _Unit((one,))
        for one in order
    ]


def _extension_units(extensions: Iterable[FieldDescriptorProto]) -> list[_Unit]:
    """Extensions in their order; consecutive ones of the same message are put together."""
    return [
        _Unit(tuple(fields), extendee=extendee)
        for extendee, fields in groupby(extensions, key=lambda field: field.extendee)
    ]


def _visibility(element: DescriptorProto | EnumDescriptorProto) -> str:
    return _VISIBILITIES.get(getattr(element, "visibility", SymbolVisibility.VISIBILITY_UNSET), "")


def _inner(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _within(type_name: str, scope: str) -> str:
    """The name of a type within a scope, empty if it is not directly in it."""
    outer, _, name = type_name.removeprefix(".").rpartition(".")
    return name if outer == scope else ""


def _reserved_name(name: str | bytes) -> str:
    """A reserved name: any text. Bytes that are not UTF-8 could not be sorted. Raises InvalidSchema."""
    if isinstance(name, bytes):
        raise InvalidSchema(f"the reserved name {name!r} is no UTF-8")
    return quoted(name)


def _range(first: int, last: int, maximum: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to max" if last >= maximum else f"{first} to {last}"


def _dotted(name: str | bytes) -> str:
    """A name of several parts, checked. Raises InvalidSchema."""
    return (
        ".".join(identifier(part) for part in name.split(".")) if isinstance(name, str) else identifier(name)
    )
