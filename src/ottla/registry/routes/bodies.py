"""Request bodies: JSON objects, read with a limit and checked field by field.

A body that is not JSON or has a field of a wrong type ends in 400, an empty body or an unknown field in 422,
as with Confluent. A client newer than this registry may send unknown fields if a header of it says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.types import Message

from ottla.registry.core.configuration import JSON_NAMES
from ottla.registry.core.reading import SchemaRequest
from ottla.registry.registry import Registry
from ottla.registry.routes.parameters import MAX_INT
from ottla.registry.settings import MAX_SCHEMA_BYTES
from ottla.schemas.model import Schema, SchemaType
from ottla.web.bodies import parse_json, read_body
from ottla.web.errors import ApiError

ACCEPT_UNKNOWN: Final = "confluent-accept-unknown-properties"
# Fields that an answer has beside: a client may send an answer back as a request.
_ANSWERED_FIELDS: Final = ("subject", "guid", "ts", "deleted", "schemaTags")
_SCHEMA_FIELDS: Final = frozenset(
    (
        *("schema", "schemaType", "references", "metadata", "ruleSet", "version", "id"),
        *("schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags"),
        *_ANSWERED_FIELDS,
    )
)
_CONFIG_FIELDS: Final = frozenset((*JSON_NAMES.values(), "compatibility"))
_MODE_FIELDS: Final = frozenset(("mode",))


async def schema_request(request: Request, registry: Registry) -> SchemaRequest:
    """The body of a request that registers, looks up or checks a schema. 400, 413, 422, 42201.

    The text of a schema that the body does not give is empty.
    """
    body = await _object(request, registry, _SCHEMA_FIELDS)
    schema_type = _text(body, "schemaType")
    if schema_type is not None and schema_type not in SchemaType.__members__:
        choices = ", ".join(SchemaType)
        raise ApiError(422, 42201, f"Invalid schema type {schema_type[:100]}: it must be one of {choices}")
    if body.get("schema") is None:
        body["schema"] = ""
    try:
        return SchemaRequest(
            Schema.from_json(body),
            _number(body, "version"),
            _number(body, "id"),
            _objects(body, "schemaTagsToAdd"),
            _objects(body, "schemaTagsToRemove"),
        )
    except ValueError as problem:
        raise _wrong(str(problem)) from None


async def reread(request: Request, registry: Registry) -> Request:
    """The same request, whose body can be read more than once. 413."""
    body = await read_body(request, registry.settings[MAX_SCHEMA_BYTES])

    is_told = False

    async def receive() -> Message:
        nonlocal is_told
        if is_told:
            return await request.receive()  # the client's hanging up
        is_told = True
        return {"type": "http.request", "body": body, "more_body": False}

    again = Request(request.scope, receive)
    await again.body()  # Starlette keeps what it read by this method
    return again


async def config_request(request: Request, registry: Registry) -> Mapping[str, Any]:
    """The body of PUT /config, with the names of GET's answer. A null field takes its setting away."""
    body = await _object(request, registry, _CONFIG_FIELDS)
    for name in ("compatibility", "compatibilityLevel", "compatibilityPolicy"):
        _text(body, name)
    if "compatibilityLevel" in body:
        level = body.pop("compatibilityLevel")
        body.setdefault("compatibility", level)
    return body


async def mode_request(request: Request, registry: Registry) -> str:
    """The body of PUT /mode; the empty text, which is no mode, where it names none."""
    return _text(await _object(request, registry, _MODE_FIELDS), "mode") or ""


async def _object(request: Request, registry: Registry, known: Collection[str]) -> dict[str, Any]:
    data = await read_body(request, registry.settings[MAX_SCHEMA_BYTES])
    if not data.strip():
        raise ApiError(422, 422, "The request's body must not be empty")
    body = parse_json(data, ApiError(400, 400, "The request's body is not JSON"))
    if body is None:
        raise ApiError(422, 422, "The request's body must not be null")
    if not isinstance(body, dict):
        raise _wrong("it must be an object")
    unknown = next((name for name in body if name not in known), None)
    if unknown is not None and request.headers.get(ACCEPT_UNKNOWN, "").lower() != "true":
        raise ApiError(422, 422, f"Unrecognized field: {unknown[:100]}")
    return body


def _wrong(problem: str) -> ApiError:
    return ApiError(400, 400, f"The request's body is not understood: {problem}")


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise _wrong(f"{name} must be a text")
    return value


def _number(body: Mapping[str, Any], name: str) -> int | None:
    """A number that Java's int can hold."""
    value = body.get(name)
    if value is not None and (type(value) is not int or not -MAX_INT - 1 <= value <= MAX_INT):
        raise ValueError(f"{name} must be a whole number")
    return value


def _objects(body: Mapping[str, Any], name: str) -> tuple[Mapping[str, Any], ...]:
    value = body.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError(f"{name} must be an array of objects")
    return tuple(value)
