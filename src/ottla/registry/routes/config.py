"""The configuration, compatibility levels above all, of a subject, a context (`:.c:`) or the whole registry.

GET    /config[/S]    `compatibilityLevel`, …; `?defaultToGlobal` looks further where the subject has none.
                      The level stands there as `compatibility` too, where hamba/avro looks for it
PUT    /config[/S]    `compatibility`, …: the fields of the body are changed, the others stay
DELETE /config[/S]    the configuration until now
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ottla.registry.registry import Registry
from ottla.registry.routes.access import ADMIN_ALL, ADMIN_SCOPE, READ_SCOPE, READ_SOME
from ottla.registry.routes.bodies import config_request
from ottla.registry.routes.operation import Operation, answer
from ottla.registry.routes.parameters import flag, optional_subject_of


@dataclass(frozen=True, slots=True)
class ConfigRoutes:
    """The family's endpoints."""

    registry: Registry

    def operations(self) -> Sequence[Operation]:
        return tuple(
            operation
            for path, reading, changing in (
                ("/config", READ_SOME, ADMIN_ALL),
                ("/config/{subject}", READ_SCOPE, ADMIN_SCOPE),
            )
            for operation in (
                Operation("GET", path, self.config, reading),
                Operation("PUT", path, self.set_config, changing, writes=True),
                Operation("DELETE", path, self.delete_config, changing, writes=True),
            )
        )

    async def config(self, request: Request) -> Response:
        subject = optional_subject_of(request)
        return _answer(request, self.registry.reads.config(subject, flag(request, "defaultToGlobal")))

    async def set_config(self, request: Request) -> Response:
        subject = optional_subject_of(request)
        update = await config_request(request, self.registry)
        told = await self.registry.write(lambda: self.registry.writes.set_config(subject, update))
        return answer(request, told)

    async def delete_config(self, request: Request) -> Response:
        subject = optional_subject_of(request)
        told = await self.registry.write(lambda: self.registry.writes.delete_config(subject))
        return _answer(request, told)


def _answer(request: Request, config: Mapping[str, Any]) -> Response:
    level = config.get("compatibilityLevel")
    return answer(request, config if level is None else {**config, "compatibility": level})
