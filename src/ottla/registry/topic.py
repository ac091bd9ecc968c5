"""The topic `_schemas`: read from its beginning by every instance, written by the primary alone.

Theory of operation. Whoever becomes the primary opens a transactional producer under an id that all instances
of the registry share. That fences the primary before it, whatever it still believes: its transaction is
aborted, and no later write of it is accepted. Then the new one writes a NOOP and reads until it sees it. Now
its image holds every record there is, and only it can add more: decisions made from the image (the next id
above all) are safe. The records of a decision are one transaction, so a kill between any two writes leaves
all of them or none; and as readers read committed records alone, nobody sees the half. A write whose end is
not known (no answer in time) closes the producer: the next write begins by fencing and reading again.

The topic may be deleted and made again at any moment. It is read by its id (partition_log.py), so records of
another topic never come into the image. Producers write by name: before a transaction is committed, its
records are looked for in the topic of the image, and one that went elsewhere is aborted. A topic that is
deleted after that takes the records with it. So nothing that was decided from one topic is in another.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from ottla.client.access import ClusterAccess
from ottla.registry.core.records import Record, noop
from ottla.registry.loss import Loss, TopicLost, way_out
from ottla.registry.partition_log import FoundTopic, PartitionLog, Unreadable
from ottla.registry.writer import Unstored, Writer, append_noop
from ottla.web.errors import ServiceError

log = logging.getLogger("ottla.registry")

T = TypeVar("T")

FETCH_WAIT_MS: Final = 1_000
CHECK_WAIT_MS: Final = 500
REPLAYED_AT_ONCE: Final = 1_000
"""Records, on the event loop: some milliseconds."""
RETRY_SECONDS: Final = 0.1
CONFIRMED_SECONDS: Final = 0.5
"""For so long the nodes that are asked say that it is gone: one that has just started may be late."""
LOST_SECONDS: Final = 1.0
"""Between two looks for a topic that is lost."""


class SchemasTopic:
    """The topic on a cluster. `on_record` gets key, value and timestamp (ms) of each record, in order."""

    def __init__(
        self,
        access: ClusterAccess,
        topic: str,
        writers_id: str,
        timeout_ms: int,
        on_record: Callable[[bytes, bytes | None, int], None],
    ) -> None:
        self._access = access
        self._topic = topic
        self._writers_id = writers_id
        self._timeout_ms = timeout_ms
        self._on_record = on_record
        self._log = PartitionLog(access, topic)
        self._applied_offset = -1
        self._moved = asyncio.Condition()
        self.standstill = asyncio.Lock()
        """Held while the image is read in a thread: nothing is replayed meanwhile."""
        self._writer: Writer | None = None
        self._loss: Loss | None = None
        self._lost = asyncio.Event()
        self._suspected_since: float | None = None
        self._is_denied = False

    @property
    def applied_offset(self) -> int:
        """The offset of the last record that was read."""
        return self._applied_offset

    @property
    def topic_id(self) -> uuid.UUID:
        """Of the topic that is read; that of zeros where the cluster gives none."""
        return self._log.topic_id

    @property
    def loss(self) -> Loss | None:
        """What became of the topic, once that is sure: until a restart the image stays as it is."""
        return self._loss

    # -- reading --------------------------------------------------------------------------------------

    async def read(self, found: FoundTopic) -> None:
        """Read this topic for ever. Raises ServiceError when that is not allowed at the start."""
        self._log.adopt(found)
        next_offset: int | None = None
        try:
            while True:
                try:
                    if next_offset is None:
                        next_offset = await self._log.first_offset()
                    fetched = await self._log.fetch(next_offset, FETCH_WAIT_MS)
                except TopicLost as gone:
                    if gone.loss is Loss.CUT and self._applied_offset < 0:
                        next_offset = None  # nothing is missed: the first offset was that of another moment
                    else:
                        await self._suspect(gone.loss)
                    await asyncio.sleep(RETRY_SECONDS if self._loss is None else LOST_SECONDS)
                except Unreadable as problem:
                    self._suspected_since = None
                    self._refused(problem)
                    await asyncio.sleep(RETRY_SECONDS)
                else:
                    self._is_denied, self._suspected_since = False, None
                    if await self._is_readable():
                        await self._apply(fetched.records)
                        next_offset = fetched.next_offset
        finally:
            await self._log.close()

    async def _suspect(self, loss: Loss) -> None:
        now = asyncio.get_running_loop().time()
        if self._suspected_since is None:
            self._suspected_since = now
        # Where records were cut off, others may take their offsets the next moment: that can't be waited for.
        is_sure = loss is Loss.CUT or now - self._suspected_since >= CONFIRMED_SECONDS
        if is_sure and self._loss in (None, Loss.DELETED) and loss is not self._loss:
            log.error("%s", way_out(self._topic, loss))
            await self._set_loss(loss)

    async def _is_readable(self) -> bool:
        """Whether it is the image's topic, which one is that was missing and has the same id."""
        if self._loss is Loss.CUT:
            await asyncio.sleep(LOST_SECONDS)
            return False
        if self._loss is not None:
            log.warning("topic %s is there again, the same as before: schemas are written again", self._topic)
            await self._set_loss(None)
        return True

    async def _set_loss(self, loss: Loss | None) -> None:
        self._loss = loss
        if loss is None:
            self._lost.clear()
        else:
            self._lost.set()
        async with self._moved:
            self._moved.notify_all()

    def _refused(self, problem: Unreadable) -> None:
        """A cluster that is away is told of by the election."""
        if problem.denied and self._applied_offset < 0:
            raise ServiceError(str(problem))
        if problem.denied and not self._is_denied:
            log.error("%s: what was read is still served", problem)
        self._is_denied = problem.denied

    async def _apply(self, records: Sequence[Any]) -> None:
        for start in range(0, len(records), REPLAYED_AT_ONCE):
            async with self.standstill:
                self._replay(records[start : start + REPLAYED_AT_ONCE])
            async with self._moved:
                self._moved.notify_all()
            await asyncio.sleep(0)

    def _replay(self, records: Sequence[Any]) -> None:
        for record in records:
            self._on_record(record.key or b"", record.value, record.timestamp)
        self._applied_offset = records[-1].offset

    async def wait_until_applied(self, offset: int) -> None:
        """Wait until the record at `offset` was read. Raises TopicLost."""
        async with self._moved:
            await self._moved.wait_for(lambda: self._applied_offset >= offset or self._loss is not None)
        if self._applied_offset < offset:
            self.require()

    async def read_to_end(self) -> None:
        """Add a NOOP, as an instance that is not the primary may, and read it. Raises Unstored, TopicLost."""
        adding = asyncio.to_thread(append_noop, self._access, self._topic, self._timeout_ms)
        await self.wait_until_applied(await self._unless_lost(adding))

    def require(self) -> None:
        """Raises TopicLost."""
        if self._loss is not None:
            raise TopicLost(self._loss)

    # -- writing, on the primary ------------------------------------------------------------------------

    @property
    def writable(self) -> bool:
        """Whether `take_over` was done and no write has failed since."""
        return self._writer is not None

    async def take_over(self) -> None:
        """Fence who wrote before, and read all that it wrote. Raises Fenced, Unstored, TopicLost."""
        self._writer = None
        self._writer = await self._unless_lost(
            asyncio.to_thread(Writer, self._access, self._topic, self._writers_id, self._timeout_ms)
        )
        await self.append([noop()])

    async def append(self, records: Sequence[Record]) -> None:
        """Store records, all or none, and wait until they were read.

        Raises Fenced, TooLarge, Unstored, TopicLost. Then, or where it is cancelled, whether they were stored
        may not be known: `take_over` comes next. A thread that still waits for the cluster then is fenced by
        it, or was in time to be read.
        """
        writer, self._writer = self._writer, None
        assert writer is not None, "take_over comes first"
        offsets = await self._unless_lost(asyncio.to_thread(writer.write, records, self._timeout_ms))
        try:
            await self._require_written(records, offsets)
        except (Unreadable, TopicLost, Unstored) as problem:
            await asyncio.to_thread(writer.abort)
            self.require()
            raise Unstored(str(problem)) from None
        await asyncio.to_thread(writer.commit, self._timeout_ms)
        await self.wait_until_applied(offsets[-1])
        self._writer = writer

    async def _require_written(self, records: Sequence[Record], offsets: Sequence[int]) -> None:
        """That the topic of the image has these records. Raises Unstored, Unreadable, TopicLost."""
        missing = dict(zip(offsets, records, strict=True))
        next_offset = min(offsets)
        while missing:
            fetched = await self._log.fetch(next_offset, CHECK_WAIT_MS, committed=False)
            for found in fetched.records:
                wanted = missing.pop(found.offset, None)
                if wanted is not None and (found.key, found.value) != (wanted.key, wanted.value):
                    raise Unstored(f"another record than was written is in topic {self._topic}")
            if fetched.next_offset == next_offset:
                raise Unstored(f"what was written is not in topic {self._topic} as it was read")
            next_offset = fetched.next_offset

    async def _unless_lost(self, working: Awaitable[T]) -> T:
        """What comes of this, for as long as the topic is there. Raises what it raises, and TopicLost."""
        work = asyncio.ensure_future(working)
        lost = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait([work, lost], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                self.require()
            return await work
        finally:
            work.cancel()
            lost.cancel()
