"""`ottla audit serve` as a service: follows the audit of some clusters, shows it, and tells of losses."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from ottla.audit import settings as names
from ottla.audit.core.book import Book
from ottla.audit.core.rows import Row, rounded_percent, row_fields
from ottla.audit.core.trend import trend_fields, trends_of_tier
from ottla.audit.core.view import KEPT_ROWS_MS, AuditView
from ottla.audit.following import Follower, ensure_topics
from ottla.audit.observing import serve_families
from ottla.audit.serve.alerting import Alerting
from ottla.audit.serve.page import DEFAULT_SPAN, Asked, body_of, span_of
from ottla.client.access import ClusterAccess
from ottla.client.clock import now_ms
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError
from ottla.config.settings import Settings
from ottla.metrics.health import Check, Verdict
from ottla.protocol.errors import ProtocolError
from ottla.web.application import json_answer, json_application
from ottla.web.errors import ApiError
from ottla.web.front_settings import FrontOptions
from ottla.web.page_frame import Link, asset_routes, page
from ottla.web.request_figures import RequestFigures
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed

CLIENT_ID: Final = "ottla-audit"
REFRESH_SECONDS: Final = 0.5
BEAT_SECONDS: Final = 15.0
PAUSE_SECONDS: Final = 1.0
MOST_ROWS: Final = 10_000
MOST_LISTENERS: Final = 1_000

_log = logging.getLogger("ottla.audit")


class ServeService:
    """Satisfies `Service`."""

    name: Final = "audit"

    def __init__(self, settings: Settings) -> None:
        """Raises ServiceError for settings of the client that can't be, ConfigError."""
        settings.warn_of_unknown(_log)
        self.front = FrontOptions.of(settings)
        access = names.access_of(settings, CLIENT_ID)
        also = settings[names.ALSO]
        self._accesses = [access, *(replace(access, bootstrap=one) for one in also.split(";") if one)]
        self._book = Book(settings[names.LATENESS_MS])
        self._view = AuditView()
        self._alerting = Alerting(settings[names.ALERT_URL], names.mail_of(settings))
        self._problems: dict[str, str] = {one.bootstrap: "it starts" for one in self._accesses}
        self._changed = asyncio.Event()
        self._listeners: set[asyncio.Event] = set()
        self._is_ending = False
        self._tasks: list[asyncio.Task[None]] = []
        self.app: ASGIApp = json_application(
            [
                Route("/", self._page),
                Route("/events", self._events),
                Route("/api/tiers", self._api_tiers),
                Route("/api/rows", self._api_rows),
                *asset_routes(),
            ]
        )

    # -- life ------------------------------------------------------------------------------------------------

    def observed(self, figures: RequestFigures) -> Observed:
        """See `Service`."""
        return Observed(lambda: serve_families(self._view, now_ms()), [Check("audit", self._verdict)])

    async def start(self, address: HttpAddress) -> None:
        """Begin to follow. The clusters need not be there yet."""
        self._book.forget(now_ms() - KEPT_ROWS_MS)
        work = [self._follow(access) for access in self._accesses]
        self._tasks = [
            asyncio.create_task(one, name="following")
            for one in (*work, self._refresh(), self._alerting.run())
        ]

    async def failed(self) -> str:
        """See `Service`."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        task = done.pop()
        problem = None if task.cancelled() else task.exception()
        _log.error("%s has ended", task.get_name(), exc_info=problem)
        return f"ottla audit serve: {task.get_name()} has ended: {problem!r}"

    def end_requests(self) -> None:
        """End the streams of events."""
        self._is_ending = True
        for listener in self._listeners:
            listener.set()

    async def stop(self) -> None:
        """See `Service`."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, access: ClusterAccess) -> None:
        """Follow one cluster for ever; what was read twice after a break changes nothing."""
        while True:
            cluster = ClusterRequests(access)
            try:
                with contextlib.suppress(ClusterError):  # who may only read sees what is there
                    await ensure_topics(cluster)
                follower = Follower(cluster, access, self._book)
                await follower.load()
                self._problems[access.bootstrap] = ""
                self._changed.set()
                await follower.follow(self._changed.set)
            except (ClusterError, ProtocolError) as problem:
                self._problems[access.bootstrap] = str(problem)
                _log.warning("the audit at %s can't be read now: %s", access.bootstrap, problem)
            finally:
                await cluster.close()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _refresh(self) -> None:
        """Take over what has changed, and tell those who listen."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            version = self._view.version
            rows = self._view.refresh(self._book, now_ms())
            if not any(self._problems.values()):
                self._alerting.judge(rows)
                self._alerting.forget(now_ms() - KEPT_ROWS_MS)
            if self._view.version != version:
                for listener in self._listeners:
                    listener.set()
            await asyncio.sleep(REFRESH_SECONDS)

    def _verdict(self) -> Verdict:
        problems = [f"{where}: {problem}" for where, problem in self._problems.items() if problem]
        return Verdict(not problems, "; ".join(problems) or f"{self._alerting.open} buckets are incomplete")

    # -- answers ---------------------------------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        asked = _asked(request)
        body = body_of(self._view, asked, now_ms(), self._book.caught_up_ms)
        return page("Audit", body, [Link("/", "Audit", is_current=True)], live="/events")

    async def _events(self, request: Request) -> Response:
        if len(self._listeners) >= MOST_LISTENERS:
            raise ApiError(503, 50301, "too many listen to events")
        headers = {"cache-control": "no-store", "content-encoding": "identity"}
        return StreamingResponse(self._stream(), media_type="text/event-stream", headers=headers)

    async def _stream(self) -> AsyncIterator[bytes]:
        listener = asyncio.Event()
        self._listeners.add(listener)
        try:
            yield b"retry: 2000\n\n"
            while not self._is_ending:
                try:
                    await asyncio.wait_for(listener.wait(), BEAT_SECONDS)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                listener.clear()
                if not self._is_ending:
                    yield f"event: changed\ndata: {self._view.version}\n\n".encode()
        finally:
            self._listeners.discard(listener)

    async def _api_tiers(self, request: Request) -> Response:
        span = span_of(request.query_params.get("range", DEFAULT_SPAN.name))
        since_ms = now_ms() - span.length_ms
        told: list[dict[str, Any]] = []
        for tier in self._view.tiers():
            steps = self._view.of_tier(tier, span.step_ms, since_ms)
            told.append(
                {
                    "tier": tier,
                    "caught_up_ms": self._book.caught_up_ms.get(tier),
                    "trend": trend_fields(trends_of_tier(self._view, tier, now_ms())),
                    "steps": [
                        {
                            "start_ms": start_ms,
                            "sent": sums.sent,
                            "counted": sums.counted,
                            "lost": sums.lost,
                            "doubled": sums.doubled,
                            "late": sums.late,
                            "percent": rounded_percent(sums.percent),
                        }
                        for start_ms, sums in sorted(steps.items())
                    ],
                }
            )
        return json_answer(told)

    async def _api_rows(self, request: Request) -> Response:
        asked = request.query_params
        since_ms = _number(asked.get("since_ms"), 0)
        rows: list[Row] = []
        for place in sorted(self._view.places(asked.get("tier"))):
            if asked.get("topic") in (None, place.topic):
                rows += self._view.rows_of(place, since_ms)
            if len(rows) > MOST_ROWS:
                break
        details = asked.get("details") == "true"
        return json_answer([row_fields(row, details=details) for row in rows[:MOST_ROWS]])


def _asked(request: Request) -> Asked:
    """Raises ApiError."""
    fields = request.query_params
    bucket = fields.get("bucket")
    return Asked(
        span_of(fields.get("range", DEFAULT_SPAN.name)),
        fields.get("tier", ""),
        fields.get("topic", ""),
        None if bucket is None else _number(bucket, 0),
        fields.get("q", "")[:249],
    )


def _number(text: str | None, default: int) -> int:
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise ApiError(400, 40001, f"{text[:40]!r} is not a number of milliseconds")
    return int(text)
