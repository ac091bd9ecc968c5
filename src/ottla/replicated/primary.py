"""Decides writes, one at a time, on the instance that is the primary."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ottla.replicated.decision import Decision
from ottla.replicated.errors import Fenced, NotPrimary
from ottla.replicated.leadership import Leadership
from ottla.replicated.records import Record

T = TypeVar("T")


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

    async def catch_up(self) -> None:
        """Return when the primary is known and every record that is stored now was replayed here.

        Raises Unstored, TopicLost. Callers bound its time.
        """
        await self._leadership.wait_until_known()
        if self._leadership.is_here:
            try:
                async with self._turn:
                    await self._topic.take_over()
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
        if not self._leadership.is_here:
            raise NotPrimary
        self._topic.require()
        if not self._topic.writable:
            await self._topic.take_over()
        decision = await self._topic.consider(decide)
        if decision.records:
            await self._topic.append(decision.records)
        return decision.answer
