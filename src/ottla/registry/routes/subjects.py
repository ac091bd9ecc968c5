"""Subjects and their versions.

GET    /subjects                              names; without a prefix, those of all contexts
POST   /subjects/S                            under which version is this schema registered (a read)
DELETE /subjects/S                            numbers of the deleted versions
GET    /subjects/S/metadata                   the newest version with these properties (`key` and `value`)
GET    /subjects/S/versions                   numbers; with `deletedAsNegative` the deleted ones are negative
POST   /subjects/S/versions                   register; any instance answers for a schema that is there. With
                                              `force` whatever its compatibility
GET    /subjects/S/versions/V[/schema]        a version; its text alone. `findTags` adds entities with tags
DELETE /subjects/S/versions/V                 the number of the deleted version
GET    /subjects/S/versions/V/referencedby    ids of the schemas that refer to it
POST   /subjects/S/versions/V/tags            register it again with other tags
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from ottla.registry.core.contexts import ALL_CONTEXTS
from ottla.registry.core.image import StoredSchema
from ottla.registry.core.reading import SchemaRequest
from ottla.registry.forwarding import on_primary
from ottla.registry.registry import Registry
from ottla.registry.routes.access import (
    ADMIN_SUBJECT,
    READ_SOME,
    READ_SUBJECT,
    WRITE_SUBJECT,
    may_read,
    require_references,
)
from ottla.registry.routes.answers import formatted, found_tags, registered_answer, version_answer
from ottla.registry.routes.bodies import reread, schema_request, tag_request
from ottla.registry.routes.operation import Operation, answer, text_answer
from ottla.registry.routes.parameters import Limits, flag, page, shown, subject_of, version_of
from ottla.registry.settings import (
    SUBJECT_DEFAULT_LIMIT,
    SUBJECT_MAX_LIMIT,
    SUBJECT_VERSION_DEFAULT_LIMIT,
    SUBJECT_VERSION_MAX_LIMIT,
)
from ottla.web.bodies import hung_up
from ottla.web.errors import ApiError


@dataclass(frozen=True, slots=True)
class SubjectRoutes:
    """The family's endpoints."""

    registry: Registry

    def operations(self) -> Sequence[Operation]:
        subject = "/subjects/{subject}"
        versions = f"{subject}/versions"
        version = f"{versions}/{{version}}"
        return (
            Operation("POST", subject, self.look_up, READ_SUBJECT),
            Operation("POST", versions, self.register, WRITE_SUBJECT),
            Operation("GET", version, self.version, READ_SUBJECT),
            Operation("GET", versions, self.versions, READ_SUBJECT),
            Operation("GET", "/subjects", self.subjects, READ_SOME),
            Operation("GET", f"{version}/schema", self.text, READ_SUBJECT),
            Operation("GET", f"{version}/referencedby", self.referenced_by, READ_SUBJECT),
            Operation("GET", f"{subject}/metadata", self.latest_with_metadata, READ_SUBJECT),
            Operation("DELETE", version, self.delete_version, ADMIN_SUBJECT, writes=True),
            Operation("DELETE", subject, self.delete_subject, ADMIN_SUBJECT, writes=True),
            Operation("POST", f"{version}/tags", self.change_tags, WRITE_SUBJECT, writes=True),
        )

    async def subjects(self, request: Request) -> Response:
        prefix = request.query_params.get("subjectPrefix", ALL_CONTEXTS)
        settings = self.registry.settings
        limits = Limits(settings[SUBJECT_DEFAULT_LIMIT], settings[SUBJECT_MAX_LIMIT])
        found = self.registry.reads.subjects(prefix, shown(request))
        return answer(request, page(request, [name for name in found if may_read(request, name)], limits))

    async def look_up(self, request: Request) -> Response:
        wanted = await schema_request(request, self.registry)
        normalize, deleted = flag(request, "normalize"), flag(request, "deleted")
        subject = subject_of(request)
        require_references(request, self.registry, subject, wanted)
        found = await self.registry.consider(
            lambda: self.registry.reads.lookup(subject, wanted, normalize, deleted),
            partial(hung_up, request),
        )
        return await self._version(request, found)

    async def delete_subject(self, request: Request) -> Response:
        subject, permanent = subject_of(request), flag(request, "permanent")
        deleted = await self.registry.write(lambda: self.registry.writes.delete_subject(subject, permanent))
        return answer(request, list(deleted))

    async def latest_with_metadata(self, request: Request) -> Response:
        query = request.query_params
        properties = dict(zip(query.getlist("key"), query.getlist("value"), strict=False))
        deleted = flag(request, "deleted")
        return await self._version(
            request, self.registry.reads.latest_with_metadata(subject_of(request), properties, deleted)
        )

    async def versions(self, request: Request) -> Response:
        negative = flag(request, "deletedAsNegative")
        found = self.registry.reads.versions(subject_of(request), shown(request), negative)
        settings = self.registry.settings
        limits = Limits(settings[SUBJECT_VERSION_DEFAULT_LIMIT], settings[SUBJECT_VERSION_MAX_LIMIT])
        return answer(request, page(request, found, limits))

    async def register(self, request: Request) -> Response:
        """Producers register known schemas whenever they start: that needs neither primary nor topic."""
        if self.registry.is_primary and self.registry.state.problem is None:
            return await self._register(request)
        request = await reread(request, self.registry)
        found = await self._registered_already(request)
        if found is not None:
            return await self._registered(request, found)
        return await on_primary(self.registry, self._register)(request)

    async def _register(self, request: Request) -> Response:
        subject, normalize, force = subject_of(request), flag(request, "normalize"), flag(request, "force")
        wanted = await schema_request(request, self.registry)
        require_references(request, self.registry, subject, wanted)
        stored = await self.registry.write(
            lambda: self.registry.writes.register(subject, wanted, normalize, force),
            partial(hung_up, request),
        )
        return await self._registered(request, stored)

    async def _registered_already(self, request: Request) -> StoredSchema | None:
        """The version, if this instance has it. A request with any fault is left to the primary to refuse."""
        try:
            subject = subject_of(request)
            wanted = await schema_request(request, self.registry)
            if wanted != SchemaRequest(wanted.schema):
                return None
            require_references(request, self.registry, subject, wanted)
            normalize = flag(request, "normalize")
            found = await self.registry.consider(
                lambda: self.registry.reads.lookup(subject, wanted, normalize),
                partial(hung_up, request),
            )
        except ApiError:
            return None
        return found if found.subject == subject else None

    async def version(self, request: Request) -> Response:
        stored = self._stored(request)
        told = version_answer(stored, await formatted(request, self.registry, stored))
        return answer(request, told | await found_tags(request, self.registry, stored))

    async def text(self, request: Request) -> Response:
        schema = await formatted(request, self.registry, self._stored(request))
        return text_answer(request, schema.text)

    async def delete_version(self, request: Request) -> Response:
        subject, version, permanent = subject_of(request), version_of(request), flag(request, "permanent")
        deleted = await self.registry.write(
            lambda: self.registry.writes.delete_version(subject, version, permanent)
        )
        return answer(request, deleted)

    async def referenced_by(self, request: Request) -> Response:
        version, deleted = version_of(request), flag(request, "deleted")
        found = self.registry.reads.referenced_by(subject_of(request), version, deleted)
        return answer(request, page(request, found))

    async def change_tags(self, request: Request) -> Response:
        subject, version = subject_of(request), version_of(request)
        wanted = await tag_request(request, self.registry)
        stored = await self.registry.write(
            lambda: self.registry.writes.change_tags(subject, version, wanted), partial(hung_up, request)
        )
        return answer(request, registered_answer(stored, stored.schema))

    def _stored(self, request: Request) -> StoredSchema:
        deleted = flag(request, "deleted")
        return self.registry.reads.version(subject_of(request), version_of(request), deleted)

    async def _registered(self, request: Request, stored: StoredSchema) -> Response:
        return answer(request, registered_answer(stored, await formatted(request, self.registry, stored)))

    async def _version(self, request: Request, stored: StoredSchema) -> Response:
        return answer(request, version_answer(stored, await formatted(request, self.registry, stored)))
