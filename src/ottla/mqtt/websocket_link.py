"""The network of a connection over WebSocket: MQTT's packets are a stream in binary frames.

The subprotocol is `mqtt`, which a client must offer. A browser tells which page opens a connection: pages
need an origin that access.control.allow.origin names, whatever their host is, as no page is served here.
"""

from __future__ import annotations

import asyncio
import http
import logging
from typing import Final, cast

from websockets.datastructures import Headers
from websockets.exceptions import ProtocolError
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from ottla.mqtt.client_connection import ClientConnection, Parts
from ottla.mqtt.tcp_link import certificate_of, peer_of, prepare
from ottla.web.cross_origin import CrossOrigin

SUBPROTOCOL: Final = Subprotocol("mqtt")
SMALLEST_MESSAGE_BYTES: Final = 64 << 10
HANDSHAKE_SECONDS: Final = 10.0
_quiet: Final = logging.getLogger("ottla.mqtt.websockets")


class WebSocketLink(asyncio.Protocol):
    """Satisfies `Link`; made by the loop for each connection."""

    def __init__(self, parts: Parts, origins: CrossOrigin) -> None:
        self._parts = parts
        self._origins = origins
        self._transport: asyncio.Transport | None = None
        self._connection: ClientConnection | None = None
        self._timer: asyncio.TimerHandle | None = None
        # A message may have several packets: its bound is the memory's, a packet has its own.
        most = max(2 * parts.limits.packet_bytes, SMALLEST_MESSAGE_BYTES)
        self._frames = ServerProtocol(subprotocols=[SUBPROTOCOL], max_size=most, logger=_quiet)
        self.peer = "?"
        self.certificate: bytes | None = None

    # -- the loop's side ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast(asyncio.Transport, transport)
        if not self._parts.clients.has_room:
            self._parts.figures.connects["QUOTA_EXCEEDED"] += 1
            made.abort()
            return
        prepare(made)
        self.peer, self.certificate = peer_of(made), certificate_of(made)
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS, self.abort)

    def data_received(self, data: bytes) -> None:
        self._frames.receive_data(data)
        for event in self._frames.events_received():
            if isinstance(event, Request):
                self._shake_hands(event)
            elif isinstance(event, Frame):
                self._frame(event)
        self._send()

    def eof_received(self) -> None:
        self._frames.receive_eof()
        self._send()

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.takes_answers(False)

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.takes_answers(True)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._connection is not None:
            self._connection.lost()

    # -- frames ---------------------------------------------------------------------------------------------

    def _shake_hands(self, request: Request) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        origin = request.headers.get("Origin")
        if origin is not None and not self._origins.allows_page(origin, ""):
            text = "Pages of this origin may not connect: access.control.allow.origin does not name it.\n"
            response = self._frames.reject(http.HTTPStatus.FORBIDDEN, text)
        else:
            response = self._frames.accept(request)
        response.headers.update(Headers({"Cache-Control": "no-store"}))
        self._frames.send_response(response)
        if response.status_code == http.HTTPStatus.SWITCHING_PROTOCOLS:
            self._connection = ClientConnection(self._parts, self)

    def _frame(self, frame: Frame) -> None:
        if self._connection is None:
            return
        if frame.opcode in (Opcode.BINARY, Opcode.CONT):
            self._connection.received(bytes(frame.data))
        elif frame.opcode is Opcode.TEXT:
            self._frames.fail(CloseCode.UNSUPPORTED_DATA, "MQTT is spoken in binary frames")

    def _send(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        for data in self._frames.data_to_send():
            if data:
                transport.write(data)
            else:
                transport.close()  # both sides have said their end
                return
        if self._frames.close_expected() and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS, self.abort)

    # -- the connection's side ------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """See `Link`."""
        try:
            self._frames.send_binary(data)
        except ProtocolError:  # the client has closed meanwhile
            return
        self._send()

    def read_on(self, wanted: bool) -> None:
        """See `Link`."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            if wanted:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def close(self) -> None:
        """See `Link`."""
        try:
            self._frames.send_close(CloseCode.NORMAL_CLOSURE)
        except ProtocolError:
            pass
        else:
            self._send()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """See `Link`."""
        if self._transport is not None:
            self._transport.abort()
