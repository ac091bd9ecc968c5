"""The bodies of requests about associations, checked field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request

from ottla.registry.core.associations import TOPIC, AssociationType, Wanted
from ottla.registry.core.failures import invalid_association
from ottla.registry.core.reading import SchemaRequest
from ottla.registry.core.records import Lifecycle
from ottla.registry.registry import Registry
from ottla.registry.routes.bodies import json_object, wrong_body
from ottla.schemas.model import Schema

MAX_BATCH: Final = 100
"""Requests of one batch: each may be several writes."""
MAX_ASSOCIATIONS: Final = 20
MAX_NAME_LENGTH: Final = 255
_RESOURCE: Final = frozenset(("resourceName", "resourceNamespace", "resourceId", "resourceType"))
_OPERATIONS: Final = ("CREATE", "UPSERT", "DELETE")


@dataclass(frozen=True, slots=True)
class ResourceBody:
    """The resource that a request names, and the associations that it wants of it or asks for."""

    name: str
    namespace: str
    resource_id: str
    resource_type: str = TOPIC
    wanted: tuple[Wanted, ...] = ()
    types: tuple[str, ...] = ()
    lifecycle: str = ""


async def association_request(request: Request, registry: Registry, resource_id: str = "") -> ResourceBody:
    """A request to make or change a resource's associations. 400, 413, 422, 42212."""
    body = await json_object(request, registry, _RESOURCE | {"associations"})
    resource = _resource(body, resource_id)
    wanted = tuple(_wanted(one) for one in _list(body, "associations", MAX_ASSOCIATIONS))
    return ResourceBody(*resource, wanted)


async def get_request(request: Request, registry: Registry) -> list[ResourceBody]:
    """A batch of questions. 400, 413, 422, 42212."""
    body = await json_object(request, registry, frozenset(("requests",)))
    asked: list[ResourceBody] = []
    for one in _list(body, "requests", MAX_BATCH):
        name, namespace = _text(one, "resourceName"), _text(one, "resourceNamespace")
        resource_id = _text(one, "resourceId")
        if not resource_id and not (name and namespace):
            raise invalid_association("resourceName", "either it and its namespace, or resourceId is needed")
        types = one.get("associationTypes") or []
        if not isinstance(types, list) or not all(isinstance(each, str) for each in types):
            raise wrong_body("associationTypes must be an array of texts")
        lifecycle = _text(one, "lifecycle")
        kind = _text(one, "resourceType") or TOPIC
        asked.append(ResourceBody(name, namespace, resource_id, kind, (), tuple(types), lifecycle))
    return asked


async def batch_request(
    request: Request, registry: Registry
) -> list[tuple[ResourceBody, list[tuple[str, tuple[Wanted, ...]]]]]:
    """A batch of changes: for each resource its operations, in order. 400, 413, 422, 42212.

    Neighbouring operations of one kind are one. `frozen` of a DELETE says whether it cascades.
    """
    body = await json_object(request, registry, frozenset(("requests",)))
    found: list[tuple[ResourceBody, list[tuple[str, tuple[Wanted, ...]]]]] = []
    for one in _list(body, "requests", MAX_BATCH):
        operations: list[tuple[str, tuple[Wanted, ...]]] = []
        for each in _list(one, "associations", MAX_ASSOCIATIONS):
            kind = _text(each, "opType")
            if kind not in _OPERATIONS:
                raise invalid_association("opType", f"must be one of {', '.join(_OPERATIONS)}")
            wanted = _wanted(each)
            if kind == "DELETE":
                operations.append((kind, (Wanted(wanted.type, frozen=each.get("cascadeLifecycle") is True),)))
            elif operations and operations[-1][0] == kind:
                operations[-1] = (kind, (*operations[-1][1], wanted))
            else:
                operations.append((kind, (wanted,)))
        found.append((ResourceBody(*_resource(one, "")), operations))
    return found


def _resource(body: Mapping[str, Any], resource_id: str) -> tuple[str, str, str, str]:
    name, namespace = _name(body, "resourceName"), _name(body, "resourceNamespace")
    kind = _text(body, "resourceType") or TOPIC
    if kind != TOPIC:
        raise invalid_association("resourceType", f"must be '{TOPIC}'")
    return name, namespace, _text(body, "resourceId") or resource_id, kind


def _wanted(value: Mapping[str, Any]) -> Wanted:
    kind = _text(value, "associationType") or AssociationType.VALUE
    if kind not in list(AssociationType):
        raise invalid_association("associationType", "must be either 'key' or 'value'")
    lifecycle = _text(value, "lifecycle")
    if lifecycle and lifecycle not in Lifecycle.__members__:
        raise invalid_association("lifecycle", "must be either 'STRONG' or 'WEAK'")
    frozen, normalize, schema = value.get("frozen"), value.get("normalize"), value.get("schema")
    if not isinstance(frozen, bool | None) or not isinstance(normalize, bool | None):
        raise wrong_body("frozen and normalize are true or false")
    try:
        wanted = None if schema is None else SchemaRequest(Schema.from_json(schema))
    except ValueError as problem:
        raise wrong_body(str(problem)) from None
    return Wanted(
        AssociationType(kind),
        _text(value, "subject") or None,
        Lifecycle(lifecycle) if lifecycle else None,
        frozen,
        wanted,
        bool(normalize),
    )


def _list(body: Mapping[str, Any], name: str, most: int) -> Sequence[Mapping[str, Any]]:
    value = body.get(name)
    if value is None or value == []:
        raise invalid_association(name, "cannot be null or empty")
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise wrong_body(f"{name} must be an array of objects")
    if len(value) > most:
        raise invalid_association(name, f"cannot be more than {most}")
    return value


def _name(body: Mapping[str, Any], name: str) -> str:
    text = _text(body, name)
    if not text or len(text) > MAX_NAME_LENGTH or not text.isprintable() or "/" in text:
        raise invalid_association(name, "cannot be empty, too long, or have a slash or control characters")
    return text


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise wrong_body(f"{name} must be a text")
    return value or ""
