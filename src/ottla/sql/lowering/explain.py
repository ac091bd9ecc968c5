"""EXPLAIN: a query's steps in words, and for each whether Spark or Python works it out."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.sql.language.statements import Emit, SourceKind, WindowKind
from ottla.sql.lowering.columns import is_native
from ottla.sql.lowering.grouping import group_places, runs_in_spark
from ottla.sql.lowering.rows import Path, Places
from ottla.sql.plan.bound import EXPLODED, Bound, columns_of, in_words
from ottla.sql.plan.query_plan import (
    Aggregate,
    FromSource,
    Join,
    JoinHow,
    Mode,
    Projected,
    QueryPlan,
    Ranking,
    Window,
)


def explained(query: QueryPlan) -> str:
    """The steps of a query, a line each, from its sources to the rows that go out."""
    return "\n".join(_lines(query))


def _lines(query: QueryPlan) -> Iterator[str]:
    before, after = _places(query), _places(query)
    yield f"from {_source(query.source)}"
    for join in query.joins:
        yield _join(join)
    if query.where is not None:
        yield f"where {in_words(query.where)}  {_mark(before, query.where)}"
    for each in query.exploded:
        yield f"a row for each of {in_words(each.expression)}  [Python]"
    if query.ranking is not None:
        yield from _ranking(query, query.ranking, before)
        after = group_places(query)
    elif query.grouped:
        keys = ", ".join(in_words(each.expression) for each in query.group_by)
        yield f"group by {keys}  {_mark(before, *(each.expression for each in query.group_by))}"
        if query.window is not None:
            yield f"  {_window(query.window)}"
        in_spark = runs_in_spark(query, before) and query.kind is SourceKind.TABLE and not _of_table(query)
        for aggregate in query.aggregates:
            yield f"  {_aggregate(aggregate)}"
        yield f"  aggregates  [{'Spark' if in_spark else 'Python'}, state]"
        after = group_places(query)
    if query.having is not None:
        yield f"having {in_words(query.having)}  {_mark(after, query.having)}"
    if query.new_key:
        keys = ", ".join(map(in_words, query.partition_by)) or "NULL"
        yield f"partition by {keys}  {_mark(before, *query.partition_by)}"
    columns = ", ".join(
        f"{in_words(e.expression)} AS {e.name}{' (key)' if e.key else ''}" for e in query.projection
    )
    yield f"select {columns}  {_mark(after, *(each.expression for each in query.values))}"
    yield f"emits {_mode(query)}"


def _ranking(query: QueryPlan, ranking: Ranking, places: Places) -> Iterator[str]:
    keys = ", ".join(in_words(each.expression) for each in query.group_by)
    order = ", ".join(
        in_words(each.expression) + (" DESC" if each.descending else "") for each in ranking.order_by
    )
    rows = "row" if ranking.limit == 1 else f"{ranking.limit} rows"
    parts = [*(each.expression for each in query.group_by), *ranking.expressions]
    columns = ", ".join(f"{in_words(each.expression)} AS {each.name}" for each in ranking.columns)
    yield f"columns {columns}  {_mark(places, *parts)}"
    yield f"the first {rows} of each {keys} by {order}, as {ranking.rank}  [Python, state]"
    yield f"  keeps at most {ranking.limit} of each {keys}, for ever"


def _mode(query: QueryPlan) -> str:
    """The changelog mode: what a row that goes out means."""
    if query.mode is Mode.PULL:
        return "rows, once: those that are there now"
    if query.emit is Emit.FINAL:
        return "rows: each window once, when it is closed"
    if query.kind is SourceKind.TABLE:
        return "upserts: a key's last row counts, a key alone deletes it"
    return "rows"


def _source(named: FromSource) -> str:
    source = named.source
    alias = "" if named.alias == source.name else f" as {named.alias}"
    return f"{source.kind.value.lower()} {source.name}{alias} (topic {source.topic}, {source.value_format})"


def _join(join: Join) -> str:
    keys, within = f"{in_words(join.left_key)} = {in_words(join.right_key)}", ""
    if (window := join.window) is not None:
        within = f", from {window.before_ms} ms before to {window.after_ms} ms after"
        within += f", grace {window.grace_ms} ms"
    runs = "Spark" if join.how is JoinHow.STREAM_STREAM else "Python, state"
    kind = f"{join.kind.value.lower()} {join.how.value} join"
    return f"{kind} {_source(join.right)} on {keys}{within}  [{runs}]"


def _column(column: Projected) -> str:
    return f"{in_words(column.expression)} AS {column.name}" + (" (key)" if column.key else "")


def _aggregate(aggregate: Aggregate) -> str:
    return f"{aggregate.name} = {aggregate.function}({', '.join(map(in_words, aggregate.arguments)) or '*'})"


def _window(window: Window) -> str:
    if window.kind is WindowKind.CUMULATE:
        grows = f"windows that grow by {window.advance_ms} ms up to {window.size_ms} ms"
        return f"{grows}, grace {window.grace_ms} ms"
    advance = "" if window.advance_ms is None else f", every {window.advance_ms} ms"
    kind = window.kind.value.lower()
    return f"{kind} windows of {window.size_ms} ms{advance}, grace {window.grace_ms} ms"


def _mark(places: Places, *expressions: Bound) -> str:
    return "[Spark]" if all(is_native(each, places) for each in expressions) else "[Python]"


def _of_table(query: QueryPlan) -> bool:
    return all(each.source.is_table for each in query.sources)


def _places(query: QueryPlan) -> Places:
    """Places for every column that the query reads; which ones does not matter here."""
    paths: dict[tuple[str, str], Path] = {}
    expressions = [each.expression for each in query.projection]
    expressions += [each.expression for each in query.group_by]
    expressions += [each for each in (query.where, query.having) if each is not None]
    expressions += [*query.partition_by, *(each for a in query.aggregates for each in a.arguments)]
    if query.ranking is not None:
        expressions += query.ranking.expressions
    for expression in expressions:
        for column in columns_of(expression):
            paths[column.source, column.name] = ("value", column.name)
    for exploded in query.exploded:
        paths[EXPLODED, exploded.name] = ("value", exploded.name)
    return Places(paths)
