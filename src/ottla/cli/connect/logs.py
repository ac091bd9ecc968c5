"""`ottla connect logs`: the lines that a connector and its tasks have logged."""

from __future__ import annotations

import sys
import time
from typing import Final

import click

from ottla.cli.connect.session import NOT_FOUND, Session, asks_connect, name_argument
from ottla.cli.frame.commands import command
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.output import printable_lines
from ottla.client.connect_api import ConnectRefusal
from ottla.client.errors import ClusterError
from ottla.config.errors import UserError

FOLLOW_SECONDS: Final = 1.0
MAX_LINES: Final = 100_000


@command(
    "logs",
    examples=["ottla connect logs orders-to-lake", "ottla connect logs orders-to-lake --lines 20 --follow"],
)
@name_argument
@click.option(
    "--lines",
    type=click.IntRange(0, MAX_LINES),
    default=200,
    show_default=True,
    metavar="NUMBER",
    help="The last lines so far.",
)
@click.option("--follow", "-f", is_flag=True, help="Show later lines too, until Ctrl-C.")
@asks_connect
def logs(session: Session, name: str, lines: int, follow: bool) -> int:
    """Show the lines that a connector and its tasks have logged, as the worker that is asked has them.

    With --json each line is an object with `name` and `line`.
    """
    try:
        answer = session.api.logs(name, {"lines": str(lines)})
    except ClusterError as problem:
        raise _explained(session, name, problem) from None
    while True:
        for line in answer.get("lines") or ():
            if session.output.is_json:
                session.output.json({"name": name, "line": line})
            else:
                session.output.line(printable_lines(str(line)))
        if not follow:
            return ExitCode.DONE
        sys.stdout.flush()  # the reader of a pipe waits for each line
        time.sleep(FOLLOW_SECONDS)
        answer = session.api.logs(name, {"after": str(answer.get("next", ""))})


def _explained(session: Session, name: str, problem: ClusterError) -> UserError:
    found = session.explained(name, problem)
    if found is problem and isinstance(problem, ConnectRefusal) and problem.status == NOT_FOUND:
        return UserError("this worker gives no logs by HTTP: it is not one of ottla's")
    return found
