"""Dates, times and timestamps in the forms of time.precision.mode, from texts in ISO's order.

Years are those of ISO's calendar, before its time as well; a text may end in BC.
"""

from __future__ import annotations

import datetime
import enum
from typing import Final

from ottla.connect.cdc.core import semantic_types as semantic
from ottla.connect.cdc.core.column_form import ColumnForm, ConversionError
from ottla.connect.data.building import DATE_SCHEMA, TIME_SCHEMA, TIMESTAMP_SCHEMA
from ottla.connect.data.schema import Moment

DAY_US: Final = 86_400_000_000
_EPOCH_ORDINAL: Final = datetime.date(1970, 1, 1).toordinal()
INFINITY_US: Final = 9_223_372_036_825_200_000
"""PGStatement.DATE_POSITIVE_INFINITY, which Debezium takes for microseconds."""
NEGATIVE_INFINITY_US: Final = -9_223_372_036_832_400_000
MAX_LONG: Final = (1 << 63) - 1
MIN_LONG: Final = -(1 << 63)
INFINITY_DAYS: Final = -2_147_472_692
NEGATIVE_INFINITY_DAYS: Final = -2_147_472_691
_INFINITY: Final = "infinity"
_NEGATIVE_INFINITY: Final = "-infinity"


class TimePrecision(enum.StrEnum):
    """time.precision.mode."""

    ADAPTIVE = "adaptive"
    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"
    CONNECT = "connect"
    ISOSTRING = "isostring"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"


# -- parsing ----------------------------------------------------------------------------------------


