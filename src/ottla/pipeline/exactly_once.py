"""Streams out of Spark into Kafka with every row exactly once: the sink `ottla-kafka` and what goes with it.

`write_exactly_once` makes the writer of a streaming query whose batches reach Kafka in transactions, each
of them holding the number of its batch (exactly_once_writer says how). A consumer with
`isolation.level=read_committed` sees every row once, whatever was killed in between.

What makes it right: a batch that is repeated after a crash must find its *units* again, a unit being what
one transaction writes. Spark's offset log gives the batch the same offsets again, but not the same tasks:
the Kafka source numbers its tasks in the order of a map that is filled from the brokers' answer the first
time and from the checkpoint's JSON the second, and with two to four partitions that is not the same order
(tried: topic `orders` with two partitions, tasks 0 and 1 swap their partitions on the replay). So a task's
number tells nothing, and a sink that went by it would lose one partition's rows and write the other's
twice. Hence two ways:

- `Identity.SOURCE`: rows carry the column `source`, and the unit is their source partition. For plans in
  which rows stay in the task that read them: select, where, withColumn, explode, Python functions,
  broadcast joins. Results may differ on the replay (a clock, random numbers): what was committed stands.
- `Identity.TASK`: the unit is the task's number. For plans that end in a shuffle by key into as many
  partitions as the checkpoint fixes: native aggregations, deduplication, stream-stream joins, state.

What would break it is refused, with one line: a stateless plan without `source`; rows of several source
partitions in one task (coalesce, repartition); two tasks of a batch with rows of one source partition (a
union of a topic with itself, minPartitions); another number of shuffle partitions in the replay; a
checkpoint that is older than the output, or another query's; asynchronous progress tracking, which repeats
several batches at once with other bounds.

What a unit has committed is kept by Kafka as long as `offsets.retention.minutes` says (a week): a query
that died in the middle of a batch must be started again within that time.

Nothing is left for Spark's driver to commit or to abort: a batch is in Kafka when its last task is, and a
batch that failed half-way is completed by its replay, which finds the finished units and writes the others.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from ottla.pipeline.exactly_once_clients import client_options
from ottla.pipeline.exactly_once_rows import flattened, restored
from ottla.pipeline.exactly_once_writer import (
    PASSING_CODES,
    REQUEST_TIMEOUT_SECONDS,
    Identity,
    LedgerEntry,
    SinkError,
    SinkSettings,
    TaskPlace,
    other_query,
    require_end_of_input,
    unit_group,
    write_task,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import DataType, StructType

__all__ = [
    "FORMAT",
    "Identity",
    "SinkError",
    "check_sink",
    "reset_sink",
    "source_column",
    "write_batch_exactly_once",
    "write_exactly_once",
]

FORMAT = "ottla-kafka"
CLIENT_OPTION_PREFIX = "kafka."
DEFAULT_TRANSACTION_TIMEOUT_MS = 300_000
COLUMNS = "value BINARY; optional key BINARY, topic STRING, headers ARRAY<STRUCT<key STRING, value BINARY>>,"
COLUMNS += " partition INT, timestamp TIMESTAMP, source STRUCT<topic STRING, partition INT>"

# Plans with one of these spread their rows by key over a number of partitions that the checkpoint fixes.
_SHUFFLED = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "TransformWithState",
        "TransformWithStateInPandas",
        "TransformWithStateInPySpark",
    }
)


def source_column() -> Column:
    """The column `source` of a frame that still has the Kafka source's columns `topic` and `partition`.

    Add it before the projection that leaves them out, and keep it through every step up to the sink.
    """
    from pyspark.sql import functions as f

    return f.struct(f.col("topic").alias("topic"), f.col("partition").alias("partition")).alias("source")


def write_exactly_once(
    frame: DataFrame,
    *,
    bootstrap: str,
    query_name: str,
    topic: str,
    output_mode: Literal["append", "update"] = "append",
    identity: Identity | None = None,
    transaction_timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS,
    client_options: Mapping[str, str] | None = None,
    source_topic: str | None = None,
    as_data_source: bool = False,
) -> DataStreamWriter:
    """A writer of a streaming frame into Kafka, exactly once; give it a checkpoint and start it.

    frame: has the columns of `COLUMNS`; a null value is a tombstone, a null topic is `topic`,
    a null partition is chosen by key as Java's producers do.
    query_name: also the name of the query, and of its units in Kafka (`<name>-sink-<unit>`); no other query
    on the cluster may use it.
    topic: where rows go that name no other; the units' marks are kept beside it, so it stays the same.
    output_mode: `update` for results that go on changing, as those of an aggregation without a watermark do.
    identity: by default `SOURCE` with a column `source`, else `TASK` where the plan allows it.
    transaction_timeout_ms: how long a batch may take, and how long consumers may have to wait for a query
    that was killed and not started again.
    client_options: librdkafka properties.
    source_topic: the topic that most rows are from: its name need not travel with each of them.
    as_data_source: as Spark's data source `ottla-kafka`; half a second a batch slower.
    Raises SinkError for a frame that cannot be written exactly once.
    """
    if output_mode not in ("append", "update"):
        raise SinkError(f"the exactly-once sink has no output mode {output_mode}: append or update")
    if not frame.isStreaming:
        raise SinkError("write_exactly_once takes a streaming frame; for a batch, write_batch_exactly_once")
    settings = _settings(
        frame, bootstrap, query_name, topic, identity, transaction_timeout_ms, client_options or {}
    )
    if as_data_source:
        if output_mode == "update":
            raise SinkError("Spark writes no data source in update mode: leave as_data_source out")
        _register(frame)
        writer = frame.writeStream.format(FORMAT).options(**_to_options(settings))
    else:
        # The tasks write, and nothing is left for a sink. So a batch is planned once and its workers stay:
        # foreachBatch would plan it a second time, a Python data source start three processes for it.
        write = functools.partial(_write_rows, settings, source_topic)
        rows = flattened(frame, topic, source_topic).mapInArrow(write, "written BIGINT")
        writer = _in_step(rows.writeStream.format("noop"))
    return writer.queryName(query_name).outputMode(output_mode)


def _in_step(writer: DataStreamWriter) -> DataStreamWriter:
    """The writer, refusing the option by which Spark would run batches ahead of their logs."""
    option, options = writer.option, writer.options

    def checked_option(key: str, value: Any) -> DataStreamWriter:
        _refuse_asynchronous_progress({key: value})
        return option(key, value)

    def checked_options(**given: Any) -> DataStreamWriter:
        _refuse_asynchronous_progress(given)
        return options(**given)

    writer.option = checked_option  # type: ignore[method-assign]
    writer.options = checked_options  # type: ignore[method-assign]
    return writer


def _refuse_asynchronous_progress(options: Mapping[str, Any]) -> None:
    for key, value in options.items():
        if key.lower() == "asyncprogresstrackingenabled" and str(value).lower() == "true":
            raise SinkError(
                "the exactly-once sink cannot be used with asynchronous progress tracking: after a crash it"
                " repeats several batches at once, as other batches than they were"
            )


def write_batch_exactly_once(
    frame: DataFrame,
    *,
    bootstrap: str,
    query_name: str,
    batch_id: int,
    query_id: str,
    identity: Identity,
    topic: str,
    transaction_timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS,
    client_options: Mapping[str, str] | None = None,
) -> None:
    """Write one batch inside `foreachBatch`, exactly once; the arguments are `write_exactly_once`'s.

    batch_id: what foreachBatch gives. query_id: the query's id, the same over restarts. One call a batch and
    query_name.
    """
    settings = _settings(
        frame, bootstrap, query_name, topic, identity, transaction_timeout_ms, client_options or {}
    )
    _register(frame)
    options = _to_options(settings) | {"batch_id": str(batch_id), "query_id": query_id}
    frame.write.format(FORMAT).mode("append").options(**options).save()


def check_sink(
    bootstrap: str,
    query_name: str,
    query_id: str | None,
    *,
    identity: Identity | None = None,
    client_options: Mapping[str, str] | None = None,
) -> None:
    """Raise SinkError if a query must not write under this name; call it before the query starts.

    query_id: from the checkpoint's `metadata`, None for a new checkpoint. A ledger in Kafka that another
    query wrote means that the checkpoint was lost or replaced. identity: given, a ledger of the other
    kind is refused: a batch that was half written under one would be written again under the other.
    """
    settings = _plain_settings(bootstrap, query_name, client_options)
    for entry in _ledgers(settings).values():
        if entry.query_id != query_id:
            raise SinkError(other_query(query_name, entry.query_id, query_id))
        if identity is not None and entry.identity is not identity:
            raise SinkError(
                f"the exactly-once sink {query_name} was written by {entry.identity.value} and is now to be"
                f" written by {identity.value}: let the former query finish its batch and stop, then"
                f" reset_sink({query_name!r})"
            )


def reset_sink(bootstrap: str, query_name: str, client_options: Mapping[str, str] | None = None) -> list[str]:
    """Forget what a query has written under this name; returns the groups that were deleted.

    The query must not be running. A batch that was half written is written in whole when it comes again.
    Raises SinkError if the cluster does not answer or a group cannot be deleted; call it again then.
    """
    settings = _plain_settings(bootstrap, query_name, client_options)
    groups = sorted(_ledgers(settings))
    if groups:
        with _asking(settings, "delete the groups of") as admin:
            for future in admin.delete_consumer_groups(
                groups, request_timeout=REQUEST_TIMEOUT_SECONDS
            ).values():
                future.result(REQUEST_TIMEOUT_SECONDS + 5)
    return groups


def _plain_settings(bootstrap: str, query_name: str, options: Mapping[str, str] | None) -> SinkSettings:
    return SinkSettings(bootstrap, query_name, Identity.TASK, "", client_options=options or {})


def _ledgers(settings: SinkSettings) -> dict[str, LedgerEntry]:
    """The ledgers of all of a query's units, by group; groups of other names with the same start are left."""
    with _asking(settings, "read the groups of") as admin:
        listed = admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_SECONDS)
        result = listed.result(REQUEST_TIMEOUT_SECONDS + 5)
        if result.errors:
            raise result.errors[0]
        prefix = unit_group(settings.query_name, "")
        names = sorted(group.group_id for group in result.valid if group.group_id.startswith(prefix))
        found: dict[str, LedgerEntry] = {}
        for name in names:
            # librdkafka's AdminClient crashes when a coordinator answers that it is starting or is none any
            # more, so it must have answered before; and with require_stable, but no query runs now.
            _await_coordinator(admin, name)
            offsets = admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(name)], request_timeout=REQUEST_TIMEOUT_SECONDS
            )[name].result(REQUEST_TIMEOUT_SECONDS + 5)
            for partition in offsets.topic_partitions:
                # `orders` and `orders-sink-daily` share a prefix: the ledger itself says whose it is.
                with contextlib.suppress(SinkError):
                    entry = LedgerEntry.parse(name, partition.offset, partition.metadata)
                    if entry.query_name == settings.query_name:
                        found[name] = entry
        return found


