"""The options of `%sql` and `%%sql`: what stands before the statement, in the magic's own line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ottla.config.errors import UsageError

SHOWN_ROWS: Final = 50


@dataclass(frozen=True, slots=True)
class Options:
    """What one magic is given. limit, seconds: of push queries; into: the variable that gets a DataFrame."""

    server: str | None = None
    user: str | None = None
    command_config: Path | None = None
    limit: int | None = None
    seconds: float | None = None
    rows: int = SHOWN_ROWS
    into: str | None = None


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise ValueError("a whole number from 1")
    return int(text)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) or float(text) <= 0:
        raise ValueError("a number of seconds above 0")
    return float(text)


def _variable(text: str) -> str:
    if not text.isidentifier():
        raise ValueError("the name of a variable")
    return text


OPTIONS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "server": ("URL", str),
    "user": ("NAME", str),
    "command-config": ("FILE", Path),
    "limit": ("ROWS", _count),
    "seconds": ("SECONDS", _seconds),
    "rows": ("ROWS", _count),
    "into": ("VARIABLE", _variable),
}
"""Each option with what it is given."""
_OPTION: Final = re.compile(r"\s*--([A-Za-z][\w-]*)(?:\s*=\s*|\s+|\Z)('[^']*'|\"[^\"]*\"|[^\s'\"]\S*)?")


def parsed(line: str) -> tuple[Options, str]:
    """The options at a line's beginning, and the statement behind them. Raises UsageError."""
    options = Options()
    while found := _OPTION.match(line):
        name, text = found[1], found[2]
        known = OPTIONS.get(name)
        if known is None:
            listed = ", ".join(f"--{each} {what}" for each, (what, _) in OPTIONS.items())
            raise UsageError(f"there is no option --{name}; there are: {listed}")
        metavar, convert = known
        if text is None:
            raise UsageError(f"write --{name} {metavar}")
        try:
            value = convert(text[1:-1] if text[0] in "'\"" else text)
        except ValueError as problem:
            raise UsageError(f"--{name} {metavar}: {problem}, not {text}") from None
        options = replace(options, **{name.replace("-", "_"): value})
        line = line[found.end() :]
    return options, line.strip()
