"""The throttle of replication: bytes a second over a window of samples, measured as Kafka's quotas.

Only replicas that a topic names as throttled count, and only those out of sync are held back: copying a new
replica must not disturb the others, and a replica must not fall out of sync because of the throttle. While
the rate is over the bound, no throttled partition is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

NO_LIMIT: Final = 2**63 - 1
ALL: Final = "*"


class RateWindow:
    """Bytes a second over the last `samples` windows of `window_ms` each, by a steady clock."""

    __slots__ = ("_samples", "_taken", "_window_ms", "bytes_per_second")

    def __init__(self, bytes_per_second: int = NO_LIMIT, *, samples: int = 11, window_ms: int = 1000) -> None:
        self.bytes_per_second = bytes_per_second
        self._samples = samples
        self._window_ms = window_ms
        self._taken: deque[tuple[int, int]] = deque()  # (number of the window, bytes)

    @property
    def is_limited(self) -> bool:
        return self.bytes_per_second < NO_LIMIT

    def record(self, count: int, now_ms: int) -> None:
        """Count copied bytes."""
        window = now_ms // self._window_ms
        if self._taken and self._taken[-1][0] == window:
            count += self._taken.pop()[1]
        self._taken.append((window, count))
        self._drop_old(window)

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether throttled replicas have to wait."""
        if not self.is_limited:
            return False
        window = now_ms // self._window_ms
        self._drop_old(window)
        if not self._taken:
            return False
        # The time since the oldest window began, but at least all windows but one, as Kafka measures it.
        elapsed_ms = max(
            now_ms - self._taken[0][0] * self._window_ms, max(1, self._samples - 1) * self._window_ms
        )
        return sum(count for _, count in self._taken) * 1000 > self.bytes_per_second * elapsed_ms

    def _drop_old(self, window: int) -> None:
        while self._taken and self._taken[0][0] <= window - self._samples:
            self._taken.popleft()


def throttled_partitions(setting: Sequence[str], node_id: int) -> frozenset[int] | None:
    """The partitions that *.replication.throttled.replicas of a topic names for a node; None means all.

    The setting holds "*", or "partition:node" entries.
    """
    found = set()
    for entry in setting:
        if entry.strip() == ALL:
            return None
        partition, _, node = entry.strip().partition(":")
        if node == str(node_id):
            found.add(int(partition))
    return frozenset(found)
