"""`ottla sql`: a terminal; or, with -e, -f or a pipe, the statements that are given."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from ottla.cli.frame.commands import command
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.options import pairs_of, pairs_option, positive_number, require_at_most_one
from ottla.cli.frame.terminal import is_terminal
from ottla.cli.sql.asking import access_of, server_options
from ottla.cli.sql.results import Bounds
from ottla.cli.sql.runner import Runner, Source
from ottla.cli.sql.sheet import Form, Sheet
from ottla.sql.terminal.api import SqlApi
from ottla.sql.terminal.session import Session

STDIN: Final = "-"


@command(
    "terminal",
    examples=(
        "ottla sql",
        "ottla sql -e 'SHOW STREAMS; SELECT * FROM orders LIMIT 10;' --output json",
        "ottla sql -f statements.sql -d topic=orders",
        "ottla sql -e 'SELECT * FROM orders EMIT CHANGES;' --timeout 30",
        "ottla sql terminal --server http://sql:8088",
    ),
)
@server_options
@click.option(
    "--execute",
    "-e",
    "statements",
    multiple=True,
    metavar="STATEMENTS",
    help="Run these, and end; may be repeated.",
)
@click.option("--file", "-f", "file", metavar="FILE", help="Run a file's statements, and end; - is stdin.")
@click.option(
    "--output",
    "form",
    type=click.Choice([each.value for each in Form]),
    default=Form.TABLE.value,
    show_default=True,
    help="How results are written; json is an object a line.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --output json.")
@click.option(
    "--define",
    "-d",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="A variable for ${NAME} in statements; may be repeated.",
)
@pairs_option(
    "--property", "properties", "A property that statements are given, as SET does; may be repeated."
)
@click.option("--limit", type=click.IntRange(1), metavar="ROWS", help="End push queries after so many rows.")
@click.option("--timeout", type=positive_number, metavar="SECONDS", help="End push queries after that time.")
@click.option("--keep-going", is_flag=True, help="Go on after a failed statement; the exit code is still 1.")
def terminal(
    server: str | None,
    user: str | None,
    command_config: Path | None,
    set_words: tuple[str, ...],
    statements: tuple[str, ...],
    file: str | None,
    form: str,
    as_json: bool,
    variables: tuple[str, ...],
    properties: tuple[str, ...],
    limit: int | None,
    timeout: float | None,
    keep_going: bool,
) -> int:
    """Type statements and see what they give, on any server of SQL (ksqlDB's too).

    Without -e and -f it is a terminal; where stdin is none, its text is run. A statement that fails ends the
    others, with exit code 1; Ctrl-C ends a push query, and with -e and -f the command too (130).
    """
    require_at_most_one({"-e": statements, "-f": file})
    access = access_of(server, user, command_config, set_words)
    session = Session(SqlApi(access))
    session.variables.update(pairs_of("--define", variables))
    session.properties.update(pairs_of("--property", properties))
    sheet = Sheet(Form.JSON if as_json else Form(form))
    runner = Runner(session, sheet, Bounds(limit, timeout), goes_on=keep_going)
    if statements:
        is_well = _all_given(runner, statements, goes_on=keep_going)
    elif file is not None and file != STDIN:
        is_well = runner.run_file(file)
    elif file == STDIN or not is_terminal(sys.stdin):
        is_well = runner.run(sys.stdin.read(), Source())
    else:
        from ottla.cli.sql.shell import Shell

        Shell(runner).run()
        is_well = True
    return ExitCode.DONE if is_well else ExitCode.FAILED


def _all_given(runner: Runner, statements: tuple[str, ...], *, goes_on: bool) -> bool:
    is_well = True
    for text in statements:
        is_well = runner.run(text) and is_well
        if not is_well and not goes_on:
            break
    return is_well
