"""Finds out whether data of one Protobuf schema can be read with another, difference by difference.

On the wire a field is its number and one of a few encodings, and a message has no name. The rules follow from
that (protobuf's "Updating A Message Type") and from the decisions of Confluent's registry:

* Messages are matched by their full names, wherever they are declared; a missing one is MESSAGE_REMOVED, as a
  payload may be of any message of its file. Another package renames them all: PACKAGE_CHANGED.
* Fields are matched by their numbers; names do not matter. A field may be added or removed unless it is
  required: REQUIRED_FIELD_ADDED, REQUIRED_FIELD_REMOVED.
* Scalars may change within a group of one encoding: int32, uint32, int64, uint64, bool and enums; sint32 and
  sint64; string and bytes; fixed32 and sfixed32; fixed64 and sfixed64: else FIELD_SCALAR_KIND_CHANGED. A
  change from scalar to message, map or group is FIELD_KIND_CHANGED; to another message
  FIELD_NAMED_TYPE_CHANGED.
* A label is the word in the text: `optional`, `required`, `repeated`. Fields in a oneof have none, and the
  singular ones of proto3 and of editions need none. A numeric field (enums count as numbers) may not change
  from one label to another: FIELD_NUMERIC_LABEL_CHANGED. It may gain or lose a label, and strings, bytes and
  messages may change theirs; but a field without a label may not become required: REQUIRED_FIELD_ADDED.
* If data may have two fields that are now in one oneof, only the last one is kept. This is
  MULTIPLE_FIELDS_MOVED_TO_ONEOF if two of them were in no oneof, else FIELD_MOVED_TO_EXISTING_ONEOF. A field
  may leave a oneof for the message. A field that is removed is ONEOF_FIELD_REMOVED, as a reader could not
  tell it from an unset oneof, unless its oneof is removed with all its fields.

The rules for labels are the registry's, not the wire's. They refuse changes that readers would not notice
(from `required` to `optional` for numbers). And they let two changes pass after which a reader may miss data:
a repeated number that loses its label, as readers of one number skip packed ones; and a string or a message
that becomes required, as readers refuse data without it. docs/services.md tells users so.

Enums, their constants and services never matter. Extensions count as fields of the message they extend.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from ottla.schemas.effort import Effort
from ottla.schemas.format import Incompatibility

_Kind = FieldDescriptor
_GENERAL: Final = "a varint"
_GROUPS: Final = {
    _Kind.TYPE_INT32: _GENERAL,
    _Kind.TYPE_UINT32: _GENERAL,
    _Kind.TYPE_INT64: _GENERAL,
    _Kind.TYPE_UINT64: _GENERAL,
    _Kind.TYPE_BOOL: _GENERAL,
    _Kind.TYPE_ENUM: _GENERAL,
    _Kind.TYPE_SINT32: "a zig-zag varint",
    _Kind.TYPE_SINT64: "a zig-zag varint",
    _Kind.TYPE_STRING: "a string or bytes",
    _Kind.TYPE_BYTES: "a string or bytes",
    _Kind.TYPE_FIXED32: "32 bits",
    _Kind.TYPE_SFIXED32: "32 bits",
    _Kind.TYPE_FIXED64: "64 bits",
    _Kind.TYPE_SFIXED64: "64 bits",
    _Kind.TYPE_FLOAT: "a float",
    _Kind.TYPE_DOUBLE: "a double",
}
_NAMES: Final = {
    value: name.removeprefix("TYPE_").lower()
    for name, value in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}
_NOT_NUMERIC: Final = frozenset({_Kind.TYPE_STRING, _Kind.TYPE_BYTES, _Kind.TYPE_MESSAGE, _Kind.TYPE_GROUP})
_MAX_REASONS: Final = 100
_FIELD_STEPS: Final = 3
"""The steps for comparing a field."""


def incompatibilities(
    written: FileDescriptor, read: FileDescriptor, effort: Effort | None = None
) -> list[Incompatibility]:
    """Why data of messages of `written` can't be read with those of `read`: the first hundred reasons.

    The limits of sources (source_limits.py) keep a comparison within a whole effort.
    """
    return _Comparison(written, read, effort or Effort()).reasons()


def is_map(field: FieldDescriptor) -> bool:
    """Whether the field is a map, i.e. repeated messages of a type that protoc has made for it."""
    return field.type == _Kind.TYPE_MESSAGE and _message_of(field).GetOptions().map_entry


def _message_of(field: FieldDescriptor) -> Descriptor:
    message = field.message_type
    assert message is not None
    return message


def _enum_name(field: FieldDescriptor) -> str:
    enum = field.enum_type
    assert enum is not None
    return enum.full_name


class _Label(enum.Enum):
    """The word before a field's type."""

    OPTIONAL = enum.auto()
    REQUIRED = enum.auto()
    REPEATED = enum.auto()


