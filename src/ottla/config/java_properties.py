"""Reads and writes Java's properties files, the format of `server.properties`.

The rules: `key=value`, `key:value` or `key value`; space around the separator goes; `#` and `!` begin a
comment line; a backslash at the end of a line joins the next one to it; backslashes escape (`\\t \\n \\r \\f
\\uXXXX`, any other character is itself). The last value of a key counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPACE = " \t\f"
_WRITTEN = {"\\": "\\\\", **{character: f"\\{letter}" for letter, character in _ESCAPES.items()}}


class Property(NamedTuple):
    """A value and the line (from 1) on which its key stands."""

    value: str
    line: int


class MalformedProperties(ValueError):
    """A line that can't be read."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line
        self.problem = problem


def parse_properties(text: str) -> dict[str, Property]:
    """The properties of a file's text. Raises MalformedProperties for a broken escape."""
    properties: dict[str, Property] = {}
    for number, line in _logical_lines(text):
        try:
            key, value = _split(line)
        except ValueError as problem:
            raise MalformedProperties(number, str(problem)) from None
        properties[key] = Property(value, number)
    return properties


def properties_text(properties: Mapping[str, str]) -> str:
    """The text of a file with these properties, a line each; `parse_properties` reads the same from it."""
    return "".join(f"{_escaped(name, '=: #!')}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(text: str, marks: str = "") -> str:
    """The text with backslashes before `marks` and before a space at its beginning."""
    escaped = "".join(
        _WRITTEN.get(character, f"\\{character}" if character in marks else character) for character in text
    )
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with continuations joined and comments left out, each with the number of its first line."""
    joined: str | None = None
    start = 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_SPACE)
        if joined is None:
            if not line or line[0] in "#!":
                continue
            start = number
            joined = ""
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            joined += line[:-1]
            continue
        yield start, joined + line
        joined = None
    if joined:
        yield start, joined


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=:" + _SPACE:
        position += 2 if line[position] == "\\" else 1
    rest = line[position:].lstrip(_SPACE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_SPACE)
    return _unescape(line[:position]), _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            parts.append(character)
            continue
        escape = text[position]
        position += 1
        if escape == "u":
            digits = text[position : position + 4]
            if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise ValueError(f"\\u must be followed by four hexadecimal digits, not {digits!r}")
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escape, escape))
    # A pair of surrogates, each escaped, is one character.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
