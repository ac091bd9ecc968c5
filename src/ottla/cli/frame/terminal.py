"""The width and the colours of a stream, and texts without control characters for it."""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from typing import Final, TextIO

DEFAULT_COLUMNS: Final = 80
CLICKS_LEAST_COLUMNS: Final = 52
"""Help of click is 50 columns wide on narrower terminals too."""
LEAST_HELP_COLUMNS: Final = 24
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Style:
    """Escape sequences of a few styles, as parameters of SGR."""

    BOLD: Final = "1"
    DIM: Final = "2"
    RED: Final = "31"
    GREEN: Final = "32"
    YELLOW: Final = "33"
    CYAN: Final = "36"


def is_terminal(stream: TextIO) -> bool:
    """Whether a person sees the stream."""
    try:
        return stream.isatty()
    except ValueError:  # it is closed
        return False


def has_colours(stream: TextIO) -> bool:
    """Whether colours may be written to the stream: a terminal that has them, and no NO_COLOR."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns_of(stream: TextIO) -> int | None:
    """The number of columns of the terminal; None if the stream is none: lines may have any length."""
    if not is_terminal(stream):
        return None
    return max(10, shutil.get_terminal_size((DEFAULT_COLUMNS, 24)).columns)


def narrow_terminal() -> int | None:
    """The width of help on a terminal that is narrower than click's help; None leaves the width to click."""
    columns = shutil.get_terminal_size((DEFAULT_COLUMNS, 24)).columns
    return max(LEAST_HELP_COLUMNS, columns - 1) if columns < CLICKS_LEAST_COLUMNS else None


def styled(text: str, style: str) -> str:
    """The text in a style."""
    return f"\x1b[{style}m{text}\x1b[0m" if style and text else text


def printable(text: str) -> str:
    r"""The text with control characters as `\x1b`: a group's name must not steer a terminal."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def width_of(text: str) -> int:
    """The number of columns that a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def pieces_of(text: str, width: int) -> list[str]:
    """The text in pieces of at most `width` columns, cut after a space, comma, dot or dash if one is near."""
    pieces = []
    while width_of(text) > width:
        end = _fitting(text, width)
        near = max(text.rfind(mark, end // 2, end) for mark in " ,.-_/")
        end = near + 1 if near > 0 else end
        pieces.append(text[:end].rstrip(" "))
        text = text[end:]
    return [*pieces, text]


def _fitting(text: str, width: int) -> int:
    """The number of the first characters that take at most `width` columns, at least one."""
    taken = 0
    for index, character in enumerate(text):
        taken += _columns(character)
        if taken > width:
            return max(1, index)
    return len(text)
