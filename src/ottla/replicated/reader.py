"""Replays a topic's committed records for ever, and tells when the topic is lost.

Theory of operation. One fetch is under way to each leader, for all of its partitions; a partition that can't
be read does not hold up the others. Records are replayed in steps on the event loop, none while a reader of
the image holds `standstill`. A topic that is gone, as the nodes say, is lost when they have said so for a
while; records that were cut off are a loss at once, for good. From then on the image stays as it is. If the
same topic was only out of sight, reading goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from ottla.replicated.errors import StateError
from ottla.replicated.figures import ReadFigures
from ottla.replicated.loss import Loss, TopicLost
from ottla.replicated.place import Place
from ottla.replicated.records import ReplayedRecord
from ottla.replicated.topic_log import Address, Fetched, FoundTopic, Unreadable, by_leader

log = logging.getLogger("ottla.replicated")

T = TypeVar("T")

FETCH_WAIT_MS: Final = 1_000
REPLAYED_AT_ONCE: Final = 1_000
"""Records, on the event loop: some milliseconds."""
RETRY_SECONDS: Final = 0.1
CONFIRMED_SECONDS: Final = 0.5
"""For so long the nodes that are asked say that it is gone: one that has just started may be late."""
LOST_SECONDS: Final = 1.0
"""Between two looks for a topic that is lost."""


class PartitionedLog(Protocol):
    """The part of TopicLog that a reader uses."""

    @property
    def topic(self) -> str:
        """The topic's name."""

    @property
    def found(self) -> FoundTopic:
        """The topic that is read."""

    async def leaders(self) -> Mapping[int, Address]:
        """See TopicLog."""

    async def first_offsets(self, leader: Address, partitions: Collection[int]) -> Mapping[int, int]:
        """See TopicLog."""

    async def fetch(self, leader: Address, offsets: Mapping[int, int], wait_ms: int) -> Sequence[Fetched]:
        """See TopicLog."""


