"""The statements of a migration: which may be in one, and where in the file another one stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.sql.language.errors import SqlError
from ottla.sql.language.parser import parse_script
from ottla.sql.language.statements import (
    Describe,
    Explain,
    Print,
    RunScript,
    Select,
    SetProperty,
    Show,
)
from ottla.sql.terminal.statements import Part, parts_of

_ASKS: Final = (Describe, Explain, Print, RunScript, Select, Show)


def migration_parts(text: str, variables: Mapping[str, str]) -> list[Part]:
    """The statements of a file, with their places. variables: those that hold from its beginning.

    Raises SqlError for a text that can't be parsed, and for a statement that changes nothing.
    """
    for each in parse_script(text, variables):
        if isinstance(each.statement, SetProperty) and each.statement.system:
            raise SqlError(
                "a migration has no ALTER SYSTEM", each.statement.at, "it is no change of the data"
            )
        if isinstance(each.statement, _ASKS):
            word = each.text.split(None, 1)[0].upper()
            raise SqlError(f"a migration has no {word}", each.statement.at, "it may only change something")
    parts = parts_of(text)
    if not parts:
        raise SqlError("the file has no statement", None, "write what this version changes")
    return parts
