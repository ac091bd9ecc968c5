"""The DSL: an application's streams and tables, and what is made of them.

    app = Streams("word-count")
    words = app.stream("lines", value=str).flat_map_values(lambda r: F.split(F.lower(r.value), " "))
    words.group_by(lambda r: r.value).count(name="counts").to_stream().to("counts", key=str, value=int)
    app.run()

Each call adds a node to the topology; nothing runs before `run`. What goes where a format is asked for: a
format of `ottla.pipeline.formats`, or a Python type (str, int, float, bytes, bool, a dataclass: JSON).

A `Stream` is a row of facts; a `Table` is the last value of each key, and a null value deletes it. An
aggregate sends on, after each batch, the new value of each key that the batch has changed: as Kafka Streams
does with its cache on. `Table.suppress()` and `emit=Emit.WINDOW_CLOSE` send each window's value once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.streams.operators.aggregate import StreamAggregate
from ottla.streams.operators.aggregation import Aggregate, Aggregation, Count, Reduce
from ottla.streams.operators.join_kind import JoinKind
from ottla.streams.operators.operator import KeyedOperator
from ottla.streams.operators.processor import Processor, ProcessorOperator
from ottla.streams.operators.session_aggregate import SessionAggregate
from ottla.streams.operators.sliding_aggregate import SlidingAggregate
from ottla.streams.operators.stream_table_join import StreamTableJoin
from ottla.streams.operators.suppress import UntilTimeLimit
from ottla.streams.operators.table_table_join import TableTableJoin
from ottla.streams.operators.windowed_aggregate import WindowedAggregate
from ottla.streams.operators.windows import (
    HoppingWindows,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    Windows,
)
from ottla.streams.plan.internal_formats import as_formats
from ottla.streams.plan.node import Node, Start, Topics, TopologyError
from ottla.streams.plan.nodes.aggregate import Aggregates, Emit, NativeAggregate
from ottla.streams.plan.nodes.join import GlobalJoin, StreamJoin
from ottla.streams.plan.nodes.keyed import Grace, Keyed, KeyedOutput, TypeOf
from ottla.streams.plan.nodes.sink import ToSpark, ToTopic
from ottla.streams.plan.nodes.source import GlobalTable as GlobalTableNode
from ottla.streams.plan.nodes.source import Source
from ottla.streams.plan.nodes.stateless import Becomes, Changes, Filter, FlatMap, Map, Merge, Peek
from ottla.streams.plan.records import Expression, Joiner, PythonFunction, PythonRecord, Record
from ottla.streams.plan.table_nodes import changes_by_group, foreign_key_join, grouped_aggregate
from ottla.streams.plan.topology import Materialized, Topology
from ottla.streams.plan.windowed_tables import suppressed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import DataType

    from ottla.streams.kit.results import ApplicationPreview, Preview
    from ottla.streams.plan.internal_formats import FormatOrType
    from ottla.streams.run.application import RunningStreams
    from ottla.streams.run.settings import StreamsSettings

    Returns: TypeAlias = DataType | str | type


class Streams:
    """An application: its sources, and by them its whole topology. `name` is its application id.

    The name goes into consumer groups, internal topics, transactional ids and checkpoints: two applications
    with one name on one cluster are one application twice.
    """

    def __init__(self, name: str) -> None:
        _check_name("an application", name)
        self.name = name
        self._names: set[str] = set()
        self._numbers = 0
        self._sinks: list[Node] = []
        self._materialized: list[Materialized] = []

    # Sources

    def stream(
        self,
        *topics: str,
        pattern: str | None = None,
        key: FormatOrType = bytes,
        value: FormatOrType = bytes,
        start: datetime | str = "earliest",
        timestamp: Expression | None = None,
        name: str | None = None,
    ) -> Stream:
        """The records of topics, or of all topics whose names match `pattern` (a Java regular expression).

        start: where to begin without a checkpoint: "earliest", "latest" or a time. timestamp: takes the event
        time from the record instead of the record's timestamp.
        """
        return Stream(self, self._source(topics, pattern, key, value, start, timestamp, name, table=False))

    def table(
        self,
        topic: str,
        *,
        key: FormatOrType = bytes,
        value: FormatOrType = bytes,
        name: str | None = None,
    ) -> Table:
        """A topic as a table: the last value of each key; records without a key are dropped, as in Kafka."""
        return Table(self, self._source((topic,), None, key, value, "earliest", None, name, table=True))

    def global_table(
        self, topic: str, *, key: FormatOrType = bytes, value: FormatOrType = bytes, name: str | None = None
    ) -> GlobalTable:
        """A topic as a table that is whole on every machine, for `Stream.join_global`."""
        named = self._named(name, "global-table")
        return GlobalTable(GlobalTableNode(named, topic, as_formats(key, value)))

    # Running

    def topology(self) -> Topology:
        """What has been built so far. Raises TopologyError when nothing is written anywhere."""
        if not self._sinks and not self._materialized:
            raise TopologyError(f"{self.name} writes nowhere: end a stream with to(), or materialize a table")
        return Topology(self.name, tuple(self._sinks), tuple(self._materialized))

    def describe(self) -> str:
        """The topology as text: its queries, what each reads, keeps and writes."""
        from ottla.streams.show.describe import describe

        return describe(self.topology())

    def start(self, settings: StreamsSettings | None = None) -> RunningStreams:
        """Start all queries and return at once. Raises StreamsError with a message for the user."""
        from ottla.streams.run.application import start
        from ottla.streams.run.settings import StreamsSettings

        return start(self.topology(), settings or StreamsSettings.from_environment())

    def run(self, settings: StreamsSettings | None = None) -> None:
        """Start all queries and go on until one fails or the process is told to stop."""
        with self.start(settings) as running, running.stopping_on_signals():
            running.await_end()

    # In notebooks

    def preview(
        self,
        data: Mapping[str, Iterable[Any]] | None = None,
        *,
        bootstrap: str | None = None,
        records: int = 20,
    ) -> ApplicationPreview:
        """What it would write for `data` by topic, or for the last records of a cluster's topics.

        Nothing is written. Raises KitError. More options: `preview_application` of ottla.streams.testing.
        """
        from ottla.streams.kit.preview import preview_application

        return preview_application(self, data, bootstrap=bootstrap, records=records)

    def _repr_html_(self) -> str:
        from ottla.streams.show.picture import picture_html

        if not self._sinks and not self._materialized:
            return f"<i>{self.name} writes nowhere yet</i>"
        return picture_html(self.topology())

    # What streams and tables add to the topology

    def _source(
        self,
        topics: tuple[str, ...],
        pattern: str | None,
        key: FormatOrType,
        value: FormatOrType,
        start: datetime | str,
        timestamp: Expression | None,
        name: str | None,
        *,
        table: bool,
    ) -> Source:
        if (pattern is None) == (not topics):
            raise TopologyError("a stream has topics or a pattern, one of both")
        name = self._named(name, "table" if table else "stream")
        return Source(name, Topics(topics, pattern), as_formats(key, value), _start(start), timestamp, table)

    def _named(self, name: str | None, kind: str) -> str:
        self._numbers += 1
        if name is None:
            name = f"{kind}-{self._numbers:04}"
        else:
            _check_name("a node", name)
        if name in self._names:
            raise TopologyError(f"two nodes are named {name}")
        self._names.add(name)
        return name


class Previewed:
    """What can be looked at in a notebook."""

    _app: Streams
    _node: Node

    def preview(
        self,
        data: Mapping[str, Iterable[Any]] | None = None,
        *,
        bootstrap: str | None = None,
        records: int = 20,
    ) -> Preview:
        """What is here after `data` by topic, or after the last records of a cluster's topics.

        Nothing is written. Raises KitError. More options: `preview` of ottla.streams.testing.
        """
        from ottla.streams.kit.preview import preview

        return preview(self, data, bootstrap=bootstrap, records=records)

    def _preview_topology(self) -> Topology:
        """What leads up to here, as an application of its own; `preview` asks for it."""
        return Topology(f"{self._app.name}-preview", (), (Materialized("previewed", self._node),))


class Stream(Previewed):
    """A stream of records. Every method gives a new stream or table and leaves this one as it is."""

    def __init__(self, app: Streams, node: Node) -> None:
        self._app = app
        self._node = node

    # Stateless

    def filter(self, predicate: Expression, *, name: str | None = None) -> Stream:
        """Only the records for which `predicate` is true."""
        return self._add(Filter(self._app._named(name, "filter"), self._node, predicate))

    def filter_not(self, predicate: Expression, *, name: str | None = None) -> Stream:
        """Only the records for which `predicate` is false (or null)."""
        return self._add(Filter(self._app._named(name, "filter"), self._node, predicate, negated=True))

    def map(
        self,
        both: PythonFunction | None = None,
        *,
        key: Expression | None = None,
        value: Expression | None = None,
        headers: Expression | None = None,
        name: str | None = None,
    ) -> Stream:
        """Another key, value or headers, by an expression each; or `both`, a Python function that returns a
        struct of `key` and `value`."""
        changes = Changes(key, value, both, headers)
        return self._add(Map(self._app._named(name, "map"), self._node, changes, Becomes.STREAM))

    def map_values(self, value: Expression, *, name: str | None = None) -> Stream:
        """Another value for each record; the key stays, and with it the partition."""
        return self.map(value=value, name=name)

    def select_key(self, key: Expression, *, name: str | None = None) -> Stream:
        """Another key for each record."""
        return self.map(key=key, name=name)

    def flat_map(self, records: Expression, *, name: str | None = None) -> Stream:
        """Any number of records for each: an array of `record(key, value)`."""
        return self._add(FlatMap(self._app._named(name, "flat-map"), self._node, records, True))

    def flat_map_values(self, values: Expression, *, name: str | None = None) -> Stream:
        """Any number of values for each record, under its key: an array."""
        return self._add(FlatMap(self._app._named(name, "flat-map"), self._node, values, False))

    def branch(self, **predicates: Expression) -> dict[str, Stream]:
        """A stream for each predicate; a record goes to the first that holds, or, if there is none, nowhere.

        `branch(paid=lambda r: …, rest=lambda r: F.lit(True))` gives {"paid": …, "rest": …}.
        """
        if not predicates:
            raise TopologyError("branch needs a predicate")
        rest: Stream = self
        branches: dict[str, Stream] = {}
        for name, predicate in predicates.items():
            branches[name] = rest.filter(predicate)
            rest = rest.filter_not(predicate)
        return branches

    def merge(self, *others: Stream, name: str | None = None) -> Stream:
        """The records of this and the other streams, in no order between them."""
        inputs = (self._node, *(other._node for other in others))
        return self._add(Merge(self._app._named(name, "merge"), inputs))

    def peek(self, action: Callable[[PythonRecord], None], *, name: str | None = None) -> Stream:
        """The same records; `action` is called with each, again when a batch is repeated."""
        return self._add(Peek(self._app._named(name, "peek"), self._node, action))

    # To tables

    def group_by_key(self) -> GroupedStream:
        """The records by their key, to aggregate. Records without a key are left out."""
        return GroupedStream(self._app, self._node)

    def group_by(self, key: Expression, *, name: str | None = None) -> GroupedStream:
        """The records by a new key."""
        return GroupedStream(self._app, self.select_key(key, name=name)._node)

    def to_table(self, *, name: str | None = None) -> Table:
        """The records as changes of a table: the last value of each key, a null value deletes it."""
        return Table(self._app, Map(self._app._named(name, "to-table"), self._node, Changes(), Becomes.TABLE))

    # Joins

    def join(
        self, other: Stream, joiner: Joiner | None = None, *, within: JoinWindows, name: str | None = None
    ) -> Stream:
        """Pairs of records of one key that are close in time; without `joiner` a struct (left, right)."""
        return self._join(other, joiner, within, JoinKind.INNER, name)

    def left_join(
        self, other: Stream, joiner: Joiner | None = None, *, within: JoinWindows, name: str | None = None
    ) -> Stream:
        """As `join`, and the left records without a partner, once their window is closed."""
        return self._join(other, joiner, within, JoinKind.LEFT, name)

    def outer_join(
        self, other: Stream, joiner: Joiner | None = None, *, within: JoinWindows, name: str | None = None
    ) -> Stream:
        """As `join`, and the records of both sides without a partner, once their window is closed."""
        return self._join(other, joiner, within, JoinKind.OUTER, name)

    def join_table(
        self,
        table: Table,
        joiner: Joiner | None = None,
        *,
        grace: timedelta | None = None,
        name: str | None = None,
    ) -> Stream:
        """Each record with the table's value of its key at that moment; none, no record.

        With `grace` records wait so long of event time, and meet the table of their own time (KIP-923).
        """
        return self._join_table(table, joiner, JoinKind.INNER, grace, name)

    def left_join_table(
        self,
        table: Table,
        joiner: Joiner | None = None,
        *,
        grace: timedelta | None = None,
        name: str | None = None,
    ) -> Stream:
        """As `join_table`; records that meet nothing come with null."""
        return self._join_table(table, joiner, JoinKind.LEFT, grace, name)

    def join_global(
        self,
        table: GlobalTable,
        key: Expression,
        joiner: Joiner | None = None,
        *,
        name: str | None = None,
    ) -> Stream:
        """Each record with a global table's value; `key` gives the table's key for a record."""
        named = self._app._named(name, "join-global")
        return self._add(GlobalJoin(named, self._node, table.node, key, JoinKind.INNER, joiner))

    def left_join_global(
        self,
        table: GlobalTable,
        key: Expression,
        joiner: Joiner | None = None,
        *,
        name: str | None = None,
    ) -> Stream:
        """As `join_global`; records without a partner come with null."""
        named = self._app._named(name, "join-global")
        return self._add(GlobalJoin(named, self._node, table.node, key, JoinKind.LEFT, joiner))

    # Processors

    def process(
        self,
        processor: Processor,
        *,
        key: Returns,
        value: Returns,
        name: str | None = None,
    ) -> Stream:
        """Code of your own with state and timers; `key` and `value` are the types of what it forwards."""
        operator = ProcessorOperator(processor)
        return self._add(
            Keyed(
                self._app._named(name, "process"),
                (self._node,),
                operator,
                KeyedOutput(key, value, table=False),
                Grace(0),
            )
        )

    # Sinks

    def to(
        self,
        topic: str | Expression,
        *,
        key: FormatOrType = bytes,
        value: FormatOrType = bytes,
        partition: Expression | None = None,
        name: str | None = None,
    ) -> None:
        """Write to a topic, exactly once. `topic` may be an expression: each record's own topic."""
        named = self._app._named(name, "to")
        sink = ToTopic(named, self._node, topic, as_formats(key, value), partition)
        self._app._sinks.append(sink)

    def through(
        self,
        topic: str,
        *,
        key: FormatOrType = bytes,
        value: FormatOrType = bytes,
        name: str | None = None,
    ) -> Stream:
        """Write to a topic and go on with what is in it."""
        self.to(topic, key=key, value=value)
        return self._app.stream(topic, key=key, value=value, name=name)

    def to_spark(self, writer: Callable[[DataFrame], DataStreamWriter], *, name: str | None = None) -> None:
        """Write to any of Spark's sinks: `writer` gets the frame (key, value, timestamp, headers…)."""
        self._app._sinks.append(ToSpark(self._app._named(name, "to-spark"), self._node, writer))

    def print(self, *, name: str | None = None) -> None:
        """Write to standard output, for a look."""
        self.to_spark(lambda frame: frame.writeStream.format("console").option("truncate", False), name=name)

    def _add(self, node: Node) -> Stream:
        return Stream(self._app, node)

    def _join(
        self, other: Stream, joiner: Joiner | None, windows: JoinWindows, kind: JoinKind, name: str | None
    ) -> Stream:
        named = self._app._named(name, "join")
        return self._add(StreamJoin(named, self._node, other._node, windows, kind, joiner))

    def _join_table(
        self,
        table: Table,
        joiner: Joiner | None,
        kind: JoinKind,
        grace: timedelta | None,
        name: str | None,
    ) -> Stream:
        grace_ms = None if not grace else grace // timedelta(milliseconds=1)
        keyed = Keyed(
            self._app._named(name, "join-table"),
            (table._node, self._node),
            StreamTableJoin(kind is JoinKind.LEFT, grace_ms),
            KeyedOutput(TypeOf.KEY, TypeOf.PAIR_STREAM_FIRST, table=False),
            None if grace_ms is None else Grace(0),
        )
        return self._add(_joined(self._app, keyed, joiner))


