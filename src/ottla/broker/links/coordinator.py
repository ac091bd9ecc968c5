"""The coordinator of all links: the broker that leads the status topic's only partition.

It looks at each link's source once in a while, and brings mirror topics to their end. What it knows is in the
metadata and in the status topic, so another broker takes over wherever it was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.links.link_sync import LinkSync
from ottla.broker.links.source import Source
from ottla.broker.links.source_access import connect_source
from ottla.broker.links.status_log import PARTITION, StatusKey, StatusLog
from ottla.broker.links.topic_ends import end_topics
from ottla.core.links.definition import InvalidLink, LinkDefinition
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.links.node import LinksNode

log = logging.getLogger("ottla.broker.links")

PROMOTING_INTERVAL_SECONDS: Final = 0.05
END_INTERVAL_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 0.5


class LinksCoordinator:
    """Does its work while this broker leads the status topic. Used on the event loop only."""

    def __init__(self, node: LinksNode) -> None:
        self._node = node
        self._links: Mapping[str, LinkDefinition | InvalidLink] = {}
        self._work: dict[str, tuple[LinkDefinition, LinkSync, Source, asyncio.Task[Any]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    # -- the leader of the status topic -----------------------------------------------------------------

    def prepare(self) -> None:
        """This broker has a replica of the status topic: nothing to prepare."""

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """This broker coordinates from now on."""
        if partition == PARTITION:
            self.on_resigned(partition)
            self._task = self._node.supervisor.spawn(f"links-coordinator-{leader_epoch}", self._run())

    def on_resigned(self, partition: int) -> None:
        """Another broker coordinates, or none."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        for name in list(self._work):
            self._end_work(name)

    def take_links(self, links: Mapping[str, LinkDefinition | InvalidLink]) -> None:
        """The links that there are now."""
        self._links = links
        self._news.set()

    def look(self) -> None:
        """Mirror topics have changed: go on with those that come to an end."""
        self._news.set()

    # -- the work ---------------------------------------------------------------------------------------

    async def _run(self) -> None:
        status = StatusLog(self._node)
        try:
            await status.load()
        except KafkaError:
            return  # it leads no more
        while True:
            self._news.clear()
            try:
                await self._follow_links(status)
                await end_topics(self._node, status, self)
            except KafkaError as problem:
                log.info("links are coordinated again soon reason=%s", problem)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_INTERVAL_SECONDS):
                    await self._news.wait()

    async def _follow_links(self, status: StatusLog) -> None:
        for name in list(self._work):
            if self._work[name][0] != self._links.get(name):
                self._end_work(name)
        for name, link in self._links.items():
            if isinstance(link, InvalidLink):
                await self._tell_invalid(status, name, link)
            elif name not in self._work:
                await self._begin_work(status, link)
        for name in status.links() - set(self._links):
            gone: dict[StatusKey, dict[str, Any] | None] = {
                (name, topic): None for topic, _ in status.topics_of(name)
            }
            gone[name, None] = None
            await status.write(gone)

    async def _tell_invalid(self, status: StatusLog, name: str, problem: InvalidLink) -> None:
        told = {"link": name, "state": "problem", "problems": {"definition": str(problem)}}
        await status.write({(name, None): {**told, "at_ms": self._node.now_ms()}})

    async def _begin_work(self, status: StatusLog, link: LinkDefinition) -> None:
        try:
            connections = await asyncio.to_thread(connect_source, link, self._node.node_id)
        except InvalidLink as problem:
            await self._tell_invalid(status, link.name, problem)
            return
        source = Source(link, connections, f"{link.name}-coordinator")
        sync = LinkSync(self._node, link, source, status)
        task = self._node.supervisor.spawn(f"link-{link.name}-sync", self._turns(link, sync))
        self._work[link.name] = (link, sync, source, task)

    def _end_work(self, name: str) -> None:
        _, _, source, task = self._work.pop(name)
        task.cancel()
        source.close()

    async def _turns(self, link: LinkDefinition, sync: LinkSync) -> None:
        while True:
            try:
                await sync.turn()
            except KafkaError as problem:
                log.info("a link's status was not written link=%s reason=%s", link.name, problem)
                await asyncio.sleep(RETRY_SECONDS)
            if sync.is_promoting:
                await asyncio.sleep(PROMOTING_INTERVAL_SECONDS)
            else:
                await asyncio.sleep(link.interval_ms / 1_000)

    # -- sources, for the ends of topics ----------------------------------------------------------------

    def known_epochs(self, link: str, topic: str) -> dict[int, int]:
        """The leader epochs of the source's partitions as they were seen last; empty for none."""
        work = self._work.get(link)
        return {} if work is None else work[1].known_epochs(topic)

    async def ends(self, link: str, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """The ends of the source's partitions: now, else as they were seen last; those that are known."""
        work = self._work.get(link)
        return {} if work is None else await work[1].source_ends(topic, partitions)
