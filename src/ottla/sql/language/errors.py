"""Errors in a statement: what is wrong, where (line, column, a caret), and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.config.errors import UserError

MAX_SHOWN_CHARACTERS = 160


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a statement's text: line and column count from 1, the offset from 0."""

    offset: int
    line: int
    column: int


START = Position(0, 1, 1)


class SqlError(UserError):
    """A statement that can't be parsed, bound or planned.

    `message` has one line. `position` is None where no single place is wrong. `shown(text)` is the message
    with the line of the text, a caret under the place, and the advice.
    """

    def __init__(self, message: str, position: Position | None = None, advice: str | None = None) -> None:
        where = "" if position is None else f"line {position.line}, column {position.column}: "
        super().__init__(f"{where}{message}" + ("" if advice is None else f" ({advice})"))
        self.message = message
        self.position = position
        self.advice = advice

    def shown(self, text: str) -> str:
        """The error for a person who sees the statement's text."""
        lines = [self.message]
        if self.position is not None:
            at = self.position
            lines[0] = f"line {at.line}, column {at.column}: {self.message}"
            found = text.splitlines()
            lines += _with_caret(found[at.line - 1] if at.line <= len(found) else "", at.column)
        if self.advice is not None:
            lines.append(f"  {self.advice}")
        return "\n".join(lines)


def _with_caret(line: str, column: int) -> list[str]:
    """The line and a caret under its column, cut where the line is long. Tabs stay, so that both align."""
    begin = 0
    if len(line) > MAX_SHOWN_CHARACTERS:
        begin = max(0, min(column - 1 - MAX_SHOWN_CHARACTERS // 2, len(line) - MAX_SHOWN_CHARACTERS))
    cut = line[begin : begin + MAX_SHOWN_CHARACTERS]
    before = line[begin : column - 1]
    return [f"  {cut}", "  " + "".join("\t" if each == "\t" else " " for each in before) + "^"]
