"""A topology that is being built: its names, its sinks so far, and the nodes that take some thought."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ottla.streams.operators.aggregate import StreamAggregate
from ottla.streams.operators.aggregation import Aggregation
from ottla.streams.operators.operator import KeyedOperator
from ottla.streams.operators.session_aggregate import SessionAggregate
from ottla.streams.operators.sliding_aggregate import SlidingAggregate
from ottla.streams.operators.top_rows import RowOrder, TopRows
from ottla.streams.operators.windowed_aggregate import WindowedAggregate
from ottla.streams.operators.windows import (
    CumulatingWindows,
    HoppingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    Windows,
)
from ottla.streams.plan.node import Formats, Node, Start, Topics, TopologyError
from ottla.streams.plan.nodes.aggregate import Aggregates, Emit, NativeAggregate
from ottla.streams.plan.nodes.keyed import InputTypes, Keyed, KeyedOutput, TypeOf
from ottla.streams.plan.nodes.source import Source
from ottla.streams.plan.nodes.stateless import Becomes, Changes, Map
from ottla.streams.plan.records import Expression, Joiner, Record
from ottla.streams.plan.topology import Materialized, Topology

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class Building:
    """The topology of one application, as far as it has been built."""

    def __init__(self, name: str) -> None:
        check_name("an application", name)
        self.name = name
        self.sinks: list[Node] = []
        self.materialized: list[Materialized] = []
        self._names: set[str] = set()
        self._count = 0

    @property
    def writes(self) -> bool:
        """Whether anything is written so far."""
        return bool(self.sinks or self.materialized)

    def topology(self) -> Topology:
        """The topology so far. Raises TopologyError when nothing is written anywhere."""
        if not self.writes:
            raise TopologyError(f"{self.name} writes nowhere: end a stream with to(), or materialize a table")
        return Topology(self.name, tuple(self.sinks), tuple(self.materialized))

    def named(self, name: str | None, kind: str) -> str:
        """The name of the next node: as it is given, or of its kind and its number. Raises TopologyError."""
        self._count += 1
        if name is None:
            name = f"{kind}-{self._count:04}"
        else:
            check_name("a node", name)
        if name in self._names:
            raise TopologyError(f"two nodes are named {name}")
        self._names.add(name)
        return name

    def stream(
        self,
        topics: Topics,
        formats: Formats,
        start: datetime | str = "earliest",
        timestamp: Expression | None = None,
        name: str | None = None,
    ) -> Source:
        """A source of records. Raises TopologyError."""
        if (topics.pattern is None) == (not topics.names):
            raise TopologyError("a stream has topics or a pattern, one of both")
        return Source(self.named(name, "stream"), topics, formats, _start(start), timestamp, False)

    def table(self, topic: str, formats: Formats, timestamp: Expression | None, name: str | None) -> Source:
        """A source of a table's changes."""
        return Source(self.named(name, "table"), Topics((topic,)), formats, Start(), timestamp, True)

    def joined(self, keyed: Keyed, joiner: Joiner | None) -> Node:
        """The pairs that a join operator sends, made one value by `joiner`."""
        if joiner is None:
            return keyed
        value = functools.partial(_join_pair, joiner)
        return Map(self.named(None, "joiner"), keyed, Changes(value=value), Becomes.SAME)


@dataclass(frozen=True, slots=True)
class Grouped:
    """Records that are to be aggregated by key, or by key and window."""

    building: Building
    node: Node
    windows: Windows | None = None

    def is_native(self, emit: Emit) -> bool:
        """Whether Spark has aggregates over such windows, and sends them so."""
        match self.windows:
            case SlidingWindows() | CumulatingWindows():
                return False
            case SessionWindows():
                return emit is Emit.WINDOW_CLOSE
            case _:
                return True

    def native(self, aggregates: Aggregates | None, single: bool, emit: Emit, name: str | None) -> Node:
        """An aggregate of Spark's own functions. Raises TopologyError."""
        self._check(emit)
        named = self.building.named(name, "aggregate")
        return NativeAggregate(named, self.node, self.windows, aggregates, single, emit)

    def single(self, function: str, value: Expression, emit: Emit, name: str | None) -> Node:
        """The aggregate of one of Spark's functions over one expression. Raises TopologyError."""
        if not self.is_native(emit):
            raise TopologyError(f"{function}() over these windows needs aggregate() with a Python function")
        named = self.building.named(None, "map")
        mapped = Map(named, self.node, Changes(value=value), Becomes.STREAM)

        def aggregates(record: Record) -> Mapping[str, Column]:
            from pyspark.sql import functions

            return {"value": getattr(functions, function)(record.value)}

        return Grouped(self.building, mapped, self.windows).native(aggregates, True, emit, name)

    def keyed(self, aggregation: Aggregation, returns: Any, emit: Emit, name: str | None) -> Node:
        """An aggregate in Python. Raises TopologyError."""
        self._check(emit)
        key_type = TypeOf.KEY if self.windows is None else TypeOf.WINDOWED_KEY
        return Keyed(
            self.building.named(name, "aggregate"),
            (self.node,),
            _aggregate_operator(aggregation, self.windows, emit_on_close=emit is Emit.WINDOW_CLOSE),
            KeyedOutput(key_type, returns, table=True),
            self.windows,
        )

    def top(self, limit: int, order: RowOrder, name: str | None) -> Node:
        """The first records of each key. Raises TopologyError."""
        if limit < 1:
            raise TopologyError(f"the first {limit} records of a key are none")
        output = KeyedOutput(_ranked_key, TypeOf.VALUE, table=True)
        return Keyed(self.building.named(name, "top"), (self.node,), TopRows(limit, order), output)

    def _check(self, emit: Emit) -> None:
        if emit is Emit.WINDOW_CLOSE and self.windows is None:
            raise TopologyError("only windows close: emit=WINDOW_CLOSE needs windowed_by()")


def _aggregate_operator(
    aggregation: Aggregation, windows: Windows | None, *, emit_on_close: bool
) -> KeyedOperator:
    match windows:
        case None:
            return StreamAggregate(aggregation)
        case TumblingWindows() | HoppingWindows() | CumulatingWindows():
            return WindowedAggregate(windows, aggregation, emit_on_close)
        case SessionWindows():
            return SessionAggregate(windows, aggregation, emit_on_close)
        case SlidingWindows():
            return SlidingAggregate(windows, aggregation, emit_on_close)


def _ranked_key(inputs: InputTypes) -> DataType:
    from pyspark.sql.types import LongType, StructField, StructType

    return StructType([StructField("key", inputs[0][0]), StructField("rank", LongType())])


def _join_pair(joiner: Joiner, record: Record) -> Column:
    return joiner(record.value.getField("left"), record.value.getField("right"))


def check_name(part: str, name: str) -> None:
    """Raise TopologyError for a name that no topic, group or directory may have. part: its owner."""
    if not name or not set(name) <= _NAME_CHARACTERS:
        raise TopologyError(f"{part} is named by letters, digits, '.', '_' and '-', not {name!r}")


def _start(start: datetime | str) -> Start:
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise TopologyError("a start needs a time zone: datetime(…, tzinfo=timezone.utc)")
        return Start(timestamp_ms=int(start.timestamp() * 1000))
    if start not in ("earliest", "latest"):
        raise TopologyError(f"a stream starts at 'earliest', 'latest' or a time, not {start!r}")
    return Start(latest=start == "latest")
