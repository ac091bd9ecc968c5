"""Functions of dates and times. Time zones are by name; without one, UTC."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from ottla.sql.functions import java_times
from ottla.sql.functions.function import ScalarFunction, Variant, on, scalar
from ottla.sql.functions.java_times import DAY_MS, zone

_UNITS_MS = {
    "MILLISECONDS": 1,
    "SECONDS": 1000,
    "MINUTES": 60_000,
    "HOURS": 3_600_000,
    "DAYS": DAY_MS,
    "WEEKS": 7 * DAY_MS,
}
_MONTHS = {"MONTHS": 1, "YEARS": 12, "DECADES": 120, "CENTURIES": 1200}


def _unit(name: str) -> str:
    found = name.upper()
    if found in _UNITS_MS or found in _MONTHS:
        return found
    if found + "S" in _UNITS_MS or found + "S" in _MONTHS:
        return found + "S"
    raise ValueError(f"there is no unit of time {name}")


def _add(timestamp_ms: int, unit: str, number: int) -> int:
    if unit in _UNITS_MS:
        return timestamp_ms + _UNITS_MS[unit] * number
    at = java_times.to_datetime(timestamp_ms)
    months = at.year * 12 + at.month - 1 + _MONTHS[unit] * number
    year, month = divmod(months, 12)
    following = datetime(year + (month + 1) // 12, (month + 1) % 12 + 1, 1, tzinfo=UTC)
    last = (following - timedelta(days=1)).day
    return java_times.to_timestamp(at.replace(year=year, month=month + 1, day=min(at.day, last)))


def _date_add(sign: int) -> Any:
    def added(unit: str, number: int, days: int) -> int:
        found = _unit(unit)
        if found in _UNITS_MS and _UNITS_MS[found] < DAY_MS:
            raise ValueError(f"a DATE is not changed by {unit}")
        return _add(days * DAY_MS, found, sign * number) // DAY_MS

    return added


def _time_add(sign: int) -> Any:
    def added(unit: str, number: int, milliseconds: int) -> int:
        found = _unit(unit)
        if found not in _UNITS_MS or _UNITS_MS[found] >= DAY_MS:
            raise ValueError(f"a TIME is not changed by {unit}")
        return (milliseconds + sign * number * _UNITS_MS[found]) % DAY_MS

    return added


def _timestamp_add(sign: int) -> Any:
    return lambda unit, number, timestamp_ms: _add(timestamp_ms, _unit(unit), sign * number)


def _format(timestamp_ms: int, pattern: str, where: str = "UTC") -> str:
    return java_times.formatted(java_times.to_datetime(timestamp_ms, zone(where)), pattern)


def _parse(text: str, pattern: str, where: str = "UTC") -> int:
    return java_times.to_timestamp(java_times.parsed(text, pattern, zone(where)))


def _convert(timestamp_ms: int, given: str, wanted: str) -> int:
    """The time that clocks show in `wanted` when they show the timestamp in `given`, both as of UTC."""
    instant = java_times.to_datetime(timestamp_ms).replace(tzinfo=zone(given))
    return java_times.to_timestamp(instant.astimezone(zone(wanted)).replace(tzinfo=UTC))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _dates(name: str, summary: str, *variants: Variant, stable: bool = True) -> ScalarFunction:
    return scalar(name, summary, *variants, group="dates and times", stable=stable)


def _deprecated(name: str, instead: str, *variants: Variant) -> ScalarFunction:
    return scalar(name, f"deprecated: use {instead}", *variants, group="deprecated")


DATES = (
    _dates(
        "CONVERT_TZ",
        "a timestamp of one zone in another",
        on("(TIMESTAMP, STRING, STRING) -> TIMESTAMP", _convert),
    ),
    _dates("DATEADD", "a date plus a duration", on("(STRING, INT, DATE) -> DATE", _date_add(1))),
    _dates("DATESUB", "a date minus a duration", on("(STRING, INT, DATE) -> DATE", _date_add(-1))),
    _dates(
        "FORMAT_DATE",
        "a date as a text",
        on("(DATE, STRING) -> STRING", lambda days, pattern: _format(days * DAY_MS, pattern)),
    ),
    _dates("FORMAT_TIME", "a time as a text", on("(TIME, STRING) -> STRING", _format)),
    _dates(
        "FORMAT_TIMESTAMP",
        "a timestamp as a text, of a time zone",
        on("(TIMESTAMP, STRING) -> STRING", _format),
        on("(TIMESTAMP, STRING, STRING) -> STRING", _format),
    ),
    _dates("FROM_DAYS", "the date so many days after 1970", on("(INT) -> DATE", lambda days: days)),
    _dates(
        "FROM_UNIXTIME",
        "the timestamp so many milliseconds after 1970",
        on("(BIGINT) -> TIMESTAMP", lambda value: value),
    ),
    _dates(
        "PARSE_DATE",
        "the date of a text",
        on("(STRING, STRING) -> DATE", lambda text, pattern: _parse(text, pattern) // DAY_MS),
    ),
    _dates(
        "PARSE_TIME",
        "the time of a text",
        on("(STRING, STRING) -> TIME", lambda text, pattern: _parse(text, pattern) % DAY_MS),
    ),
    _dates(
        "PARSE_TIMESTAMP",
        "the timestamp of a text, of a time zone",
        on("(STRING, STRING) -> TIMESTAMP", _parse),
        on("(STRING, STRING, STRING) -> TIMESTAMP", _parse),
    ),
    _dates("TIMEADD", "a time plus a duration", on("(STRING, INT, TIME) -> TIME", _time_add(1))),
    _dates("TIMESUB", "a time minus a duration", on("(STRING, INT, TIME) -> TIME", _time_add(-1))),
    _dates(
        "TIMESTAMPADD",
        "a timestamp plus a duration",
        on("(STRING, INT, TIMESTAMP) -> TIMESTAMP", _timestamp_add(1)),
    ),
    _dates(
        "TIMESTAMPSUB",
        "a timestamp minus a duration",
        on("(STRING, INT, TIMESTAMP) -> TIMESTAMP", _timestamp_add(-1)),
    ),
    _dates(
        "UNIX_DATE",
        "the days since 1970 of a date, or today",
        on("() -> INT", lambda: _now_ms() // DAY_MS),
        on("(DATE) -> INT", lambda days: days),
        stable=False,
    ),
    _dates(
        "UNIX_TIMESTAMP",
        "the milliseconds since 1970 of a timestamp, or now",
        on("() -> BIGINT", _now_ms),
        on("(TIMESTAMP) -> BIGINT", lambda value: value),
        stable=False,
    ),
    _deprecated(
        "DATETOSTRING",
        "FORMAT_DATE",
        on("(INT, STRING) -> STRING", lambda days, pattern: _format(days * DAY_MS, pattern)),
    ),
    _deprecated(
        "STRINGTODATE",
        "PARSE_DATE",
        on("(STRING, STRING) -> INT", lambda text, pattern: _parse(text, pattern) // DAY_MS),
    ),
    _deprecated(
        "STRINGTOTIMESTAMP",
        "PARSE_TIMESTAMP",
        on("(STRING, STRING) -> BIGINT", _parse),
        on("(STRING, STRING, STRING) -> BIGINT", _parse),
    ),
    _deprecated(
        "TIMESTAMPTOSTRING",
        "FORMAT_TIMESTAMP",
        on("(BIGINT, STRING) -> STRING", _format),
        on("(BIGINT, STRING, STRING) -> STRING", _format),
    ),
)
