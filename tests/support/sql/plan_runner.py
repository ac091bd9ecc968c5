"""A script's queries over rows without Spark: the plans' own expressions, and Streams' operators, row by row.

Each row is a batch of its own. What Spark does itself (joins of two streams, its own aggregates) is done here
by the simplest model; all else is the code that runs on Spark too. `close` ends all windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog, Source
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import START
from ottla.sql.language.parser import parse_script
from ottla.sql.language.statements import Emit, JoinWord, WindowKind
from ottla.sql.lowering.accumulators import Accumulators, argument_name
from ottla.sql.lowering.evaluator import constant_values, row_function
from ottla.sql.lowering.ranking import order_of, ranked_fields
from ottla.sql.plan.bound import EXPLODED, GROUP, Bound, BoundColumn
from ottla.sql.plan.query_plan import FromSource, Join, JoinHow, QueryPlan
from ottla.sql.plan.statement_plan import PutQuery, WriteRow, applied
from ottla.streams.operators.aggregate import StreamAggregate
from ottla.streams.operators.aggregation import Aggregate
from ottla.streams.operators.foreign_key_join import RIGHT, SUBSCRIPTIONS, Matches, Resolution, Subscriptions
from ottla.streams.operators.grouped_table import GroupedTableAggregate
from ottla.streams.operators.join_kind import JoinKind
from ottla.streams.operators.operator import Event, KeyedOperator, Output, TimerKind
from ottla.streams.operators.session_aggregate import SessionAggregate
from ottla.streams.operators.stream_table_join import STREAM, TABLE, StreamTableJoin
from ottla.streams.operators.table_changes import TableChanges
from ottla.streams.operators.table_table_join import TableTableJoin
from ottla.streams.operators.top_rows import TopRows
from ottla.streams.operators.windowed_aggregate import WindowedAggregate
from ottla.streams.operators.windows import (
    CumulatingWindows,
    HoppingWindows,
    SessionWindows,
    TumblingWindows,
)

Columns = dict[tuple[str, str], Any]
"""The values of columns, by source and name."""
FAR_MS = 2**50


@dataclass(frozen=True)
class Row:
    """A record between two steps: its key, its columns (None: deleted), its time, its window."""

    key: Any
    columns: Columns | None
    at_ms: int


class MemoryStore:
    """A store of all keys."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[Any, Any]] = {}

    def get(self, key: Any, sub_key: Any = b"") -> Any:
        return self.kept.get(repr(key), {}).get(sub_key)

    def put(self, key: Any, value: Any, sub_key: Any = b"") -> None:
        self.kept.setdefault(repr(key), {})[sub_key] = value

    def delete(self, key: Any, sub_key: Any = b"") -> None:
        self.kept.get(repr(key), {}).pop(sub_key, None)

    def entries(self, key: Any) -> Iterator[tuple[Any, Any]]:
        return iter(sorted(self.kept.get(repr(key), {}).items()))

    def size(self) -> int:
        return sum(map(len, self.kept.values()))


class Running:
    """An operator with its state and its timers."""

    processing_time_ms = 0

    def __init__(self, operator: KeyedOperator) -> None:
        self.operator = operator
        self.watermark_ms = -1
        self._latest_ms = -1
        self._stores = {name: MemoryStore() for name in operator.stores}
        self._timers: dict[tuple[int, str], Any] = {}

    def store(self, name: str) -> Any:
        return self._stores[name]

    def set_timer(self, kind: TimerKind, key: Any, at_ms: int) -> None:
        self._timers[at_ms, repr(key)] = key

    def cancel_timer(self, kind: TimerKind, key: Any, at_ms: int) -> None:
        self._timers.pop((at_ms, repr(key)), None)

    def count_late(self) -> None: ...

    def count_dropped(self) -> None: ...

    def feed(self, key: Any, value: Any, at_ms: int, number: int = 0) -> list[Output]:
        """The outputs for one record, which is a batch."""
        found = self.move_to(self._latest_ms)
        self._latest_ms = max(self._latest_ms, at_ms)
        return [*found, *self.operator.on_event(Event(number, key, value, at_ms), self)]

    def move_to(self, watermark_ms: int) -> list[Output]:
        """The outputs of event time's coming so far."""
        self.watermark_ms = watermark_ms
        found: list[Output] = []
        for at_ms, text in sorted(self._timers):
            if at_ms <= watermark_ms:
                key = self._timers.pop((at_ms, text))
                found += self.operator.on_timer(TimerKind.EVENT_TIME, key, at_ms, self)
        return found


