"""Looks for the next request a little longer before the process sleeps (see `Poller`)."""

from __future__ import annotations

import asyncio
import os
import time

_clock = time.perf_counter


class Poller:
    """Keeps the event loop looking for a while after each request.

    A process that sleeps in the kernel is woken by another core, which costs the client 20 to 80
    microseconds. So after a request the loop looks without sleeping, for at most `limit_seconds`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_seconds: float) -> None:
        self._loop = loop
        self._limit_seconds = limit_seconds
        self._until = 0.0
        self._looking = False

    def heard(self) -> None:
        """A client's bytes have arrived."""
        if self._limit_seconds == 0.0:
            return
        self._until = _clock() + self._limit_seconds
        if not self._looking:
            self._looking = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        if _clock() >= self._until:
            self._looking = False
            return
        os.sched_yield()
        self._loop.call_soon(self._look)
