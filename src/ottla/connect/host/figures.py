"""Tells the worker a run's counters every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from ottla.connect.host.messages import Figures, Run
from ottla.connect.host.runner import Tell

INTERVAL_SECONDS: Final = 5.0
OF_CONNECTOR: Final = "connector."
"""What the names of figures begin with that a connector tells of the other system."""


def connectors_figures(figures: Mapping[str, float]) -> dict[str, float]:
    """Those that the connector tells itself, by its own names."""
    return {
        name.removeprefix(OF_CONNECTOR): value
        for name, value in figures.items()
        if name.startswith(OF_CONNECTOR)
    }


class FigureTeller:
    """Counts what a task reads, and tells all its figures from time to time.

    current: the run's figures now.
    """

    def __init__(self, run: Run, tell: Tell, current: Callable[[], Mapping[str, float]]) -> None:
        self.read = 0
        self._run = run
        self._tell = tell
        self._current = current
        self._next = time.monotonic() + INTERVAL_SECONDS

    def tick(self) -> None:
        """Tell the figures if it is time to."""
        if time.monotonic() >= self._next:
            self.tell()

    def tell(self) -> None:
        """Tell the figures."""
        self._next = time.monotonic() + INTERVAL_SECONDS
        self._tell(Figures(self._run, dict(self._current())))
