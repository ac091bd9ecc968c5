"""`ottla mirror FILE` as a service: a worker of Connect for each flow, behind one address.

The paths are those of MirrorMaker 2's internal REST: Connect's API of a flow's worker is under
`/SOURCE/TARGET/`, names percent-encoded; `/` tells the flows. Several copies of the process share the tasks
of each flow, as workers of a group do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

import ottla
from ottla.config.settings import Settings
from ottla.connect import settings as worker_settings
from ottla.connect.observed import connect_families
from ottla.connect.rest.connectors import is_signed
from ottla.connect.served_workers import GroupWorker
from ottla.metrics.exposition import Family, Labels, Sample
from ottla.metrics.health import Check, Verdict
from ottla.metrics.metric import Metric
from ottla.mirror.run.flows import FlowPlan
from ottla.mirror.run.worker_life import WorkerLife
from ottla.replicated.background import BackgroundTasks
from ottla.web.front_settings import FrontOptions
from ottla.web.request_figures import RequestFigures
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed

CONNECTOR: Final = "connector"
FIRST_TRY_SECONDS: Final = 90.0

log = logging.getLogger("ottla.mirror")


class MirrorService:
    """Satisfies `Service`."""

    name = "mirror"

    def __init__(self, settings: Settings, plans: Sequence[FlowPlan]) -> None:
        """settings: of the program. Raises ConfigError."""
        self._settings = settings
        self._plans = plans
        front = FrontOptions.of(settings, settings[worker_settings.ADVERTISED_HOST])
        self.front = replace(front, is_signed=_is_signed)
        self._flows: dict[bytes, WorkerLife] = {}
        self._tasks = BackgroundTasks()

    # -- life -----------------------------------------------------------------------------------------

    async def start(self, address: HttpAddress) -> None:
        """See `Service`: ready when each flow runs, or could not be started at its first attempt.

        Raises ServiceError, ConfigError for settings that can't be.
        """
        for plan in self._plans:
            path = f"/{quote(plan.source, safe='')}/{quote(plan.target, safe='')}/"
            self._flows[path.encode()] = WorkerLife(plan, self._maker(plan, address, path))
        for life in self._flows.values():
            self._tasks.start(f"flow {life.plan.name}", life.run())
        waiting = asyncio.gather(*(life.tried.wait() for life in self._flows.values()))
        await asyncio.wait([waiting], timeout=FIRST_TRY_SECONDS)
        waiting.cancel()

    def _maker(self, plan: FlowPlan, address: HttpAddress, path: str) -> Any:
        given = {
            setting.name: text
            for setting in (worker_settings.ADVERTISED_HOST, worker_settings.ADVERTISED_PORT)
            if (text := self._settings.texts().get(setting.name)) is not None
        }
        settings = plan.worker.changed(given) if given else plan.worker
        return lambda: GroupWorker(settings, self.front, address, path)

    async def failed(self) -> str:
        """See `Service`."""
        return f"ottla mirror: {await self._tasks.ended()}"

    def end_requests(self) -> None:
        """Nothing to do: no request waits for long by itself."""

    async def stop(self) -> None:
        """See `Service`."""
        await self._tasks.stop()
        await asyncio.gather(*(life.close() for life in self._flows.values()))

    # -- requests -------------------------------------------------------------------------------------

    @property
    def app(self) -> ASGIApp:
        """See `Service`."""
        return self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        life = self._flows.get(_flow_path(path))
        if life is None:
            is_root = path.rstrip(b"/") in (b"", b"/flows")
            body: Any = self.told() if is_root else {"error_code": 404, "message": "There is no such flow"}
            await JSONResponse(body, 200 if is_root else 404)(scope, receive, send)
            return
        if life.served is None:
            answer = JSONResponse(
                {"error_code": 503, "message": f"The flow does not run: {life.problem}"}, 503
            )
            await answer(scope, receive, send)
            return
        inner = path[len(_flow_path(path)) - 1 :]
        inside = {**scope, "path": inner.decode("latin-1"), "raw_path": inner}
        await life.application(Request(inside).scope, receive, send)

    def told(self) -> Mapping[str, Any]:
        """The flows as JSON: where each is served, and why it does not run, if it does not."""
        return {
            "version": ottla.__version__,
            "flows": [
                {
                    "source": life.plan.source,
                    "target": life.plan.target,
                    "enabled": life.plan.enabled,
                    "path": path.decode(),
                    "problem": life.problem,
                }
                for path, life in self._flows.items()
            ],
        }

    # -- figures --------------------------------------------------------------------------------------

    def observed(self, figures: RequestFigures) -> Observed:
        """See `Service`."""
        checks = [Check("mirror-flows", self._verdict)]
        return Observed(lambda: self._families(figures), checks)

    def _verdict(self) -> Verdict:
        problems = [f"{life.plan.name}: {life.problem}" for life in self._flows.values() if life.problem]
        if not self._flows:
            return Verdict(False, "it starts")
        return Verdict(not problems, "; ".join(problems) or "all flows run")

    def _families(self, figures: RequestFigures) -> Iterator[Family]:
        """The metrics of all workers: connectors by flow and name, others added up."""
        found: dict[str, tuple[Metric, dict[Labels, Any]]] = {}
        for number, life in enumerate(self._flows.values()):
            worker = None if life.served is None else life.served.worker
            if worker is None and number:
                continue
            for family in connect_families(figures, worker):
                if number and family.metric.name.startswith("kafka_connect_rest"):
                    continue  # of all requests to this address: once
                _, samples = found.setdefault(family.metric.name, (family.metric, {}))
                for labels, given in _of_flow(family, life.plan.name):
                    value: Any = given
                    before: Any = samples.get(labels)
                    is_sum = isinstance(before, int | float) and isinstance(value, int | float)
                    samples[labels] = before + value if is_sum else value
        for metric, samples in found.values():
            yield Family(metric, list(samples.items()))


def _of_flow(family: Family, flow: str) -> Iterable[Sample]:
    """The samples with the flow in front of connectors' names."""
    labels = family.metric.labels
    if CONNECTOR not in labels:
        return family.samples
    at = labels.index(CONNECTOR)
    return [
        ((*given[:at], f"{flow}/{given[at]}", *given[at + 1 :]), value) for given, value in family.samples
    ]


def _flow_path(path: bytes) -> bytes:
    """The part of a path that names a flow: `/A/B/`."""
    parts = path.split(b"/", 3)
    return b"/".join(parts[:3]) + b"/" if len(parts) >= 3 else b""


def _is_signed(method: str, path: bytes) -> bool:
    """Whether requests come from other copies, which sign them."""
    flow = _flow_path(path)
    return bool(flow) and is_signed(method, path[len(flow) - 1 :])
