"""Dates, times and timestamps between the texts of databases and numbers since 1970.

Days are those of the proleptic Gregorian calendar, as databases count them. PostgreSQL's infinities are the
numbers that its JDBC driver gives them.
"""

from __future__ import annotations

import datetime
import re
from typing import Final
from zoneinfo import ZoneInfo

from ottla.connect.data.schema import DataError

UTC: Final = ZoneInfo("UTC")
NS: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000
DAY_MS: Final = 86_400_000
DAY_NS: Final = 86_400 * NS
INFINITY_MS: Final = 9_223_372_036_825_200_000
MINUS_INFINITY_MS: Final = -9_223_372_036_832_400_000
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
_EPOCH_ORDINAL: Final = datetime.date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DATE: Final = r"(?P<year>\d{4,7})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_TIME: Final = r"(?P<hour>\d{1,3}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?"
_ZONE: Final = r"\s?(?P<zone>Z|[+-]\d{2}(?::?\d{2}(?::?\d{2})?)?)?"
_MOMENT: Final = re.compile(rf"{_DATE}(?:[ T]{_TIME}{_ZONE})?(?P<era> BC)?", re.ASCII)
_CLOCK: Final = re.compile(rf"(?P<sign>-?){_TIME}{_ZONE}", re.ASCII)


def day_number(year: int, month: int, day: int) -> int:
    """The days from 1970 to a day; the year 0 is 1 BC. Raises DataError for a day that is none."""
    cycles, within = divmod(year - 1, _CYCLE_YEARS)
    try:
        ordinal = datetime.date(within + 1, month, day).toordinal()
    except ValueError as problem:
        raise DataError(f"{year}-{month}-{day} is no day: {problem}") from None
    return ordinal + cycles * _CYCLE_DAYS - _EPOCH_ORDINAL


def day_of(number: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970."""
    cycles, within = divmod(number + _EPOCH_ORDINAL - 1, _CYCLE_DAYS)
    found = datetime.date.fromordinal(within + 1)
    return found.year + cycles * _CYCLE_YEARS, found.month, found.day


def read_date_ms(text: str) -> int:
    """The milliseconds of a date's midnight in UTC. Raises DataError."""
    special = _infinity(text)
    if special is not None:
        return special
    found = _match(_MOMENT, text)
    return day_number(_year(found), int(found["month"]), int(found["day"])) * DAY_MS


def read_time_ms(text: str) -> int:
    """The milliseconds of a time of day; a time with a zone is given in UTC. Raises DataError."""
    found = _match(_CLOCK, text)
    ns = _clock_ns(found)
    if found["zone"]:
        ns = (ns - _zone_ns(found["zone"])) % DAY_NS
    elif found["sign"]:
        ns = -ns
    return ns // NS_PER_MS


def read_timestamp_ns(text: str, zone: ZoneInfo) -> int:
    """The nanoseconds since 1970 of a timestamp, local of `zone` if it has none. Raises DataError."""
    special = _infinity(text)
    if special is not None:
        return special * NS_PER_MS
    found = _match(_MOMENT, text)
    local = day_number(_year(found), int(found["month"]), int(found["day"])) * DAY_NS
    if found["hour"] is not None:
        local += _clock_ns(found)
    if found["zone"]:
        return local - _zone_ns(found["zone"])
    return local - _local_offset_ns(local, zone)


def date_text(epoch_ms: int) -> str:
    """A day as databases write it: 2024-02-29, 0044-03-15 BC, infinity."""
    if epoch_ms >= INFINITY_MS:
        return "infinity"
    if epoch_ms <= MINUS_INFINITY_MS:
        return "-infinity"
    text, era = _day_text(epoch_ms // DAY_MS)
    return text + era


def time_text(epoch_ms: int) -> str:
    """A time of day: 12:30:00.250."""
    seconds, ms = divmod(epoch_ms % DAY_MS if epoch_ms != DAY_MS else DAY_MS, 1000)
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}.{ms:03}"


def timestamp_text(epoch_ns: int, zone: ZoneInfo, *, digits: int = 6, offset: bool = False) -> str:
    """A timestamp in local time of a zone; `digits` behind its point; offset: with its distance from UTC."""
    epoch_ms = epoch_ns // NS_PER_MS
    if epoch_ms >= INFINITY_MS:
        return "infinity"
    if epoch_ms <= MINUS_INFINITY_MS:
        return "-infinity"
    shift = utc_offset_ns(epoch_ns, zone)
    day, of_day = divmod(epoch_ns + shift, DAY_NS)
    text, era = _day_text(day)
    seconds, ns = divmod(of_day, NS)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    fraction = f".{ns:09}"[: digits + 1] if digits else ""
    tail = _offset_text(shift // NS) if offset else ""
    return f"{text} {clock}{fraction}{tail}{era}"


def utc_offset_ns(epoch_ns: int, zone: ZoneInfo) -> int:
    """How far a zone's clocks are ahead of UTC at a moment."""
    if zone is UTC or zone.key == "UTC":
        return 0
    seconds = min(max(epoch_ns // NS, -62_000_000_000), 253_000_000_000)  # the years that datetime has
    at = _EPOCH + datetime.timedelta(seconds=seconds)
    return _ns(at.astimezone(zone).utcoffset())


def _local_offset_ns(local_ns: int, zone: ZoneInfo) -> int:
    if zone is UTC or zone.key == "UTC":
        return 0
    seconds = min(max(local_ns // NS, -62_000_000_000), 253_000_000_000)
    return _ns((_EPOCH + datetime.timedelta(seconds=seconds)).replace(tzinfo=zone).utcoffset())


def _ns(delta: datetime.timedelta | None) -> int:
    return 0 if delta is None else (delta.days * 86_400 + delta.seconds) * NS


def _infinity(text: str) -> int | None:
    return {"infinity": INFINITY_MS, "-infinity": MINUS_INFINITY_MS}.get(text)


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text.strip())
    if found is None:
        raise DataError(f"{text[:100]!r} is no date or time")
    return found


def _year(found: re.Match[str]) -> int:
    year = int(found["year"])
    return 1 - year if found["era"] else year


def _clock_ns(found: re.Match[str]) -> int:
    minute, second = int(found["minute"]), int(found["second"] or 0)
    if minute > 59 or second > 60:
        raise DataError(f"{found[0]!r} is no time")
    fraction = int((found["fraction"] or "0").ljust(9, "0"))
    return (int(found["hour"]) * 3600 + minute * 60 + second) * NS + fraction


def _zone_ns(text: str) -> int:
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:6])
    return (seconds if text[0] == "+" else -seconds) * NS


def _offset_text(seconds: int) -> str:
    sign, seconds = ("-", -seconds) if seconds < 0 else ("+", seconds)
    tail = f":{seconds % 60:02}" if seconds % 60 else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}{tail}"


def _day_text(number: int) -> tuple[str, str]:
    year, month, day = day_of(number)
    era = " BC" if year < 1 else ""
    return f"{1 - year if era else year:04}-{month:02}-{day:02}", era
