"""`ottla connect offsets`: how far a connector is, and from where it goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.connect.session import Session, asks_connect, name_argument
from ottla.cli.frame.commands import command
from ottla.cli.frame.confirming import confirm, yes_option
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.options import require_at_most_one
from ottla.cli.frame.table import Column
from ottla.client.errors import ClusterError
from ottla.config.errors import UserError
from ottla.config.sources import MAX_FILE_BYTES


def _compact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_word(each)}" for key, each in value.items())
    return _word(value)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


COLUMNS: Final = (Column("partition", show=_compact), Column("offset", show=_compact))


@command(
    "offsets",
    examples=[
        "ottla connect offsets orders-to-lake",
        "ottla connect offsets orders-to-lake --json > offsets.jsonl",
        "ottla connect offsets orders-to-lake --alter offsets.jsonl",
        "ottla connect offsets orders-to-lake --reset --yes",
    ],
)
@name_argument
@click.option(
    "--alter",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Set offsets: JSON as Connect's PATCH takes it, or lines as --json writes them; null as an offset "
    "removes a partition's. The connector must be stopped.",
)
@click.option("--reset", is_flag=True, help="Forget all offsets. The connector must be stopped.")
@yes_option
@asks_connect
def offsets(session: Session, name: str, alter: Path | None, reset: bool, yes: bool) -> int:
    """Show a connector's offsets: a source's are its own, a sink's those of its topics; or change them."""
    require_at_most_one({"--alter": alter, "--reset": reset})
    try:
        if alter is not None:
            wanted = _read(alter)
            message = session.api.alter_offsets(name, wanted)
            session.output.done(message, {"name": name, "done": "altered", "offsets": wanted})
        elif reset:
            confirm(f"forget the offsets of connector {name}", yes)
            session.output.done(session.api.reset_offsets(name), {"name": name, "done": "reset"})
        else:
            rows = session.api.offsets(name)
            if session.output.is_quiet:
                rows = [{"partition": _compact(each.get("partition"))} for each in rows]
            empty = f"connector {name} has no offsets"
            session.output.listing(rows, COLUMNS, name="partition", empty=empty)
    except ClusterError as problem:
        raise session.explained(name, problem) from None
    return ExitCode.DONE


def _read(path: Path) -> list[dict[str, Any]]:
    """The offsets of a file. Raises UserError."""
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise UserError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
    try:
        text = data.decode()
        try:
            whole = json.loads(text)
            found = whole["offsets"] if isinstance(whole, dict) and "offsets" in whole else whole
        except json.JSONDecodeError:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path}: it is not JSON: {problem}") from None
    if isinstance(found, dict):
        found = [found]
    if not isinstance(found, list) or not all(
        isinstance(each, dict) and isinstance(each.get("partition"), dict) and "offset" in each
        for each in found
    ):
        raise UserError(
            f"{path}: each offset is an object with `partition` and `offset`, "
            'as {"partition": {"filename": "a"}, "offset": {"position": 30}}'
        )
    return found
