"""Burrow's rules. The windows are those of the cases by which Burrow shows that its evaluator is right."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.lag.core.verdicts import (
    Status,
    first_rewind,
    group_status,
    had_caught_up,
    has_stopped,
    never_shrinks,
    partition_status,
    stands_still,
)
from ottla.lag.core.windows import Commit

Lags = Sequence[int | None]


def window(offsets: Sequence[int], lags: Lags, step_ms: int = 100_000) -> list[Commit]:
    """Commits that are `step_ms` apart, the first at `step_ms`."""
    return [
        Commit(offset, order, order * step_ms, order * step_ms, lag)
        for order, (offset, lag) in enumerate(zip(offsets, lags, strict=True), start=1)
    ]


MOVING = (1_000, 2_000, 3_000, 4_000, 5_000)
STANDING = (1_000,) * 5
BACK_AND_ON = (1_000, 2_000, 3_000, 2_000, 4_000)
BACK = (1_000, 2_000, 3_000, 2_000, 2_500)
EARLY_ZERO = (0, 50, 100, 150, 200)
GROWING = (50, 100, 150, 200, 250)
SECOND_APART = window(tuple(range(792_748_079, 792_748_094)), (0,) * 15, 1_000)


@pytest.mark.parametrize(
    ("commits", "ends", "lag", "now_ms", "allowed", "expected"),
    [
        pytest.param(window(MOVING, EARLY_ZERO), [5_200], 200, 600_000, 0, Status.OK, id="had-no-lag-once"),
        pytest.param(window(MOVING, EARLY_ZERO), [5_200], 200, 900_000, 0, Status.OK, id="as-long-as-window"),
        pytest.param(window(MOVING, EARLY_ZERO), [5_200], 200, 1_000_000, 0, Status.STOP, id="longer"),
        pytest.param(window(MOVING, GROWING), [5_250], 250, 1_000_000, 0, Status.STOP, id="stopped-behind"),
        pytest.param(window(STANDING, EARLY_ZERO), [1_200], 200, 600_000, 0, Status.OK, id="stands-had-none"),
        pytest.param(
            window(STANDING, (100, 150, 200, 250, 300)), [1_300], 300, 600_000, 0, Status.STALL, id="stands"
        ),
        pytest.param(window(STANDING, (100,) * 5), [1_100], 100, 600_000, 0, Status.STALL, id="same-lag"),
        pytest.param(
            window(BACK_AND_ON, (100, 150, 200, 1_250, 300)),
            [4_300],
            300,
            600_000,
            0,
            Status.OK,
            id="back",
        ),
        pytest.param(window(MOVING, GROWING), [5_250], 0, 1_000_000, 0, Status.OK, id="no-lag-now"),
        pytest.param(
            SECOND_APART,
            [792_749_024, 792_749_000, 792_748_800, 792_748_600, 792_748_500],
            931,
            30_000,
            0,
            Status.STOP,
            id="new-records-and-no-commit",
        ),
        pytest.param(
            SECOND_APART,
            [792_748_094, 792_748_093, 792_748_093, 792_748_093],
            1,
            30_000,
            0,
            Status.OK,
            id="had-caught-up-a-moment-ago",
        ),
        pytest.param(
            window(
                tuple(range(1_000, 6_000, 500)), (0, None, 50, None, 100, None, 150, None, 200, None), 50_000
            ),
            [5_700],
            200,
            600_000,
            0,
            Status.OK,
            id="lags-that-are-not-known",
        ),
        pytest.param(
            window((1_000, 2_000, 2_000), (2, 1, 1)), [2_001], 1, 550_000, 1, Status.OK, id="allowed-lag"
        ),
        pytest.param(
            window(STANDING, (100, 150, 200, 250, 300)),
            [1_300],
            300,
            600_000,
            99,
            Status.STALL,
            id="over",
        ),
        pytest.param(
            window(BACK, (100, 150, 200, 1_250, 300)), [4_300], 300, 600_000, 0, Status.REWIND, id="went-back"
        ),
        pytest.param(window(MOVING, GROWING), [5_250], 250, 600_000, 0, Status.WARN, id="falls-behind"),
        pytest.param(
            window(MOVING, (300, 250, 260, 270, 280)), [5_280], 280, 600_000, 0, Status.OK, id="shrank-once"
        ),
    ],
)
def test_the_first_rule_that_fits_decides(
    commits: list[Commit], ends: list[int], lag: int, now_ms: int, allowed: int, expected: Status
) -> None:
    assert partition_status(commits, ends, lag, now_ms, allowed) is expected


def test_each_rule_alone() -> None:
    assert not has_stopped(window(MOVING, EARLY_ZERO), 900_000)
    assert has_stopped(window(MOVING, EARLY_ZERO), 900_001)
    assert has_stopped(window((7,), (1,)), 100_001) and not has_stopped(window((7,), (1,)), 100_000)
    assert had_caught_up(SECOND_APART, [792_748_093]) and not had_caught_up(SECOND_APART, [792_748_094])
    assert not had_caught_up(SECOND_APART, [])
    assert (first_rewind(window(BACK, GROWING)), first_rewind(window(STANDING, GROWING))) == (3, None)
    assert stands_still(window((7,), (1,))) and not stands_still(window(BACK, GROWING))
    assert never_shrinks(window((1, 2, 3), (None, None, None)))
    assert never_shrinks(window((1, 2, 3), (5, None, 5)))
    assert not never_shrinks(window((1, 2, 3), (5, None, 4)))


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ([], Status.OK),
        ([Status.OK, Status.OK], Status.OK),
        ([Status.OK, Status.WARN], Status.WARN),
        ([Status.WARN, Status.STOP], Status.ERR),
        ([Status.STALL], Status.ERR),
        ([Status.REWIND, Status.OK], Status.ERR),
    ],
)
def test_a_group_is_as_bad_as_its_worst_partition_and_err_at_most(
    partitions: list[Status], expected: Status
) -> None:
    assert group_status(partitions) is expected
