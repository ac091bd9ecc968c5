"""Bounds the work on a question about schemas: steps are counted, up to a limit or until it is abandoned.

A small text can cause any amount of work (each definition that refers twice to the one before doubles it), so
every walk over schemas spends an Effort. A step takes about two microseconds.
"""

from __future__ import annotations

import threading
from typing import Final

MAX_STEPS: Final = 1_000_000
"""The steps for one comparison of two schemas: one or two seconds."""


class TooMuchWork(Exception):
    """The allowed steps are spent."""


class Abandoned(Exception):
    """The caller no longer waits for the answer."""


class Effort:
    """A number of allowed steps; work stops when they are spent or `abandoned` is set. For one thread."""

    __slots__ = ("_abandoned", "limit", "spent")

    def __init__(self, limit: int = MAX_STEPS, abandoned: threading.Event | None = None) -> None:
        self.limit = limit
        self.spent = 0
        self._abandoned = abandoned

    @property
    def is_whole(self) -> bool:
        """Whether no caller allows more: a comparison that exceeds such an effort has failed for good."""
        return self.limit >= MAX_STEPS

    def spend(self, steps: int = 1) -> None:
        """Count the next steps. Raises TooMuchWork and Abandoned."""
        self.spent += steps
        if self.spent > self.limit:
            raise TooMuchWork
        if self._abandoned is not None and self._abandoned.is_set():
            raise Abandoned
