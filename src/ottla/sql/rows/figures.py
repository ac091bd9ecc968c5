"""The figures of a server's rows: pull queries, their times and ends, push queries, rows that were sent.

Plain numbers that change on the event loop, less than a microsecond a query, and are read at a scrape.
"""

from __future__ import annotations

import enum
from collections import Counter
from time import perf_counter_ns
from typing import Final

from ottla.metrics.histogram import Histogram

SECONDS_A_MICROSECOND: Final = 1e-6


class Reads(enum.StrEnum):
    """What a pull query reads."""

    KEY = "key"
    RANGE = "range"
    TABLE = "table"
    STREAM = "stream"


class RunsOn(enum.StrEnum):
    """Where a push query's rows are made."""

    SERVER = "server"
    SPARK = "spark"


class RowFigures:
    """Since the server's start."""

    def __init__(self) -> None:
        self.pulls: Counter[tuple[Reads, bool]] = Counter()
        """By what was read, and whether it was an error."""
        self.pull_times = {each: Histogram(SECONDS_A_MICROSECOND) for each in Reads}
        self.passed_on = 0
        self.pull_rows = 0
        self.push_rows = 0
        """Of push queries that have ended."""
        self.pushes_started: Counter[RunsOn] = Counter()
        self.push_errors = 0

    def pull_begun(self, reads: Reads) -> PullMeasure:
        """A pull query begins; its measure has to be told of its end."""
        return PullMeasure(self, reads)


class PullMeasure:
    """Of one pull query."""

    __slots__ = ("_begun_ns", "_figures", "_reads")

    def __init__(self, figures: RowFigures, reads: Reads) -> None:
        self._figures = figures
        self._reads = reads
        self._begun_ns = perf_counter_ns()

    def ended(self, rows: int) -> None:
        """It has given all its rows, so many."""
        self._figures.pulls[self._reads, False] += 1
        self._figures.pull_times[self._reads].observe((perf_counter_ns() - self._begun_ns) // 1_000)
        self._figures.pull_rows += rows

    def failed(self, rows: int = 0) -> None:
        """It has ended before its last row."""
        self._figures.pulls[self._reads, True] += 1
        self._figures.pull_rows += rows
