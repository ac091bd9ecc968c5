"""Which brokers have been dead for so long that their replicas are to move."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ottla.balance.planning import Planned
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError

log = logging.getLogger("ottla.balance")

LOOK_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 60.0
"""After a plan that could not move everything, the next is made so much later."""


class Healer:
    """Watches for brokers that hold replicas and are away for longer than the grace."""

    def __init__(self, client: ClusterRequests, grace_seconds: float) -> None:
        self._client = client
        self._grace = grace_seconds
        self._since: dict[int, float] = {}
        self._not_before = 0.0

    @property
    def missing(self) -> tuple[int, ...]:
        """The brokers that are away now."""
        return tuple(sorted(self._since))

    async def wait_for_the_dead(self) -> tuple[int, ...]:
        """Wait until some broker has been away for the grace; all that have."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self._look(loop.time())
            except ClusterError as problem:
                log.warning("the cluster can't be read, and is asked again: %s", problem)
            now = loop.time()
            dead = tuple(one for one, since in sorted(self._since.items()) if now - since >= self._grace)
            if dead and now >= self._not_before:
                return dead
            await asyncio.sleep(min(LOOK_SECONDS, max(0.2, self._grace / 4)))

    async def _look(self, now: float) -> None:
        alive = (await self._client.cluster(refresh=True)).brokers
        holders = {
            replica
            for topic in await self._client.topics()
            for one in topic.partitions
            for replica in one.replica_nodes
        }
        missing = holders - alive.keys()
        self._since = {one: self._since.get(one, now) for one in missing}

    def was_healed(self, planned: Planned) -> None:
        """A plan was carried out; where it could not move everything, there is a pause."""
        if planned.plan.problems or not planned.plan.changes:
            self._not_before = asyncio.get_running_loop().time() + AGAIN_SECONDS
