"""API v3: access rules, found by a filter, added one by one or together, deleted by a filter."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from ottla.rest.admin.cluster_acls import create_acls, delete_acls, find_acls
from ottla.rest.admin.model import Acl, AclOperation, AclPatternType, AclPermission, ResourceType
from ottla.rest.operations import Api, Description, Operation, Query
from ottla.rest.urls import query_of
from ottla.rest.v3.requests import (
    MAX_TEXT,
    bad,
    known_fields,
    list_field,
    member_of,
    read_fields,
    text_field,
)
from ottla.rest.v3.resources import CLUSTER, ClusterResources, JsonObject, cluster_of
from ottla.web.application import json_answer

FIELDS: Final = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission",
)

K = TypeVar("K", ResourceType, AclPatternType, AclOperation, AclPermission)


def acl_data(resources: ClusterResources, acl: Acl) -> JsonObject:
    """An access rule; its URL is the filter that finds it alone."""
    content = {
        "resource_type": acl.resource_type.name,
        "resource_name": acl.resource_name or "",
        "pattern_type": acl.pattern_type.name,
        "principal": acl.principal or "",
        "host": acl.host or "",
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }
    data = resources.resource("KafkaAcl", ("acls",), None, dict(content))
    data["metadata"]["self"] += query_of(content)
    return data


async def list_acls(api: Api, request: Request) -> Response:
    """The rules that a filter matches; without one, all."""
    resources = await cluster_of(api, request)
    found = await find_acls(api.admin, acl_filter(request))
    listing = resources.collection("KafkaAclList", ("acls",), [acl_data(resources, acl) for acl in found])
    given = {name: request.query_params[name] for name in FIELDS if name in request.query_params}
    if given:
        listing["metadata"]["self"] += query_of(given)
    return json_answer(listing)


async def post_acl(api: Api, request: Request) -> Response:
    """Add a rule."""
    resources = await cluster_of(api, request)
    acl = new_acl(await read_fields(api, request, FIELDS))
    await create_acls(api.admin, [acl])
    return Response(status_code=201, headers={"location": acl_data(resources, acl)["metadata"]["self"]})


async def post_acls(api: Api, request: Request) -> Response:
    """Add rules."""
    await cluster_of(api, request)
    fields = await read_fields(api, request, ("data",))
    acls = [new_acl(known_fields(item, FIELDS, "data")) for item in list_field(fields, "data")]
    if not acls:
        raise bad("data must be a list of access rules and is missing")
    await create_acls(api.admin, acls)
    return Response(status_code=201)


async def remove_acls(api: Api, request: Request) -> Response:
    """Delete the rules that a filter matches; the answer has the deleted rules."""
    resources = await cluster_of(api, request)
    for name in ("resource_type", "pattern_type", "operation", "permission"):
        if request.query_params.get(name, "UNKNOWN").upper() == "UNKNOWN":
            raise bad(f"{name} cannot be unspecified or UNKNOWN")
    deleted = await delete_acls(api.admin, acl_filter(request))
    return json_answer({"data": [acl_data(resources, acl) for acl in deleted]})


def acl_filter(request: Request) -> Acl:
    """The filter in the query. Raises ApiError."""
    return Acl(
        _asked(request, ResourceType, "resource_type"),
        _text(request, "resource_name"),
        _asked(request, AclPatternType, "pattern_type"),
        _text(request, "principal"),
        _text(request, "host"),
        _asked(request, AclOperation, "operation"),
        _asked(request, AclPermission, "permission"),
    )


def new_acl(fields: dict[str, Any]) -> Acl:
    """The rule that a body describes. Raises ApiError."""
    return Acl(
        _certain(ResourceType, fields, "resource_type"),
        text_field(fields, "resource_name"),
        _certain(AclPatternType, fields, "pattern_type"),
        text_field(fields, "principal"),
        text_field(fields, "host"),
        _certain(AclOperation, fields, "operation"),
        _certain(AclPermission, fields, "permission"),
    )


def _asked(request: Request, kind: type[K], name: str) -> K:
    return member_of(kind, request.query_params.get(name) or "ANY", name)


def _text(request: Request, name: str) -> str | None:
    value = request.query_params.get(name)
    if value is not None and len(value.encode()) > MAX_TEXT:
        raise bad(f"{name} is longer than {MAX_TEXT} bytes")
    return value or None


def _certain(kind: type[K], fields: dict[str, Any], name: str) -> K:
    """A member that a rule can have, not one for filters only."""
    value = member_of(kind, text_field(fields, name), name)
    if value.name in ("UNKNOWN", "ANY", "MATCH"):
        raise bad(f"{name} cannot be {value.name}")
    return value


def _filters(required: bool) -> tuple[Query, ...]:
    kinds = {
        "resource_type": ResourceType,
        "pattern_type": AclPatternType,
        "operation": AclOperation,
        "permission": AclPermission,
    }
    return tuple(
        Query(
            name,
            f"The rule's {name.replace('_', ' ')}",
            required=required and name in kinds,
            choices=tuple(kinds[name].__members__) if name in kinds else (),
        )
        for name in FIELDS
    )


_ACLS: Final = f"{CLUSTER}/acls"

OPERATIONS: Final = (
    Operation(
        Description(
            "GET",
            _ACLS,
            "List access rules",
            {200: "KafkaAclList"},
            query=_filters(required=False),
            errors=(404,),
        ),
        list_acls,
        everything=True,
    ),
    Operation(
        Description("POST", _ACLS, "Add an access rule", {201: None}, "CreateAclRequest", errors=(404,)),
        post_acl,
    ),
    Operation(
        Description(
            "DELETE",
            _ACLS,
            "Delete access rules",
            {200: "DeletedAcls"},
            query=_filters(required=True),
            errors=(404,),
        ),
        remove_acls,
    ),
    Operation(
        Description(
            "POST", f"{_ACLS}:batch", "Add access rules", {201: None}, "CreateAclsRequest", errors=(404,)
        ),
        post_acls,
    ),
)
