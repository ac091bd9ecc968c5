"""A worker alone: no group, no topics; connectors from files, and offsets in a file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError
from ottla.config.settings import Settings
from ottla.connect import settings as names
from ottla.connect.core.config_image import all_of
from ottla.connect.core.config_records import Properties
from ottla.connect.core.decisions import set_tasks
from ottla.connect.core.errors import Refused
from ottla.connect.core.planning import CLASS
from ottla.connect.plugins.definition_validation import CONNECTORS
from ottla.connect.state.memory import MemoryConfigs, MemoryStatuses
from ottla.connect.worker.building import Surroundings, WorkerParts, build
from ottla.connect.worker.wire import Assignment
from ottla.replicated.background import BackgroundTasks
from ottla.web.errors import ServiceError

log = logging.getLogger("ottla.connect")

ANSWER_SECONDS: Final = 30.0
NO_JAVA: Final = "a standalone worker runs no plugins in Java, a worker of `ottla connect` does"


class GivenConnector(NamedTuple):
    """A connector of a file. initial_state: RUNNING where it is None (KIP-980)."""

    config: Mapping[str, str]
    initial_state: str | None = None


class StandaloneWorker:
    """Started once, stopped once."""

    def __init__(
        self, settings: Settings, access: ClusterAccess, worker_id: str, around: Surroundings
    ) -> None:
        self._access = access
        paths: tuple[str, ...] = settings[names.PLUGIN_PATH]
        self._has_plugin_path = any(paths)
        self._configs = MemoryConfigs()
        self._statuses = MemoryStatuses()
        self._tasks = BackgroundTasks()
        self.kafka_cluster_id = ""
        self.is_ready = False
        self.parts: WorkerParts = build(
            settings, self._configs, self._statuses, worker_id, around, _no_fence, standalone=True
        )
        self.parts.reconciler.connect(self.parts.supervisor, self._set_tasks, self._assign)

    async def start(self, connectors: Sequence[GivenConnector]) -> None:
        """Return when these connectors were taken. Raises ServiceError for one that is refused."""
        self.kafka_cluster_id = await asyncio.to_thread(self._cluster_id)
        if self._has_plugin_path:
            # Files of Kafka's standalone workers have it for the file connectors, which ottla has itself.
            log.warning("%s is not looked at: %s", names.PLUGIN_PATH.name, NO_JAVA)
        self.parts.reconciler.begin()
        self._tasks.start("restarts", self.parts.supervisor.run())
        self._tasks.start("plans of tasks", self.parts.reconciler.submit_plans())
        self._tasks.start("tidying of statuses", self.parts.reconciler.tidy())
        for config, initial_state in connectors:
            name, wanted = config.get("name", ""), config.get(CLASS, "")
            if self._has_plugin_path and not self.parts.herder.knows_plugin(wanted, *CONNECTORS):
                # It may stand in these jars; validation would only say that the class is unknown.
                raise ServiceError(
                    f"ottla connect: connector {name}: {wanted} is none of ottla's, and "
                    f"{names.PLUGIN_PATH.name} is not looked at: {NO_JAVA}"
                )
            try:
                await self.parts.herder.create(name, config, initial_state)
            except Refused as refused:
                raise ServiceError(f"ottla connect: connector {name}: {refused.message}") from None
        self.is_ready = True

    def _cluster_id(self) -> str:
        cluster = KafkaCluster(self._access.bootstrap, self._access.properties, self._access.client_id or "")
        try:
            if not cluster.answers(ANSWER_SECONDS):
                raise ServiceError(f"no Kafka broker answers at {self._access.bootstrap}")
            return cluster.cluster_id()
        except ClusterError as problem:
            raise ServiceError(f"ottla connect: {problem}") from None

    def _assign(self) -> None:
        """All that there is runs here."""
        self.parts.reconciler.take(Assignment(assigned=all_of(self._configs.image)), 0)

    async def _set_tasks(self, connector: str, configs: Sequence[Properties]) -> None:
        await self._configs.write(lambda: set_tasks(self._configs.image, connector, configs))

    async def failed(self) -> str:
        """Wait until one of the parts ends; says which one and why."""
        return await self._tasks.ended()

    async def stop(self) -> None:
        """End all runs in order."""
        await self.parts.supervisor.stop()
        await self._tasks.stop()


async def _no_fence(_connector: str) -> None:
    """Nothing to fence: a worker alone writes at least once."""
