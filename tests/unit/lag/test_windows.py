"""The windows of commits and ends, by the rules of Burrow's storage."""

from __future__ import annotations

from ottla.lag.core.windows import CommitWindow, EndWindow


def kept(window: CommitWindow) -> list[tuple[int, int, int | None]]:
    return [(one.order, one.offset, one.lag) for one in window.commits]


def add(
    window: CommitWindow, order: int, offset: int, *, at_ms: int | None = None, distance_ms: int = 0
) -> bool:
    when = order * 1_000 if at_ms is None else at_ms
    return window.add(offset, order, when, when, 100, distance_ms)


def test_the_oldest_commit_goes_when_the_window_is_full() -> None:
    window = CommitWindow(3)
    assert [add(window, order, order * 10) for order in (1, 2)] == [True, True]
    assert window.complete == 2 / 3
    assert [add(window, order, order * 10) for order in (3, 4)] == [True, True]
    assert kept(window) == [(2, 20, 80), (3, 30, 70), (4, 40, 60)]
    assert window.complete == 1


def test_a_commit_beyond_the_known_end_has_no_lag() -> None:
    window = CommitWindow(3)
    add(window, 1, 130)
    assert kept(window) == [(1, 130, 0)]


def test_a_commit_that_comes_late_takes_its_place_and_its_lag_is_not_known() -> None:
    window = CommitWindow(4)
    add(window, 10, 50)
    add(window, 30, 70)
    assert not add(window, 20, 60)
    assert not add(window, 5, 40)
    assert kept(window) == [(5, 40, None), (10, 50, 50), (20, 60, None), (30, 70, 30)]
    assert not add(window, 20, 99), "it is there already"
    assert not add(window, 4, 1), "older than all of a full window"
    assert not add(window, 6, 41), "it takes the place of the oldest"
    assert kept(window) == [(6, 41, None), (10, 50, 50), (20, 60, None), (30, 70, 30)]


def test_commits_close_together_are_one_with_the_time_of_the_first() -> None:
    window = CommitWindow(3)
    add(window, 1, 10, at_ms=1_000, distance_ms=500)
    add(window, 2, 20, at_ms=1_400, distance_ms=500)
    add(window, 3, 30, at_ms=1_499, distance_ms=500)
    assert [(one.offset, one.timestamp_ms, one.lag) for one in window.commits] == [(30, 1_000, 70)]
    add(window, 4, 40, at_ms=1_500, distance_ms=500)
    assert [(one.offset, one.timestamp_ms) for one in window.commits] == [(30, 1_000), (40, 1_500)]


def test_ends_are_kept_as_they_come() -> None:
    assert EndWindow(3).newest is None
    window = EndWindow(3)
    for end in (1, 5, 5, 3):
        window.add(end)
    assert (window.ends, window.newest) == ([5, 5, 3], 3)
