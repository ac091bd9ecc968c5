"""Carries custom options through protoc if the files that declare them are not given.

Confluent's registry takes schemas whose imports only declare options (google/api, validate, gogoproto)
without references, so missing files must not matter. protoc gets an empty file for each; and each option that
no given file declares becomes an option of ours, with the name and the value inside, which the descriptor has
as an uninterpreted option in the end. A type that only a missing file declares is still an error.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from ottla.schemas.format import InvalidSchema
from ottla.schemas.protobuf.compiler import can_be_imported
from ottla.schemas.protobuf.known_types import comes_with_protoc, shared_files
from ottla.schemas.protobuf.option_syntax import CustomOption, outline_of
from ottla.schemas.protobuf.pools import pool_of
from ottla.schemas.protobuf.text_values import quoted

_MENTIONED: Final = re.compile(r"""\bimport\b[^;"']{0,200}["']([^"']*)["']""")
"""A possible import; it may also be in a comment. Bounded, as a text may repeat the word many times."""
_EMPTY: Final = 'syntax = "proto3";\n'
_FIRST_NUMBER: Final = 536_870_000
_TEXT_FIELD: Final = 536_870_001
_HOLDERS: Final = (
    "FileOptions",
    "MessageOptions",
    "FieldOptions",
    "OneofOptions",
    "ExtensionRangeOptions",
    "EnumOptions",
    "EnumValueOptions",
    "ServiceOptions",
    "MethodOptions",
)
"""The messages of descriptor.proto that can have custom options."""

Compile = Callable[[Mapping[str, str]], list[bytes]]
"""Texts by import paths in, serialized descriptors out. Raises InvalidSchema."""


def missing_imports(texts: Mapping[str, str]) -> frozenset[str]:
    """The files that texts (by their import paths) import, but that are neither among them nor known.

    Paths that protoc would not look for are left to its errors. Raises InvalidSchema.
    """
    mentioned = {path for text in texts.values() for path in _MENTIONED.findall(text)}
    if not any(is_missing(path, texts) for path in mentioned):
        return frozenset()
    imported = {path for text in texts.values() for path in outline_of(text).imports}
    return frozenset(path for path in imported if is_missing(path, texts))


def is_missing(path: str, given: Collection[str]) -> bool:
    """Whether protoc would look for the file and not find it."""
    known = path in given or comes_with_protoc(path) or path in shared_files()
    return not known and can_be_imported(path)


class Carrier:
    """The texts of one schema of which some imports are missing."""

    def __init__(self, texts: Mapping[str, str], missing: frozenset[str]) -> None:
        self._texts = texts
        self._outlines = {path: outline_of(text) for path, text in texts.items()}
        self._missing = missing
        # A name that is not in the texts, as they would have to contain their own digest.
        digest = hashlib.sha256("".join(map(repr, sorted(texts.items()))).encode()).hexdigest()
        self._package = f"carried_{digest[:32]}"
        self._path = f"{self._package}.proto"

    def compile(self, compile_texts: Compile) -> list[bytes]:
        """The descriptors of the texts and of their imports, as `compile_texts` gives them.

        Options that no given file declares are uninterpreted options. Raises InvalidSchema.
        """
        try:
            declared = _Declared(compile_texts(self._with_carried(lambda _: True)))
            files = compile_texts(self._with_carried(lambda option: not declared.has(option)))
        except InvalidSchema as problem:
            raise InvalidSchema(f"{problem}; {_told(self._missing)}") from None
        return self._restored(files)

    def _with_carried(self, is_carried: Callable[[CustomOption], bool]) -> dict[str, str]:
        """The texts with options of ours in place of some, and with the files that are missing."""
        files = dict.fromkeys(self._missing, _EMPTY)
        for path, text in self._texts.items():
            options = [option for option in self._outlines[path].options if is_carried(option)]
            files[path] = self._replaced(text, options) if options else text
        files[self._path] = self._declaration()
        return files

    def _replaced(self, text: str, options: Sequence[CustomOption]) -> str:
        parts: list[str] = []
        at = 0
        for option in options:
            payload = "".join(f"\\{byte:03o}" for byte in option.value.SerializeToString())
            ours = f'(.{self._package}.{option.holder}) = "{payload}"'
            lines = "\n" * text.count("\n", option.start, option.end)  # errors keep their lines
            parts += [text[at : option.start], f"option {ours};" if option.is_statement else ours, lines]
            at = option.end
        return "".join([*parts, text[at:], f"\nimport {quoted(self._path)};\n"])

    def _declaration(self) -> str:
        extensions = "".join(
            f"extend google.protobuf.{holder} {{ repeated bytes {holder} = {_FIRST_NUMBER}; }}\n"
            for holder in _HOLDERS
        )
        return (
            f'syntax = "proto2"; package {self._package}; import "google/protobuf/descriptor.proto";\n'
            + extensions
        )

    def _restored(self, files: Sequence[bytes]) -> list[bytes]:
        pool, _ = pool_of(files)
        try:
            kind = message_factory.GetMessageClass(
                pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto")
            )
            ours = {holder: pool.FindExtensionByName(f"{self._package}.{holder}") for holder in _HOLDERS}
        except KeyError:
            return list(files)  # no option was carried
        restored: list[bytes] = []
        for serialized in files:
            file: Any = kind.FromString(serialized)
            if self._path in file.dependency:
                file.dependency.remove(self._path)  # the last one, so that no other's index changes
                for options in _options_in(file):
                    extension = ours[options.DESCRIPTOR.name]
                    for payload in options.Extensions[extension]:
                        options.uninterpreted_option.add().ParseFromString(payload)
                    options.ClearExtension(extension)
            if file.name != self._path:
                restored.append(file.SerializeToString())
        return restored


