"""Words of `ottla group` are understood or refused as usage, whatever they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.cluster.group_rows import spans
from ottla.cli.cluster.group_words import chosen_partitions, reset_of, shown_lag, topic_choice
from ottla.client.cluster_requests import TopicPartition
from ottla.client.groups.reset_plan import Reset, ResetKind
from ottla.config.errors import UsageError

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1_000)
WORDS = st.text(max_size=30) | st.text("0123456789@-:.TPDHMSPWZ+e,", max_size=30)


@given(WORDS)
def test_a_place_is_a_reset_or_a_usage_error(word: str) -> None:
    try:
        reset = reset_of(word, None, None, NOW)
    except UsageError as problem:
        assert f"--to {word}" in str(problem)
    else:
        assert reset is not None and 0 <= reset.value < 2**63


@given(WORDS)
def test_a_duration_is_a_time_or_a_usage_error(word: str) -> None:
    try:
        reset = reset_of(None, None, word, NOW) if word else None
    except UsageError as problem:
        assert f"--by-duration {word}" in str(problem)
    else:
        assert reset is None or (reset.kind is ResetKind.TIME and 0 <= reset.value <= NOW_MS)


@given(WORDS)
def test_a_topic_word_is_a_choice_or_a_usage_error(word: str) -> None:
    try:
        choice = topic_choice([word])
    except UsageError as problem:
        assert f"--topic {word}" in str(problem)
    else:
        (topic,) = choice
        assert word.startswith(topic)


@given(st.lists(st.integers(0, 200), min_size=1, unique=True))
def test_partitions_that_are_shown_are_read_again(partitions: list[int]) -> None:
    choice = topic_choice([f"t:{spans(partitions)}"])
    assert chosen_partitions(choice, {"t": 201}) == [TopicPartition("t", n) for n in sorted(partitions)]


@pytest.mark.parametrize(
    ("to", "shift_by", "ago", "expected"),
    [
        ("earliest", None, None, Reset(ResetKind.EARLIEST)),
        ("17", None, None, Reset(ResetKind.OFFSET, 17)),
        ("@2026-01-31T11:00", None, None, Reset(ResetKind.TIME, NOW_MS - 3_600_000)),
        ("@-2h", None, None, Reset(ResetKind.TIME, NOW_MS - 7_200_000)),
        (None, -4, None, Reset(ResetKind.SHIFT, -4)),
        (None, 0, None, Reset(ResetKind.SHIFT, 0)),
        (None, None, "PT1H30M", Reset(ResetKind.TIME, NOW_MS - 5_400_000)),
        (None, None, "p1dT0.5s", Reset(ResetKind.TIME, NOW_MS - 86_400_500)),
        (None, None, None, None),
    ],
)
def test_ways_to_say_where_offsets_go(
    to: str | None, shift_by: int | None, ago: str | None, expected: Reset | None
) -> None:
    assert reset_of(to, shift_by, ago, NOW) == expected


def test_a_partition_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="topic t has no partition 3; it has 3"):
        chosen_partitions(topic_choice(["t:3"]), {"t": 3})
    assert topic_choice(["t:1", "t:0,2-3", "u"]) == {"t": (1, 0, 2, 3), "u": None}
    assert topic_choice(["t:1", "t"]) == {"t": None}


@pytest.mark.parametrize(
    ("lag", "shown"),
    [
        (timedelta(0), "0s"),
        (timedelta(milliseconds=49), "0.0s"),
        (timedelta(seconds=3.25), "3.2s"),
        (timedelta(minutes=5, seconds=7), "5m07s"),
        (timedelta(hours=4, minutes=5), "4h05m"),
        (timedelta(days=3, hours=2), "3d02h"),
    ],
)
def test_times_as_people_read_them(lag: timedelta, shown: str) -> None:
    assert shown_lag(round(lag.total_seconds() * 1_000)) == shown
    assert shown_lag(None) == "-"
