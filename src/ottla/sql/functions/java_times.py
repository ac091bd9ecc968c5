"""Java's patterns of dates and times (DateTimeFormatter): texts of times and back, in English.

Letters: y u (year), M L (month), d, D (day of year), E (weekday), a (AM, PM), H k h K (hours), m, s,
S (fraction of a second), n (nanosecond), X x Z (offset), z V (zone), 'text', and [optional] parts.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAY_MS = 86_400_000
_MONTHS = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()  # noqa: SIM905
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_LETTERS = frozenset("yuMLdDEeaHkhKmsSnXxZzV")
MAX_PATTERN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Part:
    """A letter so many times, or a literal text; optional parts need not be in a parsed text."""

    letter: str
    count: int
    text: str = ""
    depth: int = 0


@functools.lru_cache(maxsize=256)
def parts_of(pattern: str) -> tuple[Part, ...]:
    """A pattern's parts. Raises ValueError."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise ValueError(f"a pattern has at most {MAX_PATTERN_CHARACTERS} characters")
    parts: list[Part] = []
    depth = 0
    for found in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|\[|\]|.", pattern, re.DOTALL):
        piece = found[0]
        if found[1] is not None:
            parts.append(Part("", 0, found[1].replace("''", "'") or "'", depth))
        elif found[2] is not None:
            if found[2] not in _LETTERS:
                raise ValueError(f"unknown letter {found[2]} in the pattern {pattern}")
            parts.append(Part(found[2], len(piece), "", depth))
        elif piece in "[]":
            depth += 1 if piece == "[" else -1
            parts.append(Part(piece, 0))
        elif piece == "'":
            raise ValueError(f"a quote is not closed in the pattern {pattern}")
        else:
            parts.append(Part("", 0, piece, depth))
    if depth:
        raise ValueError(f"a bracket is not closed in the pattern {pattern}")
    return tuple(parts)


@functools.lru_cache(maxsize=256)
def zone(name: str) -> tzinfo:
    """A zone by name or offset: `Europe/Berlin`, `UTC`, `+02:00`. Raises ValueError."""
    if name in ("Z", "UTC", "GMT"):
        return UTC
    if offset := re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", name):
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        if minutes <= 18 * 60:
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name}") from None


def to_datetime(timestamp_ms: int, where: tzinfo = UTC) -> datetime:
    """A timestamp as a time of a zone. Raises OverflowError beyond the years 1 to 9999."""
    return (_EPOCH + timedelta(milliseconds=timestamp_ms)).astimezone(where)


def to_timestamp(time: datetime) -> int:
    """The milliseconds since 1970 of a time with a zone."""
    return (time - _EPOCH) // timedelta(milliseconds=1)


def to_date(days: int) -> date:
    """A date by the days since 1970."""
    return date.fromordinal(days + _EPOCH_DAY)


def to_days(day: date) -> int:
    """The days since 1970 of a date."""
    return day.toordinal() - _EPOCH_DAY


def formatted(time: datetime, pattern: str) -> str:
    """The time as the pattern says. Raises ValueError."""
    return "".join(_text(time, part) for part in parts_of(pattern))


def _text(time: datetime, part: Part) -> str:
    count = part.count
    match part.letter:
        case "":
            return part.text
        case "y" | "u":
            return f"{time.year % 100:02}" if count == 2 else f"{time.year:0{count}}"
        case "M" | "L":
            return _name(_MONTHS[time.month - 1], count) if count > 2 else f"{time.month:0{count}}"
        case "d":
            return f"{time.day:0{count}}"
        case "D":
            return f"{time.timetuple().tm_yday:0{count}}"
        case "E" | "e":
            return _name(_DAYS[time.weekday()], max(count, 3))
        case "a":
            return "AM" if time.hour < 12 else "PM"
        case "H":
            return f"{time.hour:0{count}}"
        case "k":
            return f"{time.hour or 24:0{count}}"
        case "h":
            return f"{time.hour % 12 or 12:0{count}}"
        case "K":
            return f"{time.hour % 12:0{count}}"
        case "m":
            return f"{time.minute:0{count}}"
        case "s":
            return f"{time.second:0{count}}"
        case "S":
            return f"{time.microsecond:06}000"[:count].ljust(count, "0")
        case "n":
            return f"{time.microsecond * 1000:0{count}}"
        case "X" | "x" | "Z":
            return _offset(time, part)
        case "V":
            return str(time.tzinfo)
        case "z":
            return time.tzname() or ""
    return ""


def _name(name: str, count: int) -> str:
    return name[:3] if count == 3 else name if count == 4 else name[:1]


