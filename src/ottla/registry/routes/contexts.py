"""Contexts: separate spaces of subjects and ids. Paths below `/contexts/C/` are rewritten in `paths.py`.

GET    /contexts      names; `?contextPrefix`
DELETE /contexts/C    of a context without subjects; 204
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from ottla.registry.registry import Registry
from ottla.registry.routes.operation import Operation, answer
from ottla.registry.routes.parameters import Limits, page, path_text
from ottla.registry.settings import CONTEXT_DEFAULT_LIMIT, CONTEXT_MAX_LIMIT


@dataclass(frozen=True, slots=True)
class ContextRoutes:
    """The family's endpoints."""

    registry: Registry

    def operations(self) -> Sequence[Operation]:
        return (
            Operation("GET", "/contexts", self.contexts),
            Operation("DELETE", "/contexts/{context}", self.delete_context, writes=True),
        )

    async def contexts(self, request: Request) -> Response:
        prefix = request.query_params.get("contextPrefix", "")
        settings = self.registry.settings
        limits = Limits(settings[CONTEXT_DEFAULT_LIMIT], settings[CONTEXT_MAX_LIMIT])
        return answer(request, page(request, self.registry.reads.contexts(prefix), limits))

    async def delete_context(self, request: Request) -> Response:
        context = path_text(request, "context").strip(":")
        await self.registry.write(lambda: self.registry.writes.delete_context(context))
        return Response(status_code=204)
