"""Associations of resources (topics) with the subjects of their keys and values.

GET    /associations/subjects/S           those of a subject; `?resourceType`, `associationType`, `lifecycle`
GET    /associations/resources/NS/N       those of the resources of a name; `-` for all names, or namespaces
GET    /associations/resources/I          those of the resource with an id
POST   /associations                      make them, strong ones with schemas; `?context`, `?dryRun`
PUT    /associations/resources/I          make or change weak ones
DELETE /associations/resources/I          forget them; `?cascadeLifecycle`: strong ones and their subjects too
POST   /associations:batchGet             several questions at once; `?includeSchemas`
POST   /associations:batchMutate          several changes, each on its own: CREATE, UPSERT, DELETE

A change with schemas is several writes: the schemas first, then the associations. One that was cut off in
between is finished by the same request, sent again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ottla.registry.core.associations import ResourceRequest, Wanted
from ottla.registry.core.contexts import DEFAULT_CONTEXT
from ottla.registry.core.failures import invalid_association
from ottla.registry.core.image import StoredSchema
from ottla.registry.core.records import Association, Lifecycle
from ottla.registry.registry import Registry
from ottla.registry.routes.access import ADMIN_ALL, READ_SOME, READ_SUBJECT, may_read
from ottla.registry.routes.answers import version_answer
from ottla.registry.routes.association_bodies import (
    ResourceBody,
    association_request,
    batch_request,
    get_request,
)
from ottla.registry.routes.operation import Operation, answer
from ottla.registry.routes.parameters import Limits, flag, page, path_text, subject_of
from ottla.registry.settings import SEARCH_DEFAULT_LIMIT, SEARCH_MAX_LIMIT
from ottla.web.bodies import hung_up
from ottla.web.errors import ApiError

MULTI_STATUS = 207
"""Of a batch, each of whose answers may be an error."""


@dataclass(frozen=True, slots=True)
class AssociationRoutes:
    """The family's endpoints."""

    registry: Registry

    def operations(self) -> Sequence[Operation]:
        resource = "/associations/resources/{resource_id}"
        return (
            Operation("GET", "/associations/subjects/{subject}", self.of_subject, READ_SUBJECT),
            Operation("GET", "/associations/resources/{namespace}/{name}", self.of_name, READ_SOME),
            Operation("GET", resource, self.of_resource, READ_SOME),
            Operation("POST", "/associations", self.create, ADMIN_ALL, writes=True),
            Operation("PUT", resource, self.upsert, ADMIN_ALL, writes=True),
            Operation("DELETE", resource, self.delete, ADMIN_ALL, writes=True),
            Operation("POST", "/associations:batchGet", self.batch_get, READ_SOME),
            Operation("POST", "/associations:batchMutate", self.batch_mutate, ADMIN_ALL, writes=True),
        )

    # -- reads ----------------------------------------------------------------------------------------

    async def of_subject(self, request: Request) -> Response:
        found = self.registry.writes.associations.of_subject(subject_of(request), *_filter(request))
        return self._listed(request, found)

    async def of_name(self, request: Request) -> Response:
        name, namespace = path_text(request, "name"), path_text(request, "namespace")
        return self._listed(
            request, self.registry.writes.associations.of_name(name, namespace, *_filter(request))
        )

    async def of_resource(self, request: Request) -> Response:
        resource_id = path_text(request, "resource_id")
        return self._listed(
            request, self.registry.writes.associations.of_resource(resource_id, *_filter(request))
        )

    async def batch_get(self, request: Request) -> Response:
        results: list[dict[str, Any]] = []
        for asked in await get_request(request, self.registry):
            reads = self.registry.writes.associations
            narrowed = (asked.resource_type, asked.types, asked.lifecycle)
            if asked.resource_id:
                found = reads.of_resource(asked.resource_id, *narrowed)
            else:
                found = reads.of_name(asked.name, asked.namespace, *narrowed)
            found = [one for one in found if may_read(request, one.subject)]
            schemas: dict[str, StoredSchema] = {}
            if flag(request, "includeSchemas"):
                for one in found:
                    latest = self.registry.reads.latest(one.subject)
                    if latest is not None:
                        schemas[one.association_type] = latest
            results.append({"result": _resource(asked, found, schemas)})
        return answer(request, {"results": results}, MULTI_STATUS)

    def _listed(self, request: Request, found: Sequence[Association]) -> Response:
        settings = self.registry.settings
        limits = Limits(settings[SEARCH_DEFAULT_LIMIT], settings[SEARCH_MAX_LIMIT])
        seen = [one for one in found if may_read(request, one.subject)]
        return answer(request, [one.as_json() for one in page(request, seen, limits)])

    # -- writes ---------------------------------------------------------------------------------------

    async def create(self, request: Request) -> Response:
        body = await association_request(request, self.registry)
        return answer(request, await self._associated(request, body, body.wanted, creates=True))

    async def upsert(self, request: Request) -> Response:
        resource_id = path_text(request, "resource_id")
        body = await association_request(request, self.registry, resource_id)
        if body.resource_id != resource_id:
            raise invalid_association("resourceId", "differs between the path and the request's body")
        return answer(request, await self._associated(request, body, body.wanted, creates=False))

    async def delete(self, request: Request) -> Response:
        resource_id = path_text(request, "resource_id")
        resource_type, types, _ = _filter(request)
        await self._deleted(request, resource_id, resource_type, types, flag(request, "cascadeLifecycle"))
        return Response(status_code=204)

    async def batch_mutate(self, request: Request) -> Response:
        results: list[dict[str, Any]] = []
        for body, operations in await batch_request(request, self.registry):
            try:
                for kind, wanted in operations:
                    if kind == "DELETE":
                        types, cascades = (wanted[0].type,), bool(wanted[0].frozen)
                        await self._deleted(request, body.resource_id, body.resource_type, types, cascades)
                    else:
                        await self._associated(request, body, wanted, creates=kind == "CREATE")
                found = self.registry.writes.associations.of_resource(body.resource_id, body.resource_type)
                results.append({"result": _resource(body, found, {})})
            except ApiError as refused:
                results.append({"error": {"error_code": refused.error_code, "message": refused.message}})
        return answer(request, {"results": results}, MULTI_STATUS)

    async def _associated(
        self, request: Request, body: ResourceBody, wanted: Sequence[Wanted], *, creates: bool
    ) -> dict[str, Any]:
        """Register the schemas, then make or change the associations; the answer about the resource."""
        registry, gone = self.registry, partial(hung_up, request)
        context = request.query_params.get("context", DEFAULT_CONTEXT).strip(":") or DEFAULT_CONTEXT
        plan = ResourceRequest(body.name, body.namespace, body.resource_id, tuple(wanted), creates, context)
        associations = registry.writes.associations
        checked = await registry.consider(lambda: associations.checked(plan), gone)
        if flag(request, "dryRun"):
            return _resource(body, (), {})
        if not body.resource_id:
            raise invalid_association("resourceId", "cannot be null or empty")
        schemas: dict[str, StoredSchema] = {}
        for one in checked:
            if one.schema is not None and one.subject is not None:
                schemas[one.type] = await registry.write(
                    partial(registry.writes.register, one.subject, one.schema, one.normalize), gone
                )
        guids = [str(uuid.uuid4()) for _ in wanted]
        done = await registry.write(lambda: registry.writes.associations.associate(plan, guids), gone)
        return _resource(body, done, schemas)

    async def _deleted(
        self, request: Request, resource_id: str, resource_type: str, types: Sequence[str], cascades: bool
    ) -> None:
        """The subjects first: a deletion that was cut off is finished by the same request, sent again."""
        registry = self.registry
        found = registry.writes.associations.deletable(resource_id, resource_type, types, cascades)
        if flag(request, "dryRun"):
            return
        for one in found:
            if cascades and one.lifecycle is Lifecycle.STRONG:
                for permanent in (False, True):
                    if registry.reads.has_versions(one.subject, deleted=permanent):
                        await registry.write(
                            partial(registry.writes.delete_subject, one.subject, permanent, associated=True)
                        )
            await registry.write(partial(registry.writes.associations.delete, one))


