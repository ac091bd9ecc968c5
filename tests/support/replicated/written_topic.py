"""A topic that a primary writes to, without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.replicated.loss import Loss, TopicLost
from ottla.replicated.records import Record

T = TypeVar("T")


class WrittenTopic:
    """Satisfies the protocol. `done`: its calls. `failures`: of the next writes."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.failures: list[Exception] = []
        self.writable = False
        self.loss: Loss | None = None

    def require(self) -> None:
        if self.loss is not None:
            raise TopicLost(self.loss)

    async def read_to_end(self) -> None:
        self.done.append("read")

    async def take_over(self) -> None:
        self.writable = False
        await self._do("take over")
        self.writable = True

    async def consider(self, query: Callable[[], T]) -> T:
        return await asyncio.to_thread(query)

    async def append(self, records: Sequence[Record]) -> None:
        self.writable = False
        await self._do(f"append {len(records)}")
        self.writable = True

    async def _do(self, call: str) -> None:
        self.done.append(call)
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
