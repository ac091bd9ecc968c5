"""Applies one version: its events around its statements.

The order of writes, and what a kill leaves at each line:

1. RUNNING with this run's word. Killed here or later: the version stays RUNNING, and the next apply refuses
   it until somebody says that the run is gone.
2. the events are read again: of two runs that wrote RUNNING the first one goes on.
3. the statements, one after the other, each waiting for the command of the one before.
4. MIGRATED, or ERROR with the reason. Killed behind it: the version is applied; the stream says so.
5. CURRENT, for those who read the table. It may be missing after a kill; the next version writes it anew.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ottla.client.errors import ClusterError
from ottla.config.errors import UserError
from ottla.sql.language.errors import SqlError
from ottla.sql.migrations.choosing import check_free
from ottla.sql.migrations.events import CURRENT, Event, History, State
from ottla.sql.migrations.files import MigrationFile
from ottla.sql.migrations.metadata import Metadata
from ottla.sql.migrations.scripts import migration_parts
from ottla.sql.terminal.api import SqlApi
from ottla.sql.terminal.session import Session, Told
from ottla.sql.terminal.statements import Part


def _now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(slots=True)
class Run:
    """A run of `apply`. variables: those that hold in all files; word: tells it from other runs."""

    api: SqlApi
    metadata: Metadata
    variables: Mapping[str, str] = field(default_factory=dict)
    after_kill: bool = False
    clock: Callable[[], int] = _now_ms
    word: str = field(default_factory=lambda: secrets.token_hex(8))

    def checked(self, files: Sequence[MigrationFile]) -> list[tuple[MigrationFile, list[Part]]]:
        """The statements of all files. Raises UserError, so that nothing runs if one of them is wrong."""
        found = []
        for file in files:
            try:
                found.append((file, migration_parts(file.text, self.variables)))
            except SqlError as error:
                raise UserError(f"{file.path.name}: {error.shown(file.text)}") from None
        return found

    def apply(self, file: MigrationFile, parts: Sequence[Part]) -> None:
        """Apply a version. Raises UserError for one that another run has, or that failed; ClusterError."""
        history = History.of(self.metadata.events())
        if history.state(file.version) is State.MIGRATED:
            raise UserError(f"version {file.version} has been applied by another run meanwhile")
        after = check_free(file.version, history, after_kill=self.after_kill)
        running = Event(
            str(file.version),
            file.version,
            file.name,
            State.RUNNING,
            file.checksum,
            started_on=self.clock(),
            previous=history.current,
            run=self.word,
            after=after,
        )
        self.metadata.write(running)
        history = History.of(self.metadata.events())
        if not history.is_held_by(file.version, self.word):
            is_done = history.state(file.version) is State.MIGRATED
            raise UserError(
                f"version {file.version} has been applied by another run meanwhile"
                if is_done
                else f"version {file.version} is being applied by another run, which began before"
            )
        problem = self._statements(file, parts)
        ended = replace(
            running,
            state=State.MIGRATED if problem is None else State.ERROR,
            completed_on=self.clock(),
            reason=problem,
            run=None,
            after=None,
        )
        self.metadata.write(ended)
        self.metadata.write(replace(ended, key=CURRENT))
        if problem is not None:
            raise UserError(f"{file.path.name}: {problem}")

    def _statements(self, file: MigrationFile, parts: Sequence[Part]) -> str | None:
        """Carry them out; the reason if one fails. Raises ClusterError where the server can't be asked."""
        session = Session(self.api, variables=dict(self.variables))
        for part in parts:
            try:
                told = session.run(part)
            except SqlError as error:
                return error.shown(file.text)
            if isinstance(told, Told) and told.problem is not None:
                return told.problem.shown(file.text)
        return None


def told_of(error: ClusterError, file: MigrationFile) -> str:
    """What a run says that could not ask its server any more."""
    return (
        f"{file.path.name}: {error}. Version {file.version} is left RUNNING if it had begun: "
        "look at what it has done, and go on with --after-kill"
    )
