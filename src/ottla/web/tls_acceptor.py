"""Accepts the connections of a listener with TLS, with bounds on handshakes: in number, in time, and a turn.

Each connection gets the context that is current when it comes, so changed certificates need no restart. Of
asyncio's own servers the context is fixed, and every handshake runs at once, for as long as its client likes.

While HANDSHAKES are under way, a new connection takes the place of the oldest one that is older than
PATIENCE_SECONDS; if there is none, connections wait in the listener's backlog. So clients that stop amid the
handshake hold up others for a second at most, and the loop never has more than HANDSHAKES at once to compute.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

log = logging.getLogger("ottla.web")

HANDSHAKES: Final = 128
HANDSHAKE_SECONDS: Final = 10.0
PATIENCE_SECONDS: Final = 1.0
ACCEPTED_A_TURN: Final = 16
SHUTDOWN_SECONDS: Final = 3.0
"""The longest time that a client may take to agree to the end of a connection."""
PAUSE_SECONDS: Final = 0.1
"""Until the next attempt, when the process has no descriptor left."""


class TlsAcceptor:
    """Accepts at one socket until it is closed; made and used on the loop. Has the methods of a server."""

    def __init__(
        self,
        listening: socket.socket,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        context: Callable[[], ssl.SSLContext],
        backlog: int,
    ) -> None:
        self._socket = listening
        self._make_protocol = make_protocol
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[asyncio.Task[None], float] = {}
        self._freed = asyncio.Event()
        listening.listen(backlog)
        listening.setblocking(False)
        self._accepting = self._loop.create_task(self._accept(), name="accept TLS")

    def close(self) -> None:
        """Accept no more, and end the handshakes under way; connections that are made stay."""
        self._accepting.cancel()
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until no handshake is under way; after `close`."""
        await asyncio.wait([self._accepting, *self._handshakes])

    async def _accept(self) -> None:
        accepted = 0
        try:
            while True:
                await self._room()
                try:
                    connection, _ = await self._loop.sock_accept(self._socket)
                except ConnectionAbortedError:
                    continue
                except OSError as problem:
                    log.error("can't accept connections: %s", problem.strerror)
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                task = self._loop.create_task(self._shake_hands(connection), name="TLS handshake")
                self._handshakes[task] = self._loop.time()
                task.add_done_callback(self._ended)
                accepted += 1
                if accepted % ACCEPTED_A_TURN == 0:
                    await asyncio.sleep(0)
        finally:
            self._socket.close()

    async def _room(self) -> None:
        """Return when there is room: a handshake has ended, or the oldest was old enough to be ended."""
        while len(self._handshakes) >= HANDSHAKES:
            oldest, begun = next(iter(self._handshakes.items()))
            left_seconds = begun + PATIENCE_SECONDS - self._loop.time()
            if left_seconds <= 0:
                del self._handshakes[oldest]
                oldest.cancel()
                return
            self._freed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_seconds):
                    await self._freed.wait()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        self._freed.set()

    async def _shake_hands(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol,
                connection,
                ssl=self._context(),
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        except ssl.SSLError as problem:
            log.warning("a TLS handshake failed: %s", problem.reason or problem)
        except (OSError, TimeoutError) as problem:  # the client has gone, or was too slow
            log.debug("a TLS handshake ended: %r", problem)
        except asyncio.CancelledError:
            connection.close()
            raise
