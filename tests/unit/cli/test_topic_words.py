"""The words of `ottla topic` and `ottla config` as values."""

from __future__ import annotations

import string
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.cluster.config_words import changes_of, resource_of
from ottla.cli.cluster.topic_words import Place, assignment_of, pairs_of, place_of, shown_bytes, time_ms_of
from ottla.client.admin.configs import Change, Operation, Resource, ResourceType
from ottla.config.errors import UsageError

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOW_MS = 1_769_860_800_000


@given(
    st.integers(1, 4).flatmap(
        lambda replicas: st.lists(
            st.lists(st.integers(0, 2**31 - 1), min_size=replicas, max_size=replicas, unique=True), min_size=1
        )
    )
)
def test_an_assignment_is_read_as_it_is_written(assignment: list[list[int]]) -> None:
    text = ",".join(":".join(map(str, brokers)) for brokers in assignment)
    assert assignment_of(text) == assignment


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1:1", "partition 0 has a broker twice"),
        ("1:2,3", "every partition needs as many replicas"),
        ("1:2,a:3", "partition 1 has 'a:3'"),
        ("1,,2", "partition 1 has ''"),
        ("-1", "partition 0 has '-1'"),
        ("١", "partition 0"),
        ("1" * 30, "partition 0"),
    ],
)
def test_an_assignment_that_can_t_be_is_told(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        assignment_of(text)


@given(st.text(max_size=12), st.text(max_size=12))
def test_any_text_is_a_value_or_a_usage_error(text: str, other: str) -> None:
    for read in (
        assignment_of,
        lambda words: pairs_of("--config", [words, other]),
        lambda words: place_of("--before", words, NOW),
        lambda words: place_of("--before", f"@{words}", NOW),
        lambda words: changes_of([words, other]),
        lambda words: resource_of("broker", words),
    ):
        try:
            read(text)
        except UsageError as problem:
            assert str(problem)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2026-01-31T12:00", NOW_MS),
        ("2026-01-31 12:00:00.250", NOW_MS + 250),
        ("2026-01-31T12:00:00Z", NOW_MS),
        ("2026-01-31T14:00+02:00", NOW_MS),
        ("2026-01-31", NOW_MS - 43_200_000),
        (str(NOW_MS), NOW_MS),
        ("-90s", NOW_MS - 90_000),
        ("-2h", NOW_MS - 7_200_000),
        ("-1w", NOW_MS - 604_800_000),
    ],
)
def test_a_time_may_be_written_in_several_ways(text: str, time_ms: int) -> None:
    assert place_of("--before", f"@{text}", NOW) == Place(time_ms=time_ms)


@pytest.mark.parametrize(
    "text", ["", "x", "-2", "-xh", "-99999999999999d", "1950-01-01", "99999999999999999999999"]
)
def test_a_time_that_is_none_is_told_with_the_ways_to_write_one(text: str) -> None:
    with pytest.raises(UsageError, match="not a time; write 2026-01-31T12:00"):
        time_ms_of("--before", text, NOW)


@given(
    st.datetimes(NOW.replace(year=1971, tzinfo=None), NOW.replace(year=2200, tzinfo=None)),
    st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_a_time_with_its_zone_is_that_instant(moment: datetime, zone: timezone) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1_000 * 1_000, tzinfo=zone)
    expected = round(moment.timestamp() * 1_000)
    assert time_ms_of("--before", moment.isoformat(), NOW) == expected


@given(st.dictionaries(st.text(string.ascii_lowercase + ".", min_size=1), st.text()))
def test_pairs_are_read_as_they_are_written(pairs: dict[str, str]) -> None:
    assert pairs_of("--config", [f"{name}={value}" for name, value in pairs.items()]) == pairs


@pytest.mark.parametrize("words", [["a"], ["=b"], ["a=1", "a=2"]])
def test_a_pair_that_is_none_is_told(words: list[str]) -> None:
    with pytest.raises(UsageError, match="--config"):
        pairs_of("--config", words)


def test_changes_set_append_and_subtract() -> None:
    words = ["retention.ms=5", "cleanup.policy+=compact", "a.b-=x=y", "empty="]
    assert changes_of(words) == [
        Change("retention.ms", Operation.SET, "5"),
        Change("cleanup.policy", Operation.APPEND, "compact"),
        Change("a.b", Operation.SUBTRACT, "x=y"),
        Change("empty", Operation.SET, ""),
    ]


def test_resources_by_their_words() -> None:
    assert resource_of("broker", "default") == Resource(ResourceType.BROKER, "")
    assert resource_of("broker", "7") == Resource(ResourceType.BROKER, "7")
    assert resource_of("topic", "default") == Resource(ResourceType.TOPIC, "default")
    for kind, name in (("broker", "x"), ("broker", "-1"), ("logger", "default"), ("broker", "99999999999")):
        with pytest.raises(UsageError, match="a broker's id"):
            resource_of(kind, name)


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1023_999, "1.0 MiB"),
     (1 << 20, "1.0 MiB"), (5 << 30, "5.0 GiB"), (2**63 - 1, "8.0 EiB")],
)  # fmt: skip
def test_sizes_as_people_read_them(size: int, shown: str) -> None:
    assert shown_bytes(size) == shown


@given(st.integers(0, 2**63 - 1))
def test_a_shown_size_is_short_and_near(size: int) -> None:
    text = shown_bytes(size)
    assert len(text) <= len("1023.9 KiB")
    amount, unit = text.split()
    factor = 1024 ** ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB").index(unit)
    assert abs(float(amount) * factor - size) <= 0.051 * factor
