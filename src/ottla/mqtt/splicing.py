"""A client's connection through another copy: its bytes there and back, and the handshake between the copies.

The copy that accepts sends NONCE_BYTES random bytes. The other answers with the length of a JSON object (four
bytes), that object, which says who the client is, and an HMAC of both by the copies' password; from there on
the bytes are the client's. So only a copy can say that a client has shown a certificate. What follows is
neither signed nor encrypted: the listener belongs into a network that others do not reach.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import logging
import secrets
from dataclasses import dataclass
from typing import Final, cast

from ottla.mqtt.client_connection import Link, Parts
from ottla.mqtt.tcp_link import HIGH_WATER_BYTES, Came, TcpLink

log = logging.getLogger("ottla.mqtt")

NONCE_BYTES: Final = 16
DIGEST_BYTES: Final = 32
MOST_HELLO_BYTES: Final = 64 << 10
HELLO_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 5.0


def _digest(password: bytes, nonce: bytes, hello: bytes) -> bytes:
    return hmac.digest(password, nonce + hello, "sha256")


def hello_of(password: bytes, nonce: bytes, peer: str, certificate: bytes | None) -> bytes:
    """What a copy says of a client."""
    found = None if certificate is None else base64.b64encode(certificate).decode()
    hello = json.dumps({"peer": peer, "certificate": found}).encode()
    return len(hello).to_bytes(4, "big") + hello + _digest(password, nonce, hello)


class Untold(Exception):
    """Who the client is was not said by a copy."""


def read_hello(password: bytes, nonce: bytes, data: bytes) -> tuple[Came, bytes] | None:
    """Who the client is, and the bytes behind that; None while it is not complete. Raises Untold."""
    length = int.from_bytes(data[:4], "big")
    if len(data) >= 4 and length > MOST_HELLO_BYTES:
        raise Untold("it is no copy")
    if len(data) < 4 + length + DIGEST_BYTES:
        return None
    hello, digest = data[4 : 4 + length], data[4 + length : 4 + length + DIGEST_BYTES]
    if not hmac.compare_digest(digest, _digest(password, nonce, hello)):
        raise Untold("it has another password")
    given = json.loads(hello)
    certificate = given["certificate"]
    came = Came(given["peer"], None if certificate is None else base64.b64decode(certificate))
    return came, data[4 + length + DIGEST_BYTES :]


class CopyLink(asyncio.Protocol):
    """The listener's side: a client that another copy has, once that has said who it is."""

    def __init__(self, parts: Parts, password: bytes) -> None:
        self._parts = parts
        self._password = password
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._came = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast(asyncio.Transport, transport)
        made.write(self._nonce)
        self._timer = asyncio.get_running_loop().call_later(HELLO_SECONDS, made.abort)

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        assert transport is not None
        self._came += data
        try:
            found = read_hello(self._password, self._nonce, self._came)
        except Untold as problem:
            log.warning("a connection to the copies' listener is refused: %s", problem)
            transport.abort()
            return
        if found is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        came, rest = found
        link = TcpLink(self._parts, came)
        transport.set_protocol(link)
        link.connection_made(transport)
        if rest:
            link.data_received(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Splice(asyncio.Protocol):
    """The client's side: what its link has read goes to the copy, and what comes goes to the link."""

    def __init__(self, link: Link, password: bytes) -> None:
        self._link = link
        self._password = password
        self._first: bytes | None = None
        self._nonce = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast(asyncio.Transport, transport)
        made.set_write_buffer_limits(high=HIGH_WATER_BYTES)

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        assert transport is not None
        if len(self._nonce) < NONCE_BYTES:
            missing = NONCE_BYTES - len(self._nonce)
            self._nonce += data[:missing]
            data = data[missing:]
            self._say_hello()
        if data:
            self._link.write(data)

    def pause_writing(self) -> None:
        self._link.read_on(False)

    def resume_writing(self) -> None:
        self._link.read_on(True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.close()

    def begin(self, first: bytes) -> None:
        """See `Through`."""
        self._first = first
        self._say_hello()

    def _say_hello(self) -> None:
        """Once the nonce is there, and what the client has sent."""
        transport, link, first = self._transport, self._link, self._first
        if first is None or len(self._nonce) < NONCE_BYTES:
            return
        assert transport is not None
        self._first = None
        transport.write(hello_of(self._password, self._nonce, link.peer, link.certificate) + first)
        link.read_on(True)

    def send(self, data: bytes) -> None:
        """See `Through`."""
        assert self._transport is not None
        self._transport.write(data)

    def takes_answers(self, takes: bool) -> None:
        """See `Through`."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            if takes:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def close(self) -> None:
        """See `Through`."""
        if self._transport is not None:
            self._transport.close()


@dataclass(frozen=True, slots=True)
class Splicer:
    """Reaches other copies. Satisfies `Others`."""

    password: bytes

    async def splice(self, address: str, link: Link) -> Splice:
        """See `Others`."""
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_SECONDS):
            _, made = await loop.create_connection(
                lambda: Splice(link, self.password), host.strip("[]"), int(port)
            )
        return made
