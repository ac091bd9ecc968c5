"""Data encryption keys: for each subject and algorithm, versions that a key encryption key wraps.

Below /dek-registry/v1/keks/K:

GET    /deks                     subjects; `?deleted`, `?offset`, `?limit`
POST   /deks, POST /deks/S       a new version; `?rewrap` wraps the key of one anew
GET    /deks/S                   the first version; `?algorithm` and `?deleted` here and below
DELETE /deks/S                   all versions, softly; `?permanent`
POST   /deks/S/undelete
GET    /deks/S/versions
GET, DELETE /deks/S/versions/V, POST …/undelete     the same for one version

Reading a DEK is reading its subject: of a shared KEK, the answer has the key itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ottla.registry.core.keys.model import Dek
from ottla.registry.core.records import Mode
from ottla.registry.registry import Registry
from ottla.registry.routes.access import (
    ADMIN_DEK,
    READ_DEK,
    READ_SOME,
    WRITE_DEK,
    WRITE_SOME,
    key_subject_of,
    may_read,
    require_all,
    require_name,
)
from ottla.registry.routes.keks import KEK
from ottla.registry.routes.key_bodies import algorithm_of, checked_subject, kek_name_of, key_page, new_dek
from ottla.registry.routes.operation import Operation, answer
from ottla.registry.routes.parameters import Limits, flag, version_of
from ottla.registry.settings import (
    DEK_SUBJECT_DEFAULT_LIMIT,
    DEK_SUBJECT_MAX_LIMIT,
    DEK_VERSION_DEFAULT_LIMIT,
    DEK_VERSION_MAX_LIMIT,
)
from ottla.web.access_rules import Action

DEKS: Final = f"{KEK}/deks"
DEK: Final = f"{DEKS}/{{subject}}"
VERSIONS: Final = f"{DEK}/versions"
VERSION: Final = f"{VERSIONS}/{{version}}"
FIRST_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class DekRoutes:
    """The family's endpoints."""

    registry: Registry

    def operations(self) -> Sequence[Operation]:
        return (
            Operation("GET", VERSION, self.version, READ_DEK),
            Operation("GET", DEK, self.first, READ_DEK),
            Operation("GET", VERSIONS, self.versions, READ_DEK),
            Operation("GET", DEKS, self.subjects, READ_SOME),
            Operation("POST", DEK, self.create, WRITE_DEK, writes=True),
            Operation("POST", DEKS, self.create, WRITE_SOME, writes=True),
            Operation("DELETE", DEK, self.delete, ADMIN_DEK, writes=True),
            Operation("DELETE", VERSION, self.delete, ADMIN_DEK, writes=True),
            Operation("POST", f"{DEK}/undelete", self.undelete, ADMIN_DEK, writes=True),
            Operation("POST", f"{VERSION}/undelete", self.undelete, ADMIN_DEK, writes=True),
        )

    async def subjects(self, request: Request) -> Response:
        settings = self.registry.settings
        limits = Limits(settings[DEK_SUBJECT_DEFAULT_LIMIT], settings[DEK_SUBJECT_MAX_LIMIT])
        found = self.registry.keys.reads.subjects(kek_name_of(request), flag(request, "deleted"))
        return answer(request, key_page(request, [one for one in found if may_read(request, one)], limits))

    async def versions(self, request: Request) -> Response:
        settings = self.registry.settings
        limits = Limits(settings[DEK_VERSION_DEFAULT_LIMIT], settings[DEK_VERSION_MAX_LIMIT])
        found = self.registry.keys.reads.versions(
            kek_name_of(request), self._subject(request), algorithm_of(request), flag(request, "deleted")
        )
        return answer(request, key_page(request, [dek.version for dek in found], limits))

    async def first(self, request: Request) -> Response:
        return self._dek(request, FIRST_VERSION)

    async def version(self, request: Request) -> Response:
        return self._dek(request, version_of(request))

    def _dek(self, request: Request, version: int) -> Response:
        reads = self.registry.keys.reads
        name, subject, deleted = kek_name_of(request), self._subject(request), flag(request, "deleted")
        dek = reads.dek(name, subject, version, algorithm_of(request), deleted)
        return answer(request, dek.as_json(reads.key_material(dek)))

    async def create(self, request: Request) -> Response:
        keys, rewrap = self.registry.keys, flag(request, "rewrap")
        subject = self._subject(request) if "subject" in request.path_params else None
        wanted = await new_dek(request, self.registry, kek_name_of(request), subject)
        self._require_making(request, wanted, rewrap=rewrap)
        is_told = self.registry.reads.scoped.mode(wanted.subject) is not Mode.IMPORT
        made = await keys.write(lambda: keys.writes.create_dek(wanted, rewrap=rewrap, told=is_told))
        return answer(request, keys.reads.same_dek(made.dek).as_json(made.key_material))

    def _require_making(self, request: Request, wanted: Dek, *, rewrap: bool) -> None:
        """Raises ApiError 40301.

        A wrapped key that the caller gives to a shared KEK may be another subject's, and would be unwrapped.
        """
        require_name(request, Action.ADMIN if rewrap else Action.WRITE, wanted.subject)
        kek = self.registry.keys.reads.kek(wanted.kek_name, deleted=True)
        if kek.shared and wanted.encrypted_key_material is not None:
            require_all(request, Action.ADMIN, "a wrapped key for a shared key encryption key")

    async def delete(self, request: Request) -> Response:
        keys, name, subject = self.registry.keys, kek_name_of(request), self._subject(request)
        version, algorithm, permanent = _version(request), algorithm_of(request), flag(request, "permanent")
        await keys.write(lambda: keys.writes.delete_dek(name, subject, version, algorithm, permanent))
        return Response(status_code=204)

    async def undelete(self, request: Request) -> Response:
        keys, name, subject = self.registry.keys, kek_name_of(request), self._subject(request)
        version, algorithm = _version(request), algorithm_of(request)
        await keys.write(lambda: keys.writes.undelete_dek(name, subject, version, algorithm))
        return Response(status_code=204)

    def _subject(self, request: Request) -> str:
        return checked_subject(key_subject_of(request, self.registry))


def _version(request: Request) -> int | None:
    """The path's version, None where the path means all."""
    return version_of(request) if "version" in request.path_params else None
