"""Keeps Python's garbage collector from stopping a server for long.

A full collection walks all objects that are kept: 1.2 s for a broker of 39,000 partitions, and every large
answer brings the next one nearer (it came after each 2 s of large answers, every 11 s without any). So what a
long collection has found alive is frozen: it is set aside, and the next one walks what is new. Objects that
are frozen die as ever when nothing refers to them. Only those in circles would stay, so all are walked again
as soon as the frozen ones have doubled: such garbage takes at most as much memory as what lives.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

LONG_COLLECTION_SECONDS: Final = 0.02
FULL_GENERATION: Final = 2
LEAST_OBJECTS: Final = 1_000_000
"""Frozen objects that are never walked for being more than before."""


class FreezingCollections:
    """A callback of the collector; see the module."""

    def __init__(
        self, seconds: Callable[[], float] = time.perf_counter, least_objects: int = LEAST_OBJECTS
    ) -> None:
        self._seconds = seconds
        self._least_objects = least_objects
        self._began = 0.0
        self._allowed_objects = least_objects
        """So many may be frozen before a collection walks them all."""
        self._walks_all = False

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != FULL_GENERATION:
            return
        if phase == "start":
            if self._walks_all:
                gc.unfreeze()
            self._began = self._seconds()
        elif self._walks_all or self._seconds() - self._began > LONG_COLLECTION_SECONDS:
            gc.freeze()
            frozen = gc.get_freeze_count()
            if self._walks_all:
                self._allowed_objects = max(self._least_objects, 2 * frozen)
            self._walks_all = frozen > self._allowed_objects


def freeze_started_server() -> None:
    """Collect, and freeze what a server has made by its start, and later what long collections find alive."""
    gc.collect()
    gc.freeze()
    if not any(isinstance(one, FreezingCollections) for one in gc.callbacks):
        gc.callbacks.append(FreezingCollections())
