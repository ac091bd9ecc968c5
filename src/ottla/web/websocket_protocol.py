"""uvicorn's protocol of WebSockets, counted among the connections of its service."""

from __future__ import annotations

from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ottla.web.request_figures import RequestFigures

MESSAGE_BYTES: Final = 64 * 1024
"""The most bytes of a client's message: no route takes any."""
PING_SECONDS: Final = 30.0
"""Between two pings, and for the answer to one: so a client is found that is gone, or takes nothing."""


class CountedWebSocket(WebSocketsSansIOProtocol):
    """One connection, from its handshake on. It inherits, as uvicorn can't be extended in any other way."""

    def __init__(self, *, figures: RequestFigures | None, **options: Any) -> None:  # as uvicorn passes them
        super().__init__(**options)
        self._figures = figures

    def connection_made(self, transport: Any) -> None:
        if self._figures is not None:
            self._figures.connections += 1
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._figures is not None:
            self._figures.connections -= 1
        super().connection_lost(exc)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        # A close waits for what is written to be taken, and this client takes nothing.
        self.transport.abort()
