"""One client connection: bytes to frames, requests in order, answers in the same order.

Theory of operation. All connections of a listener read into one receive buffer that they share: the event
loop asks for the buffer, reads, and reports back without yielding, so no other read comes between (on loops
where that does not hold, each connection has its own). Complete frames are handled right there, without a
copy; an incomplete frame moves to a buffer of its own, which grows with the bytes that arrive (64 KiB, or
four times what is there), never with the size that a client merely claims.

A request that can't be answered at once (a waiting fetch, a join) holds the connection, and so does a client
that does not read its answers or is muted for its quota, or a fetch while too many answers are unread. Frames
that had arrived behind it are set aside in one piece, bounded by the receive buffer or one frame, and reading
pauses.

The memory of all connections is counted together: requests in request_memory.py, answers in answer_memory.py.

A client with several requests in flight sends them faster than they are answered, so one read brings a few.
Their answers leave together: a write to a socket costs as much as handling a small request.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, cast

from ottla.broker.network.answer_memory import AnswerMemory
from ottla.broker.network.context import Session
from ottla.broker.network.flood_log import FloodLog
from ottla.broker.network.polling import SMALL_REQUEST_BYTES
from ottla.broker.network.request_memory import RequestMemory
from ottla.protocol.errors import ProtocolError

log = logging.getLogger("ottla.broker")

RECEIVE_BUFFER_BYTES: Final = 256 * 1024
#: The time that a client has for its login, on a listener that asks for one.
LOGIN_SECONDS: Final = 60.0
#: The bytes of one read while requests wait for memory: most requests without records come whole.
SMALL_READ_BYTES: Final = 4 * 1024
FRAME_GROWTH_BYTES: Final = 64 * 1024
#: Bytes of answers that the socket does not take; above, the client counts as one that does not read.
WRITE_HIGH_WATER_BYTES: Final = 128 * 1024
#: Answers gathered up to here leave at once, so that the limit above holds for them.
GATHER_LIMIT_BYTES: Final = 64 * 1024

# The reasons why a connection handles no further request.
_ANSWERING: Final = 1
_UNREAD: Final = 2
_TURN: Final = 4
_MUTED: Final = 8

_SIZE = struct.Struct(">i")
_TLS_HANDSHAKE: Final = 0x1603
"""The first two bytes of a TLS handshake, where a request has its size."""

Buffers = Sequence[bytes | bytearray | memoryview]
#: The bytes of an answer with its size in front; None when the request has none (acks=0).
Reply = Buffers | None
Dispatch = Callable[["ClientConnection", memoryview], Reply | Awaitable[Reply]]


class CloseConnection(Exception):
    """The request can't be answered in a way the client would understand; hang up and log the reason."""


class Shared:
    """What the connections of a server have in common."""

    __slots__ = ("answers", "flood_log", "heard", "max_request_bytes", "memory", "on_close", "receive")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        max_request_bytes: int,
        memory: RequestMemory,
        answers: AnswerMemory,
        on_close: Callable[[ClientConnection], None],
        heard: Callable[[], None],
    ) -> None:
        self.max_request_bytes = max_request_bytes
        self.memory = memory
        self.answers = answers
        self.on_close = on_close
        self.heard = heard
        self.flood_log = FloodLog(loop, log)
        # Windows' proactor loop reads in the background, into a buffer that no other connection may use
        # meanwhile.
        proactor = type(loop).__name__.startswith("Proactor")
        self.receive = None if proactor else memoryview(bytearray(RECEIVE_BUFFER_BYTES))


