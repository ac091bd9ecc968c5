"""Tags within a Protobuf schema: the options `confluent.message_meta` and `confluent.field_meta`.

They are changed in the descriptor, whose options stay bytes: those of other extensions must not be lost, and
nothing here knows their types.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

from ottla.registry.core.failures import invalid_schema
from ottla.registry.core.tags import FIELD, RECORD, Entity, Place

META_FILE: Final = "confluent/meta.proto"
_META: Final = 1088
"""The number of the options message_meta and field_meta."""
_TAGS: Final = 3
"""The number of the tags in confluent.Meta."""
_LENGTH_DELIMITED: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}
"""The size of a field by its wire type, where that says it."""


class _Part(NamedTuple):
    """One field of a serialized message: its number, all of its bytes, and its content if it has a length."""

    number: int
    whole: bytes
    content: bytes


class TaggedFile:
    """A file's descriptor whose tags may be changed."""

    def __init__(self, serialized: str) -> None:
        """serialized: the FileDescriptorProto in base64."""
        self._file = FileDescriptorProto.FromString(base64.b64decode(serialized))

    def places(self) -> Iterator[tuple[Entity, Place]]:
        """All messages and fields, by their paths without the package."""
        for message in self._file.message_type:
            yield from self._of_message(message, "")

    def text(self) -> str:
        """The descriptor in base64, a form in which a schema may be registered."""
        return base64.b64encode(self._file.SerializeToString()).decode()

    def _of_message(self, message: DescriptorProto, scope: str) -> Iterator[tuple[Entity, Place]]:
        if message.options.map_entry:
            return
        name = scope + message.name
        yield Entity(name, RECORD), self._place(message.options)
        for field in message.field:
            yield Entity(f"{name}.{field.name}", FIELD), self._place(field.options)
        for nested in message.nested_type:
            yield from self._of_message(nested, f"{name}.")

    def _place(self, options: Message) -> Place:
        def put(tags: Sequence[str]) -> None:
            if list(tags) == list(place.tags):
                return
            kept = b"".join(
                part.whole for part in _parts(options.SerializeToString()) if part.number != _META
            )
            meta = b"".join(part.whole for part in _parts(_meta(options)) if part.number != _TAGS)
            meta += b"".join(_delimited(_TAGS, tag.encode()) for tag in tags)
            options.ParseFromString(kept + (_delimited(_META, meta) if meta else b""))
            if META_FILE not in self._file.dependency:
                self._file.dependency.append(META_FILE)

        tags = [part.content.decode() for part in _parts(_meta(options)) if part.number == _TAGS]
        place = Place(tags, put)
        return place


def _meta(options: Message) -> bytes:
    """The content of the option; of several, they are one message as Protobuf merges them."""
    return b"".join(part.content for part in _parts(options.SerializeToString()) if part.number == _META)


def _parts(data: bytes) -> list[_Part]:
    """The fields of a serialized message, which protoc has written and which is therefore valid."""
    found: list[_Part] = []
    position = 0
    while position < len(data):
        start = position
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        content = b""
        if wire_type == _LENGTH_DELIMITED:
            length, position = _varint(data, position)
            content = data[position : position + length]
            position += length
        elif wire_type == 0:
            _, position = _varint(data, position)
        elif wire_type in _FIXED_BYTES:
            position += _FIXED_BYTES[wire_type]
        else:
            raise invalid_schema("tags can't be changed beside options that are groups")
        found.append(_Part(number, data[start:position], content))
    return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def _delimited(number: int, content: bytes) -> bytes:
    return _encoded(number << 3 | _LENGTH_DELIMITED) + _encoded(len(content)) + content


def _encoded(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
