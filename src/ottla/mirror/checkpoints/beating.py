"""The pace of a task of the mirror that does something every so often: cycles, pauses, states, figures."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ottla.client.errors import ClientOptionError, ClusterError
from ottla.connect.host.control import Control
from ottla.connect.host.messages import Figures, Paused, Run, Running
from ottla.connect.host.runner import Tell

RETRY_SECONDS: Final = 5.0
FIGURES_SECONDS: Final = 5.0
_REST_SECONDS: Final = 3600.0

_log = logging.getLogger("ottla.mirror")


class Cycles(Protocol):
    """What a task does again and again, in one thread."""

    def cycle(self, goes_on: Callable[[], bool]) -> float:
        """Do what is due. Returns the seconds until something is due again. Raises ClusterError."""

    def figures(self) -> Mapping[str, float]:
        """Counters since the start."""

    def close(self) -> None:
        """Give everything up."""


class BeatingTask:
    """Satisfies OwnTask: runs cycles until it is stopped. A cluster that is away is waited for."""

    def __init__(self, run: Run, cycles: Cycles) -> None:
        self._run = run
        self._cycles = cycles

    def run(self, tell: Tell, control: Control) -> None:
        """See OwnTask."""
        paused: bool | None = None
        told = 0.0
        try:
            while not control.stopping:
                if control.paused != paused:
                    paused = control.paused
                    tell(Paused(self._run) if paused else Running(self._run))
                if paused:
                    control.wait(_REST_SECONDS)
                    continue
                control.wait(self._cycle(control.goes_on))
                if time.monotonic() - told >= FIGURES_SECONDS:
                    told = time.monotonic()
                    tell(Figures(self._run, self._cycles.figures()))
        finally:
            self._cycles.close()

    def _cycle(self, goes_on: Callable[[], bool]) -> float:
        try:
            return self._cycles.cycle(goes_on)
        except ClientOptionError:
            raise
        except ClusterError as problem:
            _log.warning("tried again in %g s: %s", RETRY_SECONDS, problem)
            return RETRY_SECONDS
