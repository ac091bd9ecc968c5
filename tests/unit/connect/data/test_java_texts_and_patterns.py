"""Numbers, dates and regular expressions as Java writes and reads them."""

from __future__ import annotations

import decimal

import pytest

from ottla.connect.data.dates import DatePattern, DoesNotMatch
from ottla.connect.data.java_regex import BadPattern, JavaRegex
from ottla.connect.data.java_text import decimal_text, double_text, float_text, value_text, whole_of_float
from ottla.connect.data.schema import DataError, Type


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (1e7, "1.0E7"),
        (1.5e-5, "1.5E-5"),
        (-0.0, "-0.0"),
        (float("inf"), "Infinity"),
    ],
)
def test_doubles_are_written_as_by_double_to_string(value: float, text: str) -> None:
    assert double_text(value) == text


def test_floats_are_written_with_the_digits_that_32_bits_need() -> None:
    assert float_text(1.100000023841858) == "1.1"
    assert float_text(3.4028234663852886e38) == "3.4028235E38"
    assert float_text(1.401298464324817e-45) == "1.4E-45"
    assert double_text(5e-324) == "4.9E-324"


@pytest.mark.parametrize("text", ["0", "1.10", "-0.001", "1E+3", "1.2E-10", "123456789012345678901234567890"])
def test_decimals_are_written_as_by_big_decimal(text: str) -> None:
    assert decimal_text(decimal.Decimal(text)) == text


def test_floats_are_cut_as_by_a_cast_of_java() -> None:
    assert whole_of_float(1e20, Type.INT64) == (1 << 63) - 1
    assert whole_of_float(-1e20, Type.INT8) == 0
    assert whole_of_float(float("nan"), Type.INT32) == 0
    assert value_text([True, None, {"a": 1.0}]) == "[true, null, {a=1.0}]"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2026-01-31T23:04:05.678Z"),
        ("EEE, d MMM yy h a", "Sat, 31 Jan 26 11 PM"),
        ("G yyyy D 'o''clock' kk", "AD 2026 031 o'clock 23"),
    ],
)
def test_dates_are_written_by_patterns(pattern: str, text: str) -> None:
    written = DatePattern(pattern).format(1_769_900_645_678)
    assert written == text.replace("031", "31")


def test_dates_are_read_by_patterns() -> None:
    assert DatePattern("yyyy-MM-dd HH:mm").parse("2026-01-31 23:04 and more") == 1_769_900_640_000
    assert DatePattern("yyyyMMdd").parse("20260131") == 1_769_817_600_000
    assert DatePattern("d MMM yyyy HH:mm Z").parse("1 february 2026 00:04 +0100") == 1_769_900_640_000
    for text in ("", "2026", "2026-x"):
        with pytest.raises(DoesNotMatch):
            DatePattern("yyyy-MM-dd").parse(text)
    for pattern in ("'", "yyyy-bb", "XXXX"):
        with pytest.raises(ValueError, match=r"."):
            DatePattern(pattern)


def test_expressions_of_java_are_run_as_by_java() -> None:
    assert JavaRegex(r"(?<a>[a-z&&[^q]]+)-(\d++)").replace_first("abc-12", "${a}$2\\$") == "abc12$"
    assert not JavaRegex(r"\d").matches("٣")
    assert JavaRegex(r"\Qa.b\E\z").matches("a.b")
    for pattern in ("(", "[a", "a{2,1}", r"\y", "(?<1>a)", "*"):
        with pytest.raises(BadPattern):
            JavaRegex(pattern)
    for replacement in ("$", "$9", "${none}", "\\"):
        with pytest.raises(DataError):
            JavaRegex("a").replace_first("a", replacement)
