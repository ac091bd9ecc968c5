"""How long the syncs of segments to the disk take: those of partitions' logs and of the metadata log."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.metrics.exposition import Family, single
from ottla.metrics.histogram import Histogram
from ottla.metrics.tables import broker as table
from ottla.storage.flush import FlushTask


class FlushMetrics:
    """The source of LogFlushStats."""

    def __init__(self) -> None:
        self._times = Histogram(0.001)  # microseconds, exposed as milliseconds

    def observe(self, task: FlushTask) -> None:
        """Count the syncs of a task that has run."""
        for each in task.segment_times_us:
            self._times.observe(each)

    def read(self) -> Iterator[Family | None]:
        """The family of syncs."""
        yield single(table.LOG_FLUSH_TIME, self._times)
