"""Streams from Spark into Kafka with every row exactly once: the sink `ottla-kafka`.

`write_exactly_once` makes the writer of a streaming query whose batches reach Kafka in transactions, each
of them holding the number of its batch (exactly_once_writer says how). A consumer with
`isolation.level=read_committed` sees every row once, whatever was killed in between.

What makes it right: a batch that is repeated after a crash must find its *units* again, a unit being what
one transaction writes. Spark's offset log gives the batch the same offsets again, but not the same tasks:
the Kafka source numbers its tasks in the order of a map that is filled from the brokers' answer the first
time and from the checkpoint's JSON the second, and with two to four partitions that is not the same order
(tried: topic `orders` with two partitions, tasks 0 and 1 swap their partitions on the replay). So a task's
number identifies nothing, and a sink that relied on it would lose one partition's rows and write the other's
twice. Hence there are two ways:

- `Identity.SOURCE`: rows carry the column `source`, and the unit is their source partition. For plans in
  which rows stay in the task that read them: select, where, withColumn, explode, Python functions,
  broadcast joins. Results may differ on the replay (a clock, random numbers): the committed rows stand.
- `Identity.TASK`: the unit is the task's number. For plans that end in a shuffle by key into as many
  partitions as the checkpoint fixes: native aggregations, deduplication, stream-stream joins, state.

A plan that would break this is refused with one line: a stateless plan without `source`; rows of several
source partitions in one task (coalesce, repartition); two tasks of a batch with rows of one source partition
(a union of a topic with itself, minPartitions); another number of shuffle partitions in the replay; a
checkpoint that is older than the output, or another query's; asynchronous progress tracking, which repeats
several batches at once with other bounds.

The last committed batch of each unit is kept for good in the compacted topic `<query>-sink-ledger`, which the
first task creates: a query that died in the middle of a batch may be started again after any time.

Spark's driver has nothing to commit or to abort: a batch is in Kafka when its last task is, and a batch that
failed half-way is completed by its replay, which finds the finished units and writes the others.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from confluent_kafka import KafkaException

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError
from ottla.pipeline.sink.exactly_once_clients import client_access
from ottla.pipeline.sink.exactly_once_jvm import JVM_FORMAT, jvm_options
from ottla.pipeline.sink.exactly_once_ledger import (
    LedgerEntry,
    create_ledger_topic,
    is_forgotten,
    ledger_topic,
    read_ledger_topic,
    unit_group,
)
from ottla.pipeline.sink.exactly_once_rows import flattened, restored
from ottla.pipeline.sink.exactly_once_settings import (
    DEFAULT_TRANSACTION_TIMEOUT_MS,
    FORMAT,
    Identity,
    SinkError,
    SinkSettings,
    check_columns,
    options_of,
)
from ottla.pipeline.sink.exactly_once_writer import other_query, write_here

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

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

# Plans with one of these nodes spread rows by key over a number of partitions that the checkpoint fixes.
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
    topic: for rows that name no other topic. The units' offsets are committed for this topic, so it must stay
    the same.
    output_mode: `update` for results that keep changing, such as those of an aggregation without a watermark.
    identity: by default `SOURCE` with a column `source`, else `TASK` where the plan allows it.
    transaction_timeout_ms: the longest time for a batch, and for which consumers may have to wait for a query
    that was killed and not started again.
    client_options: librdkafka properties.
    source_topic: the topic that most rows are from, whose name then need not travel with each of them.
    as_data_source: write through Spark's data source `ottla-kafka`; half a second a batch slower.
    Raises SinkError for a frame that can't be written exactly once.
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
        writer = frame.writeStream.format(FORMAT).options(**options_of(settings))
    elif (told := jvm_options(frame.sparkSession, settings)) is not None:
        writer = _in_step(frame.writeStream.format(JVM_FORMAT).options(**told))
    else:
        # The tasks write, and Spark's own sink discards. So a batch is planned once and its workers stay:
        # foreachBatch would plan it a second time, a Python data source start three processes for it.
        write = functools.partial(_write_rows, settings, source_topic)
        rows = flattened(frame, topic, source_topic).mapInArrow(write, "written BIGINT")
        writer = _in_step(rows.writeStream.format("noop"))
    return writer.queryName(query_name).outputMode(output_mode)


def _in_step(writer: DataStreamWriter) -> DataStreamWriter:
    """The writer, made to refuse the option by which Spark would run batches ahead of their logs."""
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

    batch_id: the number that foreachBatch gives. query_id: the query's id, which restarts do not change. Call
    it once for each batch and query_name.
    """
    settings = _settings(
        frame, bootstrap, query_name, topic, identity, transaction_timeout_ms, client_options or {}
    )
    _register(frame)
    options = options_of(settings) | {"batch_id": str(batch_id), "query_id": query_id}
    frame.write.format(FORMAT).mode("append").options(**options).save()


