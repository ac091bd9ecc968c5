"""The endpoint in a thread with a loop of its own, for processes whose own thread has none: Spark's drivers.

Sources and checks are called in that thread; they read integers and take copies of what they walk through, as
everywhere, and that is safe under Python's lock.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Final

from ottla.metrics.endpoint import MetricsEndpoint
from ottla.metrics.settings import Address

STOP_SECONDS: Final = 5.0


class EndpointThread:
    """Runs an endpoint from `start` to `stop`; a daemon, so that it keeps no process from ending."""

    def __init__(self, endpoint: MetricsEndpoint) -> None:
        self._endpoint = endpoint
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._started: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None

    def start(self) -> Address:
        """Take the port and serve; the address. Raises EndpointError."""
        address = self._endpoint.bind()
        self._thread.start()
        self._started.result()
        return address

    def stop(self) -> None:
        """Serve no more; waits a few seconds for the thread's end."""
        loop, end = self._loop, self._end
        if loop is not None and end is not None and self._thread.is_alive():
            loop.call_soon_threadsafe(end.set)
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        try:
            await self._endpoint.start()
        except BaseException as problem:
            self._started.set_exception(problem)
            return
        self._started.set_result(None)
        await self._end.wait()
        await self._endpoint.stop()
