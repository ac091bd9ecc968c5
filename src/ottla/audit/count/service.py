"""`ottla audit count` as a service: counts one cluster, and tells over HTTP how far it is."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ottla.audit import settings as names
from ottla.audit.count.counter import ClusterCounter
from ottla.audit.observing import count_families
from ottla.client.clock import now_ms
from ottla.config.settings import Settings
from ottla.metrics.health import Check, Verdict
from ottla.web.application import json_answer, json_application
from ottla.web.front_settings import FrontOptions
from ottla.web.request_figures import RequestFigures
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed

CLIENT_ID: Final = "ottla-audit-count"
BEHIND_MS: Final = 120_000
"""A counter that has not caught up for so long is not well."""

_log = logging.getLogger("ottla.audit")


class CountService:
    """Satisfies `Service`."""

    name: Final = "audit"

    def __init__(self, settings: Settings) -> None:
        """Raises ServiceError for settings of the client that can't be, ConfigError."""
        settings.warn_of_unknown(_log)
        self.front = FrontOptions.of(settings)
        access = names.access_of(settings, CLIENT_ID)
        self._counter = ClusterCounter(access, names.count_options_of(settings))
        self.app: ASGIApp = json_application([Route("/", self._status)])
        self._task: asyncio.Task[None] | None = None

    def observed(self, figures: RequestFigures) -> Observed:
        """See `Service`."""
        return Observed(
            lambda: count_families(self._counter, now_ms()), [Check("audit-count", self._verdict)]
        )

    async def start(self, address: HttpAddress) -> None:
        """Begin to count. The cluster need not be there yet."""
        self._task = asyncio.create_task(self._counter.run(), name="counting")

    async def failed(self) -> str:
        """See `Service`."""
        assert self._task is not None
        await asyncio.wait([self._task])
        problem = None if self._task.cancelled() else self._task.exception()
        _log.error("counting has ended", exc_info=problem)
        return f"ottla audit count: counting has ended: {problem!r}"

    def end_requests(self) -> None:
        """Nothing to do: no request waits."""

    async def stop(self) -> None:
        """End; what was counted since the last write is counted again by the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _verdict(self) -> Verdict:
        counter = self._counter
        if counter.problem:
            return Verdict(False, counter.problem)
        behind_ms = now_ms() - counter.caught_up_ms
        return Verdict(behind_ms < BEHIND_MS, f"it has seen all of {behind_ms} ms ago")

    async def _status(self, _: Request) -> Response:
        counter = self._counter
        told: dict[str, Any] = {
            "tier": counter.options.tier,
            "counting": "headers" if counter.options.by_header else "records",
            "partitions": counter.partitions,
            "counted": counter.counted,
            "caught_up_ms": counter.caught_up_ms,
            "problem": counter.problem or None,
        }
        return json_answer(told)
