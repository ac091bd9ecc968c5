"""Queries bound: from FROM over WHERE and GROUP BY to the columns that go out, with every rule."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ottla.sql.binding.expression_binder import ExpressionBinder, Special
from ottla.sql.binding.grouping import Grouping, first_aggregate
from ottla.sql.binding.joins import DEFAULT_GRACE_MS, bound_joins, from_sources, row_key_of
from ottla.sql.binding.projection import projected
from ottla.sql.binding.ranking import ranked
from ottla.sql.binding.scope import Scope
from ottla.sql.catalog.sources import Catalog
from ottla.sql.functions.function import TableFunction
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.language.expressions import Call, Literal
from ottla.sql.language.statements import Emit, InnerText, Query, SourceKind
from ottla.sql.plan.bound import EXPLODED, Bound, BoundColumn
from ottla.sql.plan.query_plan import FromSource, Mode, Named, QueryPlan, Window


@dataclass(frozen=True, slots=True)
class QueryBinder:
    """Binds queries over a catalogue."""

    catalog: Catalog
    functions: Functions

    def persistent(self, query: Query, made: SourceKind | None) -> QueryPlan:
        """A query that runs on and writes a stream or table. made: what it must give. Raises SqlError."""
        if query.limit is not None:
            raise SqlError("a query that runs on has no LIMIT", query.at, "leave it out")
        plan = self._bound(replace(query, emit=query.emit or Emit.CHANGES), writes=True)
        if made is not None and plan.kind is not made:
            raise _wrong_kind(query, made, plan)
        return plan

    def asked(self, query: Query) -> QueryPlan:
        """A query by itself: with EMIT a push query, without one a pull query. Raises SqlError."""
        plan = self._bound(query, writes=False)
        if query.emit is not None:
            return plan
        if plan.ranking is not None:
            raise SqlError(
                "a query of what is there now numbers no rows",
                query.source.at,
                "EMIT CHANGES makes it a push query",
            )
        clauses = {
            "JOIN": query.joins,
            "WINDOW": query.window,
            "GROUP BY": query.group_by,
            "PARTITION BY": query.partition_by,
            "HAVING": query.having,
        }
        for clause, given in clauses.items():
            if given:
                raise SqlError(
                    f"a query of what is there now has no {clause}",
                    query.at,
                    "EMIT CHANGES makes it a push query",
                )
        return replace(plan, mode=Mode.PULL)

    def _bound(self, query: Query, *, writes: bool) -> QueryPlan:
        if isinstance(query.source, InnerText):
            return ranked(query, query.source, self.catalog, self.functions)
        sources = from_sources(query, self.catalog)
        joins = bound_joins(query, sources, self.functions)
        scope = Scope(sources, row_key=row_key_of(joins))
        binder = ExpressionBinder(scope, self.functions, dict(self.catalog.types))
        where = None if query.where is None else binder.condition(query.where, "WHERE")
        is_table = all(each.source.is_table for each in sources)
        new_key, partition_by = self._partition(query, binder, is_table)
        exploded: list[Named] = []
        grouping = None
        if query.group_by or self._aggregates(query):
            grouping = Grouping(query, binder, is_table)
            items = grouping.binder
        else:
            if query.having is not None:
                raise SqlError("HAVING is for a query with GROUP BY", query.having.at, "use WHERE")
            if query.window is not None:
                raise SqlError("WINDOW is for a query with GROUP BY", query.window.at)
            items = replace(binder, special=_explosions(exploded))
        self._check_emit(query, grouping)
        projection = projected(query, sources, joins, items, grouping, partition_by, new_key, writes)
        if exploded and is_table:
            raise SqlError("table functions are for streams", query.at)
        having = None
        if grouping is not None and query.having is not None:
            having = grouping.binder.condition(query.having, "HAVING")
        return QueryPlan(
            sources[0],
            projection,
            SourceKind.TABLE if is_table or grouping is not None else SourceKind.STREAM,
            joins,
            where,
            tuple(exploded),
            new_key,
            partition_by,
            () if grouping is None else grouping.keys,
            _window(query, sources),
            () if grouping is None else tuple(grouping.aggregates),
            having,
            query.emit,
            query.limit,
        )

    def _aggregates(self, query: Query) -> bool:
        """Whether an aggregate stands in the query without GROUP BY: an error."""
        found = first_aggregate(query, self.functions)
        if found is not None and not query.group_by:
            raise SqlError(
                f"{found.name} is an aggregate: it needs GROUP BY",
                found.at,
                "GROUP BY 1 makes one group of all rows",
            )
        return False

    def _partition(
        self, query: Query, binder: ExpressionBinder, is_table: bool
    ) -> tuple[bool, tuple[Bound, ...]]:
        if not query.partition_by:
            return False, ()
        at = query.partition_by[0].at
        if is_table:
            raise SqlError("PARTITION BY is for streams", at, "a table's key changes by GROUP BY")
        if query.group_by:
            raise SqlError("a query has PARTITION BY or GROUP BY, not both", at)
        if any(isinstance(each, Literal) and each.value is None for each in query.partition_by):
            if len(query.partition_by) > 1:
                raise SqlError("PARTITION BY NULL stands alone", at)
            return True, ()
        return True, tuple(binder.bind(each) for each in query.partition_by)

    def _check_emit(self, query: Query, grouping: Grouping | None) -> None:
        if query.emit is Emit.FINAL and (grouping is None or query.window is None):
            raise SqlError(
                "EMIT FINAL is for windows: only they are ever complete",
                query.at,
                "EMIT CHANGES, or add WINDOW",
            )


def _explosions(found: list[Named]) -> Special:
    """Takes table functions out of SELECT, each as a column of what they make."""

    def special(call: Call, binder: ExpressionBinder) -> Bound | None:
        function = binder.functions.find(call.name)
        if not isinstance(function, TableFunction):
            return None
        bound = replace(binder, special=None).call(call, function)
        name = f"KSQL_EXPLODED_{len(found)}"
        found.append(Named(name, bound))
        return BoundColumn(EXPLODED, name, bound.type)

    return special


def _window(query: Query, sources: list[FromSource]) -> Window | None:
    text = query.window
    if text is None:
        return None
    grace = DEFAULT_GRACE_MS if text.grace_ms is None else text.grace_ms
    return Window(text.kind, text.size_ms, text.advance_ms, grace, text.retention_ms)


def _wrong_kind(query: Query, made: SourceKind, plan: QueryPlan) -> SqlError:
    if made is SourceKind.TABLE:
        return SqlError(
            "the query gives a stream, not a table", query.at, "CREATE STREAM, or aggregate with GROUP BY"
        )
    why = "aggregates" if plan.grouped else "reads tables alone"
    return SqlError(f"the query {why}: it gives a table, not a stream", query.at, "CREATE TABLE")
