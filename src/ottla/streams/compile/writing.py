"""Write topics: the rows of sinks, with the poison records among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipeline.query.query_progress import OBSERVATION_PREFIX, WRITTEN_OBSERVATION
from ottla.pipeline.sink.dead_letters import dead_letter_columns
from ottla.streams.compile.expressions import evaluate, with_time, without_result
from ottla.streams.compile.given import Given, Made
from ottla.streams.compile.poison import (
    COUNT,
    ERROR,
    ORIGIN,
    PATH,
    SINK_COLUMNS,
    reported,
    source_of,
)
from ottla.streams.plan.internal_formats import internal_formats
from ottla.streams.plan.node import Formats, TopologyError
from ottla.streams.plan.nodes.sink import ToInternalTopic, ToSpark, ToTopic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


def to_topic(node: ToTopic, given: Given) -> Made:
    """The rows that go to topics of the user's."""
    from pyspark.sql import functions as F

    (frame,) = given.frames
    if isinstance(node.topic, str):
        target, name = F.lit(node.topic), node.topic
    else:
        frame, target = evaluate(frame, node.topic, node)
        frame = without_result(frame.withColumn("_topic", target), node.topic)
        target, name = F.col("_topic"), ""
        text = f"{node.name}: the topic of a record is null"
        target = F.when(target.isNull(), F.raise_error(F.lit(text))).otherwise(target)
    place = F.lit(None).cast("INT")
    if node.partition is not None:
        frame, place = evaluate(frame, node.partition, node)
        frame = without_result(frame.withColumn("_partition", place), node.partition)
        place = F.col("_partition").cast("INT")
    if node.timestamp is not None:
        frame = with_time(frame, node.timestamp, node, since_1970=True)
    columns = {**_encoded(frame, node.name, name, node.formats), "topic": target, "partition": place}
    return Made(_written(frame, columns, given))


def to_internal_topic(node: ToInternalTopic, given: Given) -> Made:
    """The rows that go to an internal topic."""
    from pyspark.sql import functions as F

    (frame,) = given.frames
    types = frame.schema["key"].dataType, frame.schema["value"].dataType
    encoded = _encoded(frame, node.name, node.topic, internal_formats(*types))
    columns = {**encoded, "topic": F.lit(node.topic), "partition": F.lit(None).cast("INT")}
    return Made(_written(frame, columns, given), types={node.topic: types})


def to_spark(node: ToSpark, given: Given) -> Made:
    """The records as they are, for a sink of Spark's."""
    (frame,) = given.frames
    return Made(frame.drop(PATH), writer=node.writer)


def _encoded(frame: DataFrame, node: str, topic: str, formats: Formats) -> dict[str, Column]:
    """The columns of a record's content. topic: its name, empty where each record has its own."""
    from pyspark.sql import functions as F

    key, value = formats.key.bind(topic or None, True), formats.value.bind(topic or None, False)
    for part, given in (("key", key), ("value", value)):
        check_fits(f"{node}: the {part}", frame.schema[part].dataType, given.data_type())
    return {
        "key": key.encode(F.col("key"), topic, True),
        "value": value.encode(F.col("value"), topic, False),
        "timestamp": F.col("timestamp"),
        "headers": F.col("headers"),
    }


def _written(frame: DataFrame, columns: dict[str, Column], given: Given) -> DataFrame:
    """SINK_COLUMNS, those of poison records for the dead-letter topic; `source` where rows have a place."""
    from pyspark.sql import functions as F

    if given.query.observes_written:
        frame = _observed(frame)
    if ERROR in frame.columns:
        assert given.dead_letters is not None
        well, poison = F.col(ERROR).isNull(), reported(given.dead_letters)
        frame = frame.where(well | poison)
        frame = frame.observe(f"{OBSERVATION_PREFIX}dead_letters", F.count_if(poison).alias(COUNT))
        dead = dead_letter_columns(ORIGIN, ERROR, given.dead_letters.topic)
        columns = {each: F.when(well, columns[each]).otherwise(dead[each]) for each in SINK_COLUMNS}
    source = [source_of(frame).alias("source")] if given.stateless else []
    return frame.select(*(columns[each].alias(each) for each in SINK_COLUMNS), *source)


def _observed(frame: DataFrame) -> DataFrame:
    """The frame, with an observation of the timestamps of its records but the poison ones.

    In microseconds, which Spark has already; all of it costs some 0.2 us a record.
    """
    from pyspark.sql import functions as F

    times = F.unix_micros("timestamp")
    if ERROR in frame.columns:
        times = F.when(F.col(ERROR).isNull(), times)
    return frame.observe(
        WRITTEN_OBSERVATION,
        F.count(times).alias("records"),
        F.min(times).alias("earliest_us"),
        F.avg(times.cast("DOUBLE")).alias("average_us"),
        F.max(times).alias("latest_us"),
    )


def check_fits(name: str, found: DataType, wanted: DataType) -> None:
    """Raise TopologyError where values can't be written as another type: Spark would make nulls of some.

    name: of the values, for the message.
    """
    from pyspark.sql import types as T

    numbers = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
    fits = type(found) is type(wanted) or isinstance(found, T.NullType)
    match found, wanted:
        case _, T.NullType() | T.VariantType():
            fits = True
        case T.StructType(), T.StructType():
            for field in wanted.fields:
                if field.name in found.names:
                    check_fits(f"{name}.{field.name}", found[field.name].dataType, field.dataType)
                elif not field.nullable:
                    raise TopologyError(f"{name} has no field {field.name}, which its format needs")
        case T.ArrayType(), T.ArrayType():
            check_fits(f"{name}[]", found.elementType, wanted.elementType)
        case T.MapType(), T.MapType():
            check_fits(f"{name}'s keys", found.keyType, wanted.keyType)
            check_fits(f"{name}'s values", found.valueType, wanted.valueType)
        case _, T.DoubleType():
            fits |= isinstance(found, T.FloatType | T.ByteType | T.ShortType | T.IntegerType)
        case _ if isinstance(found, numbers) and isinstance(wanted, numbers):
            fits = numbers.index(type(found)) <= numbers.index(type(wanted))
    if not fits:
        given, taken = found.simpleString().upper(), wanted.simpleString().upper()
        raise TopologyError(f"{name} is {given}, its format takes {taken}: cast it, or give another format")
