"""Streams and tables: each method adds a node to the topology."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.streams.dsl.building import Building, Grouped, check_name
from ottla.streams.operators.aggregation import Aggregate, Aggregation, Count, Reduce
from ottla.streams.operators.join_kind import JoinKind
from ottla.streams.operators.processor import Processor, ProcessorOperator
from ottla.streams.operators.stream_table_join import StreamTableJoin
from ottla.streams.operators.suppress import UntilTimeLimit
from ottla.streams.operators.table_table_join import TableTableJoin
from ottla.streams.operators.top_rows import RowOrder
from ottla.streams.operators.windows import JoinWindows, SessionWindows, Windows
from ottla.streams.plan.internal_formats import as_formats
from ottla.streams.plan.node import Node, Topics, TopologyError
from ottla.streams.plan.nodes.aggregate import Aggregates, Emit
from ottla.streams.plan.nodes.join import GlobalJoin, StreamJoin
from ottla.streams.plan.nodes.keyed import Grace, Keyed, KeyedOutput, TypeOf
from ottla.streams.plan.nodes.sink import ToSpark, ToTopic
from ottla.streams.plan.nodes.source import GlobalTable as GlobalTableNode
from ottla.streams.plan.nodes.stateless import Becomes, Changes, Filter, FlatMap, Map, Merge, Peek
from ottla.streams.plan.records import Expression, Joiner, PythonFunction, PythonRecord
from ottla.streams.plan.table_nodes import changes_by_group, foreign_key_join, grouped_aggregate
from ottla.streams.plan.topology import Materialized, Topology
from ottla.streams.plan.windowed_tables import suppressed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import DataType

    from ottla.streams.kit.results import Preview
    from ottla.streams.plan.internal_formats import FormatOrType

    Returns: TypeAlias = DataType | str | type


class Previewed:
    """A stream or a table, as a notebook shows it."""

    _building: Building
    _node: Node

    def preview(
        self,
        data: Mapping[str, Iterable[Any]] | None = None,
        *,
        bootstrap: str | None = None,
        records: int = 20,
    ) -> Preview:
        """The records here after `data` by topic, or after the last records of a cluster's topics.

        Nothing is written. Raises KitError. More options: `preview` of ottla.streams.testing.
        """
        from ottla.streams.kit.preview import preview

        return preview(self, data, bootstrap=bootstrap, records=records)

    def _preview_topology(self) -> Topology:
        """The nodes up to here, as an application of their own; `preview` asks for it."""
        return Topology(f"{self._building.name}-preview", (), (Materialized("previewed", self._node),))


class Stream(Previewed):
    """A stream of records. Every method gives a new stream or table and leaves this one as it is."""

    def __init__(self, building: Building, node: Node) -> None:
        self._building = building
        self._node = node

    # Stateless

    def filter(self, predicate: Expression, *, name: str | None = None) -> Stream:
        """Only the records for which `predicate` is true."""
        return self._add(Filter(self._building.named(name, "filter"), self._node, predicate))

    def filter_not(self, predicate: Expression, *, name: str | None = None) -> Stream:
        """Only the records for which `predicate` is false (or null)."""
        return self._add(Filter(self._building.named(name, "filter"), self._node, predicate, negated=True))

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
        return self._add(Map(self._building.named(name, "map"), self._node, changes, Becomes.STREAM))

    def map_values(self, value: Expression, *, name: str | None = None) -> Stream:
        """Another value for each record; the key stays, and with it the partition."""
        return self.map(value=value, name=name)

    def select_key(self, key: Expression, *, name: str | None = None) -> Stream:
        """Another key for each record."""
        return self.map(key=key, name=name)

    def flat_map(self, records: Expression, *, name: str | None = None) -> Stream:
        """Any number of records for each: an array of `record(key, value)`."""
        return self._add(FlatMap(self._building.named(name, "flat-map"), self._node, records, True))

    def flat_map_values(self, values: Expression, *, name: str | None = None) -> Stream:
        """Any number of values for each record, under its key: an array."""
        return self._add(FlatMap(self._building.named(name, "flat-map"), self._node, values, False))

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
        return self._add(Merge(self._building.named(name, "merge"), inputs))

    def peek(self, action: Callable[[PythonRecord], None], *, name: str | None = None) -> Stream:
        """The same records; `action` is called with each, again when a batch is repeated."""
        return self._add(Peek(self._building.named(name, "peek"), self._node, action))

    # To tables

    def group_by_key(self) -> GroupedStream:
        """The records by their key, to aggregate. Records without a key or a value are left out."""
        return GroupedStream(self._building, self._node)

    def group_by(self, key: Expression, *, name: str | None = None) -> GroupedStream:
        """The records by a new key."""
        return GroupedStream(self._building, self.select_key(key, name=name)._node)

    def to_table(self, *, name: str | None = None) -> Table:
        """The records as changes of a table: the last value of each key, a null value deletes it."""
        return Table(
            self._building, Map(self._building.named(name, "to-table"), self._node, Changes(), Becomes.TABLE)
        )

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
        named = self._building.named(name, "join-global")
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
        named = self._building.named(name, "join-global")
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
        """Code of your own with state and timers; `key` and `value` are the types that it forwards."""
        operator = ProcessorOperator(processor)
        return self._add(
            Keyed(
                self._building.named(name, "process"),
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
        timestamp: Expression | None = None,
        name: str | None = None,
    ) -> None:
        """Write to a topic, exactly once. `topic` may be an expression: each record's own topic.

        timestamp: gives each record's time; a record without one, or before 1970, is a poison record.
        Settings with at_least_once write a query without state by Spark's sink, which knows no times.
        """
        named = self._building.named(name, "to")
        sink = ToTopic(named, self._node, topic, as_formats(key, value), partition, timestamp)
        self._building.sinks.append(sink)

    def through(
        self,
        topic: str,
        *,
        key: FormatOrType = bytes,
        value: FormatOrType = bytes,
        name: str | None = None,
    ) -> Stream:
        """Write to a topic and go on with the records in it."""
        self.to(topic, key=key, value=value)
        source = self._building.stream(Topics((topic,)), as_formats(key, value), name=name)
        return self._add(source)

    def to_spark(self, writer: Callable[[DataFrame], DataStreamWriter], *, name: str | None = None) -> None:
        """Write to any of Spark's sinks: `writer` gets the frame (key, value, timestamp, headers…)."""
        self._building.sinks.append(ToSpark(self._building.named(name, "to-spark"), self._node, writer))

    def print(self, *, name: str | None = None) -> None:
        """Write to standard output, for a look."""
        self.to_spark(lambda frame: frame.writeStream.format("console").option("truncate", False), name=name)

    def _add(self, node: Node) -> Stream:
        return Stream(self._building, node)

    def _join(
        self, other: Stream, joiner: Joiner | None, windows: JoinWindows, kind: JoinKind, name: str | None
    ) -> Stream:
        named = self._building.named(name, "join")
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
            self._building.named(name, "join-table"),
            (table._node, self._node),
            StreamTableJoin(kind is JoinKind.LEFT, grace_ms),
            KeyedOutput(TypeOf.KEY, TypeOf.PAIR_STREAM_FIRST, table=False),
            None if grace_ms is None else Grace(0),
        )
        return self._add(self._building.joined(keyed, joiner))


