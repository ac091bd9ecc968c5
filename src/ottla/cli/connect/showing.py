"""`ottla connect list`, `status` and `config`: connectors, and how they are."""

from __future__ import annotations

import fnmatch
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click

from ottla.cli.cluster.outcomes import Outcomes
from ottla.cli.connect.session import Session, asks_connect, complete_connectors, name_argument
from ottla.cli.frame.commands import command
from ottla.cli.frame.errors import ExitCode, did_you_mean
from ottla.cli.frame.table import Column
from ottla.cli.frame.terminal import Style
from ottla.client.errors import ClusterError

FAILED: Final = "FAILED"
_STYLES: Final = {
    "RUNNING": Style.GREEN,
    "PAUSED": Style.YELLOW,
    "RESTARTING": Style.YELLOW,
    "STOPPED": Style.YELLOW,
    "UNASSIGNED": Style.YELLOW,
    FAILED: Style.RED,
}
_FAIL_ON: Final = {
    "failed": {FAILED},
    "not-running": {FAILED, "UNASSIGNED", "PAUSED", "STOPPED", "RESTARTING"},
}


def _style(state: Any) -> str:
    return _STYLES.get(str(state), "")


def _counted(tasks: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state.lower()}" for state, count in tasks.items()) or "-"


LIST_COLUMNS: Final = (
    Column("name"),
    Column("type"),
    Column("state", style=_style),
    Column("tasks", show=_counted),
    Column("class", show=lambda name: str(name).rpartition(".")[2]),
)
STATUS_COLUMNS: Final = (
    Column("name"),
    Column("task"),
    Column("state", style=_style),
    Column("worker"),
    Column("problem"),
)


def _fail_option(function: Any) -> Any:
    return click.option(
        "--fail-on",
        type=click.Choice(tuple(_FAIL_ON)),
        help=f"End with exit code {ExitCode.FOUND.value} if a connector or task is FAILED; not-running: if "
        "one is in another state than RUNNING.",
    )(function)


@command(
    "list",
    examples=[
        "ottla connect list",
        "ottla connect list 'orders-*' --json",
        "ottla connect list --fail-on failed",
    ],
)
@click.argument("patterns", nargs=-1, metavar="[NAME…]", shell_complete=complete_connectors)
@_fail_option
@asks_connect
def list_(session: Session, patterns: Sequence[str], fail_on: str | None) -> int:
    """List connectors with their states, all or those of names and patterns as in a shell."""
    found = session.api.connectors()
    chosen, missing = _chosen(patterns, found)
    outcomes = Outcomes(session.output)
    rows = [_listed(name, found[name]) for name in chosen]
    session.output.listing(rows, LIST_COLUMNS, empty=_empty(patterns))
    for name in missing:
        outcomes.failed(f"there is no connector {name}{did_you_mean(name, found)}")
    states = [state for row in rows for state in (row["state"], *row["tasks"])]
    return outcomes.exit_code or _found(states, fail_on)


@command(
    "status",
    examples=[
        "ottla connect status",
        "ottla connect status orders-to-lake --trace",
        "ottla connect status orders-to-lake --fail-on not-running",
    ],
)
@click.argument("patterns", nargs=-1, metavar="[NAME…]", shell_complete=complete_connectors)
@click.option("--trace", is_flag=True, help="Show whole traces of connectors and tasks that have failed.")
@_fail_option
@asks_connect
def status(session: Session, patterns: Sequence[str], trace: bool, fail_on: str | None) -> int:
    """Show the states of connectors and of each of their tasks, with their problems."""
    found = session.api.connectors()
    chosen, missing = _chosen(patterns, found)
    outcomes = Outcomes(session.output)
    rows = [row for name in chosen for row in _parts(name, found[name].get("status") or {})]
    if session.output.is_quiet:
        rows = [row for row in rows if row["task"] is None]
    session.output.listing(rows, STATUS_COLUMNS, empty=_empty(patterns))
    if trace:
        for row in rows:
            if row["trace"]:
                part = row["name"] if row["task"] is None else f"{row['name']} task {row['task']}"
                session.output.say(f"\n{part}:\n{row['trace'].rstrip()}")
    for name in missing:
        outcomes.failed(f"there is no connector {name}{did_you_mean(name, found)}")
    return outcomes.exit_code or _found((row["state"] for row in rows), fail_on)


@command(
    "config",
    examples=["ottla connect config orders-to-lake > orders-to-lake.json"],
)
@name_argument
@asks_connect
def config(session: Session, name: str) -> int:
    """Show a connector's configuration: JSON that `ottla connect apply` takes as a file."""
    try:
        given = session.api.config(name)
    except ClusterError as problem:
        raise session.explained(name, problem) from None
    whole = {"name": name, "config": {key: text for key, text in sorted(given.items()) if key != "name"}}
    if session.output.is_quiet:
        session.output.line(name)
    elif session.output.is_json:
        session.output.json(whole)
    else:
        session.output.line(json.dumps(whole, indent=2, ensure_ascii=False))
    return ExitCode.DONE


def _chosen(words: Sequence[str], found: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The connectors that words mean, by name; and words that mean none."""
    if not words:
        return sorted(found), []
    chosen: dict[str, None] = {}
    missing = []
    for word in words:
        # a name is that of a connector even if it looks like a pattern
        matching = (
            [word] if word in found else [name for name in sorted(found) if fnmatch.fnmatchcase(name, word)]
        )
        if not matching and not set(word) & set("*?["):
            missing.append(word)
        chosen |= dict.fromkeys(matching)
    return list(chosen), missing


def _empty(words: Sequence[str]) -> str:
    return "no connector has such a name" if words else "there is no connector"


def _listed(name: str, expanded: Mapping[str, Any]) -> dict[str, Any]:
    """A connector's row, from GET /connectors?expand."""
    told, info = expanded.get("status") or {}, expanded.get("info") or {}
    tasks = Counter(str(task.get("state")) for task in told.get("tasks") or ())
    return {
        "name": name,
        "type": told.get("type") or info.get("type"),
        "state": (told.get("connector") or {}).get("state"),
        "tasks": dict(sorted(tasks.items())),
        "class": (info.get("config") or {}).get("connector.class"),
    }


def _parts(name: str, told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for a connector, and one for each of its tasks."""
    rows = []
    for task in ({**(told.get("connector") or {}), "id": None}, *(told.get("tasks") or ())):
        trace = str(task.get("trace") or "")
        rows.append(
            {
                "name": name,
                "task": task.get("id"),
                "state": task.get("state"),
                "worker": task.get("worker_id"),
                "problem": _problem(trace),
                "trace": trace or None,
            }
        )
    return rows


def _problem(trace: str) -> str | None:
    """The line of a trace that tells the most: the last cause of Java's, the last line of Python's."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    if causes:
        return causes[-1].removeprefix("Caused by: ")
    if lines and lines[0].startswith("Traceback "):
        return lines[-1]
    return lines[0] if lines else None


def _found(states: Iterable[Any], fail_on: str | None) -> ExitCode:
    bad = _FAIL_ON[fail_on] if fail_on is not None else set()
    return ExitCode.FOUND if any(state in bad for state in states) else ExitCode.DONE
