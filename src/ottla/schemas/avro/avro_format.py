"""Avro as one of the registry's schema formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla.schemas.avro import compatibility
from ottla.schemas.avro.defaults import check_defaults
from ottla.schemas.avro.json_text import read_json
from ottla.schemas.avro.model import AvroType, Enum, Fixed, Record
from ottla.schemas.avro.parsing import Parser
from ottla.schemas.avro.text import canonical_text, normalized_text
from ottla.schemas.effort import Effort
from ottla.schemas.format import Incompatibility, InvalidSchema, ParsedSchema
from ottla.schemas.model import CompatibilityPolicy, SchemaType


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A valid Avro schema. `referenced`: the full names of the types that its references define."""

    root: AvroType
    referenced: frozenset[str]
    canonical_text: str

    @property
    def schema_type(self) -> SchemaType:
        return SchemaType.AVRO

    @property
    def name(self) -> str | None:
        match self.root:
            case Record() | Enum() | Fixed():
                return self.root.full_name
        return None

    def normalized(self) -> str:
        return normalized_text(self.root, self.referenced)

    def formatted(self, format_name: str) -> str:
        if format_name != "resolved" or not self.referenced:
            return self.canonical_text
        try:
            return canonical_text(self.root)
        except InvalidSchema:  # nested too deep once all references are in one text
            return self.canonical_text

    def incompatibilities(
        self,
        written: ParsedSchema,
        policy: CompatibilityPolicy = CompatibilityPolicy.STRICT,
        effort: Effort | None = None,
    ) -> Sequence[Incompatibility]:
        """As `ParsedSchema`; at most `compatibility.MAX_FINDINGS`. Avro has one policy.

        The sentences call this schema the new one and `written` the old one, as Confluent's do.
        """
        assert isinstance(written, AvroSchema), "schemas of one format are compared"
        try:
            findings = compatibility.compare(self.root, written.root, effort)
        except compatibility.NotComparable as error:
            return [Incompatibility("NAME_MISMATCH", str(error))]
        return [finding.as_incompatibility() for finding in findings]


class AvroFormat:
    """Parses Avro schemas."""

    @property
    def schema_type(self) -> SchemaType:
        return SchemaType.AVRO

    def parse(self, text: str, references: Mapping[str, str], *, new: bool = False) -> AvroSchema:
        """As `SchemaFormat`."""
        parser = Parser()
        for name, referenced in references.items():
            try:
                parser.parse(read_json(referenced))
            except InvalidSchema as error:
                raise InvalidSchema(f"the reference {name}: {error}") from None
        known = parser.known_names
        try:
            root = parser.parse(read_json(text))
            if new:
                check_defaults(root)
            return AvroSchema(root, known, canonical_text(root, known))
        except RecursionError:
            raise InvalidSchema("the schema is nested too deep") from None
