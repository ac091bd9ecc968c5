"""The server's metrics and its checks, from the parts of the node that runs, if any does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ottla.metrics.exposition import Family, by_label, single
from ottla.metrics.health import Check, Verdict
from ottla.metrics.tables import sql as table
from ottla.replicated.metrics_source import group_families, state_families
from ottla.sql.language.statements import SourceKind
from ottla.sql.rows.figures import Reads, RunsOn
from ottla.sql.rows.row_queries import SqlRows
from ottla.sql.running.state_words import WORDS, status_word
from ottla.sql.server.node import SqlNode
from ottla.sql.server.statements import ERROR, OK, Statements
from ottla.streams.views.view_status import ViewState

Running = Callable[[], SqlNode | None]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a server that has started consists of."""

    node: SqlNode
    rows: SqlRows
    statements: Statements


def sql_families(parts: Parts | None) -> Iterator[Family]:
    """The server's metrics."""
    if parts is None:
        return
    node = parts.node
    yield from group_families(node.leadership, node.member)
    yield from state_families(node.states)
    yield Family(table.STATEMENTS, list(parts.statements.outcomes.items()))
    yield single(table.COMMANDS, node.state.number)
    yield single(table.COMMANDS_READABLE, int(node.state.problem is None))
    kinds = Counter(each.kind for each in node.state.catalog.sources.values())
    yield by_label(table.SOURCES, {each.value.lower(): kinds[each] for each in SourceKind})
    yield from _rows(parts.rows)
    yield from _queries(node)


def _rows(rows: SqlRows) -> Iterator[Family]:
    figures = rows.figures
    outcomes = ((ERROR, True), (OK, False))
    yield Family(
        table.PULLS,
        [((reads, word), figures.pulls[reads, failed]) for reads in Reads for word, failed in outcomes],
    )
    yield Family(table.PULL_SECONDS, [((reads,), times) for reads, times in figures.pull_times.items()])
    yield single(table.PULLS_PASSED_ON, figures.passed_on)
    yield by_label(table.PUSHES, {each.value: count for each, count in rows.push_counts().items()})
    yield by_label(table.PUSHES_STARTED, {each.value: figures.pushes_started[each] for each in RunsOn})
    yield single(table.PUSH_ERRORS, figures.push_errors)
    yield by_label(table.ROWS, {"pull": figures.pull_rows, "push": rows.pushed_rows})
    views = rows.view_statuses()
    states = Counter(each.state for each in views.values())
    yield by_label(table.VIEWS, {each.value: states[each] for each in ViewState})
    yield by_label(table.VIEW_LAG, {name: each.lag for name, each in views.items()})


def _queries(node: SqlNode) -> Iterator[Family]:
    """Of the server that runs them; the others know of none how it is."""
    yield single(table.HOST_STARTS, node.queries.host_starts)
    yield single(table.HOST_READY, int(node.queries.is_ready))
    if not node.is_primary:
        return
    queries = node.state.queries
    words = Counter(status_word(each, node.queries.life(each.id)) for each in queries.values())
    yield by_label(table.QUERIES, {word: words[word] for word in WORDS})
    lives = [(id, life) for id in queries if (life := node.queries.life(id)) is not None]
    yield by_label(table.QUERY_FAILURES, {id: life.failures for id, life in lives})
    told = [(id, life.progress) for id, life in lives if life.progress is not None]
    yield by_label(table.QUERY_LAG, {id: each.lag for id, each in told})
    yield by_label(table.QUERY_ROWS, {id: each.rows_per_second for id, each in told})
    yield by_label(table.QUERY_UNREADABLE, {id: each.dead_letters for id, each in told})


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
