"""Places in a topic in words, and what they mean in a partition."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.records.places import (
    END,
    START,
    Anchor,
    Bounds,
    Place,
    Range,
    begin_offset,
    parse_place,
    parse_range,
    parse_time,
    stop_offset,
)
from ottla.config.errors import UsageError

NOW = 1_772_366_400_000
HOUR = 3_600_000


def at(time_ms: int) -> Place:
    return Place(Anchor.TIME, time_ms=time_ms)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("start", START),
        ("beginning", START),
        ("END", END),
        ("latest", END),
        ("17", Place(Anchor.ZERO, 17)),
        ("+3", Place(Anchor.START, 3)),
        ("-10", Place(Anchor.END, -10)),
        ("@1772366400001", at(NOW + 1)),
        ("@1772366400", at(NOW)),
        ("s@5", at(5)),
        ("@-1h", at(NOW - HOUR)),
        ("@-1d12h30m", at(NOW - 36 * HOUR - HOUR // 2)),
        ("@1.5h", at(NOW + HOUR * 3 // 2)),
        ("@2026-03-01T12:00Z", at(NOW)),
        ("@2026-03-01T13:00:00.250+01:00", at(NOW + 250)),
        ("@2026-03-01", at(NOW - 12 * HOUR)),
        ("@now", at(NOW)),
    ],
)
def test_places_in_words(text: str, place: Place) -> None:
    assert parse_place(text, NOW) == place


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("start:end", Range(START, END)),
        (":end", Range(START, END)),
        ("3:17", Range(Place(Anchor.ZERO, 3), Place(Anchor.ZERO, 17))),
        (":17", Range(START, Place(Anchor.ZERO, 17))),
        ("3:", Range(Place(Anchor.ZERO, 3), None)),
        ("-5", Range(Place(Anchor.END, -5), None)),
        ("@-2h:-1h", Range(at(NOW - 2 * HOUR), at(NOW - HOUR))),
        ("@-2h:@-1h", Range(at(NOW - 2 * HOUR), at(NOW - HOUR))),
        ("@2026-03-01T12:00:00Z:2026-03-01T13:00:00Z", Range(at(NOW), at(NOW + HOUR))),
        ("@2026-03-01:end", Range(at(NOW - 12 * HOUR), END)),
        ("@:2026-03-01T12:00Z", Range(START, at(NOW))),
        ("@-1h:", Range(at(NOW - HOUR), None)),
        ("e@9", Range(START, at(9))),
        ("17:@-1h", Range(Place(Anchor.ZERO, 17), at(NOW - HOUR))),
    ],
)
def test_ranges_in_words(text: str, found: Range) -> None:
    assert parse_range(text, NOW) == found


@pytest.mark.parametrize(
    "text", ["", "x", "--1", "1.5", "@", "@yesterday", "99999999999999999999", "@99999999999w"]
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_place(text, NOW)


@given(st.text(max_size=25) | st.text(alphabet="@:-+0123456789smhdwTZstarend.", max_size=25))
def test_any_words_are_a_range_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse_range(text, NOW)
    with contextlib.suppress(UsageError):
        parse_time(text, NOW)


def test_places_in_a_partition() -> None:
    bounds = Bounds(start=10, end=100, at_time={5: 40, 9: None}, committed=60)
    begins = {
        START: 10, END: 100, Place(Anchor.START, 3): 13, Place(Anchor.END, -7): 93,
        Place(Anchor.END, -500): 10,
        Place(Anchor.START, 500): 100, Place(Anchor.ZERO, 50): 50, Place(Anchor.ZERO, 3): 10,
        Place(Anchor.ZERO, 500): 500, at(5): 40, at(9): 100, Place(Anchor.COMMITTED): 60,
    }  # fmt: skip
    for place, offset in begins.items():
        assert begin_offset(place, bounds) == offset, place
    assert stop_offset(Place(Anchor.ZERO, 500), bounds) == 500
    assert stop_offset(at(5), bounds) == 40
    assert stop_offset(at(9), bounds) == 100
