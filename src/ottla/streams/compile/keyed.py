"""Stateful operators in Python, over frames with RECORD_COLUMNS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipeline.formats.python_types import spark_type
from ottla.streams.compile.given import Given, Made
from ottla.streams.plan.node import TopologyError
from ottla.streams.plan.nodes.keyed import InputTypes, Keyed, OutputType, TypeOf

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def keyed(node: Keyed, given: Given) -> Made:
    """The records that the operator sends."""
    from ottla.streams.host.keyed_host import run_keyed

    types = [(frame.schema["key"].dataType, frame.schema["value"].dataType) for frame in given.frames]
    keys = {key.simpleString() for key, _ in types}
    if len(keys) != 1:
        raise TopologyError(f"{node.name}: the keys of what is joined differ: {' and '.join(sorted(keys))}")
    run = given.query.keyed_host or run_keyed
    frame = run(
        given.frames,
        node.operator,
        name=node.name,
        key_type=output_type(node.output.key_type, types),
        value_type=output_type(node.output.value_type, types),
        grace_ms=None if node.event_time is None else node.event_time.grace_ms,
        heartbeats=given.query.heartbeats,
    )
    return Made(frame, "update")  # the output mode of transformWithState


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
