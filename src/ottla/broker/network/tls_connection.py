"""TLS between a connection's socket and its frames, with handshakes that are bounded in number and in time.

Theory of operation. A TlsConnection is the protocol of the socket's transport and the transport of a
ClientConnection, which knows nothing of it. All connections read ciphertext into one buffer that they share,
and it is decrypted straight into the buffer of the ClientConnection. OpenSSL is given PIECE_BYTES at a time,
and gives RECORD_BYTES, because its buffers keep the size of the largest piece: an idle connection holds 64
KiB at most, whatever it has sent. (The event loops' own TLS keeps 1.5 MB after a request of 1 MB.)

A step of a handshake costs a signature. Steps wait in a queue, and a turn of the loop takes TURN_SECONDS of
them, so other clients are served meanwhile. MAX_HANDSHAKES are under way at once; further connections wait
to be accepted, and after PATIENCE_SECONDS one of them takes the place of the oldest handshake. Each ends
within HANDSHAKE_SECONDS.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast

from ottla.broker.network.connection import ClientConnection, CloseConnection
from ottla.broker.network.context import ANONYMOUS
from ottla.broker.network.flood_log import FloodLog

if TYPE_CHECKING:
    from ottla.broker.network.security_events import SecurityEvents

RECEIVE_BUFFER_BYTES: Final = 64 * 1024
RECORD_BYTES: Final = 16 * 1024
"""The largest plaintext of a TLS record (RFC 8446, section 5.1)."""
PIECE_BYTES: Final = 8 * 1024
"""The ciphertext that OpenSSL is given at a time."""
TURN_SECONDS: Final = 0.001
MAX_HANDSHAKES: Final = 256
HANDSHAKE_SECONDS: Final = 10.0
PATIENCE_SECONDS: Final = 1.0
MAX_UNREAD_REPLIES: Final = 64

#: How a client's certificate is named among the mechanisms of logins.
MECHANISM: Final = "TLS"
_HANDSHAKE_RECORD: Final = 0x16
_TLS_MAJOR_VERSION: Final = 3


class ListenerTls(Protocol):
    """The TLS of a listener, as it is now."""

    @property
    def server_context(self) -> ssl.SSLContext:
        """The context for a new connection."""
        ...

    def principal(self, certificate: bytes | None) -> str:
        """The principal of a client with this certificate in DER, or with none. Raises CloseConnection."""
        ...


class Handshakes:
    """The handshakes of a server's connections: how many there are, and whose turn it is."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, flood_log: FloodLog, audit: SecurityEvents | None = None
    ) -> None:
        """audit: is told of certificates that prove a principal, and of failed handshakes."""
        self.loop = loop
        self.flood_log = flood_log
        self.audit = audit
        # As in `Shared`: Windows' proactor loop reads in the background.
        proactor = type(loop).__name__.startswith("Proactor")
        self.receive = None if proactor else memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        self._under_way: dict[TlsConnection, float] = {}
        self._due: deque[TlsConnection] = deque()
        self._scheduled = False
        self._freed = asyncio.Event()

    @property
    def count(self) -> int:
        """The handshakes that are under way."""
        return len(self._under_way)

    async def begin(self, connection: TlsConnection) -> None:
        """Wait until there is room for one more handshake, and count it."""
        while len(self._under_way) >= MAX_HANDSHAKES:
            oldest, begun = next(iter(self._under_way.items()))
            left_seconds = begun + PATIENCE_SECONDS - time.monotonic()
            if left_seconds <= 0:
                oldest.give_up(f"{MAX_HANDSHAKES} handshakes are under way, and this is the oldest")
                continue
            self._freed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._freed.wait(), left_seconds)
        self._under_way[connection] = time.monotonic()

    def end(self, connection: TlsConnection) -> None:
        """A handshake is over, well or badly; a second call changes nothing."""
        if self._under_way.pop(connection, None) is not None:
            self._freed.set()

    def take_turn(self, connection: TlsConnection) -> None:
        """Have a step of a handshake done when its turn comes."""
        self._due.append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._do_steps)

    def _do_steps(self) -> None:
        self._scheduled = False
        # The loop's own clock stands still during a turn.
        end = time.monotonic() + TURN_SECONDS
        try:
            while self._due:
                self._due.popleft().shake_hands()
                if time.monotonic() >= end:
                    break
        finally:
            if self._due:
                self._schedule()


