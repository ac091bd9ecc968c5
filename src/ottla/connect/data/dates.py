"""Dates as texts and back by the patterns of java.text.SimpleDateFormat, in UTC and in English.

Weeks are those of the United States: they begin on Sunday, and the first has the first of January. Texts with
weeks in them (Y, w, W, F) can be written, but not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.connect.data.calendar import DAY_MS, Day, day_number, day_of, first_of_year

_LETTERS: Final = "GyMdkHmsSEDFwWahKzZYuXL"
_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NUMERIC: Final = frozenset("yYdkHmsSDFwWhKu")
_NOT_READ: Final = frozenset("YwWF")
_CENTURY_YEARS: Final = 80
_SOME_DAY: Final = day_number(2026, 11, 1)
_MAX_PATTERN: Final = 1_000
_ZONE: Final = re.compile(
    r"(?:GMT|UTC|UT|Z)?([+-])(\d{1,2}):?(\d{2})|(?:GMT|UTC|UT)(?![A-Za-z])", re.IGNORECASE
)
_ISO_ZONES: Final = {
    1: re.compile(r"Z|([+-])(\d{2})()"),
    2: re.compile(r"Z|([+-])(\d{2})(\d{2})"),
    3: re.compile(r"Z|([+-])(\d{2}):(\d{2})"),
}
_NUMBER: Final = re.compile(r"-?\d+")


class DoesNotMatch(ValueError):
    """A text that is not of a pattern."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A literal text (letter is empty), or a letter and how often it stands there."""

    letter: str
    count: int
    text: str = ""


class DatePattern:
    """A pattern of SimpleDateFormat. Raises ValueError for one that it would refuse, with its words.

    today: the number of a day since 1970; years of two digits are read as those of the 80 years before it and
    the 20 years after it.
    """

    __slots__ = ("_century_start", "_parts", "_writers", "pattern")

    def __init__(self, pattern: str, today: int = _SOME_DAY) -> None:
        self.pattern: Final = pattern
        if len(pattern) > _MAX_PATTERN:
            raise ValueError(f"a pattern of more than {_MAX_PATTERN} characters")
        self._parts = _parts(pattern)
        self._writers = [_writer(each) for each in self._parts]
        now = day_of(today)
        self._century_start = day_number(now.year - _CENTURY_YEARS, now.month, now.day)

    def format(self, epoch_ms: int) -> str:
        """The text of a moment."""
        number, of_day = divmod(epoch_ms, DAY_MS)
        day = day_of(number)
        return "".join([each(day, of_day) for each in self._writers])

    def unreadable(self) -> str | None:
        """The letters of the pattern with which no text can be read, or None."""
        return "".join(sorted({p.letter for p in self._parts} & _NOT_READ)) or None

    def parse(self, text: str) -> int:
        """The milliseconds since 1970 of a text; what follows its date is ignored. Raises DoesNotMatch."""
        if self.unreadable():
            raise DoesNotMatch(text)
        read = _Read(text, self._century_start)
        for at, part in enumerate(self._parts):
            follower = self._parts[at + 1] if at + 1 < len(self._parts) else None
            read.take(part, follower)
        return read.epoch_ms()


def date_text(epoch_ms: int) -> str:
    """A java.util.Date as Connect's headers and casts write it: a time, a date or both, by its size."""
    if epoch_ms < DAY_MS:
        return _TIME.format(epoch_ms)
    return (_DATE if epoch_ms % DAY_MS == 0 else _TIMESTAMP).format(epoch_ms)


def time_ms(text: str) -> int | None:
    """The milliseconds of a text like 12:34:56.789Z, None for another."""
    return _tried(_TIME, text)


def date_ms(text: str) -> int | None:
    """The milliseconds of a text like 2026-01-31, None for another."""
    return _tried(_DATE, text)


def timestamp_ms(text: str) -> int | None:
    """The milliseconds of a text like 2026-01-31T12:34:56.789Z, None for another."""
    return _tried(_TIMESTAMP, text)


def _tried(pattern: DatePattern, text: str) -> int | None:
    try:
        return pattern.parse(text)
    except DoesNotMatch:
        return None