def _await_coordinator(admin: AdminClient, group: str) -> None:
    """Return when a group's coordinator answers for it. Raises KafkaException."""
    deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
    while True:
        try:
            admin.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_SECONDS)[group].result(
                REQUEST_TIMEOUT_SECONDS + 5
            )
            return
        except KafkaException as error:
            if error.args[0].code() not in PASSING_CODES or time.monotonic() >= deadline:
                raise
            time.sleep(0.05)


@contextlib.contextmanager
def _asking(settings: SinkSettings, what: str) -> Iterator[AdminClient]:
    try:
        yield AdminClient(client_options(settings))
    except KafkaException as error:
        raise SinkError(
            f"cannot {what} the exactly-once sink {settings.query_name} at {settings.bootstrap}:"
            f" {error.args[0].str()}"
        ) from error


def _settings(
    frame: DataFrame,
    bootstrap: str,
    query_name: str,
    topic: str,
    identity: Identity | None,
    transaction_timeout_ms: int,
    options: Mapping[str, str],
) -> SinkSettings:
    if identity is None:
        identity = _identity_of(frame)
    settings = SinkSettings(
        bootstrap, query_name, identity, topic, transaction_timeout_ms, client_options=dict(options)
    )
    check_columns(frame.schema, settings)
    return settings


