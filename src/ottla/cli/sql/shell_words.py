"""The terminal's own words: help, output, spool, history… They need no semicolon."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla import __version__
from ottla.cli.frame.errors import os_error_line
from ottla.cli.frame.table import Column, table_lines
from ottla.cli.frame.terminal import columns_of, has_colours
from ottla.cli.sql.runner import Runner
from ottla.cli.sql.terminal_settings import SETTINGS, set_or_tell
from ottla.client.errors import ClusterError
from ottla.client.rest_access import RestAccess
from ottla.config.errors import UserError
from ottla.sql.terminal.access import SQL
from ottla.sql.terminal.api import SqlApi

WORDS: Final = {
    "help": "this list; `help STATEMENT` tells how a statement is written",
    **{f"{name} [{setting.values}]": setting.what for name, setting in SETTINGS.items()},
    "spool FILE|OFF": "statements and results go to a file too",
    "run script FILE": "the statements of a file are run",
    "history [TEXT]": "what was typed, all of it or what has the text",
    "server [URL]": "the server that is asked, or another one from now on",
    "version": "the versions of the terminal and the server",
    "clear": "an empty screen",
    "exit": "the end; Ctrl-D too",
}
FIRST_WORDS: Final = (
    *(each.split()[0] for each in WORDS if not each.startswith("run")),
    "quit",
    "run script",
)
STATEMENTS: Final = {
    "SELECT": "SELECT … FROM source [JOIN …] [WINDOW …] [WHERE …] [GROUP BY …] [HAVING …]\n"
    "  [EMIT CHANGES|FINAL] [LIMIT n]; without EMIT the rows as they are now, with it each that comes",
    "CREATE": "CREATE [OR REPLACE] [SOURCE] STREAM|TABLE [IF NOT EXISTS] name (column type [KEY], …)\n"
    "  WITH (kafka_topic='…', value_format='…', …);\nCREATE STREAM|TABLE name [WITH (…)] AS SELECT …;\n"
    "CREATE TYPE name AS type; CREATE SOURCE|SINK CONNECTOR name WITH (…);\n"
    "keys: KEY of streams, PRIMARY KEY of tables",
    "INSERT": "INSERT INTO name [(column, …)] VALUES (value, …);\nINSERT INTO name SELECT …;",
    "DROP": "DROP STREAM|TABLE [IF EXISTS] name [DELETE TOPIC]; DROP TYPE name; DROP CONNECTOR name;",
    "SHOW": "SHOW STREAMS|TABLES|TOPICS|QUERIES|FUNCTIONS|PROPERTIES|TYPES|VARIABLES|CONNECTORS [EXTENDED];",
    "DESCRIBE": "DESCRIBE name [EXTENDED]; DESCRIBE FUNCTION name; DESCRIBE CONNECTOR name;",
    "EXPLAIN": "EXPLAIN query id; EXPLAIN statement;",
    "PRINT": "PRINT topic [FROM BEGINNING] [INTERVAL n] [LIMIT n]; Ctrl-C ends it",
    "TERMINATE": "TERMINATE|PAUSE|RESUME query id|ALL;",
    "SET": "SET 'property' = 'value'; UNSET 'property'|ALL; they hold for this session\n"
    "SET CLI name value; sets what the terminal's words set, in scripts too",
    "DEFINE": "DEFINE name = 'value'; UNDEFINE name; ${name} in statements stands for it",
    "ASSERT": "ASSERT [NOT EXISTS] TOPIC name [WITH (…)] [TIMEOUT n SECONDS];\n"
    "ASSERT [NOT EXISTS] SCHEMA SUBJECT name [ID n] [TIMEOUT n SECONDS];",
    "ALTER": "ALTER STREAM|TABLE name ADD [COLUMN] name type, …;",
}
_SAME_HELP: Final = {
    "PAUSE": "TERMINATE",
    "RESUME": "TERMINATE",
    "UNSET": "SET",
    "UNDEFINE": "DEFINE",
    "LIST": "SHOW",
}


class Exit(Exception):
    """The terminal ends."""


@dataclass(slots=True)
class ShellWords:
    """Carries out the terminal's own words. history: all that was typed, the oldest first."""

    runner: Runner
    history: Callable[[], Sequence[str]]

    def takes(self, text: str) -> bool:
        """Whether a text is of the terminal's own words: it is carried out then. Raises Exit, UserError."""
        words = text.strip().removesuffix(";").split()
        if not is_own(text):
            return False
        match [words[0].lower(), *words[1:]]:
            case ["exit" | "quit"]:
                raise Exit
            case ["help", *about]:
                self._help(about)
            case ["set", *_]:
                self.runner.run(text)
            case [name] if name in SETTINGS:
                set_or_tell(name, None, self.runner.sheet, self.runner.session)
            case [name, value] if name in SETTINGS:
                set_or_tell(name, value, self.runner.sheet, self.runner.session)
            case ["spool", *name]:
                self._spool(" ".join(name).strip("'\""))
            case ["run", _, *name]:
                self.runner.run_file(" ".join(name).strip("'\""))
            case ["history", *wanted]:
                self._history(" ".join(wanted))
            case ["server", *url]:
                self._server(url)
            case ["version"]:
                self._version()
            case ["clear"]:
                sys.stdout.write("\x1b[2J\x1b[H")
                sys.stdout.flush()
            case [word, *_]:
                usage = next((each for each in WORDS if each.split()[0] == word), word)
                raise UserError(f"write {usage}")
        return True

    def _help(self, about: Sequence[str]) -> None:
        if about:
            word = about[0].upper()
            told = STATEMENTS.get(_SAME_HELP.get(word, word))
            if told is None:
                raise UserError(f"there is no help about {about[0]}; there is about: {', '.join(STATEMENTS)}")
            self.runner.sheet.lines(told.splitlines())
            return
        rows = [{"word": word, "what": what} for word, what in WORDS.items()]
        lines = table_lines(
            rows, [Column("word"), Column("what")], columns_of(sys.stdout), has_colours(sys.stdout)
        )
        next(lines)
        self.runner.sheet.lines(lines)
        self.runner.sheet.lines(
            [
                "All else are statements, which end with a semicolon; Tab completes names.",
                f"There is help about: {', '.join(STATEMENTS)}",
            ]
        )

    def _spool(self, name: str) -> None:
        sheet = self.runner.sheet
        if not name:
            raise UserError("write spool FILE, or spool OFF")
        if name.upper() == "OFF":
            if not sheet.spool_end():
                raise UserError("nothing is written to a file")
            return
        try:
            sheet.spool_to(Path(name))
        except OSError as problem:
            raise UserError(os_error_line(problem)) from None

    def _history(self, wanted: str) -> None:
        for number, text in enumerate(self.history(), start=1):
            if wanted.lower() in text.lower():
                first, *rest = text.splitlines() or [""]
                self.runner.sheet.lines([f"{number:>5}  {first}", *(f"       {line}" for line in rest)])

    def _server(self, url: Sequence[str]) -> None:
        session = self.runner.session
        access = session.api.access
        if url:
            other = RestAccess.from_properties(SQL, url[0], {})
            # Credentials are for the server that they were given for.
            waits = session.api.answer_seconds
            session.api = SqlApi(other)
            session.api.answer_seconds = waits
            session.last_command = None
            access = other
        self.runner.sheet.say(f"the server is {access.shown}: {server_line(session.api)}")

    def _version(self) -> None:
        self.runner.sheet.say(f"terminal: ottla {__version__}")
        self.runner.sheet.say(f"server: {server_line(self.runner.session.api)}")


def is_own(text: str) -> bool:
    """Whether a text is of the terminal's own words, as far as it has been typed."""
    words = text.strip().removesuffix(";").lower().split()
    if not words or "\n" in text.strip():
        return False
    if words[0] == "run":
        # RUN SCRIPT 'file'; with its quotes is a statement: both do the same
        return len(words) > 2 and words[1] == "script"
    if words[0] == "set":
        return words[1:2] == ["cli"]
    return words[0] in FIRST_WORDS


def server_line(api: SqlApi) -> str:
    """A server's version and service; why it does not tell them."""
    try:
        info = api.info()
    except ClusterError as problem:
        return str(problem)
    told = f"version {info.get('version', '?')}, service {info.get('ksqlServiceId', '?')}"
    status = info.get("serverStatus")
    return told if status in (None, "RUNNING") else f"{told}, {status}"