class TopicReader:
    """`replay` gets each record once, in the order of its partition.

    way_out: how to go on after a loss, for the log.
    """

    def __init__(
        self,
        partitions: PartitionedLog,
        replay: Callable[[ReplayedRecord], None],
        way_out: Callable[[Loss], str],
        standstill: asyncio.Lock,
    ) -> None:
        self._log = partitions
        self._replay = replay
        self._way_out = way_out
        self._standstill = standstill
        # In the order in which partitions gave records: those that gave some go to the end of a request.
        self._next_offsets: dict[int, int | None] = {}
        self._applied_offsets: dict[int, int] = {}
        self._fetches: dict[Address, asyncio.Task[Sequence[Fetched]]] = {}
        self._moved = asyncio.Condition()
        self._loss: Loss | None = None
        self._lost = asyncio.Event()
        self._suspected_since: float | None = None
        self._is_denied = False
        self.figures = ReadFigures()

    @property
    def place(self) -> Place:
        """How far the topic was replayed."""
        found = self._log.found
        offsets = (self._applied_offsets.get(partition, -1) for partition in range(len(found.leaders)))
        return Place(found.topic_id, tuple(offsets))

    @property
    def offsets(self) -> dict[int, int]:
        """The offset of the next record of each partition whose first one is known."""
        return {one: offset for one, offset in sorted(self._next_offsets.items()) if offset is not None}

    @property
    def lag(self) -> int:
        """Committed offsets, as the leaders last told, that were not replayed."""
        offsets = self.offsets
        return sum(max(0, end - offsets.get(one, 0)) for one, end in self.figures.ends.items())

    @property
    def loss(self) -> Loss | None:
        """The topic's fate once that is sure: until a restart the image stays as it is."""
        return self._loss

    def require(self) -> None:
        """Raises TopicLost."""
        if self._loss is not None:
            raise TopicLost(self._loss)

    async def run(self) -> None:
        """Read for ever. Raises StateError when that is not allowed at the start."""
        self._next_offsets = dict.fromkeys(range(len(self._log.found.leaders)))
        try:
            while self._loss is not Loss.CUT:
                is_well = await self._begin_fetches()
                is_well &= await self._end_fetches(None if is_well else self._pause_seconds)
                if not is_well:
                    await asyncio.sleep(self._pause_seconds)
            await asyncio.Event().wait()
        finally:
            for fetch in self._fetches.values():
                fetch.cancel()
            if self._fetches:
                await asyncio.wait(self._fetches.values())

    async def wait_until_applied(self, offsets: Mapping[int, int]) -> None:
        """Wait until the records at these offsets of partitions were replayed. Raises TopicLost."""

        def is_applied() -> bool:
            return all((self._next_offsets.get(one) or 0) > offset for one, offset in offsets.items())

        async with self._moved:
            await self._moved.wait_for(lambda: is_applied() or self._loss is not None)
        if not is_applied():
            self.require()

    async def unless_lost(self, working: Awaitable[T]) -> T:
        """The outcome of this work, awaited for as long as the topic is there. Raises TopicLost."""
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

    # -- fetches --------------------------------------------------------------------------------------

    async def _begin_fetches(self) -> bool:
        """Ask leaders that are not being asked. False if a partition can't be read at the moment."""
        try:
            leaders = await self._log.leaders()
        except (TopicLost, Unreadable) as problem:
            await self._meet(problem)
            return False
        for leader, partitions in by_leader(leaders).items():
            if leader not in self._fetches:
                self._fetches[leader] = asyncio.create_task(self._fetch(leader, partitions))
        return len(leaders) == len(self._next_offsets)

    async def _fetch(self, leader: Address, partitions: Collection[int]) -> Sequence[Fetched]:
        new = [one for one in partitions if self._next_offsets[one] is None]
        if new:
            self._next_offsets.update(await self._log.first_offsets(leader, new))
        wanted = [(one, offset) for one, offset in self._next_offsets.items() if one in partitions]
        offsets = {partition: offset for partition, offset in wanted if offset is not None}
        return await self._log.fetch(leader, offsets, FETCH_WAIT_MS)

    async def _end_fetches(self, wait_seconds: float | None) -> bool:
        """Wait for an answer, and replay all that are there. False if a partition can't be read."""
        if self._fetches:
            await asyncio.wait(
                self._fetches.values(), timeout=wait_seconds, return_when=asyncio.FIRST_COMPLETED
            )
        is_well = True
        for leader, fetch in list(self._fetches.items()):
            if fetch.done():
                del self._fetches[leader]
                try:
                    answers = fetch.result()
                except (TopicLost, Unreadable) as problem:
                    await self._meet(problem)
                    is_well = False
                else:
                    for fetched in answers:
                        is_well &= await self._take(fetched)
        return is_well

    async def _take(self, fetched: Fetched) -> bool:
        """Replay the records of one partition. False if there is a problem in place of them."""
        partition = fetched.partition
        if self._loss is Loss.CUT or fetched.offset != self._next_offsets[partition]:
            return True  # read from another leader meanwhile
        if fetched.problem is None:
            await self._readable()
            if fetched.end is not None:
                self.figures.ends[partition] = fetched.end
            await self._apply(fetched)
            return True
        match fetched.problem:
            case TopicLost(loss=Loss.CUT) if partition not in self._applied_offsets:
                # Nothing of it is missed: its first offset was that of another moment.
                self._next_offsets[partition] = None
            case problem:
                await self._meet(problem)
        return False

    async def _apply(self, fetched: Fetched) -> None:
        partition, records = fetched.partition, fetched.records
        for start in range(0, len(records), REPLAYED_AT_ONCE):
            step = records[start : start + REPLAYED_AT_ONCE]
            async with self._standstill:
                for record in step:
                    self._replay(record)
                self.figures.replayed += len(step)
                self._applied_offsets[partition] = step[-1].offset
                # at the end of the order
                self._next_offsets.pop(partition)
                self._next_offsets[partition] = step[-1].offset + 1
            await self._tell_waiters()
            await asyncio.sleep(0)
        if self._next_offsets[partition] != fetched.next_offset:
            self._next_offsets[partition] = fetched.next_offset
            await self._tell_waiters()

    # -- problems -------------------------------------------------------------------------------------

    @property
    def _pause_seconds(self) -> float:
        return RETRY_SECONDS if self._loss is None else LOST_SECONDS

    async def _meet(self, problem: TopicLost | Unreadable) -> None:
        self.figures.failures += 1
        if isinstance(problem, TopicLost):
            await self._suspect(problem.loss)
            return
        # A cluster that is away is told of by the group's member.
        self._suspected_since = None
        if problem.denied and not self._applied_offsets:
            raise StateError(str(problem))
        if problem.denied and not self._is_denied:
            log.error("%s: the records that were read are still served", problem)
        self._is_denied = problem.denied

    async def _suspect(self, loss: Loss) -> None:
        now = asyncio.get_running_loop().time()
        if self._suspected_since is None:
            self._suspected_since = now
        # Where records were cut off, others may take their offsets the next moment: that can't be waited for.
        is_sure = loss is Loss.CUT or now - self._suspected_since >= CONFIRMED_SECONDS
        if is_sure and self._loss in (None, Loss.DELETED) and loss is not self._loss:
            log.error("%s", self._way_out(loss))
            await self._set_loss(loss)

    async def _readable(self) -> None:
        """The image's topic answers: also one that was missing has the same id."""
        self._is_denied, self._suspected_since = False, None
        if self._loss is not None:
            log.warning("topic %s is there again, the same as before: it is written again", self._log.topic)
            await self._set_loss(None)

    async def _set_loss(self, loss: Loss | None) -> None:
        self._loss = loss
        if loss is None:
            self._lost.clear()
        else:
            self._lost.set()
        await self._tell_waiters()

    async def _tell_waiters(self) -> None:
        async with self._moved:
            self._moved.notify_all()
