"""`ottla connect restart`, `pause`, `resume`, `stop` and `delete`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click

from ottla.cli.connect.session import Session, asks_connect, names_argument
from ottla.cli.frame.commands import Command, command
from ottla.cli.frame.confirming import confirm, yes_option
from ottla.cli.frame.options import require_at_most_one
from ottla.client.connect_api import ConnectApi


@command(
    "restart",
    examples=[
        "ottla connect restart orders-to-lake",
        "ottla connect restart orders-to-lake --tasks --only-failed",
        "ottla connect restart orders-to-lake --task 2",
    ],
)
@names_argument
@click.option("--tasks", is_flag=True, help="The connector and its tasks.")
@click.option("--only-failed", is_flag=True, help="Only those of them that are FAILED.")
@click.option("--task", type=click.IntRange(0), metavar="NUMBER", help="This task alone.")
@asks_connect
def restart(
    session: Session, names: tuple[str, ...], tasks: bool, only_failed: bool, task: int | None
) -> int:
    """Start connectors anew; their tasks go on meanwhile, unless --tasks names them too."""
    require_at_most_one({"--task": task is not None, "--tasks": tasks})
    require_at_most_one({"--task": task is not None, "--only-failed": only_failed})

    def act(name: str) -> tuple[str, str]:
        if task is not None:
            session.api.restart_task(name, task)
            return f"{name}: task {task} is started anew", "restarted"
        session.api.restart(name, tasks, only_failed)
        parts = f"connector {name}" + (" and its tasks" if tasks else "")
        return f"{parts}: {'those that failed are' if only_failed else 'is'} started anew", "restarted"

    return session.each(names, act)


def _changing(
    word: str, change: Callable[[ConnectApi, str], None], done: str, sentence: str, help: str
) -> Command:
    """A command that changes the state of connectors."""

    @command(word, help=help, examples=[f"ottla connect {word} orders-to-lake"])
    @names_argument
    @asks_connect
    def run(session: Session, names: tuple[str, ...]) -> int:
        def act(name: str) -> tuple[str, str]:
            change(session.api, name)
            return sentence.format(name), done

        return session.each(names, act)

    return run


pause: Final = _changing(
    "pause",
    ConnectApi.pause,
    "paused",
    "connector {} pauses",
    "Have connectors wait: their tasks stay, and do nothing until `resume`.",
)
resume: Final = _changing(
    "resume",
    ConnectApi.resume,
    "resumed",
    "connector {} goes on",
    "Have paused and stopped connectors go on.",
)
stop: Final = _changing(
    "stop",
    ConnectApi.stop,
    "stopped",
    "connector {} stops",
    "End the tasks of connectors; configuration and offsets stay, and offsets can be changed.",
)


@command("delete", examples=["ottla connect delete orders-to-lake --yes"])
@names_argument
@yes_option
@asks_connect
def delete(session: Session, names: tuple[str, ...], yes: bool) -> int:
    """Delete connectors with their tasks; their offsets stay, for a connector of the same name."""
    confirm(f"delete connector{'s' if len(names) > 1 else ''} {', '.join(names)}", yes)

    def act(name: str) -> tuple[str, str]:
        session.api.delete(name)
        return f"connector {name} is deleted", "deleted"

    return session.each(names, act)
