"""The network of a connection over WebSocket: MQTT's packets are a stream in binary frames.

The subprotocol is `mqtt`, which a client must offer. A browser tells which page opens a connection: its
origin must be the host that it names, as with clients that are no browsers and send one nevertheless, or
stand in access.control.allow.origin. On a loopback address a page can name no host but safe ones
(web/hosts.py), so none gets in by binding its name anew.
"""

from __future__ import annotations

import asyncio
import http
import logging
from dataclasses import dataclass
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
from ottla.web.hosts import AllowedHosts

SUBPROTOCOL: Final = Subprotocol("mqtt")
SMALLEST_MESSAGE_BYTES: Final = 64 << 10
HANDSHAKE_SECONDS: Final = 10.0
_quiet: Final = logging.getLogger("ottla.mqtt.websockets")


@dataclass(frozen=True, slots=True)
class HandshakeRules:
    """Who may open a connection at a listener."""

    hosts: AllowedHosts
    origins: CrossOrigin

    def refusal(self, host: str, origin: str | None) -> str | None:
        """Why a handshake for this host, from a page of this origin, is refused; None if it is not."""
        if not self.hosts.allows(host):
            return "The host is not one of this proxy: ottla.http.hosts does not name it."
        if origin is not None and not self.origins.allows_page(origin, host):
            return "Pages of this origin may not connect: access.control.allow.origin does not name it."
        return None


class WebSocketLink(asyncio.Protocol):
    """Satisfies `Link`; made by the loop for each connection."""

    def __init__(self, parts: Parts, rules: HandshakeRules) -> None:
        self._parts = parts
        self._rules = rules
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
        refusal = self._rules.refusal(_one(request.headers, "Host") or "", _one(request.headers, "Origin"))
        if refusal is not None:
            response = self._frames.reject(http.HTTPStatus.FORBIDDEN, f"{refusal}\n")
        else:
            response = self._frames.accept(request)
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

    @property
    def unsent_bytes(self) -> int:
        """See `Link`."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

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


def _one(headers: Headers, name: str) -> str | None:
    """The value of a header, None without it; several are put together, and are no host or origin then."""
    values = headers.get_all(name)
    return ", ".join(values) if values else None
