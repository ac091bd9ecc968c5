"""A transport whose close waits for a client that is still sending, so that no reset takes its answer away.

A socket that is closed while bytes lie unread sends a reset, and a reset may drop what the other side has not
read yet (RFC 9112, 9.6). So the sending half ends first, and what still comes is dropped for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

LINGER_SECONDS: Final = 1.0
"""How long a connection stays open after its last answer for a client that does not stop sending."""


class LingeringTransport(asyncio.Transport):
    """A connection's transport, with a close that lingers while `is_sending` says that the client sends."""

    def __init__(self, transport: asyncio.Transport, is_sending: Callable[[], bool]) -> None:
        super().__init__()
        self._transport = transport
        self._is_sending = is_sending
        self._deadline: asyncio.TimerHandle | None = None
        # the hot ones, without a step between
        self.write = transport.write  # type: ignore[method-assign]
        self.get_extra_info = transport.get_extra_info  # type: ignore[method-assign]
        self.get_write_buffer_size = transport.get_write_buffer_size  # type: ignore[method-assign]

    @property
    def is_lingering(self) -> bool:
        """Whether the last byte was written, and what still comes is to be dropped."""
        return self._deadline is not None

    def close(self) -> None:
        """Close at once, or within LINGER_SECONDS where the client is still sending."""
        if self.is_closing():
            return
        if not self._is_sending() or not self._transport.can_write_eof():
            self._transport.close()
            return
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(LINGER_SECONDS, self._transport.close)
        self._transport.write_eof()
        self._transport.resume_reading()

    def ended(self) -> None:
        """The connection is lost: there is nothing left to wait for."""
        if self._deadline is not None:
            self._deadline.cancel()

    def is_closing(self) -> bool:
        return self.is_lingering or self._transport.is_closing()

    def abort(self) -> None:
        self._transport.abort()

    def pause_reading(self) -> None:
        if not self.is_lingering:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._transport.get_protocol()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def can_write_eof(self) -> bool:
        return self._transport.can_write_eof()

    def write_eof(self) -> None:
        self._transport.write_eof()

    def get_write_buffer_limits(self) -> Any:
        return self._transport.get_write_buffer_limits()