class _Comparison:
    """One comparison of two files and of all messages that their fields reach; each pair only once."""

    __slots__ = ("_effort", "_proto2", "_read", "_reasons", "_seen", "_waiting", "_written")

    def __init__(self, written: FileDescriptor, read: FileDescriptor, effort: Effort) -> None:
        self._effort = effort
        self._proto2: dict[FileDescriptor, bool] = {}
        """For each file whose labels were asked for: whether it is of the syntax proto2."""
        self._written = written
        self._read = read
        self._reasons: list[Incompatibility] = []
        self._seen: set[tuple[str, str]] = set()
        self._waiting: list[tuple[Descriptor, Descriptor]] = []

    def reasons(self) -> list[Incompatibility]:
        if self._written.package != self._read.package:
            self._add(
                "PACKAGE_CHANGED",
                f"the package {self._written.package!r} is {self._read.package!r} in the other schema",
                "#/",
            )
        self._match_messages(self._written.message_types_by_name.values())
        while self._waiting and len(self._reasons) < _MAX_REASONS:
            self._compare(*self._waiting.pop())
        return self._reasons[:_MAX_REASONS]

    def _add(self, difference: str, sentence: str, place: str) -> None:
        self._reasons.append(Incompatibility(difference, f"{sentence}, at '{place}'", place))

    # Messages

    def _match_messages(self, messages: Iterable[Descriptor]) -> None:
        """Match each message of the written file; the pairs are queued for comparison, in their order."""
        found: list[tuple[Descriptor, Descriptor]] = []
        declared = deque(messages)
        while declared:
            self._effort.spend()
            message = declared.popleft()
            if message.GetOptions().map_entry:
                continue
            other = self._counterpart(message)
            if other is None:
                self._add(
                    "MESSAGE_REMOVED",
                    f"the message {message.full_name!r} is not in the other schema",
                    f"#/{self._own_name(message)}",
                )
            else:
                found.append((message, other))
            declared.extend(message.nested_types)
        for message, other in reversed(found):
            self._enqueue(message, other)

    def _counterpart(self, message: Descriptor) -> Descriptor | None:
        name = self._own_name(message)
        if message.file.name == self._written.name and self._read.package:
            name = f"{self._read.package}.{name}"
        try:
            return self._read.pool.FindMessageTypeByName(name)
        except KeyError:
            return None

    def _own_name(self, message: Descriptor) -> str:
        """The name without the package if it is of the schema's own file: a changed package counts once."""
        return _name_within(message, self._written)

    def _same_name(self, old: Descriptor, new: Descriptor) -> bool:
        if self._written.package == self._read.package:
            return old.full_name == new.full_name
        return _name_within(old, self._written) == _name_within(new, self._read)

    def _enqueue(self, message: Descriptor, other: Descriptor) -> None:
        pair = (message.full_name, other.full_name)
        if pair not in self._seen:
            self._seen.add(pair)
            self._waiting.append((message, other))

    def _compare(self, message: Descriptor, other: Descriptor) -> None:
        old = {field.number: field for field in _fields_of(message)}
        new = {field.number: field for field in _fields_of(other)}
        name = self._own_name(message)
        self._effort.spend(_FIELD_STEPS * (1 + len(old) + len(new)))
        kept_oneofs = _kept_oneofs(old, new, other)
        for number, field in sorted(old.items()):
            place = f"#/{name}/{number}"
            if number in new:
                self._compare_fields(field, new[number], place)
            elif field.is_required:
                self._add("REQUIRED_FIELD_REMOVED", f"the required field {_told(field)} is removed", place)
            elif (oneof := _oneof_of(field)) is not None and oneof.name in kept_oneofs:
                self._add(
                    "ONEOF_FIELD_REMOVED",
                    f"the field {_told(field)} of the oneof {oneof.name!r} is removed",
                    f"#/{name}/{oneof.name}/{number}",
                )
        for number, field in sorted(new.items()):
            if number not in old and field.is_required:
                self._add(
                    "REQUIRED_FIELD_ADDED",
                    f"the required field {_told(field)} is added, which data may lack",
                    f"#/{name}/{number}",
                )
        for oneof in other.oneofs:
            if not _is_synthetic(oneof):
                self._compare_oneof(oneof, old, name)

    # Fields

    def _compare_fields(self, old: FieldDescriptor, new: FieldDescriptor, place: str) -> None:
        before, after = self._label(old), self._label(new)
        if before is None and after is _Label.REQUIRED:
            self._add(
                "REQUIRED_FIELD_ADDED",
                f"the field {_told(new)} becomes required, data may lack it",
                place,
            )
        if not self._compare_types(old, new, place) or new.type in _NOT_NUMERIC:
            return
        if before is not None and after is not None and before is not after:
            self._add(
                "FIELD_NUMERIC_LABEL_CHANGED",
                f"the numeric field {_told(new)} was {before.name.lower()} and is {after.name.lower()}",
                place,
            )

    def _label(self, field: FieldDescriptor) -> _Label | None:
        if field.is_repeated:
            return _Label.REPEATED
        if field.is_required:
            return _Label.REQUIRED
        oneof = field.containing_oneof
        if oneof is not None:
            return _Label.OPTIONAL if _is_synthetic(oneof) else None
        return _Label.OPTIONAL if self._is_proto2(field) else None

    def _is_proto2(self, field: FieldDescriptor) -> bool:
        file: FileDescriptor = field.file  # type: ignore[attr-defined] # every field has one, the stubs do not know
        known = self._proto2.get(file)
        if known is None:
            syntax = FileDescriptorProto.FromString(file.serialized_pb).syntax
            known = self._proto2[file] = syntax in ("", "proto2")
        return known

    def _compare_types(self, old: FieldDescriptor, new: FieldDescriptor, place: str) -> bool:
        """Compare the types of two fields; returns whether their labels can be compared as well."""
        if is_map(old) and is_map(new):
            for key in ("key", "value"):
                old_entry = _message_of(old).fields_by_name[key]
                new_entry = _message_of(new).fields_by_name[key]
                self._compare_types(old_entry, new_entry, f"{place}/{key}")
            return False
        old_scalar, new_scalar = _GROUPS.get(old.type), _GROUPS.get(new.type)
        if old_scalar is not None and new_scalar is not None:
            if old_scalar == new_scalar:
                return True
            self._add(
                "FIELD_SCALAR_KIND_CHANGED",
                f"the field {_told(new)} was of the type {_type_name(old)}, on the wire {old_scalar}, "
                f"and is of the type {_type_name(new)}, {new_scalar}",
                place,
            )
            return False
        if old.type != new.type or is_map(old) != is_map(new):
            self._add(
                "FIELD_KIND_CHANGED",
                f"the field {_told(new)} was {_kind_name(old)} and is {_kind_name(new)}",
                place,
            )
            return False
        if not self._same_name(_message_of(old), _message_of(new)):
            self._add(
                "FIELD_NAMED_TYPE_CHANGED",
                f"the field {_told(new)} was of the message {_message_of(old).full_name!r} "
                f"and is of {_message_of(new).full_name!r}",
                place,
            )
            return False
        self._enqueue(_message_of(old), _message_of(new))
        return True

    # Oneofs

    def _compare_oneof(self, oneof: OneofDescriptor, old: dict[int, FieldDescriptor], name: str) -> None:
        """Look for fields in a oneof of which data may have several at once."""
        known = [old[field.number] for field in oneof.fields if field.number in old]
        origins = {_origin(field) for field in known}
        if len(origins) < 2:
            return
        names = ", ".join(_told(field) for field in known)
        alone = sum(_oneof_of(field) is None for field in known)
        self._add(
            "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if alone > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF",
            f"data may have several of the fields {names} together, and the oneof {oneof.name!r} keeps one",
            f"#/{name}/{oneof.name}",
        )


