"""The bounds by which one reading is judged."""

from __future__ import annotations

import pytest

from ottla.lag.core.standing import Position, Standing
from ottla.lag.core.thresholds import Thresholds
from ottla.lag.core.verdicts import Status

BEHIND = Standing(Position.BEHIND, 10)


@pytest.mark.parametrize(
    ("thresholds", "where", "lag_ms", "expected"),
    [
        (Thresholds(), BEHIND, 10**9, Status.OK),
        (Thresholds(warn_lag=10), BEHIND, None, Status.OK),
        (Thresholds(warn_lag=9), BEHIND, None, Status.WARN),
        (Thresholds(warn_lag=1, error_lag=9), BEHIND, None, Status.ERR),
        (Thresholds(warn_ms=4_999), BEHIND, 5_000, Status.WARN),
        (Thresholds(error_ms=4_999), BEHIND, 5_000, Status.ERR),
        (Thresholds(error_ms=5_000), BEHIND, 5_000, Status.OK),
        (Thresholds(warn_ms=1), BEHIND, None, Status.OK),
        (Thresholds(), Standing(Position.REMOVED, 0, 5), 0, Status.WARN),
        (Thresholds(), Standing(Position.BEYOND_END, 0), 0, Status.WARN),
        (Thresholds(warn_lag=0), Standing(Position.NOT_COMMITTED, None), None, Status.OK),
    ],
)
def test_a_lag_above_a_bound_and_lost_records_are_told(
    thresholds: Thresholds, where: Standing, lag_ms: int | None, expected: Status
) -> None:
    assert thresholds.status(where, lag_ms) is expected
    assert thresholds.are_given == (thresholds != Thresholds())
