"""Joins in the JVM: two streams within a range of time, and a stream with a global table.

**Stream joins.** A left and a right record with equal keys meet when the right one's time is in
[left - before, left + after], each pair once however the records come. Both sides' event time may be out of
order by the width of the range and the grace, before + after + grace (`StreamJoin.watermark_delay_ms`). So
far back Kafka Streams keeps its stores too; its records that come later find no partner, ours are dropped
and counted. The watermark is that of the slower side, so that neither side outruns the other (Kafka Streams
takes the faster one); a side that pauses holds it, until heartbeats come. A record without a partner comes
out once none can come any more: a left one when the watermark has passed its time + after, a right one, time
+ before. Kafka Streams sends it earlier, by before + after, although it still matches what comes after that.

Records without a value are left out, as in Kafka Streams; records without a key too, but on the side of a
left or outer join that is kept they come out alone (KIP-962), when their time has passed like any other's.

**Global joins.** Every record meets the table as it was when its batch began. `global_snapshots.py` keeps
the table cheap to read. Records without a value are left out here too; those without a key are not, since
their key is not the table's.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ottla.streams.compile.expressions import evaluate
from ottla.streams.compile.given import Given, Made
from ottla.streams.compile.poison import ERROR, or_poison
from ottla.streams.host.watermarks import with_watermark
from ottla.streams.operators.join_kind import JoinKind
from ottla.streams.plan.nodes.join import GlobalJoin, StreamJoin
from ottla.streams.plan.records import Joiner

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SPARK_KINDS = {JoinKind.INNER: "inner", JoinKind.LEFT: "leftOuter", JoinKind.OUTER: "fullOuter"}


def streams_joined(node: StreamJoin, given: Given) -> Made:
    """A join of two streams as a node of a query."""
    left, right = given.frames
    return Made(stream_join(left, right, node, given.query.heartbeats))


def globally_joined(node: GlobalJoin, given: Given) -> Made:
    """A join with a global table as a node of a query."""
    frame, rows = given.frames
    return Made(global_join(frame, rows, node))


def stream_join(
    left: DataFrame, right: DataFrame, node: StreamJoin, heartbeats: DataFrame | None
) -> DataFrame:
    """The pairs: key, the joined value, the later timestamp, the left record's headers; in append mode.

    Both frames have RECORD_COLUMNS, `heartbeats` one column `timestamp`. Raises TopologyError.
    """
    from pyspark.sql import functions as F

    side = functools.partial(_side, delay_ms=node.watermark_delay_ms, heartbeats=heartbeats)
    lefts = side(left, "left", keep_null_keys=node.kind is not JoinKind.INNER)
    rights = side(right, "right", keep_null_keys=node.kind is JoinKind.OUTER)
    near = (F.col("right_timestamp") >= F.col("left_timestamp") - _interval(node.windows.before_ms)) & (
        F.col("right_timestamp") <= F.col("left_timestamp") + _interval(node.windows.after_ms)
    )
    joined = lefts.join(rights, (F.col("left_meets") == F.col("right_meets")) & near, _SPARK_KINDS[node.kind])
    return joined.select(
        F.coalesce("left_key", "right_key").alias("key"),
        _joined(node.joiner, F.col("left_value"), F.col("right_value")).alias("value"),
        F.greatest("left_timestamp", "right_timestamp").alias("timestamp"),
        F.col("left_headers").alias("headers"),
        F.lit(None).cast("STRING").alias("topic"),
        F.lit(None).cast("INT").alias("partition"),
        F.lit(None).cast("BIGINT").alias("offset"),
    )


def _side(
    frame: DataFrame, side: str, *, keep_null_keys: bool, delay_ms: int, heartbeats: DataFrame | None
) -> DataFrame:
    """One side's records under names of its own, with event time and `<side>_meets`, which must be equal.

    `_meets` holds the key in a struct, which is never null: of a plain key Spark would derive that it is not
    null, and take the heartbeats out below the watermark. A record without a key gets the name of its side,
    which the other side has not: null keys would be equal in the outer joins of Spark.
    """
    from pyspark.sql import functions as F

    kept = F.col("value").isNotNull() & F.col("timestamp").isNotNull()
    if not keep_null_keys:
        kept = kept & F.col("key").isNotNull()
    names = ["key", "value", "timestamp"] + (["headers"] if side == "left" else [])
    records = with_watermark(frame.select(*names).where(kept), delay_ms, heartbeats)
    alone = F.when(F.col("key").isNull(), side).otherwise("")
    return records.select(
        F.struct(F.col("key").alias("key"), alone.alias("alone")).alias(f"{side}_meets"),
        *(F.col(name).alias(f"{side}_{name}") for name in names),
    )


def _interval(milliseconds: int) -> Column:
    from pyspark.sql import functions as F

    return F.expr(f"INTERVAL {milliseconds} MILLISECONDS")


def global_join(frame: DataFrame, table_frame: DataFrame, node: GlobalJoin) -> DataFrame:
    """Each record with the table's value of its key: inner, or left with null.

    `table_frame` is `global_table_rows` of the table, or the whole topic decoded; it is broadcast. A record
    whose key for the table is null meets nothing, one without a value is left out. Columns beyond
    RECORD_COLUMNS stay. Raises TopologyError.
    """
    from pyspark.sql import functions as F

    frame = frame.where(or_poison(frame, F.col("value").isNotNull()))
    if "offset" in table_frame.columns:
        table_frame = global_table_rows(table_frame)
    frame, key = evaluate(frame, node.key, node)
    table = table_frame.select(F.col("key").alias("_table_key"), F.col("value").alias("_table_value"))
    frame = frame.withColumn("_meets", key)
    inner = node.kind is JoinKind.INNER
    # Poison records meet nothing and go on to the sink all the same.
    careful = ERROR in frame.columns
    kind = "inner" if inner and not careful else "leftOuter"
    joined = frame.join(F.broadcast(table), F.col("_meets") == F.col("_table_key"), kind)
    if inner and careful:
        joined = joined.where(F.col("_table_key").isNotNull() | F.col(ERROR).isNotNull())
    value = _joined(node.joiner, F.col("value"), F.col("_table_value"))
    if careful:
        value = F.when(F.col(ERROR).isNull(), value)
    return joined.withColumn("value", value).drop("_meets", "_table_key", "_table_value", "_result")


def global_table_rows(topic: DataFrame) -> DataFrame:
    """A topic's rows as a table: the last value of each key; deletions and records without a key are gone.

    `topic`: key, value, offset. The last one is that with the largest offset, which says it where a key is in
    one partition, as it is in a topic whose partitions were not added to.
    """
    from pyspark.sql import functions as F

    rows = (
        topic.where(F.col("key").isNotNull()).groupBy("key").agg(F.max_by("value", "offset").alias("value"))
    )
    return rows.where(F.col("value").isNotNull())


def _joined(joiner: Joiner | None, left: Column, right: Column) -> Column:
    from pyspark.sql import functions as F

    if joiner is None:
        return F.struct(left.alias("left"), right.alias("right"))
    return joiner(left, right)
