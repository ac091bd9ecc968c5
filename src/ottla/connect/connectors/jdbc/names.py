"""Names of tables and columns: read from settings, folded as the database folds them, and always quoted.

With quote.sql.identifiers=never a name means what it would mean without quotes, but it still goes into SQL in
quotes: folded first. So no name, whoever gave it, is ever a part of a statement's grammar.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from ottla.connect.data.schema import DataError

MAX_PARTS: Final = 3


class Quoting(enum.StrEnum):
    """quote.sql.identifiers: whether names are taken as they are, or as if nobody had quoted them."""

    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """A table's name, with those of its catalog (MariaDB's database) and schema (PostgreSQL) where known."""

    name: str
    schema: str | None = None
    catalog: str | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The names from the outermost one to the table's own."""
        return tuple(each for each in (self.catalog, self.schema, self.name) if each is not None)

    def __str__(self) -> str:
        return ".".join(self.parts)


def quoted(name: str, mark: str) -> str:
    """A name in quotes of one character. Raises DataError for one that no database takes."""
    if not name:
        raise DataError("a name of a table or column is empty")
    if "\0" in name:
        raise DataError(f"a name of a table or column has the character NUL: {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError as problem:
        raise DataError(f"a name of a table or column is no text: {problem}") from None
    return mark + name.replace(mark, mark + mark) + mark


def split_name(text: str, mark: str) -> list[tuple[str, bool]]:
    """The parts of a dotted name, and whether each stood in quotes, where dots and doubled quotes may be.

    Raises DataError.
    """
    parts: list[tuple[str, bool]] = []
    at = 0
    while True:
        if text[at : at + 1] == mark:
            part, at = _in_quotes(text, at + 1, mark)
            parts.append((part, True))
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            parts.append((text[at:end].strip(), False))
            at = end
        if not parts[-1][0]:
            raise DataError(f"the name {text!r} has an empty part")
        if at == len(text):
            break
        if text[at] != ".":
            raise DataError(f"the name {text!r} goes on behind a quote")
        at += 1
    if len(parts) > MAX_PARTS:
        raise DataError(f"the name {text!r} has more than {MAX_PARTS} parts")
    return parts


def _in_quotes(text: str, start: int, mark: str) -> tuple[str, int]:
    """The text up to the closing quote, and the place behind it."""
    found: list[str] = []
    at = start
    while at < len(text):
        if text[at] != mark:
            found.append(text[at])
            at += 1
        elif text[at + 1 : at + 2] == mark:
            found.append(mark)
            at += 2
        else:
            return "".join(found), at + 1
    raise DataError(f"the name {text!r} has a quote that nothing closes")
