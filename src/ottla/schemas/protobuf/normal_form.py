"""Normal forms of descriptors: in one order for all of the same meaning, and without extensions.

Parts whose order has no meaning are sorted: imports, fields and reserved numbers, constants except the first
(it is the default), enums, services and their methods. Messages keep their places, by which serializers refer
to them. Options are printed in the order of their numbers anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.message import Message

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    _MutableMessages = RepeatedCompositeFieldContainer[DescriptorProto]
    _Extended = FileDescriptorProto | DescriptorProto

_MessageT = TypeVar("_MessageT", bound=Message)


def in_normal_order(file: FileDescriptorProto) -> FileDescriptorProto:
    """A copy of the file in the order described above."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    public = {file.dependency[index] for index in file.public_dependency}
    weak = {file.dependency[index] for index in file.weak_dependency}
    paths = sorted(file.dependency)
    copy.dependency[:] = paths
    copy.public_dependency[:] = [index for index, path in enumerate(paths) if path in public]
    copy.weak_dependency[:] = [index for index, path in enumerate(paths) if path in weak]
    if hasattr(copy, "option_dependency"):
        copy.option_dependency.sort()
    copy.extension.sort(key=_extension_order)
    _settle_nested(copy.message_type, copy.extension, copy.package)
    for message in copy.message_type:
        _order_message(message, _inner(copy.package, message.name))
    for enum in copy.enum_type:
        _order_enum(enum)
    copy.enum_type.sort(key=lambda enum: enum.name)
    for service in copy.service:
        service.method.sort(key=lambda method: method.name)
    copy.service.sort(key=lambda service: service.name)
    return copy


def without_extensions(file: FileDescriptorProto) -> FileDescriptorProto:
    """A copy of the file that extends no message."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    _drop_extensions(copy, copy.message_type, copy.package)
    for message in copy.message_type:
        _drop_nested_extensions(message, _inner(copy.package, message.name))
    return copy


def _order_message(message: DescriptorProto, scope: str) -> None:
    message.field.sort(key=lambda field: field.number)
    message.extension.sort(key=_extension_order)
    _settle_nested(message.nested_type, [*message.field, *message.extension], scope)
    for nested in message.nested_type:
        _order_message(nested, _inner(scope, nested.name))
    for enum in message.enum_type:
        _order_enum(enum)
    message.enum_type.sort(key=lambda enum: enum.name)
    message.extension_range.sort(key=lambda range_: range_.start)
    message.reserved_range.sort(key=lambda range_: range_.start)
    message.reserved_name.sort()


def _order_enum(enum: EnumDescriptorProto) -> None:
    first = enum.value[0].name if enum.value else ""
    enum.value.sort(key=lambda value: (value.name != first, value.number))
    enum.reserved_range.sort(key=lambda range_: range_.start)
    enum.reserved_name.sort()


def _extension_order(field: FieldDescriptorProto) -> tuple[str, int]:
    return field.extendee, field.number


def _settle_nested(nested: _MutableMessages, fields: Iterable[FieldDescriptorProto], scope: str) -> None:
    """Put the messages of maps and groups into the order of their fields; others keep their places."""
    own = _own_names(fields, nested, scope)
    if len(own) < 2:
        return
    by_name = {message.name: _copied(message) for message in nested}
    following = iter(own)
    moving = set(own)
    settled = [by_name[next(following) if message.name in moving else message.name] for message in nested]
    del nested[:]
    nested.extend(settled)


def _own_names(
    fields: Iterable[FieldDescriptorProto], nested: Sequence[DescriptorProto], scope: str
) -> list[str]:
    """The names of those nested messages that belong to a map field or a group, in the fields' order."""
    entries = {message.name for message in nested if message.options.map_entry}
    names: list[str] = []
    for field in fields:
        outer, _, name = field.type_name.removeprefix(".").rpartition(".")
        if outer == scope and (name in entries or field.type == FieldDescriptorProto.TYPE_GROUP):
            names.append(name)
    return names


def _drop_extensions(holder: _Extended, nested: _MutableMessages, scope: str) -> None:
    groups = {
        field.type_name.removeprefix(f".{scope}." if scope else ".")
        for field in holder.extension
        if field.type == FieldDescriptorProto.TYPE_GROUP
    }
    del holder.extension[:]
    if groups:
        kept = [_copied(message) for message in nested if message.name not in groups]
        del nested[:]
        nested.extend(kept)


def _drop_nested_extensions(message: DescriptorProto, scope: str) -> None:
    _drop_extensions(message, message.nested_type, scope)
    for nested in message.nested_type:
        _drop_nested_extensions(nested, _inner(scope, nested.name))


def _copied(message: _MessageT) -> _MessageT:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _inner(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name
