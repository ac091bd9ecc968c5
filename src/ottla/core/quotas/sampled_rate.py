"""A rate over the last windows of time, as Apache Kafka's quotas measure it (`Rate` over `SampledStat`).

A sample covers a window from its first value on, and there is one sample more than windows count: the oldest
one may overlap the time that is looked at. A sample counts for as long as its last value is younger than all
windows together. The time that the sum is divided by reaches back to the start of the oldest sample, but is
at least all windows but one, and the part of the current one: first values don't look like a high rate.
"""

from __future__ import annotations

import math
from typing import Final

MAX_THROTTLE_MS: Final = 2**31 - 1
"""The longest time that fits into an answer."""


class SampledRate:
    """The amount a second over `samples` windows of `window_ms` each. Times never go back."""

    __slots__ = ("_current", "_samples", "_samples_kept", "_window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._samples_kept = samples
        self._window_ms = window_ms
        # Each sample: when it started, when its last value came, the sum of its values.
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, amount: float, now_ms: int) -> None:
        """Count an amount; a negative one takes back an amount that was recorded before."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._advance(now_ms)
        sample.amount += amount
        sample.last_ms = now_ms

    def throttle_ms(self, limit: float, now_ms: int, longest_ms: int = MAX_THROTTLE_MS) -> int:
        """How long nothing may be recorded until the rate is down to the limit; 0 if it is not above."""
        self._drop_old(now_ms)
        window_ms = self._elapsed_ms(now_ms)
        rate = sum(sample.amount for sample in self._samples) / (window_ms / 1000)
        if rate <= limit:
            return 0
        return min(math.floor((rate - limit) / limit * window_ms + 0.5), longest_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Whether no value counts any more, so that the rate may be forgotten."""
        return not self._samples or now_ms - self._samples[self._current].last_ms >= self._span_ms

    @property
    def _span_ms(self) -> int:
        return self._samples_kept * self._window_ms

    def _advance(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._samples_kept + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def _drop_old(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._span_ms
        for sample in self._samples:
            if sample.last_ms <= oldest_ms:
                sample.reset(now_ms)

    def _elapsed_ms(self, now_ms: int) -> int:
        start_ms = min((sample.start_ms for sample in self._samples), default=now_ms)
        elapsed_ms = now_ms - start_ms
        missing = self._samples_kept - 1 - elapsed_ms // self._window_ms
        return max(elapsed_ms + max(missing, 0) * self._window_ms, 1)


class _Sample:
    """The sum of a window's values."""

    __slots__ = ("amount", "last_ms", "start_ms")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = now_ms
        self.last_ms = now_ms
        self.amount = 0.0

    def reset(self, now_ms: int) -> None:
        self.start_ms = now_ms
        self.last_ms = now_ms
        self.amount = 0.0
