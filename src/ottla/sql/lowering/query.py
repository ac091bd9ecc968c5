"""Queries as nodes of a Streams application: sources, joins, filters, groups, projections.

Between the steps a record's value is a struct with a field for each column that the query uses, `alias$name`.
An expression runs as Spark's columns where those have SQL's results, and in Python otherwise: a filter, a
key or a projection as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.sql.functions.function import Function
from ottla.sql.language.errors import SqlError
from ottla.sql.language.statements import Emit as EmitWord
from ottla.sql.language.statements import JoinWord
from ottla.sql.lowering.columns import native
from ottla.sql.lowering.event_times import written_time
from ottla.sql.lowering.formats import topic_formats
from ottla.sql.lowering.grouping import grouped
from ottla.sql.lowering.ranking import rank_key
from ottla.sql.lowering.rows import Path, Places, RowFunction
from ottla.sql.lowering.source_rows import source_rows
from ottla.sql.lowering.spark_types import spark_type, struct_of
from ottla.sql.plan.bound import EXPLODED, Bound, BoundColumn, columns_of
from ottla.sql.plan.query_plan import Join, JoinHow, QueryPlan
from ottla.sql.plan.statement_plan import PutQuery
from ottla.streams.dsl import Stream, Streams, Table
from ottla.streams.operators.windows import JoinWindows
from ottla.streams.plan.records import Expression, Record, python

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, slots=True)
class Lowering:
    """Lowers queries into one application. functions: the user's. registry: settings of its client.

    starts_at: earliest or latest, where streams begin without a checkpoint; tables are read whole.
    """

    app: Streams
    functions: Mapping[str, Function] = field(default_factory=dict)
    starts_at: str = "earliest"
    registry: Mapping[str, str] | None = field(default=None, repr=False)

    def put(self, plan: PutQuery) -> None:
        """Add a query that writes its target's topic. Raises SqlError."""
        target = plan.target
        formats = topic_formats(target, reads=False, registry=self.registry)
        stream = self.stream(plan.query, value_struct=formats.value_struct)
        time = written_time(target, formats)
        stream.to(target.topic, key=formats.key, value=formats.value, timestamp=time)

    def stream(self, query: QueryPlan, *, value_struct: bool = True) -> Stream:
        """The records that a query gives: its key, and its other columns as value."""
        rows, places = self._sources(query)
        if query.where is not None:
            rows = rows.filter(self._expression(query.where, places))
        if query.exploded:
            assert isinstance(rows, Stream)
            rows, places = self._exploded(query, rows, places)
        final = query.emit is EmitWord.FINAL
        if query.grouped:
            table, places = grouped(query, rows, places, self.functions, self._structure)
            rows = table.to_stream() if final else table
            if query.having is not None:
                rows = rows.filter(self._expression(query.having, places))
        return self._projected(query, rows, places, value_struct)

    # Expressions

    def _expression(self, bound: Bound, places: Places) -> Expression:
        """An expression's value."""
        if (on_columns := native(bound, places, self.functions)) is not None:
            return on_columns
        row = RowFunction((("value", bound),), places, self.functions, single=True)
        return python(row, returns=spark_type(bound.type))

    def _structure(self, fields: tuple[tuple[str, Bound], ...], places: Places) -> Expression:
        """A struct of expressions."""
        columns = [native(bound, places, self.functions) for _, bound in fields]
        made = struct_of(tuple((name, bound.type) for name, bound in fields))
        if all(each is not None for each in columns):
            known = [each for each in columns if each is not None]

            def struct(record: Record) -> Column:
                from pyspark.sql import functions as F

                pairs = zip(known, made.fields, strict=True)
                return F.struct(*(each(record).cast(of.dataType).alias(of.name) for each, of in pairs))

            return struct
        return python(RowFunction(fields, places, self.functions), returns=made)

    # Sources

    def _sources(self, query: QueryPlan) -> tuple[Stream | Table, Places]:
        used = _used(query)
        rows, places = source_rows(self.app, query.source, used, self.starts_at, self.registry)
        for join in query.joins:
            right, right_places = source_rows(self.app, join.right, used, self.starts_at, self.registry)
            rows = self._joined(rows, places, right, right_places, join)
            places = Places({**places.paths, **right_places.paths})
        return rows, places

    def _joined(
        self, left: Stream | Table, places: Places, right: Stream | Table, right_places: Places, join: Join
    ) -> Stream | Table:
        pair = _pair(_fields(places), _fields(right_places))
        match join.how:
            case JoinHow.STREAM_STREAM:
                assert isinstance(left, Stream) and isinstance(right, Stream) and join.window is not None
                left = left.select_key(self._expression(join.left_key, places))
                right = right.select_key(self._expression(join.right_key, right_places))
                window = join.window
                windows = JoinWindows(window.before_ms, window.after_ms, window.grace_ms)
                if join.kind is JoinWord.RIGHT:
                    swapped = JoinWindows(window.after_ms, window.before_ms, window.grace_ms)
                    return right.left_join(left, _swapped(pair), within=swapped)
                match join.kind:
                    case JoinWord.INNER:
                        return left.join(right, pair, within=windows)
                    case JoinWord.LEFT:
                        return left.left_join(right, pair, within=windows)
                    case _:
                        return left.outer_join(right, pair, within=windows)
            case JoinHow.STREAM_TABLE:
                assert isinstance(left, Stream) and isinstance(right, Table)
                left = left.select_key(self._expression(join.left_key, places))
                return (
                    left.join_table(right, pair)
                    if join.kind is JoinWord.INNER
                    else left.left_join_table(right, pair)
                )
            case JoinHow.TABLE_TABLE:
                assert isinstance(left, Table) and isinstance(right, Table)
                match join.kind:
                    case JoinWord.INNER:
                        return left.join(right, pair)
                    case JoinWord.LEFT:
                        return left.left_join(right, pair)
                    case JoinWord.RIGHT:
                        return right.left_join(left, _swapped(pair))
                    case JoinWord.FULL:
                        return left.outer_join(right, pair)
            case JoinHow.FOREIGN_KEY:
                assert isinstance(left, Table) and isinstance(right, Table)
                key = native(join.left_key, places)
                if key is None:
                    raise SqlError(
                        "a foreign key is a column, or an expression that Spark has",
                        None,
                        "compute it in a table before",
                    )
                if join.kind is JoinWord.INNER:
                    return left.join_foreign(right, key, pair)
                return left.left_join_foreign(right, key, pair)

    # Table functions

    def _exploded(self, query: QueryPlan, rows: Stream, places: Places) -> tuple[Stream, Places]:
        """A row for each element; of several functions one beside the other, the shorter filled with NULL."""
        from pyspark.sql.types import ArrayType

        used = _used(query)
        kept = tuple(
            (path[1], BoundColumn(source, name, used[source][name]))
            for (source, name), path in places.paths.items()
        )
        made = tuple((f"{EXPLODED}${each.name}", each.expression) for each in query.exploded)
        schema = struct_of(tuple((name, each.type) for name, each in (*kept, *made)))
        exploded = Explosion(
            RowFunction(kept, places, self.functions), RowFunction(made, places, self.functions)
        )
        rows = rows.flat_map_values(python(exploded, returns=ArrayType(schema)))
        paths: dict[tuple[str, str], Path] = dict(places.paths)
        for named, (field_name, _) in zip(query.exploded, made, strict=True):
            paths[EXPLODED, named.name] = ("value", field_name)
        return rows, Places(paths)

    # Projection

    def _projected(
        self, query: QueryPlan, rows: Stream | Table, places: Places, value_struct: bool
    ) -> Stream:
        values = tuple((each.name, each.expression) for each in query.values)
        value: Expression
        if not values:
            value = _nothing
        elif value_struct:
            value = self._structure(values, places)
        else:
            value = self._expression(values[0][1], places)
        key = self._key(query, places)
        if isinstance(rows, Table):
            if query.ranking is not None:
                return rows.map_values(value).to_stream(key=rank_key(query, query.ranking))
            return rows.map_values(value).to_stream(key=_renamed(query) if len(query.keys) > 1 else None)
        return rows.map_values(value) if key is None else rows.map(key=key, value=value)

    def _key(self, query: QueryPlan, places: Places) -> Expression | None:
        """The key that a stream's records get; None where it stays."""
        if query.grouped:
            return _renamed(query) if len(query.keys) > 1 else None
        if query.new_key and not query.partition_by:
            return _no_key
        if not query.new_key:
            return _renamed(query) if len(query.keys) > 1 else None
        if len(query.keys) > 1:
            return self._structure(tuple((each.name, each.expression) for each in query.keys), places)
        return self._expression(query.partition_by[0], places)


