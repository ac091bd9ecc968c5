"""Dates, times and numbers from texts, held against Python's own."""

from __future__ import annotations

import datetime
import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect.cdc.core.column_form import ConversionError
from ottla.connect.cdc.core.decimals import (
    DecimalMode,
    decimal_form,
    money_form,
    variable_decimal_form,
)
from ottla.connect.cdc.core.temporal import (
    TimePrecision,
    civil_from_days,
    date_days,
    days_from_civil,
    time_text,
    timestamp_form,
    timestamp_text,
    timestamp_us,
    zoned_time_form,
    zoned_timestamp_us,
)
from ottla.connect.data.schema import Struct

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)
DATETIMES = st.datetimes().filter(lambda moment: 1 < moment.year < 9999)


@given(st.integers(-3_000_000, 200_000_000))
def test_days_and_dates_are_each_others_inverse(days: int) -> None:
    assert days_from_civil(*civil_from_days(days)) == days


@given(st.dates())
def test_days_are_those_of_the_calendar(date: datetime.date) -> None:
    days = date.toordinal() - EPOCH.toordinal()
    assert civil_from_days(days) == (date.year, date.month, date.day)
    assert date_days(date.isoformat()) == days


def test_years_before_christ_and_of_five_digits() -> None:
    assert date_days("0001-12-31 BC") == date_days("0001-01-01") - 1
    assert date_days("12016-01-01") == days_from_civil(12016, 1, 1)
    assert timestamp_text(timestamp_us("0044-03-15 10:00:00 BC")) == "-0043-03-15T10:00:00Z"
    assert timestamp_text(timestamp_us("12016-01-01 00:00:00.5")) == "+12016-01-01T00:00:00.5Z"


@given(DATETIMES)
def test_timestamps_are_microseconds(moment: datetime.datetime) -> None:
    us = (moment.replace(tzinfo=datetime.UTC) - EPOCH) // MICROSECOND
    assert timestamp_us(moment.isoformat(sep=" ")) == us
    assert datetime.datetime.fromisoformat(timestamp_text(us)) == moment.replace(tzinfo=datetime.UTC)


@given(DATETIMES, st.integers(-15 * 3600, 15 * 3600))
def test_zoned_timestamps_are_moments(moment: datetime.datetime, offset_seconds: int) -> None:
    us = (moment.replace(tzinfo=datetime.UTC) - EPOCH) // MICROSECOND - offset_seconds * 1_000_000
    sign, seconds = "-" if offset_seconds < 0 else "+", abs(offset_seconds)
    zone = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}".removesuffix(":00")
    assert zoned_timestamp_us(moment.isoformat(sep=" ") + zone.removesuffix(":00")) == us


def test_fractions_have_the_columns_digits_or_as_many_as_they_need() -> None:
    assert time_text(1_500_000, 6) == "00:00:01.500000"
    assert time_text(1_500_000, 3) == "00:00:01.500"
    assert time_text(1_500_000) == "00:00:01.5"
    assert time_text(1_000_000) == "00:00:01"
    assert zoned_time_form().convert("23:00:00.5-10") == "09:00:00.5Z"


def test_nanoseconds_that_have_no_place_are_refused() -> None:
    form = timestamp_form(TimePrecision.NANOSECONDS, 6)
    assert form.convert("1970-01-01 00:00:00.000001") == 1000
    assert form.convert("infinity") == 2**63 - 1
    with pytest.raises(ConversionError):
        form.convert("2300-01-01 00:00:00")


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_number_of_any_digits_is_a_scale_and_its_digits(number: decimal.Decimal) -> None:
    value = variable_decimal_form(DecimalMode.PRECISE).convert(format(number, "f"))
    assert isinstance(value, Struct)
    digits = int.from_bytes(value.values["value"], "big", signed=True)
    with decimal.localcontext(prec=20_000):
        assert decimal.Decimal(digits).scaleb(-value.values["scale"]) == number
    assert value.values["scale"] >= 0
    assert value.values["scale"] == 0 or digits % 10


def test_numbers_in_three_modes() -> None:
    assert decimal_form(DecimalMode.PRECISE, 6, 4).convert("1.5") == decimal.Decimal("1.5000")
    assert decimal_form(DecimalMode.STRING, 6, 4).convert("1.5") == "1.5000"
    assert decimal_form(DecimalMode.DOUBLE, 6, 4).convert("1.5") == 1.5
    assert decimal_form(DecimalMode.STRING, 6, 4).convert("NaN") == "NAN"
    assert variable_decimal_form(DecimalMode.STRING).convert("1e3") == "1000"
    with pytest.raises(ConversionError, match=r"decimal\.handling\.mode"):
        decimal_form(DecimalMode.PRECISE, 6, 4).convert("NaN")


def test_amounts_of_money_of_any_currency() -> None:
    form = money_form(DecimalMode.PRECISE, 2)
    for text, amount in (
        ("$1,234.11", "1234.11"),
        ("-$5.00", "-5.00"),
        ("($0.05)", "-0.05"),
        ("1.5", "1.50"),
    ):
        assert str(form.convert(text)) == amount