def _parts(pattern: str) -> list[_Part]:
    parts: list[_Part] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "'":
            text, at = _quoted(pattern, at)
        elif character.isascii() and character.isalpha():
            if character not in _LETTERS:
                raise ValueError(f"Illegal pattern character '{character}'")
            end = at
            while end < len(pattern) and pattern[end] == character:
                end += 1
            if character == "X" and end - at > 3:
                raise ValueError(f"invalid ISO 8601 format: length={end - at}")
            parts.append(_Part(character, end - at))
            at = end
            continue
        else:
            text, at = character, at + 1
        if parts and not parts[-1].letter:
            parts[-1] = _Part("", 0, parts[-1].text + text)
        elif text:
            parts.append(_Part("", 0, text))
    return parts


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    """The literal text of a quotation, and where it ends."""
    if pattern[start + 1 : start + 2] == "'":
        return "'", start + 2
    text = ""
    at = start + 1
    while at < len(pattern):
        if pattern[at] != "'":
            text += pattern[at]
            at += 1
        elif pattern[at + 1 : at + 2] == "'":
            text += "'"
            at += 2
        else:
            return text, at + 1
    raise ValueError("Unterminated quote")


# -- writing ------------------------------------------------------------------------------------------


def _writer(part: _Part) -> Callable[[Day, int], str]:
    letter, count = part.letter, part.count
    if not letter:
        text = part.text
        return lambda day, ms: text
    match letter:
        case "G":
            return lambda day, ms: "AD" if day.year > 0 else "BC"
        case "y":
            return lambda day, ms: _year(day.year if day.year > 0 else 1 - day.year, count)
        case "Y":
            return lambda day, ms: _year(_week_year(day), count)
        case "M" | "L" if count >= 3:
            long = count >= 4
            return lambda day, ms: _MONTHS[day.month - 1] if long else _MONTHS[day.month - 1][:3]
        case "E":
            long = count >= 4
            return lambda day, ms: _DAYS[day.weekday - 1] if long else _DAYS[day.weekday - 1][:3]
        case "a":
            return lambda day, ms: "AM" if ms < DAY_MS // 2 else "PM"
        case "z":
            zone = "Coordinated Universal Time" if count >= 4 else "UTC"
            return lambda day, ms: zone
        case "Z":
            return lambda day, ms: "+0000"
        case "X":
            return lambda day, ms: "Z"
    number = _NUMBERS[letter]
    return lambda day, ms: str(number(day, ms)).rjust(count, "0")


_NUMBERS: Final[dict[str, Callable[[Day, int], int]]] = {
    "M": lambda day, ms: day.month,
    "L": lambda day, ms: day.month,
    "d": lambda day, ms: day.day,
    "D": lambda day, ms: day.of_year,
    "F": lambda day, ms: (day.day - 1) // 7 + 1,
    "u": lambda day, ms: day.weekday,
    "w": lambda day, ms: _week_of_year(day),
    "W": lambda day, ms: (day.day - 1 + _before_sunday(day.number - day.day + 1)) // 7 + 1,
    "H": lambda day, ms: ms // 3_600_000,
    "k": lambda day, ms: ms // 3_600_000 or 24,
    "K": lambda day, ms: ms // 3_600_000 % 12,
    "h": lambda day, ms: ms // 3_600_000 % 12 or 12,
    "m": lambda day, ms: ms // 60_000 % 60,
    "s": lambda day, ms: ms // 1_000 % 60,
    "S": lambda day, ms: ms % 1_000,
}


def _year(year: int, count: int) -> str:
    return f"{year % 100:02d}" if count == 2 else str(year).rjust(count, "0")


def _before_sunday(number: int) -> int:
    """How many days of its week are before a day, in weeks that begin on Sunday."""
    return (number + 4) % 7


def _week_of_year(day: Day) -> int:
    following = first_of_year(day.year + 1)
    if day.number >= following - _before_sunday(following):
        return 1
    first = first_of_year(day.year)
    return (day.number - first + _before_sunday(first)) // 7 + 1


def _week_year(day: Day) -> int:
    following = first_of_year(day.year + 1)
    return day.year + (day.number >= following - _before_sunday(following))


# -- reading ------------------------------------------------------------------------------------------


