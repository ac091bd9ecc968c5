"""Poison records: those that can't be decoded, or that a Python function raised on.

Where the application has a dead-letter topic, a frame carries two more columns from its source on: `_origin`,
the record as it was read, and `_error`, null as long as all is well. A record that can't be decoded, or that
a Python function raised on, gets an `_error`; every later step passes such a row by; the sink writes its
`_origin` to the dead-letter topic in place of a result. So one query, with one scan of its sources and
one transaction, writes both. In front of a stateful node the poison records are taken out; a query of their
own writes them. Without a dead-letter topic the first poison record fails the query.

**Where a row is from.** The exactly-once sink asks of rows without state which partition they were read from
(`source`). A merge of two ways from one topic reads it twice, so it marks the ways in the column `_path`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.pipeline.query.query_progress import OBSERVATION_PREFIX
from ottla.pipeline.sink.dead_letters import DECODE_ERROR, ERROR_TYPE, dead_letter_columns
from ottla.streams.plan.records import RECORD_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ORIGIN = "_origin"
ERROR = "_error"
PATH = "_path"
COUNT = "dead_letters"
SINK_COLUMNS = ("topic", "key", "value", "timestamp", "headers", "partition")


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """A query's dead-letter topic, and the nodes whose poison records it reports."""

    topic: str
    nodes: tuple[str, ...]


def dead_letters_of(frame: DataFrame, dead_letters: DeadLetters, number_of_frame: int) -> DataFrame:
    """The poison records of one of a query's frames, as the exactly-once sink writes them; counted."""
    from pyspark.sql import functions as F

    dead = dead_letter_columns(ORIGIN, ERROR, dead_letters.topic)
    poison = frame.where(reported(dead_letters))
    number = F.count(F.lit(1)).alias(COUNT)
    poison = poison.observe(f"{OBSERVATION_PREFIX}dead_letters_{number_of_frame}", number)
    return poison.select(*(dead[name].alias(name) for name in SINK_COLUMNS), source_of(frame).alias("source"))


def reported(dead_letters: DeadLetters) -> Column:
    """Whether a row is a poison record that this query reports."""
    from pyspark.sql import functions as F

    if not dead_letters.nodes:
        return F.lit(False)
    nodes = ", ".join(f"'{name}'" for name in dead_letters.nodes)  # letters, digits and . _ - alone
    return F.expr(f"coalesce({ERROR}.node IN ({nodes}), false)")


def source_of(frame: DataFrame) -> Column:
    """The place that a row was read from, for the exactly-once sink."""
    from pyspark.sql import functions as F

    topic = F.concat("topic", F.col(PATH)) if PATH in frame.columns else F.col("topic")
    return F.struct(topic.alias("topic"), F.col("partition").alias("partition"))


def with_no_errors(frame: DataFrame) -> DataFrame:
    """A frame behind a stateful node with ORIGIN and ERROR anew; its origin is itself, as JSON."""
    from pyspark.sql import functions as F

    def as_bytes(name: str) -> Column:
        return F.to_json(F.struct(name)).cast("BINARY").alias(name)

    plain = [F.col(name) for name in RECORD_COLUMNS if name not in ("key", "value")]
    origin = F.struct(as_bytes("key"), as_bytes("value"), *plain)
    return frame.withColumns({ORIGIN: origin, ERROR: F.lit(None).cast(ERROR_TYPE)})


def decode_error(node: str, stage: str, message: Column) -> Column:
    """The value of ERROR for bytes that a node's format refused."""
    from pyspark.sql import functions as F

    return F.struct(
        F.lit(node).alias("node"),
        F.lit(stage).alias("stage"),
        F.lit(DECODE_ERROR).alias("exception"),
        message.alias("message"),
        F.lit(None).cast("STRING").alias("trace"),
    )


def or_poison(frame: DataFrame, condition: Column) -> Column:
    """`condition`, or the row is a poison record, which goes on to the sink."""
    from pyspark.sql import functions as F

    return condition | F.col(ERROR).isNotNull() if ERROR in frame.columns else condition
