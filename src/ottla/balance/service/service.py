"""`ottla balance serve` as a service."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from starlette.types import ASGIApp

from ottla.balance.service import settings as names
from ottla.balance.service.engine import Engine, EngineOptions
from ottla.balance.service.http_api import HttpApi
from ottla.balance.service.observing import balance_families
from ottla.balance.service.user_tasks import UserTasks
from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.config.settings import Settings
from ottla.metrics.health import Check, Verdict
from ottla.web.errors import ServiceError
from ottla.web.front_settings import FrontOptions
from ottla.web.request_figures import RequestFigures
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed

CLIENT_ID: Final = "ottla-balance"
log = logging.getLogger("ottla.balance")


class BalanceService:
    """Satisfies `Service`."""

    name: Final = "balance"

    def __init__(self, settings: Settings) -> None:
        """Raises ServiceError for settings of the client that can't be, ConfigError."""
        settings.warn_of_unknown(log)
        self.front = FrontOptions.of(settings)
        access = ClusterAccess(
            settings[names.BOOTSTRAP_SERVERS], settings.with_prefix(names.CLIENT_PREFIX), CLIENT_ID
        )
        options = EngineOptions(
            names.rules_of(settings),
            names.reading_of(settings),
            names.running_of(settings),
            names.detector_of(settings),
            names.detected_goals_of(settings),
            names.mended_goals_of(settings),
            names.watched_rules_of(settings),
            settings[names.REMOVED_MS],
            settings[names.DEMOTED_MS],
        )
        try:
            access.require_common_properties()
            self._engine = Engine(access, options)
        except ClientOptionError as problem:
            raise ServiceError(f"ottla balance: the settings client.*: {problem}") from None
        self._tasks = UserTasks()
        self.app: ASGIApp = HttpApi(self._engine, self._tasks).application()
        self._working: asyncio.Task[None] | None = None

    def observed(self, figures: RequestFigures) -> Observed:
        """See `Service`."""
        return Observed(lambda: balance_families(self._engine), [Check("journal", self._verdict)])

    def _verdict(self) -> Verdict:
        problem = self._engine.problem
        return Verdict(problem is None, "the journal is read" if problem is None else problem)

    async def start(self, address: HttpAddress) -> None:
        """Begin to look after executions. The cluster need not be there yet."""
        self._working = asyncio.create_task(self._engine.run(), name="looking after executions")

    async def failed(self) -> str:
        """Wait until the work ends, which is a fault; the reason."""
        assert self._working is not None
        await asyncio.wait([self._working])
        problem = None if self._working.cancelled() else self._working.exception()
        log.error("looking after executions has ended", exc_info=problem)
        return f"ottla balance: looking after executions has ended: {problem!r}"

    def end_requests(self) -> None:
        """Nothing to do: requests wait for a moment at most."""

    async def stop(self) -> None:
        """End the execution under way, and all requests' work."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
        await self._tasks.close()
        await self._engine.close()
