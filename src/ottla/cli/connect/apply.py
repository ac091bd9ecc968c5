"""`ottla connect apply`: connectors as files say, by the difference between those and the ones that run."""

from __future__ import annotations

import enum
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from ottla.cli.cluster.outcomes import Outcomes
from ottla.cli.connect.session import Session, asks_connect
from ottla.cli.frame.commands import command
from ottla.cli.frame.confirming import confirm, yes_option
from ottla.cli.frame.connector_files import WantedConnector, read_connectors
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.options import positive_number
from ottla.client.connect_api import ConnectRefusal, FieldError
from ottla.client.errors import ClusterError
from ottla.config.setting import HIDDEN
from ottla.config.unsupported import is_secret

POLL_SECONDS: Final = 0.25
_UNKNOWN: Final = "UNKNOWN"


class Action(enum.StrEnum):
    """What becomes of a connector."""

    CREATE = "create"
    CHANGE = "change"
    LEAVE = "leave"
    DELETE = "delete"


_DONE: Final = {
    Action.CREATE: "created",
    Action.CHANGE: "changed",
    Action.LEAVE: "left as it is",
    Action.DELETE: "deleted",
}


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting before and after; None where it is not there."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Step:
    """The change of one connector. wanted: None for one that is deleted."""

    action: Action
    name: str
    wanted: WantedConnector | None
    changes: tuple[SettingChange, ...]


@command(
    "apply",
    examples=[
        "ottla connect apply orders-to-lake.json",
        "ottla connect apply connectors/ --dry-run",
        "ottla connect apply connectors/ --prune --yes --wait 60",
        "ottla connect config old | ottla connect apply - --url http://other:8083",
    ],
)
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Show the difference, validate, and change nothing.")
@click.option("--prune", is_flag=True, help="Delete connectors that none of the files has.")
@click.option(
    "--wait",
    type=positive_number,
    metavar="SECONDS",
    help="Wait so long until the connectors and their tasks run, and fail if one has FAILED.",
)
@click.option(
    "--fail-on",
    type=click.Choice(("change",)),
    help=f"End with exit code {ExitCode.FOUND.value} if a connector was changed, or with --dry-run would be.",
)
@yes_option
@asks_connect
def apply(
    session: Session,
    files: tuple[str, ...],
    dry_run: bool,
    prune: bool,
    wait: float | None,
    fail_on: str | None,
    yes: bool,
) -> int:
    """Create connectors, and change them, until they are as files say; connectors that are so are left alone.

    FILE is JSON as Connect takes it ({"name": …, "config": {…}}, or a list of such), a properties file with
    name=…, YAML of the same shape where PyYAML is installed, a directory of such files, or - for JSON on
    stdin. Settings that a file leaves out are removed.

    Each new and changed configuration is validated by the workers first. If one is not valid, its settings
    are told with their problems, and nothing is changed. --yes answers the question before --prune deletes.
    """
    wanted = read_connectors(files)
    steps = plan(wanted, session.api.connectors(), prune)
    outcomes = Outcomes(session.output)
    for step in steps:
        _show(session, step)
    invalid = [(step, problem) for step in steps for problem in _problems(session, step)]
    for step, problem in invalid:
        assert step.wanted is not None
        outcomes.failed(f"{step.wanted.place}: connector {step.name}: {problem.setting}: {problem.problem}")
    if invalid:
        if not dry_run:
            session.output.note("nothing was changed")
        return outcomes.exit_code
    changing = [step for step in steps if step.action is not Action.LEAVE]
    if dry_run:
        for step in steps:
            session.output.done(_sentence(step, " (not done: --dry-run)"), _result(step, done=False))
    else:
        deleted = [step.name for step in changing if step.action is Action.DELETE]
        if deleted:
            confirm(f"delete connector{'s' if len(deleted) > 1 else ''} {', '.join(deleted)}", yes)
        for step in steps:
            _carry_out(session, step, outcomes)
        if wait is not None and not outcomes.exit_code:
            _await(session, wanted, wait, outcomes)
    if outcomes.exit_code:
        return outcomes.exit_code
    return ExitCode.FOUND if fail_on is not None and changing else ExitCode.DONE


