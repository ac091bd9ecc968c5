"""Compile one planned query into a frame of the records that it writes.

What is stateless is in `stateless.py`, native aggregates, stream joins and global joins are in
`native.py`, operators in Python in `keyed_host.py`. Frames between nodes have RECORD_COLUMNS; those that are
written have the sink's: topic, key, value, timestamp, headers, partition.

`QueryInputs` is what differs between an application on a cluster and the test kit: where records come from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ottla.pipeline.formats.python_types import spark_type
from ottla.streams.compile import native, stateless
from ottla.streams.compile.inputs import QueryInputs
from ottla.streams.compile.query_facts import may_meet_poison
from ottla.streams.compile.stateless import ERROR, ORIGIN, PATH, DeadLetters, naming
from ottla.streams.plan.internal_formats import internal_formats
from ottla.streams.plan.topology import (
    Boundary,
    Filter,
    FlatMap,
    GlobalJoin,
    GlobalTable,
    InputTypes,
    Keyed,
    Map,
    Merge,
    NativeAggregate,
    Node,
    OutputType,
    Peek,
    Source,
    StreamJoin,
    ToInternalTopic,
    TopologyError,
    ToSpark,
    ToTopic,
    TypeOf,
    in_order,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from ottla.pipeline.formats.format import Format
    from ottla.streams.plan.planner import PlannedQuery


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query ready to be written: `frame` to Kafka, or, for a query that ends in Spark's sink, as it is."""

    frame: DataFrame
    types: Mapping[str, tuple[DataType, DataType]]
    """By internal topic: key and value type of what the query writes there."""
    output_mode: Literal["append", "update"]
    before_state: tuple[DataFrame, ...]
    """The frames that the stateful node reads, none without one."""
    stateful: DataFrame | None
    """The frame behind the stateful node, if there is one."""
    dead_letters: tuple[DataFrame, ...]
    """Poison records that `frame` can't carry, because state lies between: to be written by another query."""
    global_tables: tuple[tuple[GlobalTable, DataFrame], ...]
    """The rows of global tables, as they are in the joins' plans: to be kept in memory (global_snapshots)."""


def compile_query(
    query: PlannedQuery, inputs: QueryInputs, reported: Collection[str] | None = None
) -> Compiled:
    """The query as a frame. Raises TopologyError with the node's name where Spark refuses an expression.

    `reported`: the nodes whose poison records this query writes to the dead-letter topic, because several
    queries may have a node in common; None for all of its own.
    """
    (sink,) = query.sinks
    topic = None if isinstance(sink, ToSpark) else inputs.dead_letters
    names = {node.name for node in query.nodes} if reported is None else reported
    poison = None if topic is None else DeadLetters(topic, tuple(sorted(names)))
    run = _Compilation(inputs, poison)
    for node in query.nodes:
        if not isinstance(node, ToTopic | ToInternalTopic | ToSpark | GlobalTable):
            run.frames[id(node)] = run.compile(node)
    frame = run.frames[id(sink.input)]
    stateful = None if query.stateful is None else run.frames[id(query.stateful)]
    before_state = () if query.stateful is None else run.inputs_of(query.stateful)
    types: dict[str, tuple[DataType, DataType]] = {}
    match sink:
        case ToTopic():
            written = stateless.to_topic(
                frame, sink, sink.topic, sink.key, sink.value, sink.partition, poison, stateful is None
            )
        case ToInternalTopic():
            types[sink.topic] = frame.schema["key"].dataType, frame.schema["value"].dataType
            key, value = internal_formats(*types[sink.topic])
            written = stateless.to_topic(frame, sink, sink.topic, key, value, None, poison, stateful is None)
        case ToSpark():
            written = frame.drop(PATH)
    return Compiled(
        written, types, run.output_mode, before_state, stateful, tuple(run.dead), tuple(run.global_tables)
    )


