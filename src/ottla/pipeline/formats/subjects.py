"""Which schema of the registry a format uses: a given text, a given subject, or the subject of a topic.

`bind` happens once, before a query starts, so that a missing subject prevents the start and a new version in
the registry never changes a running query.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ottla.client.registry.lookups import RegisteredSchema
from ottla.client.registry.rules import write_obstacle
from ottla.pipeline.formats.format import FormatError
from ottla.pipeline.formats.registry import SchemaRegistry, UnknownSchema, latest_schema, registered_schema
from ottla.schemas.format import InvalidSchema, ParsedSchema
from ottla.schemas.formats import format_of
from ottla.schemas.model import SchemaType


class SubjectStrategy(enum.StrEnum):
    """How a subject is named: Confluent's three subject name strategies."""

    TOPIC = "topic"
    RECORD = "record"
    TOPIC_RECORD = "topic-record"


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """The user's choice of a schema.

    text: the schema itself; without it, the latest schema of `subject`, or of the subject that follows from
    the topic and the strategy. auto_register: whether writing registers a text that is not registered yet.
    """

    registry: SchemaRegistry
    schema_type: SchemaType
    text: str | None = None
    subject: str | None = None
    strategy: SubjectStrategy = SubjectStrategy.TOPIC
    auto_register: bool = True

    def found(self, topic: str | None, is_key: bool) -> BoundSchema:
        """The schema to read with. Raises FormatError, of which RegistryError is a kind."""
        if self.text is not None:
            parsed = parse_schema(self.schema_type, self.text)
            return BoundSchema(self_contained(parsed), None, None)
        subject = self.subject_for(topic, is_key, None)
        try:
            latest = latest_schema(self.registry, subject, self.schema_type)
        except UnknownSchema:
            raise FormatError(
                f"there is no schema under the subject {subject} in the registry at {self.registry.shown}: "
                "register it, or give the schema"
            ) from None
        return _bound(latest, subject)

    def registered(self, bound: BoundSchema, topic: str, is_key: bool) -> BoundSchema:
        """The schema to write with, with its id in the registry. Raises FormatError."""
        if bound.schema_id is not None:
            return bound.writable()
        assert self.text is not None
        parsed = parse_schema(self.schema_type, self.text)
        subject = self.subject_for(topic, is_key, parsed.name)
        try:
            found = registered_schema(
                self.registry, subject, self.schema_type, self.text, register=self.auto_register
            )
        except UnknownSchema as unknown:
            raise FormatError(
                f"the schema is not registered under the subject {subject}, and auto_register is off "
                f"({unknown})"
            ) from None
        return _bound(found, subject).writable()

    def subject_for(self, topic: str | None, is_key: bool, record_name: str | None) -> str:
        """The subject's name. Raises FormatError if the schema or the topic that would name it is missing."""
        if self.subject is not None:
            return self.subject
        if self.strategy is not SubjectStrategy.TOPIC and record_name is None:
            raise FormatError(
                f"the {self.strategy} strategy names subjects by a schema: give the schema or a subject"
            )
        if self.strategy is SubjectStrategy.RECORD:
            assert record_name is not None
            return record_name
        if topic is None:
            raise FormatError("several topics may have different schemas: give a subject or the schema")
        if self.strategy is SubjectStrategy.TOPIC_RECORD:
            return f"{topic}-{record_name}"
        return f"{topic}-{'key' if is_key else 'value'}"


@dataclass(frozen=True, slots=True)
class BoundSchema:
    """A schema that can be used without the registry: `text` is complete, with its references inlined.

    obstacle: why no record can be written with it, or None.
    """

    text: str
    subject: str | None
    version: int | None
    schema_id: int | None = None
    obstacle: str | None = None

    def writable(self) -> BoundSchema:
        """This schema. Raises FormatError if its rules are none that a query can carry out."""
        if self.obstacle is not None:
            raise FormatError(f"schema {self.schema_id}: {self.obstacle}")
        return self

    def describe(self, name: str) -> str:
        if self.subject is None:
            return name
        version = "" if self.version is None else f", version {self.version}"
        return f"{name} ({self.subject}{version})"


def parse_schema(schema_type: SchemaType, text: str) -> ParsedSchema:
    """Parse a schema that the user gave. Raises FormatError."""
    try:
        return format_of(schema_type).parse(text, {}, new=True)
    except InvalidSchema as problem:
        raise FormatError(f"the schema is not a valid {schema_type.value} schema: {problem}") from None


def self_contained(parsed: ParsedSchema) -> str:
    """The schema's text, with its references inlined where the format allows it (Avro)."""
    return parsed.formatted("resolved") if parsed.schema_type is SchemaType.AVRO else parsed.canonical_text


def _bound(found: RegisteredSchema, subject: str) -> BoundSchema:
    text, obstacle = self_contained(found.parsed), write_obstacle(found.rules)
    return BoundSchema(text, subject, found.version, found.id, obstacle)
