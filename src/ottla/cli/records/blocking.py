"""A thread for calls that may block for ever, such as reading a terminal: the process ends without it."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any


class BlockingThread:
    """Runs one call at a time. A daemon thread: asyncio's own would keep the process until the call
    returns.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The function's result, or its exception."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls.put((done, function, arguments))
        return await done

    def _work(self) -> None:
        while True:
            done, function, arguments = self._calls.get()
            try:
                result, problem = function(*arguments), None
            except BaseException as raised:
                result, problem = None, raised
            # the loop is closed when the command has ended meanwhile
            with contextlib.suppress(RuntimeError):
                done.get_loop().call_soon_threadsafe(_settle, done, result, problem)


def _settle(done: asyncio.Future[Any], result: Any, problem: BaseException | None) -> None:
    if done.done():
        return
    if problem is None:
        done.set_result(result)
    else:
        done.set_exception(problem)
