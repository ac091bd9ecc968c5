"""A token bucket, by which Apache Kafka limits changes of the metadata (KIP-599).

The limit is the tokens that come back a second; the bucket holds those of all windows together. A change
takes its tokens even when there are fewer: one large change is possible, and the next when its debt is paid.
"""

from __future__ import annotations

import math

from ottla.core.quotas.sampled_rate import MAX_THROTTLE_MS


class TokenBucket:
    """Tokens that a client has left. Full at first. Times never go back."""

    __slots__ = ("_span_seconds", "_tokens", "_updated_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._span_seconds = samples * window_ms / 1000
        self._tokens = math.inf
        self._updated_ms = 0

    def take(self, tokens: float, limit: float, now_ms: int) -> None:
        """Take tokens, also those that are not there."""
        self._refill(limit, now_ms)
        self._tokens -= tokens

    def throttle_ms(self, limit: float, now_ms: int, longest_ms: int = MAX_THROTTLE_MS) -> int:
        """How long it takes until the debt is paid; 0 if there is none."""
        self._refill(limit, now_ms)
        if self._tokens >= 0:
            return 0
        return min(math.floor(-self._tokens / limit * 1000 + 0.5), longest_ms)

    def is_full(self, limit: float, now_ms: int) -> bool:
        """Whether no token is missing, so that the bucket may be forgotten."""
        self._refill(limit, now_ms)
        return self._tokens >= limit * self._span_seconds

    def _refill(self, limit: float, now_ms: int) -> None:
        come_back = limit * ((now_ms - self._updated_ms) / 1000)
        self._tokens = min(limit * self._span_seconds, self._tokens + come_back)
        self._updated_ms = now_ms
