"""What a run begins with: its configuration with secrets, its offsets, and the fencing of its forerunners."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from ottla.config.errors import ConfigError
from ottla.connect.core.config_records import Properties
from ottla.connect.core.ids import CONNECTOR, TaskId
from ottla.connect.core.planning import split
from ottla.connect.host.messages import Role, Run, Start
from ottla.connect.offsets.connector_offsets import ConnectorOffsets, OffsetsOwner
from ottla.connect.plugins.catalog import Engine, Kind, Plugin
from ottla.connect.plugins.definition_validation import find_connector
from ottla.connect.state.stores import ConfigStore
from ottla.connect.worker.config_providers import ConfigProviders
from ottla.connect.worker.fencing import TakeOver
from ottla.connect.worker.reconciling import Reconciler

GENERATION: Final = "ottla.generation"
GATHER_SECONDS: Final = 0.02
"""For the tasks of a connector that start at once to ask for their offsets together."""

Pairs = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]


class RunPreparing:
    """Satisfies `Preparing`. fence: has the leader fence a connector's former tasks; None: at least once.

    take_over: ends the transaction of a task's former run.
    """

    def __init__(
        self,
        configs: ConfigStore,
        reconciler: Reconciler,
        providers: ConfigProviders,
        properties: Mapping[str, str],
        offsets: ConnectorOffsets,
        fence: Callable[[str], Awaitable[None]] | None,
        take_over: TakeOver,
    ) -> None:
        self._configs = configs
        self._reconciler = reconciler
        self._providers = providers
        self._properties = properties
        self._offsets = offsets
        self._fence = fence
        self._take_over = take_over
        self._reads: dict[str, _Read] = {}

    def owner(self, connector: str, config: Properties) -> OffsetsOwner:
        """The connector as those who keep its offsets know it."""
        return OffsetsOwner(connector, config, self._worker(connector))

    async def resolved(self, config: Properties) -> dict[str, str]:
        """The configuration with the values that its references stand for. Raises ConfigError."""
        return await asyncio.to_thread(self._providers.resolve, config)

    async def start_of(self, id: TaskId, number: int, paused: bool) -> tuple[Engine, Start]:
        """See Preparing. Raises ConfigError, Refused, FencingFailed, OffsetsFailed."""
        image = self._configs.image
        stored = image.config(id.connector) if id.task == CONNECTOR else image.task_config(*id)
        if stored is None:
            raise ConfigError(f"{id} has no configuration any more")
        own, partitions = split(stored)
        plugin = find_connector(self._reconciler.catalog, own.get("connector.class", ""))
        config = await self.resolved(own)
        role = _role(id, plugin)
        offsets: Pairs = ()
        if role is Role.SOURCE_TASK:
            if self._fence is not None:
                # All former tasks, once for each plan; then this task's own former run, at each start: the
                # transaction of a killed run is open, and offsets behind it could not be read for a minute.
                await self._fence(id.connector)
                await self._take_over(id.connector, id.task, config, self._properties)
            offsets = await self._offsets_of(id.connector, config, partitions)
        fence = max(image.fence(id.connector), image.task_generation(id.connector), 0)
        return plugin.engine, Start(
            Run(id.connector, id.task, number),
            role,
            config,
            self._worker(id.connector),
            partitions,
            offsets,
            fence,
            paused,
        )

    def _worker(self, connector: str) -> dict[str, str]:
        return {**self._properties, GENERATION: str(self._configs.image.generation(connector))}

    async def _offsets_of(
        self, connector: str, config: Mapping[str, str], partitions: Sequence[Mapping[str, Any]]
    ) -> Pairs:
        """The committed offsets of a task's partitions: one read for all tasks that start at once."""
        read = self._reads.get(connector)
        if read is None or read.has_begun:
            read = self._reads[connector] = _Read()
        async with read.turn:
            if read.found is None:
                await asyncio.sleep(GATHER_SECONDS)
                read.has_begun = True
                rows = await self._offsets.committed(self.owner(connector, config))
                read.found = [(each.partition or {}, each.offset or {}) for each in rows if each.offset]
                if self._reads.get(connector) is read:
                    del self._reads[connector]
        wanted = [dict(each) for each in partitions]
        return [(partition, offset) for partition, offset in read.found if dict(partition) in wanted]


class _Read:
    """A read of a connector's offsets, shared by those who ask before it begins."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.has_begun = False
        self.found: Pairs | None = None


def _role(id: TaskId, plugin: Plugin) -> Role:
    if id.task == CONNECTOR:
        return Role.CONNECTOR
    return Role.SOURCE_TASK if plugin.kind is Kind.SOURCE else Role.SINK_TASK