class GroupedStream:
    """Records by key, to be aggregated: over all time, or by window."""

    def __init__(self, building: Building, node: Node, windows: Windows | None = None) -> None:
        self._grouped = Grouped(building, node, windows)

    def windowed_by(self, windows: Windows) -> GroupedStream:
        """By window of event time too: the table's key is then a struct of key, start and end."""
        return GroupedStream(self._grouped.building, self._grouped.node, windows)

    def count(self, *, emit: Emit = Emit.CHANGES, name: str | None = None) -> Table:
        """How many records (BIGINT)."""
        if self._grouped.is_native(emit):
            return self._table(self._grouped.native(None, False, emit, name))
        return self._table(self._grouped.keyed(Count(), "BIGINT", emit, name))

    def agg(self, aggregates: Aggregates, *, emit: Emit = Emit.CHANGES, name: str | None = None) -> Table:
        """Any of Spark's aggregates: `lambda r: {"total": F.sum(r.value.amount), "best": F.max(…)}`."""
        if not self._grouped.is_native(emit):
            raise TopologyError(
                "Spark's aggregates over sliding or cumulating windows, and over sessions with each change, "
                "do not exist: "
                "use aggregate() with a Python function, tumbling or hopping windows, or emit=WINDOW_CLOSE"
            )
        return self._table(self._grouped.native(aggregates, False, emit, name))

    def sum(self, value: Expression, *, emit: Emit = Emit.CHANGES, name: str | None = None) -> Table:
        """The sum of an expression."""
        return self._table(self._grouped.single("sum", value, emit, name))

    def min(self, value: Expression, *, emit: Emit = Emit.CHANGES, name: str | None = None) -> Table:
        """The smallest value of an expression."""
        return self._table(self._grouped.single("min", value, emit, name))

    def max(self, value: Expression, *, emit: Emit = Emit.CHANGES, name: str | None = None) -> Table:
        """The largest value of an expression."""
        return self._table(self._grouped.single("max", value, emit, name))

    def avg(self, value: Expression, *, emit: Emit = Emit.CHANGES, name: str | None = None) -> Table:
        """The mean of an expression."""
        return self._table(self._grouped.single("avg", value, emit, name))

    def reduce(
        self,
        reducer: Callable[[Any, Any], Any],
        *,
        emit: Emit = Emit.CHANGES,
        name: str | None = None,
    ) -> Table:
        """In Python: one value from the value so far and the next; the first record's value starts it."""
        return self._table(self._grouped.keyed(Reduce(reducer), TypeOf.VALUE, emit, name))

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
        if isinstance(self._grouped.windows, SessionWindows) and merger is None:
            raise TopologyError("aggregate() over session windows needs a merger")
        return self._table(
            self._grouped.keyed(Aggregate(initializer, aggregator, merger), returns, emit, name)
        )

    def top(self, limit: int, order: RowOrder, *, name: str | None = None) -> Table:
        """The first `limit` records of each key by an order, in Python, by keys of key and rank."""
        if self._grouped.windows is not None:
            raise TopologyError("top() is over all time, without windows")
        return self._table(self._grouped.top(limit, order, name))

    def _table(self, node: Node) -> Table:
        return Table(self._grouped.building, node)


