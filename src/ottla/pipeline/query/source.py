"""A pipeline's input: topics of a cluster as a streaming or a batch DataFrame.

`KafkaSource` describes the topics and where reading starts; `read_stream` and `read_batch` give a DataFrame
of exactly RECORD_COLUMNS. The topics are looked up before the query starts, so that a wrong name gives one
line and not a stack trace of a running query.

`start` applies to a query without a checkpoint; a query with one goes on from there. Partitions (and, for a
pattern, topics) that appear later are read from their beginning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClientOptionError, ClusterError
from ottla.config.errors import UserError
from ottla.pipeline.sink.exactly_once_ledger import LEDGER_SUFFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORD_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
REACH_TIMEOUT_SECONDS = 15.0
MAX_POLL_RECORDS = "10000"
FETCH_WAIT_MS = "0"
_TOPIC_NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9._-]{1,249}")
_EARLIEST = -2  # a partition's start in Spark's JSON of offsets


class SourceError(UserError):
    """A source that can't be read as it is described; the message says what to do."""


class Boundary(Enum):
    """The two ends of a topic."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class FromTimestamp:
    """The first record of each partition at or after this time; the partition's end if there is none."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class FromOffsets:
    """The next offset to read by topic and partition; partitions that are not named begin at their start."""

    offsets: Mapping[str, Mapping[int, int]]


Start = Boundary | FromTimestamp | FromOffsets
EARLIEST = Boundary.EARLIEST
LATEST = Boundary.LATEST


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """Topics to read. Exactly one of `topics` and `pattern` (a Java regular expression for whole names).

    start: where a new query begins. max_offsets_per_trigger: the most records of a batch, over all
    partitions. first_batch_records: the most of the first batch of a run, if that is less (first_batch.py).
    min_partitions: the least number of tasks, if there are fewer partitions. read_committed:
    leave out the records of aborted transactions. fail_on_data_loss: end the query if records are gone
    (retention, a deleted topic) rather than go on after the gap. client_options: by librdkafka's names, for
    ottla's clients and, translated, for Spark's. spark_options: further options of Spark's source.
    flowing: the tasks wait for records to come, as in real-time mode.
    Raises SourceError if the values contradict each other.
    """

    bootstrap: str
    topics: Sequence[str] = ()
    pattern: str | None = None
    start: Start = Boundary.EARLIEST
    max_offsets_per_trigger: int | None = None
    first_batch_records: int | None = None
    min_partitions: int | None = None
    read_committed: bool = True
    fail_on_data_loss: bool = True
    client_options: Mapping[str, str] = field(default_factory=dict)
    spark_options: Mapping[str, str] = field(default_factory=dict)
    flowing: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.topics, str):
            raise SourceError(f"topics must be a list of names: [{self.topics!r}]")
        if bool(self.topics) == (self.pattern is not None):
            raise SourceError("a source needs either topics or a pattern")
        if not self.bootstrap:
            raise SourceError("a source needs bootstrap, the address of a broker as host:port")
        for topic in self.topics:
            if not _TOPIC_NAME.fullmatch(topic):
                raise SourceError(
                    f"{topic!r} is not a topic name: 1 to 249 of letters, digits, '.', '_' and '-'"
                )
        for name, value in (
            ("max_offsets_per_trigger", self.max_offsets_per_trigger),
            ("first_batch_records", self.first_batch_records),
            ("min_partitions", self.min_partitions),
        ):
            if value is not None and value < 1:
                raise SourceError(f"{name} must be at least 1, not {value}")
        if isinstance(self.start, FromTimestamp) and self.start.timestamp_ms < 0:
            raise SourceError(f"a start has a timestamp in ms since 1970, not {self.start.timestamp_ms}")

    @property
    def first_limit(self) -> int | None:
        """The most records of the first batch; None if all batches are alike."""
        wanted, largest = self.first_batch_records, self.max_offsets_per_trigger
        if wanted is None or (largest is not None and largest <= wanted):
            return None
        return wanted

    @property
    def cluster(self) -> KafkaCluster:
        """A client of the source's cluster."""
        return KafkaCluster(self.bootstrap, self.client_options)

    def describe(self) -> str:
        """The source in a few words, for messages to users."""
        what = ", ".join(self.topics) if self.pattern is None else f"topics like {self.pattern}"
        return f"{what} on {self.bootstrap}"


def check_source(source: KafkaSource, cluster: KafkaCluster | None = None) -> list[str]:
    """The topics that the source reads now. Raises SourceError when one does not exist or no broker answers.

    `cluster`: a client of the source's cluster, if the caller already has one.
    """
    known = cluster or source.cluster
    try:
        known.wait_until_answering(REACH_TIMEOUT_SECONDS)
        if source.pattern is None:
            missing = known.missing_topics(source.topics)
            if missing:
                raise SourceError(_missing(missing, source.bootstrap))
            return list(source.topics)
        return _matching(source, known.topic_names())
    except ClusterError as error:
        raise SourceError(str(error)) from error


def _missing(topics: Sequence[str], bootstrap: str) -> str:
    if len(topics) == 1:
        return f"topic {topics[0]} does not exist on {bootstrap}: create it first"
    return f"topics {', '.join(topics)} do not exist on {bootstrap}: create them first"


