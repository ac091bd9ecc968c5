"""GROUP BY: the keys of groups, the aggregates over them, and what else may stand beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ottla.sql.binding.expression_binder import ExpressionBinder
from ottla.sql.binding.scope import Scope
from ottla.sql.catalog.sources import WINDOW_COLUMNS
from ottla.sql.functions.function import AggregateFunction, TableFunction
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.language.expressions import (
    ArrayOf,
    Call,
    Case,
    Cast,
    Expression,
    FieldOf,
    Lambda,
    MapOf,
    Name,
    Operation,
    StructOf,
    Subscript,
)
from ottla.sql.language.statements import Item, Query, StructStar
from ottla.sql.plan.bound import GROUP, Bound, BoundColumn, BoundLiteral
from ottla.sql.plan.query_plan import Aggregate, Named
from ottla.sql.types.sql_types import Base


class Grouping:
    """The groups of one query. `aggregates` grows while SELECT and HAVING are bound by `binder`."""

    def __init__(self, query: Query, binder: ExpressionBinder, is_table: bool) -> None:
        if query.window is not None and is_table:
            raise SqlError(
                "windows are for streams: a table's rows have no time of their own", query.window.at
            )
        self._plain = binder
        self._query = query
        self._is_table = is_table
        self.aggregates: list[Aggregate] = []
        bound = [(each, binder.bind(each)) for each in query.group_by]
        for each, expression in bound:
            if expression.type.base is Base.MAP:
                raise SqlError("a key can't be a MAP", each.at)
        self._bound = tuple(expression for _, expression in bound)
        self.keys = tuple(
            Named(self._key_name(expression, number), expression)
            for number, (_, expression) in enumerate(bound)
        )
        self.binder = replace(binder, special=self._special, replaced=self._replaced)

    def key_column(self, number: int) -> BoundColumn:
        """A key as a column of the group."""
        key = self.keys[number]
        return BoundColumn(GROUP, key.name, key.expression.type)

    def _key_name(self, expression: Bound, number: int) -> str:
        if isinstance(expression, BoundColumn):
            same = [e for e in self._bound if isinstance(e, BoundColumn) and e.name == expression.name]
            return expression.name if len(same) == 1 else f"{expression.source}_{expression.name}"
        return f"KSQL_COL_{number}"

    def _replaced(self, expression: Expression, scope: Scope) -> Bound | None:
        """A key's column for its expression. Raises SqlError for columns that are no part of the group."""
        inner = replace(self._plain, scope=scope)
        if isinstance(expression, Name):
            if expression.source is None and expression.name in scope.parameters:
                return None
            if self._query.window is not None and expression.name in WINDOW_COLUMNS:
                return BoundColumn(GROUP, expression.name, WINDOW_COLUMNS[expression.name])
            found: Bound | None = inner.bind(expression)
        elif isinstance(expression, Lambda):
            return None
        else:
            try:
                found = inner.bind(expression)
            except SqlError:
                return None
        for number, key in enumerate(self._bound):
            if found == key:
                return self.key_column(number)
        if isinstance(expression, Name):
            raise SqlError(
                f"{expression.name} is neither in GROUP BY nor within an aggregate",
                expression.at,
                f"add it to GROUP BY, or choose a value: LATEST_BY_OFFSET({expression.name})",
            )
        return None

    def _special(self, call: Call, binder: ExpressionBinder) -> Bound | None:
        function = binder.functions.find(call.name)
        if isinstance(function, TableFunction):
            raise SqlError("table functions can't stand in a query with GROUP BY", call.at)
        if not isinstance(function, AggregateFunction):
            return None
        if call.star and call.name != "COUNT":
            raise SqlError(f"{call.name}(*) does not exist", call.at)
        bound = self._plain.call(call, function)
        variant = next(each for each in function.variants if each.signature.text == bound.signature)
        if self._is_table and variant.remove is None:
            raise SqlError(
                f"{call.name} can't take a row out again: it is not for tables",
                call.at,
                "of a table: COUNT, SUM, AVG, COLLECT_LIST, HISTOGRAM and STDDEV_SAMPLE",
            )
        for each, written in zip(
            bound.arguments[len(bound.arguments) - variant.constants :],
            call.arguments[len(call.arguments) - variant.constants :],
            strict=True,
        ):
            if variant.constants and not isinstance(each, BoundLiteral):
                raise SqlError("this argument is a constant", written.at)
        named = Aggregate(
            f"KSQL_AGG_{len(self.aggregates)}", bound.function, bound.signature, bound.arguments, bound.type
        )
        for known in self.aggregates:
            if replace(known, name=named.name) == named:
                return BoundColumn(GROUP, known.name, known.type)
        self.aggregates.append(named)
        return BoundColumn(GROUP, named.name, named.type)


def first_aggregate(query: Query, functions: Functions) -> Call | None:
    """The first call of an aggregate in SELECT or HAVING."""
    for item in query.items:
        if isinstance(item, Item | StructStar):
            of = item.expression if isinstance(item, Item) else item.of
            for call in _calls(of):
                if isinstance(functions.find(call.name), AggregateFunction):
                    return call
    return None


def _calls(expression: Expression) -> Iterator[Call]:
    inner: tuple[Expression, ...] = ()
    match expression:
        case Call():
            yield expression
            inner = expression.arguments
        case Operation():
            inner = expression.operands
        case FieldOf() | Cast():
            inner = (expression.of,)
        case Subscript():
            inner = (expression.of, expression.index)
        case Case():
            inner = tuple(one for pair in expression.whens for one in pair)
            inner += () if expression.otherwise is None else (expression.otherwise,)
        case ArrayOf():
            inner = expression.items
        case MapOf():
            inner = tuple(one for pair in expression.pairs for one in pair)
        case StructOf():
            inner = tuple(value for _, value in expression.fields)
        case Lambda():
            inner = (expression.body,)
    for each in inner:
        yield from _calls(each)
