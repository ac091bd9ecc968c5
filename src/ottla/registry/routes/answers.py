"""The JSON shapes of schemas in answers: those of Confluent's registry 8, which clients of 7 read too."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.requests import Request

from ottla.registry.core.image import StoredSchema
from ottla.registry.registry import Registry
from ottla.schemas.model import Schema
from ottla.web.bodies import hung_up


async def formatted(request: Request, registry: Registry, stored: StoredSchema) -> Schema:
    """The schema in the `?format=` and `?referenceFormat=` that are asked for."""
    query = request.query_params
    text_format, reference_format = query.get("format", ""), query.get("referenceFormat", "")
    if not text_format and not reference_format:
        return stored.schema
    return await registry.consider(
        lambda: registry.reads.formatted(stored, text_format, reference_format), partial(hung_up, request)
    )


async def found_tags(request: Request, registry: Registry, stored: StoredSchema) -> dict[str, Any]:
    """`schemaTags`, if `?findTags=` asks for entities with tags."""
    wanted = [tag for text in request.query_params.getlist("findTags") for tag in text.split(",") if tag]
    if not wanted:
        return {}
    found = await registry.consider(lambda: registry.reads.tagged(stored, wanted), partial(hung_up, request))
    return {"schemaTags": [each.as_json() for each in found]}


def version_answer(stored: StoredSchema, schema: Schema) -> dict[str, Any]:
    """One version of a subject."""
    named = {"subject": stored.subject, "version": stored.version, "id": stored.id}
    return {**named, **id_answer(stored, schema)}


def registered_answer(stored: StoredSchema, schema: Schema) -> dict[str, Any]:
    """The answer to a registration: the id, and the fields that clients of 8.x read beside it."""
    return {"id": stored.id, "version": stored.version, "guid": stored.schema.guid, **schema.as_json()}


def id_answer(stored: StoredSchema, schema: Schema) -> dict[str, Any]:
    """A schema by its id or guid."""
    return {
        "guid": stored.schema.guid,
        **schema.as_json(),
        "ts": stored.timestamp_ms,
        "deleted": stored.deleted,
    }