def _matching(source: KafkaSource, names: Iterable[str]) -> list[str]:
    try:
        expression = re.compile(source.pattern or "")
    except re.error as error:
        raise SourceError(f"{source.pattern!r} is not a regular expression: {error}") from error
    topics = sorted(name for name in names if expression.fullmatch(name) and not name.endswith(LEDGER_SUFFIX))
    if not topics:
        raise SourceError(f"no topic on {source.bootstrap} has a name like {source.pattern}")
    return topics


def read_stream(
    spark: SparkSession,
    source: KafkaSource,
    cluster: KafkaCluster | None = None,
    planned: Callable[[DataFrame], DataFrame] | None = None,
) -> DataFrame:
    """A streaming DataFrame of RECORD_COLUMNS. Raises SourceError when a topic does not exist.

    planned: puts the frame of Spark's source under a planner of batches (planned_source.py).
    """
    known = cluster or source.cluster
    topics = check_source(source, known)
    options = spark_source_options(source, topics, known) | _start_options(source, topics, known)
    limit = source.first_limit or source.max_offsets_per_trigger
    if limit is not None:
        options["maxOffsetsPerTrigger"] = str(limit)
    options |= source.spark_options
    frame = spark.readStream.format("kafka").options(**options).load()
    return (frame if planned is None else planned(frame)).select(*RECORD_COLUMNS)


def read_batch(
    spark: SparkSession,
    source: KafkaSource,
    end: Start = Boundary.LATEST,
    cluster: KafkaCluster | None = None,
) -> DataFrame:
    """A batch DataFrame of RECORD_COLUMNS from the source's start to `end`, which is not in it.

    Raises SourceError when a topic does not exist, or for a batch that starts at the latest offset.
    """
    if source.start is Boundary.LATEST or end is Boundary.EARLIEST:
        raise SourceError(
            "a batch reads from a start that is not the latest to an end that is not the earliest"
        )
    known = cluster or source.cluster
    topics = check_source(source, known)
    options = spark_source_options(source, topics, known) | _start_options(source, topics, known)
    match end:
        case FromTimestamp(timestamp_ms):
            options["endingTimestamp"] = str(timestamp_ms)
        case FromOffsets(offsets):
            ends = {topic: known.end_positions(topic) | dict(offsets.get(topic, {})) for topic in topics}
            options["endingOffsets"] = _offsets_json(ends)
        case _:
            options["endingOffsets"] = end.value
    options |= source.spark_options
    return spark.read.format("kafka").options(**options).load().select(*RECORD_COLUMNS)


def spark_source_options(source: KafkaSource, topics: Sequence[str], cluster: KafkaCluster) -> dict[str, str]:
    """The options of Spark's Kafka source, except where it starts and ends."""
    try:
        options = ClusterAccess(source.bootstrap, source.client_options).spark()
    except ClientOptionError as error:
        raise SourceError(str(error)) from error
    options |= {
        "kafka.isolation.level": "read_committed" if source.read_committed else "read_uncommitted",
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
        "includeHeaders": "true",
    }
    # Spark asks for a partition's start and end after every poll: 500 records a poll, Java's default,
    # make that the larger part of its work. What a poll holds in memory is bounded by bytes, not by this.
    options.setdefault("kafka.max.poll.records", MAX_POLL_RECORDS)
    if not source.flowing:
        # A task reads what is there. A consumer at the end of a partition asks for more all the same, and its
        # next questions wait behind that one, on one connection, until a record comes or this time is over.
        options.setdefault("kafka.fetch.max.wait.ms", FETCH_WAIT_MS)
    if source.pattern is None:
        options["subscribe"] = ",".join(source.topics)
    else:
        # A query that also reads the ledger topic of its own sink would feed itself.
        options["subscribePattern"] = f"(?!.*{LEDGER_SUFFIX}$)(?:{source.pattern})"
    if source.min_partitions is not None:
        options["minPartitions"] = str(source.min_partitions)
    return options


def _start_options(source: KafkaSource, topics: Sequence[str], cluster: KafkaCluster) -> dict[str, str]:
    match source.start:
        case FromTimestamp(timestamp_ms):
            return {
                "startingTimestamp": str(timestamp_ms),
                # A time after the last record is the end of the partition, not an error.
                "startingOffsetsByTimestampStrategy": "latest",
            }
        case FromOffsets(offsets):
            unknown = sorted(set(offsets) - set(topics))
            if unknown:
                raise SourceError(
                    f"start names {', '.join(unknown)}, which {source.describe()} does not read"
                )
            return {"startingOffsets": _offsets_json(_every_partition(topics, offsets, cluster))}
        case boundary:
            return {"startingOffsets": boundary.value}


def _every_partition(
    topics: Sequence[str], offsets: Mapping[str, Mapping[int, int]], cluster: KafkaCluster
) -> dict[str, dict[int, int]]:
    """The offsets with every partition named, as Spark requires."""
    try:
        starts = {topic: dict.fromkeys(cluster.partitions(topic), _EARLIEST) for topic in topics}
    except ClusterError as error:
        raise SourceError(str(error)) from error
    for topic, partitions in offsets.items():
        unknown = sorted(set(partitions) - set(starts[topic]))
        if unknown:
            raise SourceError(
                f"start names partition {unknown[0]} of {topic}, which has {len(starts[topic])}"
            )
        starts[topic] |= partitions
    return starts


def _offsets_json(offsets: Mapping[str, Mapping[int, int]]) -> str:
    return json.dumps({topic: {str(p): o for p, o in sorted(by.items())} for topic, by in offsets.items()})