class _Declared:
    """The extensions that the given files declare."""

    def __init__(self, files: Sequence[bytes]) -> None:
        self._pool, _ = pool_of(files)

    def has(self, option: CustomOption) -> bool:
        """Whether all extensions in the option's name are declared."""
        return all(self._finds(name, option.scope) for name in option.extensions)

    def _finds(self, name: str, scope: str) -> bool:
        if name.startswith("."):
            return self._is_extension(name[1:])
        while scope:
            if self._is_extension(f"{scope}.{name}"):
                return True
            scope = scope.rpartition(".")[0]
        return self._is_extension(name)

    def _is_extension(self, name: str) -> bool:
        try:
            self._pool.FindExtensionByName(name)
        except KeyError:
            return False
        return True


def without_missing(file: FileDescriptorProto, missing: Collection[str]) -> FileDescriptorProto:
    """A copy of the file that a pool can take in: without missing imports and the options that need them."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    kept = [path for path in file.dependency if path not in missing]
    for listed in (copy.public_dependency, copy.weak_dependency):
        paths = [file.dependency[index] for index in listed]
        listed[:] = [kept.index(path) for path in paths if path in kept]
    copy.dependency[:] = kept
    for options in _options_in(copy):
        options.ClearField("uninterpreted_option")
    return copy


def with_text(file: FileDescriptorProto, text: str) -> bytes:
    """The serialized file with a text in a field that readers of descriptors do not know, and so skip."""
    data = text.encode()
    return file.SerializeToString() + _varint(_TEXT_FIELD << 3 | 2) + _varint(len(data)) + data


def text_with(file: FileDescriptorProto) -> str | None:
    """The text that `with_text` has put in, or None."""
    unknown: Any = UnknownFieldSet(file)
    found = [field.data for field in unknown if field.field_number == _TEXT_FIELD]
    try:
        return found[0].decode() if len(found) == 1 else None
    except (AttributeError, UnicodeDecodeError):  # a field of another type, or no text
        return None


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def _options_in(message: Message) -> list[Any]:
    """All options of a file and of its elements that have any."""
    found: list[Any] = []
    waiting = [message]
    while waiting:
        for field, value in waiting.pop().ListFields():
            if field.message_type is None or field.is_extension:
                continue
            if field.name == "options" and field.message_type.name in _HOLDERS:
                found.append(value)
            elif field.is_repeated:
                waiting.extend(value)
            else:
                waiting.append(value)
    return found


def _told(missing: Iterable[str]) -> str:
    return f"no reference gives the imports {', '.join(map(quoted, sorted(missing)))}"
