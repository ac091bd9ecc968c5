"""What answering a question about schemas may cost: steps are counted, and each looks whether to go on.

A small text can ask for any amount of work (definitions that refer twice to the one before double it each
time), so nothing that walks over schemas does so without an Effort. A step is some two microseconds.
"""

from __future__ import annotations

import threading
from typing import Final

MAX_STEPS: Final = 1_000_000
"""Of one comparison of two schemas: one or two seconds."""


class TooMuchWork(Exception):
    """The steps that were allowed are spent."""


class Abandoned(Exception):
    """Nobody waits for the answer any more."""


class Effort:
    """Steps that may be made, until they are spent or `abandoned` is set. For one thread at a time."""

    __slots__ = ("_abandoned", "limit", "spent")

    def __init__(self, limit: int = MAX_STEPS, abandoned: threading.Event | None = None) -> None:
        self.limit = limit
        self.spent = 0
        self._abandoned = abandoned

    @property
    def is_whole(self) -> bool:
        """Whether no more is allowed elsewhere: who runs out of it may give up."""
        return self.limit >= MAX_STEPS

    def spend(self, steps: int = 1) -> None:
        """Count steps that come next. Raises TooMuchWork and Abandoned."""
        self.spent += steps
        if self.spent > self.limit:
            raise TooMuchWork
        if self._abandoned is not None and self._abandoned.is_set():
            raise Abandoned