def check_sink(
    bootstrap: str,
    query_name: str,
    query_id: str | None,
    *,
    identity: Identity | None = None,
    client_options: Mapping[str, str] | None = None,
    begun_ms: int | None = None,
) -> None:
    """Raise SinkError if a query must not write under this name; call it before the query starts.

    query_id: from the checkpoint's `metadata`, None for a new checkpoint. A ledger in Kafka that another
    query wrote means that the checkpoint was lost or replaced. identity: if given, a ledger of the other
    kind is refused: a batch that was half written under one would be written again under the other.
    begun_ms: when the checkpoint's unfinished batch was planned, if there is one. Without a ledger topic, as
    after a former version of this sink, its outcome is unknown once Kafka has forgotten the units' groups.
    """
    with _naming_cluster(bootstrap, query_name, "read the ledger of"):
        cluster = KafkaCluster(bootstrap, client_options)
        entries = _entries(cluster, query_name, client_options)
        lost = begun_ms is not None and not entries and cluster.topic_id(ledger_topic(query_name)) is None
        retention_ms = cluster.offsets_retention_ms() if lost else None
    for entry in entries.values():
        if entry.query_id != query_id:
            raise SinkError(other_query(query_name, entry.query_id, query_id))
        if identity is not None and entry.identity is not identity:
            raise SinkError(
                f"the exactly-once sink {query_name} was written by {entry.identity.value} and is now to be"
                f" written by {identity.value}: let the former query finish its batch and stop, then"
                f" reset_sink({query_name!r})"
            )
    if lost and begun_ms is not None and is_forgotten(begun_ms, int(time.time() * 1000), retention_ms):
        raise SinkError(
            f"the exactly-once sink {query_name} has a batch from {_utc(begun_ms)} that is not finished, and"
            " it is unknown which of its rows are written: Kafka has forgotten its groups"
            f" (offsets.retention.minutes), and there is no topic {ledger_topic(query_name)}. Look into the"
            f" output; reset_sink({query_name!r}) makes the query write the whole batch again"
        )


def reset_sink(bootstrap: str, query_name: str, client_options: Mapping[str, str] | None = None) -> list[str]:
    """Forget which batches a query has written under this name; returns the deleted groups.

    The query must not be running. A batch that was half written is written as a whole when it is repeated.
    Raises SinkError if the cluster does not answer or a group can't be deleted; call it again then.
    """
    groups, _ = _forget(bootstrap, query_name, client_options)
    with _naming_cluster(bootstrap, query_name, "begin the ledger of"):
        # An empty ledger, so that its absence is not taken for a loss.
        create_ledger_topic(_access(bootstrap, query_name, client_options), ledger_topic(query_name))
    return groups


def remove_sink(
    bootstrap: str, query_name: str, client_options: Mapping[str, str] | None = None
) -> list[str]:
    """Remove a query's ledger altogether, its topic included; returns a line for each thing removed."""
    groups, had_topic = _forget(bootstrap, query_name, client_options)
    return [f"group {group}" for group in groups] + [f"topic {ledger_topic(query_name)}"] * had_topic


def _forget(
    bootstrap: str, query_name: str, client_options: Mapping[str, str] | None
) -> tuple[list[str], bool]:
    """Delete a query's ledger; returns its groups, and whether there was a topic."""
    with _naming_cluster(bootstrap, query_name, "remove the ledger of"):
        cluster = KafkaCluster(bootstrap, client_options)
        groups = sorted(_entries(cluster, query_name, client_options))
        for group in groups:
            cluster.delete_group(group)
        # The topic last: if this breaks off, the next call still finds the remaining groups.
        return groups, cluster.remove_topic(ledger_topic(query_name))


def _entries(
    cluster: KafkaCluster, query_name: str, options: Mapping[str, str] | None
) -> dict[str, LedgerEntry]:
    """The ledgers of all of a query's units, by group; not those of other queries with the same prefix."""
    topic = ledger_topic(query_name)
    found: dict[str, LedgerEntry] = {}
    if cluster.topic_id(topic) is not None:
        access = _access(cluster.bootstrap, query_name, options)
        found = read_ledger_topic(access, unit_group(query_name, ""), topic)
    # Groups of a former version have no record in the topic, if they are not forgotten.
    groups = [group for group in cluster.groups(unit_group(query_name, "")) if group not in found]
    topics = cluster.topic_names() if groups else []
    for group in groups:
        for committed in cluster.commits_of(group, [(topic, 0) for topic in topics]).values():
            # `orders` and `orders-sink-daily` share a prefix: the ledger itself says whose it is.
            with contextlib.suppress(SinkError):
                found[group] = LedgerEntry.parse(group, committed.offset, committed.metadata)
    return {group: entry for group, entry in found.items() if entry.query_name == query_name}


def _access(bootstrap: str, query_name: str, options: Mapping[str, str] | None) -> ClusterAccess:
    return client_access(SinkSettings(bootstrap, query_name, Identity.TASK, "", client_options=options or {}))


@contextlib.contextmanager
def _naming_cluster(bootstrap: str, query_name: str, action: str) -> Iterator[None]:
    try:
        yield
    except (ClusterError, KafkaException) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else error
        raise SinkError(
            f"cannot {action} the exactly-once sink {query_name} at {bootstrap}: {reason}"
        ) from error


def _utc(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


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
    # A table joined with the stream may be broadcast: then the tasks are the stream's own partitions.
    streams = [child for child in inputs if child.isStreaming()]
    return bool(streams) and all(_is_shuffled(child) for child in streams)


def _write_rows(
    settings: SinkSettings, source_topic: str | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    write_here(settings, (restored(batch, source_topic) for batch in batches))
    return iter(())


def _register(frame: DataFrame) -> None:
    from ottla.pipeline.sink.exactly_once_source import ExactlyOnceKafka

    frame.sparkSession.dataSource.register(ExactlyOnceKafka)
