"""Decides writes, one at a time, on the instance that is the primary."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter_ns
from typing import Final, Protocol, TypeVar

from ottla.replicated.decision import Decision
from ottla.replicated.errors import Fenced, NotPrimary, TooLarge, Unstored
from ottla.replicated.figures import WriteFigures, WriteOutcome
from ottla.replicated.leadership import Leadership
from ottla.replicated.loss import TopicLost
from ottla.replicated.records import Record

T = TypeVar("T")

_OUTCOMES: Final = {
    Fenced: WriteOutcome.FENCED,
    NotPrimary: WriteOutcome.NOT_PRIMARY,
    TooLarge: WriteOutcome.TOO_LARGE,
    TopicLost: WriteOutcome.LOST,
}


class WrittenTopic(Protocol):
    """The part of ReplicatedTopic that a primary uses."""

    @property
    def writable(self) -> bool:
        """See ReplicatedTopic."""

    def require(self) -> None:
        """See ReplicatedTopic."""

    async def read_to_end(self) -> None:
        """See ReplicatedTopic."""

    async def take_over(self) -> None:
        """See ReplicatedTopic."""

    async def consider(self, query: Callable[[], T]) -> T:
        """See ReplicatedTopic."""

    async def append(self, records: Sequence[Record]) -> None:
        """See ReplicatedTopic."""


class Primary:
    """The part of every instance that writes while the instance is the primary."""

    def __init__(self, topic: WrittenTopic, leadership: Leadership) -> None:
        self._topic = topic
        self._leadership = leadership
        self._turn = asyncio.Lock()
        self.figures = WriteFigures()

    async def catch_up(self) -> None:
        """Return when the primary is known and every record that is stored now was replayed here.

        Raises Unstored, TopicLost. Callers bound its time.
        """
        await self._leadership.wait_until_known()
        if self._leadership.is_here:
            try:
                async with self._turn:
                    with self._counted():
                        await self._take_over()
                return
            except Fenced:
                pass  # another has become the primary meanwhile
        await self._topic.read_to_end()

    async def write(self, decide: Callable[[], Decision[T]]) -> T:
        """Decide, store, wait until the records were replayed here, and return the decision's answer.

        The decision is made in a thread while nothing is replayed. Its errors come out, and nothing is
        stored then. Raises NotPrimary, Fenced, TooLarge, Unstored, TopicLost. Callers bound its time:
        where it is cancelled, whether the records were stored is not known.
        """
        async with self._turn:
            try:
                return await self._write(decide)
            except Fenced:
                # Nothing was stored. If this is the primary again (or still, as far as the group says), the
                # records that others wrote meanwhile are read first, and the decision made anew.
                return await self._write(decide)

    async def _write(self, decide: Callable[[], Decision[T]]) -> T:
        with self._counted():
            if not self._leadership.is_here:
                raise NotPrimary
            self._topic.require()
            if not self._topic.writable:
                await self._take_over()
        decision = await self._topic.consider(decide)
        if decision.records:
            begun_ns = perf_counter_ns()
            with self._counted():
                await self._topic.append(decision.records)
            self.figures.times.observe((perf_counter_ns() - begun_ns) // 1_000)
            self.figures.outcomes[WriteOutcome.STORED] += 1
            self.figures.written += len(decision.records)
        return decision.answer

    async def _take_over(self) -> None:
        await self._topic.take_over()
        self.figures.takeovers += 1

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Count a write that fails within; one that is cancelled has no known outcome."""
        try:
            yield
        except (Fenced, NotPrimary, TooLarge, TopicLost, Unstored, asyncio.CancelledError) as problem:
            self.figures.outcomes[_OUTCOMES.get(type(problem), WriteOutcome.UNKNOWN)] += 1
            raise
