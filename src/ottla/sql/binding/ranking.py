"""Top-N and deduplication: a query over one that numbers rows, bound as the first rows of each group.

`SELECT … FROM (SELECT …, ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) AS rn FROM s) WHERE rn <= N`. The
result is a table. Its key is PARTITION BY's columns, and the rank too where N is more than 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ottla.sql.binding.expression_binder import ExpressionBinder
from ottla.sql.binding.joins import bound_joins, from_sources
from ottla.sql.binding.projection import chosen, projected
from ottla.sql.binding.scope import Scope
from ottla.sql.catalog.sources import PSEUDO_COLUMNS, WINDOW_COLUMNS, Catalog, Column, Source, closest
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.expressions import Expression, Literal, Name, Operation, RowNumber
from ottla.sql.language.query_parser import MAKE_IT_A_STREAM
from ottla.sql.language.statements import Emit, InnerText, Item, Query, SourceKind, Star, StructStar
from ottla.sql.plan.bound import GROUP, Bound, BoundColumn, BoundOperation
from ottla.sql.plan.query_plan import FromSource, Named, Order, QueryPlan, Ranking
from ottla.sql.types.sql_types import BIGINT, BOOLEAN, Base

MAX_ROWS = 1_000
"""Rows that are kept of each key."""
_MIRRORED = {"<=": ">=", "<": ">", "=": "=", ">=": "<=", ">": "<"}


def ranked(query: Query, inner: InnerText, catalog: Catalog, functions: Functions) -> QueryPlan:
    """The plan of a query over one that numbers rows. Raises SqlError."""
    _check_clauses(query, inner)
    within = inner.query
    item = _rank_item(inner)
    sources = from_sources(within, catalog)
    joins = bound_joins(within, sources, functions)
    if all(each.source.is_table for each in sources):
        raise SqlError("ROW_NUMBER() is for streams: a table's rows change", item.at, "rank its source")
    types = dict(catalog.types)
    binder = ExpressionBinder(Scope(sources), functions, types)
    where = None if within.where is None else binder.condition(within.where, "WHERE")
    rank = item.alias
    if rank is None:
        raise SqlError("the number of a row needs a name", item.at, "ROW_NUMBER() OVER (…) AS rn")
    columns = _columns(within, sources, binder, item, rank)
    assert isinstance(item.expression, RowNumber)
    groups = _groups(item.expression, columns, binder)
    order = tuple(_order(each.expression, each.descending, binder) for each in item.expression.order_by)
    rows = _Rows(inner.alias, columns, rank)
    limit, others = _limit(query, rows)
    outer = ExpressionBinder(Scope(), functions, types, replaced=rows.column)
    conditions = [outer.condition(each, "WHERE") for each in others]
    keys: list[Bound] = [BoundColumn(GROUP, each.name, each.expression.type) for each in groups]
    if limit > 1:
        keys.append(BoundColumn(GROUP, rank, BIGINT))
    projection = projected(
        replace(query, items=tuple(map(rows.item, query.items))),
        [rows.source],
        (),
        outer,
        None,
        tuple(keys),
        new_key=True,
        writes=True,
    )
    return QueryPlan(
        sources[0],
        projection,
        SourceKind.TABLE,
        joins,
        where,
        group_by=groups,
        having=_all_of(conditions),
        emit=query.emit,
        limit=query.limit,
        ranking=Ranking(order, limit, rank, columns),
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of the query in FROM, as the one around it sees them."""

    alias: str | None
    columns: tuple[Named, ...]
    rank: str

    @property
    def source(self) -> FromSource:
        found = tuple(Column(each.name, each.expression.type) for each in self.columns)
        return FromSource(GROUP, Source(GROUP, SourceKind.STREAM, (*found, Column(self.rank, BIGINT)), ""))

    def column(self, expression: Expression, scope: Scope) -> Bound | None:
        """What a name stands for; None for other expressions. Raises SqlError."""
        if not isinstance(expression, Name):
            return None
        if expression.source is None and expression.name in scope.parameters:
            return None
        self._check_alias(expression)
        found = self.source.source.column(expression.name)
        if found is None:
            names = [each.name for each in self.source.source.columns]
            raise SqlError(
                f"the query in FROM has no column {expression.name}",
                expression.at,
                closest(expression.name, names) or "SELECT it there",
            )
        return BoundColumn(GROUP, found.name, found.type)

    def item(self, item: Star | StructStar | Item) -> Star | StructStar | Item:
        """An item of SELECT without this query's own name."""
        if not isinstance(item, Star):
            return item
        self._check_alias(item)
        return Star(item.at)

    def _check_alias(self, part: Name | Star) -> None:
        if part.source is not None and part.source != self.alias:
            advice = "the query in FROM has no name" if self.alias is None else f"it is named {self.alias}"
            raise SqlError(f"there is no source {part.source} in FROM", part.at, advice)

    def is_rank(self, expression: Expression) -> bool:
        """Whether an expression is the number of a row."""
        return (
            isinstance(expression, Name)
            and expression.name == self.rank
            and expression.source in (None, self.alias)
        )


