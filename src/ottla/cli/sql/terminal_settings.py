"""What can be set of the terminal itself: by a word (`wrap OFF`), or by a statement (`SET CLI WRAP OFF;`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.cli.sql.sheet import Form, Sheet
from ottla.config.errors import UserError
from ottla.sql.terminal.session import Session

MOST_COLUMNS: Final = 10_000
MOST_SECONDS: Final = 86_400
LEAST_COLUMNS: Final = 2
"""A letter of some scripts takes two."""
_SWITCH: Final = {"ON": True, "OFF": False}
_OF_KSQLDB: Final = {"tabular": Form.TABLE}


@dataclass(frozen=True, slots=True)
class TerminalSetting:
    """One of them. values: what it can be; takes raises UserError; told: what it is, as a sentence."""

    values: str
    what: str
    takes: Callable[[str, Sheet, Session], None]
    told: Callable[[Sheet, Session], str]


def set_or_tell(name: str, value: str | None, sheet: Sheet, session: Session) -> None:
    """Set one, or say what it is. Raises UserError."""
    found = SETTINGS.get(name.lower())
    if found is None:
        known = ", ".join(name.upper() for name in SETTINGS)
        raise UserError(f"the terminal has no setting {name.upper()}; it has: {known}")
    if value is not None:
        found.takes(value, sheet, session)
    sheet.say(found.told(sheet, session))


def _switched(word: str) -> bool:
    found = _SWITCH.get(word.upper())
    if found is None:
        raise UserError(f"write ON or OFF, not {word}")
    return found


def _whole(word: str, most: int) -> int:
    if not word.isascii() or not word.isdigit() or len(word) > len(str(most)) or int(word) > most:
        raise UserError(f"write a number from 0 to {most:,}, not {word}")
    return int(word)


def _set_form(word: str, sheet: Sheet, session: Session) -> None:
    names = {each.value: each for each in Form} | _OF_KSQLDB
    form = names.get(word.lower())
    if form is None:
        raise UserError(f"there is no form {word}; there are: {', '.join(each.value for each in Form)}")
    sheet.form = form


def _set_wraps(word: str, sheet: Sheet, session: Session) -> None:
    sheet.wraps = _switched(word)


def _set_column_width(word: str, sheet: Sheet, session: Session) -> None:
    width = _whole(word, MOST_COLUMNS)
    if 0 < width < LEAST_COLUMNS:
        raise UserError(f"columns are at least {LEAST_COLUMNS} wide; 0 makes them as wide as their texts")
    sheet.column_width = width or None


def _set_live(word: str, sheet: Sheet, session: Session) -> None:
    sheet.live = _switched(word)


def _set_pipelining(word: str, sheet: Sheet, session: Session) -> None:
    session.waits = not _switched(word)


def _set_timeout(word: str, sheet: Sheet, session: Session) -> None:
    seconds = _whole(word, MOST_SECONDS)
    if seconds == 0:
        raise UserError("write the seconds that an answer may take, from 1 on")
    session.api.answer_seconds = seconds


def _width_told(sheet: Sheet, session: Session) -> str:
    width = sheet.column_width
    return "columns are as wide as their texts" if width is None else f"columns are {width} wide"


SETTINGS: Final[dict[str, TerminalSetting]] = {
    "output": TerminalSetting(
        "FORM",
        f"how results are written: {', '.join(each.value for each in Form)}",
        _set_form,
        lambda sheet, session: f"results are written as {sheet.form.value}",
    ),
    "wrap": TerminalSetting(
        "ON|OFF",
        "long texts in tables go on below, or are cut",
        _set_wraps,
        lambda sheet, session: f"long texts {'go on below' if sheet.wraps else 'are cut'}",
    ),
    "column-width": TerminalSetting(
        "NUMBER",
        "how wide a table's columns are; 0: as their texts",
        _set_column_width,
        _width_told,
    ),
    "live": TerminalSetting(
        "ON|OFF",
        "tables of push queries are written anew in their place, or row below row",
        _set_live,
        lambda sheet, session: f"rows of tables come {'in their place' if sheet.live else 'row below row'}",
    ),
    "request_pipelining": TerminalSetting(
        "ON|OFF",
        "statements do not wait for the one before, or do",
        _set_pipelining,
        lambda sheet, session: f"statements {'wait' if session.waits else 'do not wait'} for the one before",
    ),
    "request-timeout": TerminalSetting(
        "SECONDS",
        "how long a server may take to answer a statement",
        _set_timeout,
        lambda sheet, session: f"a server may take {session.api.answer_seconds:g} seconds to answer",
    ),
}
"""By their names, in lower case."""
