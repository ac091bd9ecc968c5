"""The settings, options and columns of the exactly-once sink, as every task of a query gets them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.config.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

FORMAT = "ottla-kafka"
CLASSES_PROPERTY = "spark.ottla.classes"
"""A property of sessions whose JVM has ottla's own classes: the name of their jar (spark/jvm_classes.py)."""
CLIENT_OPTION_PREFIX = "kafka."
SECRET_CLIENT_OPTION_PREFIX = "secret.kafka."
"""Spark hides the values of such options in a plan, which is in the text of a query's failure. By their own
names it would tell private keys."""
DEFAULT_TRANSACTION_TIMEOUT_MS = 300_000
COLUMNS = "value BINARY; optional key BINARY, topic STRING, headers ARRAY<STRUCT<key STRING, value BINARY>>,"
COLUMNS += " partition INT, timestamp TIMESTAMP, source STRUCT<topic STRING, partition INT>"


class SinkError(UserError):
    """The exactly-once sink can't go on; the message says what failed, for which batch, and what to do."""


class Identity(enum.Enum):
    """What a unit is, by which the sink recognizes rows of a batch that are written already."""

    SOURCE = "source"
    """The source partition, from the column `source`: for plans in which rows stay where they were read."""

    TASK = "task"
    """The task's number: for plans that end in a shuffle by key into a fixed number of partitions."""


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The sink's settings for every task of a query.

    topic: for rows that name no other topic; the units' groups have their offsets for its partition 0.
    client_options: librdkafka properties; they override the sink's own.
    """

    bootstrap: str
    query_name: str
    identity: Identity
    topic: str
    transaction_timeout_ms: int = 300_000
    batch_id: int | None = None
    query_id: str | None = None
    client_options: Mapping[str, str] = field(default_factory=dict)


def check_columns(schema: StructType, settings: SinkSettings) -> None:
    """Raise SinkError unless a frame's columns are the sink's."""
    from pyspark.sql import types as t

    if not (settings.bootstrap and settings.query_name and settings.topic):
        raise SinkError("the exactly-once sink needs bootstrap, query_name and topic")
    if settings.transaction_timeout_ms < 1000:
        raise SinkError("transaction_timeout_ms must be at least 1000")
    blob = (t.BinaryType, t.StringType)
    header = t.ArrayType(
        t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
    )
    wanted: dict[str, tuple[type[DataType], ...]] = {
        "value": blob,
        "key": blob,
        "topic": (t.StringType,),
        "partition": (t.IntegerType,),
        "timestamp": (t.TimestampType,),
    }
    types = {column.name: column.dataType for column in schema.fields}
    for name, data_type in types.items():
        if name == "headers":
            right = data_type.simpleString() == header.simpleString()
        elif name == "source":
            right = isinstance(data_type, t.StructType) and [
                (column.name, type(column.dataType)) for column in data_type.fields
            ] == [("topic", t.StringType), ("partition", t.IntegerType)]
        elif name in wanted:
            right = isinstance(data_type, wanted[name])
        else:
            raise SinkError(f"the exactly-once sink knows no column {name}; it takes {COLUMNS}")
        if not right:
            raise SinkError(
                f"column {name} is {data_type.simpleString().upper()}; the exactly-once sink takes {COLUMNS}"
            )
    if len(types) != len(schema.fields):
        raise SinkError("the exactly-once sink needs columns of different names")
    if "value" not in types:
        raise SinkError(f"the exactly-once sink needs a column value; it takes {COLUMNS}")
    if settings.identity is Identity.SOURCE and "source" not in types:
        raise SinkError("the exactly-once sink by source needs the column source: select source_column()")


def options_of(settings: SinkSettings) -> dict[str, str]:
    options = {
        "bootstrap": settings.bootstrap,
        "query_name": settings.query_name,
        "identity": settings.identity.value,
        "topic": settings.topic,
        "transaction_timeout_ms": str(settings.transaction_timeout_ms),
    }
    return options | {
        SECRET_CLIENT_OPTION_PREFIX + name: value for name, value in settings.client_options.items()
    }


def settings_from_options(options: Mapping[str, str]) -> SinkSettings:
    """The settings in options of `options_of`, or of a user of the plain data source. Raises SinkError."""
    try:
        return SinkSettings(
            options["bootstrap"],
            options["query_name"],
            Identity(options.get("identity", Identity.SOURCE.value)),
            options["topic"],
            int(options.get("transaction_timeout_ms", DEFAULT_TRANSACTION_TIMEOUT_MS)),
            int(options["batch_id"]) if "batch_id" in options else None,
            options.get("query_id"),
            {
                name.removeprefix(prefix): value
                for prefix in (CLIENT_OPTION_PREFIX, SECRET_CLIENT_OPTION_PREFIX)
                for name, value in options.items()
                if name.startswith(prefix)
            },
        )
    except KeyError as error:
        raise SinkError(f"the exactly-once sink needs the option {error.args[0]}") from None
    except ValueError as error:
        raise SinkError(f"the exactly-once sink has an option that is not understood: {error}") from None
