"""Distributions of times and sizes: integer buckets, and quantiles that are read out at a scrape.

A value falls into one of eight buckets of equal width for each power of two, so a quantile is at most an
eighth of its value off. All values since the process began count, as in a Prometheus summary or histogram.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

SUB_BITS: Final = 3
SUB_BUCKETS: Final = 1 << SUB_BITS
MOST_BITS: Final = 48
"""Values of more bits count in the last bucket: 2^48 microseconds are nine years, 2^48 bytes 281 TB."""
BUCKETS: Final = (MOST_BITS - SUB_BITS + 1) * SUB_BUCKETS
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those that the JMX exporter gives of Kafka's histograms."""


def lower_bound(index: int) -> int:
    """The least value of a bucket; for BUCKETS, the first value behind all of them."""
    if index < SUB_BUCKETS:
        return index
    shift = (index >> SUB_BITS) - 1
    return (SUB_BUCKETS + (index & (SUB_BUCKETS - 1))) << shift


class Histogram:
    """A distribution of integers, in microseconds say. scale: what one of them is in the exposed unit."""

    __slots__ = ("counts", "maximum", "scale", "sum")

    def __init__(self, scale: float = 1) -> None:
        self.counts = [0] * BUCKETS
        self.sum = 0
        self.maximum = 0
        self.scale = scale

    def observe(self, value: int) -> None:
        """Count a value."""
        if value < SUB_BUCKETS:
            if value < 0:
                value = 0
            index = value
        else:
            shift = value.bit_length() - SUB_BITS - 1
            index = (shift << SUB_BITS) + (value >> shift)
            if index >= BUCKETS:
                index = BUCKETS - 1
        self.counts[index] += 1
        self.sum += value
        if value > self.maximum:
            self.maximum = value

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts)

    @property
    def scaled_sum(self) -> float:
        """The sum of the values, in the exposed unit."""
        return self.sum * self.scale

    def quantiles(self, wanted: Sequence[float] = QUANTILES) -> list[float]:
        """The quantiles, given in rising order, in the exposed unit; 0 where there is no value."""
        total = self.count
        if not total:
            return [0.0] * len(wanted)
        found: list[float] = []
        passed = 0
        index = -1
        for quantile in wanted:
            rank = max(1, quantile * total)
            while passed < rank:
                index += 1
                passed += self.counts[index]
            found.append(self._within(index, passed, rank) * self.scale)
        return found

    def _within(self, index: int, passed: int, rank: float) -> float:
        """The value of a rank within a bucket whose values are taken as evenly spread."""
        low = lower_bound(index)
        width = lower_bound(index + 1) - low
        here = self.counts[index]
        value = low + (width - 1) * (rank - (passed - here)) / here
        return min(value, self.maximum)

    def cumulative(self, bounds: Iterable[float]) -> list[int]:
        """How many values are at most each bound, given in rising order and in the exposed unit.

        A bucket counts below a bound when its greatest value does.
        """
        found: list[int] = []
        passed = 0
        index = 0
        for bound in bounds:
            while index < BUCKETS and (lower_bound(index + 1) - 1) * self.scale <= bound:
                passed += self.counts[index]
                index += 1
            found.append(passed)
        return found


class Sampled:
    """A distribution of which only some values were measured, with the number of all.

    The quantiles are those of the measured values, the sum is theirs times as many as there are. Without a
    histogram all values are 0.
    """

    __slots__ = ("_measured", "count")

    def __init__(self, measured: Histogram | None, count: int) -> None:
        self.count = count
        self._measured = measured

    @property
    def scaled_sum(self) -> float:
        """The estimated sum of all values, in the exposed unit."""
        measured = self._measured
        if measured is None or not measured.sum:
            return 0.0
        return measured.scaled_sum * self.count / measured.count

    def quantiles(self, wanted: Sequence[float] = QUANTILES) -> list[float]:
        """The quantiles, given in rising order, in the exposed unit."""
        if self._measured is None or not self._measured.sum:
            return [0.0] * len(wanted)
        return self._measured.quantiles(wanted)
