"""A topology's queries over topics in memory: records in, batches on demand, records out, no broker.

Each query of the plan reads one of Spark's memory streams, whatever sources it has: a record lies in it once
for each source that reads its topic, with the source's number, and each source takes its own. So the records
that were put in between two runs are one batch, whole. A query writes to Spark's memory sink, and from there
into the topics, where the queries that read them find the records. Queries are kept running between batches:
their state is in Spark's state stores.

Memory streams are none of PySpark's public classes; they are reached through its gateway, so this needs a
session with a JVM of its own, not Spark Connect.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.config.errors import UserError
from ottla.pipeline.query.failures import failure_of
from ottla.streams.compile.compiler import Compiled, compile_query
from ottla.streams.compile.inputs import QueryInputs
from ottla.streams.compile.poison import SINK_COLUMNS
from ottla.streams.kit.kit_host import EVENTS, InProcessHost
from ottla.streams.plan.node import Node
from ottla.streams.plan.planner import Plan, PlannedQuery, reads_of

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.streams.compile.inputs import Types

MAX_ROUNDS = 1_000
"""A run's output may make another batch so often: a topology that needs more feeds itself."""
RAW_SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
_FEED = "_feed"
_HEARTBEAT = -1
_SENT = -2
_numbers = itertools.count(1)


class KitError(UserError):
    """A test asked for something that can't be, or a query of the topology failed; the message says which."""


class RawRecord(NamedTuple):
    """A record as it lies in a topic."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp_us: int
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(slots=True)
class MemoryTopics:
    """Every topic's records, in the order of their offsets (and of partitions by their arrival)."""

    records: dict[str, list[RawRecord]] = field(default_factory=dict)
    _ends: dict[tuple[str, int], int] = field(default_factory=dict)

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_us: int,
        headers: Iterable[tuple[str, bytes | None]],
        partition: int = 0,
    ) -> None:
        offset = self._ends.get((topic, partition), 0)
        self._ends[topic, partition] = offset + 1
        record = RawRecord(key, value, topic, partition, offset, timestamp_us, tuple(headers))
        self.records.setdefault(topic, []).append(record)


@dataclass(slots=True)
class _Feed:
    """One source of one query: which topics it reads, and how far it has."""

    source: Node
    number: int
    _read: dict[str, int] = field(default_factory=dict)

    def reads(self, topic: str) -> bool:
        return reads_of(self.source).topics.include(topic)

    def news(self, topics: MemoryTopics) -> Iterator[RawRecord]:
        for topic, records in topics.records.items():
            if self.reads(topic):
                yield from records[self._read.get(topic, 0) :]
                self._read[topic] = len(records)


