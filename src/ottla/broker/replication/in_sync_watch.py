"""Watches the followers of the partitions led here: those that keep up, those that lag, and their log starts.

The decisions are the leader's (core/replica/leader.py). The in-sync sets that it wishes for go to the
controller together with those of the other partitions (`in_sync_updates`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.replication.partition import Partition
from ottla.core.replica.leader import FetcherTimes, InSyncUpdate
from ottla.core.settings import broker_settings
from ottla.protocol.errors import RequestTimedOut

if TYPE_CHECKING:
    from ottla.broker.parts import Cluster
    from ottla.broker.replication.in_sync_updates import InSyncUpdates
    from ottla.broker.replication.partitions import Partitions
    from ottla.broker.supervisor import Supervisor


class InSyncWatch:
    """The followers of all partitions led here. Used on the event loop only."""

    def __init__(
        self,
        cluster: Cluster,
        loop: asyncio.AbstractEventLoop,
        partitions: Partitions,
        updates: InSyncUpdates,
    ) -> None:
        self._cluster = cluster
        self._loop = loop
        self._partitions = partitions
        self._updates = updates

    def start(self, supervisor: Supervisor) -> None:
        """Begin to send updates and to look for followers that lag."""
        config = self._cluster.config
        supervisor.spawn("in-sync-updates", self._updates.run())
        supervisor.every(
            "look-for-laggards",
            lambda: max(1, config[broker_settings.REPLICA_LAG_TIME_MAX_MS] // 2),
            self._look_for_laggards,
        )

    def ask_for(self, partition: Partition, update: InSyncUpdate | None) -> None:
        """Ask the controller for an in-sync set that the partition's leader wishes for, if it does."""
        if update is not None:
            self._updates.ask(partition, update)

    def on_follower_fetch(
        self,
        partition: Partition,
        node_id: int,
        fetch_offset: int,
        log_start_offset: int,
        broker_epoch: int,
        fetcher: FetcherTimes,
    ) -> None:
        """A follower's fetch, its epochs compared: it holds all records below its offset."""
        update = partition.leader.on_follower_fetch(
            node_id, fetch_offset, log_start_offset, broker_epoch, fetcher.last_fetch_ms, fetcher
        )
        partition.on_progress()
        partition.on_followers_fetch()
        self.ask_for(partition, update)

    async def _look_for_laggards(self) -> None:
        """Take followers that lag out of their in-sync sets."""
        now_ms = int(self._loop.time() * 1000)
        for partitions in self._partitions.led_by_topic():
            for partition in partitions:
                if partition.is_replicated and partition.is_leader:
                    update = partition.leader.on_tick(now_ms)
                    partition.on_progress()
                    partition.wake_followers()
                    self.ask_for(partition, update)
            await asyncio.sleep(0)

    def look_for_joiners(self) -> None:
        """Brokers have become active: their replicas may join though their fetches say nothing new."""
        for partitions in self._partitions.led_by_topic():
            for partition in partitions:
                if partition.is_replicated:
                    self.ask_for(partition, partition.leader.expansion())

    # -- records that are deleted -------------------------------------------------------------------

    def low_watermark(self, partition: Partition) -> int:
        """The offset below which no unfenced replica has records. Raises NotLeaderOrFollower."""
        return partition.leader.low_watermark(partition.log.log_start_offset, self._is_unfenced)

    async def until_deleted(self, partition: Partition, offset: int, deadline: float) -> None:
        """Wait until every unfenced replica has deleted its records below `offset`.

        Raises RequestTimedOut at `deadline` of the loop's clock, NotLeaderOrFollower.
        """
        fetched = asyncio.Event()
        partition.add_fetch_waiter(fetched.set)
        try:
            async with asyncio.timeout_at(deadline):
                while self.low_watermark(partition) < offset:
                    fetched.clear()
                    await fetched.wait()
        except TimeoutError:
            raise RequestTimedOut() from None
        finally:
            partition.remove_waiter(fetched.set)

    def _is_unfenced(self, node_id: int) -> bool:
        known = self._cluster.image.brokers.get(node_id)
        return known is not None and not known.fenced