@dataclass(slots=True)
class Explosion:
    """A row as a list of rows, one for each element of what its table functions give."""

    kept: RowFunction
    made: RowFunction

    @property
    def __name__(self) -> str:
        return "table functions"

    def __call__(self, record: Any) -> list[dict[str, Any]]:
        made = {name: values or [] for name, values in self.made(record).items()}
        length = max(map(len, made.values()))
        kept = self.kept(record) if length else {}
        return [
            {**kept, **{name: values[n] if n < len(values) else None for name, values in made.items()}}
            for n in range(length)
        ]


def _used(query: QueryPlan) -> dict[str, dict[str, Any]]:
    """The columns that a query reads, with their types, by source."""
    found: dict[str, dict[str, Any]] = {each.alias: {} for each in query.sources}
    for bound in _expressions(query):
        for column in columns_of(bound):
            if column.source in found:
                found[column.source][column.name] = column.type
    return found


def _expressions(query: QueryPlan) -> Iterator[Bound]:
    yield from (each.expression for each in query.projection)
    yield from (each.expression for each in (*query.exploded, *query.group_by))
    yield from (each for join in query.joins for each in (join.left_key, join.right_key))
    yield from query.partition_by
    yield from (each for aggregate in query.aggregates for each in aggregate.arguments)
    yield from (each for each in (query.where, query.having) if each is not None)
    if query.ranking is not None:
        yield from query.ranking.expressions