class MemoryFeed:
    """One query's memory stream, and the files of its global tables: they feed the query with records."""

    def __init__(
        self, spark: SparkSession, query: PlannedQuery, topics: MemoryTopics, directory: Path
    ) -> None:
        self.spark = spark
        self.query = query
        self._topics = topics
        self._feeds = [_Feed(source, number) for number, source in enumerate(query.sources)]
        self._stream = _memory_stream(spark)
        joined = [name for table in query.global_tables for name in reads_of(table).topics.names]
        self._global_files = {
            topic: directory / f"global-{number}.arrow" for number, topic in enumerate(dict.fromkeys(joined))
        }
        self._write_global_tables()

    def inputs(
        self, types: Mapping[str, Types], dead_letter_topic: str | None, host: InProcessHost | None
    ) -> QueryInputs:
        """The inputs that the query is compiled over. `host`: runs its operators here, and not in Spark."""
        frames: dict[Node, DataFrame] = {
            feed.source: self._fed(feed.number).drop(_FEED) for feed in self._feeds
        }
        for table in self.query.global_tables:
            (topic,) = reads_of(table).topics.names
            reader = _Reader(str(self._global_files[topic]))
            frames[table] = self.spark.range(1).mapInArrow(reader, RAW_SCHEMA)
        beats = self._fed(_HEARTBEAT).select("timestamp") if self.query.stateful is not None else None
        return QueryInputs(frames, types, beats, dead_letter_topic, None if host is None else host.run_keyed)

    def _write_global_tables(self) -> None:
        """Put the records of the global tables' topics where a batch finds them."""
        import pyarrow

        for topic, path in self._global_files.items():
            table = raw_table(self._topics.records.get(topic, ()))
            half = path.with_suffix(".new")
            with pyarrow.OSFile(str(half), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            os.replace(half, path)

    def put_news(self) -> bool:
        """Put the sources' new records into the stream, as one batch; whether there were any."""
        fed = [(feed.number, record) for feed in self._feeds for record in feed.news(self._topics)]
        if fed:
            self._write_global_tables()
        return self._put([number for number, _ in fed], [record for _, record in fed])

    def put_heartbeat(self, timestamp_us: int) -> bool:
        """Put a heartbeat into the stream, if the query reads heartbeats."""
        if self.query.stateful is None:
            return False
        return self._put([_HEARTBEAT], [RawRecord(None, None, "", 0, 0, timestamp_us, ())])

    def put_sent(self, records: Sequence[str]) -> bool:
        """Put the records that the operator has sent into the stream."""
        raw = [RawRecord(None, record.encode(), "", 0, 0, 0, ()) for record in records]
        return self._put([_SENT] * len(raw), raw)

    def sent(self) -> DataFrame:
        """The records that `put_sent` puts into the stream."""
        return self._fed(_SENT).selectExpr("CAST(value AS STRING) AS record")

    def _put(self, numbers: Sequence[int], records: Sequence[RawRecord]) -> bool:
        import pyarrow

        if not records:
            return False
        table = raw_table(records).append_column(_FEED, pyarrow.array(numbers, pyarrow.int32()))
        rows = self.spark.createDataFrame(table)._jdf.collectAsList()
        converters = _java(self.spark, "scala.jdk.javaapi.CollectionConverters")
        self._stream.addData(converters.asScala(rows).toSeq())
        return True

    def _fed(self, number: int) -> DataFrame:
        """The records of one number; under column names of their own, so that sources may be joined."""
        from pyspark.sql import DataFrame

        frame = DataFrame(self._stream.toDF(), self.spark)
        return frame.toDF(*frame.columns).where(f"{_FEED} = {number}")


class _Reader:
    """Reads a global table's file, on whichever worker a batch runs."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, _: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        with pyarrow.OSFile(self._path, "rb") as file, pyarrow.ipc.open_file(file) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


def raw_table(records: Sequence[RawRecord]) -> pyarrow.Table:
    """Records as a table of RAW_SCHEMA."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    schema = pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("headers", pa.list_(header)),
        ]
    )
    columns: list[Any] = [list(column) for column in zip(*records, strict=True)] or [[] for _ in schema]
    columns[6] = [[{"key": name, "value": value} for name, value in headers] for headers in columns[6]]
    return pa.table(
        [pa.array(values, each.type) for values, each in zip(columns, schema, strict=True)], schema=schema
    )


