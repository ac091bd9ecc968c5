"""The server's checks, from the parts of the node that runs, if any does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.metrics.exposition import Family
from ottla.metrics.health import Check, Verdict
from ottla.sql.server.node import SqlNode
from ottla.web.request_figures import RequestFigures

Running = Callable[[], SqlNode | None]


def sql_families(figures: RequestFigures, node: SqlNode | None) -> Iterator[Family]:
    """The server's metrics."""
    yield from ()


def sql_checks(running: Running) -> list[Check]:
    """Whether the server can be asked, and whether queries run."""

    def commands() -> Verdict:
        node = running()
        if node is None or not node.is_ready:
            return Verdict(False, "the commands are being read")
        if node.state.problem is not None:
            return Verdict(True, f"no statements are taken: {node.state.problem}")
        return Verdict(True, f"{node.state.number} commands, {len(node.state.queries)} queries")

    def queries() -> Verdict:
        node = running()
        if node is None:
            return Verdict(False, "it has not started")
        if not node.is_primary:
            return Verdict(True, f"queries run on {node.leadership.url}")
        if node.queries.is_ready:
            return Verdict(True, "queries run here")
        return Verdict(True, "the query host is starting")

    return [Check("sql-commands", commands), Check("sql-queries", queries)]
