"""One client connection: bytes to frames, requests in order, answers in the same order.

Theory of operation. All connections of a listener read into one receive buffer that they share: the
event loop asks for the buffer, reads, and reports back without yielding, so nobody else can be in it
(on loops where that does not hold, each connection has its own). Complete frames are handled right
there, without a copy; what is left of an incomplete frame moves to a buffer of its own, which grows with
the bytes that arrive (64 KiB, or four times what is there), never with the size that a client merely claims.

A request that can't be answered at once (a waiting fetch, a join) makes the connection busy: reading
pauses, frames that had arrived already wait in `_backlog`, bounded by the receive buffer. A client that does
not read its answers is not read from either.

A client with several requests in flight sends them faster than they are answered, so one read brings a few.
Their answers leave together: a write to a socket costs as much as handling a small request.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from ottla.protocol.errors import ProtocolError

log = logging.getLogger("ottla.broker")

RECEIVE_BUFFER_BYTES = 256 * 1024
FRAME_GROWTH_BYTES = 64 * 1024
WRITE_HIGH_WATER_BYTES = 4 * 1024 * 1024
#: Answers gathered up to here leave at once, so that the limit above holds for them.
GATHER_LIMIT_BYTES = 64 * 1024
_SIZE = struct.Struct(">i")

Buffers = Sequence[bytes | bytearray | memoryview]
#: The bytes of an answer with its size in front; None when the request has none (acks=0).
Reply = Buffers | None
Dispatch = Callable[["ClientConnection", memoryview], Reply | Awaitable[Reply]]


class CloseConnection(Exception):
    """The request can't be answered in a way the client would understand; hang up and say why in the log."""