class MemoryQuery:
    """One planned query, running over memory."""

    def __init__(self, feed: MemoryFeed, host: InProcessHost | None) -> None:
        self.planned = feed.query
        self._feed = feed
        self._own_host = host
        self._seen = 0
        self._view = f"ottla_kit_{os.getpid()}_{next(_numbers)}"
        self._started: StreamingQuery | None = None

    def start(
        self, types: Mapping[str, Types], names: Collection[str], dead_letters: str | None, directory: Path
    ) -> Mapping[str, Types]:
        """Compile and start it; the types of the internal topics that it writes. Raises TopologyError.

        names: the nodes whose poison records it tells.
        """
        inputs = self._feed.inputs(types, dead_letters, self._own_host)
        compiled = compile_query(self.planned, inputs, names)
        writer = self._writer(compiled).trigger(processingTime="0 seconds")
        checkpoint = (directory / self._view).as_uri()
        self._started = writer.option("checkpointLocation", checkpoint).start()
        return compiled.written.types

    def _writer(self, compiled: Compiled) -> Any:
        written = compiled.written
        if written.writer is not None:
            return written.writer(written.frame)
        frame = written.frame.select(*SINK_COLUMNS)
        for other in () if compiled.state is None else compiled.state.dead_letters():
            frame = frame.unionByName(other.select(*SINK_COLUMNS))
        if self._host is not None:
            assert self._host.events is not None
            frame = frame.unionByName(self._host.events)
        return frame.writeStream.format("memory").queryName(self._view).outputMode(written.output_mode)

    def run(self, topics: MemoryTopics, heartbeat_us: int | None, now_ms: int, *, always: bool) -> bool:
        """Run one batch over new records, and put its output into the topics; whether there was one.

        always: run also without anything new, because the clock has moved. Raises KitError with the
        query's own error.
        """
        feed, host = self._feed, self._host
        news = feed.put_news()
        if heartbeat_us is not None and host is None:
            news |= feed.put_heartbeat(heartbeat_us)
        if not news and (host is None or (heartbeat_us is None and not always)):
            return False
        events = self._work(topics) if news else []
        if host is None:
            return True
        heartbeat_ms = None if heartbeat_us is None else heartbeat_us // 1000
        try:
            sent = host.batch(events, heartbeat_ms, now_ms)
        except Exception as error:
            raise KitError(
                f"the query {self.planned.name} failed: {type(error).__name__}: {error}"
            ) from error
        if feed.put_sent(sent):
            self._work(topics)
        return True

    @property
    def settings(self) -> Mapping[str, str]:
        """Spark's settings for the query."""
        return _QUICK_SETTINGS if self._own_host is None else {**_QUICK_SETTINGS, **_STATE_IN_MEMORY}

    @property
    def _host(self) -> InProcessHost | None:
        """The host of the query's operator, if it has one that runs here."""
        host = self._own_host
        return host if host is not None and host.events is not None else None

    def _work(self, topics: MemoryTopics) -> list[bytes]:
        """Have Spark work off all records; append its output to the topics, return the operator's events."""
        assert self._started is not None
        try:
            self._started.processAllAvailable()
        except Exception as error:
            failure = failure_of(error)
            text = f"the query {self.planned.name} failed: {failure}"
            raise KitError(f"{text}\n\n{failure.traceback}" if failure.traceback else text) from None
        if not _writes_kafka(self.planned):
            return []
        # Spark's times come as local ones of this process: whole numbers do not.
        frame = self._feed.spark.table(self._view)
        rows = frame.selectExpr("topic", "key", "value", "unix_micros(timestamp)", "headers", "partition")
        found = rows.collect()
        new, self._seen = found[self._seen :], len(found)
        events: list[bytes] = []
        for topic, key, value, timestamp_us, headers, partition in new:
            if topic == EVENTS:
                events.append(bytes(value))
                continue
            if timestamp_us is None:
                raise KitError(f"the query {self.planned.name} wrote a record without a timestamp")
            topics.append(
                topic,
                _bytes(key),
                _bytes(value),
                timestamp_us,
                [(name, _bytes(each)) for name, each in headers or ()],
                partition or 0,
            )
        return events

    def stop(self) -> None:
        if self._started is not None:
            with contextlib.suppress(Exception):  # one that has failed can't be stopped again
                self._started.stop()
            self._feed.spark.catalog.dropTempView(self._view)


def _writes_kafka(query: PlannedQuery) -> bool:
    """Whether the query writes topics, and not a sink of Spark's own."""
    (sink,) = query.sinks
    writes = sink.facts.writes
    return writes is not None and writes.kafka


def _bytes(given: bytearray | None) -> bytes | None:
    return None if given is None else bytes(given)