def value_of(bound: Bound) -> Callable[[Columns], Any]:
    """An expression as a function of columns."""
    return row_function(bound, lambda column: lambda row: row.get((column.source, column.name)), Functions())


class StreamStream:
    """Two streams within a time: all pairs, and at the end those without a partner."""

    def __init__(self, join: Join) -> None:
        self._join = join
        self._sides: tuple[list[list[Any]], list[list[Any]]] = ([], [])

    def feed(self, side: int, row: Row) -> list[Row]:
        window = self._join.window
        assert window is not None
        mine = [row, False]
        self._sides[side].append(mine)
        found = []
        for other in self._sides[1 - side]:
            left, right = (row, other[0]) if side == 0 else (other[0], row)
            near = left.at_ms - window.before_ms <= right.at_ms <= left.at_ms + window.after_ms
            if near and row.key is not None and row.key == other[0].key:
                mine[1] = other[1] = True
                columns = {**(left.columns or {}), **(right.columns or {})}
                found.append(Row(row.key, columns, max(left.at_ms, right.at_ms)))
        return found

    def close(self) -> list[Row]:
        kinds = ((JoinWord.LEFT, JoinWord.FULL), (JoinWord.RIGHT, JoinWord.FULL))
        return [
            row
            for rows, wanted in zip(self._sides, kinds, strict=True)
            for row, met in rows
            if not met and self._join.kind in wanted
        ]