def _fields(places: Places) -> list[str]:
    return [path[1] for path in places.paths.values()]


def _pair(left_fields: list[str], right_fields: list[str]) -> Callable[[Column, Column], Column]:
    """Two rows as one; either may be null."""

    def pair(left: Column, right: Column) -> Column:
        from pyspark.sql import functions as F

        return F.struct(
            *(left.getField(name).alias(name) for name in left_fields),
            *(right.getField(name).alias(name) for name in right_fields),
        )

    return pair


def _swapped(pair: Callable[[Column, Column], Column]) -> Callable[[Column, Column], Column]:
    return lambda right, left: pair(left, right)


def _nothing(record: Record) -> Column:
    from pyspark.sql import functions as F

    return F.lit("{}").cast("binary")


def _no_key(record: Record) -> Column:
    from pyspark.sql import functions as F

    return F.lit(None).cast("binary")


def _renamed(query: QueryPlan) -> Callable[[Record], Column]:
    """A key of several columns, under the names and in the order that they go out with."""
    names = [(each.name, each.expression) for each in query.keys]
    inherited = not query.grouped and query.source.source.windowed is not None
    windowed = query.window is not None or inherited

    def key(record: Record) -> Column:
        from pyspark.sql import functions as F

        inner = record.key if not windowed else record.key.getField("key")
        fields = [inner.getField(e.name).alias(name) for name, e in names if isinstance(e, BoundColumn)]
        struct = F.struct(*fields)
        if not windowed:
            return struct
        start, end = record.key.getField("start"), record.key.getField("end")
        return F.struct(struct.alias("key"), start.alias("start"), end.alias("end"))

    return key
