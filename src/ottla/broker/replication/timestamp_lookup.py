"""Finds records by their timestamps, for ListOffsets and share groups, in a few threads at a time."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.replication.file_work import FileWork
from ottla.broker.replication.partition import Partition
from ottla.protocol.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from ottla.storage.errors import PartitionDeleted
from ottla.storage.timestamp_search import TimestampedOffset

if TYPE_CHECKING:
    from ottla.broker.parts import Cluster

SEARCHES = 2
"""Searches by timestamp at a time: each may hold a batch of 128 MiB."""


class TimestampLookup:
    """Searches by timestamp in the logs of partitions held here."""

    def __init__(self, cluster: Cluster, work: FileWork) -> None:
        self._cluster = cluster
        self._work = work
        self._searches = asyncio.Semaphore(SEARCHES)

    async def find(self, partition: Partition, timestamp_ms: int | None) -> TimestampedOffset | None:
        """The first record not older than `timestamp_ms`; with None the one with the largest timestamp.

        It may lie in a batch that unfolds to 128 MiB, so this is done in a thread, a few at a time. Raises
        UnknownTopicOrPartition or NotLeaderOrFollower when the partition went meanwhile, OSError,
        LogCorruption.
        """
        searched = partition.log
        try:
            async with self._searches:
                if timestamp_ms is None:
                    found = await self._work.run(searched.find_max_timestamp)
                else:
                    found = await self._work.run(partial(searched.find_offset_by_timestamp, timestamp_ms))
        except PartitionDeleted:
            pass
        if searched.is_deleted:
            known = self._cluster.image.topics_by_id.get(partition.topic_id)
            raise UnknownTopicOrPartition() if known is None else NotLeaderOrFollower()
        return found