class Table(Previewed):
    """The last value of each key. Every method gives a new one and leaves this one as it is."""

    def __init__(self, building: Building, node: Node) -> None:
        self._building = building
        self._node = node

    def filter(self, predicate: Expression, *, name: str | None = None) -> Table:
        """Only the rows for which `predicate` is true: rows that no longer fit are deleted."""
        return Table(self._building, Filter(self._building.named(name, "filter"), self._node, predicate))

    def filter_not(self, predicate: Expression, *, name: str | None = None) -> Table:
        """Only the rows for which `predicate` is not true."""
        named = self._building.named(name, "filter")
        return Table(self._building, Filter(named, self._node, predicate, negated=True))

    def map_values(self, value: Expression, *, name: str | None = None) -> Table:
        """Another value for each row; deletions stay deletions."""
        return Table(
            self._building,
            Map(self._building.named(name, "map"), self._node, Changes(value=value), Becomes.SAME),
        )

    def to_stream(self, *, key: Expression | None = None, name: str | None = None) -> Stream:
        """The changes of the table as records; `key` gives them another key."""
        node = Map(self._building.named(name, "to-stream"), self._node, Changes(key=key), Becomes.STREAM)
        return Stream(self._building, node)

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
        if any(each.name == name for each in self._building.materialized):
            raise TopologyError(f"two tables are materialized as {name}")
        check_name("a materialized table", name)
        self._building.materialized.append(Materialized(name, self._node))
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
        return GroupedTable(self._building, self._node, key, value, name)

    def suppress(
        self,
        *,
        time_limit: timedelta | None = None,
        max_records: int | None = None,
        name: str | None = None,
    ) -> Table:
        """Hold changes back. Without a time limit: until the window closes, then its last value, once.

        With one: at most one change of a key every `time_limit` of event time; `max_records` bounds the
        changes that are held, the oldest goes on early.
        """
        node = self._node
        if time_limit is None:
            closed = suppressed(self._building.named(name, "suppress"), node)
            if closed is None:
                raise TopologyError("suppress() without a time limit is for a table of windows")
            return Table(self._building, closed)
        operator = UntilTimeLimit(time_limit // timedelta(milliseconds=1), max_records)
        return Table(
            self._building,
            Keyed(
                self._building.named(name, "suppress"),
                (node,),
                operator,
                KeyedOutput(TypeOf.KEY, TypeOf.VALUE, table=True, same_rows=True),
                Grace(0),
            ),
        )

    def _join(self, other: Table, joiner: Joiner | None, kind: JoinKind, name: str | None) -> Table:
        keyed = Keyed(
            self._building.named(name, "join-tables"),
            (self._node, other._node),
            TableTableJoin(kind),
            KeyedOutput(TypeOf.KEY, TypeOf.PAIR, table=True),
        )
        return Table(self._building, self._building.joined(keyed, joiner))

    def _join_foreign(
        self, other: Table, foreign_key: Expression, joiner: Joiner | None, kind: JoinKind, name: str | None
    ) -> Table:
        named = self._building.named(name, "join-foreign")
        left_join = kind is JoinKind.LEFT
        keyed = foreign_key_join(named, self._node, other._node, foreign_key, left_join=left_join)
        return Table(self._building, self._building.joined(keyed, joiner))


class GroupedTable:
    """A table's rows by a new key. A row's old value leaves its group before the new one enters one."""

    def __init__(
        self, building: Building, node: Node, key: Expression, value: Expression | None, name: str | None
    ) -> None:
        self._building = building
        self._changes = changes_by_group(building.named(name, "group"), node, key, value)

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
        named = self._building.named(name, "aggregate")
        return Table(self._building, grouped_aggregate(named, self._changes, aggregation, returns))


class GlobalTable:
    """A topic as a table on every machine; streams are joined with it by `Stream.join_global`."""

    def __init__(self, node: GlobalTableNode) -> None:
        self.node = node
