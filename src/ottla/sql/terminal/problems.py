"""What a server says about a statement, shown at its place in the text that the user gave.

A message that begins with `line 1, column 8:` (ottla's servers) or `line 1:8:` (ksqlDB's) is about the text
of the statement that was sent; lines behind it with a caret, and the advice below, are ottla's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.sql.language.errors import Position, SqlError
from ottla.sql.terminal.http import SqlRefusal

_PLACE: Final = re.compile(r"line (\d{1,9})(?:, column |:)(\d{1,9}): ?(.*)", re.S)
_MAX_LINES: Final = 40


def error_of(refusal: SqlRefusal, at: Position) -> SqlError:
    """The error of a statement that begins there in its text, with its place if the server told one."""
    message, position, advice = _parted(refusal.message)
    position = _position(refusal.told.get("position")) or position
    told = refusal.told.get("advice")
    if isinstance(told, str) and told:
        advice = told
        message = message.removesuffix(f" ({told})").removesuffix(f"\n  {told}")
    if position is None:
        return SqlError(message, None, advice)
    column = position.column + (at.column - 1 if position.line == 1 else 0)
    return SqlError(message, Position(at.offset, at.line + position.line - 1, column), advice)


def shown(error: SqlError, text: str) -> str:
    """The error with the line of the text, a caret, and the advice; of one line where there is no place."""
    return error.shown(text) if error.position is not None or error.advice is not None else error.message


def _parted(message: str) -> tuple[str, Position | None, str | None]:
    """Message, place and advice out of a server's text."""
    first, *rest = message.strip().splitlines()[:_MAX_LINES] or [""]
    carets = [number for number, line in enumerate(rest) if line.strip() == "^"]
    advice = None
    if carets:
        advice = " ".join(line.strip() for line in rest[carets[0] + 1 :]) or None
        rest = []
    found = _PLACE.match(first)
    whole = "\n".join([found[3] if found else first, *rest])
    return whole, Position(0, int(found[1]), int(found[2])) if found else None, advice


def _position(told: Any) -> Position | None:
    if not isinstance(told, Mapping):
        return None
    line, column = told.get("line"), told.get("column")
    if not isinstance(line, int) or not isinstance(column, int) or line < 1 or column < 1:
        return None
    return Position(0, line, column)
