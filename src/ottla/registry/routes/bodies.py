"""Request bodies: JSON objects, read with a limit and checked field by field.

A body that is not JSON or has a field of a wrong type ends in 400, an empty body or an unknown field in 422,
as with Confluent; also within rules and metadata, where a field that is dropped silently may be one that
protects data. A client newer than this registry may send unknown fields if a header of it says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any, Final

from starlette.requests import Request
from starlette.types import Message

from ottla.registry.core.configuration import JSON_NAMES, json_name
from ottla.registry.core.reading import SchemaRequest
from ottla.registry.core.tags import EntityTags, TagChanges, TagRequest
from ottla.registry.registry import Registry
from ottla.registry.routes.parameters import MAX_INT
from ottla.registry.settings import MAX_SCHEMA_BYTES
from ottla.schemas.model import Metadata, Rule, RuleSet, Schema, SchemaType
from ottla.web.bodies import parse_json, read_body
from ottla.web.errors import ApiError

_Known = Mapping[str, "_Known"]

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
_TAG_FIELDS: Final = frozenset(
    ("newVersion", "tagsToAdd", "tagsToRemove", "metadata", "ruleSet", "rulesToMerge", "rulesToRemove")
)
_RULE_FIELDS: Final[_Known] = {json_name(field.name): {} for field in fields(Rule)}
_RULES: Final[_Known] = {
    "migrationRules": _RULE_FIELDS,
    "domainRules": _RULE_FIELDS,
    "encodingRules": _RULE_FIELDS,
    "enableAt": {},
}
_METADATA: Final[_Known] = {"tags": {}, "properties": {}, "sensitive": {}}
_TAGS: Final[_Known] = {"schemaEntity": {"entityPath": {}, "entityType": {}}, "tags": {}}
_INNER_FIELDS: Final[_Known] = {
    "references": {"name": {}, "subject": {}, "version": {}},
    "metadata": _METADATA,
    "defaultMetadata": _METADATA,
    "overrideMetadata": _METADATA,
    "ruleSet": _RULES,
    "defaultRuleSet": _RULES,
    "overrideRuleSet": _RULES,
    "rulesToMerge": _RULES,
    "schemaTagsToAdd": _TAGS,
    "schemaTagsToRemove": _TAGS,
    "tagsToAdd": _TAGS,
    "tagsToRemove": _TAGS,
}
"""The fields within the objects of a body; those of an empty mapping are not looked at."""


async def schema_request(request: Request, registry: Registry) -> SchemaRequest:
    """The body of a request that registers, looks up or checks a schema. 400, 413, 422, 42201.

    The text of a schema that the body does not give is empty.
    """
    body = await json_object(request, registry, _SCHEMA_FIELDS)
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
            TagChanges(_entity_tags(body, "schemaTagsToAdd"), _entity_tags(body, "schemaTagsToRemove")),
            _flag(body, "propagateSchemaTags"),
        )
    except ValueError as problem:
        raise wrong_body(str(problem)) from None


async def tag_request(request: Request, registry: Registry) -> TagRequest:
    """The body of a request that changes the tags of a version. 400, 413, 422, 42201."""
    body = await json_object(request, registry, _TAG_FIELDS)
    metadata, rules, merged = (body.get(name) for name in ("metadata", "ruleSet", "rulesToMerge"))
    try:
        version = _number(body, "newVersion")
        return TagRequest(
            TagChanges(_entity_tags(body, "tagsToAdd"), _entity_tags(body, "tagsToRemove")),
            version or None,
            None if metadata is None else Metadata.from_json(metadata),
            None if rules is None else RuleSet.from_json(rules),
            None if merged is None else RuleSet.from_json(merged),
            _names(body, "rulesToRemove"),
        )
    except ValueError as problem:
        raise wrong_body(str(problem)) from None


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
    """The body of PUT /config, with the names of GET's answer. A null field takes its setting away.

    Levels and policies may be in lower case.
    """
    body = await json_object(request, registry, _CONFIG_FIELDS)
    for name in ("compatibility", "compatibilityLevel", "compatibilityPolicy"):
        text = _text(body, name)
        if text is not None:
            body[name] = text.upper()
    if "compatibilityLevel" in body:
        level = body.pop("compatibilityLevel")
        body.setdefault("compatibility", level)
    return body


async def mode_request(request: Request, registry: Registry) -> str:
    """The body of PUT /mode, in capitals; the empty text, which is no mode, where it names none."""
    return (_text(await json_object(request, registry, _MODE_FIELDS), "mode") or "").upper()


async def json_object(request: Request, registry: Registry, known: Collection[str] | None) -> dict[str, Any]:
    """The body as an object that has these fields at most, or any (None). 400, 413, 422."""
    data = await read_body(request, registry.settings[MAX_SCHEMA_BYTES])
    if not data.strip():
        raise ApiError(422, 422, "The request's body must not be empty")
    body = parse_json(data, ApiError(400, 400, "The request's body is not JSON"))
    if body is None:
        raise ApiError(422, 422, "The request's body must not be null")
    if not isinstance(body, dict):
        raise wrong_body("it must be an object")
    if known is not None and request.headers.get(ACCEPT_UNKNOWN, "").lower() != "true":
        unknown = next((name for name in body if name not in known), None) or _unknown(body, _INNER_FIELDS)
        if unknown is not None:
            raise ApiError(422, 422, f"Unrecognized field: {unknown[:100]}")
    return body


def _unknown(value: Any, known: _Known) -> str | None:
    """The first field of an object within `value`, or within its items, that is none of the known ones."""
    for item in value if isinstance(value, list) else (value,):
        for name, inner in item.items() if isinstance(item, dict) else ():
            if known is not _INNER_FIELDS and name not in known:
                return str(name)
            below = known.get(name)
            found = _unknown(inner, below) if below else None
            if found is not None:
                return f"{name}.{found}"
    return None


def wrong_body(problem: str) -> ApiError:
    """The error 400 of a body with a wrong value."""
    return ApiError(400, 400, f"The request's body is not understood: {problem}")


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise wrong_body(f"{name} must be a text")
    return value


def _number(body: Mapping[str, Any], name: str) -> int | None:
    """A number that Java's int can hold."""
    value = body.get(name)
    if value is not None and (type(value) is not int or not -MAX_INT - 1 <= value <= MAX_INT):
        raise ValueError(f"{name} must be a whole number")
    return value


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false")
    return bool(value)


def _names(body: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{name} must be an array of texts")
    return tuple(value)


def _entity_tags(body: Mapping[str, Any], name: str) -> tuple[EntityTags, ...]:
    value = body.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError(f"{name} must be an array of objects")
    return tuple(EntityTags.from_json(one) for one in value)
