"""The network of a connection over TCP or TLS."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from typing import Any, Final, cast

from ottla.mqtt.client_connection import ClientConnection, Parts

HIGH_WATER_BYTES: Final = 64 << 10
"""Answers that a client has not taken; with more it is read no further."""


def certificate_of(transport: asyncio.Transport) -> bytes | None:
    """The certificate (DER) of a transport's client, if it has TLS and has shown one."""
    tls = transport.get_extra_info("ssl_object")
    found: bytes | None = None if tls is None else tls.getpeercert(binary_form=True)
    return found or None


def peer_of(transport: asyncio.Transport) -> str:
    """The address of a transport's client."""
    name = transport.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "?"


def prepare(transport: asyncio.Transport) -> None:
    """Send small packets at once, and find out about peers that are gone."""
    transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
    own: Any = transport.get_extra_info("socket")
    if own is not None:
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


@dataclass(frozen=True, slots=True)
class Came:
    """Who a client is that came through another copy."""

    peer: str
    certificate: bytes | None


class TcpLink(asyncio.Protocol):
    """Satisfies `Link`; made by the loop for each connection. came: None for a client of this copy's own."""

    def __init__(self, parts: Parts, came: Came | None = None) -> None:
        self._parts = parts
        self._came = came
        self._transport: asyncio.Transport | None = None
        self._connection: ClientConnection | None = None
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
        came = self._came
        if came is None:
            self.peer, self.certificate = peer_of(made), certificate_of(made)
        else:
            self.peer, self.certificate = came.peer, came.certificate
        self._connection = ClientConnection(self._parts, self, is_passed_on=came is not None)

    def data_received(self, data: bytes) -> None:
        if self._connection is not None:
            self._connection.received(data)

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.takes_answers(False)

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.takes_answers(True)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._connection.lost()

    # -- the connection's side ------------------------------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        """See `Link`."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """See `Link`."""
        assert self._transport is not None
        self._transport.write(data)

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
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """See `Link`."""
        if self._transport is not None:
            self._transport.abort()
