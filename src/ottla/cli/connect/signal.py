"""`ottla connect signal`: ask a source of a database's changes for a snapshot, or to pause one."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from ottla.cli.connect.session import Session, asks_connect, name_argument
from ottla.cli.frame.commands import command
from ottla.cli.frame.errors import ExitCode
from ottla.client.errors import ClusterError
from ottla.config.errors import UserError

TYPES: Final = (
    "execute-snapshot",
    "stop-snapshot",
    "pause-snapshot",
    "resume-snapshot",
    "log",
    "schema-changes",
)


@command(
    "signal",
    examples=[
        "ottla connect signal shop execute-snapshot --table public.orders",
        "ottla connect signal shop execute-snapshot --table 'public[.]order.*' --where 'public.orders=id>7'",
        "ottla connect signal shop pause-snapshot",
        """ottla connect signal shop log --data '{"message": "here is {}"}'""",
    ],
)
@name_argument
@click.argument("kind", metavar="TYPE", type=click.Choice(TYPES))
@click.option(
    "--table", "tables", multiple=True, metavar="REGEX", help="Tables, as schema.table; may be repeated."
)
@click.option(
    "--where",
    "conditions",
    multiple=True,
    metavar="TABLE=SQL",
    help="Copy only these rows of a table; may be repeated.",
)
@click.option("--surrogate-key", metavar="COLUMN", help="The column whose order the chunks follow.")
@click.option("--blocking", is_flag=True, help="Copy at once, while the stream waits.")
@click.option("--data", metavar="JSON", help="The signal's data as a whole, in place of the options above.")
@click.option("--id", metavar="TEXT", help="The signal's id; by default a new one.")
@asks_connect
def signal(
    session: Session,
    name: str,
    kind: str,
    tables: tuple[str, ...],
    conditions: tuple[str, ...],
    surrogate_key: str | None,
    blocking: bool,
    data: str | None,
    id: str | None,
) -> int:
    """Give a connector a signal, by its signal topic; signal.enabled.channels of the connector has kafka."""
    fields = _data(data) if data is not None else _fields(tables, conditions, surrogate_key, blocking)
    given: dict[str, Any] = {"type": kind, "data": fields} | ({} if id is None else {"id": id})
    try:
        sent = session.api.signal(name, given)
    except ClusterError as problem:
        raise session.explained(name, problem) from None
    sentence = (
        f"{kind} is given to connector {name}: offset {sent.get('offset')} of topic {sent.get('topic')}"
    )
    session.output.done(sentence, {"name": name, "done": "signalled", **sent})
    return ExitCode.DONE


def _data(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UserError(f"--data: it is not JSON: {problem}") from None
    if not isinstance(found, dict):
        raise UserError('--data: it is no object like {"message": "hello"}')
    return found


def _fields(
    tables: tuple[str, ...], conditions: tuple[str, ...], surrogate_key: str | None, blocking: bool
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if tables:
        found["data-collections"] = list(tables)
    if conditions:
        pairs = [each.partition("=") for each in conditions]
        if not all(table and mark and filter for table, mark, filter in pairs):
            raise UserError("--where: it is TABLE=SQL, as public.orders=id > 7")
        found["additional-conditions"] = [
            {"data-collection": table, "filter": filter} for table, _, filter in pairs
        ]
    if surrogate_key:
        found["surrogate-key"] = surrogate_key
    if blocking:
        found["type"] = "blocking"
    return found
