"""Aggregates by key, or by key and window, of Spark's own functions: everything runs in the JVM.

The frames have RECORD_COLUMNS: the group's key, for windows STRUCT<key, start, end>; the aggregate as
value; the largest timestamp of the group's records, as in Kafka Streams; no headers and no place in a topic.
Records without a key or a value are left out, as in Kafka Streams.

- Without windows: the state of a key is kept for ever, as in Kafka Streams.
- Tumbling and hopping windows start at multiples of their advance since 1970, none before it, and their
  state is kept until they are closed; watermarks.py says when that is.
- Sessions come out once, when closed: Spark can't take back a value that it sent for a session that grows. A
  session is from its first to its last record, as in Kafka Streams; Spark's own would end a gap later. Spark
  judges a late record alone, by its own time: Kafka Streams would keep one that an open session reaches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, assert_never

from ottla.streams.compile.given import Given, Made
from ottla.streams.host.watermarks import with_watermark
from ottla.streams.operators.windows import (
    CumulatingWindows,
    HoppingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    Windows,
)
from ottla.streams.plan.node import TopologyError
from ottla.streams.plan.nodes.aggregate import Emit, NativeAggregate
from ottla.streams.plan.records import RECORD_COLUMNS, record_of_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WINDOW = "_window"
_LAST = "_last"
_FIRST = "_first"


def aggregated(node: NativeAggregate, given: Given) -> Made:
    """The aggregate as a node of a query."""
    return Made(aggregate(given.frames[0], node, given.query.heartbeats), output_mode(node))


def output_mode(node: NativeAggregate) -> Literal["append", "update"]:
    """Spark's output mode for a query with this aggregate."""
    return "update" if node.emit is Emit.CHANGES else "append"


def aggregate(frame: DataFrame, node: NativeAggregate, heartbeats: DataFrame | None) -> DataFrame:
    """The aggregate's frame: a row for each group that a batch changed, or for each window that closed.

    `frame` has RECORD_COLUMNS. `heartbeats` has one column `timestamp`; only windows ask for it. Raises
    TopologyError, and Spark's own errors for expressions that are none.
    """
    from pyspark.sql import functions as F

    if node.emit is Emit.WINDOW_CLOSE and node.windows is None:
        raise TopologyError(f"{node.name}: only windows close, and there are none")
    # Below the watermark, where Spark would move it anyway: heartbeats have no key and must pass.
    records = frame.select(*RECORD_COLUMNS)
    frame = records.where(F.col("key").isNotNull() & F.col("value").isNotNull())
    named = _named_aggregates(node)
    columns = [column.alias(_field(number)) for number, column in enumerate(named.values())]
    columns.append(F.max("timestamp").alias(_LAST))
    if node.windows is None:
        groups = frame.groupBy("key")
        key = F.col("key")
    else:
        frame = with_watermark(frame, node.watermark_delay_ms, heartbeats)
        start, end = F.col(f"{_WINDOW}.start"), F.col(f"{_WINDOW}.end")
        if isinstance(node.windows, SessionWindows):
            columns.append(F.min("timestamp").alias(_FIRST))
            start, end = F.col(_FIRST), F.col(_LAST)
        groups = frame.groupBy("key", _window(node.windows, node.name).alias(_WINDOW))
        key = F.struct(F.col("key"), start.alias("start"), end.alias("end"))
    aggregated = groups.agg(*columns)
    if isinstance(node.windows, HoppingWindows):
        aggregated = aggregated.where(F.col(f"{_WINDOW}.start") >= F.timestamp_millis(F.lit(0)))
    return aggregated.select(
        key.alias("key"),
        _value(node, tuple(named)).alias("value"),
        F.col(_LAST).alias("timestamp"),
        *(F.lit(None).cast(type_name).alias(name) for name, type_name in _NOWHERE.items()),
    )


_NOWHERE = {
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
}


def _window(windows: Windows, name: str) -> Column:
    from pyspark.sql import functions as F

    match windows:
        case TumblingWindows():
            return F.window("timestamp", _duration(windows.size_ms))
        case HoppingWindows():
            return F.window("timestamp", _duration(windows.size_ms), _duration(windows.advance_ms))
        case SessionWindows():
            # Spark joins sessions that touch, so records exactly a gap apart are in one.
            return F.session_window("timestamp", _duration(windows.gap_ms))
        case SlidingWindows():
            raise TopologyError(f"{name}: Spark's aggregates have no sliding windows by record")
        case CumulatingWindows():
            raise TopologyError(f"{name}: Spark's aggregates have no windows that grow")
        case _:
            assert_never(windows)


def _duration(milliseconds: int) -> str:
    return f"{milliseconds} milliseconds"


def _named_aggregates(node: NativeAggregate) -> dict[str, Column]:
    from pyspark.sql import functions as F

    if node.aggregates is None:
        return {"count": F.count(F.lit(1))}
    named = dict(node.aggregates(record_of_columns()))
    if not named or (node.single and len(named) != 1):
        raise TopologyError(f"{node.name}: {len(named)} aggregates where one is needed")
    return named


def _field(number: int) -> str:
    return f"_aggregate_{number}"


def _value(node: NativeAggregate, names: tuple[str, ...]) -> Column:
    from pyspark.sql import functions as F

    if node.aggregates is None or node.single:
        return F.col(_field(0))
    return F.struct(*(F.col(_field(number)).alias(name) for number, name in enumerate(names)))
