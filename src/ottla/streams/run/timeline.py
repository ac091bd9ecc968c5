"""Tells where the seconds of an application's start go, in the log at level debug."""

from __future__ import annotations

import logging
import time

log = logging.getLogger("ottla.streams")


class Timeline:
    """The steps of a start, one after the other."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()

    def done(self, step: str) -> None:
        """A step is done: say how long it took, and how long all have taken."""
        now = time.monotonic()
        log.debug("start: %s in %.2f s, %.2f s in all", step, now - self._last, now - self._began)
        self._last = now