def _identity_of(frame: DataFrame) -> Identity:
    if "source" in frame.columns:
        return Identity.SOURCE
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        raise SinkError(
            "the exactly-once sink cannot look into the plan of a Spark Connect frame: give it a column"
            " source (source_column()), or Identity.TASK for a plan that ends in a shuffle by key"
        )
    if not _is_shuffled(plan.queryExecution().analyzed()):
        raise SinkError(
            "the exactly-once sink needs the column source in a frame without aggregation or state, because"
            " Spark may number the tasks of a repeated batch differently: select source_column() along with"
            " value"
        )
    return Identity.TASK


def _is_shuffled(plan: Any) -> bool:
    """Whether a logical plan (a Java object) spreads its rows by key over a fixed number of partitions."""
    if not plan.isStreaming():
        return False
    if plan.nodeName() in _SHUFFLED:
        return True
    children = plan.children()
    inputs = [children.apply(index) for index in range(children.size())]
    if len(inputs) == 1:
        return _is_shuffled(inputs[0])
    if plan.nodeName() == "Join" and all(child.isStreaming() for child in inputs):
        return True
    # A table beside the stream may be broadcast: then the stream's own partitions are the tasks.
    streams = [child for child in inputs if child.isStreaming()]
    return bool(streams) and all(_is_shuffled(child) for child in streams)


