"""Whether a query can run, as far as that is known without Spark: its plan becomes an application."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.errors import UserError
from ottla.sql.functions.registry import BUILT_IN, Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.lowering.query import Lowering
from ottla.sql.plan.statement_plan import PutQuery
from ottla.streams.dsl import Streams
from ottla.streams.plan.planner import plan as planned


def check_runs(plan: PutQuery, functions: Functions, registry: Mapping[str, str]) -> None:
    """Raises SqlError for a query that can't run. registry: settings of its client, empty without one."""
    app = Streams("checked")
    own = {name: each for name, each in functions.named.items() if name not in BUILT_IN}
    try:
        Lowering(app, own, registry=registry).put(plan)
        planned(app.topology())
    except SqlError:
        raise
    except UserError as problem:
        raise SqlError(f"the query can't run: {problem}") from problem