class TlsConnection(asyncio.BufferedProtocol):
    """One connection with TLS: a protocol towards its socket, a transport towards its ClientConnection."""

    __slots__ = (
        "_begun",
        "_ciphertext",
        "_closing",
        "_connection",
        "_handshakes",
        "_incoming",
        "_is_open",
        "_outgoing",
        "_paused",
        "_peer_closed",
        "_receive",
        "_ssl",
        "_timer",
        "_tls",
        "_transport",
        "_unread_replies",
    )

    def __init__(self, connection: ClientConnection, tls: ListenerTls, handshakes: Handshakes) -> None:
        self._connection = connection
        self._tls = tls
        self._handshakes = handshakes
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = tls.server_context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        receive = handshakes.receive
        self._receive = memoryview(bytearray(RECORD_BYTES)) if receive is None else receive
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        # Ciphertext that arrived before the connection was paused.
        self._ciphertext = b""
        self._begun = False
        self._is_open = False
        self._paused = False
        # Replies of TLS itself that the client has been sent since it last read everything.
        self._unread_replies = 0
        self._peer_closed = False
        self._closing = False

    # -- asyncio's side -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)
        if self._closing:
            self._transport.abort()
            return
        self._timer = self._handshakes.loop.call_later(HANDSHAKE_SECONDS, self._too_slow)
        # It may be closed from now on, for want of room; bytes come after the handshake.
        self._connection.connection_made(cast(asyncio.BaseTransport, self))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._closing = True
        self._end_handshake()
        self._connection.connection_lost(exc)
        # The ClientConnection knows this object: without the circle both are freed at once.
        del self._connection

    def eof_received(self) -> bool:
        """The client sends no more."""
        return self._is_open and not self._closing and self._connection.eof_received()

    def pause_writing(self) -> None:
        """Called by the event loop."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self._unread_replies = 0
        self._connection.resume_writing()

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next ciphertext."""
        return self._receive

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` of ciphertext have arrived."""
        if self._closing or self._peer_closed:
            return
        data = self._receive[:nbytes]
        if self._is_open:
            self._decrypt(data)
            return
        if not self._begun:
            self._begun = True
            if data[0] != _HANDSHAKE_RECORD or (nbytes > 1 and data[1] != _TLS_MAJOR_VERSION):
                self._refuse("it speaks no TLS, and this listener takes nothing else (security.protocol)")
                return
        self._incoming.write(data)
        self._own_transport.pause_reading()
        self._handshakes.take_turn(self)

    # -- the handshake --------------------------------------------------------------------------------

    def shake_hands(self) -> None:
        """Do the next step of the handshake."""
        if self._closing:
            return
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            self._own_transport.resume_reading()
            return
        except ssl.SSLError as problem:  # a bad certificate too
            self._flush()  # the alert, which tells the client
            self._refuse(f"TLS handshake failed: {_reason(problem)}")
            self._tell_failure(_reason(problem))
            return
        self._flush()
        self._end_handshake()
        try:
            principal = self._tls.principal(self._ssl.getpeercert(binary_form=True))
        except CloseConnection as problem:
            self._refuse(str(problem))
            self._tell_failure(str(problem))
            return
        self._connection.session.principal = principal
        if self._handshakes.audit is not None and principal != ANONYMOUS:
            self._handshakes.audit.authenticated(self._connection.session, MECHANISM)
        self._is_open = True
        self._go_on()

    def _tell_failure(self, reason: str) -> None:
        """Tell of a handshake that failed where clients are asked for certificates."""
        audit = self._handshakes.audit
        if audit is not None and self._ssl.context.verify_mode is not ssl.CERT_NONE:
            audit.authentication_failed(self._connection.session, MECHANISM, reason)

    def give_up(self, reason: str) -> None:
        """End a handshake that takes too long."""
        self._end_handshake()
        if self._transport is None:  # its socket is about to be connected
            self._closing = True
        else:
            self._refuse(f"TLS handshake not finished: {reason}")

    def _too_slow(self) -> None:
        self.give_up(f"{HANDSHAKE_SECONDS:g} s are over")

    def _end_handshake(self) -> None:
        self._handshakes.end(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- ciphertext in --------------------------------------------------------------------------------

    def _decrypt(self, data: memoryview) -> None:
        """Hand over the plaintext of `data`, and of what OpenSSL has left, until the connection is paused."""
        try:
            rest = self._feed(data)
        except ssl.SSLError as problem:
            self._flush()
            self._refuse(f"broken TLS: {_reason(problem)}")
            return
        if self._closing:
            return
        if rest is not None:
            self._ciphertext = bytes(rest)
        if self._outgoing.pending:
            self._reply()

    def _reply(self) -> None:
        """Send a reply of TLS itself: to a key update, or to a renegotiation, which is refused."""
        self._flush()
        if not self._own_transport.get_write_buffer_size():
            self._unread_replies = 0
            return
        self._unread_replies += 1
        if self._unread_replies > MAX_UNREAD_REPLIES:
            self._refuse("it asks for new keys again and again, and reads no answer")

    def _feed(self, data: memoryview) -> memoryview | None:
        """As `_decrypt`. Returns the ciphertext behind a pause, or None if there was no pause."""
        connection, incoming = self._connection, self._incoming
        read, left_over = self._ssl.read, self._ssl.pending
        end, filled = len(data), 0
        position = min(PIECE_BYTES, end)
        incoming.write(data[:position])
        buffer = connection.get_buffer(-1)
        while True:
            try:
                count = cast(int, read(len(buffer) - filled, buffer[filled:] if filled else buffer))
            except ssl.SSLWantReadError:
                is_empty = True
            else:
                filled += count
                if not count or filled == len(buffer):
                    if filled:
                        connection.buffer_updated(filled)
                    if self._closing:
                        return None
                    if not count:
                        self._said_goodbye()
                        return None
                    if self._paused:
                        return data[position:]
                    buffer, filled = connection.get_buffer(-1), 0
                    continue
                # Asked first: the exception costs more than all else of a small request's decryption.
                is_empty = not incoming.pending and not left_over()
            if is_empty:
                if position == end:
                    break
                following = min(position + PIECE_BYTES, end)
                incoming.write(data[position:following])
                position = following
        if filled:
            connection.buffer_updated(filled)
        return None

    def _said_goodbye(self) -> None:
        """The client sends no more; answers under way are still sent."""
        self._peer_closed = True
        if not self._connection.eof_received():
            self.close()

    def _go_on(self) -> None:
        """Decrypt what came before a pause, then read on."""
        if self._is_held():
            return
        data, self._ciphertext = self._ciphertext, b""
        self._decrypt(memoryview(data))
        if not self._is_held():
            self._own_transport.resume_reading()

    def _is_held(self) -> bool:
        return self._paused or self._closing or self._peer_closed

    # -- the transport of the ClientConnection ----------------------------------------------------------

    def pause_reading(self) -> None:
        """Hand over no more."""
        if not self._closing:
            self._paused = True
            self._own_transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on; never before this call has returned."""
        if self._paused and not self._closing:
            self._paused = False
            self._handshakes.loop.call_soon(self._go_on)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send an answer, or several."""
        self.writelines((data,))

    def writelines(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        """Send the parts of an answer."""
        if self._closing:
            return
        if len(parts) > 1 and sum(map(len, parts)) <= RECORD_BYTES:
            parts = (b"".join(parts),)
        encrypted: list[bytes] = []
        encrypt, take = self._ssl.write, self._outgoing.read
        try:
            for part in parts:
                if len(part) <= RECORD_BYTES:
                    if len(part):
                        encrypt(part)
                        encrypted.append(take())
                    continue
                view = memoryview(part)
                for start in range(0, len(view), RECORD_BYTES):
                    encrypt(view[start : start + RECORD_BYTES])
                    encrypted.append(take())
        except ssl.SSLError as problem:
            self._refuse(f"broken TLS: {_reason(problem)}")
            return
        if len(encrypted) == 1:
            self._own_transport.write(encrypted[0])
        else:
            self._own_transport.writelines(encrypted)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """As of the socket's transport."""
        self._own_transport.set_write_buffer_limits(high=high, low=low)

    def get_extra_info(self, name: str, default: object = None) -> object:
        """As of the socket's transport."""
        return self._own_transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """The bytes of ciphertext that wait in the write buffer."""
        return self._own_transport.get_write_buffer_size()

    def close(self) -> None:
        """Say goodbye and hang up; answers that were written are still sent."""
        if self._closing:
            return
        self._closing = True
        if self._is_open:
            with contextlib.suppress(ssl.SSLError):  # it waits for the client's goodbye: that is not needed
                self._ssl.unwrap()
            self._flush()
        self._own_transport.close()

    def abort(self) -> None:
        """Hang up at once."""
        self._closing = True
        self._own_transport.abort()

    @property
    def _own_transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._own_transport.write(self._outgoing.read())

    def _refuse(self, reason: str) -> None:
        if self._closing:
            return
        connection = self._connection
        self._handshakes.flood_log.warn(
            "tls",
            f"connection closed client={connection.client_host} listener={connection.listener_name} "
            f"reason={reason}",
        )
        self._closing = True
        self._own_transport.close()


def _reason(problem: ssl.SSLError) -> str:
    """OpenSSL's reason in words."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {problem.verify_message}"
    words = (problem.reason or str(problem)).lower().replace("_", " ")
    if "alert" in words:
        return f"the client says: {words.partition('alert ')[2] or words}"
    return words