class ClientConnection(asyncio.BufferedProtocol):
    """Frames in, answers out, one request at a time."""

    __slots__ = (
        "_answers",
        "_aside",
        "_authenticate_by",
        "_charged_bytes",
        "_closed",
        "_dispatch",
        "_ended",
        "_fill",
        "_frame",
        "_frame_bytes",
        "_gathered",
        "_gathered_bytes",
        "_heard",
        "_held",
        "_loop",
        "_max_request_bytes",
        "_memory",
        "_receive",
        "_shared",
        "_task",
        "_transport",
        "_unmuting",
        "_unread_before",
        "client_host",
        "held_since",
        "last_active",
        "listener_name",
        "session",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        dispatch: Dispatch,
        listener_name: str,
        client_host: str,
        shared: Shared,
        max_request_bytes: int | None = None,
    ) -> None:
        """max_request_bytes: the limit until `authenticated`; None where clients need no login."""
        self.listener_name = listener_name
        self.client_host = client_host
        self.session = Session(client_host, listener_name, connection=self)
        self.last_active = loop.time()
        self.held_since = 0.0
        self._authenticate_by = None if max_request_bytes is None else self.last_active + LOGIN_SECONDS
        self._loop = loop
        self._dispatch = dispatch
        self._shared = shared
        self._max_request_bytes = max_request_bytes or shared.max_request_bytes
        self._memory = shared.memory
        self._answers = shared.answers
        self._receive = memoryview(bytearray(64 * 1024)) if shared.receive is None else shared.receive
        self._heard = shared.heard
        self._transport: asyncio.Transport | None = None
        # An incomplete frame: its buffer, how much is filled, its size with the size field (0: unknown).
        self._frame: bytearray | None = None
        self._fill = 0
        self._frame_bytes = 0
        # Frames, whole and in part, that arrived behind a request that holds the connection.
        self._aside: memoryview | None = None
        # The bytes that these two have in the memory of requests.
        self._charged_bytes = 0
        # The answers to the requests of one read, while these are handled; None with a single request.
        self._gathered: list[bytes | bytearray | memoryview] | None = None
        self._gathered_bytes = 0
        self._held = 0
        self._task: asyncio.Future[Reply] | None = None
        self._unmuting: asyncio.TimerHandle | None = None
        self._unread_before = 0
        self._closed = False
        self._ended = False

    # -- asyncio's side -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._closed = True
        self._aside = self._frame = None
        self._memory.forget(self, self._charged_bytes)
        self._charged_bytes = 0
        self._answers.forget(self)
        if self._unmuting is not None:
            self._unmuting.cancel()
        # A waiting fetch is forgotten. A coroutine (a join, a topic being created) runs to its end: its
        # change may be half way to the disk, only its answer is dropped.
        if self._task is not None and not isinstance(self._task, asyncio.Task):
            self._task.cancel()
        self._shared.on_close(self)
        # The session knows this connection: without the circle both are freed at once, and not by the
        # collector.
        del self.session

    def pause_writing(self) -> None:
        """Called by the event loop: the client does not read its answers."""
        self._held |= _UNREAD
        self._answers.unread(self)

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self._held &= ~_UNREAD
        self._answers.read(self)
        self._take_up_aside()

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next bytes."""
        if self._frame is None:
            return self._receive[:SMALL_READ_BYTES] if self._memory.short else self._receive
        return memoryview(self._frame)[self._fill :]

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` have arrived in the buffer given last."""
        self.last_active = self._loop.time()
        if nbytes <= SMALL_REQUEST_BYTES:
            self._heard()
        if self._frame is None:
            self._split(self._receive[:nbytes], owned=False)
            return
        self._fill += nbytes
        if self._fill < len(self._frame):
            return
        if self._frame_bytes == 0:
            head = memoryview(self._frame)
            self._frame = None
            self._split(head, owned=True)
        elif self._fill < self._frame_bytes:
            self._grow_frame()
        else:
            frame = memoryview(self._frame)
            self._frame = None
            self._memory.complete(self)
            self._split(frame, owned=True)
            self._settle()

    def eof_received(self) -> bool:
        """The client sends no more. Answers under way are still sent, but no fetch waits for new records.

        True keeps the connection until the answer is written.
        """
        self._ended = self.busy and isinstance(self._task, asyncio.Task)
        return self._ended

    def dispatch_by(self, dispatch: Dispatch) -> None:
        """Hand the next requests to another dispatcher."""
        self._dispatch = dispatch

    @property
    def closed(self) -> bool:
        """Whether one side has hung up."""
        return self._closed

    @property
    def client_port(self) -> int | None:
        """The client's port, None where the transport does not know it (any more)."""
        address = None if self._transport is None else self._transport.get_extra_info("peername")
        return address[1] if isinstance(address, tuple) else None

    @property
    def answers(self) -> AnswerMemory:
        """The memory of unread answers, which all connections share."""
        return self._answers

    @property
    def busy(self) -> bool:
        """Whether a request waits for its answer."""
        return bool(self._held & _ANSWERING)

    def close(self) -> None:
        """Hang up; answers that are ready are still sent."""
        if self._transport is not None:
            if self._gathered:
                self._send_gathered()
            self._transport.close()

    def finish(self, reply: Buffers) -> None:
        """Send a last answer and hang up; requests that have arrived behind it are dropped."""
        if not self._closed:
            self._closed = True
            if reply:
                self._write(reply)
            self.close()

    def authenticated(self) -> None:
        """The client has logged in: its requests may be as large as those of any other."""
        self._authenticate_by = None
        self._max_request_bytes = self._shared.max_request_bytes

    def abort(self) -> None:
        """Hang up at once; answers that the client has not read are dropped."""
        self._closed = True
        if self._transport is not None:
            self._transport.abort()

    def close_if_idle_since(self, time: float) -> None:
        """Close unless the client has sent or read something since `time`, or waits for an answer."""
        unread = self.unread_bytes()
        if unread < self._unread_before:
            self.last_active = self._loop.time()
        self._unread_before = unread
        if self.last_active < time and not self._held & (_ANSWERING | _MUTED):
            if unread:
                self.abort()
            else:
                self.close()

    def close_if_login_is_late(self, now: float) -> None:
        """Close if the client has not logged in in time, however busy it is with something else."""
        if self._authenticate_by is not None and now > self._authenticate_by and not self._closed:
            self._refuse(f"it did not log in within {LOGIN_SECONDS:.0f} s", "authentication")

    # -- quotas -------------------------------------------------------------------------------------

    def mute(self, throttle_ms: int) -> None:
        """Handle no further request for a while (KIP-219): nothing is read, and frames that are there wait.

        Answers are still sent. A shorter time than the one that runs already changes nothing.
        """
        end = self._loop.time() + throttle_ms / 1000
        if self._closed or (self._unmuting is not None and self._unmuting.when() >= end):
            return
        if self._unmuting is not None:
            self._unmuting.cancel()
        self._held |= _MUTED
        self._unmuting = self._loop.call_at(end, self._unmute)
        self._pause_reading()

    def unmute(self) -> None:
        """Go on with the client's requests, if the connection is muted."""
        if self._unmuting is not None:
            self._unmuting.cancel()
            self._unmute()

    def _unmute(self) -> None:
        self._unmuting = None
        self._held &= ~_MUTED
        if self._closed:
            return
        self.session.throttle_ms = 0
        self.last_active = self._loop.time()
        if self._aside is None and not self._waits_for_memory() and self._transport is not None:
            self._transport.resume_reading()
        self._take_up_aside()

    def _waits_for_memory(self) -> bool:
        return self._frame is not None and self._fill == len(self._frame)

    # -- memory that connections share ----------------------------------------------------------------

    def memory_granted(self, size: int) -> None:
        """There is room for `size` more bytes of the frame, and they are counted."""
        self._extend_frame(size)
        if self._transport is not None and not self._closed:
            self._transport.resume_reading()

    def hang_up_on_slow_request(self) -> None:
        """Hang up: others wait for the memory of a request that does not arrive, or does not get its turn."""
        self._hang_up("slow", "others wait for the memory of its request (queued.max.request.bytes)")

    def unread_bytes(self) -> int:
        """The bytes that wait in the write buffer."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def answers_granted(self) -> None:
        """A request that would have had a large answer may be handled."""
        self._held &= ~_TURN
        self._take_up_aside()

    def hang_up_on_deaf_client(self) -> None:
        """Hang up: others wait for the memory of answers that this client does not read."""
        self._hang_up("deaf", "it does not read its answers, and others wait for their memory")

    def _hang_up(self, kind: str, reason: str) -> None:
        if not self._closed:
            self._shared.flood_log.warn(kind, f"connection closed client={self.client_host} reason={reason}")
            self.abort()

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
        while end - position >= 4 and not self._closed:
            (size,) = _SIZE.unpack_from(data, position)
            if not 0 < size <= self._max_request_bytes:
                self._refuse(_size_problem(size, self._max_request_bytes))
                return
            following = position + 4 + size
            if following > end:
                self._begin_frame(data[position:], size + 4)
                return
            frame = data[position + 4 : following]
            if self._answers.over and not self._held and self._answers.must_wait(frame):
                self._held |= _TURN
                self._answers.wait(self)
            if self._held:
                self._set_aside(data[position:], owned)
                return
            if following < end and self._gathered is None:
                self._gathered = []
            self._handle(frame)
            position = following
        if position < end and not self._closed:
            self._begin_frame(data[position:], 0)

    def _begin_frame(self, head: memoryview, frame_bytes: int) -> None:
        """Move the beginning of a frame to a buffer of its own; a head of 3 bytes at most is not counted."""
        self._frame_bytes = frame_bytes
        self._fill = len(head)
        self.held_since = self.last_active
        if frame_bytes == 0:
            room = 4
        else:
            room = min(frame_bytes, max(FRAME_GROWTH_BYTES, 4 * self._fill))
            self._charged_bytes += self._fill
            self._memory.take(self._fill)
            if self._memory.begin(self, room - self._fill):
                self._charged_bytes += room - self._fill
            else:
                room = self._fill
                self._pause_reading()
        frame = bytearray(room)
        frame[: self._fill] = head
        self._frame = frame

    def _grow_frame(self) -> None:
        """Double the room of the frame's buffer."""
        size = min(self._fill, self._frame_bytes - self._fill)
        if self._memory.grow(self, size):
            self._extend_frame(size)
        else:
            self._pause_reading()

    def _extend_frame(self, size: int) -> None:
        assert self._frame is not None
        self._charged_bytes += size
        self.held_since = self._loop.time()
        self._frame = self._frame + bytes(size)

    def _set_aside(self, rest: memoryview, owned: bool) -> None:
        """Keep frames until the connection is held no more; nothing is read until then."""
        self._pause_reading()
        self.held_since = self._loop.time()
        size = 0
        if not owned:  # the shared buffer is overwritten by the next read
            rest = memoryview(bytearray(rest))
            size = len(rest)
        self._aside = rest
        self._charged_bytes += size
        self._memory.set_aside(self, size)

    def _take_up_aside(self) -> None:
        """Handle the frames that were set aside until one holds the connection, and read on."""
        if self._held or self._closed:
            return
        if self._aside is not None:
            rest, self._aside = self._aside, None
            self._memory.take_up(self)
            # It reads on before the rest is split: a frame that waits for memory pauses it again.
            if self._transport is not None:
                self._transport.resume_reading()
            self._split(rest, owned=True)
        if self._charged_bytes:
            self._settle()

    def _settle(self) -> None:
        """Give back memory that is needed no more; a request that is being answered may need all of it."""
        if self._held & _ANSWERING:
            return
        needed = 0
        if self._frame is not None and self._frame_bytes:
            needed = len(self._frame)
        elif self._aside is not None:
            needed = len(self._aside)
        surplus = self._charged_bytes - needed
        if surplus > 0:
            self._charged_bytes = needed
            self._memory.give_back(surplus)

    def _pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def _refuse(self, reason: str, kind: str = "refused", failure: BaseException | None = None) -> None:
        text = f"connection closed client={self.client_host} reason={reason}"
        self._shared.flood_log.warn(kind, text, failure)
        self._closed = True
        self.close()

    # -- requests -----------------------------------------------------------------------------------

    def _handle(self, frame: memoryview) -> None:
        try:
            reply = self._dispatch(self, frame)
        except (CloseConnection, ProtocolError) as problem:
            self._refuse(str(problem))
            return
        except Exception as failure:
            self._refuse("a request failed in the broker", "failed", failure)
            return
        if reply is None or isinstance(reply, (list, tuple)):
            if reply:
                self._write(reply)
            return
        self._held |= _ANSWERING
        self._task = asyncio.ensure_future(cast(Awaitable[Reply], reply))
        self._task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Future[Reply]) -> None:
        self._task = None
        self._held &= ~_ANSWERING
        failure = None if task.cancelled() else task.exception()
        if task.cancelled() or self._closed:
            if failure is not None:
                text = f"request failed client={self.client_host}"
                self._shared.flood_log.warn("failed", text, failure)
            return
        if isinstance(failure, (CloseConnection, ProtocolError)):
            self._refuse(str(failure))
            return
        if failure is not None:
            self._refuse("a request failed in the broker", "failed", failure)
            return
        reply = task.result()
        if reply:
            self._write(reply)
        if self._ended:
            self.close()
            return
        self._take_up_aside()
        if self._held & _MUTED and self._charged_bytes:
            self._settle()

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


def _size_problem(size: int, max_request_bytes: int) -> str:
    if size >> 16 == _TLS_HANDSHAKE:
        return "it speaks TLS, and this listener does not (listener.security.protocol.map)"
    return f"a request of {size} bytes, allowed are 1 to {max_request_bytes}"
