"""Bounds what all requests together hold in memory: bytes that have arrived, not those that are claimed."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final

from ottla.web.errors import ApiError

WAIT_SECONDS: Final = 10.0
"""For others to give back; who waits longer fails and gives back what he has, so somebody gets on."""


class BytesInWork:
    """Bytes that requests hold, from when they arrive until they are answered for."""

    def __init__(self, limit_bytes: int, wait_seconds: float = WAIT_SECONDS) -> None:
        self.limit_bytes = limit_bytes
        self._wait_seconds = wait_seconds
        self._held = 0
        self._freed = asyncio.Event()

    @property
    def held_bytes(self) -> int:
        """Of all requests."""
        return self._held

    def request(self) -> Held:
        """What one request will hold; a context, at whose end all of it is given back."""
        return Held(self)

    async def take(self, size: int) -> None:
        """Count bytes that have arrived. Raises ApiError 429 when there is no room for too long."""
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
        """Those bytes are let go."""
        self._held -= size
        self._freed.set()


class Held:
    """What one request holds."""

    def __init__(self, work: BytesInWork) -> None:
        self._work = work
        self._size = 0

    async def add(self, size: int) -> None:
        """Count more. Raises ApiError 429."""
        await self._work.take(size)
        self._size += size

    def give_back(self, size: int) -> None:
        """Let go of a part."""
        self._size -= size
        self._work.give_back(size)

    def __enter__(self) -> Held:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back(self._size)
