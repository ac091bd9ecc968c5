"""The partitions of one link that this broker leads: each is brought to a fetcher of its source's leader.

A partition is in one of three places: it waits for a place (until its pause is over and the source's metadata
name a leader), it is a fetcher's, or its effects are being performed. One task places all that wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from ottla.broker.links.mirror_effects import MirrorEffects
from ottla.broker.links.mirror_fetcher import MirrorFetcher
from ottla.broker.links.mirrored import Key, Mirrored
from ottla.broker.links.source import Source, SourceMetadata, SourceUnusable
from ottla.core.links.definition import LinkDefinition
from ottla.core.links.mirror import Effect, LookForTopic
from ottla.protocol.byte_budget import Budget
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.links.node import LinksNode
    from ottla.broker.replication.partition import Partition

log = logging.getLogger("ottla.broker.links")

FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 2.0


class LinkMirrors:
    """One link's partitions here. Used on the event loop only; `run` is a task of its owner."""

    def __init__(self, node: LinksNode, link: LinkDefinition, source: Source) -> None:
        self._node = node
        self._link = link.name
        self._source = source
        self._budget = Budget(link.bytes_per_second)
        self._effects = MirrorEffects(node, link.name, source)
        self._mirrored: dict[Key, Mirrored] = {}
        self._waiting: dict[Key, Mirrored] = {}
        self._fetchers: dict[int, MirrorFetcher] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._copied_before = (0, 0)
        """Offsets and bytes that were copied in leader epochs that have ended."""
        self.problem = ""
        """Why nothing can be fetched; empty while something is."""

    def all(self) -> list[Mirrored]:
        """The partitions that are copied here."""
        return list(self._mirrored.values())

    def copied(self) -> tuple[int, int]:
        """Offsets and bytes that were copied here; they only grow."""
        records, size_bytes = self._copied_before
        for each in self._mirrored.values():
            records += each.records_in
            size_bytes += each.bytes_in
        return records, size_bytes

    def copy(self, partition: Partition, source_id: str) -> None:
        """Copy the partition in its present leader epoch from now on."""
        self.leave(partition)
        mirrored = Mirrored(partition, source_id, self._node.loop.time())
        self._mirrored[mirrored.key] = self._waiting[mirrored.key] = mirrored
        self._news.set()

    def leave(self, partition: Partition) -> None:
        """Copy the partition no more: what is under way for it has no effect."""
        key = (partition.topic, partition.index)
        mirrored = self._mirrored.pop(key, None)
        if mirrored is not None:
            mirrored.is_copied = False
            records, size_bytes = self._copied_before
            self._copied_before = records + mirrored.records_in, size_bytes + mirrored.bytes_in
            self._waiting.pop(key, None)
            for fetcher in self._fetchers.values():
                fetcher.remove(key)

    def mirrored(self, topic: str, index: int) -> Mirrored | None:
        """The partition's state, or None if it is not copied here."""
        return self._mirrored.get((topic, index))

    def stop(self) -> None:
        """End all tasks."""
        for mirrored in self._mirrored.values():
            mirrored.is_copied = False
        for task in list(self._tasks):
            task.cancel()

    async def run(self) -> None:
        """Place partitions for ever."""
        while True:
            now = self._node.loop.time()
            due = [each for each in self._waiting.values() if each.resume_at <= now]
            if due:
                await self._place(due)
                continue
            pauses = [each.resume_at - now for each in self._waiting.values()]
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(pauses)) if pauses else None):
                    await self._news.wait()

    async def _place(self, due: list[Mirrored]) -> None:
        try:
            metadata = await self._source.metadata()
        except SourceUnusable as problem:
            if str(problem) != self.problem:
                self.problem = str(problem)
                log.warning("the source of a link can't be reached link=%s reason=%s", self._link, problem)
            for each in due:
                self._pause(each)
            return
        self.problem = ""
        for each in due:
            if self._waiting.get(each.key) is each:
                self._place_one(each, metadata)

    def _place_one(self, mirrored: Mirrored, metadata: SourceMetadata) -> None:
        topic, index = mirrored.key
        found = metadata.topics.get(topic)
        if found is None or found.topic_id != mirrored.source_id:
            self._on_effects(mirrored, [LookForTopic(ErrorCode.UNKNOWN_TOPIC_ID)])
            return
        leader = found.partitions.get(index)
        address = metadata.brokers.get(leader.leader_id) if leader is not None else None
        if leader is None or address is None:
            self._pause(mirrored)
            return
        fetcher = self._fetchers.get(leader.leader_id)
        if fetcher is None:
            fetcher = MirrorFetcher(
                self._node, self._source, leader.leader_id, address, self._on_effects, self._budget
            )
            self._fetchers[leader.leader_id] = fetcher
            self._spawn(f"fetch-{leader.leader_id}", fetcher)
        fetcher.address = address
        del self._waiting[mirrored.key]
        fetcher.add(mirrored, leader.leader_epoch)

    def _spawn(self, name: str, fetcher: MirrorFetcher) -> None:
        task = self._node.supervisor.spawn(f"link-{self._link}-{name}", fetcher.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _pause(self, mirrored: Mirrored) -> None:
        """Wait for a place, a little longer each time."""
        mirrored.failures += 1
        seconds = min(FIRST_PAUSE_SECONDS * 2 ** min(mirrored.failures, 10), LONGEST_PAUSE_SECONDS)
        mirrored.resume_at = self._node.loop.time() + seconds
        if self._mirrored.get(mirrored.key) is mirrored and mirrored.is_current:
            self._waiting[mirrored.key] = mirrored
            self._news.set()

    def _on_effects(self, mirrored: Mirrored, effects: list[Effect]) -> None:
        """A partition has left its fetcher, or found no topic: perform what is to be done, then go on."""
        self._waiting.pop(mirrored.key, None)
        task = self._node.supervisor.spawn(
            f"link-{self._link}-effects-{mirrored.partition.topic}-{mirrored.partition.index}",
            self._perform(mirrored, effects),
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _perform(self, mirrored: Mirrored, effects: list[Effect]) -> None:
        if await self._effects.perform(mirrored, effects):
            mirrored.failures = 0
            mirrored.resume_at = 0.0
            if self._mirrored.get(mirrored.key) is mirrored and mirrored.is_current:
                self._waiting[mirrored.key] = mirrored
                self._news.set()
        else:
            self._pause(mirrored)
