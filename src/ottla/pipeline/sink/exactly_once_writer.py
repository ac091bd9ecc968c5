"""Write one Spark task's rows of a batch into Kafka exactly once: the part that runs in Python workers.

A task's rows are a *unit*: all rows of a batch that come from one source partition (`Identity.SOURCE`), or
all rows of the task with that number (`Identity.TASK`). A unit has a transactional id, and a ledger that says
the number of its next batch (see exactly_once_ledger for where that is). Writing a unit:

1. `init_transactions`. Once it is answered, every older producer of the unit is fenced and its transaction
   has ended, one way or the other. So the ledger does not change any more until this producer commits.
   A process that wrote the unit's last batch goes on with that batch's producer.
2. Read the ledger. Batch b is written already if the ledger says b + 1: read the rows to their end and leave.
3. Produce the rows, add b + 1 to the ledger inside the same transaction, commit.

A producer that commits has held the unit alone since its own step 1, so no batch of a unit gets in twice,
whatever attempts Spark starts at once and whatever dies when.

Before a commit the end of the rows must be proven. When the JVM dies, or a task fails upstream, Python's
side of the socket sees an end of file, and Arrow's reader takes that for the end of the stream: half of a
task would be committed as the whole. `_require_end_of_input` therefore looks for the marker that the JVM
sends after the last row.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from ottla.pipeline.sink.exactly_once_clients import (
    LEDGER_READERS,
    UNIT_PRODUCERS,
    UnitProducer,
    client_access,
)
from ottla.pipeline.sink.exactly_once_ledger import (
    LEDGER_TOPICS,
    NO_SUCH_TOPIC,
    POLL_SECONDS,
    REQUEST_TIMEOUT_SECONDS,
    LedgerEntry,
    ledger_topic,
    read_ledger,
    read_ledger_topic,
    unit_group,
)
from ottla.pipeline.sink.exactly_once_settings import Identity, SinkError, SinkSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka.admin._metadata import TopicMetadata

MAX_TOPICS_A_TASK = 10_000

_FENCED_CODES = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
# Errors of records that are consequences of another error, which is the one to report.
_CONSEQUENCES = _FENCED_CODES | {KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """A task's place: its batch, query and run, its number, and the number of shuffle partitions."""

    batch_id: int
    query_id: str
    run_id: str
    task: int
    shuffle_partitions: str

    @classmethod
    def here(cls, settings: SinkSettings) -> TaskPlace:
        """The place of the Spark task in which this is called. Raises SinkError."""
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise SinkError("the exactly-once sink writes inside Spark tasks only")
        batch = settings.batch_id
        if batch is None:
            streaming_batch = context.getLocalProperty("streaming.sql.batchId")
            if streaming_batch is None:
                raise SinkError(
                    "the exactly-once sink needs the number of the batch: use it in a streaming query, or"
                    " give batch_id in foreachBatch"
                )
            batch = int(streaming_batch)
        query_id = settings.query_id or context.getLocalProperty("sql.streaming.queryId")
        if not query_id:
            raise SinkError("the exactly-once sink does not know its query: give query_id")
        return cls(
            batch,
            query_id,
            context.getLocalProperty("spark.jobGroup.id") or "",
            context.partitionId(),
            context.getLocalProperty("spark.sql.shuffle.partitions") or "",
        )


@dataclass(frozen=True, slots=True)
class UnitResult:
    """The outcome of a task: its unit, its rows, and whether they were skipped as already written."""

    unit: str
    rows: int
    skipped: bool