class GroupedStream:
    """Records by key, to be aggregated: over all time, or by window."""

    def __init__(self, app: Streams, node: Node, windows: Windows | None = None) -> None:
        self._app = app
        self._node = node
        self._windows = windows

    def windowed_by(self, windows: Windows) -> GroupedStream:
        """By window of event time too: the table's key is then a struct of key, start and end."""
        return GroupedStream(self._app, self._node, windows)

    def count(self, *, emit: Emit = Emit.CHANGES, name: str | None = None) -> Table:
        """How many records (BIGINT)."""
        if self._is_native(emit):
            return self._native(None, False, emit, name)
        return self._keyed(Count(), "BIGINT", emit, name)

    def agg(self, aggregates: Aggregates, *, emit: Emit = Emit.CHANGES, name: str | None = None) -> Table:
        """Any of Spark's aggregates: `lambda r: {"total": F.sum(r.value.amount), "best": F.max(…)}`."""
        if not self._is_native(emit):
            raise TopologyError(
                "Spark's aggregates over sliding windows, and over sessions with each change, do not exist: "
                "use aggregate() with a Python function, tumbling or hopping windows, or emit=WINDOW_CLOSE"
            )
        return self._native(aggregates, False, emit, name)

    def sum(self, value: Expression, *, emit: Emit = Emit.CHANGES, name: str | None = None) -> Table:
        """The sum of an expression."""
        return self._single("sum", value, emit, name)

    def min(self, value: Expression, *, emit: Emit = Emit.CHANGES, name: str | None = None) -> Table:
        """The smallest value of an expression."""
        return self._single("min", value, emit, name)

    def max(self, value: Expression, *, emit: Emit = Emit.CHANGES, name: str | None = None) -> Table:
        """The largest value of an expression."""
        return self._single("max", value, emit, name)

    def avg(self, value: Expression, *, emit: Emit = Emit.CHANGES, name: str | None = None) -> Table:
        """The mean of an expression."""
        return self._single("avg", value, emit, name)

    def reduce(
        self,
        reducer: Callable[[Any, Any], Any],
        *,
        emit: Emit = Emit.CHANGES,
        name: str | None = None,
    ) -> Table:
        """In Python: one value from the value so far and the next; the first record's value starts it."""
        return self._keyed(Reduce(reducer), TypeOf.VALUE, emit, name)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any], Any],
        *,
        returns: Returns,
        merger: Callable[[Any, Any], Any] | None = None,
        emit: Emit = Emit.CHANGES,
        name: str | None = None,
    ) -> Table:
        """In Python: `aggregator(so_far, value)` gives the new aggregate, from `initializer()` on.

        `merger(earlier, later)` is needed for session windows: sessions that a record connects become one.
        An aggregate of None deletes the row.
        """
        if isinstance(self._windows, SessionWindows) and merger is None:
            raise TopologyError("aggregate() over session windows needs a merger")
        return self._keyed(Aggregate(initializer, aggregator, merger), returns, emit, name)

    def _is_native(self, emit: Emit) -> bool:
        match self._windows:
            case SlidingWindows():
                return False
            case SessionWindows():
                return emit is Emit.WINDOW_CLOSE
            case _:
                return True

    def _single(self, function: str, value: Expression, emit: Emit, name: str | None) -> Table:
        if not self._is_native(emit):
            raise TopologyError(f"{function}() over these windows needs aggregate() with a Python function")

        mapped = Map(self._app._named(None, "map"), self._node, Changes(value=value), Becomes.STREAM)

        def aggregates(record: Record) -> Mapping[str, Column]:
            from pyspark.sql import functions

            return {"value": getattr(functions, function)(record.value)}

        return GroupedStream(self._app, mapped, self._windows)._native(aggregates, True, emit, name)

    def _native(self, aggregates: Aggregates | None, single: bool, emit: Emit, name: str | None) -> Table:
        if emit is Emit.WINDOW_CLOSE and self._windows is None:
            raise TopologyError("only windows close: emit=WINDOW_CLOSE needs windowed_by()")
        named = self._app._named(name, "aggregate")
        node = NativeAggregate(named, self._node, self._windows, aggregates, single, emit)
        return Table(self._app, node)

    def _keyed(self, aggregation: Aggregation, returns: Any, emit: Emit, name: str | None) -> Table:
        if emit is Emit.WINDOW_CLOSE and self._windows is None:
            raise TopologyError("only windows close: emit=WINDOW_CLOSE needs windowed_by()")
        key_type = TypeOf.KEY if self._windows is None else TypeOf.WINDOWED_KEY
        node = Keyed(
            self._app._named(name, "aggregate"),
            (self._node,),
            _aggregate_operator(aggregation, self._windows, emit_on_close=emit is Emit.WINDOW_CLOSE),
            KeyedOutput(key_type, returns, table=True),
            self._windows,
        )
        return Table(self._app, node)


