"""Kafka for Spark queries: source and sink through Spark's connector, topics and positions.

`stream_from`, `table_from` and `stream_to` build Spark readers and writers with the options that every query
of ours wants: from the earliest offset, committed records only, and a failure rather than a silent gap when
records are gone. `KafkaCluster` looks at a cluster from outside, as any client does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec
from confluent_kafka.admin._topic import TopicDescription
from confluent_kafka.cimpl import NewTopic

from ottla.config.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

REQUEST_TIMEOUT_SECONDS = 15.0
READ_STALL_SECONDS = 30.0
TOPIC_GONE_SECONDS = 30.0
LEDGER_SUFFIX = "-sink-ledger"
"""What the names of topics end with in which exactly-once sinks keep their books; a pattern reads none."""

_INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

# What a group's coordinator says while it starts or moves: Kafka's first group finds it so.
_COORDINATOR_STARTS = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)

Positions = Mapping[int, int]
"""Offsets of one topic by partition: the next offset to read or to be written."""


class ClusterError(UserError):
    """The cluster does not answer, or not as asked; the message says what was tried."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that a pipeline needs, and what it is created with when it is missing."""

    name: str
    partitions: int = 1
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """An offset of a group: the next one to read, and the text that was committed with it."""

    offset: int
    metadata: str


