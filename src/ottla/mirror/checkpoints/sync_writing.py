"""Writes the offset syncs of a copying task to their topic: `OpenOffsetSyncs` of the contract.

Syncs are written behind the commit that they tell of, so they are never ahead of it, and what a kill leaves
unsaid costs records that are read again. All I/O is in one background task; `copied` only plans. What waits
is bounded: beyond MOST_WAITING the oldest go, for newer ones of the same partitions follow.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from ottla.client.cluster_requests import TopicPartition
from ottla.client.errors import ClientOptionError, ClusterError
from ottla.mirror.checkpoints.state_topics import StateWriter, ensure_topic
from ottla.mirror.core.record_formats import OffsetSync
from ottla.mirror.core.sync_plan import SyncPlan
from ottla.mirror.offset_sync_hook import CopiedRun, OffsetSyncs, SyncPlace

LAG_MAX: Final = "offset.lag.max"
DEFAULT_LAG_MAX: Final = 100
REPLICAS: Final = "offset-syncs.topic.replication.factor"
DEFAULT_REPLICAS: Final = 3
TAIL_SECONDS: Final = 0.5
"""How long the end of what was copied may stay unsaid."""
RETRY_SECONDS: Final = 5.0
MOST_WAITING: Final = 50_000
CLOSE_SECONDS: Final = 5.0

_log = logging.getLogger("ottla.mirror")


def open_offset_syncs(place: SyncPlace) -> OffsetSyncs:
    """See OpenOffsetSyncs."""
    return TopicOffsetSyncs(place)


class TopicOffsetSyncs:
    """Satisfies OffsetSyncs."""

    def __init__(self, place: SyncPlace) -> None:
        self._place = place
        self._plan = SyncPlan(int(place.config.get(LAG_MAX, DEFAULT_LAG_MAX)))
        self._waiting: deque[OffsetSync] = deque(maxlen=MOST_WAITING)
        self._writer: StateWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._closing = False

    async def copied(self, runs: Sequence[CopiedRun]) -> None:
        """See OffsetSyncs."""
        self._waiting += self._plan.copied(runs)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write(), name="offset syncs")
        self._wake.set()

    async def forget(self, sources: Sequence[TopicPartition]) -> None:
        """See OffsetSyncs. No tombstone is written: MirrorMaker 2's readers end at one. The next sync of the
        partition, with a smaller offset, voids the others.
        """
        for source in sources:
            self._plan.forget(source.topic, source.partition)

    async def close(self) -> None:
        """See OffsetSyncs."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            _, pending = await asyncio.wait([self._task], timeout=2 * CLOSE_SECONDS)
            for each in pending:
                each.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()

    async def _write(self) -> None:
        """Write what waits, and tails a moment later, until closed. Never ends for a cluster that is away."""
        while True:
            try:
                await self._written()
            except (ClusterError, ClientOptionError) as problem:
                _log.warning("offset syncs wait: %s", problem)
                if self._closing:
                    return
                await self._pause(RETRY_SECONDS)
            if self._closing and not self._waiting:
                return
            await self._pause(TAIL_SECONDS)

    async def _pause(self, seconds: float) -> None:
        """Wait, not much longer than a beginning close."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not self._closing and (left := deadline - asyncio.get_running_loop().time()) > 0:
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), left)
            except TimeoutError:
                return

    async def _written(self) -> None:
        """Write what waits and the tails. Raises ClusterError; what was not acknowledged waits again."""
        taken = [*self._waiting, *self._plan.tails()]
        self._waiting.clear()
        if not taken:
            return
        try:
            await asyncio.to_thread(self._send, taken)
        except (ClusterError, ClientOptionError):
            since = list(self._waiting)
            self._waiting.clear()
            self._waiting += taken + since
            raise

    def _send(self, syncs: Sequence[OffsetSync]) -> None:
        """In order, acknowledged. Raises ClusterError, ClientOptionError."""
        place = self._place
        access = place.access.with_client_id(place.client_id)
        if self._writer is None:
            ensure_topic(access, place.topic, int(place.config.get(REPLICAS, DEFAULT_REPLICAS)))
            self._writer = StateWriter(access, place.topic)
        try:
            for sync in syncs:
                while not self._writer.write(sync.key(), sync.value()):
                    self._writer.flush(CLOSE_SECONDS)
            self._writer.flush(CLOSE_SECONDS)
        except ClusterError:
            self._writer.close()
            self._writer = None
            raise
