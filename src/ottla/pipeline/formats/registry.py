"""The Schema Registry for formats: tells a record that names an unknown schema from a registry that fails.

A schema that does not exist is the fault of the record that names it (`UnknownSchema`). A registry that does
not answer, or refuses the request, is not the fault of any record (`RegistryError`): after a bounded number
of attempts the batch fails, and its query with it. Each Python worker keeps the answers that never change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ottla.client.registry.lookups import RegisteredSchema, UnusableSchema
from ottla.client.registry.shared_clients import client_of
from ottla.client.registry.sync_client import RegistryClient
from ottla.client.registry.wire import (
    RegistryAccess,
    RegistryRefusal,
    RegistryUnreachable,
    UnusableAnswer,
    shown,
)
from ottla.pipeline.formats.format import FormatError, in_one_line
from ottla.schemas.model import SchemaType


class RegistryError(FormatError):
    """The registry does not answer, refuses, or gives no usable answer; one line. Never a dead letter."""


class UnknownSchema(Exception):
    """The registry has no such id, subject or version, or the schema is of another format."""


SchemaRegistry: TypeAlias = RegistryAccess
"""The address of a registry and the credentials for it, under the name that users of formats know."""


def schema_by_id(registry: SchemaRegistry, schema_id: int, schema_type: SchemaType) -> RegisteredSchema:
    """The schema of an id. Raises RegistryError; UnknownSchema if there is none, or one of another format."""
    found = _asked(registry, f"schema {schema_id}", lambda client: client.by_id(schema_id))
    if found.parsed.schema_type is not schema_type:
        raise UnknownSchema(
            f"schema {schema_id} is of the type {found.parsed.schema_type}, not {schema_type}"
        )
    return found


def latest_schema(registry: SchemaRegistry, subject: str, schema_type: SchemaType) -> RegisteredSchema:
    """A subject's newest version. Raises RegistryError, UnknownSchema."""
    found = _asked(registry, f"the latest version of {subject}", lambda client: client.latest(subject))
    if found.parsed.schema_type is not schema_type:
        raise RegistryError(
            f"subject {subject} has a schema of the type {found.parsed.schema_type}, not {schema_type}"
        )
    return found


def registered_schema(
    registry: SchemaRegistry, subject: str, schema_type: SchemaType, text: str, *, register: bool
) -> RegisteredSchema:
    """The registered schema of a text under a subject: looked up or, with `register`, registered if missing.

    Raises RegistryError, UnknownSchema.
    """
    if register:
        return _asked(registry, subject, lambda client: client.register(subject, schema_type, text))
    return _asked(registry, subject, lambda client: client.registered(subject, schema_type, text))


def _asked(
    registry: SchemaRegistry, wanted: str, ask: Callable[[RegistryClient], RegisteredSchema]
) -> RegisteredSchema:
    where = f"the schema registry at {registry.shown}"
    try:
        return ask(client_of(registry))
    except UnusableSchema as problem:
        if problem.is_text:
            raise FormatError(f"{wanted} can't be read: {in_one_line(problem.message)}") from None
        raise UnknownSchema(in_one_line(problem.message)) from None
    except RegistryRefusal as refusal:
        raise _fault(registry, refusal) from None
    except UnusableAnswer as problem:
        raise RegistryError(f"{where} gives no usable answer for {wanted}: {_line(problem)}") from None
    except RegistryUnreachable as problem:
        raise RegistryError(
            f"{where} does not answer ({registry.attempts} attempts, the last: {_line(problem)})"
        ) from None


def _fault(registry: SchemaRegistry, refusal: RegistryRefusal) -> RegistryError | UnknownSchema:
    message = _line(refusal.message)
    if refusal.is_passing:
        return RegistryError(
            f"the schema registry at {registry.shown} does not answer"
            f" ({registry.attempts} attempts, the last: status {refusal.status}: {message})"
        )
    if not refusal.is_told:
        return RegistryError(
            f"{shown(refusal.url)} is no schema registry: status {refusal.status} for {refusal.path}"
        )
    if refusal.status == 404:
        return UnknownSchema(message)
    return RegistryError(
        f"the schema registry at {shown(refusal.url)} refuses {refusal.path}: {refusal.status} {message}"
    )


def _line(problem: object) -> str:
    return in_one_line(str(problem))[:200]
