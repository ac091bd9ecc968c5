"""uvicorn's HTTP protocol with bounds for clients that make no progress: on bytes, and on silence.

uvicorn leaves both to a proxy in front of it: endless headers would fill the memory, and silent connections
would take every slot. The bounds are on a lack of progress, so a request that makes progress never reaches
one.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ottla.web.callers import CERTIFICATE
from ottla.web.lingering_transport import LingeringTransport
from ottla.web.request_figures import Refusal, RequestFigures

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of a client that begins with HTTP/2 (RFC 9113, 3.4)."""
HEAD_BYTES: Final = 64 * 1024
"""The most bytes of a request's line and headers, and of any other bytes outside of a body."""
HEAD_SECONDS: Final = 30.0
BODY_SECONDS: Final = 300.0
"""The longest time without a byte of an unfinished body. A producer that streams may pause."""
UNREAD_SECONDS: Final = 300.0
"""The longest time in which the client takes no byte of an answer."""
LOOK_SECONDS: Final = 5.0


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. It inherits, as uvicorn can't be extended in any other way."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # as uvicorn passes them
        super().__init__(*arguments, **options)
        self._progress = False
        self._bytes_since_progress = 0
        self._heard_at = 0.0
        self._unread_bytes = 0
        self._unread_since = 0.0
        self._look: asyncio.TimerHandle | None = None
        self._certificate: bytes | None = None
        self._lingering: LingeringTransport | None = None
        self.figures: RequestFigures | None = None
        """Where connections and refused heads are counted, set before the connection is made."""
        self.takes_http2 = False
        """Whether a client may begin with HTTP/2, set before the connection is made."""
        self._beginning = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        self._lingering = LingeringTransport(transport, self._client_may_send)
        super().connection_made(self._lingering)
        if self.figures is not None:
            self.figures.connections += 1
            self.figures.connections_opened += 1
        if self.scheme == "https":
            self._certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        self._heard_at = self.loop.time()
        self._look = self.loop.call_later(LOOK_SECONDS, self._look_at_silence)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        if self.figures is not None:
            self.figures.connections -= 1
        if self._lingering is not None:
            self._lingering.ended()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._lingering is not None and self._lingering.is_lingering:
            return
        self._heard_at = self.loop.time()
        if self.takes_http2:
            data = self._beginning + data
            if PREFACE.startswith(data[: len(PREFACE)]):
                self._beginning = data
                if len(data) >= len(PREFACE):
                    self._go_on_with_http2(data)
                return
            self.takes_http2 = False
        self._progress = False
        self._bytes_since_progress += len(data)
        self._parse(data)
        if self._progress:
            self._bytes_since_progress = 0
            return
        if self._bytes_since_progress > HEAD_BYTES and not self.transport.is_closing():
            self._refuse(431, b"Request Header Fields Too Large", f"Headers of more than {HEAD_BYTES} bytes")

    def _parse(self, data: bytes) -> None:
        """As uvicorn's own `data_received`, which would lose the body of a request that offers an upgrade.

        The parser reads no body behind an offer. Such a request is taken as if it offered nothing (RFC 9110,
        7.8): its headers are parsed again without the offer, and what follows them is its body.
        """
        self._unset_keepalive_if_required()
        head, left = b"", memoryview(data)
        while head or left:
            try:
                if head:
                    again, head = head, b""
                    self.parser.feed_data(again)
                if left:
                    self.parser.feed_data(left)
                return
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
                return
            except httptools.HttpParserUpgrade as upgrade:
                if self._should_upgrade():
                    self.handle_websocket_upgrade()
                if not self._offers_upgrade():
                    return
                head, left = self._without_offer(), left[upgrade.args[0] :]

    def _offers_upgrade(self) -> bool:
        """Whether the request offers a protocol that is not spoken here, as Java's client does HTTP/2."""
        if not self.parser.should_upgrade() or self.parser.get_method() == b"CONNECT":
            return False
        return not self._should_upgrade()

    def _without_offer(self) -> bytes:
        """The request's line and headers, but for the offer."""
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                wanted = [each.strip() for each in value.split(b",")]
                value = b", ".join(each for each in wanted if each.lower() != b"upgrade")
            if name != b"upgrade":
                lines.append(b"%s: %s" % (name, value))
        return b"\r\n".join([*lines, b"", b""])

    def on_headers_complete(self) -> None:
        if self._offers_upgrade():
            return
        self._progress = True
        if self._certificate is not None:
            self.scope["state"][CERTIFICATE] = self._certificate
        if self.figures is not None and self._has_no_place():
            self.figures.refuse(Refusal.CONNECTIONS)
        super().on_headers_complete()

    def handle_websocket_upgrade(self) -> None:
        """As uvicorn's own, which bounds the number of requests alone; this protocol's watch ends here."""
        if self._has_no_place():
            self._answer(503, b"Service Unavailable", "There are too many connections")
            return
        if self._look is not None:
            self._look.cancel()
        if self._certificate is not None:
            self.app_state = {**self.app_state, CERTIFICATE: self._certificate}
        if self.figures is not None:
            self.figures.connections -= 1  # it is counted by its new protocol, which is told of its end
        super().handle_websocket_upgrade()

    def _go_on_with_http2(self, data: bytes) -> None:
        """Hand the connection on; this protocol's watch ends here."""
        from ottla.web.http2_protocol import Http2Protocol, Place  # a library that other services do not need

        if self._look is not None:
            self._look.cancel()
        state = dict(self.app_state)
        if self._certificate is not None:
            state[CERTIFICATE] = self._certificate
        figures, lingering = self.figures, self._lingering
        assert lingering is not None

        def ended() -> None:
            lingering.ended()
            if figures is not None:
                figures.connections -= 1

        place = Place(
            self.app,
            self.scheme or "http",
            self.client,
            self.server,
            state,
            self._has_no_place,
            self.tasks,
            self.connections,
            ended,
        )
        protocol = Http2Protocol(place)
        self.connections.discard(self)
        lingering.set_protocol(protocol)
        protocol.connection_made(lingering)
        protocol.data_received(data)

    def _client_may_send(self) -> bool:
        """Whether the client is in the middle of a request, so that more of it may come."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return self._bytes_since_progress > 0 or (cycle is not None and cycle.more_body)

    def _has_no_place(self) -> bool:
        """Whether uvicorn answers the next request with 503, before the service sees it."""
        most = self.limit_concurrency
        return most is not None and (len(self.connections) >= most or len(self.tasks) >= most)

    def on_body(self, body: bytes) -> None:
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._offers_upgrade():
            return
        self._progress = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP."""
        self._refuse(400, b"Bad Request", msg)

    def _refuse(self, status: int, phrase: bytes, message: str) -> None:
        if self.figures is not None:
            self.figures.refuse(Refusal.HEAD_BYTES if status == 431 else Refusal.MALFORMED)
        self._answer(status, phrase, message)

    def _answer(self, status: int, phrase: bytes, message: str) -> None:
        content = orjson.dumps({"error_code": status, "message": message})
        lines = [
            b"HTTP/1.1 %d %s" % (status, phrase),
            b"content-type: application/json",
            b"content-length: %d" % len(content),
            b"connection: close",
        ]
        self.transport.write(b"\r\n".join([*lines, b"", content]))
        self.transport.close()

    def _look_at_silence(self) -> None:
        now = self.loop.time()
        if self._is_silent(now) or self._is_deaf(now):
            self.transport.abort()
            return
        self._look = self.loop.call_later(LOOK_SECONDS, self._look_at_silence)

    def _is_silent(self, now: float) -> bool:
        """Whether the client has failed for too long to send bytes that it still has to send."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            return now - self._heard_at > HEAD_SECONDS and self.timeout_keep_alive_task is None
        # While reading is paused, the missing bytes are not the client's fault.
        return cycle.more_body and not self.flow.read_paused and now - self._heard_at > BODY_SECONDS

    def _is_deaf(self, now: float) -> bool:
        """Whether the client has taken no byte of an answer for too long."""
        unread_bytes = self.transport.get_write_buffer_size()
        if unread_bytes == 0 or unread_bytes != self._unread_bytes:
            self._unread_bytes, self._unread_since = unread_bytes, now
            return False
        return now - self._unread_since > UNREAD_SECONDS
