"""Where a group stands in a partition."""

from __future__ import annotations

import pytest

from ottla.client.first_records import FirstRecord, Found, NoRecord
from ottla.lag.core.standing import LogSpan, Position, Standing, lag_ms, standing

RECORD = FirstRecord(9, 1_000)


@pytest.mark.parametrize(
    ("offset", "log", "first", "told", "expected"),
    [
        (None, LogSpan(10), None, None, Standing(Position.NOT_COMMITTED, None)),
        (4, None, None, None, Standing(Position.UNKNOWN, None)),
        (4, LogSpan(10, 0), RECORD, None, Standing(Position.BEHIND, 6)),
        (10, LogSpan(10, 0), None, None, Standing(Position.CAUGHT_UP, 0)),
        # committed after the end was read
        (12, LogSpan(10), None, None, Standing(Position.CAUGHT_UP, 0)),
        (12, LogSpan(10, later_end=15), None, None, Standing(Position.CAUGHT_UP, 0)),
        (12, LogSpan(10, later_end=11), None, None, Standing(Position.BEYOND_END, 0)),
        # only markers or holes are left
        (9, LogSpan(10, 0), NoRecord(), None, Standing(Position.CAUGHT_UP, 0)),
        (9, LogSpan(10, 0), FirstRecord(10, 1_000), None, Standing(Position.CAUGHT_UP, 0)),
        # retention has removed 5 records that were not read
        (3, LogSpan(10, 8), RECORD, None, Standing(Position.REMOVED, 2, 5)),
        (3, LogSpan(10, 8), NoRecord(), None, Standing(Position.REMOVED, 0, 5)),
        # retention went beyond the end that was read before
        (3, LogSpan(10, 14), RECORD, None, Standing(Position.REMOVED, 0, 11)),
        # a share group's coordinator knows better
        (3, LogSpan(10, 0), RECORD, 2, Standing(Position.BEHIND, 2)),
        (3, LogSpan(10, 0), RECORD, 0, Standing(Position.CAUGHT_UP, 0)),
    ],
)
def test_where_a_group_stands(
    offset: int | None,
    log: LogSpan | None,
    first: Found,
    told: int | None,
    expected: Standing,
) -> None:
    assert standing(offset, log, first, told) == expected


def test_the_time_is_that_of_the_next_record_and_never_negative() -> None:
    behind = Standing(Position.BEHIND, 3)
    assert lag_ms(behind, 1_000, 4_500) == 3_500
    assert lag_ms(behind, 5_000, 4_500) == 0
    assert lag_ms(behind, None, 4_500) is None
    assert lag_ms(Standing(Position.CAUGHT_UP, 0), 1_000, 4_500) == 0
    assert lag_ms(Standing(Position.UNKNOWN, None), 1_000, 4_500) is None
