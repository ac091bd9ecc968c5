"""The magics: statements of a cell, one after the other, in a session that lasts as long as the notebook.

What SET and DEFINE say holds for a server until it is unset, as in the terminal. `--server` and the
credentials hold until others are given.
"""

from __future__ import annotations

import getpass
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from IPython.core.magic import no_var_expand
from IPython.display import display
from IPython.terminal.interactiveshell import TerminalInteractiveShell

from ottla.client.rest_access import RestAccess
from ottla.config.errors import UserError
from ottla.config.sources import from_file, texts
from ottla.sql.language.errors import SqlError
from ottla.sql.notebook.completing import IDENTIFIER, statement_matcher
from ottla.sql.notebook.errors import StatementFailed
from ottla.sql.notebook.frames import frame_of, require_pandas
from ottla.sql.notebook.live import Found, pulled, pushed
from ottla.sql.notebook.options import Options, parsed
from ottla.sql.notebook.views import Views, plain, view_of
from ottla.sql.terminal.access import PASSWORD_VARIABLE, SQL, URL_VARIABLE
from ottla.sql.terminal.api import Entity, SqlApi
from ottla.sql.terminal.entities import blocks_of, failure_of, warnings_of
from ottla.sql.terminal.http import SqlRefusal
from ottla.sql.terminal.known_names import KnownNames, changes_names
from ottla.sql.terminal.names import Names, keys_of, load_names
from ottla.sql.terminal.problems import error_of, shown
from ottla.sql.terminal.row_stream import TextStream
from ottla.sql.terminal.session import Lines, Rows, Said, Script, Session, TerminalSetting, Told
from ottla.sql.terminal.statements import Part, parts_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

NAME: Final = "sql"
MAX_SCRIPTS: Final = 16
"""Scripts that run scripts: so many deep at most."""

Key = tuple[str, str | None, Path | None]


@dataclass(frozen=True, slots=True)
class Server:
    """A server, and what holds for statements that it is sent."""

    session: Session
    known: KnownNames


