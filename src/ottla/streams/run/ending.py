"""The end of an application: asked for, or by a failure, of which the first is the one that is told."""

from __future__ import annotations

import threading


class Ending:
    """Set once, from any thread."""

    def __init__(self) -> None:
        self.failure: str | None = None
        self._set = threading.Event()

    def request(self) -> None:
        """The application is to end; may be called from a signal's handler."""
        self._set.set()

    def fail(self, message: str) -> None:
        """The application is to end by a failure."""
        if self.failure is None:
            self.failure = message
        self._set.set()

    @property
    def requested(self) -> bool:
        return self._set.is_set()

    def wait(self, timeout_seconds: float) -> bool:
        """Wait until the end is asked for; False when time was short."""
        return self._set.wait(timeout_seconds)
