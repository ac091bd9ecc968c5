"""Judges one reading of a lag by bounds that the user sets: there is no window of commits to look at."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.lag.core.standing import Position, Standing
from ottla.lag.core.verdicts import Status


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Lags above these are WARN or ERR. None: no such bound."""

    warn_lag: int | None = None
    error_lag: int | None = None
    warn_ms: int | None = None
    error_ms: int | None = None

    @property
    def are_given(self) -> bool:
        """Whether there is any."""
        return any(one is not None for one in (self.warn_lag, self.error_lag, self.warn_ms, self.error_ms))

    def status(self, where: Standing, lag_ms: int | None) -> Status:
        """The verdict on a group in a partition: ERR, WARN or OK.

        Records that were removed before the group read them are lost, and an offset beyond the log's end says
        that the log was cut: WARN at least.
        """
        if _above(where.lag, self.error_lag) or _above(lag_ms, self.error_ms):
            return Status.ERR
        if _above(where.lag, self.warn_lag) or _above(lag_ms, self.warn_ms):
            return Status.WARN
        lost = where.position in (Position.REMOVED, Position.BEYOND_END)
        return Status.WARN if lost else Status.OK


def _above(value: int | None, bound: int | None) -> bool:
    return value is not None and bound is not None and value > bound
