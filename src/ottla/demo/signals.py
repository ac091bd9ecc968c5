"""Ctrl-C and SIGTERM as a flag that a loop checks, so that all parts end in order."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
EXIT_INTERRUPTED = 130


class StopSignals:
    """Within the block, the first signal requests an orderly stop, and a second Ctrl-C ends the process.

    Even then no process is left behind: Spark's JVM and the demo's broker notice the end by their pipes.
    """

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        return self._requested.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for a signal; returns whether one has come."""
        return self._requested.wait(seconds)

    def __enter__(self) -> StopSignals:
        for name in _NAMES:
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._requested.is_set() and number == signal.SIGINT:
            os._exit(EXIT_INTERRUPTED)
        self._requested.set()
