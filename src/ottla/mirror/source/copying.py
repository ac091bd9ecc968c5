"""One session's way of a part: what was fetched becomes batches of the target, or letters, or nothing."""

from __future__ import annotations

import logging
import uuid
from typing import Final, Protocol

from ottla.client.cluster_requests import TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.records.visibility import Visibility
from ottla.mirror.core.batch_plans import Plan, encoded, plan_of, wanted_records
from ottla.mirror.core.gaps import Break, Loss
from ottla.mirror.core.policies import Flow
from ottla.mirror.source.copied_batch import CopiedBatch, batch_of
from ottla.mirror.source.dead_letters import DeadLetters
from ottla.mirror.source.delivery import Delivery
from ottla.mirror.source.fetching import FetchedPart, Fetcher, FetchSettings
from ottla.mirror.source.figures import TaskFigures
from ottla.mirror.source.places import source_offset, source_partition
from ottla.protocol.record_batch import BatchHeader, check_crc, decode_records

_log = logging.getLogger("ottla.mirror")

Refused = dict[TopicPartition, dict[int, ClusterError]]
"""The records of each partition that the target does not take, by their offsets, and why."""


class CopyingParts(Protocol):
    """What copying needs of a task's parts."""

    @property
    def fetching(self) -> FetchSettings:
        """How the source is read."""

    @property
    def dead_letters(self) -> DeadLetters | None:
        """Where refused records go."""


class Copying:
    """Takes parts of a fetcher and gives them to a delivery. Raises ClusterError, CorruptBatch."""

    def __init__(
        self,
        flow: Flow,
        parts: CopyingParts,
        delivery: Delivery,
        fetcher: Fetcher,
        figures: TaskFigures,
        refused: Refused,
    ) -> None:
        self.delivery: Final = delivery
        self.fetcher: Final = fetcher
        self.made_again: list[TopicPartition] = []
        """Partitions whose offsets mean other records now."""
        self._flow = flow
        self._parts = parts
        self._figures = figures
        self._refused = refused
        self._visibility: dict[TopicPartition, Visibility] = {}
        self._remote: dict[str, str] = {}
        self._done: dict[TopicPartition, tuple[int, uuid.UUID]] = {}
        for partition, place in fetcher.places.items():
            figures.of[partition].position = place.position or 0

    async def step(self, seconds: float) -> None:
        """Take the next part, if there is one within so many seconds."""
        match await self.fetcher.next(seconds):
            case FetchedPart() as part:
                await self._take(part)
            case Break() as found:
                self._break(found)

    def measure(self) -> None:
        """Let the figures know the ends that the leaders have told."""
        for partition, place in self.fetcher.places.items():
            end = place.stable_end if self._parts.fetching.committed else place.high_watermark
            self._figures.of[partition].end = end

    def take_done(self) -> dict[TopicPartition, tuple[int, uuid.UUID]]:
        """The next offset, and the topic's id, of partitions that went on since this was last asked."""
        found, self._done = self._done, {}
        return found

    def take_made_again(self) -> list[TopicPartition]:
        """The partitions of `made_again`, once."""
        found, self.made_again = self.made_again, []
        return found

    def _break(self, found: Break) -> None:
        _log.warning("%s: %s", self._flow, found)
        self._figures.broken(found)
        self._visibility.pop(found.partition, None)
        if found.loss is not Loss.OVERTAKEN:
            self.made_again.append(found.partition)
            self._refused[found.partition].clear()

    async def _take(self, part: FetchedPart) -> None:
        origin = part.partition
        batches = part.batches
        if self._parts.fetching.committed:
            visibility = self._visibility.setdefault(origin, Visibility())
            batches = visibility.visible(part.data, batches, part.aborted)
        figures = self._figures.of[origin]
        data = memoryview(part.data)
        refused = self._refused[origin]
        remote = TopicPartition(self._remote_topic(origin.topic), origin.partition)
        for position, header in batches:
            plan = plan_of(header, part.start, refused)
            if plan is Plan.SKIP:
                continue
            if plan is Plan.COPY:
                check_crc(data, position, header)
                figures.batches_copied += 1
                whole = data[position : position + header.size_bytes]
                offsets = range(header.base_offset, header.next_offset)
                await self.delivery.add(CopiedBatch(remote, origin, whole, header, offsets))
            else:
                figures.batches_encoded += 1
                await self._encode(part, position, header, remote)
            figures.bytes += header.size_bytes
            figures.newest_ms = max(figures.newest_ms, header.max_timestamp)
        figures.position = part.next_offset
        self._done[origin] = part.next_offset, part.topic_id
        self.delivery.reached(
            source_partition(self._flow.source_alias, origin), source_offset(part.next_offset, part.topic_id)
        )

    async def _encode(
        self, part: FetchedPart, position: int, header: BatchHeader, remote: TopicPartition
    ) -> None:
        refused = self._refused[part.partition]
        records = wanted_records(part.data, position, part.start, refused)
        if records:
            new = encoded(header, records)
            await self.delivery.add(batch_of(remote, part.partition, new.data, new.offsets))
        if refused and self._parts.dead_letters is not None:
            for record in decode_records(part.data, position):
                problem = refused.get(record.offset)
                if problem is not None and record.offset >= part.start:
                    letter = await self._parts.dead_letters.letter(part.partition, record, problem)
                    await self.delivery.add(letter)
                    self._figures.of[part.partition].dead_letters += 1

    def _remote_topic(self, topic: str) -> str:
        found = self._remote.get(topic)
        if found is None:
            found = self._remote[topic] = self._flow.remote_topic(topic)
        return found