def _fields_of(message: Descriptor) -> Sequence[FieldDescriptor]:
    """A message's fields, and its extensions in the schema's pool."""
    if not message.is_extendable:
        return list(message.fields)
    return [*message.fields, *message.file.pool.FindAllExtensions(message)]


def _oneof_of(field: FieldDescriptor) -> OneofDescriptor | None:
    oneof = field.containing_oneof
    return None if oneof is None or _is_synthetic(oneof) else oneof


def _is_synthetic(oneof: OneofDescriptor) -> bool:
    """Whether protoc made the oneof, to mark a proto3 field as optional.

    A oneof in the text with such a name and a single field counts as one too, as it excludes nothing.
    """
    fields = list(oneof.fields)
    return len(fields) == 1 and oneof.name.lstrip("X") == f"_{fields[0].name}"


def _kept_oneofs(
    old: dict[int, FieldDescriptor], new: dict[int, FieldDescriptor], other: Descriptor
) -> frozenset[str]:
    """The names of the oneofs that are in the other message by name, or of which a field is still there."""
    by_name = {oneof.name for oneof in other.oneofs if not _is_synthetic(oneof)}
    kept = set()
    for number, field in old.items():
        oneof = _oneof_of(field)
        if oneof is not None and (oneof.name in by_name or number in new):
            kept.add(oneof.name)
    return frozenset(kept)


def _origin(field: FieldDescriptor) -> str:
    """A key that is the same for fields that exclude each other: their oneof's, or else the field's own."""
    oneof = _oneof_of(field)
    return f"field {field.number}" if oneof is None else f"oneof {oneof.name}"


def _name_within(message: Descriptor, file: FileDescriptor) -> str:
    if message.file.name == file.name and file.package:
        return message.full_name.removeprefix(f"{file.package}.")
    return message.full_name


def _told(field: FieldDescriptor) -> str:
    return f"{field.number} ({field.name!r})"


def _type_name(field: FieldDescriptor) -> str:
    return _enum_name(field) if field.enum_type is not None else _NAMES[field.type]


def _kind_name(field: FieldDescriptor) -> str:
    if is_map(field):
        return "a map"
    match field.type:
        case FieldDescriptor.TYPE_MESSAGE:
            return f"the message {_message_of(field).full_name!r}"
        case FieldDescriptor.TYPE_GROUP:
            return f"a group of {_message_of(field).full_name!r}"
        case FieldDescriptor.TYPE_ENUM:
            return f"the enum {_enum_name(field)!r}"
        case _:
            return f"a {_NAMES[field.type]}"
