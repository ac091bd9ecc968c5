"""`ottla sql migrate`: numbered files of statements, each carried out once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.frame.commands import group
from ottla.cli.frame.confirming import confirm, yes_option
from ottla.cli.frame.options import pairs_of
from ottla.cli.frame.output import Output, OutputMode
from ottla.cli.frame.table import Column
from ottla.client.errors import ClusterError
from ottla.config.errors import UsageError, UserError
from ottla.sql.migrations.project import FILE

if TYPE_CHECKING:
    from ottla.sql.migrations.choosing import Choice
    from ottla.sql.migrations.metadata import Metadata
    from ottla.sql.migrations.project import Project
    from ottla.sql.terminal.api import SqlApi

_COLUMNS: Final = (
    Column("version"),
    Column("name"),
    Column("state"),
    Column("previous"),
    Column("started", "started on"),
    Column("completed", "completed on"),
    Column("error"),
)


@group(
    "migrate",
    examples=(
        "ottla sql migrate new-project shop http://localhost:8088",
        "ottla sql migrate create 'orders and payments'",
        "ottla sql migrate apply --all",
    ),
)
def migrate() -> None:
    """Apply numbered files of statements to a server of SQL, each once.

    What was applied is told by a stream on the server. The project's files are those of ksqlDB's
    ksql-migrations.
    """


def _config_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--config-file",
        "-c",
        type=click.Path(path_type=Path),
        default=Path(FILE),
        metavar="FILE",
        help=f"The project's properties. [default: {FILE}]",
    )(function)


def _json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="Write JSON.")(function)


def _opened(config_file: Path) -> tuple[Project, SqlApi, Metadata]:
    from ottla.sql.migrations.metadata import Metadata
    from ottla.sql.migrations.project import project_of
    from ottla.sql.terminal.api import SqlApi

    project = project_of(config_file)
    api = SqlApi(project.access)
    return project, api, Metadata(api, project.names)


@migrate.command(
    "new-project",
    short_help="Make the files of a project.",
    examples=("ottla sql migrate new-project shop http://localhost:8088",),
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("url")
def new_project(directory: Path, url: str) -> None:
    """Make a project: a properties file for the server at URL, and a directory for migrations."""
    from ottla.sql.migrations import project

    made = project.new_project(directory, url)
    Output().say("\n".join(f"made {each}" for each in made) or "all is there already")


@migrate.command(
    "initialize-metadata",
    short_help="Make the stream of what was applied.",
    examples=("ottla sql migrate initialize-metadata",),
)
@_config_option
def initialize_metadata(config_file: Path) -> None:
    """Make the stream of what was applied on the server, and the table of the last state of each version."""
    project, _, metadata = _opened(config_file)
    metadata.initialize()
    Output().say(f"{project.names.stream} and {project.names.table} are there")


@migrate.command(
    "create",
    short_help="Make the file of a new version.",
    examples=(
        "ottla sql migrate create 'orders and payments'",
        "ottla sql migrate create 'fraud' --version 12",
    ),
)
@click.argument("description")
@click.option("--version", "-v", type=int, metavar="N", help="Its number; by default the next one.")
@_config_option
def create(description: str, version: int | None, config_file: Path) -> None:
    """Make the file of a new version, for its statements."""
    from ottla.sql.migrations.files import create_file
    from ottla.sql.migrations.project import project_of

    Output().say(f"made {create_file(project_of(config_file).directory, description, version)}")


@migrate.command(
    "apply",
    short_help="Carry out files that were not yet.",
    examples=(
        "ottla sql migrate apply --all",
        "ottla sql migrate apply --until 12 --dry-run",
        "ottla sql migrate apply --next -d topic=orders",
    ),
)
@click.option("--all", "-a", "to_all", is_flag=True, help="All files.")
@click.option("--next", "-n", "to_next", is_flag=True, help="The next file.")
@click.option("--until", "-u", type=int, metavar="N", help="The files up to this version.")
@click.option("--version", "-v", type=int, metavar="N", help="This version alone.")
@click.option(
    "--define", "-d", multiple=True, metavar="NAME=VALUE", help="A variable of the files; may be repeated."
)
@click.option("--dry-run", is_flag=True, help="Show the statements, and carry out none.")
@click.option(
    "--after-kill", is_flag=True, help="Take the place of a run that was killed while it applied a version."
)
@_config_option
def apply(
    to_all: bool,
    to_next: bool,
    until: int | None,
    version: int | None,
    define: tuple[str, ...],
    dry_run: bool,
    after_kill: bool,
    config_file: Path,
) -> None:
    """Carry out the files that were not yet, in the order of their versions.

    All of them are read first: if one has an error, or a file that was applied has changed, nothing is done.
    The first statement that the server refuses ends the run, and its version is in ERROR: mend the file and
    apply again.
    """
    from ottla.sql.migrations.applying import Run, told_of
    from ottla.sql.migrations.choosing import chosen, late
    from ottla.sql.migrations.events import History
    from ottla.sql.migrations.files import migration_files

    choice = _choice(to_all, to_next, until, version)
    project, api, metadata = _opened(config_file)
    run = Run(api, metadata, pairs_of("--define", define), after_kill)
    there, history = migration_files(project.directory), History.of(metadata.events())
    files = chosen(choice, there, history)
    output = Output()
    for file in late(there, history):
        output.warn(f"version {file.version} is below the current one, {history.current}: it is left out")
    if not files:
        output.say("all is applied: there is nothing to do")
    for file, parts in run.checked(files):
        if dry_run:
            output.say(f"-- version {file.version}: {file.name}")
            output.say("\n".join(f"{part.text};" for part in parts))
            continue
        output.say(f"version {file.version}: {file.name}, {len(parts)} statements")
        try:
            run.apply(file, parts)
        except ClusterError as error:
            raise UserError(told_of(error, file)) from None
        output.say(f"version {file.version} is applied")


def _choice(to_all: bool, to_next: bool, until: int | None, version: int | None) -> Choice:
    from ottla.sql.migrations.choosing import Choice, Wanted

    given = [
        *([Choice(Wanted.ALL)] if to_all else []),
        *([Choice(Wanted.NEXT)] if to_next else []),
        *([] if until is None else [Choice(Wanted.UNTIL, until)]),
        *([] if version is None else [Choice(Wanted.VERSION, version)]),
    ]
    if len(given) != 1:
        raise UsageError("give one of --all, --next, --until and --version")
    return given[0]


@migrate.command(
    "info", short_help="Show all versions and their states.", examples=("ottla sql migrate info",)
)
@_json_option
@_config_option
def info(as_json: bool, config_file: Path) -> None:
    """Show all versions: those with files, and those that were applied."""
    from ottla.sql.migrations.events import History
    from ottla.sql.migrations.files import migration_files

    project, _, metadata = _opened(config_file)
    history = History.of(metadata.events())
    names = {each.version: each.name for each in migration_files(project.directory)}
    rows = []
    for version in sorted(names.keys() | history.standings.keys()):
        standing = history.standings.get(version)
        last = None if standing is None else standing.last
        rows.append(
            {
                "version": version,
                "name": names.get(version, "" if last is None else last.name),
                "state": history.state(version).value,
                "previous": None if last is None else last.previous,
                "started": _time(0 if last is None else last.started_on),
                "completed": _time(0 if last is None else last.completed_on),
                "error": None if last is None or last.reason is None else last.reason.splitlines()[0],
            }
        )
    output = Output(OutputMode.JSON if as_json else OutputMode.PEOPLE)
    output.say("current version: " + ("none" if history.current is None else str(history.current)))
    output.listing(rows, _COLUMNS, name="version", empty="there are no migrations")


def _time(milliseconds: int) -> str | None:
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


@migrate.command(
    "validate",
    short_help="Check the files that were applied.",
    examples=("ottla sql migrate validate",),
)
@_config_option
def validate(config_file: Path) -> None:
    """Check that each file that was applied is there, and says what it said then."""
    from ottla.sql.migrations.choosing import check_applied
    from ottla.sql.migrations.events import History, State
    from ottla.sql.migrations.files import migration_files

    project, _, metadata = _opened(config_file)
    history = History.of(metadata.events())
    check_applied(migration_files(project.directory), history)
    count = len(history.of_state(State.MIGRATED))
    Output().say(f"{count} applied {'version is' if count == 1 else 'versions are'} as they were")


@migrate.command(
    "destroy-metadata",
    short_help="Remove the stream of what was applied.",
    examples=("ottla sql migrate destroy-metadata --yes",),
)
@yes_option
@_config_option
def destroy_metadata(yes: bool, config_file: Path) -> None:
    """Remove the stream of what was applied, its table and its topic. What migrations have made stays."""
    project, _, metadata = _opened(config_file)
    confirm(f"forget which migrations were applied, with {project.names.stream} and its topic", yes)
    metadata.destroy()
    Output().say(f"{project.names.stream} and {project.names.table} are removed")
