"""A run's switches, set by the worker's orders and looked at by the run's thread."""

from __future__ import annotations

import threading


class Control:
    """Whether a run is to stop, or to rest."""

    __slots__ = ("_changed", "_paused", "_stopping")

    def __init__(self, paused: bool = False) -> None:
        self._changed = threading.Condition()
        self._stopping = False
        self._paused = paused

    @property
    def stopping(self) -> bool:
        """Whether the run is to end."""
        return self._stopping

    @property
    def paused(self) -> bool:
        """Whether the run is to rest."""
        return self._paused

    def goes_on(self) -> bool:
        """Whether the run neither ends nor rests."""
        return not (self._stopping or self._paused)

    def stop(self) -> None:
        """Let the run end."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def pause(self, paused: bool) -> None:
        """Let the run rest, or go on."""
        with self._changed:
            self._paused = paused
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait, at most until a switch changes. Returns whether the run goes on."""
        with self._changed:
            if not self._stopping:
                self._changed.wait(seconds)
        return not self._stopping

    def rest(self, seconds: float) -> bool:
        """Wait for the whole time, unless the run is to end. Returns whether it goes on."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, seconds)
        return not self._stopping
