"""GROUP BY as aggregates of Streams: Spark's own where they have SQL's results, in Python otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.sql.functions.function import Function
from ottla.sql.language.statements import Emit as EmitWord
from ottla.sql.language.statements import WindowKind
from ottla.sql.lowering.accumulators import Accumulators, argument_name
from ottla.sql.lowering.columns import native
from ottla.sql.lowering.ranking import order_of, ranked_fields, ranked_places
from ottla.sql.lowering.rows import Path, Places
from ottla.sql.lowering.spark_types import struct_of
from ottla.sql.plan.bound import GROUP, Bound, BoundLiteral
from ottla.sql.plan.query_plan import QueryPlan, Ranking, Window
from ottla.sql.types.sql_types import BOOLEAN
from ottla.streams.dsl import GroupedStream, Stream, Table
from ottla.streams.operators.windows import (
    CumulatingWindows,
    HoppingWindows,
    SessionWindows,
    TumblingWindows,
    Windows,
)
from ottla.streams.plan.nodes.aggregate import Emit
from ottla.streams.plan.records import Expression, PythonRecord, Record, python

if TYPE_CHECKING:
    from pyspark.sql import Column

Structure = Callable[[tuple[tuple[str, Bound], ...], Places], Expression]
_KEY = "$K"


def grouped(
    query: QueryPlan,
    rows: Stream | Table,
    places: Places,
    functions: Mapping[str, Function],
    structure: Structure,
) -> tuple[Table, Places]:
    """The groups as a table, and where their columns are."""
    if query.ranking is not None:
        assert isinstance(rows, Stream)
        return _ranked(query, query.ranking, rows, places, structure)
    table = (
        _of_table(query, rows, places, functions, structure)
        if isinstance(rows, Table)
        else _of_stream(query, rows, places, functions, structure)
    )
    return table, group_places(query)


def _ranked(
    query: QueryPlan, ranking: Ranking, rows: Stream, places: Places, structure: Structure
) -> tuple[Table, Places]:
    """The first rows of each group, keyed by group and rank."""
    keyed = _keyed(query, rows, places, structure, ranked_fields(ranking))
    assert isinstance(keyed, Stream)
    groups = keyed.select_key(_key_of(query)).group_by_key()
    return groups.top(ranking.limit, order_of(ranking)), ranked_places(ranking)


def runs_in_spark(query: QueryPlan, places: Places) -> bool:
    """Whether Spark has all aggregates of a query, over such windows."""
    from ottla.sql.lowering.spark_functions import AGGREGATES

    kind = None if query.window is None else query.window.kind
    if kind is WindowKind.CUMULATE or (kind is WindowKind.SESSION and query.emit is not EmitWord.FINAL):
        return False
    return all(
        (each.function, each.signature) in AGGREGATES
        and all(native(argument, places) is not None for argument in each.arguments)
        for each in query.aggregates
    )


def _keyed(
    query: QueryPlan,
    rows: Stream | Table,
    places: Places,
    structure: Structure,
    more: tuple[tuple[str, Bound], ...],
) -> Stream | Table:
    """The rows as structs of the group's keys and of `more`, but those with a NULL key."""
    keys = tuple((f"{_KEY}{number}", each.expression) for number, each in enumerate(query.group_by))
    shaped = rows.map_values(structure((*keys, *(more or (("$", BoundLiteral(True, BOOLEAN)),))), places))

    def present(record: Record) -> Column:
        found = record.value.getField(keys[0][0]).isNotNull()
        for name, _ in keys[1:]:
            found = found & record.value.getField(name).isNotNull()
        return found

    return shaped.filter(present)


def _key_of(query: QueryPlan) -> Callable[[Record], Column]:
    """The group's key: one column as it is, several as a struct."""

    def key(record: Record) -> Column:
        from pyspark.sql import functions as F

        columns = [record.value.getField(f"{_KEY}{number}") for number in range(len(query.group_by))]
        if len(columns) == 1:
            return columns[0]
        return F.struct(*(c.alias(k.name) for c, k in zip(columns, query.group_by, strict=True)))

    return key


def _arguments(query: QueryPlan) -> tuple[tuple[str, Bound], ...]:
    return tuple(
        (argument_name(number, at), argument)
        for number, each in enumerate(query.aggregates)
        for at, argument in enumerate(each.arguments)
    )


