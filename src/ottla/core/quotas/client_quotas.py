"""What clients have used of a quota, and how long each is to be throttled.

Counts exist for clients that have a limit only, and a bounded number of them (counts.py).
"""

from __future__ import annotations

from ottla.core.quotas.counts import Counts
from ottla.core.quotas.entities import NO_LIMITS, ClientLimits, CountKey
from ottla.core.quotas.sampled_rate import MAX_THROTTLE_MS, SampledRate
from ottla.core.quotas.token_bucket import TokenBucket


class RateQuotas:
    """Amounts a second: bytes that clients produce or fetch, the broker's time that their requests take."""

    def __init__(self, samples: int, window_ms: int, longest_throttle_ms: int = MAX_THROTTLE_MS) -> None:
        self._span_seconds = (samples - 1) * window_ms / 1000
        self._longest_throttle_ms = longest_throttle_ms
        self._limits = NO_LIMITS
        self._counts: Counts[CountKey, SampledRate] = Counts(
            lambda: SampledRate(samples, window_ms), lambda rate, _, now_ms: rate.is_idle(now_ms)
        )
        self.enabled = False
        """Whether any client has a limit: the one question that a request costs where no quota is set."""

    def __len__(self) -> int:
        return len(self._counts)

    def set_limits(self, limits: ClientLimits) -> None:
        """Take over the limits of the metadata. What clients have used so far still counts."""
        if limits != self._limits:
            self._limits = limits
            self.enabled = bool(limits)
            self._counts.limits_changed(limits.limit_of)

    def record(self, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """Count an amount. Returns how many milliseconds the client is to be throttled for."""
        found = self._limits.find(user, client_id)
        if found is None:
            return 0
        count = self._counts.use(found.key, found.limit, now_ms)
        count.record(amount, now_ms)
        return count.throttle_ms(found.limit, now_ms, self._longest_throttle_ms)

    def take_back(self, user: str, client_id: str, amount: float, now_ms: int) -> None:
        """Count an amount no more: the client did not get it."""
        found = self._limits.find(user, client_id)
        if found is not None:
            self._counts.use(found.key, found.limit, now_ms).record(-amount, now_ms)

    def most_at_once(self, user: str, client_id: str) -> float | None:
        """The largest amount that may pass without throttling, if nothing else does; None for any amount."""
        found = self._limits.find(user, client_id)
        return None if found is None else found.limit * self._span_seconds


class MutationQuotas:
    """Changes of the metadata: partitions that clients create and delete a second (KIP-599)."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self._limits = NO_LIMITS
        self._counts: Counts[CountKey, TokenBucket] = Counts(
            lambda: TokenBucket(samples, window_ms), TokenBucket.is_full
        )
        self.enabled = False
        """Whether any client has a limit."""

    def __len__(self) -> int:
        return len(self._counts)

    def set_limits(self, limits: ClientLimits) -> None:
        """Take over the limits of the metadata. What clients have used so far still counts."""
        if limits != self._limits:
            self._limits = limits
            self.enabled = bool(limits)
            self._counts.limits_changed(limits.limit_of)

    def admit(self, user: str, client_id: str, mutations: float, now_ms: int) -> int:
        """Count changes unless earlier ones have exhausted the quota. Returns for how long it is, or 0."""
        found = self._limits.find(user, client_id)
        if found is None:
            return 0
        count = self._counts.use(found.key, found.limit, now_ms)
        throttle_ms = count.throttle_ms(found.limit, now_ms)
        if not throttle_ms:
            count.take(mutations, found.limit, now_ms)
        return throttle_ms

    def record(self, user: str, client_id: str, mutations: float, now_ms: int) -> int:
        """Count changes that are made in any case. Returns how long the client is to be throttled for."""
        found = self._limits.find(user, client_id)
        if found is None:
            return 0
        count = self._counts.use(found.key, found.limit, now_ms)
        count.take(mutations, found.limit, now_ms)
        return count.throttle_ms(found.limit, now_ms)