def _write_rows(
    settings: SinkSettings, source_topic: str | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    run_task(settings, (restored(batch, source_topic) for batch in batches))
    return iter(())


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


def _to_options(settings: SinkSettings) -> dict[str, str]:
    options = {
        "bootstrap": settings.bootstrap,
        "query_name": settings.query_name,
        "identity": settings.identity.value,
        "topic": settings.topic,
        "transaction_timeout_ms": str(settings.transaction_timeout_ms),
    }
    # One option each and under their own names, so that Spark's redaction finds the passwords among them.
    return options | {CLIENT_OPTION_PREFIX + name: value for name, value in settings.client_options.items()}


def settings_from_options(options: Mapping[str, str]) -> SinkSettings:
    """What `_to_options` wrote, or a user of the plain data source. Raises SinkError."""
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
                name.removeprefix(CLIENT_OPTION_PREFIX): value
                for name, value in options.items()
                if name.startswith(CLIENT_OPTION_PREFIX)
            },
        )
    except KeyError as error:
        raise SinkError(f"the exactly-once sink needs the option {error.args[0]}") from None
    except ValueError as error:
        raise SinkError(f"the exactly-once sink has an option that is not understood: {error}") from None


def _register(frame: DataFrame) -> None:
    from ottla.pipeline.exactly_once_source import ExactlyOnceKafka

    frame.sparkSession.dataSource.register(ExactlyOnceKafka)


def run_task(settings: SinkSettings, batches: Iterator[pa.RecordBatch]) -> None:
    """Write the rows of the Spark task in which this is called."""
    write_task(settings, TaskPlace.here(settings), batches, require_end_of_input)