class CellOutput:
    """One output of a cell, in which what is shown later takes the place of what was shown before."""

    def __init__(self, *, is_live: bool) -> None:
        self.is_live = is_live
        self._handle: Any = None

    def show(self, views: Views) -> None:
        """Show these in place of those before."""
        if self._handle is None:
            self._handle = display(views, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(views)


@dataclass(slots=True)
class SqlMagic:
    """Runs what stands behind `%sql` and below `%%sql`."""

    shell: InteractiveShell
    _servers: dict[Key, Server] = field(default_factory=dict)
    _key: Key | None = None

    def register(self) -> None:
        """Make the magics known, and the completion of statements in them."""
        self.shell.magics_manager.register_function(self.sql, magic_kind="line_cell", magic_name=NAME)
        self.shell.Completer.custom_matchers.append(statement_matcher(self.names))

    def names(self) -> Names:
        """What the server that was asked last knows."""
        server = None if self._key is None else self._servers.get(self._key)
        return Names() if server is None else server.known.names

    @no_var_expand  # type: ignore[untyped-decorator]  # `{…}` and `${name}` are of the statement
    def sql(self, line: str, cell: str | None = None) -> None:
        """Run SQL statements on a server, and show what they give.

        %sql [options] STATEMENT
        %%sql [options]
        STATEMENTS

        --server URL, --user NAME, --command-config FILE: the server, until another one is given;
        --limit ROWS, --seconds SECONDS: when push queries end by themselves; --rows ROWS: so many are shown;
        --into VARIABLE: the rows of the last query as a pandas DataFrame.
        """
        try:
            options, rest = parsed(line)
            text = rest if cell is None else f"{rest}\n{cell}" if rest else cell
            if options.into is not None:
                require_pandas()
            Run(self.shell, self._server(options), options).text(text)
        except StatementFailed:
            raise
        except UserError as problem:
            raise StatementFailed(str(problem)) from None
        except KeyboardInterrupt:
            raise StatementFailed("interrupted") from None

    def _server(self, options: Options) -> Server:
        key = self._wanted(options)
        server = self._servers.get(key)
        if server is None:
            session = Session(SqlApi(_access(*key)))
            server = Server(session, KnownNames(lambda: load_names(session.api), lambda: None))
            self._servers[key] = server
            server.known.refresh()
        self._key = key
        return server

    def _wanted(self, options: Options) -> Key:
        given = (options.server, options.user, options.command_config)
        if given == (None, None, None) and self._key is not None:
            return self._key
        if options.server is None and self._key is not None:
            return self._key[0], options.user, options.command_config
        url = options.server or os.environ.get(URL_VARIABLE) or SQL.default_url
        return url, options.user, options.command_config


def unregister(shell: InteractiveShell) -> None:
    """Forget the magics."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(NAME, None)
    kept: list[Any] = [
        each
        for each in shell.Completer.custom_matchers
        if getattr(each, "matcher_identifier", None) != IDENTIFIER
    ]
    shell.Completer.custom_matchers[:] = kept


def _access(url: str, user: str | None, command_config: Path | None) -> RestAccess:
    given = {} if command_config is None else texts(from_file(command_config))
    if user is not None:
        password = os.environ.get(PASSWORD_VARIABLE)
        if password is None:
            password = getpass.getpass(f"Password of {user}: ")
        given["basic.auth.user.info"] = f"{user}:{password}"
    return RestAccess.from_properties(SQL, url, given)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a magic."""

    shell: InteractiveShell
    server: Server
    options: Options

    def text(self, text: str, name: str = "", depth: int = 0) -> None:
        """Run all statements of a text. name: of the file that it is from. Raises UserError."""
        try:
            parts = parts_of(text)
            for number, part in enumerate(parts, start=1):
                is_interrupted = self._step(part, name, depth)
                if changes_names(part):
                    self.server.known.refresh()
                if is_interrupted and number < len(parts):
                    raise StatementFailed(
                        f"interrupted: {len(parts) - number} of {len(parts)} statements were not run"
                    )
        except SqlError as error:
            told = shown(error, text)
            raise StatementFailed(f"{name}: {told}" if name else told) from None

    def _step(self, part: Part, name: str, depth: int) -> bool:
        """Run a statement; whether it was a push query that an interrupt has ended."""
        try:
            result = self.server.session.run(part)
            match result:
                case Said(told):
                    print(plain(told))
                case Told(entities, problem):
                    failure = self._tell(entities)
                    if problem is not None:
                        raise problem
                    if failure is not None:
                        raise SqlError(failure)
                case Rows():
                    return self._rows(result, part)
                case Lines(stream):
                    return self._lines(stream)
                case Script(path):
                    self._script(path, name, depth)
                case TerminalSetting():
                    advice = "in a notebook, --rows says how many rows are shown"
                    raise SqlError("SET CLI is of the terminal", part.at, advice)
        except SqlRefusal as refusal:
            raise error_of(refusal, part.at) from None
        return False

    def _tell(self, entities: list[Entity]) -> str | None:
        """Show what the server tells; why a command of it has failed."""
        problem = None
        for entity in entities:
            for warning in warnings_of(entity):
                print(f"warning: {plain(warning)}")
            failure = failure_of(entity)
            problem = problem or failure
            if failure is None and (blocks := blocks_of(entity)):
                self._output().show(Views(tuple(map(view_of, blocks))))
        return problem

    def _rows(self, result: Rows, part: Part) -> bool:
        stream, api = result.stream, self.server.session.api
        output = self._output()
        if result.is_push:
            found = pushed(stream, self.options, output, api, lambda: keys_of(part, stream.columns, api))
        else:
            found = pulled(stream, self.options, output)
        self._keep(found)
        return found.is_interrupted

    def _keep(self, found: Found) -> None:
        if self.options.into is not None:
            self.shell.user_ns[self.options.into] = frame_of(found.columns, found.rows)

    def _lines(self, stream: TextStream) -> bool:
        """Write the lines of PRINT as they come; whether an interrupt has ended it."""
        is_over = threading.Event()

        def end() -> None:
            is_over.set()
            stream.close()

        timer = None if self.options.seconds is None else threading.Timer(self.options.seconds, end)
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            for number, line in enumerate(stream.lines(), start=1):
                print(plain(line), flush=True)
                if number == self.options.limit:
                    break
        except UserError:
            if not is_over.is_set():
                raise
        except KeyboardInterrupt:
            return True
        finally:
            if timer is not None:
                timer.cancel()
            stream.close()
        return False

    def _script(self, path: str, name: str, depth: int) -> None:
        """Run a file: as it is named, or beside the script that names it."""
        if depth >= MAX_SCRIPTS:
            raise StatementFailed(f"{path}: scripts run scripts more than {MAX_SCRIPTS} deep")
        beside = (Path(name).parent if name else Path()) / path
        found = beside if not Path(path).exists() and beside.exists() else Path(path)
        try:
            text = found.read_text(encoding="utf-8")
        except OSError as problem:
            raise StatementFailed(f"{path}: {problem.strerror or problem}") from None
        except UnicodeDecodeError:
            raise StatementFailed(f"{path}: it is not UTF-8 text") from None
        self.text(text, str(found), depth + 1)

    def _output(self) -> CellOutput:
        # A terminal can't write an output anew: it shows the last state alone.
        return CellOutput(is_live=not isinstance(self.shell, TerminalInteractiveShell))