def plan(
    wanted: Sequence[WantedConnector], present: Mapping[str, Mapping[str, Any]], prune: bool
) -> list[Step]:
    """The steps from the connectors that are there to those that are wanted; deletions come last.

    present: as GET /connectors?expand=info gives them.
    """
    steps = []
    for one in wanted:
        info = present.get(one.name)
        before = {} if info is None else _config_of(one.name, info)
        changes = tuple(_changes(before, one.config))
        action = Action.CREATE if info is None else Action.CHANGE if changes else Action.LEAVE
        steps.append(Step(action, one.name, one, changes))
    if prune:
        kept = {one.name for one in wanted}
        steps += [
            Step(Action.DELETE, name, None, tuple(_changes(_config_of(name, present[name]), {})))
            for name in sorted(present.keys() - kept)
        ]
    return steps


def _config_of(name: str, expanded: Mapping[str, Any]) -> dict[str, str]:
    return {**((expanded.get("info") or {}).get("config") or {}), "name": name}


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[SettingChange]:
    for name in sorted(before.keys() | after.keys()):
        if name != "name" and before.get(name) != after.get(name):
            yield SettingChange(name, before.get(name), after.get(name))


def _show(session: Session, step: Step) -> None:
    """Tell people the settings that change."""
    if step.action in (Action.LEAVE, Action.DELETE):
        return
    lines = [f"{step.action} {step.name}"]
    for change in step.changes:
        for mark, value in (("-", change.before), ("+", change.after)):
            if value is not None:
                lines.append(f"  {mark} {change.name}={shown_value(change.name, value)}")
    session.output.say("\n".join(lines))


def shown_value(name: str, value: str) -> str:
    """A setting's value for people: a secret is hidden, unless it is the name of one (`${file:…}`)."""
    reference = value.startswith("${") and value.endswith("}")
    return HIDDEN if is_secret(name) and not reference else value


def _problems(session: Session, step: Step) -> list[FieldError]:
    """The settings of a step that the workers would not take."""
    if step.wanted is None or step.action is Action.LEAVE:
        return []
    try:
        return session.api.validate(step.wanted.config)
    except ConnectRefusal as refusal:  # of a class that they don't have, say
        return [FieldError("connector.class", str(refusal))]


def _carry_out(session: Session, step: Step, outcomes: Outcomes) -> None:
    api = session.api
    try:
        match step:
            case Step(action=Action.CREATE, wanted=WantedConnector() as wanted):
                api.create(wanted.name, wanted.config, wanted.initial_state)
            case Step(action=Action.CHANGE, wanted=WantedConnector() as wanted):
                api.put(wanted.name, wanted.config)
            case Step(action=Action.DELETE):
                api.delete(step.name)
    except ClusterError as problem:
        outcomes.failed(f"connector {step.name} was not {_DONE[step.action]}: {problem}")
        return
    outcomes.done(_sentence(step), _result(step, done=True))


def _sentence(step: Step, end: str = "") -> str:
    return f"connector {step.name}: {_DONE[step.action]}{end if step.action is not Action.LEAVE else ''}"


def _result(step: Step, done: bool) -> dict[str, Any]:
    return {
        "name": step.name,
        "action": str(step.action),
        "done": done and step.action is not Action.LEAVE,
        "file": None if step.wanted is None else step.wanted.place,
        "changes": [
            {
                "setting": each.name,
                "before": None if each.before is None else shown_value(each.name, each.before),
                "after": None if each.after is None else shown_value(each.name, each.after),
            }
            for each in step.changes
        ],
    }


def _await(session: Session, wanted: Sequence[WantedConnector], seconds: float, outcomes: Outcomes) -> None:
    """Wait until the connectors that are to run do so, with all their tasks."""
    deadline = time.monotonic() + seconds
    waiting = [one.name for one in wanted if one.initial_state in (None, "RUNNING")]
    while waiting:
        left = []
        found = session.api.connectors()
        for name in waiting:
            states = _states(found.get(name) or {})
            if "FAILED" in states:
                outcomes.failed(
                    f"connector {name} has failed: `ottla connect status {name} --trace` tells why"
                )
            elif len(states) < 2 or set(states) != {"RUNNING"}:
                left.append(name)
        waiting = left
        if waiting and time.monotonic() > deadline:
            for name in waiting:
                outcomes.failed(f"connector {name} did not run within {seconds:g} seconds")
            return
        if waiting:
            time.sleep(POLL_SECONDS)


def _states(expanded: Mapping[str, Any]) -> list[str]:
    """The states of a connector and of the tasks that it is to have; UNKNOWN: no worker has told one."""
    told, info = expanded.get("status") or {}, expanded.get("info") or {}
    parts = [told.get("connector") or {}, *(told.get("tasks") or ())]
    missing = 1 + len(info.get("tasks") or ()) - len(parts)
    return [str(each.get("state")) for each in parts] + [_UNKNOWN] * missing
