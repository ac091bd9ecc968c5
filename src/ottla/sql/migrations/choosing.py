"""Which versions are to be applied, and what forbids it. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ottla.config.errors import UserError
from ottla.sql.migrations.events import History, State
from ottla.sql.migrations.files import MigrationFile


class Wanted(Enum):
    """How far to go."""

    ALL = "all"
    NEXT = "next"
    UNTIL = "until"
    VERSION = "version"


@dataclass(frozen=True, slots=True)
class Choice:
    """How far to go. version: of UNTIL and VERSION."""

    wanted: Wanted
    version: int = 0


def chosen(choice: Choice, files: Sequence[MigrationFile], history: History) -> list[MigrationFile]:
    """The files that are to be applied, in their order.

    Raises UserError: where an applied file has changed, for versions that are not there, and for one below
    the current one.
    """
    check_applied(files, history)
    current = history.current or 0
    open_files = [each for each in files if history.state(each.version) is not State.MIGRATED]
    above = [each for each in open_files if each.version > current]
    match choice.wanted:
        case Wanted.NEXT:
            return above[:1]
        case Wanted.UNTIL:
            _check_there(choice.version, files)
            return [each for each in above if each.version <= choice.version]
        case Wanted.VERSION:
            _check_there(choice.version, files)
            if choice.version < current and history.state(choice.version) is not State.MIGRATED:
                raise UserError(f"version {choice.version} is below the current one, {current}")
            return [each for each in above if each.version == choice.version]
        case Wanted.ALL:
            return above


def late(files: Sequence[MigrationFile], history: History) -> list[MigrationFile]:
    """The files below the current version that were not applied, and will not be."""
    current = history.current or 0
    return [
        each for each in files if each.version < current and history.state(each.version) is not State.MIGRATED
    ]


def _check_there(version: int, files: Sequence[MigrationFile]) -> None:
    if all(each.version != version for each in files):
        raise UserError(f"there is no file of version {version}")


def check_applied(files: Sequence[MigrationFile], history: History) -> None:
    """Raises UserError if a file that was applied is gone, or says something else now."""
    known = {each.version: each for each in files}
    for standing in history.of_state(State.MIGRATED):
        file = known.get(standing.version)
        if file is None:
            raise UserError(f"version {standing.version} was applied, and has no file any more")
        if file.checksum != standing.last.checksum:
            raise UserError(
                f"{file.path.name} was applied, and has changed since: "
                f"its checksum is {file.checksum}, it was {standing.last.checksum}"
            )


def check_free(version: int, history: History, *, after_kill: bool) -> str | None:
    """The run whose place is to be taken, None for none.

    Raises UserError for a version that a run has, unless its place shall be taken.
    """
    standing = history.standings.get(version)
    if standing is None or standing.state is not State.RUNNING:
        return None
    if after_kill:
        return standing.holder
    raise UserError(
        f"version {version} is RUNNING: another run applies it, or one was killed while it did; "
        "if none does, look at what it has left, and go on with --after-kill"
    )
