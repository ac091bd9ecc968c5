"""Bytes that may be fetched: so many a second, an answer at once. Times come from the caller, in seconds."""

from __future__ import annotations


class Budget:
    """What was fetched is paid for before more is. bytes_per_second: 0 for no limit."""

    def __init__(self, bytes_per_second: int) -> None:
        self._rate = bytes_per_second
        self._paid_at: float | None = None

    def most_bytes(self, wanted: int) -> int:
        """The bytes to ask for at once: those of a quarter second at most. One batch comes in any case."""
        return min(wanted, max(self._rate // 4, 1)) if self._rate else wanted

    def spend(self, size_bytes: int, now: float) -> None:
        """So many bytes were fetched."""
        if self._rate:
            begin = now if self._paid_at is None else max(self._paid_at, now)
            self._paid_at = begin + size_bytes / self._rate

    def wait_seconds(self, now: float) -> float:
        """How long to wait before the next fetch; 0 if everything is paid for."""
        return 0.0 if self._paid_at is None else max(self._paid_at - now, 0.0)
