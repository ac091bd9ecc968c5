"""The background tasks of one instance: started with it, watched, and ended with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from ottla.replicated.errors import StateError

T = TypeVar("T")


class BackgroundTasks:
    """Tasks that all have to run for as long as the instance does."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run this from now on; `name` is for the message when it ends."""
        self._tasks.append(asyncio.create_task(work, name=name))

    async def unless_ended(self, starting: Awaitable[T]) -> T:
        """The outcome of this work, awaited for as long as all tasks run. Raises StateError."""
        work = asyncio.ensure_future(starting)
        try:
            await asyncio.wait([work, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise StateError(await self.ended())
            return work.result()
        finally:
            work.cancel()

    async def ended(self) -> str:
        """Wait until one of the tasks has ended; says which one and why."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        task = next(iter(done))
        problem = task.exception() if not task.cancelled() else None
        return f"{task.get_name()}: {problem or 'ended'}"

    async def stop(self) -> None:
        """End all tasks."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
