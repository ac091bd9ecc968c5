"""Lets other requests have turns of the event loop while a request of many parts is handled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

SLICE_SECONDS = 0.01
"""How long a request may keep the event loop before others get their turn."""
PARTS_A_LOOK = 8


async def in_turns(parts: Iterable[T]) -> AsyncIterator[T]:
    """The parts one by one; between two of them others may get a turn, so the state may have changed."""
    loop = asyncio.get_running_loop()
    slice_end = loop.time() + SLICE_SECONDS
    for number, part in enumerate(parts):
        if not number % PARTS_A_LOOK and loop.time() >= slice_end:
            await asyncio.sleep(0)
            slice_end = loop.time() + SLICE_SECONDS
        yield part
