"""PostgreSQL's texts of arrays, hstore, intervals and bits, written as the server does and read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect.cdc.postgres.literals import (
    Interval,
    array_elements,
    bits_of,
    hstore_pairs,
    interval_of,
    interval_text,
    interval_us,
    point_of,
    sparse_vector_of,
    vector_of,
)
from ottla.connect.data.schema import DataError

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def element(text: str | None, always: bool) -> str:
    """As array_out: quotes only where they are needed."""
    if text is None:
        return "NULL"
    plain = text and text.upper() != "NULL" and not any(each in '{},"\\' or each.isspace() for each in text)
    return text if plain and not always else quoted(text)


@given(st.lists(st.one_of(st.none(), TEXTS)), st.booleans())
def test_an_arrays_elements_are_read_as_they_were_written(elements: list[str | None], always: bool) -> None:
    text = "{" + ",".join(element(each, always) for each in elements) + "}"
    assert array_elements(text) == elements


@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), min_size=1, max_size=3))
def test_the_elements_of_several_dimensions_stand_in_one_row(rows: list[list[str]]) -> None:
    inner = ["{" + ",".join(element(each, True) for each in row) + "}" for row in rows]
    wanted = [each for row in rows for each in row]
    assert array_elements("{" + ",".join(inner) + "}") == wanted
    assert array_elements(f"[2:{len(rows) + 1}][1:2]=" + "{" + ",".join(inner) + "}") == wanted


@pytest.mark.parametrize("text", ["", "{", "a", "{a", '{"a}', "{a}b", "{{{{{{{1}}}}}}}", "[1:2]{1,2}"])
def test_what_is_no_array_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        array_elements(text)


def test_another_delimiter_is_the_elements_own() -> None:
    assert array_elements("{(1,1),(0,0);(2,2),(1,1)}", ";") == ["(1,1),(0,0)", "(2,2),(1,1)"]


@given(st.dictionaries(TEXTS, st.one_of(st.none(), TEXTS)))
def test_hstore_is_read_as_it_was_written(pairs: dict[str, str | None]) -> None:
    told = (f"{quoted(key)}=>{'NULL' if value is None else quoted(value)}" for key, value in pairs.items())
    assert hstore_pairs(", ".join(told)) == pairs


@pytest.mark.parametrize("text", ["a=>b", '"a"', '"a"=>', '"a"=>"b', '"a"=>"b" "c"=>"d"'])
def test_what_is_no_hstore_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        hstore_pairs(text)


@given(st.integers(0, 2**80), st.integers(0, 9))
def test_bits_are_as_many_bytes_as_hold_the_highest_one(number: int, zeros: int) -> None:
    found = bits_of("0" * zeros + (f"{number:b}" if number else ""))
    assert int.from_bytes(found, "little") == number
    assert not found or found[-1]


@pytest.mark.parametrize(
    ("text", "interval", "iso"),
    [
        ("00:00:00", Interval(), "P0Y0M0DT0H0M0S"),
        ("1 year 2 mons 3 days 04:05:06.789", Interval(1, 2, 3, 4, 5, 6.789), "P1Y2M3DT4H5M6.789S"),
        ("-1 days +02:03:04", Interval(days=-1, hours=2, minutes=3, seconds=4.0), "P0Y0M-1DT2H3M4S"),
        ("-00:00:01.5", Interval(seconds=-1.5), "P0Y0M0DT0H0M-1.5S"),
    ],
)
def test_intervals_have_parts_with_signs_of_their_own(text: str, interval: Interval, iso: str) -> None:
    assert interval_of(text) == interval
    assert interval_text(interval) == iso


def test_a_month_has_the_average_of_days() -> None:
    assert interval_us(Interval(months=12)) == 31_557_600_000_000


@pytest.mark.parametrize("text", ["1", "1 moon", "x days", "1:2:3:4:x"])
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        interval_of(text)


def test_points_and_vectors() -> None:
    assert point_of("(-1.5,2e10)") == (-1.5, 2e10)
    assert vector_of("[1,2.5,3]") == [1.0, 2.5, 3.0]
    assert vector_of("[]") == []
    assert sparse_vector_of("{1:1.5,3:2}/5") == (5, {1: 1.5, 3: 2.0})
    with pytest.raises(DataError):
        point_of("(1)")
