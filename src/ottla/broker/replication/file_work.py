"""Work on the logs' files in threads, which the end of the logs waits for.

A task that is cancelled while a thread works for it ends at once, the thread does not: it may still sync or
replace files when the logs are closed, or when the next broker of the process has opened them. So every
thread is remembered until it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class FileWork:
    """The threads that work on the files of one data directory."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()

    async def run(self, work: Callable[[], T]) -> T:
        """The outcome of `work`, done in a thread. Cancelled, the thread goes on: see `settle`."""
        running = asyncio.get_running_loop().run_in_executor(None, work)
        self._running.add(running)
        running.add_done_callback(self._ended)
        return await asyncio.shield(running)

    def _ended(self, running: asyncio.Future[Any]) -> None:
        self._running.discard(running)
        if not running.cancelled():
            running.exception()  # the caller has it, or was cancelled

    async def settle(self) -> None:
        """Wait until no thread works any more; the tasks that start them have been stopped."""
        if self._running:
            await asyncio.gather(*self._running, return_exceptions=True)
