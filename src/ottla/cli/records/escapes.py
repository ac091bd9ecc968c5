r"""Escapes in delimiters and templates: \t, \n, \r, \\ and \xNN."""

from __future__ import annotations

import re
from typing import Final

from ottla.config.errors import UsageError

_SIMPLE: Final = {"t": b"\t", "n": b"\n", "r": b"\r", "\\": b"\\"}
_HEX: Final = re.compile(r"[0-9A-Fa-f]{2}")
_KCAT_HEX: Final = re.compile(r"[0-9A-Fa-f]+")
_KCAT_NUMBER: Final = re.compile(r"[0-9]+")


def escape_at(text: str, position: int) -> tuple[bytes, int]:
    """The byte of the escape whose backslash is at `position`, and the position after it. Raises
    UsageError.
    """
    mark = text[position + 1 : position + 2]
    if mark in _SIMPLE and mark:
        return _SIMPLE[mark], position + 2
    if mark == "x":
        found = _HEX.match(text, position + 2)
        if found is None:
            raise UsageError(rf"{text[position : position + 4]!r}: \x is followed by two hexadecimal digits")
        return bytes([int(found[0], 16)]), found.end()
    if not mark:
        raise UsageError(rf"{text!r} ends in a backslash; \\ is one")
    raise UsageError(rf"\{mark} is no escape: there are \t \n \r \\ \xNN")


def kcat_escape_at(text: str, position: int) -> tuple[bytes, int]:
    r"""As `escape_at`, by kcat's rules: \NNN is a number too, and any other character stands for itself."""
    mark = text[position + 1 : position + 2]
    if not mark:
        return b"\\", position + 1
    if mark in "tnr":
        return _SIMPLE[mark], position + 2
    if mark == "x":
        found = _KCAT_HEX.match(text, position + 2)
        return (b"x", position + 2) if found is None else (bytes([int(found[0], 16) & 0xFF]), found.end())
    number = _KCAT_NUMBER.match(text, position + 1)
    if number is not None:
        octal = number[0].startswith("0") and all(digit < "8" for digit in number[0])
        return bytes([int(number[0], 8 if octal else 10) & 0xFF]), number.end()
    return literal(mark), position + 2


def delimiter(text: str) -> bytes:
    """A delimiter with escapes, at least a byte. Raises UsageError."""
    found = bytearray()
    position = 0
    while position < len(text):
        if text[position] == "\\":
            piece, position = escape_at(text, position)
            found += piece
        else:
            found += literal(text[position])
            position += 1
    if not found:
        raise UsageError("a delimiter is at least one character")
    return bytes(found)


def literal(text: str) -> bytes:
    """The bytes of a text from the command line, which need not be UTF-8."""
    return text.encode("utf-8", "surrogateescape")
