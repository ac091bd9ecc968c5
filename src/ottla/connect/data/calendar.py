"""The calendar of java.util.GregorianCalendar in UTC: Julian up to 4 October 1582, Gregorian after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DAY_MS: Final = 86_400_000
_CUTOVER_DAY: Final = -141_427
_CUTOVER_YEAR: Final = 1582
_SHIFT: Final = 719_468
"""The days from 1 March of the year 0 to 1 January 1970, in the Gregorian calendar."""
_JULIAN_SHIFT: Final = 719_470


@dataclass(frozen=True, slots=True)
class Day:
    """A day. year: the year 0 is 1 BC, as astronomers count. number: of days since 1970."""

    year: int
    month: int
    day: int
    number: int

    @property
    def weekday(self) -> int:
        """1 for Monday to 7 for Sunday."""
        return (self.number + 3) % 7 + 1

    @property
    def of_year(self) -> int:
        """1 for the first of January."""
        return self.number - first_of_year(self.year) + 1


def first_of_year(year: int) -> int:
    """The number of the day on which a year begins."""
    return day_number(year, 1, 1)


def day_of(number: int) -> Day:
    """The day of a number of days since 1970."""
    if number >= _CUTOVER_DAY:
        era, rest = divmod(number + _SHIFT, 146_097)
        in_era = (rest - rest // 1460 + rest // 36_524 - rest // 146_096) // 365
        of_year = rest - (365 * in_era + in_era // 4 - in_era // 100)
        year = in_era + era * 400
    else:
        era, rest = divmod(number + _JULIAN_SHIFT, 1461)
        in_era = (rest - rest // 1460) // 365
        of_year = rest - 365 * in_era
        year = in_era + era * 4
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return Day(year + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1, number)


def day_number(year: int, month: int, day: int) -> int:
    """The number of days since 1970; months and days beyond their range count on (lenient)."""
    years, month = divmod(month - 1, 12)
    year += years
    shifted = year - (month < 2)
    of_year = (153 * ((month + 10) % 12) + 2) // 5 + day - 1
    julian = 365 * shifted + shifted // 4 + of_year - _JULIAN_SHIFT
    if year < _CUTOVER_YEAR:
        return julian
    gregorian = 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + of_year - _SHIFT
    if year > _CUTOVER_YEAR:
        return gregorian
    return gregorian if gregorian >= _CUTOVER_DAY and julian >= _CUTOVER_DAY else julian
