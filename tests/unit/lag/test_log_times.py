"""When records were written, by the ends of a log."""

from __future__ import annotations

from ottla.lag.core.log_times import MAX_SPANS, Bracket, LogTimes, written_ms


def times(*seen: tuple[int, int]) -> LogTimes:
    found = LogTimes()
    for end, now_ms in seen:
        found.seen(end, now_ms, now_ms)
    return found


def test_a_record_was_written_between_the_ends_around_it() -> None:
    log = times((100, 1_000), (110, 2_000))
    assert log.written(99) == Bracket(None, 1_000, None)
    assert log.written(100) == Bracket(1_000, 2_000, 1_100)
    assert log.written(109) == Bracket(1_000, 2_000, 2_000)
    assert log.written(110) is None


def test_a_log_that_rests_moves_the_bracket_on() -> None:
    log = times((100, 1_000), (100, 9_000), (101, 10_000))
    assert log.written(100) == Bracket(9_000, 10_000, 10_000)


def test_a_log_that_was_made_anew_forgets_the_former() -> None:
    log = times((100, 1_000), (200, 2_000), (5, 3_000), (9, 4_000))
    assert log.written(7) == Bracket(3_000, 4_000, 3_750)
    assert log.written(150) is None


def test_a_clock_that_was_set_back_makes_no_negative_bracket() -> None:
    log = times((1, 5_000), (2, 1_000), (3, 2_000))
    assert log.written(1) == Bracket(5_000, 5_000, 5_000)
    assert log.written(2) == Bracket(5_000, 5_000, 5_000)


def test_the_ends_are_bounded_and_the_newest_are_the_finest() -> None:
    log = times(*((end, end * 10) for end in range(10 * MAX_SPANS)))
    assert len(log) <= MAX_SPANS
    last_ms = (10 * MAX_SPANS - 1) * 10
    assert log.written(10 * MAX_SPANS - 2) == Bracket(last_ms - 10, last_ms, last_ms)
    old = log.written(5)
    assert old is not None and old.after_ms is not None and old.after_ms <= 60 <= old.before_ms
    log.forget_below(10 * MAX_SPANS - 2)
    assert len(log) == 2


def test_a_records_own_time_counts_within_the_bracket_only() -> None:
    bracket = Bracket(1_000, 2_000, 1_500)
    assert written_ms(bracket, 1_700) == 1_700
    assert written_ms(bracket, 500) == 1_500, "a replay writes old timestamps"
    assert written_ms(bracket, 3_000) == 1_500
    assert written_ms(bracket, None) == 1_500
    assert written_ms(Bracket(None, 2_000, None), 500) == 500
    assert written_ms(Bracket(None, 2_000, None), 3_000) == 2_000
    assert written_ms(Bracket(None, 2_000, None), None) is None
    assert written_ms(None, 700) == 700
    assert written_ms(None, None) is None


def test_the_time_that_an_answer_takes_widens_the_bracket() -> None:
    log = LogTimes()
    log.seen(100, 1_000, 1_400)
    log.seen(110, 2_000, 2_300)
    assert log.written(109) == Bracket(1_000, 2_300, 2_300)