def _offset(time: datetime, part: Part) -> str:
    seconds = int((time.utcoffset() or timedelta()).total_seconds())
    if part.letter == "X" and seconds == 0:
        return "Z"
    sign, minutes = "-" if seconds < 0 else "+", abs(seconds) // 60
    hours, rest = f"{minutes // 60:02}", f"{minutes % 60:02}"
    if part.letter == "Z":
        return f"{sign}{hours}{rest}"
    if part.count == 1:
        return f"{sign}{hours}" + (rest if minutes % 60 else "")
    return f"{sign}{hours}{':' if part.count in (3, 5) else ''}{rest}"


_DIGITS = {"d": 2, "D": 3, "H": 2, "k": 2, "h": 2, "K": 2, "m": 2, "s": 2}


@functools.lru_cache(maxsize=256)
def _reader(pattern: str) -> re.Pattern[str]:
    """A regular expression for texts of the pattern; groups are named by the letter and a number."""
    made, parts = [], parts_of(pattern)
    for number, part in enumerate(parts):
        letter, count, name = part.letter, part.count, f"{part.letter}{number}"
        following = parts[number + 1].letter if number + 1 < len(parts) else ""
        match letter:
            case "[":
                made.append("(?:")
            case "]":
                made.append(")?")
            case "":
                made.append(re.escape(part.text))
            case "y" | "u":
                digits = (
                    rf"\d{{{count}}}"
                    if count == 2 or following in _DIGITS or (following in "yuM" and following)
                    else r"[+-]?\d{4,9}"
                    if count != 1
                    else r"[+-]?\d{1,9}"
                )
                made.append(f"(?P<{name}>{digits})")
            case "M" | "L" if count > 2:
                made.append(f"(?P<{name}>{'|'.join(each if count == 4 else each[:3] for each in _MONTHS)})")
            case "E" | "e":
                made.append(f"(?P<{name}>{'|'.join(each if count == 4 else each[:3] for each in _DAYS)})")
            case "a":
                made.append(f"(?P<{name}>AM|PM)")
            case "S" | "n":
                made.append(rf"(?P<{name}>\d{{{count}}})")
            case "X" | "x" | "Z":
                made.append(rf"(?P<{name}>Z|[+-]\d{{2}}(?::?\d{{2}})?)")
            case "z" | "V":
                made.append(rf"(?P<{name}>[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*|[+-]\d{{2}}:?\d{{2}})")
            case _:
                made.append(rf"(?P<{name}>\d{{{count if count > 1 else f'1,{_DIGITS.get(letter, 2)}'}}})")
    return re.compile("".join(made), re.IGNORECASE)


def parsed(text: str, pattern: str, where: tzinfo = UTC) -> datetime:
    """The time that a text says; what it leaves out is the beginning of 1970. Raises ValueError.

    where: the zone, where the text says none.
    """
    found = _reader(pattern).fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not of the pattern {pattern}")
    said: dict[str, str] = {}
    lengths: dict[str, int] = {}
    for name, value in found.groupdict().items():
        if value is not None:
            letter = {"u": "y", "L": "M", "e": "E", "x": "X", "Z": "X", "V": "z"}.get(name[0], name[0])
            said[letter], lengths[letter] = value, len(value)
    year = int(said.get("y", 1970))
    if lengths.get("y") == 2:
        year += 2000
    day = _day(said, year)
    fraction = int(said["S"].ljust(6, "0")[:6]) if "S" in said else int(said.get("n", 0)) // 1000
    where = zone(said["X"]) if "X" in said else zone(said["z"]) if "z" in said else where
    return datetime(
        day.year,
        day.month,
        day.day,
        _hour(said),
        int(said.get("m", 0)),
        int(said.get("s", 0)),
        fraction,
        where,
    )


def _day(said: dict[str, str], year: int) -> date:
    if "D" in said:
        found = date(year, 1, 1) + timedelta(days=int(said["D"]) - 1)
        if found.year != year:
            raise ValueError(f"the year {year} has no day {said['D']}")
        return found
    month = said.get("M", "1")
    number = (
        int(month) if month.isdigit() else [each[:3].lower() for each in _MONTHS].index(month[:3].lower()) + 1
    )
    day = int(said.get("d", 1))
    if 28 < day <= 31 and 1 <= number <= 12:
        # Java's smart resolving: the 31st of a shorter month is its last day
        following = date(year + number // 12, number % 12 + 1, 1)
        day = min(day, (following - timedelta(days=1)).day)
    return date(year, number, day)


def _hour(said: dict[str, str]) -> int:
    afternoon = 12 if said.get("a", "").upper() == "PM" else 0
    if "H" in said:
        return int(said["H"])
    if "k" in said:
        return int(said["k"]) % 24
    if "h" in said:
        return int(said["h"]) % 12 + afternoon
    return int(said.get("K", 0)) + afternoon