def days_from_civil(year: int, month: int, day: int) -> int:
    """The days since 1970 of a date of ISO's calendar; year 0 is 1 BC."""
    if month <= 2:
        year -= 1
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of a count of days since 1970."""
    days += 719_468
    era = days // 146_097
    of_era = days - era * 146_097
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def date_days(text: str) -> int:
    """The days since 1970 of '2016-11-04', '12016-01-01' or '0044-03-15 BC'. Raises ValueError."""
    if len(text) == 10:
        return datetime.date.fromisoformat(text).toordinal() - _EPOCH_ORDINAL
    date, _, era = text.partition(" ")
    year, month, day = map(int, date.split("-"))
    return days_from_civil(1 - year if era == "BC" else year, month, day)


def time_us(text: str) -> int:
    """The microseconds since midnight of '13:51:30.123456'. Raises ValueError."""
    found = (int(text[0:2]) * 3600 + int(text[3:5]) * 60 + int(text[6:8])) * 1_000_000
    return found + int(text[9:15].ljust(6, "0")) if len(text) > 8 else found


def timestamp_us(text: str) -> int:
    """The microseconds since 1970 of '2016-11-04 13:51:30.123456', perhaps with ' BC'. Raises ValueError."""
    date, _, time = text.partition(" ")
    if time.endswith(" BC"):
        return date_days(f"{date} BC") * DAY_US + time_us(time[:-3])
    return date_days(date) * DAY_US + time_us(time)


def offset_us(text: str) -> int:
    """The microseconds of '+02', '-03:30' or '+00:19:32'. Raises ValueError."""
    parts = [*map(int, text[1:].split(":")), 0, 0]
    found = (parts[0] * 3600 + parts[1] * 60 + parts[2]) * 1_000_000
    return -found if text[0] == "-" else found


def zoned_timestamp_us(text: str) -> int:
    """The microseconds since 1970 of '2016-11-04 13:51:30.123456+02'. Raises ValueError."""
    if text.endswith("+00"):
        return timestamp_us(text[:-3])
    suffix = " BC" if text.endswith(" BC") else ""
    local = text.removesuffix(" BC")
    # The first ten characters hold a date's hyphens, also in years of more digits than four.
    at = max(local.rfind("+"), local.rfind("-"))
    return timestamp_us(local[:at] + suffix) - offset_us(local[at:])


# -- texts of Java's ISO formatters ------------------------------------------------------------------


def date_text(days: int) -> str:
    """As ISO_LOCAL_DATE: years of more digits than four have their sign."""
    year, month, day = civil_from_days(days)
    if 0 <= year <= 9999:
        return f"{year:04d}-{month:02d}-{day:02d}"
    return f"{year:+05d}-{month:02d}-{day:02d}"


def time_text(us: int, digits: int = -1) -> str:
    """As ISO_LOCAL_TIME. digits: of the fraction; none or fewer: as many as it needs."""
    seconds, fraction = divmod(us, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if digits > 0:
        return f"{text}.{fraction:06d}"[: 9 + digits].ljust(9 + digits, "0")
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def timestamp_text(us: int, digits: int = -1) -> str:
    """As ISO_OFFSET_DATE_TIME in UTC."""
    days, of_day = divmod(us, DAY_US)
    return f"{date_text(days)}T{time_text(of_day, digits)}Z"


# -- forms -------------------------------------------------------------------------------------------


def date_form(mode: TimePrecision) -> ColumnForm:
    """A date."""
    match mode:
        case TimePrecision.CONNECT:
            return ColumnForm(DATE_SCHEMA, lambda text: Moment(_days(text) * 86_400_000), Moment(0))
        case TimePrecision.ISOSTRING:
            return ColumnForm(semantic.ISO_DATE, lambda text: f"{date_text(_days(text))}Z", "1970-01-01Z")
    return ColumnForm(semantic.DATE, _days, 0)


def time_form(mode: TimePrecision, digits: int) -> ColumnForm:
    """A time of day. digits: of the seconds' fraction."""
    match mode:
        case TimePrecision.CONNECT:
            return ColumnForm(TIME_SCHEMA, lambda text: Moment(time_us(text) // 1000), Moment(0))
        case TimePrecision.ISOSTRING:
            return ColumnForm(
                semantic.ISO_TIME, lambda text: f"{time_text(time_us(text) % DAY_US)}Z", "00:00:00Z"
            )
        case TimePrecision.NANOSECONDS:
            return ColumnForm(semantic.NANO_TIME, lambda text: time_us(text) * 1000, 0)
        case TimePrecision.ADAPTIVE if digits <= 3:
            return ColumnForm(semantic.TIME, lambda text: time_us(text) // 1000, 0)
    return ColumnForm(semantic.MICRO_TIME, time_us, 0)


def timestamp_form(mode: TimePrecision, digits: int) -> ColumnForm:
    """A timestamp without a zone, taken for one of UTC. digits: of the seconds' fraction."""
    match mode:
        case TimePrecision.CONNECT:
            return ColumnForm(TIMESTAMP_SCHEMA, lambda text: Moment(_infinite_us(text) // 1000), Moment(0))
        case TimePrecision.ISOSTRING:
            return ColumnForm(
                semantic.ISO_TIMESTAMP,
                lambda text: timestamp_text(_infinite_us(text)),
                "1970-01-01T00:00:00Z",
            )
        case TimePrecision.NANOSECONDS:
            return ColumnForm(semantic.NANO_TIMESTAMP, _nanoseconds, 0)
        case TimePrecision.ADAPTIVE | TimePrecision.ADAPTIVE_TIME_MICROSECONDS if digits <= 3:
            return ColumnForm(semantic.TIMESTAMP, lambda text: _infinite_us(text) // 1000, 0)
    return ColumnForm(semantic.MICRO_TIMESTAMP, _infinite_us, 0)


def zoned_timestamp_form(digits: int) -> ColumnForm:
    """A moment, as a text in UTC; infinities as they are. digits: of the seconds' fraction, 0: as needed."""

    def convert(text: str) -> str:
        if text[-3:] == "+00" and text[4:5] == "-" and text[10:11] == " ":
            # UTC, as the session has it, and a year of four digits: the text itself, in a third of the time.
            time = text[11:-3]
            if digits > 0:
                time = f"{time[:8]}.{time[9:].ljust(digits, '0')[:digits]}"
            return f"{text[:10]}T{time}Z"
        if text in (_INFINITY, _NEGATIVE_INFINITY):
            return text
        return timestamp_text(zoned_timestamp_us(text), digits)

    return ColumnForm(semantic.ZONED_TIMESTAMP, convert, "1970-01-01T00:00:00Z")


def zoned_time_form() -> ColumnForm:
    """A time of day with an offset, as a text in UTC."""

    def convert(text: str) -> str:
        at = max(text.rfind("+"), text.rfind("-"))
        return f"{time_text((time_us(text[:at]) - offset_us(text[at:])) % DAY_US)}Z"

    return ColumnForm(semantic.ZONED_TIME, convert, "00:00:00Z")


def _days(text: str) -> int:
    if text == _INFINITY:
        return INFINITY_DAYS
    if text == _NEGATIVE_INFINITY:
        return NEGATIVE_INFINITY_DAYS
    return date_days(text)


def _infinite_us(text: str) -> int:
    if text == _INFINITY:
        return INFINITY_US
    if text == _NEGATIVE_INFINITY:
        return NEGATIVE_INFINITY_US
    return timestamp_us(text)


def _nanoseconds(text: str) -> int:
    if text == _INFINITY:
        return MAX_LONG
    if text == _NEGATIVE_INFINITY:
        return MIN_LONG
    found = timestamp_us(text) * 1000
    if not MIN_LONG <= found <= MAX_LONG:
        raise ConversionError(f"{text} has no place in 64 bits of nanoseconds")
    return found