class QueryRun:
    """One query."""

    def __init__(self, plan: PutQuery) -> None:
        self.plan, query = plan, plan.query
        self.query: QueryPlan = query
        self._joins = [self._join(each) for each in query.joins]
        self._accumulators = Accumulators(query.aggregates, {})
        self._changes: Running | None = None
        self._groups = self._grouped() if query.grouped else None

    # Sources and joins

    def read(self, source: Source, key: Any, value: Mapping[str, Any] | None, at_ms: int) -> list[Row]:
        """What a record of a topic gives."""
        found: list[Row] = []
        for number, each in enumerate(self.query.sources):
            if each.source.topic != source.topic:
                continue
            if each.source.is_table and not _has_key(key):
                continue
            if value is None and not each.source.is_table:
                continue
            found += self._from(number, self._row(each, key, value, at_ms))
        return [one for row in found for one in self._after(row)]

    def _row(self, named: FromSource, key: Any, value: Mapping[str, Any] | None, at_ms: int) -> Row:
        window, inner = key if named.source.windowed is not None else (None, key)
        columns: dict[tuple[str, str], Any] = {
            (named.alias, each.name): part for each, part in zip(named.source.keys, inner, strict=True)
        }
        if window is not None:
            columns[named.alias, "WINDOWSTART"], columns[named.alias, "WINDOWEND"] = window
        if value is not None:
            columns |= {(named.alias, each.name): value.get(each.name) for each in named.source.values}
            columns[named.alias, "ROWTIME"] = at_ms
        return Row(_Key(columns, key), columns if value is not None else None, at_ms)

    def _from(self, number: int, row: Row) -> list[Row]:
        """A source's row through the joins that are behind it."""
        rows = [row]
        for at, join in enumerate(self.query.joins, 1):
            if at < number:
                continue
            side = 1 if at == number else 0
            rows = [one for each in rows for one in self._joined(at - 1, join, side, each)]
        return rows

    def _join(self, join: Join) -> Any:
        match join.how:
            case JoinHow.STREAM_STREAM:
                return StreamStream(join)
            case JoinHow.STREAM_TABLE:
                return Running(StreamTableJoin(join.kind is JoinWord.LEFT))
            case JoinHow.TABLE_TABLE:
                kinds = {JoinWord.INNER: JoinKind.INNER, JoinWord.FULL: JoinKind.OUTER}
                return Running(TableTableJoin(kinds.get(join.kind, JoinKind.LEFT)))
            case JoinHow.FOREIGN_KEY:
                left = join.kind is JoinWord.LEFT
                return (Running(Subscriptions()), Running(Matches()), Running(Resolution(left)))

    def _joined(self, number: int, join: Join, side: int, row: Row) -> list[Row]:
        state = self._joins[number]
        match join.how:
            case JoinHow.STREAM_STREAM:
                on = join.left_key if side == 0 else join.right_key
                key = value_of(on)(row.columns or {})
                found: list[Row] = state.feed(side, Row(key, row.columns, row.at_ms))
                return found
            case JoinHow.STREAM_TABLE if side == 0:
                key = value_of(join.left_key)(row.columns or {})
                return [_pair(join, each) for each in state.feed(key, row.columns, row.at_ms, STREAM)]
            case JoinHow.STREAM_TABLE:
                state.feed(_table_key(row, join.right_key), row.columns, row.at_ms, TABLE)
                return []
            case JoinHow.TABLE_TABLE:
                swapped = join.kind is JoinWord.RIGHT
                key = _table_key(row, join.left_key if side == 0 else join.right_key)
                outputs = state.feed(key, row.columns, row.at_ms, 1 - side if swapped else side)
                return [_pair(join, each, swapped=swapped) for each in outputs]
        subscriptions, matches, resolution = state
        if side == 1:
            answers = matches.feed(_table_key(row, join.right_key), row.columns, row.at_ms, RIGHT)
        else:
            value = None
            if row.columns is not None:
                value = {"foreign_key": value_of(join.left_key)(row.columns), "value": row.columns}
            answers = [
                answer
                for each in subscriptions.feed(row.key, value, row.at_ms)
                for answer in matches.feed(each.key, each.value, each.timestamp_ms, SUBSCRIPTIONS)
            ]
        return [
            _foreign_pair(one)
            for each in answers
            for one in resolution.feed(each.key, each.value, each.timestamp_ms)
        ]

    # Behind the joins

    def _after(self, row: Row) -> list[Row]:
        query = self.query
        is_table = all(each.source.is_table for each in query.sources)
        if query.where is not None and row.columns is not None and not value_of(query.where)(row.columns):
            if not is_table:
                return []
            row = Row(row.key, None, row.at_ms)
        if row.columns is not None and query.exploded:
            lists = {e.name: value_of(e.expression)(row.columns) or [] for e in query.exploded}
            length = max(map(len, lists.values()))
            return [
                Row(
                    row.key,
                    {**row.columns, **{(EXPLODED, n): _at(v, i) for n, v in lists.items()}},
                    row.at_ms,
                )
                for i in range(length)
            ]
        if self._groups is None:
            return [row]
        return [one for each in self._grouping(row, is_table) for one in self._having(each)]

    def _grouped(self) -> Running:
        query, accumulators = self.query, self._accumulators
        if query.ranking is not None:
            return Running(TopRows(query.ranking.limit, order_of(query.ranking)))
        aggregation = Aggregate(accumulators.new, accumulators.add, accumulators.merge, accumulators.remove)
        if all(each.source.is_table for each in query.sources):
            self._changes = Running(TableChanges())
            return Running(GroupedTableAggregate(aggregation))
        window, final = query.window, query.emit is Emit.FINAL
        if window is None:
            return Running(StreamAggregate(aggregation))
        step = window.advance_ms or window.size_ms
        match window.kind:
            case WindowKind.SESSION:
                return Running(
                    SessionAggregate(SessionWindows(window.size_ms, window.grace_ms), aggregation, final)
                )
            case WindowKind.TUMBLING:
                windows: Any = TumblingWindows(window.size_ms, window.grace_ms)
            case WindowKind.HOPPING:
                windows = HoppingWindows(window.size_ms, step, window.grace_ms)
            case WindowKind.CUMULATE:
                windows = CumulatingWindows(window.size_ms, step, window.grace_ms)
        return Running(WindowedAggregate(windows, aggregation, final))

    def _grouping(self, row: Row, is_table: bool) -> list[Output]:
        query, groups = self.query, self._groups
        assert groups is not None
        key, value = None, None
        if row.columns is not None:
            parts = [value_of(each.expression)(row.columns) for each in query.group_by]
            key = None if None in parts else tuple(parts)
            if query.ranking is not None:
                value = {name: value_of(each)(row.columns) for name, each in ranked_fields(query.ranking)}
            else:
                value = {
                    argument_name(number, at): value_of(argument)(row.columns)
                    for number, each in enumerate(query.aggregates)
                    for at, argument in enumerate(each.arguments)
                }
        if not is_table:
            return [] if key is None else groups.feed(key, value, row.at_ms)
        assert self._changes is not None
        grouped = None if key is None else {"group_key": key, "value": value}
        changes = self._changes.feed(row.key, grouped, row.at_ms)
        return [one for each in changes for one in groups.feed(each.key, each.value, each.timestamp_ms)]

    def _having(self, output: Output) -> Iterator[Row]:
        query = self.query
        key = output.key if isinstance(output.key, dict) else {"key": output.key}
        columns: dict[tuple[str, str], Any] = {
            (GROUP, each.name): part for each, part in zip(query.group_by, key["key"], strict=True)
        }
        if "start" in key:
            columns[GROUP, "WINDOWSTART"], columns[GROUP, "WINDOWEND"] = key["start"], key["end"]
        if query.ranking is not None:
            columns[GROUP, query.ranking.rank] = key["rank"]
        keys = dict(columns)
        if output.value is not None:
            if query.ranking is not None:
                for number, each in enumerate(query.ranking.columns):
                    columns[GROUP, each.name] = output.value[f"$C{number}"]
            else:
                found = self._accumulators.results(output.value)
                columns |= {(GROUP, name): value for name, value in found.items()}
        exists = output.value is not None
        if exists and query.having is not None and not value_of(query.having)(columns):
            if query.emit is Emit.FINAL:
                return
            exists = False
        yield Row(_Key(keys, output.key), columns if exists else None, output.timestamp_ms)

    def close(self) -> list[Row]:
        """What comes when event time has passed all windows."""
        found = []
        for number, state in enumerate(self._joins):
            if isinstance(state, StreamStream):
                rows = state.close()
                for at in range(number + 1, len(self._joins)):
                    rows = [o for r in rows for o in self._joined(at, self.query.joins[at], 0, r)]
                found += [one for row in rows for one in self._after(row)]
        if self._groups is not None:
            found += [one for each in self._groups.move_to(FAR_MS) for one in self._having(each)]
        return found

    # The record that goes out

    def written(self, row: Row) -> tuple[Any, dict[str, Any] | None]:
        """The key and the value of the target's record."""
        query = self.query
        columns = row.columns
        if columns is None:
            columns = row.key.columns if isinstance(row.key, _Key) else {}
        inner: tuple[Any, ...] = tuple(value_of(each.expression)(columns) for each in query.keys)
        key: Any = inner
        if self.plan.target.windowed is not None:
            start, end = (
                next((v for (_, n), v in columns.items() if n == name), None)
                for name in ("WINDOWSTART", "WINDOWEND")
            )
            key = ((start, end), inner)
        if row.columns is None:
            return key, None
        return key, {each.name: value_of(each.expression)(columns) for each in query.values}


