"""Bounds the memory of all requests together: bytes that have arrived, not those that are announced."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final

from ottla.web.errors import ApiError

WAIT_SECONDS: Final = 10.0
"""How long a request waits for room; then it fails and gives back its bytes, so that others get on."""


class BytesInWork:
    """The bytes that requests hold, from their arrival to the end of the answer."""

    def __init__(self, limit_bytes: int, wait_seconds: float = WAIT_SECONDS) -> None:
        self.limit_bytes = limit_bytes
        self._wait_seconds = wait_seconds
        self._held = 0
        self._freed = asyncio.Event()

    @property
    def held_bytes(self) -> int:
        """The bytes that all requests hold."""
        return self._held

    def request(self) -> Held:
        """The bytes of one request; a context, at whose end all of them are given back."""
        return Held(self)

    async def take(self, size: int) -> None:
        """Count bytes that have arrived, once there is room. Raises ApiError 429 after waiting too long."""
        if self._held + size > self.limit_bytes:
            try:
                async with asyncio.timeout(self._wait_seconds):
                    while self._held + size > self.limit_bytes and self._held > 0:
                        self._freed.clear()
                        await self._freed.wait()
            except TimeoutError:
                raise ApiError(429, 429, "Requests hold too much memory; try again later") from None
        self._held += size

    def give_back(self, size: int) -> None:
        """Count bytes as released."""
        self._held -= size
        self._freed.set()


class Held:
    """The bytes that one request holds."""

    def __init__(self, work: BytesInWork) -> None:
        self._work = work
        self._size = 0

    async def add(self, size: int) -> None:
        """Count more bytes. Raises ApiError 429."""
        await self._work.take(size)
        self._size += size

    def give_back(self, size: int) -> None:
        """Count some of the bytes as released."""
        self._size -= size
        self._work.give_back(size)

    def __enter__(self) -> Held:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back(self._size)
