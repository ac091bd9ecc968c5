"""PostgreSQL's texts of arrays, hstore, intervals, points and bits, as values; no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.connect.data.schema import DataError

MAX_DIMENSIONS: Final = 6
"""PostgreSQL's own limit."""
_PLAIN_ARRAY: Final = re.compile(r'\{[^"\\{}]*\}')


def array_elements(text: str, delimiter: str = ",") -> list[str | None]:
    """The elements of '{a,"b c",NULL}', those of several dimensions in one row. Raises DataError."""
    if text.startswith("["):  # bounds: [2:3]={a,b}
        _, mark, text = text.partition("=")
        if not mark:
            raise DataError("an array's bounds have no end")
    if delimiter == "," and _PLAIN_ARRAY.fullmatch(text):
        inner = text[1:-1]
        if not inner:
            return []
        return [None if each == "NULL" else each for each in inner.split(",")]
    return _quoted_elements(text, delimiter)


def _quoted_elements(text: str, delimiter: str) -> list[str | None]:
    found: list[str | None] = []
    depth, at, end = 0, 0, len(text)
    while at < end:
        character = text[at]
        if character == "{":
            depth += 1
            if depth > MAX_DIMENSIONS:
                raise DataError(f"an array of more than {MAX_DIMENSIONS} dimensions")
            at += 1
        elif depth == 0:
            raise DataError("an array does not begin with a brace")
        elif character == "}":
            depth -= 1
            at += 1
            if depth == 0:
                break
        elif character == delimiter:
            at += 1
        elif character == '"':
            value, at = _quoted(text, at + 1)
            found.append(value)
        else:
            start = at
            parts: list[str] = []
            while at < end and text[at] not in (delimiter, "}"):
                if text[at] == "\\":
                    parts.append(text[start:at])
                    start = at + 1
                    at += 1
                at += 1
            parts.append(text[start:at])
            value = "".join(parts)
            found.append(None if value == "NULL" else value)
    if depth != 0 or at != end or not end:
        raise DataError("an array's braces don't match")
    return found


def _quoted(text: str, at: int) -> tuple[str, int]:
    """What stands up to the closing quote, and the place behind it."""
    parts: list[str] = []
    start = at
    while at < len(text):
        character = text[at]
        if character == '"':
            parts.append(text[start:at])
            return "".join(parts), at + 1
        if character == "\\":
            parts.append(text[start:at])
            start = at + 1
            at += 1
        at += 1
    raise DataError("a quoted text has no end")


def hstore_pairs(text: str) -> dict[str, str | None]:
    """The pairs of '"a"=>"b", "c"=>NULL', in their order. Raises DataError."""
    found: dict[str, str | None] = {}
    at, end = 0, len(text)
    while at < end:
        if text[at] != '"':
            raise DataError("a key of hstore is not quoted")
        key, at = _quoted(text, at + 1)
        if text[at : at + 2] != "=>":
            raise DataError("a key of hstore has no value")
        at += 2
        if text[at : at + 1] == '"':
            value: str | None
            value, at = _quoted(text, at + 1)
        elif text[at : at + 4] == "NULL":
            value, at = None, at + 4
        else:
            raise DataError("a value of hstore is neither quoted nor NULL")
        found[key] = value
        if at < end:
            if text[at] != ",":
                raise DataError("pairs of hstore have no comma in between")
            at += 1
            while at < end and text[at] == " ":
                at += 1
    return found


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval's parts, each with its own sign."""

    years: int = 0
    months: int = 0
    days: int = 0
    hours: int = 0
    minutes: int = 0
    seconds: float = 0.0


_UNITS: Final[Mapping[str, str]] = {
    "year": "years",
    "years": "years",
    "mon": "months",
    "mons": "months",
    "day": "days",
    "days": "days",
}
AVERAGE_DAYS_OF_MONTH: Final = 365.25 / 12


def interval_of(text: str) -> Interval:
    """The interval of '1 year 2 mons -3 days -04:05:06.7', IntervalStyle postgres. Raises DataError."""
    parts: dict[str, int] = {}
    hours, minutes, seconds = 0, 0, 0.0
    words = text.split()
    at = 0
    try:
        while at < len(words):
            word = words[at]
            if ":" in word:
                sign = -1 if word[0] == "-" else 1
                first, second, third = word.lstrip("+-").split(":")
                hours, minutes, seconds = sign * int(first), sign * int(second), sign * float(third)
                at += 1
            else:
                parts[_UNITS[words[at + 1]]] = int(word)
                at += 2
    except (KeyError, IndexError, ValueError):
        raise DataError(f"{text!r} is no interval in the style of PostgreSQL") from None
    return Interval(
        parts.get("years", 0), parts.get("months", 0), parts.get("days", 0), hours, minutes, seconds
    )


def interval_us(interval: Interval) -> int:
    """About how long it is: a month has 30.4375 days, in doubles, as Debezium reckons."""
    days = (interval.years * 12 + interval.months) * AVERAGE_DAYS_OF_MONTH + interval.days
    return int((((days * 24 + interval.hours) * 60 + interval.minutes) * 60 + interval.seconds) * 1e6)


def interval_text(interval: Interval) -> str:
    """As P1Y2M3DT4H5M6.7S, with each part."""
    seconds = _plain_seconds(interval.seconds)
    return (
        f"P{interval.years}Y{interval.months}M{interval.days}DT{interval.hours}H{interval.minutes}M{seconds}S"
    )


def _plain_seconds(seconds: float) -> str:
    text = f"{seconds:.6f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def point_of(text: str) -> tuple[float, float]:
    """The coordinates of '(1,2.5)'. Raises DataError."""
    x, mark, y = text.removeprefix("(").removesuffix(")").partition(",")
    try:
        if mark:
            return float(x), float(y)
    except ValueError:
        pass
    raise DataError(f"{text!r} is no point")


def bits_of(text: str) -> bytes:
    """The bits of '0101', the last one lowest, in as few bytes as hold those that are set."""
    number = int(text, 2) if text else 0
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def vector_of(text: str) -> list[float]:
    """The numbers of '[1,2.5]'. Raises ValueError."""
    inner = text.strip().removeprefix("[").removesuffix("]")
    return [float(each) for each in inner.split(",")] if inner else []


def sparse_vector_of(text: str) -> tuple[int, dict[int, float]]:
    """The dimensions, and the numbers by their places, of '{1:1.5,3:2}/5'. Raises ValueError."""
    pairs, _, dimensions = text.rpartition("/")
    inner = pairs.strip().removeprefix("{").removesuffix("}")
    found: dict[int, float] = {}
    for each in inner.split(",") if inner else ():
        place, _, number = each.partition(":")
        found[int(place)] = float(number)
    return int(dimensions), found
