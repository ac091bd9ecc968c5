"""Run a stateful operator in Python over frames: the way into transformWithState and out.

    inputs -> bucket, key and record as text -> shuffle -> KeyedProcessor -> record as text -> columns

Keys are put into a few buckets by their hash, one for each task of the shuffle: Spark's cost of a group, and
of each question to its state, is paid a bucket and not a key (keyed_state.py). Values go through JSON that
Spark writes and reads itself, which is exact (keyed_values.py). The record's time loses its mark as event
time on the way: Spark would drop records behind the watermark, which operators decide by window.

The number of buckets must stay the same for as long as the checkpoint lives: `describe_state` tells it, with
everything else that state hangs on. Records that an operator dropped are counted by an observation named
`ottla_<name>`, with the fields `late` and `dropped`, in the query's progress.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.streams.host.keyed_state import STATE_VERSION
from ottla.streams.operators.operator import KeyedOperator, TimerKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"


def run_keyed(
    inputs: Sequence[DataFrame],
    operator: KeyedOperator,
    *,
    name: str,
    key_type: DataType,
    value_type: DataType,
    grace_ms: int | None = None,
    heartbeats: DataFrame | None = None,
    buckets: int | None = None,
) -> DataFrame:
    """The records that `operator` sends: a frame of the same columns, of which only the first four are set.

    inputs: frames of key, value, timestamp, headers, topic, partition and offset, input 0 first, with equal
    key types. key_type, value_type: those of the operator's outputs, which must fit, or the query fails.
    grace_ms: the delay of the watermark that the inputs get; the operator sees event time as if there were
    none, and counts its windows' grace from there. None: no watermark. heartbeats: a frame of `timestamp`
    that moves the watermark too. buckets: as many as the session has shuffle partitions unless given. Raises
    TypeError for types without an exact form, ValueError for an operator with event-time timers and no
    watermark.
    """
    from pyspark.sql import functions as F

    from ottla.streams.host.keyed_processor import KeyedProcessor, OperatorCodec
    from ottla.streams.host.watermarks import with_watermark

    if grace_ms is None and TimerKind.EVENT_TIME in operator.timers:
        raise ValueError(f"{name}: {type(operator).__name__} waits for event time and has no watermark")
    partitions = int(inputs[0].sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
    ids = bucket_ids(buckets or partitions, partitions)
    types = [(frame.schema["key"].dataType, frame.schema["value"].dataType) for frame in inputs]
    frames = []
    for number, frame in enumerate(inputs):
        if grace_ms is not None:
            frame = with_watermark(frame, grace_ms, heartbeats)
        frames.append(_events(frame, number, ids))
    events = frames[0]
    for frame in frames[1:]:
        events = events.unionByName(frame)
    codec = OperatorCodec.of(name, types, key_type, value_type)
    processor = KeyedProcessor(name, operator, codec, grace_ms)
    given = events.groupBy("bucket").transformWithStateInPandas(
        statefulProcessor=processor,
        outputStructType="record STRING, late BIGINT, dropped BIGINT",
        outputMode="Update",
        timeMode=_time_mode(operator),
    )
    observed = given.observe(
        observation_name(name), F.sum("late").alias("late"), F.sum("dropped").alias("dropped")
    )
    return _columns(observed.where(F.col("record").isNotNull()), key_type, value_type)


def observation_name(name: str) -> str:
    """The name that a query's progress has for the counts of late and dropped records of operator `name`."""
    return "ottla_" + re.sub(r"\W", "_", name)


def describe_state(
    operator: KeyedOperator, key_type: DataType, value_types: Sequence[DataType], buckets: int
) -> dict[str, str]:
    """All that an operator's state hangs on, by name: a checkpoint fits as long as this stays the same."""
    return {
        "operator": type(operator).__name__,
        "stores": ", ".join(operator.stores),
        "timers": ", ".join(sorted(kind.value for kind in operator.timers)),
        "input key": key_type.simpleString(),
        "input values": ", ".join(each.simpleString() for each in value_types),
        "buckets": str(buckets),
        "version": str(STATE_VERSION),
    }


