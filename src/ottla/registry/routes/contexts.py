"""Contexts: separate spaces of subjects and ids. Paths below `/contexts/C/` are rewritten in `paths.py`.

GET    /contexts      names; `?contextPrefix`
DELETE /contexts/C    of a context without subjects; 204
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from ottla.registry.core.contexts import DEFAULT_CONTEXT, context_of, in_context
from ottla.registry.registry import Registry
from ottla.registry.routes.access import ADMIN_CONTEXT, READ_SOME, may_read
from ottla.registry.routes.operation import Operation, answer
from ottla.registry.routes.parameters import Limits, page, path_text
from ottla.registry.settings import CONTEXT_DEFAULT_LIMIT, CONTEXT_MAX_LIMIT
from ottla.web.access_rules import Action
from ottla.web.callers import grants_of


@dataclass(frozen=True, slots=True)
class ContextRoutes:
    """The family's endpoints."""

    registry: Registry

    def operations(self) -> Sequence[Operation]:
        return (
            Operation("GET", "/contexts", self.contexts, READ_SOME),
            Operation("DELETE", "/contexts/{context}", self.delete_context, ADMIN_CONTEXT, writes=True),
        )

    async def contexts(self, request: Request) -> Response:
        prefix = request.query_params.get("contextPrefix", "")
        settings = self.registry.settings
        limits = Limits(settings[CONTEXT_DEFAULT_LIMIT], settings[CONTEXT_MAX_LIMIT])
        grants = grants_of(request.scope)
        found = self.registry.reads.contexts(prefix)
        if not grants.allow_all(Action.READ):
            subjects = self.registry.image.subjects()
            seen = {DEFAULT_CONTEXT, *(context_of(name) for name in subjects if may_read(request, name))}
            found = [
                name for name in found if name in seen or grants.allow(Action.READ, in_context(name, ""))
            ]
        return answer(request, page(request, found, limits))

    async def delete_context(self, request: Request) -> Response:
        context = path_text(request, "context").strip(":")
        await self.registry.write(lambda: self.registry.writes.delete_context(context))
        return Response(status_code=204)
