"""New connections a second from one address (KIP-612): those beyond the rate are to be refused."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.core.quotas.counts import Counts
from ottla.core.quotas.sampled_rate import SampledRate


class AddressRates:
    """The rates of addresses, and how many connections each has made."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self._window_ms = window_ms
        self._limits: Mapping[str, float] = {}
        self._default: float | None = None
        self._counts: Counts[str, SampledRate] = Counts(
            lambda: SampledRate(samples, window_ms), lambda rate, _, now_ms: rate.is_idle(now_ms)
        )

    def __len__(self) -> int:
        return len(self._counts)

    def set_limits(self, limits: Mapping[str, float], default: float | None) -> None:
        """Take over the rates of addresses, and that of all others (None: any)."""
        self._limits, self._default = dict(limits), default
        self._counts.limits_changed(self._limit_of)

    def count(self, address: str, now_ms: int) -> int:
        """Count a new connection. Returns 0, or by how many milliseconds it is too early, a window at most.

        One that is too early is not counted.
        """
        limit = self._limit_of(address)
        if limit is None:
            return 0
        rate = self._counts.use(address, limit, now_ms)
        rate.record(1, now_ms)
        throttle_ms = rate.throttle_ms(limit, now_ms, self._window_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
        return throttle_ms

    def _limit_of(self, address: str) -> float | None:
        return self._limits.get(address, self._default)
