"""Runs texts of statements, one after the other, and writes what each gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.cli.frame.errors import os_error_line
from ottla.cli.sql.results import Bounds, write_entities, write_lines, write_rows
from ottla.cli.sql.sheet import Sheet
from ottla.cli.sql.terminal_settings import SETTINGS, set_or_tell
from ottla.config.errors import UserError
from ottla.sql.language.errors import SqlError
from ottla.sql.terminal.http import SqlRefusal
from ottla.sql.terminal.names import keys_of
from ottla.sql.terminal.problems import error_of, shown
from ottla.sql.terminal.session import Lines, Result, Rows, Said, Script, Session, TerminalSetting, Told
from ottla.sql.terminal.statements import Part, parts_of

ACTIONS: Final = ("help", "spool", "history", "server", "version", "clear", "exit", "quit")
"""The terminal's own words, beside those of its settings: of somebody who types, not of a text."""
MAX_SCRIPTS: Final = 16
"""Scripts that run scripts: so many deep at most."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a text comes from, for errors: a file's name, or nothing for what somebody typed."""

    name: str = ""
    depth: int = 0

    @property
    def folder(self) -> Path:
        """Against which the paths of RUN SCRIPT are read, if they are not found as they are."""
        return Path(self.name).parent if self.name else Path()


class Runner:
    """Runs statements in a session. bounds: of push queries; goes_on: after a failed statement."""

    def __init__(
        self, session: Session, sheet: Sheet, bounds: Bounds | None = None, *, goes_on: bool = False
    ) -> None:
        self.session = session
        self.sheet = sheet
        self._bounds = bounds or Bounds()
        self._goes_on = goes_on
        self.after: Callable[[Part], None] = lambda part: None
        """Called with each statement that was carried out."""

    def run(self, text: str, source: Source = Source()) -> bool:
        """Run all statements of a text; whether all went well. One that fails ends it, unless it goes on.

        Errors of statements are written. Raises SqlUnreachable; KeyboardInterrupt for Ctrl-C.
        """
        try:
            parts = parts_of(text)
        except SqlError as error:
            self._problem(error, text, source)
            return False
        is_well = True
        for part in parts:
            if self._step(part, text, source):
                self.after(part)
                continue
            is_well = False
            if not self._goes_on:
                break
        return is_well

    def _step(self, part: Part, text: str, source: Source) -> bool:
        try:
            _require_statement(part)
            result = self.session.run(part)
            return self._write(result, part, text, source)
        except SqlError as error:
            self._problem(error, text, source)
        except SqlRefusal as refusal:
            self._problem(error_of(refusal, part.at), text, source)
        return False

    def _write(self, result: Result, part: Part, text: str, source: Source) -> bool:
        match result:
            case Said(told):
                self.sheet.say(told)
            case Told(entities, problem):
                failure = write_entities(entities, self.sheet)
                if problem is not None:
                    raise problem
                if failure is not None:
                    raise SqlError(failure, part.at if source.name else None)
            case Rows(stream, is_push):
                api = self.session.api
                columns = stream.columns
                keys = (lambda: keys_of(part, columns, api)) if is_push else None
                write_rows(stream, self.sheet, api, keys, self._bounds if is_push else Bounds())
            case Lines(lines):
                write_lines(lines, self.sheet)
            case Script(path):
                return self.run_file(path, source)
            case TerminalSetting(name, value):
                try:
                    set_or_tell(name, value, self.sheet, self.session)
                except UserError as problem:
                    raise SqlError(str(problem), part.at) from None
        return True

    def run_file(self, path: str, source: Source = Source()) -> bool:
        """Run a file's statements; whether all went well."""
        if source.depth >= MAX_SCRIPTS:
            self.sheet.problem(f"{path}: scripts run scripts more than {MAX_SCRIPTS} deep")
            return False
        found = Path(path)
        beside = source.folder / path
        if not found.exists() and beside.exists():
            found = beside
        try:
            text = found.read_text(encoding="utf-8")
        except OSError as problem:
            self.sheet.problem(os_error_line(problem))
            return False
        except UnicodeDecodeError:
            self.sheet.problem(f"{path}: it is not UTF-8 text")
            return False
        return self.run(text, Source(str(found), source.depth + 1))

    def _problem(self, error: SqlError, text: str, source: Source) -> None:
        told = shown(error, text)
        self.sheet.problem(f"{source.name}: {told}" if source.name else told)


def _require_statement(part: Part) -> None:
    """Raises SqlError for a word of the terminal: a server would only say that it is no statement."""
    word, *rest = part.text.split()
    if word.lower() in SETTINGS:
        advice = f"write SET CLI {word.upper()} {' '.join(rest) or SETTINGS[word.lower()].values};"
    elif word.lower() in ACTIONS:
        advice = "type it, alone in its line, where `ottla sql` is a terminal"
    else:
        return
    raise SqlError(f"{word} is a word of the terminal, no statement", part.at, advice)
