"""Test a topology: records in, records out, no broker. Kafka Streams' TopologyTestDriver, on Spark.

    def test_words_are_counted() -> None:
        with TopologyTestDriver(app) as driver:
            driver.input("lines", value=str).pipe("the cat and the hat")
            assert driver.output("counts", key=str, value=int).read_map()["the"] == 2

The whole application runs on Spark, formats included: a value that is piped goes through its format into
bytes, and out of bytes again. Operators in Python run in the test's own process (kit_host.py), unless
`operators_in_spark`. Python values go in and come out, dataclasses and dictionaries for structs
(kit_values.py).

**Batches.** Piped records are put aside. Reading an output, or a table, runs them: all that were piped since
the last run are one batch; `flush` runs it at a place of your choice. This matters where Spark's
batches do: an aggregate sends on each key once a batch, and a record is late by the event time of the
batches *before*.

**Time.** A record without a timestamp has the driver's clock, which begins at `now` and moves by
`advance_wall_clock` alone. Event time moves by records' timestamps, or, as a pause in the input would with
heartbeats, by `advance_event_time`: windows close.

With no session given the driver uses the process's own, or starts a small one and keeps it until exit: the
first test pays some seconds. Each other costs half a second of processor time for a topology without state,
one to two with a stateful part (measured; each sink and each stateful part is a query, each run a batch of
it).
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ottla.pipeline.sink.dead_letters import CONNECT, NODE_HEADER
from ottla.streams.kit.kit_environment import KitError, MemoryCluster, RawRecord
from ottla.streams.kit.kit_values import (
    ValueOfWrongType,
    from_arrow_value,
    hashable,
    milliseconds,
    to_arrow_value,
)
from ottla.streams.kit.plain_codec import plainly_decoded, plainly_encoded
from ottla.streams.kit.results import DeadLetter, OutputRecord
from ottla.streams.plan.internal_formats import as_format, internal_formats
from ottla.streams.plan.node import Reads, Topics, Writes
from ottla.streams.plan.planner import Plan, plan
from ottla.streams.plan.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.pipeline.formats.format import Format
    from ottla.pipeline.spark.session import SparkPipelineSession
    from ottla.streams.plan.internal_formats import FormatOrType

DEAD_LETTERS = "dead-letters"
START = datetime(2025, 1, 1, tzinfo=UTC)
END_OF_TIME = datetime(9000, 1, 1, tzinfo=UTC)

Headers: TypeAlias = Mapping[str, bytes | str] | Sequence[tuple[str, bytes | None]]


class HasTopology(Protocol):
    """An application."""

    def topology(self) -> Topology: ...


class InputTopic:
    """A topic that the test writes; `TopologyTestDriver.input` makes it."""

    def __init__(self, driver: TopologyTestDriver, topic: str, key: _Codec, value: _Codec) -> None:
        self._driver = driver
        self._topic = topic
        self._key = key
        self._value = value

    def pipe(
        self,
        value: Any,
        key: Any = None,
        *,
        timestamp: datetime | int | None = None,
        headers: Headers = (),
        partition: int = 0,
    ) -> None:
        """Add a record; value None is a tombstone. timestamp: a datetime (a naive one is UTC) or milliseconds
        since 1970. Raises KitError where a value does not fit its format."""
        self._driver._put(
            _Piped(
                self._topic,
                self._key.checked(key, f"the key for {self._topic}"),
                self._value.checked(value, f"the value for {self._topic}"),
                self._driver._timestamp_ms(timestamp),
                _header_pairs(headers),
                partition,
            )
        )

    def pipe_all(self, records: Iterable[Any], *, apart: timedelta = timedelta(0)) -> None:
        """Add records: values, or pairs (key, value), or triples (key, value, timestamp).

        A tuple is always taken as one of these; a key alone has no meaning. apart: from each record without a
        timestamp to the next, beginning at the driver's clock.
        """
        for number, each in enumerate(records):
            key, value, timestamp = _pair_or_value(each)
            if timestamp is None:
                timestamp = self._driver.now + number * apart
            self.pipe(value, key, timestamp=timestamp)


class OutputTopic:
    """A topic that the topology writes; `TopologyTestDriver.output` makes it. Each record is read once."""

    def __init__(self, driver: TopologyTestDriver, topic: str, key: _Codec, value: _Codec) -> None:
        self._driver = driver
        self._topic = topic
        self._key = key
        self._value = value
        self._read = 0

    def read(self) -> OutputRecord:
        """The next record. Raises KitError when there is none."""
        found = self._decoded(1)
        if not found:
            raise KitError(f"there is no further record in {self._topic}")
        return found[0]

    def read_all(self) -> list[OutputRecord]:
        """All further records, in the order they were written."""
        return self._decoded(None)

    def read_values(self) -> list[Any]:
        """The values of all further records."""
        return [record.value for record in self.read_all()]

    def read_pairs(self) -> list[tuple[Any, Any]]:
        """Key and value of all further records."""
        return [(record.key, record.value) for record in self.read_all()]

    def read_map(self) -> dict[Any, Any]:
        """The last value of each key among all further records; tombstones take keys away."""
        return _last_values(self.read_all())

    @property
    def is_empty(self) -> bool:
        """Whether all that was written has been read."""
        self._driver.flush()
        return not self._driver._written(self._topic)[self._read :]

    def _decoded(self, limit: int | None) -> list[OutputRecord]:
        self._driver.flush()
        records = self._driver._written(self._topic)[self._read :][:limit]
        self._read += len(records)
        return self._driver._decode(records, self._key, self._value)


class TopologyTestDriver:
    """Runs an application's topology over records of a test. Use it as a context manager.

    spark: a session to use. dead_letters: poison records are kept for `dead_letters()`; False: they fail the
    test, as they fail an application that has no dead-letter topic. now: where the driver's clock begins.
    operators_in_spark: run operators in Python in Spark's workers and state too, some seconds each.
    Formats that ask a Schema Registry ask the one they name. Raises TopologyError for one that can't be.
    """

    def __init__(
        self,
        app: HasTopology,
        spark: SparkSession | None = None,
        *,
        dead_letters: bool = True,
        operators_in_spark: bool = False,
        now: datetime = START,
    ) -> None:
        self._open(app.topology(), spark, dead_letters, operators_in_spark, now)

    @classmethod
    def _of(cls, topology: Topology, spark: SparkSession | None) -> TopologyTestDriver:
        """For previews, which run parts of an application."""
        driver = cls.__new__(cls)
        driver._open(topology, spark, True, False, START)
        return driver

    def _open(
        self,
        topology: Topology,
        spark: SparkSession | None,
        dead_letters: bool,
        operators_in_spark: bool,
        now: datetime,
    ) -> None:
        self.now = now if now.tzinfo is not None else now.replace(tzinfo=UTC)
        self._tested = DrivenTopology(topology, plan(topology), operators_in_spark)
        self._piped: list[_Piped] = []
        self._dead_letters_read = 0
        self._failed: KitError | None = None
        self._cluster = MemoryCluster(
            self._tested.plan,
            spark if spark is not None else local_session(),
            DEAD_LETTERS if dead_letters else None,
            in_process=not operators_in_spark,
        )

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop all queries and remove their files. The session stays."""
        self._cluster.close()

    def input(self, topic: str, *, key: FormatOrType = bytes, value: FormatOrType = bytes) -> InputTopic:
        """A topic to write to. Raises KitError for one that the topology does not read."""
        self._tested.source_of(topic)
        return InputTopic(self, topic, self._codec(topic, key, True), self._codec(topic, value, False))

    def output(self, topic: str, *, key: FormatOrType = bytes, value: FormatOrType = bytes) -> OutputTopic:
        """A topic to read from its beginning. Raises KitError for one that the topology does not write."""
        self._tested.check_written(topic)
        return OutputTopic(self, topic, self._codec(topic, key, True), self._codec(topic, value, False))

    def flush(self) -> None:
        """Run the records piped since the last run, as one batch of each query, and the batches that follow.

        Raises KitError with the error of a query that failed, the traceback of a function of yours included.
        """
        if self._failed is not None:
            raise self._failed
        self._run(None)

    def advance_event_time(self, to: datetime | timedelta) -> None:
        """Move event time on without a record: to a time, or by a duration past the youngest record so far.

        Records that were piped before are run first, as a batch of their own.
        """
        self.flush()
        if isinstance(to, timedelta):
            written = self._cluster.topics.records.values()
            youngest_us = max((each.timestamp_us for records in written for each in records), default=0)
            self._run(youngest_us + to // timedelta(microseconds=1))
        else:
            self._run(self._timestamp_ms(to) * 1000)

    def advance_wall_clock(self, by: timedelta) -> None:
        """Move the driver's clock on: timers of the clock fire, records piped from now on have its time.

        Records that were piped before are run first. Raises KitError where operators run in Spark, by its
        clock.
        """
        if self._tested.in_spark:
            raise KitError("operators in Spark have Spark's clock: leave operators_in_spark out")
        if by < timedelta(0):
            raise KitError(f"the clock goes forward, not by {by}")
        self.flush()
        self.now += by
        self._run(None, always=True)

    def close_windows(self) -> None:
        """Move event time on so far that every window is closed."""
        self.advance_event_time(END_OF_TIME)

    def table(self, name: str) -> dict[Any, Any]:
        """The rows of a materialized table now. Raises KitError for one that is not materialized."""
        sink = self._tested.plan.materialized.get(name)
        if sink is None:
            known = ", ".join(sorted(self._tested.plan.materialized)) or "none"
            raise KitError(f"{self._tested.topology.name} has no materialized table {name!r}: it has {known}")
        return _last_values(self._internal(sink.topic))

    def dead_letters(self) -> list[DeadLetter]:
        """The records that could not be processed since this was asked last, and why."""
        self.flush()
        found = self._written(DEAD_LETTERS)[self._dead_letters_read :]
        self._dead_letters_read += len(found)
        return [_dead_letter(record) for record in found]

    # For the topics, and for previews

    def _internal(self, topic: str) -> list[OutputRecord]:
        """All records of an internal topic."""
        self.flush()
        key, value = internal_formats(*self._cluster.types[topic])
        return self._decode(self._written(topic), _Codec(key, None), _Codec(value, None))

    def _chosen_topics(self) -> list[str]:
        """The topics that were written because records chose them."""
        return [topic for topic in self._cluster.topics.records if self._tested.is_chosen(topic)]

    def _put_raw(self, record: RawRecord) -> None:
        """A record as it lies in a cluster's topic."""
        self._cluster.topics.records.setdefault(record.topic, []).append(record)

    def _codec(self, topic: str, given: FormatOrType, is_key: bool) -> _Codec:
        bound = as_format(given).bind(topic, is_key)
        return _Codec(bound, given if isinstance(given, type) else None)

    def _timestamp_ms(self, given: datetime | int | None) -> int:
        try:
            return milliseconds(self.now if given is None else given)
        except ValueOfWrongType as error:
            raise KitError(str(error)) from None

    def _put(self, piped: _Piped) -> None:
        self._piped.append(piped)

    def _written(self, topic: str) -> list[RawRecord]:
        return self._cluster.topics.records.get(topic, [])

    def _run(self, heartbeat_us: int | None, *, always: bool = False) -> None:
        piped, self._piped = self._piped, []
        spark = self._cluster.spark
        try:
            keys = _encoded(spark, [each.key for each in piped], piped, True)
            values = _encoded(spark, [each.value for each in piped], piped, False)
            for each, key, value in zip(piped, keys, values, strict=True):
                self._cluster.topics.append(
                    each.topic, key, value, each.timestamp_ms * 1000, each.headers, each.partition
                )
            self._cluster.run(milliseconds(self.now), heartbeat_us, always=always)
        except KitError as error:
            self._failed = error
            raise

    def _decode(self, records: Sequence[RawRecord], key: _Codec, value: _Codec) -> list[OutputRecord]:
        if not records:
            return []
        spark = self._cluster.spark
        keys = key.decode(spark, [record.key for record in records], records[0].topic, True)
        values = value.decode(spark, [record.value for record in records], records[0].topic, False)
        return [
            OutputRecord(
                hashable(each_key),
                each_value,
                datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
                + timedelta(microseconds=record.timestamp_us),
                dict(record.headers),
                record.topic,
                record.partition,
                record.offset,
            )
            for record, each_key, each_value in zip(records, keys, values, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class DrivenTopology:
    """A topology as the driver looks at it. in_spark: its operators run in Spark, by Spark's clock."""

    topology: Topology
    plan: Plan
    in_spark: bool

    @property
    def sources(self) -> list[Reads]:
        """How its nodes read topics of the user's."""
        return [reads for node in self.topology.nodes() if (reads := node.facts.reads) is not None]

    @property
    def sinks(self) -> list[Writes]:
        """How its nodes write topics of the user's."""
        writes = [sink.facts.writes for sink in self.topology.sinks]
        return [each for each in writes if each is not None and each.kafka]

    def source_of(self, topic: str) -> Reads:
        """How a topic is read. Raises KitError when no node reads it."""
        for source in self.sources:
            if source.topics.include(topic):
                return source
        known = ", ".join(sorted({name for source in self.sources for name in _topics(source.topics)}))
        raise KitError(f"{self.topology.name} does not read the topic {topic!r}: it reads {known}")

    def check_written(self, topic: str) -> None:
        """Raise KitError for a topic that no node writes."""
        sinks = self.sinks
        fixed = [each.topic for each in sinks if each.topic is not None]
        if topic not in (*fixed, DEAD_LETTERS) and len(fixed) == len(sinks):
            known = ", ".join(sorted(set(fixed))) or "none"
            raise KitError(f"{self.topology.name} does not write the topic {topic!r}: it writes {known}")

    def is_chosen(self, topic: str) -> bool:
        """Whether a topic that was written is neither named in the topology nor read by it."""
        named = {each.topic for each in self.sinks} | {each.topic for each in self.plan.internal_topics}
        read = any(source.topics.include(topic) for source in self.sources)
        return topic not in named and topic != DEAD_LETTERS and not read


@dataclass(frozen=True, slots=True)
class _Piped:
    """A record that waits for the next run."""

    topic: str
    key: _Checked
    value: _Checked
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int


@dataclass(frozen=True, slots=True)
class _Checked:
    """A value as pyarrow takes it for its codec's format."""

    codec: _Codec
    value: Any


@dataclass(frozen=True, slots=True)
class _Codec:
    """A format between Python values and bytes: the columns that the topology has, run over a few values."""

    format: Format
    wanted: type | None
    """The Python type that was asked for, where it was one."""

    def checked(self, value: Any, name: str) -> _Checked:
        """A value that fits the format. name: of the value, for the error. Raises KitError."""
        try:
            return _Checked(self, to_arrow_value(value, self.format.data_type(), name))
        except ValueOfWrongType as error:
            raise KitError(str(error)) from None

    def encode(self, spark: SparkSession, values: Sequence[Any], topic: str, is_key: bool) -> list[Any]:
        """The bytes of values that were `checked`."""
        from pyspark.sql import functions as F

        if (plain := plainly_encoded(self.format, values)) is not None:
            return plain
        frame = _frame_of(spark, values, self.format.data_type())
        encoded = frame.select(self.format.encode(F.col("value"), topic, is_key).alias("value"))
        return [None if row[0] is None else bytes(row[0]) for row in encoded.collect()]

    def decode(self, spark: SparkSession, found: Sequence[Any], topic: str, is_key: bool) -> list[Any]:
        """The values of bytes. Raises KitError where they are none of the format."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import BinaryType

        if (plain := plainly_decoded(self.format, found)) is not None:
            return [from_arrow_value(each, self.format.data_type(), self.wanted) for each in plain]
        frame = _frame_of(spark, found, BinaryType())
        decoded = frame.select(self.format.decode(F.col("value"), topic, is_key).alias("value"))
        values = []
        for original, each in zip(found, decoded.toArrow()["value"].to_pylist(), strict=True):
            if each["error"] is not None:
                part = "key" if is_key else "value"
                raise KitError(
                    f"a {part} in {topic} is not {self.format.describe()}: {original!r}: {each['error']}"
                )
            values.append(from_arrow_value(each["value"], self.format.data_type(), self.wanted))
        return values


def _frame_of(spark: SparkSession, values: Sequence[Any], data_type: Any) -> Any:
    """A local frame of one column `value`. Raises KitError for what Arrow can't hold in the type."""
    import pyarrow
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StructField, StructType

    column = pyarrow.array(values, to_arrow_type(data_type))
    return spark.createDataFrame(
        pyarrow.table({"value": column}), StructType([StructField("value", data_type)])
    )


def _encoded(
    spark: SparkSession, given: Sequence[_Checked], piped: Sequence[_Piped], is_key: bool
) -> list[Any]:
    """Bytes for values, those of one topic and format together."""
    groups: dict[tuple[int, str], list[int]] = {}
    for number, each in enumerate(given):
        groups.setdefault((id(each.codec), piped[number].topic), []).append(number)
    found: list[Any] = [None] * len(given)
    for (_, topic), numbers in groups.items():
        values = [given[number].value for number in numbers]
        if all(value is None for value in values):
            continue
        codec = given[numbers[0]].codec
        try:
            encoded = codec.encode(spark, values, topic, is_key)
        except Exception as error:
            part = "key" if is_key else "value"
            raise KitError(f"a {part} for {topic} can't be written: {_first_line(error)}") from error
        for number, data in zip(numbers, encoded, strict=True):
            found[number] = data
    return found


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _topics(topics: Topics) -> Sequence[str]:
    return topics.names if topics.pattern is None else (f"those that match {topics.pattern}",)


def _last_values(records: Iterable[OutputRecord]) -> dict[Any, Any]:
    last: dict[Any, Any] = {}
    for record in records:
        if record.value is None:
            last.pop(record.key, None)
        else:
            last[record.key] = record.value
    return last


def _pair_or_value(given: Any) -> tuple[Any, Any, datetime | int | None]:
    if type(given) is not tuple:
        return None, given, None
    if len(given) == 2:
        return given[0], given[1], None
    if len(given) == 3:
        return given
    raise KitError(f"a record is a value, (key, value) or (key, value, timestamp), not {given!r}")


def _header_pairs(headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs)


def _dead_letter(record: RawRecord) -> DeadLetter:
    told = {name: (value or b"").decode() for name, value in record.headers}

    def header(name: str) -> str | None:
        return told.get(f"{CONNECT}{name}")

    return DeadLetter(
        record.key,
        record.value,
        header("topic") or "",
        int(header("partition") or 0),
        int(header("offset") or 0),
        told.get(NODE_HEADER) or "",
        header("stage") or "",
        header("exception.class.name") or "",
        header("exception.message") or "",
        header("exception.stacktrace"),
    )


_own: SparkPipelineSession | None = None


def local_session() -> SparkSession:
    """The session for tests: the process's own if it has one, else a small one that is kept until exit.

    As a fixture: `@pytest.fixture(scope="session") def spark(): return local_session()`.
    """
    from pyspark.sql import SparkSession

    from ottla.pipeline.spark.session import SparkSettings, start_session

    global _own
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    directory = Path(tempfile.mkdtemp(prefix="ottla-kit-spark-"))
    _own = start_session(
        SparkSettings(
            "ottla test kit", directory, master="local[2]", shuffle_partitions=1, quick_start=True, jars=()
        )
    )
    atexit.register(_end_session, _own, directory)
    return _own.spark


def _end_session(session: SparkPipelineSession, directory: Path) -> None:
    session.close()
    shutil.rmtree(directory, ignore_errors=True)
