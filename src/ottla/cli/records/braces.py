"""Braces in templates: the text within `{name[text]}`, and the end of `{…}` that may hold braces itself."""

from __future__ import annotations

from typing import Final

from ottla.config.errors import UsageError

_CLOSING: Final = {"{": "}", "[": "]", "(": ")"}


def simple(layout: str, at: int, verb: str) -> tuple[str, int]:
    """The text of the braces that begin at `at`, which hold no brace, and the position after them.

    verb: the letter before them, for errors. Raises UsageError.
    """
    end = layout.find("}", at)
    if end < 0:
        raise UsageError(f"the brace after %{verb} is not closed")
    return layout[at + 1 : end], end + 1


def enclosed(layout: str, at: int, name: str, verb: str) -> tuple[str, int]:
    """The text of `{name[text]}` at `at`, and the position after it.

    The brackets are of any kind and number, or marks like `#`. Raises UsageError.
    """
    start = at + 1 + len(name)
    if start >= len(layout):
        raise UsageError(f"%{verb}{{{name}: the text in brackets is missing")
    mark, count = layout[start], 1
    while layout[start + count : start + count + 1] == mark:
        count += 1
    closing = _CLOSING.get(mark, mark) * count
    end = layout.find(closing, start + count)
    if end < 0 or layout[end + count : end + count + 1] != "}":
        raise UsageError(f"%{verb}{{{name}{mark}: {closing}}} is missing")
    return layout[start + count : end], end + count + 1


def nested(layout: str, at: int, verb: str) -> tuple[str, int]:
    """The text of the braces that begin at `at`, and the position after them; `%{` and `%}` are no braces.

    Raises UsageError.
    """
    depth, end = 1, at + 1
    while depth and end < len(layout):
        if layout[end] in "{}" and layout[end - 1] != "%":
            depth += 1 if layout[end] == "{" else -1
        end += 1
    if depth:
        raise UsageError(f"the brace after %{verb} is not closed")
    return layout[at + 1 : end - 1], end
