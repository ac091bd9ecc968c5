"""Schemas as callers send them, made ready to be compared with a subject's versions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ottla.registry.core.contexts import relative_to
from ottla.registry.core.image import StoredSchema
from ottla.registry.core.schema_parsing import SchemaParser
from ottla.schemas.format import ParsedSchema
from ottla.schemas.model import Metadata, Reference, RuleSet, Schema
from ottla.web.errors import ApiError


@dataclass(frozen=True, slots=True)
class Prepared:
    """A valid schema of `subject`: its text canonical or normal, its references by number.

    Metadata and rules are as the caller sent them; None matches any.
    """

    subject: str
    schema: Schema
    parsed: ParsedSchema
    normalized: bool


def prepare(parser: SchemaParser, subject: str, schema: Schema, normalize: bool, *, new: bool) -> Prepared:
    """A caller's schema as one of `subject`. Raises ApiError 42201, PutOff."""
    references = parser.numbered(subject, schema.references)
    if normalize:
        references = tuple(sorted(set(references), key=_reference_order))
    schema = replace(schema, references=references)
    parsed = parser.parse(subject, schema, new=new)
    text = parsed.canonical_text
    if normalize:
        text = parser.normal_text(parser.fingerprint(subject, schema), parsed)
    return Prepared(subject, replace(schema, text=text), parsed, normalize)


def find_registered(
    parser: SchemaParser, prepared: Prepared, newest_first: Iterable[StoredSchema]
) -> StoredSchema | None:
    """The first of these versions that is this schema: by its text, or else by its normal form."""
    candidates = [stored for stored in newest_first if _same_but_for_text(prepared, stored)]
    text = prepared.schema.text
    exact = next((stored for stored in candidates if stored.schema.text == text), None)
    if exact is not None or not prepared.normalized:
        return exact
    return next((stored for stored in candidates if _normal_text(parser, stored) == text), None)


def _same_but_for_text(prepared: Prepared, stored: StoredSchema) -> bool:
    wanted = prepared.schema
    return (
        stored.schema.schema_type is wanted.schema_type
        and _same_references(prepared, stored)
        and (wanted.metadata is None or _json(wanted.metadata) == _json(stored.schema.metadata))
        and (wanted.rule_set is None or _json(wanted.rule_set) == _json(stored.schema.rule_set))
    )


def _normal_text(parser: SchemaParser, stored: StoredSchema) -> str | None:
    """None for a version that is not valid any more."""
    try:
        parsed = parser.parse_stored(stored)
        return parser.normal_text(parser.fingerprint(stored.subject, stored.schema), parsed)
    except ApiError:
        return None


def _same_references(prepared: Prepared, stored: StoredSchema) -> bool:
    mine, others = prepared.schema.references, stored.schema.references
    if mine == others:
        return True
    return _qualified(prepared.subject, mine) == _qualified(stored.subject, others)


def _qualified(subject: str, references: Iterable[Reference]) -> set[Reference]:
    return {replace(one, subject=relative_to(subject, one.subject)) for one in references}


def _reference_order(reference: Reference) -> tuple[str, str, int]:
    return reference.name, reference.subject, reference.version


def _json(part: Metadata | RuleSet | None) -> object:
    return None if part is None else part.as_json()
