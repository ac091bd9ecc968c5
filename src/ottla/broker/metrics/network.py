"""Connections, the memory that they share, and how busy the event loop is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Final

from ottla.broker.network.server import Server
from ottla.metrics.exposition import Family, by_label, single
from ottla.metrics.histogram import Histogram
from ottla.metrics.tables import broker as table

PROBE_SECONDS: Final = 0.25
LEAST_IDLE_SECONDS: Final = 0.5
"""Scrapes that follow each other faster are told the idle share of the former one."""
_PROCESSOR: Final = "0"


class LoopProbe:
    """Looks four times a second by how much the loop is late, and how busy its thread is."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tick: Callable[[float], None]) -> None:
        """tick: called at each look, with the seconds between two."""
        self._loop = loop
        self._tick = tick
        self.lag = Histogram(0.001)
        self._idle = 1.0
        self._measured = (time.perf_counter(), time.thread_time())

    async def run(self) -> None:
        """Look, again and again."""
        while True:
            due = self._loop.time() + PROBE_SECONDS
            await asyncio.sleep(PROBE_SECONDS)
            self.lag.observe(int((self._loop.time() - due) * 1_000_000))
            self._tick(PROBE_SECONDS)

    @property
    def idle(self) -> float:
        """The share of the time since the last look in which the thread used no processor."""
        now, used = time.perf_counter(), time.thread_time()
        passed = now - self._measured[0]
        if passed >= LEAST_IDLE_SECONDS:
            self._idle = min(1.0, max(0.0, 1 - (used - self._measured[1]) / passed))
            self._measured = now, used
        return self._idle


class NetworkMetrics:
    """The source of SocketServer's metrics."""

    def __init__(self, server: Server, probe: LoopProbe) -> None:
        self._server = server
        self._probe = probe

    def read(self) -> Iterator[Family | None]:
        """The families of connections, memory and loop."""
        groups = list(self._server.groups)
        yield Family(
            table.CONNECTIONS,
            [((name, _PROCESSOR), limits.open_at(name)) for _, names, limits, _ in groups for name in names],
        )
        yield Family(
            table.CONNECTIONS_MADE,
            [((name, _PROCESSOR), limits.made[name]) for _, names, limits, _ in groups for name in names],
        )
        yield single(table.CONNECTIONS_REFUSED, sum(limits.refused for _, _, limits, _ in groups))
        yield by_label(table.REQUEST_MEMORY, {name: each.memory.held_bytes for name, _, _, each in groups})
        yield by_label(table.ANSWER_MEMORY, {name: each.answers.held_bytes for name, _, _, each in groups})
        idle = self._probe.idle
        yield single(table.LOOP_IDLE, idle)
        yield single(table.HANDLER_IDLE, idle)
        yield single(table.LOOP_LAG, self._probe.lag)