class MemoryCluster:
    """All queries of a plan, their topics and their files. `close` leaves nothing behind."""

    def __init__(
        self, plan: Plan, spark: SparkSession, dead_letter_topic: str | None, *, in_process: bool
    ) -> None:
        if not hasattr(spark, "_jsparkSession"):
            raise KitError("the test kit needs a local Spark: over Spark Connect it has no memory streams")
        self.spark = spark
        self.topics = MemoryTopics()
        self.types: Mapping[str, Types] = {}
        self._directory = Path(tempfile.mkdtemp(prefix="ottla-kit-", dir=_quick_directory()))
        self.queries: list[MemoryQuery] = []
        try:
            for number, planned in enumerate(plan.queries):
                files = self._directory / f"query-{number}"
                files.mkdir()
                feed = MemoryFeed(spark, planned, self.topics, files)
                # The output of a sink of Spark's own has no way back into this process.
                here = in_process and _writes_kafka(planned)
                self.queries.append(MemoryQuery(feed, InProcessHost(feed.sent) if here else None))
            reported: set[str] = set()
            for query in self.queries:
                names = {node.name for node in query.planned.nodes} - reported
                reported |= names
                with _quick_settings(spark, query.settings):
                    written = query.start(self.types, names, dead_letter_topic, self._directory)
                self.types = {**self.types, **written}
        except BaseException:
            self.close()
            raise

    def run(self, now_ms: int, heartbeat_us: int | None = None, *, always: bool = False) -> None:
        """Run until no query has news. With a heartbeat each gets it once, with the news there then are.

        now_ms: the clock. always: it has moved, timers may be due.
        """
        for number in range(MAX_ROUNDS):
            first = number == 0
            worked = False
            for query in self.queries:
                heartbeat = heartbeat_us if first else None
                worked |= query.run(self.topics, heartbeat, now_ms, always=always and first)
            if not worked:
                return
        raise KitError(f"the topology feeds itself: it still has news after {MAX_ROUNDS} rounds")

    def close(self) -> None:
        for query in self.queries:
            query.stop()
        shutil.rmtree(self._directory, ignore_errors=True)


def _quick_directory() -> str | None:
    """Where files never reach a disk, if there is such a place."""
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() and os.access(shared, os.W_OK) else None


_QUICK_SETTINGS = {
    # Compiling a query's code to classes pays for records by the million: a fifth of a test's time.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    "spark.sql.streaming.metricsEnabled": "false",
}
# RocksDB pays for state that no memory holds: a fifth of an aggregate's batch. Operators in Spark need it.
_STATE_IN_MEMORY = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
}


@contextlib.contextmanager
def _quick_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings for small batches while a query starts: it keeps those it was started with.

    Python workers find the modules that this process does: functions of a test's own module go there by name.
    """
    before = {name: spark.conf.get(name, None) for name in settings}
    environment = spark.sparkContext.environment
    path = environment.get("PYTHONPATH")
    try:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [*sys.path, path or ""]))
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        if path is None:
            del environment["PYTHONPATH"]
        else:
            environment["PYTHONPATH"] = path
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _memory_stream(spark: SparkSession) -> Any:
    """A new memory stream of RAW_SCHEMA and the source's number."""
    from pyspark.sql.types import _parse_datatype_string

    schema = _parse_datatype_string(f"{RAW_SCHEMA}, {_FEED} INT")
    session = spark._jsparkSession
    encoder = _java(spark, "org.apache.spark.sql.Encoders").row(session.parseDataType(schema.json()))
    partitions = _java(spark, "scala.Option").apply(1)
    package = "org.apache.spark.sql.execution.streaming"
    if tuple(int(part) for part in spark.version.split(".")[:2]) < (4, 1):
        stream = _java(spark, f"{package}.MemoryStream")
        return stream(next(_numbers), session.sqlContext(), partitions, encoder)
    stream = _java(spark, f"{package}.runtime.MemoryStream")
    return stream(next(_numbers), session, partitions, encoder)


def _java(spark: SparkSession, name: str) -> Any:
    return getattr(spark._jvm, name)