class _Compilation:
    """The frames of one query, node by node."""

    def __init__(self, given: QueryInputs, poison: DeadLetters | None) -> None:
        self.given = given
        self.poison = poison
        self.frames: dict[int, DataFrame] = {}
        self.dead: list[DataFrame] = []
        self.global_tables: list[tuple[GlobalTable, DataFrame]] = []
        self.output_mode: Literal["append", "update"] = "append"

    def inputs_of(self, node: Node) -> tuple[DataFrame, ...]:
        return tuple(self.frames[id(each)] for each in node.inputs if not isinstance(each, GlobalTable))

    def compile(self, node: Node) -> DataFrame:
        inputs = self.inputs_of(node)
        match node:
            case Source():
                return self._read(node, node.key, node.value)
            case Boundary():
                return self._read(node, *internal_formats(*self.given.types_of(node)))
            case Filter() | Map() | FlatMap() | Merge() | Peek():
                return stateless.apply(node, inputs)
            case GlobalJoin():
                return self._global_join(node, inputs[0])
            case NativeAggregate():
                with naming(node):
                    self.output_mode = native.output_mode(node)
                    (frame,) = self._well(node, inputs)
                    return self._clean(native.aggregate(frame, node, self.given.heartbeats))
            case StreamJoin():
                with naming(node):
                    left, right = self._well(node, inputs)
                    return self._clean(native.stream_join(left, right, node, self.given.heartbeats))
            case Keyed():
                with naming(node):
                    return self._clean(self._keyed(node, self._well(node, inputs)))
        raise AssertionError(node)

    def _read(self, source: Source | Boundary, key: Format, value: Format) -> DataFrame:
        with naming(source):
            raw = self.given.frames[source]
            return stateless.read_source(source, raw, key, value, dead_letters=self.poison is not None)

    def _global_join(self, node: GlobalJoin, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        table = node.global_table
        with naming(node):
            raw = self.given.frames[node]
            key, value = table.key.bind(table.topic, True), table.value.bind(table.topic, False)
            rows = raw.select(
                key.decode(F.col("key"), F.col("topic"), True).alias("_key"),
                value.decode(F.col("value"), F.col("topic"), False).alias("_value"),
                "partition",
                "offset",
            )
            # A row of the table that can't be read is told: it is not for the records' dead letters.
            rows = rows.select(
                stateless.or_fail(table.name, "key", F.col("_key"), table.topic).alias("key"),
                stateless.or_fail(table.name, "value", F.col("_value"), table.topic).alias("value"),
                "partition",
                "offset",
            )
            rows = native.global_table_rows(rows)
            self.global_tables.append((table, rows))
            return native.global_join(frame, rows, node)

    def _well(self, node: Node, frames: Sequence[DataFrame]) -> list[DataFrame]:
        """The frames without their poison records, which are kept aside."""
        from pyspark.sql import functions as F

        if self.poison is None:
            return [frame.drop(PATH) for frame in frames]
        poison = self.poison
        for each, frame in zip(node.inputs, frames, strict=True):
            if may_meet_poison(in_order([each]), set(poison.nodes)):
                self.dead.append(stateless.dead_letters_of(frame, poison, len(self.dead)))
        return [frame.where(F.col(ERROR).isNull()).drop(ERROR, ORIGIN, PATH) for frame in frames]

    def _clean(self, frame: DataFrame) -> DataFrame:
        """Behind state there are no poison records yet; what a record came from is not known any more."""
        return frame if self.poison is None else stateless.with_no_errors(frame)

    def _keyed(self, node: Keyed, frames: Sequence[DataFrame]) -> DataFrame:
        from ottla.streams.host.keyed_host import run_keyed

        types = [(frame.schema["key"].dataType, frame.schema["value"].dataType) for frame in frames]
        keys = {key.simpleString() for key, _ in types}
        if len(keys) != 1:
            raise TopologyError(
                f"{node.name}: the keys of what is joined differ: {' and '.join(sorted(keys))}"
            )
        self.output_mode = "update"  # what transformWithState is run with
        grace_ms = node.watermark_grace_ms if node.windows is None else node.windows.grace_ms
        run = self.given.keyed_host or run_keyed
        return run(
            frames,
            node.operator,
            name=node.name,
            key_type=output_type(node.key_type, types),
            value_type=output_type(node.value_type, types),
            grace_ms=grace_ms,
            heartbeats=self.given.heartbeats,
        )


def output_type(wanted: OutputType, inputs: InputTypes) -> DataType:
    """What `Keyed.key_type` and `value_type` mean for inputs of these types."""
    from pyspark.sql.types import StructField, StructType, TimestampType

    match wanted:
        case TypeOf.KEY:
            return inputs[0][0]
        case TypeOf.VALUE:
            return inputs[0][1]
        case TypeOf.LAST_VALUE:
            return inputs[-1][1]
        case TypeOf.PAIR:
            return StructType([StructField("left", inputs[0][1]), StructField("right", inputs[1][1])])
        case TypeOf.PAIR_STREAM_FIRST:
            return StructType([StructField("left", inputs[1][1]), StructField("right", inputs[0][1])])
        case TypeOf.WINDOWED_KEY:
            times = [StructField(name, TimestampType()) for name in ("start", "end")]
            return StructType([StructField("key", inputs[0][0]), *times])
    if callable(wanted) and not isinstance(wanted, type):
        found: DataType = wanted(inputs)
        return found
    return spark_type(wanted)
