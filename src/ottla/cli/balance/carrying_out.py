"""Carries plans out for a command: the journal, the runner, progress, and the line at the end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from ottla.balance.execution.journal import Execution, Journal
from ottla.balance.execution.runner import Outcome, Progress, Runner, RunOptions
from ottla.balance.planning import Planned
from ottla.cli.balance.planning_options import Running
from ottla.cli.frame.cluster import Session
from ottla.client.cluster_requests import ClusterRequests


class Carrier:
    """Carries plans out, one after the other."""

    def __init__(self, session: Session, journal: Journal, runner: Runner, running: Running) -> None:
        self.journal = journal
        self._output = session.output
        self._runner = runner
        self._options = RunOptions(moves_per_broker=running.moves_per_broker, throttle=running.throttle)

    @classmethod
    @contextlib.asynccontextmanager
    async def to(cls, session: Session, client: ClusterRequests, running: Running) -> AsyncIterator[Carrier]:
        """Open the journal for as long. Raises StateError."""
        journal = Journal(session.access)
        try:
            await journal.open()
            yield cls(session, journal, Runner(session.access, client, journal), running)
        finally:
            await journal.close()

    async def finish_what_was_begun(self) -> None:
        """Carry on an execution that has lost its owner. Raises BalanceBusy."""
        execution = await self._runner.recover()
        if execution is not None:
            self._output.note(f"finishing {execution.purpose} {execution.id}, whose process has ended")
            self._told(await self._carried_out(execution))

    async def carry_out(self, planned: Planned) -> bool:
        """Carry a plan out; whether all of it was done. Raises BalanceBusy, StateError, ClusterError."""
        wish, changes = planned.wish, planned.plan.changes
        execution = await self._runner.begin(wish.purpose.value, changes, self._options, wish.brokers)
        outcome = await self._carried_out(execution)
        self._told(outcome)
        return outcome.word == "done"

    async def _carried_out(self, execution: Execution) -> Outcome:
        with self._output.progress("moving", unit="partitions") as bar:

            def told(progress: Progress) -> None:
                bar.update(progress.done + len(progress.problems), progress.changes)

            return await self._runner.carry_out(execution, self._options, told)

    def _told(self, outcome: Outcome) -> None:
        progress = outcome.progress
        for problem in progress.problems:
            self._output.warn(problem)
        for broker in outcome.left_over:
            self._output.warn(
                f"broker {broker}: its throttle could not be removed; the next `ottla balance run` does it"
            )
        self._output.done(
            f"{outcome.word}: {progress.done} of {progress.changes} partitions are as planned",
            outcome_body(outcome),
            name="id",
        )


def outcome_body(outcome: Outcome) -> dict[str, Any]:
    """The end of an execution as JSON."""
    progress = outcome.progress
    return {
        "id": outcome.execution.id,
        "purpose": outcome.execution.purpose,
        "outcome": outcome.word,
        "changes": progress.changes,
        "done": progress.done,
        "bytes_moved": progress.bytes_done,
        "problems": progress.problems,
    }
