"""Read topics: decode the bytes of sources, of internal topics and of global tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipeline.formats.format import once
from ottla.pipeline.formats.json_format import JsonFormat
from ottla.pipeline.formats.primitives import PrimitiveFormat
from ottla.pipeline.sink.dead_letters import ERROR_TYPE, KEY_STAGE, VALUE_STAGE
from ottla.streams.compile.expressions import with_time
from ottla.streams.compile.given import Given, Made
from ottla.streams.compile.native_join import global_table_rows
from ottla.streams.compile.poison import ERROR, ORIGIN, decode_error, or_poison
from ottla.streams.plan.internal_formats import internal_formats
from ottla.streams.plan.node import Formats
from ottla.streams.plan.nodes.source import Boundary, GlobalTable, Source
from ottla.streams.plan.records import RECORD_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ottla.pipeline.formats.format import Format


def source(node: Source, given: Given) -> Made:
    """A source's records."""
    careful = given.dead_letters is not None
    names = node.topics.names
    topic = names[0] if len(names) == 1 else None
    frame = _decoded(node.name, given.query.frames[node], topic, node.formats, dead_letters=careful)
    if node.timestamp is not None:
        frame = with_time(frame, node.timestamp, node, since_1970=False)
    return Made(_with_keys(frame) if node.table else frame)


def boundary(node: Boundary, given: Given) -> Made:
    """The records that another query of the application wrote."""
    formats = internal_formats(*given.query.types_of(node.topic))
    careful = given.dead_letters is not None
    frame = _decoded(node.name, given.query.frames[node], node.topic, formats, dead_letters=careful)
    return Made(_with_keys(frame) if node.table else frame)


def global_table(node: GlobalTable, given: Given) -> Made:
    """The rows of a whole topic. One that can't be read fails the query: it is no record of the query's."""
    from pyspark.sql import functions as F

    key, value = node.formats.key.bind(node.topic, True), node.formats.value.bind(node.topic, False)
    rows = given.query.frames[node].select(
        key.decode(F.col("key"), F.col("topic"), True).alias("_key"),
        value.decode(F.col("value"), F.col("topic"), False).alias("_value"),
        "partition",
        "offset",
    )
    rows = rows.select(
        or_fail(node.name, "key", F.col("_key"), node.topic).alias("key"),
        or_fail(node.name, "value", F.col("_value"), node.topic).alias("value"),
        "partition",
        "offset",
    )
    return Made(global_table_rows(rows))


def _decoded(
    name: str, raw: DataFrame, topic: str | None, formats: Formats, *, dead_letters: bool
) -> DataFrame:
    """A source's bytes as values; `raw` has the columns of Spark's Kafka source."""
    from pyspark.sql import functions as F

    key, value = formats.key.bind(topic, True), formats.value.bind(topic, False)
    plain = [F.col(each) for each in RECORD_COLUMNS if each not in ("key", "value")]
    origin = [F.struct("key", "value", *plain).alias(ORIGIN)] if dead_letters else []
    decoded = _with_decoded(_with_decoded(raw, "key", key, True), "value", value, False)
    decoded = decoded.select("_key", "_value", *plain, *origin)
    wrong_key, wrong_value = F.col("_key.error"), F.col("_value.error")
    if dead_letters:
        error = F.when(wrong_key.isNotNull(), decode_error(name, KEY_STAGE, wrong_key))
        error = error.when(wrong_value.isNotNull(), decode_error(name, VALUE_STAGE, wrong_value))
        frame = decoded.select(
            F.col("_key.value").alias("key"),
            F.col("_value.value").alias("value"),
            *plain,
            F.col(ORIGIN),
            error.cast(ERROR_TYPE).alias(ERROR),
        )
    else:
        frame = decoded.select(
            or_fail(name, "key", F.col("_key"), F.col("topic")).alias("key"),
            or_fail(name, "value", F.col("_value"), F.col("topic")).alias("value"),
            *plain,
        )
    return frame


def _with_keys(frame: DataFrame) -> DataFrame:
    """A table's records: those without a key are left out."""
    from pyspark.sql import functions as F

    return frame.where(or_poison(frame, F.col("key").isNotNull()))


def _with_decoded(frame: DataFrame, side: str, format: Format, is_key: bool) -> DataFrame:
    """The frame with a side's bytes decoded in a column by its name and "_" before it."""
    from pyspark.sql import functions as F

    if isinstance(format, JsonFormat) and format.type is not None:
        return format.decode_in_steps(frame, side, f"_{side}")
    column = F.col(side) if isinstance(format, PrimitiveFormat) else once(F.col(side))
    return frame.withColumn(f"_{side}", format.decode(column, F.col("topic"), is_key))


def or_fail(name: str, part: str, decoded: Column, topic: Column | str) -> Column:
    """The decoded value; where decoding gave an error, evaluating the column fails the query."""
    from pyspark.sql import functions as F

    place = [F.lit(topic) if isinstance(topic, str) else topic, F.lit("-"), F.col("partition")]
    text = F.concat_ws(
        "",
        F.lit(f"{name}: the {part} of "),
        *(each.cast("STRING") for each in place),
        F.lit(" at offset "),
        F.col("offset").cast("STRING"),
        F.lit(" can't be read: "),
        decoded.getField("error"),
    )
    wrong = decoded.getField("error").isNotNull()
    return F.when(wrong, F.raise_error(text)).otherwise(decoded.getField("value"))
