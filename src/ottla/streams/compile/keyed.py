"""Stateful operators in Python, over frames with RECORD_COLUMNS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipeline.formats.python_types import spark_type
from ottla.streams.compile.given import Given, Made
from ottla.streams.operators.stream_table_join import StreamTableJoin
from ottla.streams.plan.node import Node, TopologyError
from ottla.streams.plan.nodes.keyed import InputTypes, Keyed, OutputType, TypeOf
from ottla.streams.plan.nodes.source import Boundary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


def keyed(node: Keyed, given: Given) -> Made:
    """The records that the operator sends."""
    from ottla.streams.host.keyed_host import run_keyed

    types = [(frame.schema["key"].dataType, frame.schema["value"].dataType) for frame in given.frames]
    keys = {key.simpleString() for key, _ in types}
    if len(keys) != 1:
        raise TopologyError(f"{node.name}: the keys of what is joined differ: {' and '.join(sorted(keys))}")
    frames = [
        _before_all_others(frame) if _meets_at_once(node) and _changes_by_batch(each) else frame
        for each, frame in zip(node.inputs, given.frames, strict=True)
    ]
    run = given.query.keyed_host or run_keyed
    frame = run(
        frames,
        node.operator,
        name=node.name,
        key_type=output_type(node.output.key_type, types),
        value_type=output_type(node.output.value_type, types),
        grace_ms=None if node.event_time is None else node.event_time.grace_ms,
        heartbeats=given.query.heartbeats,
    )
    return Made(frame, "update")  # the output mode of transformWithState


def _meets_at_once(node: Keyed) -> bool:
    return isinstance(node.operator, StreamTableJoin) and node.operator.grace_ms is None


def _changes_by_batch(node: Node) -> bool:
    """Whether it is a table of Spark's own aggregates: of a key's changes in a batch it tells the last."""
    if isinstance(node, Boundary):
        state = node.origin.facts.state
        return node.table and state is not None and state.operator is None
    return node.table and any(_changes_by_batch(each) for each in node.inputs)


def _before_all_others(frame: DataFrame) -> DataFrame:
    """Rows that come first in their batch, whatever their times: the join asks for nothing but their order.

    A row's time is that of the last change in it. A record between its first change and its last would find
    nothing by time.
    """
    from pyspark.sql import functions as F

    return frame.withColumn("timestamp", F.timestamp_millis(F.lit(0)))


def output_type(wanted: OutputType, inputs: InputTypes) -> DataType:
    """The Spark type that a key_type or value_type of a KeyedOutput is for inputs of these types."""
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