def _of_stream(
    query: QueryPlan,
    rows: Stream,
    places: Places,
    functions: Mapping[str, Function],
    structure: Structure,
) -> Table:
    keyed = _keyed(query, rows, places, structure, _arguments(query))
    assert isinstance(keyed, Stream)
    groups: GroupedStream = keyed.select_key(_key_of(query)).group_by_key()
    if query.window is not None:
        groups = groups.windowed_by(_windows(query.window))
    emit = Emit.WINDOW_CLOSE if query.emit is EmitWord.FINAL else Emit.CHANGES
    if runs_in_spark(query, places):
        return groups.agg(lambda record: _spark_aggregates(query, record), emit=emit)
    accumulators = Accumulators(query.aggregates, functions)
    table = groups.aggregate(
        accumulators.new, accumulators.add, returns="STRING", merger=accumulators.merge, emit=emit
    )
    return _results(table, query, accumulators)


def _of_table(
    query: QueryPlan,
    rows: Table,
    places: Places,
    functions: Mapping[str, Function],
    structure: Structure,
) -> Table:
    arguments = _arguments(query) or (("$", BoundLiteral(True, BOOLEAN)),)
    keyed = _keyed(query, rows, places, structure, arguments)
    assert isinstance(keyed, Table)

    def value(record: Record) -> Column:
        from pyspark.sql import functions as F

        return F.struct(*(record.value.getField(name).alias(name) for name, _ in arguments))

    accumulators = Accumulators(query.aggregates, functions)
    table = keyed.group_by(_key_of(query), value).aggregate(
        accumulators.new, accumulators.add, accumulators.remove, returns="STRING"
    )
    return _results(table, query, accumulators)


def _spark_aggregates(query: QueryPlan, record: Record) -> Mapping[str, Column]:
    from pyspark.sql import functions as F

    from ottla.sql.lowering.spark_functions import AGGREGATES

    found: dict[str, Column] = {}
    for number, each in enumerate(query.aggregates):
        columns = [record.value.getField(argument_name(number, at)) for at in range(len(each.arguments))]
        found[each.name] = AGGREGATES[each.function, each.signature](*columns)
    return found or {"$": F.count(F.lit(1))}


def _results(table: Table, query: QueryPlan, accumulators: Accumulators) -> Table:
    made = struct_of(tuple((each.name, each.type) for each in query.aggregates) or (("$", BOOLEAN),))
    return table.map_values(python(Results(accumulators), returns=made))


@dataclass(slots=True)
class Results:
    """The aggregates' values out of an accumulator."""

    accumulators: Accumulators

    @property
    def __name__(self) -> str:
        return "aggregates' results"

    def __call__(self, record: PythonRecord) -> dict[str, Any]:
        return self.accumulators.results(record.value) or {"$": True}


def _windows(window: Window) -> Windows:
    match window.kind:
        case WindowKind.TUMBLING:
            return TumblingWindows(window.size_ms, window.grace_ms)
        case WindowKind.HOPPING:
            return HoppingWindows(window.size_ms, window.advance_ms or window.size_ms, window.grace_ms)
        case WindowKind.SESSION:
            return SessionWindows(window.size_ms, window.grace_ms)
        case WindowKind.CUMULATE:
            return CumulatingWindows(window.size_ms, window.advance_ms or window.size_ms, window.grace_ms)


def group_places(query: QueryPlan) -> Places:
    """Where the columns of a group are: its keys in the key, its aggregates in the value."""
    if query.ranking is not None:
        return ranked_places(query.ranking)
    outer: Path = ("key",) if query.window is None else ("key", "key")
    paths: dict[tuple[str, str], Path] = {}
    for each in query.group_by:
        paths[GROUP, each.name] = outer if len(query.group_by) == 1 else (*outer, each.name)
    for aggregate in query.aggregates:
        paths[GROUP, aggregate.name] = ("value", aggregate.name)
    if query.window is None:
        return Places(paths)
    paths[GROUP, "WINDOWSTART"] = ("key", "start")
    paths[GROUP, "WINDOWEND"] = ("key", "end")
    return Places(paths, frozenset({("key", "start"), ("key", "end")}))
