"""The form in which the sink's rows travel from Spark's JVM to the tasks that write them.

Spark's Arrow writer takes time for each nested value: 7 us a row for a list of headers, 0.4 us for a struct
of topic and partition. So rows travel flat, and values that most rows share travel as null: no headers, the
sink's own topic, the topic that is read.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_SOURCE_TOPIC = "source_topic"
_SOURCE_PARTITION = "source_partition"


def flattened(frame: DataFrame, topic: str, source_topic: str | None) -> DataFrame:
    """The rows in that form. topic: of rows that name no other; source_topic: the topic of most rows."""
    from pyspark.sql import functions as F

    columns = []
    for name in frame.columns:
        match name:
            case "headers":
                columns.append(F.when(F.size("headers") > 0, F.to_json("headers")).alias("headers"))
            case "topic":
                columns.append(F.nullif(F.col("topic"), F.lit(topic)).alias("topic"))
            case "source":
                read = F.col("source.topic")
                told = read if source_topic is None else F.nullif(read, F.lit(source_topic))
                columns += [told.alias(_SOURCE_TOPIC), F.col("source.partition").alias(_SOURCE_PARTITION)]
            case _:
                columns.append(F.col(name))
    return frame.select(*columns)


def restored(batch: pa.RecordBatch, source_topic: str | None) -> pa.RecordBatch:
    """The rows as the writer takes them; `source_topic` is the one that was given to `flattened`."""
    import pyarrow as pa

    names = batch.schema.names
    if "headers" in names:
        headers = _headers(batch.column("headers"))
        batch = batch.set_column(names.index("headers"), pa.field("headers", headers.type), headers)
    if _SOURCE_PARTITION in names:
        topics = batch.column(_SOURCE_TOPIC)
        if source_topic is not None:
            topics = topics.fill_null(source_topic)
        source = pa.StructArray.from_arrays(
            [topics, batch.column(_SOURCE_PARTITION)], names=["topic", "partition"]
        )
        batch = batch.drop_columns([_SOURCE_TOPIC, _SOURCE_PARTITION])
        batch = batch.append_column(pa.field("source", source.type), source)
    return batch


def _headers(texts: pa.Array) -> pa.Array:
    import pyarrow as pa

    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), headers)
    return pa.array([_headers_of(text) for text in texts.to_pylist()], headers)


def _headers_of(text: str | None) -> list[dict[str, str | bytes | None]] | None:
    if text is None:
        return None
    return [
        {"key": each.get("key"), "value": base64.b64decode(each["value"]) if "value" in each else None}
        for each in json.loads(text)
    ]