def bucket_ids(buckets: int, partitions: int) -> list[int]:
    """Each bucket's number, such that Spark's shuffle puts bucket i into partition i modulo `partitions`.

    Bucket numbers in a row would leave some tasks with several buckets and others with none.
    """
    ids: list[int] = []
    wanted = 0
    candidates: dict[int, list[int]] = {each: [] for each in range(partitions)}
    number = 0
    while len(ids) < buckets:
        target = wanted % partitions
        while not candidates[target]:
            candidates[_murmur3(number) % partitions].append(number)
            number += 1
        ids.append(candidates[target].pop(0))
        wanted += 1
    return ids


def _events(frame: DataFrame, number: int, ids: Sequence[int]) -> DataFrame:
    from pyspark.sql import functions as F

    from ottla.streams.host.keyed_values import portable, to_json

    key, value = frame.schema["key"].dataType, frame.schema["value"].dataType
    prepared = frame.select(
        to_json(F.struct(portable(F.col("key"), key).alias("k"))).alias("key"),
        F.lit(number).alias("input"),
        F.coalesce(
            F.hash("topic").cast("BIGINT") * (1 << 32) + F.col("partition").cast("BIGINT"), F.lit(-1)
        ).alias("source"),
        F.coalesce(F.col("offset").cast("BIGINT"), F.lit(-1)).alias("offset"),
        F.coalesce(F.unix_millis("timestamp"), F.lit(-1)).alias("timestamp"),
        F.unix_millis(F.current_timestamp()).alias("now"),
        to_json(
            F.struct(
                portable(F.col("value"), value).alias("v"),
                F.when(F.size("headers") > 0, F.col("headers").cast(_HEADERS)).alias("h"),
            )
        ).alias("record"),
    ).withColumn("hash", F.xxhash64("key"))
    return prepared.withColumn("bucket", _bucket(ids))


def _bucket(ids: Sequence[int]) -> Column:
    from pyspark.sql import functions as F

    position = F.pmod(F.col("hash"), F.lit(len(ids))).cast("INT")
    return F.element_at(F.array(*(F.lit(each) for each in ids)), position + 1)


def _columns(records: DataFrame, key_type: DataType, value_type: DataType) -> DataFrame:
    from pyspark.sql import functions as F
    from pyspark.sql.types import LongType, StructField, StructType

    from ottla.streams.host.keyed_values import portable_type, restored

    schema = StructType(
        [
            StructField("k", portable_type(key_type)),
            StructField("v", portable_type(value_type)),
            StructField("t", LongType()),
            StructField("h", _headers_type()),
        ]
    )
    parsed = records.select(F.from_json("record", schema, {"mode": "FAILFAST"}).alias("record"))
    return parsed.select(
        restored(F.col("record.k"), key_type).alias("key"),
        restored(F.col("record.v"), value_type).alias("value"),
        F.timestamp_millis("record.t").alias("timestamp"),
        F.col("record.h").alias("headers"),
        F.lit(None).cast("STRING").alias("topic"),
        F.lit(None).cast("INT").alias("partition"),
        F.lit(None).cast("BIGINT").alias("offset"),
    )


def _headers_type() -> DataType:
    from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

    return ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def _time_mode(operator: KeyedOperator) -> str:
    if TimerKind.PROCESSING_TIME in operator.timers:
        return "ProcessingTime"
    return "EventTime" if TimerKind.EVENT_TIME in operator.timers else "None"


def _murmur3(number: int) -> int:
    """Spark's hash of an integer, by which it partitions: Murmur3 with seed 42, as a signed number."""

    def multiply(a: int, b: int) -> int:
        return (a * b) & 0xFFFFFFFF

    def rotate(a: int, by: int) -> int:
        return ((a << by) | (a >> (32 - by))) & 0xFFFFFFFF

    mixed = multiply(rotate(multiply(number & 0xFFFFFFFF, 0xCC9E2D51), 15), 0x1B873593)
    value = (multiply(rotate(42 ^ mixed, 13), 5) + 0xE6546B64) & 0xFFFFFFFF
    value ^= 4  # the length in bytes
    value = multiply(value ^ (value >> 16), 0x85EBCA6B)
    value = multiply(value ^ (value >> 13), 0xC2B2AE35)
    value ^= value >> 16
    return value - (1 << 32) if value >> 31 else value