def stream_from(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    *,
    max_offsets_per_trigger: int | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A streaming DataFrame of a topic in Spark's Kafka columns: key, value, topic, partition, offset, …"""
    reader = spark.readStream.format("kafka").options(**_reader_options(bootstrap, topic))
    if max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", max_offsets_per_trigger)
    return reader.options(**(options or {})).load()


def table_from(
    spark: SparkSession, bootstrap: str, topic: str, options: Mapping[str, str] | None = None
) -> DataFrame:
    """A batch DataFrame of everything that is in a topic now, in Spark's Kafka columns."""
    return spark.read.format("kafka").options(**_reader_options(bootstrap, topic), **(options or {})).load()


def stream_to(
    frame: DataFrame, bootstrap: str, topic: str, options: Mapping[str, str] | None = None
) -> DataStreamWriter:
    """A writer of `frame` (columns key, value and optionally headers) into a topic.

    Spark's sink is at-least-once: a batch that is repeated after a crash is written again. That is enough
    where the last record of a key is the one that counts.
    """
    writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    return writer.option("topic", topic).options(**(options or {}))


def _reader_options(bootstrap: str, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "true",
    }


class KafkaCluster:
    """A cluster as its clients see it. Every call is bounded in time; ClusterError says what failed.

    `client_options` are librdkafka properties (security, for one) that every client made here gets.
    """

    def __init__(self, bootstrap: str, client_options: Mapping[str, str] | None = None) -> None:
        self.bootstrap = bootstrap
        self._options: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            **(client_options or {}),
        }
        self._admin = AdminClient({**self._options, "client.id": "ottla-pipeline"})

    def producer_options(self) -> dict[str, Any]:
        """Options of an idempotent producer that puts a key where Java clients and Spark put it.

        It makes no topic: one that was deleted would come back with other partitions and settings.
        """
        return {
            "allow.auto.create.topics": "false",
            **self._options,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
        }

    def wait_until_answering(self, timeout_seconds: float) -> None:
        """Return when a broker answers a Metadata request. Raises ClusterError after `timeout_seconds`."""
        deadline = time.monotonic() + timeout_seconds
        while not self.answers(min(1.0, timeout_seconds)):
            if time.monotonic() > deadline:
                raise ClusterError(f"no Kafka broker answers at {self.bootstrap}")

    def answers(self, timeout_seconds: float) -> bool:
        """Whether a broker answers a Metadata request within `timeout_seconds`."""
        try:
            return bool(self._admin.list_topics(timeout=timeout_seconds).brokers)
        except KafkaException:
            return False

    def cluster_id(self) -> str:
        """The cluster's own id."""
        described = self._result(
            self._admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_SECONDS), "describe the cluster"
        )
        return str(described.cluster_id)

    def ensure_topics(self, topics: Sequence[Topic]) -> dict[str, str]:
        """Create the topics that are missing; return the id of each. An existing topic is left as it is."""
        wanted = [
            NewTopic(topic.name, topic.partitions, topic.replication_factor, config=dict(topic.config))
            for topic in topics
        ]
        created = self._admin.create_topics(wanted, request_timeout=REQUEST_TIMEOUT_SECONDS)
        for name, future in created.items():
            try:
                future.result(REQUEST_TIMEOUT_SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise ClusterError(f"cannot create topic {name} at {self.bootstrap}: {error}") from error
        names = [topic.name for topic in topics]
        deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
        while True:
            ids = self._topic_ids(names)
            if ids is not None:
                return ids
            if time.monotonic() > deadline:
                raise ClusterError(f"topics {', '.join(names)} have no leader at {self.bootstrap}")
            time.sleep(0.05)

    def _topic_ids(self, names: Sequence[str]) -> dict[str, str] | None:
        ids = {}
        for name in names:
            topic = self._describe(name)
            if topic is None or not topic.partitions or any(p.leader is None for p in topic.partitions):
                return None
            ids[name] = str(topic.topic_id)
        return ids

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic; asking creates none. Raises ClusterError when it does not exist."""
        described = self._describe(topic)
        if described is None:
            raise ClusterError(f"there is no topic {topic} at {self.bootstrap}")
        return sorted(partition.id for partition in described.partitions)

    def topic_id(self, topic: str) -> str | None:
        """The id that tells a topic from another of its name; None when there is no such topic."""
        described = self._describe(topic)
        return None if described is None else str(described.topic_id)

    def topic_settings(self, topic: str) -> dict[str, str]:
        """What a topic's configuration says, defaults included. Raises ClusterError."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        future = self._admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_SECONDS)[resource]
        found = self._result(future, f"read the settings of topic {topic}")
        return {name: entry.value for name, entry in found.items() if entry.value is not None}

    def delete_topic(self, topic: str) -> bool:
        """Delete a topic with all that is in it; False when there is none. Raises ClusterError."""
        future = self._admin.delete_topics([topic], request_timeout=REQUEST_TIMEOUT_SECONDS)[topic]
        try:
            return _deleted(future, KafkaError.UNKNOWN_TOPIC_OR_PART)
        except (KafkaException, TimeoutError) as error:
            raise ClusterError(f"cannot delete topic {topic} at {self.bootstrap}: {error}") from error

    def remove_topic(self, topic: str) -> bool:
        """Delete a topic and wait until it is gone; False when there was none. Raises ClusterError."""
        deleted = self.delete_topic(topic)
        deadline = time.monotonic() + TOPIC_GONE_SECONDS
        while self.topic_id(topic) is not None:
            if time.monotonic() > deadline:
                raise ClusterError(f"topic {topic} is still there at {self.bootstrap} after its deletion")
            time.sleep(0.05)
        return deleted

    def groups(self, prefix: str = "") -> list[str]:
        """The consumer groups whose names begin with `prefix`: those of all brokers. Raises ClusterError."""

        def ask() -> Any:
            listed = self._admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_SECONDS)
            result = listed.result(REQUEST_TIMEOUT_SECONDS + 5)
            if result.errors:
                # A broker that did not say its groups would look like one without groups.
                raise KafkaException(result.errors[0])
            return result.valid

        listed = self._group_result(ask, "list the groups")
        return sorted(group.group_id for group in listed if group.group_id.startswith(prefix))

    def offsets_retention_ms(self) -> int | None:
        """For how long the offsets of a group without members are kept; None when nobody may know."""
        brokers = self._result(
            self._admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_SECONDS), "describe the cluster"
        ).nodes
        resource = ConfigResource(ConfigResource.Type.BROKER, str(brokers[0].id))
        future = self._admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_SECONDS)[resource]
        try:
            minutes = future.result(REQUEST_TIMEOUT_SECONDS + 5)["offsets.retention.minutes"].value
        except KafkaException as error:
            if error.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                return None
            raise ClusterError(f"cannot read the settings of {self.bootstrap}: {error}") from error
        return int(minutes) * 60_000

    def _describe(self, name: str) -> TopicDescription | None:
        described = self._admin.describe_topics(
            TopicCollection([name]), request_timeout=REQUEST_TIMEOUT_SECONDS
        )
        try:
            found: TopicDescription = described[name].result(REQUEST_TIMEOUT_SECONDS + 5)
            return found
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise ClusterError(f"cannot describe topic {name} at {self.bootstrap}: {error}") from error
        except TimeoutError as error:
            raise ClusterError(f"cannot describe topic {name} at {self.bootstrap}: no answer") from error

    def topic_names(self) -> list[str]:
        """The topics of the cluster, without Kafka's internal ones. Raises ClusterError."""
        try:
            topics = self._admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS).topics
        except KafkaException as error:
            raise ClusterError(f"cannot list the topics at {self.bootstrap}: {error}") from error
        return sorted(name for name in topics if name not in _INTERNAL_TOPICS)

    def missing_topics(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that do not exist; asking creates none. Raises ClusterError."""
        return [name for name in names if self._describe(name) is None]

    def start_positions(self, topic: str) -> dict[int, int]:
        """The first offset of each partition."""
        return self._offsets(
            topic,
            OffsetSpec.earliest(),  # type: ignore[no-untyped-call]
        )

    def end_positions(self, topic: str) -> dict[int, int]:
        """The offset after the last committed record of each partition."""
        return self._offsets(
            topic,
            OffsetSpec.latest(),  # type: ignore[no-untyped-call]
        )

    def positions_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """The first offset of each partition with that time or a later one; the end where there is none."""
        spec = OffsetSpec.for_timestamp(timestamp_ms)
        ends = self.end_positions(topic)  # first: what comes meanwhile is not before the time
        found = self._offsets(topic, spec)
        return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}

    def latest_timestamp_ms(self, topic: str) -> int | None:
        """A time that no record of a topic is younger than; None when it has no records.

        Apache Kafka counts the markers of transactions in, whose time is the broker's clock.
        """
        spec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
        times = [found.timestamp for found in self._list_offsets(topic, spec).values() if found.offset >= 0]
        return max(times, default=None)

    def delete_records(self, topic: str, before: Positions) -> None:
        """Delete the records before these offsets. Raises ClusterError, also where the topic forbids it."""
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        if not wanted:
            return
        deleted = self._admin.delete_records(wanted, request_timeout=REQUEST_TIMEOUT_SECONDS)
        for future in deleted.values():
            self._result(future, f"delete records of topic {topic}")

    def _offsets(self, topic: str, spec: OffsetSpec) -> dict[int, int]:
        return {partition: found.offset for partition, found in self._list_offsets(topic, spec).items()}

    def _list_offsets(self, topic: str, spec: OffsetSpec) -> dict[int, ListOffsetsResultInfo]:
        wanted = {TopicPartition(topic, partition): spec for partition in self.partitions(topic)}
        found = self._admin.list_offsets(
            wanted,
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=REQUEST_TIMEOUT_SECONDS,
        )
        return {
            partition.partition: self._result(future, f"list offsets of {topic}")
            for partition, future in found.items()
        }

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The offsets a group has committed for a topic; a partition without a commit is left out."""
        return {partition: found.offset for partition, found in self.commits(group, topic).items()}

    def commits(self, group: str, topic: str) -> dict[int, CommittedOffset]:
        """What a group has committed for a topic, with the metadata; a partition without is left out."""
        found = self.commits_of(group, [(topic, partition) for partition in self.partitions(topic)])
        return {partition: committed for (_, partition), committed in found.items()}

    def commits_of(
        self, group: str, partitions: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], CommittedOffset]:
        """The same for partitions of any topics."""
        wanted = [TopicPartition(topic, partition) for topic, partition in partitions]
        # Not by the AdminClient: librdkafka 2.16 crashes in it when a coordinator answers that it is starting
        # or is none any more. This consumer never joins the group.
        consumer = Consumer(
            {
                **self._options,
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_uncommitted",
            }
        )
        try:
            found = self._group_result(
                lambda: consumer.committed(wanted, REQUEST_TIMEOUT_SECONDS),
                f"read the offsets of group {group}",
            )
        finally:
            consumer.close()
        for partition in found:
            if partition.error is not None:
                raise ClusterError(f"cannot read the offsets of group {group}: {partition.error}")
        return {
            (partition.topic, partition.partition): CommittedOffset(
                partition.offset, partition.metadata or ""
            )
            for partition in found
            if partition.offset >= 0
        }

    def commit(self, group: str, topic: str, positions: Positions, metadata: str = "") -> None:
        """Commit offsets for a group that has no members; `metadata` is kept with each of them."""
        if not positions:
            return
        offsets = [
            TopicPartition(topic, partition, offset, metadata) for partition, offset in positions.items()
        ]
        request = ConsumerGroupTopicPartitions(group, offsets)

        def ask() -> None:
            altered = self._admin.alter_consumer_group_offsets(
                [request], request_timeout=REQUEST_TIMEOUT_SECONDS
            )
            for partition in altered[group].result(REQUEST_TIMEOUT_SECONDS + 5).topic_partitions:
                if partition.error is not None:
                    raise KafkaException(partition.error)

        self._group_result(ask, f"commit offsets of group {group}")

    def delete_group(self, group: str) -> bool:
        """Remove a group and its offsets; False when there is none. Raises ClusterError, also for members."""

        def ask() -> bool:
            deleted = self._admin.delete_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_SECONDS)
            return _deleted(deleted[group], KafkaError.GROUP_ID_NOT_FOUND)

        return bool(self._group_result(ask, f"delete group {group}"))

    def lag(self, group: str, topic: str) -> int:
        """Records of a topic that a group has not committed yet, as lag tools count them."""
        committed = self.committed(group, topic)
        start = self.start_positions(topic)
        end = self.end_positions(topic)
        return sum(max(0, end[p] - max(committed.get(p, start[p]), start[p])) for p in end)

    def read(self, topic: str, since: Positions | None = None) -> Iterator[Message]:
        """The committed records of a topic from `since` (or its start) to what its end is now.

        Raises ClusterError when nothing arrives for READ_STALL_SECONDS.
        """
        start, end = self.start_positions(topic), self.end_positions(topic)
        begin = {p: max(start[p], (since or {}).get(p, start[p])) for p in end}
        wanted = [TopicPartition(topic, p, begin[p]) for p in end if begin[p] < end[p]]
        if not wanted:
            return
        consumer = self.consumer()
        try:
            consumer.assign(wanted)
            yield from _read_to(consumer, wanted, end, f"{topic} at {self.bootstrap}")
        finally:
            consumer.close()

    def consumer(self) -> Consumer:
        """A consumer outside any group that reads committed records, from the start unless told otherwise."""
        return Consumer(
            {
                **self._options,
                "group.id": "ottla-pipeline-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
                # By default the client rests for a second whenever 100,000 records wait in it.
                "fetch.queue.backoff.ms": 5,
            }
        )

    def follow(self, topics: Sequence[str]) -> Consumer:
        """A consumer of all that is in some topics and all that comes. The caller closes it."""
        consumer = self.consumer()
        consumer.assign(
            [
                TopicPartition(topic, partition, OFFSET_BEGINNING)
                for topic in topics
                for partition in self.partitions(topic)
            ]
        )
        return consumer

    def _group_result(self, ask: Callable[[], Any], what: str) -> Any:
        """The answer of a group's coordinator; asked again while that is only starting, or moving."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
        while True:
            try:
                return ask()
            except Exception as error:
                passing = isinstance(error, KafkaException) and error.args[0].code() in _COORDINATOR_STARTS
                if not passing or time.monotonic() >= deadline:
                    raise ClusterError(f"cannot {what} at {self.bootstrap}: {error}") from error
                time.sleep(0.1)

    def _result(self, future: Any, what: str) -> Any:
        try:
            return future.result(REQUEST_TIMEOUT_SECONDS + 5)
        except Exception as error:
            raise ClusterError(f"cannot {what} at {self.bootstrap}: {error}") from error


def _deleted(future: Any, missing: int) -> bool:
    """Whether something was deleted; False where the answer is `missing`. Raises as the future does."""
    try:
        future.result(REQUEST_TIMEOUT_SECONDS + 5)
    except KafkaException as error:
        if error.args[0].code() == missing:
            return False
        raise
    return True


def _read_to(
    consumer: Consumer, wanted: Sequence[TopicPartition], end: Positions, where: str
) -> Iterator[Message]:
    open_partitions = {partition.partition for partition in wanted}
    last_arrival = time.monotonic()
    while open_partitions:
        messages = consumer.consume(1000, timeout=0.5)
        if messages:
            last_arrival = time.monotonic()
        elif time.monotonic() - last_arrival > READ_STALL_SECONDS:
            raise ClusterError(f"nothing arrives from {where} any more")
        for message in messages:
            partition, offset, error = message.partition(), message.offset(), message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    if error.retriable() or error.code() == KafkaError._ALL_BROKERS_DOWN:
                        continue
                    raise ClusterError(f"cannot read {where}: {error}")
                # Control records at the very end leave no message to reach `end` with, only this event.
                open_partitions.discard(partition)
            elif partition in open_partitions and offset is not None and offset < end[partition]:
                yield message
                if offset + 1 >= end[partition]:
                    open_partitions.discard(partition)
            else:
                open_partitions.discard(partition)
