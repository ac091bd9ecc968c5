"""A TCP proxy in front of one server, which drops, delays, silences and refuses connections on demand.

It runs on an event loop of its own in a thread, with at most MAX_CONNECTIONS connections. Of bytes that one
side does not take, HELD_BYTES are kept, and a little more; then the other side is read no further. Its rules
may change at any time:

    refusing   it does not listen, and a client meets "connection refused"
    silent     bytes are held, both ways; connections stay open
    delay_ms   every byte arrives so much later, both ways
    losing     the requests of one API are carried out, and their connections dropped before the answer
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from ottla.testing.ports import LOCALHOST, ReservedPort
from ottla.testing.request_frames import REQUEST_HEAD, RESPONSE_HEAD, FrameHeads

T = TypeVar("T")

MAX_CONNECTIONS: Final = 4096
HELD_BYTES: Final = 1024 * 1024
CALL_SECONDS: Final = 30.0
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class Proxy:
    """Listens on one port, passes on to another; made refusing, started by `start`, ended by `close`."""

    def __init__(self, port: ReservedPort, target_port: int) -> None:
        self._port = port
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"proxy at {port.address}", daemon=True)
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self.rules = Rules()

    def start(self) -> None:
        """Start the thread; the proxy refuses connections until `listen`."""
        self._thread.start()

    def listen(self) -> None:
        """Take connections from now on."""
        self._call(self._listen())

    def refuse(self) -> None:
        """Take no connections from now on; those that are there go on."""
        self._call(self._refuse())

    def drop_connections(self) -> int:
        """Reset all connections, at both ends; how many there were."""
        return self._call(self._drop())

    def set_silent(self, silent: bool) -> None:
        """Hold all bytes back, or let the held and the coming ones pass."""
        self._call(self._change(lambda: self.rules.be_silent(silent)))

    def set_delay_ms(self, delay_ms: float) -> None:
        """Let every byte arrive so many milliseconds later than it would."""
        self._call(self._change(lambda: self.rules.be_late(delay_ms)))

    def set_losing(self, api_key: int | None) -> None:
        """Drop a connection in place of the answer to a request of this API; None: of none."""
        self._call(self._change(lambda: self.rules.lose(api_key)))

    @property
    def lost_answers(self) -> int:
        """How many answers have been lost so far."""
        return self.rules.lost

    def close(self) -> None:
        """Reset all connections and end the thread."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError, TimeoutError):
                self._call(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CALL_SECONDS)
        elif not self._loop.is_closed():
            self._loop.close()

    # -- on the loop ------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)

    async def _listen(self) -> None:
        if self._server is None:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((LOCALHOST, self._port.lend()))
            self._server = await self._loop.create_server(
                lambda: _Side(self._link()), sock=listener, backlog=512
            )

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _drop(self) -> int:
        links = list(self._links)
        for link in links:
            link.reset()
        return len(links)

    async def _change(self, change: Callable[[], None]) -> None:
        change()
        for link in list(self._links):
            link.flush()

    async def _end(self) -> None:
        await self._refuse()
        await self._drop()

    def _link(self) -> _Link:
        link = _Link(self.rules, self._target_port, self._links)
        self._links.add(link)
        return link


class Rules:
    """The fate of the bytes; changed and read on the proxy's loop."""

    def __init__(self) -> None:
        self.silent = False
        self.delay_seconds = 0.0
        self.losing: int | None = None
        self.lost = 0

    def be_silent(self, silent: bool) -> None:
        """Hold bytes back or not."""
        self.silent = silent

    def be_late(self, delay_ms: float) -> None:
        """Delay bytes."""
        self.delay_seconds = delay_ms / 1000

    def lose(self, api_key: int | None) -> None:
        """Lose the answers of an API."""
        self.losing = api_key


class _Link:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(self, rules: Rules, target_port: int, links: set[_Link]) -> None:
        self.rules = rules
        self._target_port = target_port
        self._links = links
        self._requests = FrameHeads(REQUEST_HEAD)
        self._responses = FrameHeads(RESPONSE_HEAD)
        self._doomed: set[int] = set()
        self.client: _Side | None = None
        self.server: _Side | None = None
        self._connecting: asyncio.Task[None] | None = None

    def connected(self, side: _Side) -> None:
        """A side has its connection; the client's comes first."""
        if self.client is None:
            self.client = side
            if len(self._links) > MAX_CONNECTIONS:
                self.reset()
            else:
                self._connecting = asyncio.get_running_loop().create_task(self._connect())
        else:
            self.server = side
            self.flush()

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: _Side(self), LOCALHOST, self._target_port
            )
        except OSError:
            self.reset()

    def other(self, side: _Side) -> _Side | None:
        """The side that gets what `side` receives."""
        return self.server if side is self.client else self.client

    def passes(self, side: _Side, data: bytes) -> bool:
        """Look at what a side has received; False if the connection was dropped instead."""
        if side is self.client:
            for api_key, _, correlation_id in self._requests.feed(data):
                if api_key == self.rules.losing:
                    self._doomed.add(correlation_id)
            return True
        if any(correlation_id in self._doomed for (correlation_id,) in self._responses.feed(data)):
            self.rules.lost += 1
            self.reset()
            return False
        return True

    def flush(self) -> None:
        """Pass on what was held and is due."""
        for side in (self.client, self.server):
            if side is not None:
                side.flush()

    def reset(self) -> None:
        """End both connections at once, with a reset."""
        self._links.discard(self)
        if self._connecting is not None:
            self._connecting.cancel()
        for side in (self.client, self.server):
            if side is not None:
                side.reset()

    def ended(self, side: _Side) -> None:
        """A side's connection has ended: the other one ends when it has been given everything."""
        side.ended = True
        if self._connecting is not None and side is self.client:
            self._connecting.cancel()
        if all(each is None or each.ended for each in (self.client, self.server)):
            self._links.discard(self)
        side.flush()


class _Side(asyncio.Protocol):
    """One end of a link: receives bytes, and holds those that the other end is not given yet."""

    def __init__(self, link: _Link) -> None:
        self._link = link
        self._transport: asyncio.Transport | None = None
        self._held: collections.deque[tuple[float, bytes]] = collections.deque()
        self._held_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._writable = True
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._link.connected(self)

    def data_received(self, data: bytes) -> None:
        if not self._link.passes(self, data):
            return
        due = asyncio.get_running_loop().time() + self._link.rules.delay_seconds
        if self._held:
            due = max(due, self._held[-1][0])
        self._held.append((due, data))
        self._held_bytes += len(data)
        self.flush()
        if self._held_bytes > HELD_BYTES and self._transport is not None:
            self._transport.pause_reading()

    def flush(self) -> None:
        """Give the other end what is due, if it takes it."""
        other = self._link.other(self)
        if other is None or other._transport is None:
            return
        loop = asyncio.get_running_loop()
        while self._held and other._writable and not self._link.rules.silent:
            due, data = self._held[0]
            if due > loop.time():
                self._wake_at(due)
                return
            self._held.popleft()
            self._held_bytes -= len(data)
            other._transport.write(data)
        if self._held_bytes <= HELD_BYTES and self._transport is not None and not self.ended:
            self._transport.resume_reading()
        if self.ended and not self._held:
            other._transport.close()

    def _wake_at(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self.flush)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        other = self._link.other(self)
        if other is not None:
            other.flush()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.ended(self)

    def reset(self) -> None:
        """Drop what is held and reset the connection."""
        self._held.clear()
        self._held_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            connection = self._transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._transport.abort()
