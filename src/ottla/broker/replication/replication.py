"""The replicas of one broker: makes, starts and closes the parts that hold, lead and copy partitions.

Other rooms are given the part that they use, never the whole:

    partitions          the partitions that are here, and those that are led here
    produced_appends    the batches of producers
    internal_appends    the records of coordinators, transactions' markers
    in_sync             the followers of partitions led here
    roles               opened, led, followed and removed as the metadata says
    logs, cleaner       the logs on the disk, kept in bounds
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.replication.file_work import FileWork
from ottla.broker.replication.in_sync_updates import InSyncUpdates
from ottla.broker.replication.in_sync_watch import InSyncWatch
from ottla.broker.replication.internal_appends import InternalAppends, OnTransactionEnd
from ottla.broker.replication.log_cleaner import LogCleaner
from ottla.broker.replication.log_manager import LogManager
from ottla.broker.replication.partitions import Partitions
from ottla.broker.replication.preferred_replicas import PreferredReplicas
from ottla.broker.replication.produced_appends import ProducedAppends
from ottla.broker.replication.replica_fetcher import ReplicaFetchers
from ottla.broker.replication.replica_roles import OnTopicsDeleted, PartitionCoordinator, ReplicaRoles
from ottla.broker.replication.replication_quota import ReplicationQuotas
from ottla.broker.replication.replication_settings import ReplicationSettings
from ottla.broker.replication.schema_validation import SchemaValidation
from ottla.broker.replication.timestamp_lookup import TimestampLookup

if TYPE_CHECKING:
    from ottla.broker.replication.node import ReplicationNode
    from ottla.broker.supervisor import Supervisor
    from ottla.storage.log_directory import LogDirectory


class Replication:
    """All parts of a broker's replicas."""

    def __init__(self, node: ReplicationNode, directory: LogDirectory) -> None:
        config, now_ms = node.config, node.now_ms
        self._work = FileWork()
        self.partitions = Partitions(node)
        self.logs = LogManager(
            directory, config, node.node_id, now_ms, self._work, lambda: node.controller.recovery_point
        )
        node.quorum.log.leave_checkpoints_to(self.logs.before_metadata_shortening)
        self.cleaner = LogCleaner(directory, config, now_ms, self._work, self.partitions)
        self.quotas = ReplicationQuotas(config, node.node_id, node.loop)
        heavy_check = asyncio.Semaphore(1)
        self.schemas = SchemaValidation(config, heavy_check)
        self.settings = ReplicationSettings(node, self.quotas, self.schemas)
        self.in_sync_updates = InSyncUpdates(node)
        self.in_sync = InSyncWatch(node, node.loop, self.partitions, self.in_sync_updates)
        self.fetchers = ReplicaFetchers(node, self.logs, self.cleaner, self.quotas)
        self.roles = ReplicaRoles(
            node, self.partitions, self.settings, self.logs, self.cleaner, self.fetchers, self.in_sync
        )
        flush_soon = self.logs.flush_soon
        self.produced_appends = ProducedAppends(self.settings, self.schemas, heavy_check, now_ms, flush_soon)
        self.internal_appends = InternalAppends(config, self.partitions, self.settings, now_ms, flush_soon)
        self.timestamps = TimestampLookup(node, self._work)
        self.preferred = PreferredReplicas(node)

    def coordinate(
        self,
        coordinators: Mapping[str, PartitionCoordinator],
        on_transaction_end: Mapping[str, OnTransactionEnd],
        on_topics_deleted: Sequence[OnTopicsDeleted],
    ) -> None:
        """From now on tell the coordinators, by their topics, what becomes of their partitions."""
        self.roles.tell(coordinators, on_topics_deleted)
        self.internal_appends.tell_transaction_ends(on_transaction_end)

    def start_background_work(self, supervisor: Supervisor) -> None:
        """Retention, flushing, checkpoints, cleaning and in-sync sets, each as a task of the supervisor."""
        self.logs.start_background_work(
            supervisor, lambda: [(each.log, each.high_watermark) for each in self.partitions]
        )
        self.cleaner.start(supervisor)
        self.in_sync.start(supervisor)

    async def close(self) -> None:
        """Flush and close every log and write the checkpoints, so that the next start trusts them."""
        self.schemas.close()
        await self._work.settle()
        committed = {(each.topic, each.index): each.high_watermark for each in self.partitions}
        await self._work.run(partial(self.logs.close, committed))
