"""Java's regular expressions for Python: named groups, and what a replacement says."""

from __future__ import annotations

import functools
import re

MAX_PATTERN_CHARACTERS = 10_000


@functools.lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern. Raises ValueError for one that is none."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise ValueError(f"a pattern has at most {MAX_PATTERN_CHARACTERS:,} characters")
    try:
        return re.compile(re.sub(r"\(\?<([A-Za-z][A-Za-z0-9]*)>", r"(?P<\1>", pattern))
    except re.error as error:
        raise ValueError(f"{pattern} is no regular expression: {error}") from None


def replaced(text: str, pattern: str, replacement: str) -> str:
    """All matches replaced; in the replacement `$1` and `${name}` are groups, a backslash is an escape."""

    def filled(found: re.Match[str]) -> str:
        return re.sub(
            r"\\(.)|\$(\d)|\$\{(\w+)\}",
            lambda part: (
                part[1] if part[1] is not None else found[int(part[2]) if part[2] else part[3]] or ""
            ),
            replacement,
        )

    return compiled(pattern).sub(filled, text)


def split(text: str, pattern: str) -> list[str]:
    """The parts between the matches; every character alone for an empty pattern."""
    if not pattern:
        return list(text)
    parts, begin = [], 0
    for found in compiled(pattern).finditer(text):
        if found.end() > found.start():
            parts.append(text[begin : found.start()])
            begin = found.end()
    return [*parts, text[begin:]]


def like(text: str, pattern: str, escape: str | None) -> bool:
    """LIKE: `%` any text, `_` any character, both themselves behind the escape character."""
    return _like(pattern, escape).fullmatch(text) is not None


@functools.lru_cache(maxsize=256)
def _like(pattern: str, escape: str | None) -> re.Pattern[str]:
    if escape is not None and len(escape) != 1:
        raise ValueError("ESCAPE takes one character")
    parts, number = [], 0
    while number < len(pattern):
        each = pattern[number]
        if each == escape and number + 1 < len(pattern):
            number += 1
            parts.append(re.escape(pattern[number]))
        else:
            parts.append({"%": ".*", "_": "."}.get(each) or re.escape(each))
        number += 1
    return re.compile("".join(parts), re.DOTALL)
