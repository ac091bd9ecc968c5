"""Lengths of time and functions in words, for descriptions of a topology."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def duration(milliseconds: int) -> str:
    """A length of time in the units that people use: `1 h 30 min`, `1.5 s`, `250 ms`."""
    parts = []
    rest = milliseconds
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count} {unit}")
    if rest >= 1_000:
        parts.append(f"{rest / 1_000:g} s")
    elif rest or not parts:
        parts.append(f"{rest} ms" if rest else "0 s")
    return " ".join(parts)


def function_name(function: Callable[..., Any]) -> str:
    """The name of a user's function: of the innermost one in a partial, `a function` for a lambda."""
    while isinstance(function, functools.partial):
        function = next((each for each in function.args if callable(each)), function.func)
    name = getattr(function, "__name__", type(function).__name__)
    return "a function" if name == "<lambda>" else str(name)


def grace_text(grace_ms: int) -> str:
    """When a window with this grace closes."""
    if not grace_ms:
        return "closed when event time has passed the end"
    return f"closed when event time has passed the end by {duration(grace_ms)}"
