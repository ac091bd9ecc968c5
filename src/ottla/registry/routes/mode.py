"""Whether a subject, a context (`:.c:`) or the whole registry may be written, or is being imported.

GET    /mode[/S]    `?defaultToGlobal` looks further where the subject has none
PUT    /mode[/S]    IMPORT needs a subject without versions, or `?force`
DELETE /mode[/S]    the mode until now; `?recursive` for all subjects of a context
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from ottla.registry.registry import Registry
from ottla.registry.routes.access import ADMIN_ALL, ADMIN_SCOPE, READ_SCOPE, READ_SOME
from ottla.registry.routes.bodies import mode_request
from ottla.registry.routes.operation import Operation, answer
from ottla.registry.routes.parameters import flag, optional_subject_of


@dataclass(frozen=True, slots=True)
class ModeRoutes:
    """The family's endpoints."""

    registry: Registry

    def operations(self) -> Sequence[Operation]:
        return tuple(
            operation
            for path, reading, changing in (
                ("/mode", READ_SOME, ADMIN_ALL),
                ("/mode/{subject}", READ_SCOPE, ADMIN_SCOPE),
            )
            for operation in (
                Operation("GET", path, self.mode, reading),
                Operation("PUT", path, self.set_mode, changing, writes=True),
                Operation("DELETE", path, self.delete_mode, changing, writes=True),
            )
        )

    async def mode(self, request: Request) -> Response:
        subject = optional_subject_of(request)
        return _answer(request, self.registry.reads.mode(subject, flag(request, "defaultToGlobal")))

    async def set_mode(self, request: Request) -> Response:
        subject, force = optional_subject_of(request), flag(request, "force")
        mode = await mode_request(request, self.registry)
        return _answer(
            request, await self.registry.write(lambda: self.registry.writes.set_mode(subject, mode, force))
        )

    async def delete_mode(self, request: Request) -> Response:
        subject, recursive = optional_subject_of(request), flag(request, "recursive")
        return _answer(
            request, await self.registry.write(lambda: self.registry.writes.delete_mode(subject, recursive))
        )


def _answer(request: Request, mode: str) -> Response:
    return answer(request, {"mode": mode})
