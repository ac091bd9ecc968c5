"""Accepts the connections of one listener: within the limits, and so that other clients are served meanwhile.

Written by hand instead of the event loop's own server, because that accepts without limits, and when the
process has no descriptor left either closes waiting connections (libuv) or logs each attempt (asyncio). Here
a turn accepts ACCEPT_BATCH connections at most; without a slot or a descriptor nothing is accepted,
connections wait in the socket's backlog, and nothing spins.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.broker.network.connection_limits import ConnectionLimits

log = logging.getLogger("ottla.broker")

ACCEPT_BATCH: Final = 32
#: How many connections that came too early for their address are kept waiting; beyond, the first is closed.
MOST_EARLY: Final = 64
#: How long to wait for a slot or a descriptor before looking again.
RETRY_SECONDS: Final = 0.5
_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """One listener's way in. `run` until it is cancelled."""

    def __init__(
        self,
        listener_name: str,
        bound: socket.socket,
        limits: ConnectionLimits,
        slot_freed: asyncio.Event,
        adopt: Callable[[socket.socket, str], Awaitable[None]],
        refuse: Callable[[str], None],
    ) -> None:
        self._listener_name = listener_name
        self._bound = bound
        self._limits = limits
        self._slot_freed = slot_freed
        self._adopt = adopt
        self._refuse = refuse
        self._admitted: list[tuple[socket.socket, str]] = []
        self._paused = ""
        # Connections that came too early for their address, and what closes them.
        self._early: dict[socket.socket, asyncio.TimerHandle] = {}

    async def run(self) -> None:
        """Accept for ever; the socket listens already."""
        try:
            await self._accept_all()
        finally:
            while self._early:
                self._close_earliest()

    async def _accept_all(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._until_there_is_a_slot()
            try:
                accepted, address = await loop.sock_accept(self._bound)
                self._resume()
                await self._admit(accepted, address[0])
                for _ in range(ACCEPT_BATCH - 1):
                    if not self._limits.has_slot(self._listener_name):
                        break
                    accepted, address = self._bound.accept()
                    await self._admit(accepted, address[0])
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                pass  # no other connection waits, or it has gone again
            except OSError as problem:
                if problem.errno not in _OUT_OF_RESOURCES:
                    raise
                self._pause(problem.strerror or str(problem))
                await self._adopt_admitted()
                await asyncio.sleep(RETRY_SECONDS)
            await self._adopt_admitted()
            await asyncio.sleep(0)  # a flood of refusals leaves other clients their turns too

    async def _until_there_is_a_slot(self) -> None:
        while not self._limits.has_slot(self._listener_name):
            self._pause("max.connections")
            self._slot_freed.clear()
            try:
                # The limit may change too, so it looks again now and then.
                await asyncio.wait_for(self._slot_freed.wait(), RETRY_SECONDS)
            except TimeoutError:
                continue

    async def _admit(self, accepted: socket.socket, address: str) -> None:
        delay = self._limits.delay(self._listener_name, asyncio.get_running_loop().time())
        if delay > 0:
            await self._adopt_admitted()
            await asyncio.sleep(delay)
        # Meanwhile another listener may have taken the last slot.
        await self._until_there_is_a_slot()
        loop = asyncio.get_running_loop()
        throttle_ms = self._limits.too_early_ms(self._listener_name, address, loop.time())
        if throttle_ms:
            self._keep_waiting(accepted, loop, throttle_ms)
            return
        if self._limits.add(self._listener_name, address):
            self._admitted.append((accepted, address))
        else:
            accepted.close()
            self._refuse(address)

    async def _adopt_admitted(self) -> None:
        admitted, self._admitted = self._admitted, []
        await asyncio.gather(*(self._adopt(accepted, address) for accepted, address in admitted))

    def _keep_waiting(
        self, accepted: socket.socket, loop: asyncio.AbstractEventLoop, throttle_ms: int
    ) -> None:
        """Close a connection when it could have been made, so that its client does not try again at once."""
        if len(self._early) == MOST_EARLY:
            self._close_earliest()
        self._early[accepted] = loop.call_later(throttle_ms / 1000, self._close_early, accepted)

    def _close_early(self, accepted: socket.socket) -> None:
        self._early.pop(accepted).cancel()
        accepted.close()

    def _close_earliest(self) -> None:
        self._close_early(next(iter(self._early)))

    def _pause(self, reason: str) -> None:
        if self._paused != reason:
            self._paused = reason
            log.warning(
                "accepting paused listener=%s reason=%s connections=%d",
                self._listener_name,
                reason,
                self._limits.total,
            )

    def _resume(self) -> None:
        if self._paused:
            log.warning(
                "accepting resumed listener=%s connections=%d", self._listener_name, self._limits.total
            )
            self._paused = ""