class Table(Previewed):
    """The last value of each key. Every method gives a new one and leaves this one as it is."""

    def __init__(self, app: Streams, node: Node) -> None:
        self._app = app
        self._node = node

    def filter(self, predicate: Expression, *, name: str | None = None) -> Table:
        """Only the rows for which `predicate` is true: rows that no longer fit are deleted."""
        return Table(self._app, Filter(self._app._named(name, "filter"), self._node, predicate))

    def filter_not(self, predicate: Expression, *, name: str | None = None) -> Table:
        """Only the rows for which `predicate` is not true."""
        named = self._app._named(name, "filter")
        return Table(self._app, Filter(named, self._node, predicate, negated=True))

    def map_values(self, value: Expression, *, name: str | None = None) -> Table:
        """Another value for each row; deletions stay deletions."""
        return Table(
            self._app, Map(self._app._named(name, "map"), self._node, Changes(value=value), Becomes.SAME)
        )

    def to_stream(self, *, key: Expression | None = None, name: str | None = None) -> Stream:
        """The changes of the table as records; `key` gives them another key."""
        node = Map(self._app._named(name, "to-stream"), self._node, Changes(key=key), Becomes.STREAM)
        return Stream(self._app, node)

    def to(
        self,
        topic: str,
        *,
        key: FormatOrType = bytes,
        value: FormatOrType = bytes,
        name: str | None = None,
    ) -> None:
        """Write the changes to a topic: `to_stream().to(…)`."""
        self.to_stream().to(topic, key=key, value=value, name=name)

    def materialize(self, name: str) -> Table:
        """Let the table be asked by key while the application runs, under this name (interactive queries)."""
        if any(each.name == name for each in self._app._materialized):
            raise TopologyError(f"two tables are materialized as {name}")
        _check_name("a materialized table", name)
        self._app._materialized.append(Materialized(name, self._node))
        return self

    def join(self, other: Table, joiner: Joiner | None = None, *, name: str | None = None) -> Table:
        """Rows that both tables have."""
        return self._join(other, joiner, JoinKind.INNER, name)

    def left_join(self, other: Table, joiner: Joiner | None = None, *, name: str | None = None) -> Table:
        """This table's rows, with the other's or null."""
        return self._join(other, joiner, JoinKind.LEFT, name)

    def outer_join(self, other: Table, joiner: Joiner | None = None, *, name: str | None = None) -> Table:
        """Rows that either table has."""
        return self._join(other, joiner, JoinKind.OUTER, name)

    def join_foreign(
        self,
        other: Table,
        foreign_key: Expression,
        joiner: Joiner | None = None,
        *,
        name: str | None = None,
    ) -> Table:
        """Rows with the other table's row that `foreign_key` names (KIP-213)."""
        return self._join_foreign(other, foreign_key, joiner, JoinKind.INNER, name)

    def left_join_foreign(
        self,
        other: Table,
        foreign_key: Expression,
        joiner: Joiner | None = None,
        *,
        name: str | None = None,
    ) -> Table:
        """All rows, with the other table's row that `foreign_key` names, or null."""
        return self._join_foreign(other, foreign_key, joiner, JoinKind.LEFT, name)

    def group_by(
        self, key: Expression, value: Expression | None = None, *, name: str | None = None
    ) -> GroupedTable:
        """The rows by a new key (and value), to be aggregated: a changed row leaves its old group."""
        return GroupedTable(self._app, self._node, key, value, name)

    def suppress(
        self,
        *,
        time_limit: timedelta | None = None,
        max_records: int | None = None,
        name: str | None = None,
    ) -> Table:
        """Hold changes back. Without a time limit: until the window closes, then its last value, once.

        With one: at most one change of a key every `time_limit` of event time; `max_records` bounds what is
        held, the oldest goes on early.
        """
        node = self._node
        if time_limit is None:
            closed = suppressed(self._app._named(name, "suppress"), node)
            if closed is None:
                raise TopologyError("suppress() without a time limit is for a table of windows")
            return Table(self._app, closed)
        operator = UntilTimeLimit(time_limit // timedelta(milliseconds=1), max_records)
        return Table(
            self._app,
            Keyed(
                self._app._named(name, "suppress"),
                (node,),
                operator,
                KeyedOutput(TypeOf.KEY, TypeOf.VALUE, table=True, same_rows=True),
                Grace(0),
            ),
        )

    def _join(self, other: Table, joiner: Joiner | None, kind: JoinKind, name: str | None) -> Table:
        keyed = Keyed(
            self._app._named(name, "join-tables"),
            (self._node, other._node),
            TableTableJoin(kind),
            KeyedOutput(TypeOf.KEY, TypeOf.PAIR, table=True),
        )
        return Table(self._app, _joined(self._app, keyed, joiner))

    def _join_foreign(
        self, other: Table, foreign_key: Expression, joiner: Joiner | None, kind: JoinKind, name: str | None
    ) -> Table:
        named = self._app._named(name, "join-foreign")
        left_join = kind is JoinKind.LEFT
        keyed = foreign_key_join(named, self._node, other._node, foreign_key, left_join=left_join)
        return Table(self._app, _joined(self._app, keyed, joiner))


class GroupedTable:
    """A table's rows by a new key. What a row was is taken out of its old group before what it is goes in."""

    def __init__(
        self, app: Streams, node: Node, key: Expression, value: Expression | None, name: str | None
    ) -> None:
        self._app = app
        self._changes = changes_by_group(app._named(name, "group"), node, key, value)

    def count(self, *, name: str | None = None) -> Table:
        """How many rows (BIGINT)."""
        return self._aggregated(Count(), "BIGINT", name)

    def reduce(
        self,
        adder: Callable[[Any, Any], Any],
        subtractor: Callable[[Any, Any], Any],
        *,
        name: str | None = None,
    ) -> Table:
        """One value from two, in Python; `subtractor(so_far, old)` takes a row out again."""
        return self._aggregated(Reduce(adder, subtractor), None, name)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: Callable[[Any, Any], Any],
        subtractor: Callable[[Any, Any], Any],
        *,
        returns: Returns,
        name: str | None = None,
    ) -> Table:
        """In Python: `adder(so_far, value)` puts a row in, `subtractor(so_far, value)` takes it out."""
        return self._aggregated(Aggregate(initializer, adder, None, subtractor), returns, name)

    def _aggregated(self, aggregation: Aggregation, returns: Any, name: str | None) -> Table:
        named = self._app._named(name, "aggregate")
        return Table(self._app, grouped_aggregate(named, self._changes, aggregation, returns))


