"""What each schema format can do: one interface, three implementations, found by `formats.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ottla.schemas.effort import Effort
from ottla.schemas.model import CompatibilityPolicy, SchemaType


class InvalidSchema(Exception):
    """A text that is no schema of its format; says what is wrong, and where if that is known."""


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """One reason why data of one schema can't be read with another.

    `type` is the format's word for it (READER_FIELD_MISSING_DEFAULT_VALUE, TYPE_NARROWED…), `description` a
    sentence with the place, `additional_info` what the description is about (may be empty).
    """

    type: str
    description: str
    additional_info: str = ""


class ParsedSchema(Protocol):
    """A valid schema. Immutable; methods that take another one expect the same format."""

    @property
    def schema_type(self) -> SchemaType:
        """Which format it is of."""

    @property
    def canonical_text(self) -> str:
        """The text that is stored and given back: the same for texts that differ in layout alone."""

    @property
    def name(self) -> str | None:
        """The full name of the record or message (for RecordNameStrategy), if it has one."""

    def normalized(self) -> str:
        """A text that is the same for schemas that mean the same (order of properties, imports…)."""

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
        """Why data that was written with `written` can't be read with this schema; empty when it can.

        Schemas that take more steps than the whole of an effort are incompatible. Raises Abandoned, and
        TooMuchWork where the effort is less than that.
        """


class SchemaFormat(Protocol):
    """A format: parses texts."""

    @property
    def schema_type(self) -> SchemaType:
        """Which it is."""

    def parse(self, text: str, references: Mapping[str, str], *, new: bool = False) -> ParsedSchema:
        """Parse a schema. Raises InvalidSchema.

        `references` has the canonical texts of all schemas that it refers to, directly or not, by the names
        under which they are referred to, those first that others need. `new` asks for checks that a schema
        must pass when it is registered, and that stored ones may fail (defaults that do not fit their types).
        """
