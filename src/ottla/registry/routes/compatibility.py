"""Whether a schema could be registered.

POST /compatibility/subjects/S/versions      by the subject's level: against its last version, or all of them
POST /compatibility/subjects/S/versions/V    against one version

Both are reads. With `?verbose` the answer says why not, also for an invalid schema (42201 otherwise).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ottla.registry.registry import Registry
from ottla.registry.routes.access import READ_SUBJECT, require_references
from ottla.registry.routes.bodies import schema_request
from ottla.registry.routes.operation import Operation, answer
from ottla.registry.routes.parameters import flag, subject_of, version_of
from ottla.web.bodies import hung_up
from ottla.web.errors import ApiError

INVALID_SCHEMA = 42201


@dataclass(frozen=True, slots=True)
class CompatibilityRoutes:
    """The family's endpoints."""

    registry: Registry

    def operations(self) -> Sequence[Operation]:
        versions = "/compatibility/subjects/{subject}/versions"
        return (
            Operation("POST", versions, self.with_level, READ_SUBJECT),
            Operation("POST", f"{versions}/{{version}}", self.with_version, READ_SUBJECT),
        )

    async def with_level(self, request: Request) -> Response:
        return await self._check(request, None)

    async def with_version(self, request: Request) -> Response:
        return await self._check(request, version_of(request))

    async def _check(self, request: Request, version: int | None) -> Response:
        subject, normalize = subject_of(request), flag(request, "normalize")
        verbose = flag(request, "verbose")
        wanted = await schema_request(request, self.registry)
        require_references(request, self.registry, subject, wanted)
        try:
            problems = await self.registry.consider(
                lambda: self.registry.reads.incompatibilities(subject, version, wanted, normalize),
                partial(hung_up, request),
            )
        except ApiError as error:
            if not verbose or error.error_code != INVALID_SCHEMA:
                raise
            problems = [error.message]
        told: dict[str, Any] = {"is_compatible": not problems}
        if verbose:
            told["messages"] = problems
        return answer(request, told)
