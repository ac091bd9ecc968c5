"""Looks for the next request a little longer before the process sleeps (see `Poller`)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final

#: How long to look after a request, as Linux's own haltpoll and KVM do.
LOOK_SECONDS: Final = 200e-6
#: A turn of the loop that finds nothing takes 5 to 10 us; in one that took this long another process had the
#: core.
CONTENDED_SECONDS: Final = 60e-6
MISSED_PAUSE_SECONDS: Final = 0.002
CONTENDED_PAUSE_SECONDS: Final = 0.02
LONGEST_PAUSE_SECONDS: Final = 1.0
#: A client that sends more at once sends batches, and does not wait for each answer: it lacks the core.
SMALL_REQUEST_BYTES: Final = 4096
#: After a look of this length without another process on this core, contention is forgotten.
FORGOTTEN_AFTER_SECONDS: Final = 0.005

POLL_VARIABLE: Final = "OTTLA_POLL"

_yield_core: Callable[[], None] = getattr(os, "sched_yield", lambda: None)


class Poller:
    """Keeps the event loop looking for a while after each request, where that pays.

    A process that sleeps in the kernel is woken by another core, and that costs the client 20 to 80
    microseconds. So after a small request the loop looks on without sleeping, for LOOK_SECONDS: a client with
    one request in flight gets half as many more through (measured: 6,600 -> 9,900 a second; from produce() to
    poll() 0.24 -> 0.16 ms). After batches it would only take the core from the client (10 % less).

    It gives way to all others: it yields the core at every turn, and stops for a while when another process
    took it, when it looked in vain, or when several clients came in one turn, so that there is enough to do;
    each time for twice as long, up to a second. So a busy machine pays a look or two a second, and an idle
    broker nothing. On a single core there is no other one to look for.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        look_seconds: float,
        *,
        clock: Callable[[], float] = time.perf_counter,
        yield_core: Callable[[], None] = _yield_core,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._yield_core = yield_core
        self._look_seconds = look_seconds
        self._looking = False
        # The number of requests that came in this turn of the loop.
        self._heard = 0
        self._until = 0.0
        self._resume_at = 0.0 if look_seconds > 0 else float("inf")
        self._missed_pause = MISSED_PAUSE_SECONDS
        self._contended_pause = CONTENDED_PAUSE_SECONDS
        self._began = 0.0

    def heard(self) -> None:
        """A client's small request has arrived."""
        now = self._clock()
        self._heard += 1
        if self._looking:
            self._until = now + self._look_seconds
            self._missed_pause = MISSED_PAUSE_SECONDS
        elif now >= self._resume_at:
            self._looking = True
            self._began = now
            self._heard = 1
            self._until = now + self._look_seconds
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        heard, self._heard = self._heard, 0
        before = self._clock()
        self._yield_core()
        now = self._clock()
        if heard > 1 or now - before > CONTENDED_SECONDS:
            self._pause(now, self._contended_pause)
            self._contended_pause = min(2 * self._contended_pause, LONGEST_PAUSE_SECONDS)
        elif now >= self._until:
            self._pause(now, self._missed_pause)
            self._missed_pause = min(2 * self._missed_pause, LONGEST_PAUSE_SECONDS)
        else:
            if now - self._began > FORGOTTEN_AFTER_SECONDS:
                self._contended_pause = CONTENDED_PAUSE_SECONDS
            self._loop.call_soon(self._look)

    def _pause(self, now: float, seconds: float) -> None:
        self._looking = False
        self._resume_at = now + seconds


def look_seconds() -> float:
    """How long a broker of this process looks after a request; OTTLA_POLL=off says never."""
    if os.environ.get(POLL_VARIABLE) == "off":
        return 0.0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return LOOK_SECONDS if cores > 1 else 0.0
