"""One line an event while events are rare, one line a second and kind while they come in floods.

A client that can make the broker log a line for each packet can fill its disk. So the first event of a kind
is written at once; those that follow within the second are counted, and told in one line at its end with the
latest of them as an example. A kind is a fixed word of the program, never a text that a client sent.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

WINDOW_SECONDS: Final = 1.0


class FloodLog:
    """Warnings about clients, bounded in number."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: logging.Logger) -> None:
        self._loop = loop
        self._log = log
        # For each kind of the running second: how many were not written, and the latest of them.
        self._held_back: dict[str, tuple[int, str]] = {}

    @property
    def counting(self) -> bool:
        """Whether the second of some event has not ended yet."""
        return bool(self._held_back)

    def warn(self, kind: str, text: str, failure: BaseException | None = None) -> None:
        """Write `text`, or count it. `failure` is written with its traceback, if it is written."""
        held_back = self._held_back.get(kind)
        if held_back is not None:
            self._held_back[kind] = (held_back[0] + 1, text)
            return
        self._log.warning("%s", text, exc_info=failure)
        self._begin(kind)

    def _begin(self, kind: str) -> None:
        self._held_back[kind] = (0, "")
        self._loop.call_later(WINDOW_SECONDS, self._end, kind)

    def _end(self, kind: str) -> None:
        count, latest = self._held_back.pop(kind)
        if count:
            self._log.warning("%d more within a second kind=%s latest: %s", count, kind, latest)
            self._begin(kind)
