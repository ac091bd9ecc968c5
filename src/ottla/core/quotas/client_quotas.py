"""What clients have used of a quota, and how long each is to be throttled.

Counts exist for clients that have a limit, and only while they matter: one that is as good as new goes when
others come, and of more than MAX_COUNTS the least recently used goes. So clients that draw a new client id
each time grow nothing without bound.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ottla.core.quotas.entities import NO_LIMITS, ClientLimit, ClientLimits, CountKey
from ottla.core.quotas.sampled_rate import MAX_THROTTLE_MS, SampledRate
from ottla.core.quotas.token_bucket import TokenBucket

MAX_COUNTS: Final = 10_000
"""The most counts of one kind of quota: 5 MB for clients that come once, 25 MB at the most."""
LOOKED_AT: Final = 2
"""How many of the least recently used counts are looked at for each new one, so that they can't pile up."""

C = TypeVar("C")


class _Counts(Generic[C]):
    """The counts of clients, least recently used first."""

    __slots__ = ("_counts", "_fresh", "_is_spent")

    def __init__(self, fresh: Callable[[], C], is_spent: Callable[[C, float, int], bool]) -> None:
        self._fresh = fresh
        self._is_spent = is_spent
        self._counts: OrderedDict[CountKey, tuple[C, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def use(self, found: ClientLimit, now_ms: int) -> C:
        """The count of these clients, a new one if there is none."""
        known = self._counts.get(found.key)
        if known is None:
            self._make_room(now_ms)
            count = self._fresh()
            self._counts[found.key] = (count, found.limit)
            return count
        self._counts.move_to_end(found.key)
        return known[0]

    def limits_changed(self, limits: ClientLimits) -> None:
        """Forget the counts that no limit holds for any more."""
        for key, (count, _) in list(self._counts.items()):
            found = limits.find(key.user or "", key.client_id or "")
            if found is None or found.key != key:
                del self._counts[key]
            else:
                self._counts[key] = (count, found.limit)

    def _make_room(self, now_ms: int) -> None:
        for _ in range(min(LOOKED_AT, len(self._counts))):
            key = next(iter(self._counts))
            count, limit = self._counts[key]
            if not self._is_spent(count, limit, now_ms) and len(self._counts) < MAX_COUNTS:
                return
            del self._counts[key]


class RateQuotas:
    """Amounts a second: bytes that clients produce or fetch, the broker's time that their requests take."""

    def __init__(self, samples: int, window_ms: int, longest_throttle_ms: int = MAX_THROTTLE_MS) -> None:
        self._span_seconds = (samples - 1) * window_ms / 1000
        self._longest_throttle_ms = longest_throttle_ms
        self._limits = NO_LIMITS
        self._counts = _Counts(lambda: SampledRate(samples, window_ms), _is_idle)
        self.enabled = False
        """Whether any client has a limit: the one question that a request costs where no quota is set."""

    def __len__(self) -> int:
        return len(self._counts)

    def set_limits(self, limits: ClientLimits) -> None:
        """Take over the limits of the metadata. What clients have used so far still counts."""
        if limits != self._limits:
            self._limits = limits
            self.enabled = bool(limits)
            self._counts.limits_changed(limits)

    def record(self, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """Count an amount. Returns how many milliseconds the client is to be throttled for."""
        found = self._limits.find(user, client_id)
        if found is None:
            return 0
        count = self._counts.use(found, now_ms)
        count.record(amount, now_ms)
        return count.throttle_ms(found.limit, now_ms, self._longest_throttle_ms)

    def take_back(self, user: str, client_id: str, amount: float, now_ms: int) -> None:
        """Count an amount no more: the client did not get it."""
        found = self._limits.find(user, client_id)
        if found is not None:
            self._counts.use(found, now_ms).record(-amount, now_ms)

    def most_at_once(self, user: str, client_id: str) -> float | None:
        """The largest amount that may pass without throttling, if nothing else does; None for any amount."""
        found = self._limits.find(user, client_id)
        return None if found is None else found.limit * self._span_seconds


class MutationQuotas:
    """Changes of the metadata: partitions that clients create and delete a second (KIP-599)."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self._limits = NO_LIMITS
        self._counts = _Counts(lambda: TokenBucket(samples, window_ms), TokenBucket.is_full)
        self.enabled = False
        """Whether any client has a limit."""

    def __len__(self) -> int:
        return len(self._counts)

    def set_limits(self, limits: ClientLimits) -> None:
        """Take over the limits of the metadata. What clients have used so far still counts."""
        if limits != self._limits:
            self._limits = limits
            self.enabled = bool(limits)
            self._counts.limits_changed(limits)

    def admit(self, user: str, client_id: str, mutations: float, now_ms: int) -> int:
        """Count changes unless earlier ones have exhausted the quota. Returns for how long it is, or 0."""
        found = self._limits.find(user, client_id)
        if found is None:
            return 0
        count = self._counts.use(found, now_ms)
        throttle_ms = count.throttle_ms(found.limit, now_ms)
        if not throttle_ms:
            count.take(mutations, found.limit, now_ms)
        return throttle_ms

    def record(self, user: str, client_id: str, mutations: float, now_ms: int) -> int:
        """Count changes that are made in any case. Returns how long the client is to be throttled for."""
        found = self._limits.find(user, client_id)
        if found is None:
            return 0
        count = self._counts.use(found, now_ms)
        count.take(mutations, found.limit, now_ms)
        return count.throttle_ms(found.limit, now_ms)


def _is_idle(count: SampledRate, _limit: float, now_ms: int) -> bool:
    return count.is_idle(now_ms)
