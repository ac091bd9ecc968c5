"""Numbers and times as templates write them: digits, hexadecimal, binary of a fixed size, dates."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Final

FormatNumber = Callable[[int], bytes]

_MASK: Final = (1 << 64) - 1
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def ascii_number(number: int) -> bytes:
    """Decimal digits."""
    return b"%d" % number


def _hexadecimal(digits: int) -> FormatNumber:
    mask = (1 << 4 * digits) - 1
    return lambda number: b"%0*x" % (digits, number & mask)


def _binary(size: int, order: str) -> FormatNumber:
    mask = (1 << 8 * size) - 1
    if order == "big":
        return lambda number: (number & mask).to_bytes(size, "big")
    return lambda number: (number & mask).to_bytes(size, "little")


NUMBER_FORMATS: Final[dict[str, FormatNumber]] = {
    "ascii": ascii_number,
    "number": ascii_number,
    "hex": lambda number: b"%x" % (number & _MASK),
    "hex64": _hexadecimal(16),
    "hex32": _hexadecimal(8),
    "hex16": _hexadecimal(4),
    "hex8": _hexadecimal(2),
    "hex4": _hexadecimal(1),
    "big64": _binary(8, "big"),
    "big32": _binary(4, "big"),
    "big16": _binary(2, "big"),
    "big8": _binary(1, "big"),
    "little64": _binary(8, "little"),
    "little32": _binary(4, "little"),
    "little16": _binary(2, "little"),
    "little8": _binary(1, "little"),
    "byte": _binary(1, "big"),
    "bool": lambda number: b"true" if number else b"false",
}
"""By the names of rpk's formats; numbers that are too large lose their high bits, as there."""


def moment(timestamp_ms: int) -> datetime.datetime | None:
    """The time in UTC, None for one that no calendar has."""
    try:
        return _EPOCH + datetime.timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None


def strftime_format(pattern: str) -> FormatNumber:
    """A time in ms by a pattern of strftime(3), in UTC; the number itself where no calendar has it."""

    def formatted(timestamp_ms: int) -> bytes:
        at = moment(timestamp_ms)
        return ascii_number(timestamp_ms) if at is None else _encoded(at.strftime(pattern))

    return formatted


def go_format(layout: str) -> FormatNumber:
    """A time in ms by a layout of Go's package time, in UTC; the number itself where no calendar has it."""
    pieces: list[str | Callable[[datetime.datetime], str]] = []
    position = 0
    for found in _GO_TOKEN.finditer(layout):
        pieces.append(layout[position : found.start()])
        pieces.append(_go_piece(found[0]))
        position = found.end()
    pieces.append(layout[position:])

    def formatted(timestamp_ms: int) -> bytes:
        at = moment(timestamp_ms)
        if at is None:
            return ascii_number(timestamp_ms)
        return _encoded("".join(piece if isinstance(piece, str) else piece(at) for piece in pieces))

    return formatted


_MONTHS: Final = [
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
]
_DAYS: Final = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_GO_TOKEN: Final = re.compile(
    r"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|2006|__2|002|_2(?!006)|0[1-6]|15|PM|pm"
    r"|Z07:00:00|Z070000|Z07:00|Z0700|Z07|-07:00:00|-070000|-07:00|-0700|-07"
    r"|[.,]0+(?![0-9])|[.,]9+(?![0-9])|[1-5]"
)
_GO_PIECES: Final[dict[str, Callable[[datetime.datetime], str]]] = {
    "January": lambda at: _MONTHS[at.month - 1],
    "Jan": lambda at: _MONTHS[at.month - 1][:3],
    "01": lambda at: f"{at.month:02}",
    "1": lambda at: str(at.month),
    "Monday": lambda at: _DAYS[at.weekday()],
    "Mon": lambda at: _DAYS[at.weekday()][:3],
    "02": lambda at: f"{at.day:02}",
    "_2": lambda at: f"{at.day:2}",
    "2": lambda at: str(at.day),
    "002": lambda at: f"{at.timetuple().tm_yday:03}",
    "__2": lambda at: f"{at.timetuple().tm_yday:3}",
    "15": lambda at: f"{at.hour:02}",
    "03": lambda at: f"{at.hour % 12 or 12:02}",
    "3": lambda at: str(at.hour % 12 or 12),
    "04": lambda at: f"{at.minute:02}",
    "4": lambda at: str(at.minute),
    "05": lambda at: f"{at.second:02}",
    "5": lambda at: str(at.second),
    "2006": lambda at: f"{at.year:04}",
    "06": lambda at: f"{at.year % 100:02}",
    "PM": lambda at: "PM" if at.hour >= 12 else "AM",
    "pm": lambda at: "pm" if at.hour >= 12 else "am",
    "MST": lambda at: "UTC",
}


def _go_piece(token: str) -> Callable[[datetime.datetime], str]:
    if token in _GO_PIECES:
        return _GO_PIECES[token]
    if token[0] == "Z":
        return lambda at: "Z"
    if token[0] == "-":
        zeros = "+" + "".join("0" if character.isdigit() else character for character in token[1:])
        return lambda at: zeros
    digits = len(token) - 1
    mark = token[0]
    if token[1] == "0":
        return lambda at: mark + f"{at.microsecond * 1_000:09}"[:digits].ljust(digits, "0")

    def trimmed(at: datetime.datetime) -> str:
        fraction = f"{at.microsecond * 1_000:09}"[:digits].rstrip("0")
        return mark + fraction if fraction else ""

    return trimmed


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