@dataclass(frozen=True)
class _Key:
    """A key as the columns that it stands for."""

    columns: Columns = field(compare=False)
    whole: Any

    def __repr__(self) -> str:
        return repr(self.whole)


def _at(values: list[Any], number: int) -> Any:
    return values[number] if number < len(values) else None


def _has_key(key: Any) -> bool:
    inner = key[1] if len(key) == 2 and isinstance(key[0], tuple) else key
    return any(each is not None for each in inner)


def _table_key(row: Row, on: Bound) -> Any:
    columns = row.columns if row.columns is not None else row.key.columns
    return value_of(on)(columns)


def _pair(join: Join, output: Output, *, swapped: bool = False) -> Row:
    sides = {
        (each.source, each.name): output.key
        for each in (join.left_key, join.right_key)
        if isinstance(each, BoundColumn)
    }
    if output.value is None:
        return Row(_Key(sides, output.key), None, output.timestamp_ms)
    left, right = output.value["left"] or {}, output.value["right"] or {}
    return Row(_Key(sides, output.key), {**left, **right}, output.timestamp_ms)


def _foreign_pair(output: Output) -> Row:
    if output.value is None:
        return Row(output.key, None, output.timestamp_ms)
    columns = {**output.value["left"], **(output.value["right"] or {})}
    return Row(output.key, columns, output.timestamp_ms)