def write_task(
    settings: SinkSettings,
    place: TaskPlace,
    batches: Iterator[pa.RecordBatch],
    require_end: Callable[[], None],
) -> UnitResult | None:
    """Write a task's rows unless they are written already; None for a task without rows, which does nothing.

    `require_end` raises if the stream of rows broke off before the last one.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return None
    unit = _unit(settings, place, first)
    where = f"query {settings.query_name}, batch {place.batch_id}, unit {unit}"
    writer = _UnitWriter(settings, place, unit, where)
    with _naming_failures(where, settings.bootstrap, writer):
        if writer.is_written(writer.open()):
            for batch in batches:
                writer.check_unit(batch)
            return UnitResult(unit, 0, skipped=True)
        rows = writer.produce(first)
        for batch in batches:
            if batch.num_rows:
                rows += writer.produce(batch)
        require_end()
        writer.commit()
        return UnitResult(unit, rows, skipped=False)


class _UnitWriter:
    """One transaction of one unit."""

    def __init__(self, settings: SinkSettings, place: TaskPlace, unit: str, where: str) -> None:
        self._settings = settings
        self._place = place
        self._unit = unit
        self._where = where
        self.group = unit_group(settings.query_name, unit)
        self._ledger_topic = ledger_topic(settings.query_name)
        self._access = client_access(settings)
        self._held = UNIT_PRODUCERS.take(settings, self.group)
        self._unit_producer = self._held or self._new_producer()
        self._began = 0.0

    @property
    def timeout_ms(self) -> int:
        return self._settings.transaction_timeout_ms

    @property
    def timeout_seconds(self) -> float:
        return self.timeout_ms / 1000

    @property
    def began(self) -> bool:
        """Whether the transaction was begun."""
        return self._began > 0

    @property
    def overdue(self) -> bool:
        """Whether the transaction has been open for longer than the broker lets it."""
        return self._began > 0 and time.monotonic() - self._began > self.timeout_seconds

    @property
    def _producer(self) -> Producer:
        return self._unit_producer.client

    def _new_producer(self) -> UnitProducer:
        return UnitProducer(self._settings, self.group, _CONSEQUENCES)

    @property
    def failure(self) -> str | None:
        """The error of a record, in one line; None if there is none."""
        error = self._unit_producer.failure
        return (
            None
            if error is None
            else f"{self._where}: topic {self._unit_producer.failed_topic}: {error.str()}"
        )

    def open(self) -> LedgerEntry | None:
        """Steps 1 and 2: the ledger's entry, which does not change until this producer commits."""
        if self._held is not None:
            entry = self._read_group()
            # No other producer has committed since. One may have fenced this producer: then nothing that it
            # does from here on is committed, and the task's next attempt makes a new one.
            if entry is not None and entry.next_batch == self._held.next_batch:
                return entry
            self._unit_producer = self._new_producer()
        topic = self._settings.topic
        # Asking for the topic connects to the cluster; asking again waits until the broker's connection has
        # taken the place of the bootstrap address's. Without that, init waits 500 ms for its first retry.
        self._require_topic(topic)
        self._require_ledger_topic()
        self._retried(self._producer.init_transactions, REQUEST_TIMEOUT_SECONDS)
        entry = self._read_group()
        if entry is None:
            # The group may have forgotten what the topic has not.
            entries = read_ledger_topic(self._access, self.group, self._ledger_topic, self.timeout_seconds)
            entry = entries.get(self.group)
        return entry

    def _read_group(self) -> LedgerEntry | None:
        return read_ledger(self._access, self.group, self._settings.topic)

    def _require_ledger_topic(self) -> None:
        found = self._described(self._ledger_topic)
        if found.error is not None and found.error.code() not in NO_SUCH_TOPIC:
            raise KafkaException(found.error)
        LEDGER_TOPICS.require(
            self._access,
            self._ledger_topic,
            # As many as the rows have: without their ledger, they can't be told from repeated rows.
            replicas=lambda: len(self._described(self._settings.topic).partitions[0].replicas),
            exists=found.error is None,
        )

    def _described(self, topic: str) -> TopicMetadata:
        found: TopicMetadata = self._producer.list_topics(topic, timeout=REQUEST_TIMEOUT_SECONDS).topics[
            topic
        ]
        return found

    def is_written(self, entry: LedgerEntry | None) -> bool:
        """Whether the batch is in Kafka. Raises SinkError for another query's ledger, or one ahead of it."""
        place = self._place
        if entry is None or entry.next_batch < place.batch_id + 1:
            _require_same_query(entry, place, self._settings)
            return False
        _require_same_query(entry, place, self._settings)
        if entry.next_batch > place.batch_id + 1:
            raise SinkError(
                f"{self._where}: batch {entry.next_batch - 1} is written already, so this checkpoint is older"
                f" than the output: go on with the newest checkpoint, or give up the batches in between with"
                f" reset_sink({self._settings.query_name!r})"
            )
        if entry.run_id and entry.run_id == place.run_id and entry.task != place.task:
            raise SinkError(
                f"{self._where}: tasks {entry.task} and {place.task} of one batch have rows of the same"
                " source partition (a topic read twice, or minPartitions): name them differently in `source`"
            )
        if (
            entry.identity is Identity.TASK
            and entry.shuffle_partitions
            and entry.shuffle_partitions != place.shuffle_partitions
        ):
            raise SinkError(
                f"{self._where}: the batch was written with {entry.shuffle_partitions} shuffle partitions and"
                f" comes again with {place.shuffle_partitions}: set spark.sql.shuffle.partitions back"
            )
        return True

    def check_unit(self, batch: pa.RecordBatch) -> None:
        """Raise SinkError if the task has rows of another source partition."""
        if self._settings.identity is Identity.SOURCE and batch.num_rows:
            source = batch.column("source")
            for name in ("topic", "partition"):
                _require_constant(source.field(name), self._where)

    def produce(self, batch: pa.RecordBatch) -> int:
        """The first part of step 3: produce the rows of an Arrow batch. Returns their number."""
        if not self._began:
            self._producer.begin_transaction()
            self._began = time.monotonic()
        self._check_source(batch)
        rows = _Rows.of(batch, self._settings.topic)
        for topic in rows.topics:
            self._require_topic(topic)
        rows.produce(self._producer, self._queue_full)
        self._producer.poll(0)
        if self.failure is not None:
            raise SinkError(self.failure)
        return int(batch.num_rows)

    def commit(self) -> None:
        """The end of step 3: commit all rows and the ledger's entry, or nothing."""
        settings, place = self._settings, self._place
        entry = LedgerEntry(
            place.batch_id + 1,
            settings.query_name,
            place.query_id,
            place.run_id,
            settings.identity,
            place.task,
            place.shuffle_partitions,
        )
        # The record is the last one of the transaction: until it ends, others cannot read behind it.
        while True:
            try:
                self._producer.produce(self._ledger_topic, entry.record(), self.group, 0)
                break
            except BufferError:
                self._queue_full()
        offset = TopicPartition(settings.topic, 0, entry.next_batch, entry.metadata())
        group = LEDGER_READERS.consumer(self._access, self.group).consumer_group_metadata()
        remaining = max(1.0, self.timeout_seconds - (time.monotonic() - self._began))
        self._retried(
            lambda timeout: self._producer.send_offsets_to_transaction([offset], group, timeout),
            remaining,
        )
        self._retried(self._producer.commit_transaction, remaining)
        self._unit_producer.next_batch = entry.next_batch
        UNIT_PRODUCERS.put(settings, self.group, self._unit_producer)

    def abort(self) -> None:
        """End the transaction now rather than at its timeout; the next attempt's step 1 would end it too."""
        if self._began:
            with contextlib.suppress(KafkaException):
                self._producer.purge()
                self._producer.abort_transaction(POLL_SECONDS * 20)

    def _check_source(self, batch: pa.RecordBatch) -> None:
        self.check_unit(batch)
        if _unit(self._settings, self._place, batch) != self._unit:
            raise SinkError(_mixed_sources(self._where))

    def _require_topic(self, topic: str) -> None:
        topics = self._unit_producer.topics
        if topic in topics:
            return
        if len(topics) >= MAX_TOPICS_A_TASK:
            raise SinkError(f"{self._where}: the rows name more than {MAX_TOPICS_A_TASK} topics")
        found = self._described(topic)
        if found.error is not None:
            if found.error.code() in NO_SUCH_TOPIC:
                raise SinkError(
                    f"{self._where}: topic {topic} does not exist on {self._settings.bootstrap}: create it"
                )
            raise KafkaException(found.error)
        topics.add(topic)

    def _queue_full(self) -> None:
        """Called when the client's queue is full: wait for deliveries, which librdkafka bounds in time."""
        self._producer.poll(POLL_SECONDS)
        if self.failure is not None:
            raise SinkError(self.failure)

    def cause_of(self, error: KafkaError) -> KafkaError:
        """The error that made a producer unusable, if `error` only says that it is unusable; else `error`."""
        try:
            self._producer.poll(POLL_SECONDS)
        except KafkaException as fatal:
            if error.code() == KafkaError._FATAL:
                return fatal.args[0]  # type: ignore[no-any-return]
        return error

    @staticmethod
    def _retried(call: Callable[[float], object], timeout_seconds: float) -> None:
        """Call until it succeeds or fails for good; after an error that librdkafka calls retriable, again."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                call(max(0.1, min(REQUEST_TIMEOUT_SECONDS, deadline - time.monotonic())))
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() >= deadline:
                    raise


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of an Arrow batch as Python columns, ready to be produced."""

    topic: str
    topic_column: Sequence[str] | None
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    headers: Sequence[list[tuple[str, bytes | None]] | None] | None
    partitions: Sequence[int | None] | None
    timestamps: Sequence[int | None] | None

    @classmethod
    def of(cls, batch: pa.RecordBatch, topic: str) -> _Rows:
        names = batch.schema.names
        columns: dict[str, Sequence[Any]] = {}
        for name in ("key", "topic", "headers", "partition", "timestamp"):
            if name in names and batch.column(name).null_count < batch.num_rows:
                columns[name] = _python_column(batch.column(name), name)
        topics = columns.get("topic")
        if topics is not None:
            topics = [topic if name is None else name for name in topics]
            if len(set(topics)) == 1:  # the common case needs no column
                topic, topics = topics[0], None
        return cls(
            topic,
            topics,
            _python_column(batch.column("value"), "value"),
            columns.get("key"),
            columns.get("headers"),
            columns.get("partition"),
            columns.get("timestamp"),
        )

    @property
    def topics(self) -> set[str]:
        return set(self.topic_column) if self.topic_column is not None else {self.topic}

    def produce(self, producer: Producer, queue_full: Callable[[], None]) -> None:
        """Hand every row to the client. The first loop is the second without the columns that are empty."""
        produce = producer.produce
        count = len(self.values)
        plain = (self.headers, self.partitions, self.timestamps, self.topic_column) == (None,) * 4
        if plain:
            topic = self.topic
            for value, key in zip(self.values, self.keys or (None,) * count, strict=True):
                while True:
                    try:
                        produce(topic, value, key)
                        break
                    except BufferError:
                        queue_full()
            return
        rows = zip(
            self.topic_column or (self.topic,) * count,
            self.values,
            self.keys or (None,) * count,
            self.headers or (None,) * count,
            self.partitions or (None,) * count,
            self.timestamps or (None,) * count,
            strict=True,
        )
        for topic, value, key, headers, partition, timestamp in rows:
            while True:
                try:
                    # By position: keywords cost 1 us a record.
                    produce(
                        topic,
                        value,
                        key,
                        -1 if partition is None else partition,
                        None,  # callback
                        None,  # on_delivery: the producer's
                        timestamp or 0,
                        headers or None,
                    )
                    break
                except BufferError:
                    queue_full()