class GlobalTable:
    """A topic as a table on every machine; streams are joined with it by `Stream.join_global`."""

    def __init__(self, node: GlobalTableNode) -> None:
        self.node = node


def _aggregate_operator(
    aggregation: Aggregation, windows: Windows | None, *, emit_on_close: bool
) -> KeyedOperator:
    match windows:
        case None:
            return StreamAggregate(aggregation)
        case TumblingWindows() | HoppingWindows():
            return WindowedAggregate(windows, aggregation, emit_on_close)
        case SessionWindows():
            return SessionAggregate(windows, aggregation, emit_on_close)
        case SlidingWindows():
            return SlidingAggregate(windows, aggregation, emit_on_close)


def _joined(app: Streams, keyed: Keyed, joiner: Joiner | None) -> Node:
    """The pairs that a join operator emits, made one value by `joiner`."""
    if joiner is None:
        return keyed
    value = functools.partial(_join_pair, joiner)
    return Map(app._named(None, "joiner"), keyed, Changes(value=value), Becomes.SAME)


def _join_pair(joiner: Joiner, record: Record) -> Column:
    return joiner(record.value.getField("left"), record.value.getField("right"))


def _check_name(what: str, name: str) -> None:
    """Names go into names of topics, groups and directories."""
    if not name or not set(name) <= _NAME_CHARACTERS:
        raise TopologyError(f"{what} is named by letters, digits, '.', '_' and '-', not {name!r}")


def _start(start: datetime | str) -> Start:
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise TopologyError("a start needs a time zone: datetime(…, tzinfo=timezone.utc)")
        return Start(timestamp_ms=int(start.timestamp() * 1000))
    if start not in ("earliest", "latest"):
        raise TopologyError(f"a stream starts at 'earliest', 'latest' or a time, not {start!r}")
    return Start(latest=start == "latest")


_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def find_app(values: Iterable[Any]) -> Streams:
    """The one application among a module's values. Raises TopologyError."""
    found = {id(each): each for each in values if isinstance(each, Streams)}
    if len(found) != 1:
        raise TopologyError(f"{len(found)} applications (objects of Streams) found, one is needed")
    return next(iter(found.values()))
