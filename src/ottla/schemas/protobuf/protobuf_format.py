"""Protobuf schemas: .proto texts, or descriptors in base64 as Python's serializer registers them.

Either form is turned into a descriptor by protoc, and that into the canonical text: the same schema has the
same text whether it came as a text, in any layout, or as a descriptor. Each parsed schema has a pool of
descriptors of its own, which is freed with it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message

from ottla.schemas.effort import Effort
from ottla.schemas.format import Incompatibility, InvalidSchema, ParsedSchema
from ottla.schemas.model import CompatibilityPolicy, SchemaType
from ottla.schemas.protobuf import compatibility
from ottla.schemas.protobuf.carried_options import (
    Carrier,
    missing_imports,
    text_with,
    with_text,
    without_missing,
)
from ottla.schemas.protobuf.compiler import can_be_imported, compile_files
from ottla.schemas.protobuf.known_types import comes_with_protoc
from ottla.schemas.protobuf.names import ShortNames
from ottla.schemas.protobuf.normal_form import in_normal_order, without_extensions
from ottla.schemas.protobuf.pools import pool_of
from ottla.schemas.protobuf.printer import proto_text
from ottla.schemas.protobuf.source_limits import SourceBudget
from ottla.schemas.protobuf.text_values import OptionReader, quoted

MAX_DESCRIPTOR_CHARACTERS: Final = 512 << 10
"""The most characters of a descriptor in base64: it is printed before the cost of its text is known."""
_MAIN: Final = "default"
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\r\n]+={0,2}\s*")


class ProtobufFormat:
    """The format, for `formats.py`."""

    __slots__ = ()

    @property
    def schema_type(self) -> SchemaType:
        return SchemaType.PROTOBUF

    def parse(self, text: str, references: Mapping[str, str], *, new: bool = False) -> ProtobufSchema:
        """Parse a text or a descriptor in base64. Raises InvalidSchema.

        References are files that imports name; protoc's own files (google/protobuf/…) are never taken from a
        reference. `new` makes no difference: a text that protoc has compiled once compiles always.
        """
        if not text.strip():
            raise InvalidSchema("the schema is empty")
        whole = _text_within(text)
        if whole is not None:
            with suppress(InvalidSchema):
                schema = self.parse(whole, references)
                if schema.formatted("serialized") == text.strip():
                    return schema
        sources = _Sources()
        for name, reference in references.items():
            if can_be_imported(name) and not comes_with_protoc(name):
                sources.add(name, reference)
        main = sources.unused_path(_MAIN)
        sources.add(main, text)
        return ProtobufSchema(main, sources.compile(main), sources.missing())


class ProtobufSchema:
    """A Protobuf file with all its imports. Immutable."""

    __slots__ = ("_canonical_text", "_file", "_missing", "_names", "_pool", "_proto")

    def __init__(self, path: str, files: Sequence[bytes], missing: frozenset[str] = frozenset()) -> None:
        """`files` are serialized descriptors, each after its imports; the last is that of `path`.

        `missing` are imports of which nothing is known: they only declare options, which the descriptors
        have as uninterpreted ones. Raises InvalidSchema.
        """
        pool, packages = pool_of(files)
        self._missing = missing
        self._pool = pool
        self._file: FileDescriptor = pool.FindFileByName(path)
        try:
            self._proto = FileDescriptorProto.FromString(files[-1])
        except DecodeError:
            raise InvalidSchema("the schema is nested too deep") from None
        self._names = ShortNames(pool, self._file.package, packages)
        options = OptionReader(pool, self._names, left_out=None, with_uninterpreted=True)
        self._canonical_text = proto_text(self._proto, options, self._names)

    @property
    def schema_type(self) -> SchemaType:
        return SchemaType.PROTOBUF

    @property
    def canonical_text(self) -> str:
        """The .proto text without comments, in the registry's layout."""
        return self._canonical_text

    @property
    def name(self) -> str | None:
        """The full name of the file's first message."""
        messages = self._file.message_types_by_name
        return next(iter(messages.values())).full_name if messages else None

    @property
    def file_descriptor(self) -> FileDescriptor:
        """The file, in a pool of its own."""
        return self._file

    def normalized(self) -> str:
        """The text of the file in normal order, with types by their full names."""
        options = OptionReader(self._pool, None, left_out=None, with_uninterpreted=True)
        return proto_text(in_normal_order(self._proto), options)

    def formatted(self, format_name: str) -> str:
        """`serialized`: a FileDescriptorProto in base64; `ignore_extensions`: the text without extensions.

        Neither has the options that missing imports would declare, and the descriptor none of these imports:
        clients could not use it. It brings its text along, so that clients can look up what they were given.
        """
        match format_name:
            case "serialized" if self._missing:
                usable = without_missing(self._proto, self._missing)
                return base64.b64encode(with_text(usable, self._canonical_text)).decode()
            case "serialized":
                return base64.b64encode(self._proto.SerializeToString()).decode()
            case "ignore_extensions":
                options = OptionReader(self._pool, self._names, left_out=self._file.name)
                return proto_text(without_extensions(self._proto), options, self._names)
            case _:
                return self._canonical_text

    def incompatibilities(
        self,
        written: ParsedSchema,
        policy: CompatibilityPolicy = CompatibilityPolicy.STRICT,
        effort: Effort | None = None,
    ) -> Sequence[Incompatibility]:
        """Why data that was written with `written` can't be read with this schema; the policy is ignored."""
        if not isinstance(written, ProtobufSchema):
            raise TypeError(f"a Protobuf schema can't be compared with one of {written.schema_type}")
        return compatibility.incompatibilities(written.file_descriptor, self._file, effort)

    def message_class(self, path: Sequence[int]) -> type[Message]:
        """The class of the message at an index path: (0,) is the first, (1, 0) the first within the second.

        Raises LookupError if there is no such message.
        """
        messages = list(self._file.message_types_by_name.values())
        found: Descriptor | None = None
        for index in path:
            if not 0 <= index < len(messages):
                raise LookupError(f"the schema has no message at the index path {list(path)}")
            found = messages[index]
            messages = list(found.nested_types)
        if found is None:
            raise LookupError("an index path has at least one index")
        return message_factory.GetMessageClass(found)

    def index_path(self, full_name: str) -> tuple[int, ...]:
        """The index path of the message of that name. Raises LookupError if the file has no such message."""
        try:
            found: Descriptor | None = self._pool.FindMessageTypeByName(full_name)
        except KeyError:
            found = None
        if found is None or found.file.name != self._file.name:
            raise LookupError(f"the schema has no message {full_name!r}")
        path: list[int] = []
        while found is not None:
            outer = found.containing_type
            siblings = outer.nested_types if outer else self._file.message_types_by_name.values()
            path.insert(0, [message.name for message in siblings].index(found.name))
            found = outer
        return tuple(path)