class ClientConnection(asyncio.BufferedProtocol):
    """Frames in, answers out, one request at a time."""

    __slots__ = (
        "_backlog",
        "_busy",
        "_closed",
        "_dispatch",
        "_ended",
        "_fill",
        "_frame",
        "_frame_bytes",
        "_gathered",
        "_gathered_bytes",
        "_heard",
        "_loop",
        "_max_request_bytes",
        "_on_close",
        "_receive",
        "_task",
        "_transport",
        "_write_paused",
        "client_host",
        "last_active",
        "listener_name",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        dispatch: Dispatch,
        listener_name: str,
        max_request_bytes: int,
        receive: memoryview,
        on_close: Callable[[ClientConnection], None],
        heard: Callable[[], None],
    ) -> None:
        self.listener_name = listener_name
        self.client_host = ""
        self.last_active = loop.time()
        self._loop = loop
        self._dispatch = dispatch
        self._max_request_bytes = max_request_bytes
        self._receive = receive
        self._on_close = on_close
        self._heard = heard
        self._transport: asyncio.Transport | None = None
        # An incomplete frame: its buffer, how much is filled, its size with the size field (0: unknown).
        self._frame: bytearray | None = None
        self._fill = 0
        self._frame_bytes = 0
        self._backlog: deque[memoryview] = deque()
        # The answers to the requests of one read, while these are handled; None with a single request.
        self._gathered: list[bytes | bytearray | memoryview] | None = None
        self._gathered_bytes = 0
        self._busy = False
        self._task: asyncio.Future[Reply] | None = None
        self._write_paused = False
        self._closed = False
        self._ended = False

    # -- asyncio's side -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        peer = self._transport.get_extra_info("peername")
        self.client_host = peer[0] if isinstance(peer, tuple) else ""

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._closed = True
        self._backlog.clear()
        # A waiting fetch is forgotten. A coroutine (a join, a topic being created) runs to its end: what
        # it has begun may be half way to the disk, only its answer is dropped.
        if self._task is not None and not isinstance(self._task, asyncio.Task):
            self._task.cancel()
        self._on_close(self)

    def pause_writing(self) -> None:
        """Called by the event loop: the client does not read its answers."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self._write_paused = False
        self._drain_backlog()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        if self._frame is None:
            return self._receive
        if self._fill == len(self._frame):
            grown = min(self._frame_bytes, 2 * len(self._frame))
            self._frame = self._frame + bytes(grown - len(self._frame))
        return memoryview(self._frame)[self._fill :]

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` have arrived in the buffer given last."""
        self.last_active = self._loop.time()
        self._heard()
        if self._frame is None:
            self._split(self._receive[:nbytes], owned=False)
            return
        self._fill += nbytes
        if self._frame_bytes == 0:
            if self._fill < 4:
                return
            head = memoryview(self._frame)[: self._fill]
            self._frame = None
            self._split(head, owned=True)
        elif self._fill == self._frame_bytes:
            frame = memoryview(self._frame)[4:]
            self._frame = None
            self._accept(frame, owned=True)

    def eof_received(self) -> bool:
        """The client has said its last; answers under way are still sent, but nobody waits for new records.

        True keeps the connection until the answer is written.
        """
        self._ended = self._busy and isinstance(self._task, asyncio.Task)
        return self._ended

    @property
    def closed(self) -> bool:
        """Whether one side has hung up."""
        return self._closed

    @property
    def busy(self) -> bool:
        """Whether a request waits for its answer."""
        return self._busy

    def close(self) -> None:
        """Hang up; answers that are ready are still sent."""
        if self._transport is not None:
            if self._gathered:
                self._send_gathered()
            self._transport.close()

    # -- frames -------------------------------------------------------------------------------------

    def _split(self, data: memoryview, *, owned: bool) -> None:
        """Handle every complete frame in `data` and keep the rest."""
        try:
            self._handle_frames(data, owned)
        finally:
            if self._gathered is not None:
                self._send_gathered()
                self._gathered = None

    def _handle_frames(self, data: memoryview, owned: bool) -> None:
        position, end = 0, len(data)
        while not self._closed and end - position >= 4:
            (size,) = _SIZE.unpack_from(data, position)
            if not 0 < size <= self._max_request_bytes:
                self._refuse(f"a request of {size} bytes, allowed are 1 to {self._max_request_bytes}")
                return
            following = position + 4 + size
            if following > end:
                self._begin_frame(data[position:], size + 4)
                return
            if following < end and self._gathered is None:
                self._gathered = []
            self._accept(data[position + 4 : following], owned=owned)
            position = following
        if position < end and not self._closed:
            self._begin_frame(data[position:], 0)

    def _begin_frame(self, head: memoryview, frame_bytes: int) -> None:
        self._frame_bytes = frame_bytes
        self._fill = len(head)
        room = 4 if frame_bytes == 0 else min(frame_bytes, max(FRAME_GROWTH_BYTES, 4 * self._fill))
        frame = bytearray(room)
        frame[: self._fill] = head
        self._frame = frame

    def _accept(self, frame: memoryview, *, owned: bool) -> None:
        if self._busy or self._write_paused:
            # The shared buffer is overwritten by the next read, so a frame that waits needs its own bytes.
            self._backlog.append(frame if owned else memoryview(bytearray(frame)))
            if len(self._backlog) == 1 and self._transport is not None:
                self._transport.pause_reading()
        else:
            self._handle(frame)

    def _refuse(self, reason: str) -> None:
        log.warning("connection closed client=%s reason=%s", self.client_host, reason)
        self._closed = True
        self.close()

    # -- requests -----------------------------------------------------------------------------------

    def _handle(self, frame: memoryview) -> None:
        try:
            reply = self._dispatch(self, frame)
        except (CloseConnection, ProtocolError) as problem:
            self._refuse(str(problem))
            return
        except Exception:
            log.exception("request failed client=%s", self.client_host)
            self._refuse("a request failed in the broker")
            return
        if reply is None or isinstance(reply, (list, tuple)):
            if reply:
                self._write(reply)
            return
        self._busy = True
        self._task = asyncio.ensure_future(cast(Awaitable[Reply], reply))
        self._task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Future[Reply]) -> None:
        self._task = None
        self._busy = False
        if task.cancelled() or self._closed:
            if not task.cancelled() and task.exception() is not None:
                log.error("request failed client=%s", self.client_host, exc_info=task.exception())
            return
        failure = task.exception()
        if isinstance(failure, (CloseConnection, ProtocolError)):
            self._refuse(str(failure))
            return
        if failure is not None:
            log.error("request failed client=%s", self.client_host, exc_info=failure)
            self._refuse("a request failed in the broker")
            return
        reply = task.result()
        if reply:
            self._write(reply)
        if self._ended:
            self.close()
            return
        self._drain_backlog()

    def _drain_backlog(self) -> None:
        if self._closed or not self._backlog:
            return
        while self._backlog and not self._busy and not self._write_paused and not self._closed:
            self._handle(self._backlog.popleft())
        if not self._backlog and self._transport is not None and not self._closed:
            self._transport.resume_reading()

    def _write(self, reply: Buffers) -> None:
        if self._gathered is None:
            self._send(reply)
            return
        self._gathered += reply
        for part in reply:
            self._gathered_bytes += len(part)
        if self._gathered_bytes > GATHER_LIMIT_BYTES:
            self._send_gathered()

    def _send_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        small = self._gathered_bytes <= GATHER_LIMIT_BYTES
        self._gathered_bytes = 0
        if gathered:
            self._send((b"".join(gathered),) if small and len(gathered) > 1 else gathered)

    def _send(self, reply: Buffers) -> None:
        if self._transport is None:
            return
        if len(reply) == 1:
            self._transport.write(reply[0])
        else:
            self._transport.writelines(reply)
