"""SELECT's items: which columns go out, under which names, and which of them are the key."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.sql.binding.expression_binder import ExpressionBinder
from ottla.sql.binding.grouping import Grouping
from ottla.sql.binding.joins import keys_of
from ottla.sql.binding.scope import ROW_KEY
from ottla.sql.catalog.sources import PSEUDO_COLUMNS, WINDOW_COLUMNS
from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.expressions import FieldOf, Name
from ottla.sql.language.statements import Item, Query, Star, StructStar
from ottla.sql.plan.bound import GROUP, Bound, BoundCall, BoundColumn, BoundLiteral, BoundOperation
from ottla.sql.plan.query_plan import FromSource, Join, Projected
from ottla.sql.types.sql_types import BIGINT, STRING, Base

Chosen = tuple[str, Bound, Position]
"""A name, what it stands for, and where it is written."""


def projected(
    query: Query,
    sources: Sequence[FromSource],
    joins: tuple[Join, ...],
    binder: ExpressionBinder,
    grouping: Grouping | None,
    partition_by: tuple[Bound, ...],
    new_key: bool,
    writes: bool,
) -> tuple[Projected, ...]:
    """The columns that go out, keys marked. writes: they make a stream or table, so the key must be there."""
    found: list[Chosen] = []
    for item in query.items:
        found += chosen(item, sources, binder, grouping, len(found))
    names: set[str] = set()
    for name, _, at in found:
        if name in names:
            raise SqlError(f"two columns are named {name}", at, "give one another name: … AS other")
        if writes and (name in PSEUDO_COLUMNS or (name in WINDOW_COLUMNS and not grouping)):
            raise SqlError(f"{name} is a name of the system's", at, f"give it another one: {name} AS other")
        names.add(name)
    row_key, selected = binder.scope.row_key, [bound for _, bound, _ in found]
    keys = _keys(sources, joins, grouping, partition_by, new_key, row_key, selected)
    if writes:
        found = [each for each in found if not _is_window_bound(each[1])]
        _check_keys(query, keys, selected, grouping, row_key)
    taken: set[int] = set()
    result: list[Projected] = []
    for name, bound, at in found:
        number = next((n for n, key in enumerate(keys) if bound in key), None)
        if number is not None and number in taken:
            if writes and not _alternative(keys[number], bound, found):
                raise SqlError(
                    f"the key column {name} is there twice",
                    at,
                    "AS_VALUE(column) makes a copy that is no key",
                )
            number = None
        if number is not None:
            taken.add(number)
        result.append(Projected(name, bound, number is not None))
    if writes and not any(not each.key for each in result) and grouping is None and not result:
        raise SqlError("SELECT has no column", query.at)
    return tuple(result)


def _alternative(key: tuple[Bound, ...], bound: Bound, chosen: list[Chosen]) -> bool:
    """Whether the other column of a join's two equal ones has been taken for the key."""
    return sum(1 for _, each, _ in chosen if each == bound) == 1 and len(key) > 1


def _is_window_bound(bound: Bound) -> bool:
    """WINDOWSTART and WINDOWEND by themselves: they are in the key of what a windowed grouping makes."""
    return isinstance(bound, BoundColumn) and bound.source == GROUP and bound.name in WINDOW_COLUMNS


def chosen(
    item: Star | StructStar | Item,
    sources: Sequence[FromSource],
    binder: ExpressionBinder,
    grouping: Grouping | None,
    number: int,
) -> list[Chosen]:
    """What one of SELECT's items stands for. number: of the columns before it. Raises SqlError."""
    match item:
        case Star():
            if grouping is not None:
                raise SqlError("* can't stand in a query with GROUP BY", item.at, "name the columns")
            wanted = sources if item.source is None else [binder.scope.source(item.source, item.at)]
            columns = [one for each in wanted for one in _all_of(each, len(sources) > 1, item)]
            row_key = binder.scope.row_key
            return [(ROW_KEY, row_key, item.at), *columns] if row_key and item.source is None else columns
        case StructStar():
            of = binder.bind(item.of)
            if of.type.base is not Base.STRUCT:
                raise SqlError(f"->* is for structs, this is {of.type}", item.at)
            return [
                (name, BoundOperation("FIELD", (of, BoundLiteral(name, STRING)), each), item.at)
                for name, each in of.type.fields
            ]
        case Item():
            bound = binder.bind(item.expression)
            if bound.type.base is Base.UNKNOWN:
                raise SqlError("NULL has no type here", item.at, "CAST(NULL AS STRING)")
            return [(item.alias or _name(item, bound, sources, number), bound, item.at)]


def _all_of(source: FromSource, joined: bool, item: Star) -> list[Chosen]:
    columns = [(each.name, each.type) for each in source.source.columns]
    if source.source.windowed is not None:
        columns += [(name, BIGINT) for name in WINDOW_COLUMNS]
    prefix = f"{source.alias}_" if joined else ""
    return [(f"{prefix}{name}", BoundColumn(source.alias, name, of), item.at) for name, of in columns]


def _name(item: Item, bound: Bound, sources: Sequence[FromSource], number: int) -> str:
    expression = item.expression
    if isinstance(bound, BoundColumn) and not bound.name.startswith(("KSQL_AGG", "KSQL_EXPLODED")):
        same = [each for each in sources if each.source.column(bound.name) is not None]
        return f"{bound.source}_{bound.name}" if len(same) > 1 and bound.source != GROUP else bound.name
    if isinstance(expression, FieldOf | Name):
        return expression.name
    return f"KSQL_COL_{number}"


def _keys(
    sources: Sequence[FromSource],
    joins: tuple[Join, ...],
    grouping: Grouping | None,
    partition_by: tuple[Bound, ...],
    new_key: bool,
    row_key: Bound | None,
    selected: Sequence[Bound],
) -> list[tuple[Bound, ...]]:
    """For each column of the key the expressions that are equal to it. row_key: ROWKEY, which goes first."""
    if grouping is not None:
        return [(grouping.key_column(number),) for number in range(len(grouping.keys))]
    if new_key:
        return [(each,) for each in partition_by]
    if equal := keys_of(joins):
        return [equal if row_key is None else (row_key,) if row_key in selected else (row_key, *equal)]
    first = sources[0]
    return [(BoundColumn(first.alias, each.name, each.type),) for each in first.source.keys]


def _check_keys(
    query: Query,
    keys: list[tuple[Bound, ...]],
    selected: Sequence[Bound],
    grouping: Grouping | None,
    row_key: Bound | None,
) -> None:
    for key in keys:
        if not any(each in selected for each in key):
            named = ROW_KEY if key[0] == row_key else _shown(key[0])
            why = "GROUP BY's" if grouping is not None else "the key's"
            raise SqlError(
                f"{why} {named} is missing in SELECT", query.at, f"add {named}: it is the key of the result"
            )


def _shown(bound: Bound) -> str:
    match bound:
        case BoundColumn():
            return bound.name
        case BoundCall():
            return f"{bound.function}(…)"
        case _:
            return "expression"