def _filter(request: Request) -> tuple[str, Sequence[str], str]:
    """`?resourceType`, `associationType` and `lifecycle`. 42212."""
    query = request.query_params
    lifecycle = query.get("lifecycle", "")
    if lifecycle and lifecycle not in Lifecycle.__members__:
        raise invalid_association("lifecycle", "must be either 'STRONG' or 'WEAK'")
    return query.get("resourceType", ""), query.getlist("associationType"), lifecycle


def _resource(
    body: ResourceBody, found: Iterable[Association], schemas: Mapping[str, StoredSchema]
) -> dict[str, Any]:
    """The answer about one resource: its associations, with the schemas of their types."""
    told: list[dict[str, Any]] = []
    for one in found:
        each: dict[str, Any] = {
            "subject": one.subject,
            "associationType": one.association_type,
            "lifecycle": one.lifecycle,
            "frozen": one.is_frozen,
        }
        stored = schemas.get(one.association_type)
        if stored is not None:
            each["schema"] = version_answer(stored, stored.schema)
        told.append(each)
    named = {
        "resourceName": body.name,
        "resourceNamespace": body.namespace,
        "resourceId": body.resource_id,
        "resourceType": body.resource_type,
    }
    return {**{name: value for name, value in named.items() if value}, "associations": told}
