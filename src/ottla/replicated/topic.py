"""A compacted topic as state: replayed from its beginning by every instance, written by the primary alone.

Theory of operation. An instance that becomes the primary opens a transactional producer under an id that all
instances of the service share. That fences the primary before it, whatever that one still believes: its
transaction is aborted, and no later write of it is accepted. Then the new one replays the topic to its end:
to an end mark that it writes, or to the end that the leaders tell. Now its image holds every record there is,
and only it can add more: decisions made from the image are safe. The records of a decision are one
transaction, so a kill between any two writes leaves all of them or none; and as readers get committed records
alone, none of them sees the half. A write whose end is not known (no answer in time) closes the producer: the
next write begins by fencing and reading again.

The topic may be deleted and made again at any moment. It is read by its id (topic_log.py), so records of
another topic never come into the image. Producers write by name: before a transaction is committed, its
records are looked for in the topic of the image, and one that went elsewhere is aborted. A topic that is
deleted after that takes the records with it. So no record that was decided from one topic is in another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from ottla.client.access import ClusterAccess
from ottla.replicated.errors import Unstored
from ottla.replicated.figures import ReadFigures
from ottla.replicated.loss import Loss, TopicLost
from ottla.replicated.place import Place
from ottla.replicated.preparing import TopicSpec, prepare
from ottla.replicated.reader import TopicReader
from ottla.replicated.records import Record, ReplayedRecord
from ottla.replicated.topic_log import TopicLog, Unreadable
from ottla.replicated.writer import Writer, Written, add

T = TypeVar("T")

CHECK_WAIT_MS: Final = 500


class OtherTopic(Exception):
    """A place is one of another topic of this name than the image was read from."""


class ReplicatedTopic:
    """The topic on a cluster: `prepare`, then `read` in a task of its own, and `close` after that.

    replay: gets each record in the order of its partition, on the event loop.
    writers_id: the transactional id that all primaries share; None: the topic has no primary.
    timeout_ms: for each step of a write.
    standstill: held while an image is read in a thread; topics of one image share it.
    """

    def __init__(
        self,
        access: ClusterAccess,
        spec: TopicSpec,
        replay: Callable[[ReplayedRecord], None],
        writers_id: str | None,
        timeout_ms: int,
        standstill: asyncio.Lock | None = None,
    ) -> None:
        self.spec = spec
        self._access = access
        self._writers_id = writers_id
        self._timeout_ms = timeout_ms
        self._standstill = standstill or asyncio.Lock()
        self._log = TopicLog(access, spec.name)
        self._reader = TopicReader(self._log, replay, spec.way_out, self._standstill)
        self._writer: Writer | None = None

    async def prepare(self) -> str:
        """Make the topic or check it; the cluster's id. Raises StateError."""
        return await prepare(self._access, self.spec, self._log)

    async def read(self) -> None:
        """Replay for ever. Raises StateError when that is not allowed at the start."""
        await self._reader.run()

    async def close(self) -> None:
        """Hang up, once `read` has ended."""
        await self._log.close()

    # -- reading --------------------------------------------------------------------------------------

    @property
    def place(self) -> Place:
        """How far the topic was replayed."""
        return self._reader.place

    @property
    def offsets(self) -> dict[int, int]:
        """See TopicReader."""
        return self._reader.offsets

    @property
    def lag(self) -> int:
        """See TopicReader."""
        return self._reader.lag

    @property
    def read_figures(self) -> ReadFigures:
        """See TopicReader."""
        return self._reader.figures

    @property
    def loss(self) -> Loss | None:
        """The topic's fate, once that is sure: until a restart the image stays as it is."""
        return self._reader.loss

    def require(self) -> None:
        """Raises TopicLost."""
        self._reader.require()

    async def consider(self, query: Callable[[], T]) -> T:
        """The answer of a query that may take long, in a thread: nothing is replayed meanwhile."""
        async with self._standstill:
            return await asyncio.to_thread(query)

    async def wait_until_at(self, place: Place) -> None:
        """Wait until this much was replayed here too. Raises OtherTopic, TopicLost."""
        if place.topic_id != self.place.topic_id:
            raise OtherTopic
        await self._reader.wait_until_applied(dict(enumerate(place.offsets)))

    async def read_to_end(self) -> None:
        """Replay all records that are there now, as any instance may. Raises Unstored, TopicLost."""
        if self.spec.end_mark is not None:
            await self.add([self.spec.end_mark])
        else:
            await self._replay_to_end()

    async def _replay_to_end(self) -> None:
        try:
            ends = await self._reader.unless_lost(self._log.end_offsets())
        except Unreadable as problem:
            raise Unstored(str(problem)) from None
        await self._reader.wait_until_applied({partition: end - 1 for partition, end in ends.items()})

    async def _wait_until_replayed(self, written: Sequence[Written]) -> None:
        await self._reader.wait_until_applied(dict(sorted(written)))  # the last of each partition

    # -- writing --------------------------------------------------------------------------------------

    async def add(self, records: Sequence[Record]) -> None:
        """Store records that no primary decides, one by one, and wait until they were replayed.

        A topic that is replaced at the same moment may get them. Raises TooLarge, Unstored, TopicLost.
        """
        adding = asyncio.to_thread(add, self._access, self.spec.name, records, self._timeout_ms)
        await self._wait_until_replayed(await self._reader.unless_lost(adding))

    @property
    def writable(self) -> bool:
        """Whether `take_over` was done and no write has failed since."""
        return self._writer is not None

    async def take_over(self) -> None:
        """Fence the primary before, and replay all that it wrote. Raises Fenced, Unstored, TopicLost."""
        assert self._writers_id is not None, "a topic without a primary"
        self._writer = None
        writer = await self._reader.unless_lost(
            asyncio.to_thread(Writer, self._access, self.spec.name, self._writers_id, self._timeout_ms)
        )
        if self.spec.end_mark is None:
            await self._replay_to_end()
        self._writer = writer
        if self.spec.end_mark is not None:
            await self.append([self.spec.end_mark])

    async def append(self, records: Sequence[Record]) -> None:
        """Store records, all or none, and wait until they were replayed.

        Raises Fenced, TooLarge, Unstored, TopicLost. Then, or where it is cancelled, whether they were stored
        may not be known: `take_over` comes next. A thread that still waits for the cluster then is fenced by
        it, or was in time to be read.
        """
        writer, self._writer = self._writer, None
        assert writer is not None, "take_over comes first"
        written = await self._reader.unless_lost(asyncio.to_thread(writer.write, records, self._timeout_ms))
        try:
            await self._require_written(records, written)
        except (Unreadable, TopicLost, Unstored) as problem:
            await asyncio.to_thread(writer.abort)
            self.require()
            raise Unstored(str(problem)) from None
        await asyncio.to_thread(writer.commit, self._timeout_ms)
        await self._wait_until_replayed(written)
        self._writer = writer

    async def _require_written(self, records: Sequence[Record], written: Sequence[Written]) -> None:
        """See that the topic of the image has these records. Raises Unstored, Unreadable, TopicLost."""
        by_partition: dict[int, dict[int, Record]] = {}
        for record, place in zip(records, written, strict=True):
            by_partition.setdefault(place.partition, {})[place.offset] = record
        for partition, missing in by_partition.items():
            await self._require_partition(partition, missing)

    async def _require_partition(self, partition: int, missing: dict[int, Record]) -> None:
        if partition >= len(self._log.found.leaders):
            raise Unstored(f"topic {self.spec.name} has more partitions than when it was first read")
        next_offset = min(missing)
        while missing:
            fetched = await self._log.fetch_uncommitted(partition, next_offset, CHECK_WAIT_MS)
            for found in fetched.records:
                wanted = missing.pop(found.offset, None)
                if wanted is not None and (found.key, found.value) != (wanted.key, wanted.value):
                    raise Unstored(f"another record than was written is in topic {self.spec.name}")
            if fetched.next_offset == next_offset:
                raise Unstored(f"the written records are not in topic {self.spec.name} as it was read")
            next_offset = fetched.next_offset
