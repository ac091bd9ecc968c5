"""The broker's end of the pipe to `ottla broker --brokers N`, which started it: when to stop, and how far.

The launcher holds the other end of this process's stdin. A line `stop` asks for a clean stop. A combined
node's controller goes on after its broker has left, because the other nodes' brokers need the quorum to
leave as well: the node says `left` on stdout and waits until the pipe is closed. A launcher that was killed
closes it too, so no broker outlives its launcher.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Final

log = logging.getLogger("ottla.broker")

STOP: Final = b"stop"
LEFT_LINE: Final = "ottla broker left"
LINGER_SECONDS: Final = 30.0
ORPHAN_SECONDS: Final = 30.0
"""A broker whose launcher is gone ends after this time, stopped cleanly or not."""


class LauncherPipe:
    """Made on the event loop; reads stdin in a thread, which works on every system."""

    def __init__(self, on_stop: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_stop = on_stop
        self._closed = asyncio.Event()
        threading.Thread(target=self._read, name="launcher-pipe", daemon=True).start()

    async def wait_after_leaving(self) -> None:
        """Tell the launcher that the broker has left; wait for the others, for LINGER_SECONDS at most."""
        print(LEFT_LINE, flush=True)
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                await self._closed.wait()
        except TimeoutError:
            log.warning("the other brokers have not left, this node stops nevertheless")

    def _read(self) -> None:
        waiting = b""
        while True:
            try:
                data = os.read(sys.stdin.fileno(), 1024)
            except OSError:
                data = b""
            if not data:
                break
            *lines, waiting = (waiting + data).split(b"\n")
            if STOP in lines:
                self._tell(self._on_stop)
        self._tell(self._orphaned)

    def _tell(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop has ended, and so does this process
            return

    def _orphaned(self) -> None:
        self._closed.set()
        self._on_stop()
        self._loop.call_later(ORPHAN_SECONDS, os._exit, 1)