class ScriptRun:
    """A script's sources and queries. Rows are dictionaries of the columns by name, and ROWTIME."""

    def __init__(self, script: str) -> None:
        self.catalog = Catalog()
        self._queries: list[QueryRun] = []
        self.rows: dict[str, list[dict[str, Any]]] = {}
        for parsed in parse_script(script):
            plan = Binder(self.catalog).bind(parsed.statement)
            self.catalog = applied(plan, self.catalog)
            if isinstance(plan, PutQuery):
                self._queries.append(QueryRun(plan))
                self.rows.setdefault(plan.target.name, [])
            elif isinstance(plan, WriteRow):
                row = constant_values(plan.values, Functions())
                self.insert(plan.target.name, row, row.pop("ROWTIME", None) or 0)

    def insert(self, name: str, row: Mapping[str, Any], at_ms: int) -> None:
        """A row of a source; a table's row of its key alone deletes that row."""
        source = self.catalog.source(name, START)
        key = tuple(row.get(each.name) for each in source.keys)
        has_value = not source.is_table or any(each.name in row for each in source.values)
        value = {each.name: row.get(each.name) for each in source.values} if has_value else None
        self._publish(source, key, value, at_ms)

    def close(self) -> None:
        """Event time has passed all windows."""
        for query in self._queries:
            for row in query.close():
                self._write(query, row)

    def table(self, name: str) -> list[dict[str, Any]]:
        """A table's rows after all."""
        source = self.catalog.source(name, START)
        keys = [*(each.name for each in source.keys), "WINDOWSTART", "WINDOWEND"]
        last: dict[str, dict[str, Any]] = {}
        for row in self.rows[name]:
            key = repr([row.get(each) for each in keys])
            last.pop(key, None)
            if any(each.name in row for each in source.values) or not source.values:
                last[key] = row
        return list(last.values())

    def _publish(self, source: Source, key: Any, value: Mapping[str, Any] | None, at_ms: int) -> None:
        for query in self._queries:
            for row in query.read(source, key, value, at_ms):
                self._write(query, row)

    def _write(self, query: QueryRun, row: Row) -> None:
        target = query.plan.target
        key, value = query.written(row)
        window, inner = key if target.windowed is not None else (None, key)
        shown: dict[str, Any] = {}
        if window is not None:
            shown["WINDOWSTART"], shown["WINDOWEND"] = window
        shown |= dict(zip((each.name for each in target.keys), inner, strict=True))
        self.rows[target.name].append({**shown, **(value or {}), "ROWTIME": row.at_ms})
        self._publish(target, key, value, row.at_ms)
