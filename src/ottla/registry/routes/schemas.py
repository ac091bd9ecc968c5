"""Schemas, by their ids and over all subjects.

GET /schemas                        versions, at most `schema.search.max.limit` at a time
GET /schemas/types                  the formats
GET /schemas/ids/I[/schema]         a schema; its text alone. `?subject` gives the context of the id, and adds
                                    subject and version to the answer; `?fetchMaxId` adds the highest id,
                                    `?findTags` the entities with tags
GET /schemas/ids/I/subjects         names that have a version of this id
GET /schemas/ids/I/versions         the same with versions
GET /schemas/guids/G[/ids]          a schema by its guid; its id in each context
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ottla.registry.core.contexts import context_of
from ottla.registry.core.failures import schema_not_found
from ottla.registry.core.image import StoredSchema
from ottla.registry.registry import Registry
from ottla.registry.routes.access import ANYBODY, READ_SOME, may_read, readable
from ottla.registry.routes.answers import formatted, found_tags, id_answer, version_answer
from ottla.registry.routes.operation import Operation, answer, text_answer
from ottla.registry.routes.parameters import Limits, flag, id_of, page, path_text, query_subject
from ottla.registry.settings import SEARCH_DEFAULT_LIMIT, SEARCH_MAX_LIMIT
from ottla.schemas.model import SchemaType

BY_ID: Final = "/schemas/ids/{id}"


@dataclass(frozen=True, slots=True)
class SchemaRoutes:
    """The family's endpoints."""

    registry: Registry

    def operations(self) -> Sequence[Operation]:
        one = BY_ID
        return (
            Operation("GET", one, self.by_id, READ_SOME),
            Operation("GET", f"{one}/schema", self.text_by_id, READ_SOME),
            Operation("GET", f"{one}/subjects", self.subjects_of_id, READ_SOME),
            Operation("GET", f"{one}/versions", self.versions_of_id, READ_SOME),
            Operation("GET", "/schemas", self.schemas, READ_SOME),
            Operation("GET", "/schemas/types", self.types, ANYBODY),
            Operation("GET", "/schemas/guids/{guid}", self.by_guid, READ_SOME),
            Operation("GET", "/schemas/guids/{guid}/ids", self.ids_of_guid, READ_SOME),
        )

    async def schemas(self, request: Request) -> Response:
        query = request.query_params
        aliases = flag(request, "aliases")
        found = self.registry.reads.schemas(
            query.get("subjectPrefix", ""),
            aliases,
            flag(request, "deleted"),
            flag(request, "latestOnly"),
            query.get("ruleType") or None,
        )
        settings = self.registry.settings
        limits = Limits(settings[SEARCH_DEFAULT_LIMIT], settings[SEARCH_MAX_LIMIT])
        answers: list[dict[str, Any]] = []
        seen = [each for each in found if may_read(request, each[0].subject)]
        for stored, names in page(request, seen, limits):
            told = version_answer(stored, stored.schema)
            if aliases:
                told["aliases"] = [name for name in names if may_read(request, name)]
            answers.append(told)
        return answer(request, answers)

    async def types(self, request: Request) -> Response:
        return answer(request, [SchemaType.JSON, SchemaType.PROTOBUF, SchemaType.AVRO])

    async def by_id(self, request: Request) -> Response:
        subject = query_subject(request)
        stored = self._stored(request)
        told = id_answer(stored, await formatted(request, self.registry, stored))
        if subject is not None:
            told = {"subject": stored.subject, "version": stored.version, "id": stored.id, **told}
        if flag(request, "fetchMaxId"):
            told["maxId"] = self.registry.reads.max_id(context_of(subject or ""))
        return answer(request, told | await found_tags(request, self.registry, stored))

    async def text_by_id(self, request: Request) -> Response:
        schema = await formatted(request, self.registry, self._stored(request))
        return text_answer(request, schema.text)

    async def subjects_of_id(self, request: Request) -> Response:
        names = dict.fromkeys(stored.subject for stored in self._uses(request))
        return answer(request, page(request, list(names)))

    async def versions_of_id(self, request: Request) -> Response:
        pairs = [{"subject": stored.subject, "version": stored.version} for stored in self._uses(request)]
        return answer(request, page(request, pairs))

    async def by_guid(self, request: Request) -> Response:
        stored = self._of_guid(request, path_text(request, "guid"))
        return answer(request, id_answer(stored, await formatted(request, self.registry, stored)))

    async def ids_of_guid(self, request: Request) -> Response:
        guid = path_text(request, "guid")
        self._of_guid(request, guid)
        found = [
            {"context": context, "id": schema_id}
            for context, schema_id in self.registry.reads.ids_of_guid(guid)
            if self._seen(request, context, schema_id)
        ]
        return answer(request, found)

    def _of_guid(self, request: Request, guid: str) -> StoredSchema:
        """A version of the schema that the caller may read. 40403."""
        stored = self.registry.reads.by_guid(guid)
        if may_read(request, stored.subject):
            return stored
        for context, schema_id in self.registry.reads.ids_of_guid(guid):
            for other in self._seen(request, context, schema_id):
                if other.schema.guid == stored.schema.guid:
                    return other
        raise schema_not_found(guid)

    def _seen(self, request: Request, context: str, schema_id: int) -> list[StoredSchema]:
        """The versions of an id whose subjects the caller may read."""
        uses = self.registry.image.uses(context, schema_id)
        return [one for one in uses if may_read(request, one.subject)]

    def _stored(self, request: Request) -> StoredSchema:
        found = self.registry.reads.by_id(id_of(request), query_subject(request))
        return readable(request, self.registry, found)

    def _uses(self, request: Request) -> Sequence[StoredSchema]:
        self._stored(request)
        found = self.registry.reads.uses_of_id(
            id_of(request), query_subject(request), flag(request, "deleted")
        )
        return [one for one in found if may_read(request, one.subject)]
