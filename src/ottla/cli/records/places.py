"""Places in a topic in words, for --from, --to and --offset: `start`, `end`, `17`, `+3`, `-10`, `@TIME`,
ranges.

A time is ISO 8601 (a date, or date and time; UTC unless it has an offset), ten digits of seconds or more of
milliseconds since 1970, or a duration relative to now: `@-1h`, `@-1d12h`, `@-90m`; kcat's `s@` and `e@` with
milliseconds, rpk's `@START:END`, are read too.
"""

from __future__ import annotations

import datetime
import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.config.errors import UsageError

LARGEST_OFFSET: Final = (1 << 63) - 1
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_DURATION: Final = re.compile(r"(-?)((?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d|w))+)")
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|-?(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+|\d+|end|now"
)
HELP: Final = "start, end, an offset, -N (before the end), +N (after the start), or @TIME"


class Anchor(enum.Enum):
    """The offset that a place is counted from."""

    ZERO = "zero"
    START = "start"
    END = "end"
    TIME = "time"
    COMMITTED = "committed"


class Place(NamedTuple):
    """A place in every partition: `distance` offsets after the anchor, or the first record of a time in
    ms.
    """

    anchor: Anchor
    distance: int = 0
    time_ms: int = 0


START: Final = Place(Anchor.START)
END: Final = Place(Anchor.END)
COMMITTED: Final = Place(Anchor.COMMITTED)


class Range(NamedTuple):
    """Where to begin, and where to stop; None is without an end."""

    begin: Place
    stop: Place | None


def parse_place(text: str, now_ms: int) -> Place:
    """A place in words. Raises UsageError."""
    match text.strip().lower():
        case "start" | "beginning" | "oldest" | "earliest":
            return START
        case "end" | "newest" | "latest":
            return END
        case "stored" | "committed":
            return COMMITTED
        case word if word.startswith(("@", "s@", "e@")):
            return Place(Anchor.TIME, time_ms=parse_time(text.strip().partition("@")[2], now_ms))
        case word if word[:1] in "+-" and _NUMBER.fullmatch(word[1:]):
            distance = _offset(word[1:])
            return Place(Anchor.START, distance) if word[0] == "+" else Place(Anchor.END, -distance)
        case word if _NUMBER.fullmatch(word):
            return Place(Anchor.ZERO, _offset(word))
    raise UsageError(f"{text!r} is no place in a topic: {HELP}")


def parse_range(text: str, now_ms: int) -> Range:
    """A place or `PLACE:PLACE`, of which each side may be missing; times may have colons. Raises
    UsageError.
    """
    if "@" in text:
        return _time_range(text, now_ms)
    first, colon, second = text.partition(":")
    if not colon:
        return Range(parse_place(text, now_ms), None)
    begin = parse_place(first, now_ms) if first else START
    return Range(begin, parse_place(second, now_ms) if second else None)


def _time_range(text: str, now_ms: int) -> Range:
    """A range of which one side at least is a time."""
    rest = text.strip()
    if rest[:2] == "e@":
        return Range(START, parse_place(rest, now_ms))
    if rest[:1] in ("@", "s") and "@" in rest[:2]:
        at = rest.index("@") + 1
        found = _TIME.match(rest, at)
        if rest[at : at + 1] == ":":
            begin, end = START, at
        elif found is None:
            raise UsageError(f"{text!r}: there is no time after @")
        else:
            begin, end = Place(Anchor.TIME, time_ms=parse_time(found[0], now_ms)), found.end()
        rest = rest[end:]
        if not rest:
            return Range(begin, None)
        if rest[0] != ":":
            raise UsageError(f"{text!r}: the time ends before {rest[:30]!r}")
        rest = rest[1:]
        if not rest:
            return Range(begin, None)
        if "@" not in rest and (rest == "end" or not _NUMBER.fullmatch(rest) or len(rest) >= 10):
            return Range(
                begin, END if rest == "end" else Place(Anchor.TIME, time_ms=parse_time(rest, now_ms))
            )
        return Range(begin, parse_place(rest, now_ms))
    first, _, second = rest.partition(":")
    return Range(parse_place(first, now_ms) if first else START, parse_place(second, now_ms))


def parse_time(text: str, now_ms: int) -> int:
    """A time in ms since 1970. Raises UsageError."""
    text = text.strip()
    if text == "now":
        return now_ms
    if re.fullmatch(r"[0-9]{1,19}", text):
        # ten digits are seconds, as in rpk: as milliseconds they would be in January 1970
        return _offset(text) * (1_000 if len(text) == 10 else 1)
    duration = _DURATION.fullmatch(text)
    if duration is not None:
        total = sum(float(number) * _UNIT_MS[unit] for number, unit in _PART.findall(duration[2]))
        if total > LARGEST_OFFSET // 2:
            raise UsageError(f"{text!r} is too long a time")
        return now_ms + round(-total if duration[1] else total)
    try:
        found = datetime.datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        raise UsageError(
            f"{text!r} is no time: an ISO date or time, milliseconds, or a duration like -1h"
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.UTC)
    return (found - _EPOCH) // datetime.timedelta(milliseconds=1)


_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _offset(digits: str) -> int:
    number = int(digits)
    if number > LARGEST_OFFSET:
        raise UsageError(f"{digits} is larger than any offset")
    return number


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets of a partition: the log's first, and the one after the last that a reader may see.

    at_time: the first offset not older than each time that was asked for, None if all records are older.
    committed: a group's, None if it has none.
    """

    start: int
    end: int
    at_time: Mapping[int, int | None]
    committed: int | None = None


def begin_offset(place: Place, bounds: Bounds) -> int:
    """The first offset to read, within the log; a larger one only where a plain offset says so."""
    found = _resolved(place, bounds)
    if place.anchor is Anchor.ZERO:
        return max(found, bounds.start)
    return min(max(found, bounds.start), bounds.end)


def stop_offset(place: Place, bounds: Bounds) -> int:
    """The offset before which to stop. A plain offset may lie beyond the present end: it is waited for."""
    return _resolved(place, bounds)


def _resolved(place: Place, bounds: Bounds) -> int:
    match place.anchor:
        case Anchor.ZERO:
            return place.distance
        case Anchor.START:
            return bounds.start + place.distance
        case Anchor.END:
            return bounds.end + place.distance
        case Anchor.TIME:
            found = bounds.at_time[place.time_ms]
            return bounds.end if found is None else found
        case Anchor.COMMITTED:
            return bounds.start if bounds.committed is None else bounds.committed