class _Sources:
    """The texts of one schema by their import paths; descriptors become texts as they are added."""

    __slots__ = ("_budget", "_texts", "_without_syntax")

    def __init__(self) -> None:
        self._budget = SourceBudget()
        self._texts: dict[str, str] = {}
        self._without_syntax: set[str] = set()

    def add(self, path: str, text: str) -> None:
        """Add a text or a descriptor. Raises InvalidSchema."""
        source = text.removeprefix("\ufeff")
        if _BASE64.fullmatch(source) is not None:
            if len(source) > MAX_DESCRIPTOR_CHARACTERS:
                raise InvalidSchema(f"a descriptor in base64 is over {MAX_DESCRIPTOR_CHARACTERS} characters")
            self._budget.spend_bytes(source)
            source = self._text_of(_descriptor_from(source))
        if not self._budget.spend(source):
            self._without_syntax.add(path)
        self._texts[path] = source

    def compile(self, path: str) -> list[bytes]:
        """The serialized descriptors of a file and its imports. Raises InvalidSchema."""
        return self._compiled(path, self._texts)

    def missing(self) -> frozenset[str]:
        """The imports that are neither among the texts nor known. Raises InvalidSchema."""
        return missing_imports(self._texts)

    def _compiled(self, path: str, texts: Mapping[str, str]) -> list[bytes]:
        without_syntax = frozenset(self._without_syntax)
        missing = missing_imports(texts)
        if not missing:
            return compile_files(path, texts, without_syntax)
        return Carrier(texts, missing).compile(lambda carried: compile_files(path, carried, without_syntax))

    def unused_path(self, wish: str) -> str:
        """An import path that is neither a reference's nor a part of one."""
        taken = {path.partition("/")[0] for path in self._texts}
        while wish in taken:
            wish += "_"
        return wish

    def _text_of(self, file: FileDescriptorProto) -> str:
        """A descriptor's text, for protoc to check; its own options are read with the help of its imports."""
        pool: DescriptorPool | None = None
        if file.dependency:
            path = self.unused_path("imports")
            imports = "".join(f"import {quoted(name)};\n" for name in file.dependency)
            texts = self._texts | {path: f'syntax = "proto3";\n{imports}'}
            imported = self._compiled(path, texts)[:-1]
            named = FileDescriptorProto()
            named.CopyFrom(file)
            named.name = path
            pool, _ = pool_of([*imported, named.SerializeToString()])
        return proto_text(file, OptionReader(pool, None, left_out=None))


def _text_within(text: str) -> str | None:
    """The text that a descriptor of this registry has along if it can't say everything itself."""
    if len(text) > MAX_DESCRIPTOR_CHARACTERS or _BASE64.fullmatch(text) is None:
        return None
    found = text_with(_descriptor_from(text))
    return found if found is not None and found.strip() and _BASE64.fullmatch(found) is None else None


def _descriptor_from(text: str) -> FileDescriptorProto:
    try:
        return FileDescriptorProto.FromString(
            base64.b64decode(text.strip().replace("\n", "").replace("\r", ""))
        )
    except (binascii.Error, DecodeError):
        raise InvalidSchema("neither a .proto text nor a FileDescriptorProto in base64") from None
