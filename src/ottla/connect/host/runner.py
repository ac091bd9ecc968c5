"""The contract between a host process and its engine: what runs connectors and tasks in this process.

`ottla.connect.host` makes one Runner: `PythonRunner` (threads) or `ottla.connect.spark.runner:SparkRunner`
(streaming queries), by `--engine`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ottla.connect.host.messages import Event, Run, Start

Tell = Callable[[Event], None]
"""Gives an event to the worker. Any thread may call it; it neither blocks for long nor raises."""


class Runner(Protocol):
    """Runs connectors and tasks.

    The host calls it from one thread. `start` and `stop` return at once and don't raise: whatever becomes of
    a run is told by events. Every run that was started ends with exactly one Ended, the last of its events.
    """

    def __init__(self, tell: Tell) -> None:
        """Nothing that takes long: the engine itself (a Spark session) begins with the first `start`."""

    def start(self, order: Start) -> None:
        """Begin a run: Running once its connector is made, or Ended with a trace."""

    def stop(self, run: Run) -> None:
        """End a run in order (flush, commit, close), then Ended. One that has ended already is ignored."""

    def pause(self, run: Run) -> None:
        """Let a run rest, then Paused; or stop it, then Ended. One that has ended already is ignored."""

    def resume(self, run: Run) -> None:
        """Let a paused run go on, then Running. One that has ended already is ignored."""

    def close(self) -> None:
        """End all runs in order and give the engine up. Called at most once; returns within some seconds."""
