"""ROW_NUMBER() as an operator of Streams: the first rows of each group, in Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.sql.lowering.rows import Path, Places
from ottla.sql.plan.bound import GROUP, BoundColumn, in_words
from ottla.sql.plan.query_plan import QueryPlan, Ranking

if TYPE_CHECKING:
    from pyspark.sql import Column

    from ottla.sql.plan.bound import Bound
    from ottla.streams.plan.records import Record

_ORDER = "$O"
_COLUMN = "$C"


def ranked_fields(ranking: Ranking) -> tuple[tuple[str, Bound], ...]:
    """What a row needs beside its group's key: what it is ordered by, and its columns."""
    return (
        *((f"{_ORDER}{number}", each.expression) for number, each in enumerate(ranking.order_by)),
        *((f"{_COLUMN}{number}", each.expression) for number, each in enumerate(ranking.columns)),
    )


def ranked_places(ranking: Ranking) -> Places:
    """Where the columns of the rows are, and their rank."""
    paths: dict[tuple[str, str], Path] = {
        (GROUP, each.name): ("value", f"{_COLUMN}{number}") for number, each in enumerate(ranking.columns)
    }
    paths[GROUP, ranking.rank] = ("key", "rank")
    return Places(paths)


def order_of(ranking: Ranking) -> Order:
    """The order of a ranking."""
    by_time = ranking.order_by[0].expression
    latest = isinstance(by_time, BoundColumn) and by_time.name == "ROWTIME" and ranking.order_by[0].descending
    return Order(
        tuple((f"{_ORDER}{number}", each.descending) for number, each in enumerate(ranking.order_by)),
        ", ".join(
            in_words(each.expression) + (" DESC" if each.descending else "") for each in ranking.order_by
        ),
        latest,
    )


@dataclass(frozen=True, slots=True)
class Order:
    """An order of rows by some of their fields. NULL comes before all else, NaN behind, as in Flink.

    later_first: of equal rows the one that came later is first: where the latest are wanted.
    """

    fields: tuple[tuple[str, bool], ...]
    in_words: str
    later_first: bool = False

    def precedes(self, later: Mapping[str, Any], earlier: Mapping[str, Any]) -> bool:
        """See RowOrder."""
        for name, descending in self.fields:
            one, other = _sortable(later[name]), _sortable(earlier[name])
            if one != other:
                return (one > other) is descending
        return self.later_first


def _sortable(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value)


def rank_key(query: QueryPlan, ranking: Ranking) -> Callable[[Record], Column]:
    """The key that goes out: the group's columns and, of several rows, the rank, by their new names."""

    def key(record: Record) -> Column:
        from pyspark.sql import functions as F

        group, several = record.key.getField("key"), len(query.group_by) > 1
        columns = {e.name: group.getField(e.name) if several else group for e in query.group_by}
        columns[ranking.rank] = record.key.getField("rank")
        found = []
        for each in query.keys:
            assert isinstance(each.expression, BoundColumn)
            found.append(columns[each.expression.name].alias(each.name))
        return found[0] if len(found) == 1 else F.struct(*found)

    return key
