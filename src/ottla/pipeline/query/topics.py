"""Topics as Spark's own source and sink see them: DataFrames in Spark's Kafka columns.

The defaults are those for every query of ottla: from the earliest offset, committed records only, and a
failure rather than a silent gap if records are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.client.access import ClusterAccess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def stream_from(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    *,
    max_offsets_per_trigger: int | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A streaming DataFrame of a topic in Spark's Kafka columns: key, value, topic, partition, offset, …"""
    reader = spark.readStream.format("kafka").options(**_reader_options(bootstrap, topic))
    if max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", max_offsets_per_trigger)
    return reader.options(**(options or {})).load()


def stream_to(
    frame: DataFrame, bootstrap: str, topic: str, options: Mapping[str, str] | None = None
) -> DataStreamWriter:
    """A writer of `frame` (columns key, value and optionally headers) into a topic.

    Spark's sink writes at least once: a batch that is repeated after a crash is written again. That is enough
    if only the last record of each key counts.
    """
    writer = frame.writeStream.format("kafka").options(**ClusterAccess(bootstrap).spark())
    return writer.option("topic", topic).options(**(options or {}))


def _reader_options(bootstrap: str, topic: str) -> dict[str, str]:
    return {
        **ClusterAccess(bootstrap).spark(),
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "true",
    }
