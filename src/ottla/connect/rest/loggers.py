"""/admin/loggers: the levels of a worker's loggers, and of those of all workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from ottla.connect.core.errors import Refused
from ottla.connect.rest.endpoints import (
    Extent,
    Operation,
    Worker,
    answer,
    config_of,
    json_body,
    nothing,
    path_text,
)


@dataclass(frozen=True, slots=True)
class LoggerRoutes:
    """The family's endpoints."""

    worker: Worker

    def operations(self) -> Sequence[Operation]:
        one = "/admin/loggers/{logger}"
        return (
            Operation("GET", "/admin/loggers", self.loggers, Extent.ALL),
            Operation("GET", one, self.logger, Extent.ALL),
            Operation("PUT", one, self.set_level, Extent.ALL),
        )

    async def loggers(self, _request: Request) -> Response:
        return answer(self.worker.herder.loggers())

    async def logger(self, request: Request) -> Response:
        return answer(self.worker.herder.logger(path_text(request, "logger")))

    async def set_level(self, request: Request) -> Response:
        if request.query_params.get("scope", "worker").lower() == "cluster":
            return await self.worker.on_leader(request, self._set_level_of_all)
        level = await _level(request)
        return answer(self.worker.herder.set_level(path_text(request, "logger"), level))

    async def _set_level_of_all(self, request: Request) -> Response:
        level = await _level(request)
        await self.worker.herder.set_level_of_all(path_text(request, "logger"), level)
        return nothing(204)


async def _level(request: Request) -> str:
    level = config_of(await json_body(request)).get("level")
    if level is None:
        raise Refused(400, "Desired 'level' parameter was not specified in request.")
    return level
