"""One worker of a cluster: its topics, its part in the group, its runs, kept alive together."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.config.settings import Settings
from ottla.connect import settings as names
from ottla.connect.state.config_topic import ConfigTopic, way_out
from ottla.connect.state.status_topic import StatusTopic
from ottla.connect.worker.building import Surroundings, WorkerParts, build
from ottla.connect.worker.group import ConnectGroup
from ottla.connect.worker.leading import Leading
from ottla.replicated.background import BackgroundTasks
from ottla.replicated.errors import Unstored
from ottla.replicated.forwarding import Forwarder, ForwardingHeaders
from ottla.replicated.group_member import GroupMember, GroupTimes
from ottla.replicated.leadership import Leadership
from ottla.replicated.loss import TopicLost
from ottla.replicated.metrics_source import StateParts
from ottla.replicated.preparing import TopicSpec, prepare
from ottla.replicated.topic_log import TopicLog
from ottla.web.errors import ServiceError

log = logging.getLogger("ottla.connect")

HEADERS: Final = ForwardingHeaders(forwarded="x-ottla-forwarded", place="x-ottla-place")
WRITE_TIMEOUT_MS: Final = 10_000
LEASE_MARGIN: Final = 0.1
"""The part of a session by which hosts end before the group may give their tasks to others."""
FORWARD_TIMEOUT_MS: Final = 60_000
INIT_SECONDS: Final = 60.0


class DistributedWorker:
    """Started once, stopped once. url: where other workers reach this one."""

    def __init__(
        self,
        settings: Settings,
        access: ClusterAccess,
        url: str,
        worker_id: str,
        around: Surroundings,
        peer_tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._settings = settings
        self._access = access
        group_id = settings[names.GROUP_ID]
        self.leadership = Leadership(group_id)
        self.configs = ConfigTopic(
            access,
            settings[names.CONFIG_TOPIC],
            group_id,
            self.leadership,
            WRITE_TIMEOUT_MS,
            names.replicas(settings[names.CONFIG_REPLICAS]),
            names.topic_settings(settings, "config.storage."),
        )
        self.statuses = StatusTopic(
            access,
            settings[names.STATUS_TOPIC],
            WRITE_TIMEOUT_MS,
            settings[names.STATUS_PARTITIONS],
            names.replicas(settings[names.STATUS_REPLICAS]),
            names.topic_settings(settings, "status.storage."),
        )
        self._leading = Leading(
            self.configs,
            self.leadership,
            names.host_properties(settings, standalone=False),
            settings[names.KEY_TTL_MS],
            peer_tls,
        )
        self.parts: WorkerParts = build(
            settings, self.configs, self.statuses, worker_id, around, self._leading.fence, standalone=False
        )
        times = GroupTimes(
            settings[names.SESSION_TIMEOUT_MS],
            settings[names.HEARTBEAT_INTERVAL_MS],
            settings[names.REBALANCE_TIMEOUT_MS],
        )
        self.group = ConnectGroup(
            url,
            self.configs,
            self.leadership,
            self.parts.reconciler,
            settings[names.MAX_DELAY_MS],
            settings[names.SYNC_TIMEOUT_MS],
            lambda: self.member.rejoin(),
        )
        self.member = GroupMember(access, group_id, self.group, times)
        self.forwarder = Forwarder(self.configs.topic, self.leadership, HEADERS, FORWARD_TIMEOUT_MS, peer_tls)
        self._tasks = BackgroundTasks()
        self._offsets_log = TopicLog(access, settings[names.OFFSET_TOPIC])
        self.kafka_cluster_id = ""
        self.is_ready = False
        reconciler = self.parts.reconciler
        reconciler.leads = lambda: self.leadership.is_here
        reconciler.connect(self.parts.supervisor, self._leading.set_tasks, self.member.rejoin)

    # -- life -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Return when all configurations and statuses were read. Raises StateError, ServiceError."""
        self.kafka_cluster_id, *_ = await asyncio.gather(
            self.configs.topic.prepare(), self.statuses.topic.prepare(), self._prepare_offsets()
        )
        self._tasks.start("configurations", self.configs.topic.read())
        self._tasks.start("statuses", self.statuses.topic.read())
        await self._tasks.unless_ended(self._read_to_end())
        reconciler, supervisor = self.parts.reconciler, self.parts.supervisor
        supervisor.membership_ms = self._membership_ms
        reconciler.begin()
        self._tasks.start("writing of statuses", self.statuses.run())
        self._tasks.start("restarts", supervisor.run())
        self._tasks.start("leases", supervisor.give_leases(self._membership_ms))
        self._tasks.start("plans of tasks", reconciler.submit_plans())
        self._tasks.start("tidying of statuses", reconciler.tidy())
        self._tasks.start("key of requests", self._leading.keep_key())
        self._tasks.start("group of workers", self.member.run())
        self.is_ready = True

    def _membership_ms(self) -> float:
        """For how long the worker's hosts may live without another word."""
        return self.member.membership_left_ms() - LEASE_MARGIN * self._settings[names.SESSION_TIMEOUT_MS]

    async def _prepare_offsets(self) -> str:
        settings = self._settings
        name = settings[names.OFFSET_TOPIC]
        spec = TopicSpec(
            name,
            "offsets",
            lambda loss: way_out(name, loss),
            partitions=settings[names.OFFSET_PARTITIONS],
            any_partitions=True,
            replication_factor=names.replicas(settings[names.OFFSET_REPLICAS]),
            config=names.topic_settings(settings, "offset.storage."),
        )
        return await prepare(self._access, spec, self._offsets_log)

    async def _read_to_end(self) -> None:
        try:
            async with asyncio.timeout(INIT_SECONDS):
                await asyncio.gather(self.configs.topic.read_to_end(), self.statuses.topic.read_to_end())
        except TimeoutError:
            raise ServiceError(
                f"ottla connect: its topics were not read to their ends within {INIT_SECONDS:g} s"
            ) from None
        except (Unstored, TopicLost) as problem:
            raise ServiceError(f"ottla connect: {problem}") from None

    async def failed(self) -> str:
        """Wait until one of the parts ends; says which one and why."""
        return await self._tasks.ended()

    async def stop(self) -> None:
        """End all runs in order, leave the group and the cluster."""
        if self.is_ready:
            await self.parts.supervisor.stop()
            await self.statuses.write_the_last()
        await self.forwarder.close()
        await self._tasks.stop()
        await self.configs.topic.close()
        await self.statuses.topic.close()
        await self._offsets_log.close()
        await self.member.close()

    # -- figures --------------------------------------------------------------------------------------

    @property
    def states(self) -> list[StateParts]:
        """The replicated states of this worker."""
        return [
            StateParts(self.configs.topic, self.configs.primary, self.forwarder),
            StateParts(self.statuses.topic),
        ]
