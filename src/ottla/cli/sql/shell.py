"""The terminal: lines are edited, completed and coloured by prompt_toolkit, statements run between them.

A statement runs while nothing is typed, in this thread, so Ctrl-C is a KeyboardInterrupt of what runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.styles import Style

from ottla import __version__
from ottla.cli.frame.terminal import has_colours, printable
from ottla.cli.sql.offering import Offering, StatementCompleter
from ottla.cli.sql.runner import Runner
from ottla.cli.sql.shell_words import Exit, ShellWords, is_own, server_line
from ottla.config.errors import UserError
from ottla.sql.terminal.highlighting import Look, spans
from ottla.sql.terminal.known_names import KnownNames, changes_names
from ottla.sql.terminal.names import load_names
from ottla.sql.terminal.statements import Part, is_complete

PROMPT: Final = "sql> "
CONTINUED: Final = "  -> "
HISTORY_VARIABLE: Final = "OTTLA_SQL_HISTORY"
_STYLE: Final = Style.from_dict(
    {
        "keyword": "ansiblue bold",
        "type": "ansicyan",
        "function": "ansimagenta",
        "text": "ansigreen",
        "number": "ansiyellow",
        "comment": "ansibrightblack italic",
        "prompt": "bold",
        "bottom-toolbar": "noreverse ansibrightblack",
    }
)


class StatementLexer(Lexer):
    """The language's tokens as styles, over all lines of what is typed."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines: list[StyleAndTextTuples] = [[]]
        found = [(Look.KEYWORD, document.text)] if is_own(document.text) else spans(document.text)
        for look, text in found:
            first, *rest = text.split("\n")
            lines[-1].append((f"class:{look.value}", first))
            lines.extend([(f"class:{look.value}", line)] for line in rest)
        return lambda number: lines[number] if number < len(lines) else []


class Shell:
    """Reads statements and runs them, until Ctrl-D or `exit`."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._history = _history()
        self._known = KnownNames(lambda: load_names(runner.session.api), self._names_arrived)
        self._offering: Offering | None = None
        self._words = ShellWords(runner, lambda: list(self._history.get_strings()))
        runner.after = self._after

    def run(self) -> None:
        """Run the terminal. Raises nothing of what statements raise: errors are written."""
        completer = StatementCompleter(self._known)
        session = self._prompt_session(completer)
        self._offering = Offering(session, completer, self._known)
        self._welcome()
        self._known.refresh()
        while True:
            try:
                text = session.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
            try:
                self._run(text)
            except KeyboardInterrupt:
                self._runner.sheet.say("")
            except Exit:
                break
            except UserError as problem:
                self._runner.sheet.problem(str(problem))
            except BrokenPipeError:
                raise
            except OSError as problem:
                self._runner.sheet.problem(str(problem))
        self._runner.sheet.spool_end()

    def _run(self, text: str) -> None:
        if not text.strip():
            return
        self._runner.sheet.spool_text(f"{PROMPT}{text}\n")
        server = self._runner.session.api
        if not self._words.takes(text):
            self._runner.run(text)
        if self._runner.session.api is not server:
            self._known.refresh()

    def _after(self, part: Part) -> None:
        if changes_names(part):
            self._known.refresh()

    def _names_arrived(self) -> None:
        if self._offering is not None:
            self._offering.names_arrived()

    def _welcome(self) -> None:
        api = self._runner.session.api
        told = f"ottla {__version__}, {api.access.shown}: {server_line(api)}"
        self._runner.sheet.say(told)
        self._runner.sheet.say("Statements end with a semicolon. `help` tells more, Ctrl-D ends.")

    def _prompt_session(self, completer: Completer) -> PromptSession[str]:
        colours = has_colours(sys.stdout)
        return PromptSession(
            [("class:prompt", PROMPT)],
            multiline=True,
            prompt_continuation=_continued,
            history=self._history,
            auto_suggest=AutoSuggestFromHistory(),
            completer=completer,
            complete_in_thread=True,
            complete_while_typing=True,
            lexer=StatementLexer(),
            key_bindings=_keys(),
            style=_STYLE,
            color_depth=None if colours else ColorDepth.DEPTH_1_BIT,
            bottom_toolbar=self._toolbar,
            enable_open_in_editor=True,
        )

    def _toolbar(self) -> str:
        session = self._runner.session
        told = [printable(session.api.access.shown), f"output {self._runner.sheet.form.value}"]
        told += [f"{name}={value}" for name, value in list(session.properties.items())[:3]]
        return " " + " · ".join(told)


def _continued(width: int, line: int, wrapped: int) -> str:
    """Before the lines behind the first; nothing where a long line only goes on."""
    return " " * width if wrapped else CONTINUED


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~completion_is_selected)
    def _enter(event: KeyPressEvent) -> None:
        """Run what is complete; else go on in the next line."""
        buffer = event.current_buffer
        if is_finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("enter", filter=completion_is_selected)
    def _take(event: KeyPressEvent) -> None:
        """Take the candidate that is chosen."""
        event.current_buffer.complete_state = None

    @keys.add("escape", "enter")
    def _as_it_is(event: KeyPressEvent) -> None:
        """Run it as it is."""
        event.current_buffer.validate_and_handle()

    return keys


def is_finished(text: str) -> bool:
    """Whether Enter runs what is typed: the terminal's own words, and statements that a semicolon closes."""
    return not text.strip() or is_own(text) or is_complete(text)


def _history() -> History:
    """What was typed before, in a file of the user alone; in memory if there can be no file."""
    given = os.environ.get(HISTORY_VARIABLE)
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    path = Path(given) if given else Path(state) / "ottla" / "sql_history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return _PrivateHistory(str(path))


class _PrivateHistory(FileHistory):
    """Keeps what is typed, but not what begins with a space: statements may hold passwords."""

    def append_string(self, string: str) -> None:
        if not string.startswith(" ") and string.strip():
            super().append_string(string)
