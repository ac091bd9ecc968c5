"""`ottla balance status` and `stop`: the execution that is under way."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import click

from ottla.balance.execution.journal import Execution, Journal
from ottla.cli.cluster.any_broker import CommandError
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import Command


@contextlib.asynccontextmanager
async def _journal(session: Session) -> AsyncIterator[Journal]:
    journal = Journal(session.access)
    try:
        await journal.open()
        yield journal
    finally:
        await journal.close()


def _body(execution: Execution | None) -> dict[str, Any]:
    if execution is None:
        return {"id": None, "state": "none"}
    return {
        "id": execution.id,
        "purpose": execution.purpose,
        "state": execution.outcome if execution.finished else "under way",
        "owner": execution.owner,
        "started_ms": execution.started_ms,
        "throttle": execution.throttle,
    }


@click.command("status", cls=Command, examples=("ottla balance status", "ottla balance status --json"))
@asks_cluster
async def status(session: Session) -> None:
    """Show the execution that is under way, or the last one."""
    async with _journal(session) as journal:
        session.output.facts(_body(journal.execution), name="id")


@click.command("stop", cls=Command, examples=("ottla balance stop", "ottla balance stop --at-once"))
@click.option("--at-once", is_flag=True, help="End the moves under way too, as they were before.")
@asks_cluster
async def stop(session: Session, at_once: bool) -> None:
    """Stop the execution that is under way: it begins no further moves, and removes its throttles."""
    async with _journal(session) as journal:
        execution = journal.unfinished
        if execution is None:
            raise CommandError("no execution is under way")
        await journal.ask_to_stop(execution, at_once)
    session.output.done(f"{execution.owner} was asked to stop", _body(execution), name="id")
