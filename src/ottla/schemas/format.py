"""The interface of schema formats. `formats.py` finds its three implementations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ottla.schemas.effort import Effort
from ottla.schemas.model import CompatibilityPolicy, SchemaType


class InvalidSchema(Exception):
    """A text that is not a schema of its format; the message says why, and where if that is known."""


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """One reason why data of one schema can't be read with another.

    `type`: the format's name of the reason (READER_FIELD_MISSING_DEFAULT_VALUE, TYPE_NARROWED…).
    `description`: a sentence with the place. `additional_info`: the object of that sentence; may be empty.
    """

    type: str
    description: str
    additional_info: str = ""


class ParsedSchema(Protocol):
    """A valid schema. Immutable. Methods that take another schema expect one of the same format."""

    @property
    def schema_type(self) -> SchemaType:
        """The schema's format."""

    @property
    def canonical_text(self) -> str:
        """The text that is stored and returned: the same for texts that differ only in layout."""

    @property
    def name(self) -> str | None:
        """The full name of the record or message (for RecordNameStrategy), if it has one."""

    def normalized(self) -> str:
        """The same text for all schemas of the same meaning (sorted properties, imports…)."""

    def formatted(self, format_name: str) -> str:
        """The text in another format that `?format=` asks for; the canonical one for an unknown format.

        Avro: `resolved` (referenced types inlined). Protobuf: `serialized` (base64 of a FileDescriptorProto),
        `ignore_extensions`. JSON Schema: none.
        """

    def incompatibilities(
        self,
        written: ParsedSchema,
        policy: CompatibilityPolicy = CompatibilityPolicy.STRICT,
        effort: Effort | None = None,
    ) -> Sequence[Incompatibility]:
        """Why data that was written with `written` can't be read with this schema; empty if it can.

        Schemas that take more steps than a whole effort are incompatible. Raises Abandoned, and TooMuchWork
        if the given effort is smaller.
        """


class SchemaFormat(Protocol):
    """A schema format: parses texts."""

    @property
    def schema_type(self) -> SchemaType:
        """The format's type."""

    def parse(self, text: str, references: Mapping[str, str], *, new: bool = False) -> ParsedSchema:
        """Parse a schema. Raises InvalidSchema.

        `references` has the canonical texts of all schemas that it refers to, directly or not, by the names
        in the references; a schema comes after those that it needs. `new` adds the checks that a schema must
        pass when it is registered, and that stored ones may fail (defaults that do not fit their types).
        """
