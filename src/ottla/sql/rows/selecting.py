"""A query of one source, worked out a row at a time: its filter, its columns, its table functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from operator import itemgetter
from typing import Any, Final

from ottla.sql.functions.registry import Functions
from ottla.sql.lowering.evaluator import Evaluator, row_function
from ottla.sql.plan.bound import EXPLODED, Bound, BoundColumn
from ottla.sql.plan.query_plan import QueryPlan
from ottla.sql.rows.codecs import Row
from ottla.sql.rows.port import OutColumn, OutRow
from ottla.sql.rows.shapes import GIVEN

_EXPLODED: Final = "$exploded$"
MAX_REMEMBERED: Final = 200_000
"""Keys that a push query remembers; with more it may tell of a row as gone that its client never had."""


def runs_by_row(query: QueryPlan) -> bool:
    """Whether a query needs nothing but the row at hand."""
    return not (query.joins or query.grouped or query.window)


def columns_of(query: QueryPlan) -> tuple[OutColumn, ...]:
    """The columns that a query gives."""
    return tuple(OutColumn(each.name, each.expression.type, each.key) for each in query.projection)


class Selection:
    """What a query makes of rows.

    follows: of a push query; one over a table with a filter then remembers which keys its client has, so that
    a row that fits no more is told as gone, and one that never did is not. Such a selection is one thread's.
    """

    def __init__(self, query: QueryPlan, functions: Functions, *, follows: bool = False) -> None:
        source = query.source.source
        remembers = follows and source.is_table and query.where is not None
        self._shown: set[object] | None = set() if remembers else None
        self._knows_all = True
        self._key_names = [each.name for each in source.keys]
        if source.windowed is not None:
            self._key_names += ["WINDOWSTART", "WINDOWEND"]
        self.columns = columns_of(query)
        self._is_table = query.source.source.is_table
        self._values = [each.name for each in query.source.source.values]
        self._where = None if query.where is None else _condition(query.where, functions)
        self._projected = [_value(each.expression, functions) for each in query.projection]
        self._is_key = [each.key for each in query.projection]
        self._exploded = [
            (f"{_EXPLODED}{each.name}", _rows(each.expression, functions)) for each in query.exploded
        ]

    def rows(self, row: Row) -> Iterator[OutRow]:
        """The rows that come of one."""
        if self._is_table and self._values and all(row[name] is None for name in self._values):
            if self._where is None or self._was_shown(row):
                yield self._deleted(row)
            return
        if self._where is not None and self._where(row) is not True:
            if self._shown is not None and self._was_shown(row):
                yield self._deleted(row)
            return
        if self._shown is not None:
            self._remember(row)
        if not self._exploded:
            yield OutRow(tuple(each(row) for each in self._projected))
            return
        lists = [each(row) for _, each in self._exploded]
        for cells in zip_longest(*lists):
            filled = row | {name: cell for (name, _), cell in zip(self._exploded, cells, strict=True)}
            yield OutRow(tuple(each(filled) for each in self._projected))

    def holds(self, row: Row) -> bool:
        """Whether the filter lets a row through."""
        return self._where is None or self._where(row) is True

    def _key(self, row: Row) -> object:
        return repr([row[name] for name in self._key_names])

    def _remember(self, row: Row) -> None:
        assert self._shown is not None
        if len(self._shown) < MAX_REMEMBERED:
            self._shown.add(self._key(row))
        else:
            self._knows_all = False

    def _was_shown(self, row: Row) -> bool:
        """Whether the client may have the row; it has it no more."""
        if self._shown is None:
            return True
        key = self._key(row)
        if key in self._shown:
            self._shown.discard(key)
            return True
        return not self._knows_all

    def _deleted(self, row: Row) -> OutRow:
        cells = (
            each(row) if is_key else None for each, is_key in zip(self._projected, self._is_key, strict=True)
        )
        return OutRow(tuple(cells), tombstone=True)


def given_cells(constants: Sequence[Any]) -> dict[str, Any]:
    """The cells of a row that hold a question's constants (shapes.py)."""
    return {f"{GIVEN}{number}": value for number, value in enumerate(constants)}


def _getter(column: BoundColumn) -> Callable[[Row], Any]:
    if column.source == GIVEN:
        return itemgetter(f"{GIVEN}{column.name}")
    return itemgetter(f"{_EXPLODED}{column.name}" if column.source == EXPLODED else column.name)


def _value(bound: Bound, functions: Functions) -> Callable[[Row], Any]:
    if isinstance(bound, BoundColumn):
        return _getter(bound)
    return row_function(bound, _getter, functions)


def _condition(bound: Bound, functions: Functions) -> Callable[[Row], Any]:
    return row_function(bound, _getter, functions)


def _rows(bound: Bound, functions: Functions) -> Callable[[Row], list[Any]]:
    evaluate = Evaluator(_getter, functions).compiled(bound)

    def rows(row: Row) -> list[Any]:
        try:
            return evaluate(row, {}) or []
        except Exception:
            return []  # a function that fails gives no rows, as NULL does

    return rows
