"""Owns every background task: sees each one end, and stops the broker when one dies unexpectedly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

log = logging.getLogger("ottla.broker")

Spawn = Callable[[str, Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]


def start_task(spawn: Spawn | None, name: str, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[Any]:
    """Start a task with its owner's `spawn`, or as a plain one without an owner (in tests)."""
    if spawn is not None:
        return spawn(name, coroutine)
    return asyncio.get_running_loop().create_task(coroutine, name=name)


class Supervisor:
    """Runs background tasks by name; a task that raises is a failure of the whole broker.

    A broker that goes on without, say, its retention task looks healthy and is not, so the first
    unexpected death is logged with its traceback and handed to `on_failure`, which stops the broker.
    """

    def __init__(self, on_failure: Callable[[str, BaseException], None]) -> None:
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = False
        self.died: str | None = None
        """The name of the first task that has died."""

    @property
    def running(self) -> int:
        """How many tasks run."""
        return len(self._tasks)

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start `coroutine` as an owned task. Raises RuntimeError once the supervisor is stopping."""
        if self._stopping:
            coroutine.close()
            raise RuntimeError(f"the broker is stopping, task {name} was not started")
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def every(
        self,
        name: str,
        interval_ms: Callable[[], int],
        action: Callable[[], Awaitable[None]],
        *,
        first_ms: int | None = None,
    ) -> asyncio.Task[Any]:
        """Run `action` again and again, `interval_ms()` after the end of the last one.

        first_ms: the time before the first run; None is an interval.
        """

        async def repeat() -> None:
            wait_ms = interval_ms() if first_ms is None else first_ms
            while True:
                await asyncio.sleep(wait_ms / 1000)
                await action()
                wait_ms = interval_ms()

        return self.spawn(name, repeat())

    async def stop(self) -> None:
        """Cancel the tasks that still run and wait until all of them have ended."""
        self._stopping = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None and not self._stopping:
            self.died = self.died or task.get_name()
            if isinstance(failure, OSError):  # the disk's fault, not the program's: its line says which file
                log.error("background task died name=%s error=%s", task.get_name(), failure)
            else:
                log.error("background task died name=%s", task.get_name(), exc_info=failure)
            self._on_failure(task.get_name(), failure)