def _python_column(column: pa.Array, name: str) -> Sequence[Any]:
    import pyarrow as pa

    match name:
        case "timestamp":
            return list(_milliseconds(column).to_pylist())
        case "headers":
            rows = column.to_pylist()
            return [
                None if row is None else [(header["key"], header["value"]) for header in row] for row in rows
            ]
        case "key" | "value" if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return list(column.cast(pa.binary()).to_pylist())
        case _:
            return list(column.to_pylist())


def _milliseconds(column: pa.Array) -> pa.Array:
    """Milliseconds since the epoch, from Spark's microseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.floor(pc.divide(column.cast(pa.int64()).cast(pa.float64()), 1000.0)).cast(pa.int64())


def _unit(settings: SinkSettings, place: TaskPlace, batch: pa.RecordBatch) -> str:
    if settings.identity is Identity.TASK:
        return str(place.task)
    source = batch.column("source")[0].as_py()
    if source is None or source["topic"] is None or source["partition"] is None:
        raise SinkError(
            f"query {settings.query_name}, batch {place.batch_id}: a row has no source topic and partition"
        )
    return f"{source['topic']}-{source['partition']}"


def _require_constant(column: pa.Array, where: str) -> None:
    import pyarrow.compute as pc

    bounds = pc.min_max(column).as_py()
    if column.null_count or bounds["min"] != bounds["max"]:
        raise SinkError(_mixed_sources(where))


def _mixed_sources(where: str) -> str:
    return (
        f"{where}: one task has rows of several source partitions: leave out coalesce and repartition, or"
        " repartition by key into a fixed number and write with Identity.TASK"
    )


def _require_same_query(entry: LedgerEntry | None, place: TaskPlace, settings: SinkSettings) -> None:
    if entry is not None and entry.query_id != place.query_id:
        raise SinkError(other_query(settings.query_name, entry.query_id, place.query_id))


def other_query(query_name: str, written_by: str, query_id: str | None) -> str:
    """The error line for a sink whose ledger names the query of another checkpoint."""
    now = f"query {query_id}" if query_id else "a new checkpoint"
    return (
        f"the exactly-once sink {query_name} was written by query {written_by} and now {now} comes under its"
        f" name: bring the lost checkpoint back, give the query another name, or forget the former one with"
        f" reset_sink({query_name!r})"
    )


@contextlib.contextmanager
def _naming_failures(where: str, bootstrap: str, writer: _UnitWriter) -> Iterator[None]:
    """Abort the transaction if the block fails, and raise SinkError with the cause in one line."""
    try:
        yield
    except KafkaException as error:
        reason = _reason(writer.cause_of(error.args[0]), writer)
        message = writer.failure or f"{where}: {reason} ({bootstrap})"
        writer.abort()
        raise SinkError(message) from error
    except BaseException:
        writer.abort()
        raise


def _reason(error: KafkaError, writer: _UnitWriter) -> str:
    if error.code() in _FENCED_CODES:
        if writer.overdue:
            return (
                f"the transaction was open for longer than {writer.timeout_seconds:.0f} s and the broker"
                " ended it: read less a batch (maxOffsetsPerTrigger) or raise transaction_timeout_ms"
            )
        return "another attempt of the task has taken over"
    if error.code() in (KafkaError.INVALID_TRANSACTION_TIMEOUT, KafkaError._TIMED_OUT) and not writer.began:
        # If the broker refuses the transaction timeout, librdkafka only reports that the request timed out.
        return (
            f"no answer to the start of transactions; is transaction_timeout_ms={writer.timeout_ms} more"
            " than the broker's transaction.max.timeout.ms, or a broker away?"
        )
    return error.str()


def require_end_of_input() -> None:
    """Raise SinkError unless the JVM has marked the rows of the running task as complete."""
    stream = _worker_input()
    if stream is None:
        raise SinkError(
            "the exactly-once sink does not know this PySpark's worker: no end of rows can be proven"
        )
    # A negative number follows the last row (pyspark.serializers.SpecialLengths), unless the JVM was lost.
    if not stream.peek(1)[:1] >= b"\x80":
        raise SinkError("the rows of the task broke off: Spark ended it, or lost it, before its last row")


def _worker_input() -> Any:
    """The stream from which `pyspark.worker.main`, somewhere up the stack, reads its task."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "main" and os.path.basename(frame.f_code.co_filename) == "worker.py":
            stream = frame.f_locals.get("infile")
            return stream if hasattr(stream, "peek") else None
        frame = frame.f_back
    return None


def write_here(settings: SinkSettings, batches: Iterator[pa.RecordBatch]) -> None:
    """Write the rows of the Spark task in which this is called."""
    write_task(settings, TaskPlace.here(settings), batches, require_end_of_input)