class _Read:
    """A text that is read part by part, and the fields found so far."""

    def __init__(self, text: str, century_start: int) -> None:
        self._text = text
        self._at = 0
        self._century_start = century_start
        self._fields: dict[str, int] = {}
        self._offset_ms = 0

    def take(self, part: _Part, follower: _Part | None) -> None:
        """Read one part. Raises DoesNotMatch."""
        if not part.letter:
            if not self._text.startswith(part.text, self._at):
                raise DoesNotMatch(self._text)
            self._at += len(part.text)
            return
        while self._text[self._at : self._at + 1] in (" ", "\t") and self._at < len(self._text):
            self._at += 1
        if self._at >= len(self._text):
            raise DoesNotMatch(self._text)
        letter = part.letter
        if letter in _NUMERIC or (letter in "ML" and part.count <= 2):
            adjacent = follower is not None and (
                follower.letter in _NUMERIC or (follower.letter in ("M", "L") and follower.count <= 2)
            )
            self._take_number(part, adjacent, follower)
        elif letter in "zZX":
            self._take_zone(part)
        else:
            self._take_word(letter)

    def _take_number(self, part: _Part, adjacent: bool, follower: _Part | None) -> None:
        start = self._at
        end = start + part.count if adjacent else len(self._text)
        if end > len(self._text):
            raise DoesNotMatch(self._text)
        found = _NUMBER.match(self._text, start, end)
        if found is None:
            raise DoesNotMatch(self._text)
        self._at = found.end()
        value = _as_int(found[0])
        match part.letter:
            case "y" if part.count <= 2 and self._at - start == 2 and found[0].isdecimal():
                value = self._in_century(value)
            case "k":
                value = 0 if value == 24 else value
            case "h":
                value = 0 if value == 12 else value
            case _:
                pass
        self._fields[{"k": "H", "K": "h", "L": "M"}.get(part.letter, part.letter)] = value

    def _in_century(self, year: int) -> int:
        start = day_of(self._century_start).year
        return start // 100 * 100 + year + (100 if year < start % 100 else 0)

    def _take_word(self, letter: str) -> None:
        names = {"G": ("BC", "AD"), "a": ("AM", "PM"), "E": _DAYS}.get(letter, _MONTHS)
        rest = self._text[self._at :].lower()
        short = letter in "EML"
        best, place = 0, -1
        for index, name in enumerate(names):
            for form in (name, name[:3]) if short else (name,):
                if len(form) > best and rest.startswith(form.lower()):
                    best, place = len(form), index
        if place < 0:
            raise DoesNotMatch(self._text)
        self._at += best
        self._fields["M" if letter in "ML" else letter] = place + (letter in "EML")

    def _take_zone(self, part: _Part) -> None:
        pattern = _ISO_ZONES[part.count] if part.letter == "X" else _ZONE
        found = pattern.match(self._text, self._at)
        if found is None:
            raise DoesNotMatch(self._text)
        self._at = found.end()
        if found[1] is not None:
            minutes = int(found[2]) * 60 + int(found[3] or 0)
            if int(found[2]) > 23 or int(found[3] or 0) > 59:
                raise DoesNotMatch(self._text)
            self._offset_ms = (minutes if found[1] == "+" else -minutes) * 60_000

    def epoch_ms(self) -> int:
        """The milliseconds since 1970 that the fields give."""
        given = self._fields
        year = given.get("y", 1970)
        if given.get("G") == 0:
            year = 1 - year
        if "D" in given and not given.keys() & {"d", "M"}:
            number = first_of_year(year) + given["D"] - 1
        elif given.keys() & {"u", "E"} and "d" not in given:
            first = day_number(year, given.get("M", 1), 1)
            wanted = given.get("u", given.get("E", 1)) % 7
            number = first - _before_sunday(first) + wanted
        else:
            number = day_number(year, given.get("M", 1), given.get("d", 1))
        hour = given.get("H", given.get("h", 0) + 12 * given.get("a", 0))
        of_day = hour * 3_600_000 + given.get("m", 0) * 60_000 + given.get("s", 0) * 1_000 + given.get("S", 0)
        return number * DAY_MS + of_day - self._offset_ms


def _as_int(text: str) -> int:
    value = int(text[:40])
    if abs(value) >= 1 << 63:
        return (1 << 31) - 1 if value > 0 else -(1 << 31)
    return ((value + (1 << 31)) & 0xFFFF_FFFF) - (1 << 31)


_TIME: Final = DatePattern("HH:mm:ss.SSS'Z'")
_DATE: Final = DatePattern("yyyy-MM-dd")
_TIMESTAMP: Final = DatePattern("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
