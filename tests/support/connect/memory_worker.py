"""A worker in the test's own process: its state in memory, no cluster, and scripted hosts."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import Response

from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.connect.core.config_image import all_of
from ottla.connect.core.config_records import Properties
from ottla.connect.core.decisions import set_tasks
from ottla.connect.offsets.checkpoint_offsets import CheckpointOffsets
from ottla.connect.offsets.connector_offsets import ALTERED, RESET, ConnectorOffset, OffsetsOwner
from ottla.connect.offsets.sink_offsets import parse_sink_offsets
from ottla.connect.plugins.catalog import Catalog, Engine, installed_plugins
from ottla.connect.rest.app import connect_application
from ottla.connect.rest.endpoints import Endpoint
from ottla.connect.rest.java_connectors import JavaCalls
from ottla.connect.settings import TABLE
from ottla.connect.state.memory import MemoryConfigs, MemoryStatuses
from ottla.connect.worker.building import Surroundings, WorkerParts, build
from ottla.connect.worker.herder import Herder, Offsets
from ottla.connect.worker.wire import Assignment
from ottla.replicated.background import BackgroundTasks
from support.connect.file_plugins import PLUGINS

HOST = Path(__file__).with_name("scripted_host.py")
WORKER_ID = "127.0.0.1:8083"


class KeptOffsets:
    """Satisfies ConnectorOffsets, in memory."""

    def __init__(self, *, is_sink: bool = False) -> None:
        self._is_sink = is_sink
        self.of: dict[str, list[ConnectorOffset]] = {}
        self.reads = 0

    async def committed(self, owner: OffsetsOwner) -> list[ConnectorOffset]:
        """See ConnectorOffsets."""
        self.reads += 1
        return list(self.of.get(owner.name, ()))

    async def alter(self, owner: OffsetsOwner, offsets: Sequence[ConnectorOffset]) -> str:
        """See ConnectorOffsets."""
        if self._is_sink:
            parse_sink_offsets(offsets)
        changed = [each.partition for each in offsets]
        kept = [each for each in self.of.get(owner.name, ()) if each.partition not in changed]
        self.of[owner.name] = [*kept, *(each for each in offsets if each.offset is not None)]
        return ALTERED

    async def reset(self, owner: OffsetsOwner) -> str:
        """See ConnectorOffsets."""
        self.of.pop(owner.name, None)
        return RESET


class MemoryWorker:
    """Satisfies `Worker` of the REST API. fences: the connectors that were fenced, in order.

    taken_over: tasks whose former transactions were ended.
    """

    def __init__(self, given: Mapping[str, str], host: Path = HOST, *, standalone: bool = False) -> None:
        self.settings = Settings(TABLE, from_mapping(given))
        self.configs, self.statuses = MemoryConfigs(), MemoryStatuses()
        sources = KeptOffsets()
        self.offsets = Offsets(sources, KeptOffsets(is_sink=True), CheckpointOffsets(sources))
        names = {name for each in PLUGINS for name in each.names}
        installed = [each for each in installed_plugins().plugins if not names & {*each.names}]

        def command(engine: Engine) -> Sequence[str]:
            return [sys.executable, str(host), "--engine", engine]

        around = Surroundings(Catalog([*PLUGINS, *installed]), self.offsets, command, self._taken_over)
        self.fences: list[str] = []
        self.taken_over: list[tuple[str, int]] = []
        self.parts: WorkerParts = build(
            self.settings, self.configs, self.statuses, WORKER_ID, around, self._fence, standalone=standalone
        )
        self.parts.reconciler.connect(self.parts.supervisor, self.set_tasks, self.assign)
        self._tasks = BackgroundTasks()

    async def _taken_over(self, connector: str, task: int, *_: Mapping[str, str]) -> None:
        self.taken_over.append((connector, task))

    async def _fence(self, connector: str) -> None:
        self.fences.append(connector)

    async def set_tasks(self, connector: str, configs: Sequence[Properties]) -> None:
        """Store task configurations."""
        await self.configs.write(lambda: set_tasks(self.configs.image, connector, configs))

    def assign(self) -> None:
        """Everything is this worker's."""
        self.parts.reconciler.take(Assignment(assigned=all_of(self.configs.image)), 1)

    async def start(self) -> None:
        """Run the parts that work by themselves."""
        self.parts.reconciler.begin()
        self._tasks.start("restarts", self.parts.supervisor.run())
        self._tasks.start("plans", self.parts.reconciler.submit_plans())
        self._tasks.start("tidying", self.parts.reconciler.tidy())

    async def stop(self) -> None:
        """End all runs and hosts."""
        await self.parts.supervisor.stop()
        await self._tasks.stop()

    @property
    def herder(self) -> Herder:
        """See `Worker`."""
        return self.parts.herder

    @property
    def kafka_cluster_id(self) -> str:
        """See `Worker`."""
        return "cluster"

    def health(self) -> tuple[int, str, str]:
        """See `Worker`."""
        return 200, "healthy", "Worker has completed startup and is ready to handle requests."

    async def on_leader(self, request: Request, endpoint: Endpoint) -> Response:
        """See `Worker`."""
        return await endpoint(request)


class Client:
    """Asks a MemoryWorker."""

    def __init__(self, http: httpx.AsyncClient, worker: MemoryWorker) -> None:
        self.http = http
        self.worker = worker

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        answer = await self.http.request(method, path, json=body)
        return answer.status_code, answer.json() if answer.content else None


@asynccontextmanager
async def memory_worker(
    given: Mapping[str, str] | None = None,
    host: Path = HOST,
    *,
    standalone: bool = False,
    java: JavaCalls | None = None,
) -> AsyncIterator[Client]:
    """A worker that runs while the block does."""
    worker = MemoryWorker(given or {}, host, standalone=standalone)
    await worker.start()
    transport = httpx.ASGITransport(connect_application(worker, java))
    try:
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{WORKER_ID}") as http:
            yield Client(http, worker)
    finally:
        await worker.stop()
