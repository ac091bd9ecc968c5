"""The metrics of the service."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.balance.service.engine import Engine
from ottla.metrics.exposition import Family, by_label, single
from ottla.metrics.tables import balance as table


def balance_families(engine: Engine) -> Iterator[Family]:
    """The families of one service."""
    figures = engine.figures
    yield by_label(table.PLANS, {"ok": figures.plans, "failed": figures.failed_plans})
    yield single(table.PLAN_SECONDS, figures.plan_seconds)
    yield by_label(table.EXECUTIONS, figures.outcomes)
    yield single(table.EXECUTING, int(engine.is_executing))
    yield single(table.BYTES_MOVED, figures.bytes_moved)
    yield single(table.HEALED, figures.healed)
    progress = engine.progress
    if progress is not None:
        failed = len(progress.problems)
        states = {
            "done": progress.done,
            "under_way": progress.under_way,
            "failed": failed,
            "waiting": max(0, progress.changes - progress.done - progress.under_way - failed),
        }
        yield by_label(table.MOVES, states)
    if engine.last is not None:
        missed = {one.goal.title: one.before for one in engine.last.plan.goals}
        yield by_label(table.GOALS_MISSED, missed)
