"""Key encryption keys: names of keys of key services, at /dek-registry/v1/keks.

GET    /keks                names; `?subjectPrefix`, `?deleted`, `?offset`, `?limit`
POST   /keks                a new one; `?testSharing`
GET    /keks/K              `?deleted`
PUT    /keks/K              properties, description, sharing; `?testSharing`
DELETE /keks/K              softly; `?permanent`
POST   /keks/K/undelete
POST   /keks/K/test         whether the registry can wrap keys with it

Any caller who may read some subject reads all of these: a producer needs one before its subject has keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ottla.registry.registry import Registry
from ottla.registry.routes.access import (
    ADMIN_KEK,
    READ_SOME,
    WRITE_KEK,
    WRITE_SOME,
    may_read,
    require_all,
    require_name,
)
from ottla.registry.routes.key_bodies import kek_change, kek_name_of, key_page, new_kek
from ottla.registry.routes.operation import Operation, answer
from ottla.registry.routes.parameters import Limits, flag
from ottla.registry.settings import KEK_DEFAULT_LIMIT, KEK_MAX_LIMIT
from ottla.web.access_rules import Action

KEKS: Final = "/dek-registry/v1/keks"
KEK: Final = f"{KEKS}/{{kek}}"


@dataclass(frozen=True, slots=True)
class KekRoutes:
    """The family's endpoints."""

    registry: Registry

    def operations(self) -> Sequence[Operation]:
        return (
            Operation("GET", KEK, self.kek, READ_SOME),
            Operation("GET", KEKS, self.names, READ_SOME),
            Operation("POST", KEKS, self.create, WRITE_SOME, writes=True),
            Operation("PUT", KEK, self.change, ADMIN_KEK, writes=True),
            Operation("DELETE", KEK, self.delete, ADMIN_KEK, writes=True),
            Operation("POST", f"{KEK}/undelete", self.undelete, ADMIN_KEK, writes=True),
            Operation("POST", f"{KEK}/test", self.test, WRITE_KEK),
        )

    async def names(self, request: Request) -> Response:
        settings = self.registry.settings
        limits = Limits(settings[KEK_DEFAULT_LIMIT], settings[KEK_MAX_LIMIT])
        prefixes = request.query_params.getlist("subjectPrefix")
        found = self.registry.keys.reads.kek_names(
            prefixes, flag(request, "deleted"), lambda subject: may_read(request, subject)
        )
        return answer(request, key_page(request, found, limits))

    async def kek(self, request: Request) -> Response:
        found = self.registry.keys.reads.kek(kek_name_of(request), flag(request, "deleted"))
        return answer(request, found.as_json())

    async def create(self, request: Request) -> Response:
        wanted = await new_kek(request, self.registry)
        require_name(request, Action.WRITE, wanted.name)
        if wanted.shared:
            _require_lending(request)
        keys, test_sharing = self.registry.keys, flag(request, "testSharing")
        made = await keys.write(lambda: keys.writes.create_kek(wanted, test_sharing=test_sharing))
        return answer(request, keys.reads.same_kek(made).as_json())

    async def change(self, request: Request) -> Response:
        keys, name, test_sharing = self.registry.keys, kek_name_of(request), flag(request, "testSharing")
        change = await kek_change(request, self.registry, keys.reads.kek(name).kms_type)
        if change.shared is True:
            _require_lending(request)
        changed = await keys.write(lambda: keys.writes.change_kek(name, change, test_sharing=test_sharing))
        return answer(request, keys.reads.same_kek(changed).as_json())

    async def delete(self, request: Request) -> Response:
        keys, name, permanent = self.registry.keys, kek_name_of(request), flag(request, "permanent")
        await keys.write(lambda: keys.writes.delete_kek(name, permanent))
        return Response(status_code=204)

    async def undelete(self, request: Request) -> Response:
        keys, name = self.registry.keys, kek_name_of(request)
        await keys.write(lambda: keys.writes.undelete_kek(name))
        return Response(status_code=204)

    async def test(self, request: Request) -> Response:
        keys = self.registry.keys
        kek = keys.reads.kek(kek_name_of(request))
        keys.writes.test(kek)
        return answer(request, kek.as_json())


def _require_lending(request: Request) -> None:
    """A shared KEK lends the registry's own secret to all who may write subjects: for administrators."""
    require_all(request, Action.ADMIN, "a shared key encryption key")