def _check_clauses(query: Query, inner: InnerText) -> None:
    within = inner.query
    if query.emit is Emit.FINAL:
        raise SqlError("EMIT FINAL is for windows: only they are ever complete", query.at, "EMIT CHANGES")
    if query.joins:
        raise SqlError("a query in FROM can't be joined", query.joins[0].at, MAKE_IT_A_STREAM)
    for around, clause, given in (
        (True, "WINDOW", query.window and query.window.at),
        (True, "GROUP BY", _first(query.group_by)),
        (True, "PARTITION BY", _first(query.partition_by)),
        (True, "HAVING", query.having and query.having.at),
        (False, "WINDOW", within.window and within.window.at),
        (False, "GROUP BY", _first(within.group_by)),
        (False, "PARTITION BY", _first(within.partition_by)),
        (False, "HAVING", within.having and within.having.at),
        (False, "EMIT", within.emit and within.at),
        (False, "LIMIT", within.limit and within.at),
    ):
        if given:
            where = "a query over one in FROM" if around else "a query in FROM"
            raise SqlError(f"{where} has no {clause}", given, MAKE_IT_A_STREAM)


def _first(expressions: tuple[Expression, ...]) -> Position | None:
    return expressions[0].at if expressions else None


def _rank_item(inner: InnerText) -> Item:
    """The item that numbers rows. Raises SqlError."""
    found = [
        each
        for each in inner.query.items
        if isinstance(each, Item) and isinstance(each.expression, RowNumber)
    ]
    if not found:
        raise SqlError("a query can't stand in FROM", inner.at, MAKE_IT_A_STREAM)
    if len(found) > 1:
        raise SqlError("a query numbers rows once", found[1].at)
    return found[0]


def _columns(
    within: Query, sources: list[FromSource], binder: ExpressionBinder, item: Item, rank: str
) -> tuple[Named, ...]:
    """The columns of the query in FROM but for the rank. Raises SqlError."""
    columns: dict[str, Named] = {}
    for number, each in enumerate(within.items):
        if each is item:
            continue
        for name, bound, at in chosen(each, sources, binder, None, number):
            if name in columns or name == rank:
                raise SqlError(f"two columns are named {name}", at, "give one another name: … AS other")
            if name in PSEUDO_COLUMNS or name in WINDOW_COLUMNS:
                advice = f"give it another one: {name} AS other"
                raise SqlError(f"{name} is a name of the system's", at, advice)
            columns[name] = Named(name, bound)
    return tuple(columns.values())


def _groups(number: RowNumber, columns: tuple[Named, ...], binder: ExpressionBinder) -> tuple[Named, ...]:
    """PARTITION BY's expressions by the names that they have among the columns. Raises SqlError."""
    groups: list[Named] = []
    for each in number.partition_by:
        bound = binder.bind(each)
        if bound.type.base is Base.MAP:
            raise SqlError("a key can't be a MAP", each.at)
        name = next((column.name for column in columns if column.expression == bound), None)
        if name is None:
            raise SqlError(
                "the query in FROM lacks this column of PARTITION BY",
                each.at,
                "SELECT it there: it is the key of the result",
            )
        if all(known.name != name for known in groups):
            groups.append(Named(name, bound))
    return tuple(groups)


def _order(expression: Expression, descending: bool, binder: ExpressionBinder) -> Order:
    bound = binder.bind(expression)
    if bound.type.base in (Base.ARRAY, Base.MAP, Base.STRUCT, Base.UNKNOWN):
        raise SqlError(f"{bound.type} has no order", expression.at)
    return Order(bound, descending)


def _limit(query: Query, rows: _Rows) -> tuple[int, list[Expression]]:
    """How many rows of each key WHERE takes, and its other conditions. Raises SqlError."""
    parts = list(_conjunction(query.where))
    limit: int | None = None
    others: list[Expression] = []
    for each in parts:
        found = _bound_of_rank(each, rows)
        if found is None:
            others.append(each)
            continue
        if not 1 <= found <= MAX_ROWS:
            raise SqlError(f"{rows.rank} is at most 1 to {MAX_ROWS:,}", each.at)
        limit = found if limit is None else min(limit, found)
    if limit is None:
        at = query.at if query.where is None else query.where.at
        raise SqlError(
            f"WHERE has to say how many rows are wanted: {rows.rank} <= 3",
            at,
            f"{rows.rank} = 1 takes the first row of each key",
        )
    return limit, others


def _conjunction(condition: Expression | None) -> Iterator[Expression]:
    if isinstance(condition, Operation) and condition.operator == "AND":
        for each in condition.operands:
            yield from _conjunction(each)
    elif condition is not None:
        yield condition


def _bound_of_rank(condition: Expression, rows: _Rows) -> int | None:
    """The largest rank that a condition lets through, if it is `rank <= N`, `rank < N` or `rank = 1`."""
    if not isinstance(condition, Operation) or len(condition.operands) != 2:
        return None
    operator, (left, right) = condition.operator, condition.operands
    if rows.is_rank(right):
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    number = right.value if isinstance(right, Literal) else None
    if not rows.is_rank(left) or not isinstance(number, int) or isinstance(number, bool):
        return None
    match operator:
        case "<=":
            return number
        case "<":
            return number - 1
        case "=" if number == 1:
            return 1
    return None


def _all_of(conditions: list[Bound]) -> Bound | None:
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return BoundOperation("AND", tuple(conditions), BOOLEAN)
