"""A cluster as its clients see it: its topics with their settings and positions, its groups, its records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec
from confluent_kafka.admin._topic import TopicDescription
from confluent_kafka.cimpl import NewTopic

from ottla.client.access import ClusterAccess
from ottla.client.answers import Answers
from ottla.client.errors import ClusterError, NoSuchTopic
from ottla.client.offsets import CommittedOffset, GroupOffsets
from ottla.client.reading import read, reader

TOPIC_GONE_SECONDS: Final = 30.0
_INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__ottla_audit_log"}
)

Positions = Mapping[int, int]
"""Offsets of one topic by partition: the next offset to read or to be written."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that a pipeline needs, with the settings for its creation when it is missing."""

    name: str
    partitions: int = 1
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)


class KafkaCluster:
    """A cluster as its clients see it. Every call is bounded in time; a ClusterError names the request.

    `client_options` are librdkafka properties (security settings, for one) of all clients that it makes;
    `client_id` is the administration's, unless they have one.
    """

    def __init__(
        self,
        bootstrap: str,
        client_options: Mapping[str, str] | None = None,
        client_id: str = "ottla-pipeline",
    ) -> None:
        self.bootstrap = bootstrap
        self._access = ClusterAccess(bootstrap, {"log_level": "0", **(client_options or {})})
        self._admin = AdminClient({"client.id": client_id, **self._access.librdkafka()})
        self._answers = Answers(bootstrap)
        self._timeout_seconds = self._answers.timeout_seconds
        self._offsets = GroupOffsets(self._access, self._admin, self._answers)

    def producer_options(self) -> dict[str, Any]:
        """Options of an idempotent producer that puts a key where Java clients and Spark put it.

        It makes no topic: one that was deleted would come back with other partitions and settings.
        """
        return {
            "allow.auto.create.topics": "false",
            **self._access.librdkafka(),
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
        """The cluster's own id. Raises ClusterError."""
        return str(self._described().cluster_id)

    def broker_count(self) -> int:
        """How many brokers the cluster has at the moment. Raises ClusterError."""
        return len(self._described().nodes)

    def _described(self) -> Any:
        return self._answers.value(
            self._admin.describe_cluster(request_timeout=self._timeout_seconds), "describe the cluster"
        )

    def ensure_topics(self, topics: Sequence[Topic]) -> dict[str, str]:
        """Create the topics that are missing; return the id of each. An existing topic is left as it is."""
        self._create(topics)
        names = [topic.name for topic in topics]
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            ids = self._topic_ids(names)
            if ids is not None:
                return ids
            if time.monotonic() > deadline:
                raise ClusterError(f"topics {', '.join(names)} have no leader at {self.bootstrap}")
            time.sleep(0.05)

    def create_topic(self, topic: Topic) -> bool:
        """Create a topic; False when one of its name is there. Raises ClusterError."""
        return bool(self._create([topic]))

    def _create(self, topics: Sequence[Topic]) -> list[str]:
        """The names of the topics that were not there before."""
        wanted = [
            NewTopic(topic.name, topic.partitions, topic.replication_factor, config=dict(topic.config))
            for topic in topics
        ]
        names = []
        for name, future in self._admin.create_topics(wanted, request_timeout=self._timeout_seconds).items():
            try:
                self._answers.awaited(future)
                names.append(name)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise self._answers.failure(f"create topic {name}", error) from error
        return names

    def _topic_ids(self, names: Sequence[str]) -> dict[str, str] | None:
        ids = {}
        for name in names:
            topic = self._describe(name)
            if topic is None or not topic.partitions or any(p.leader is None for p in topic.partitions):
                return None
            ids[name] = str(topic.topic_id)
        return ids

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic. Creates no topic. Raises NoSuchTopic, ClusterError."""
        described = self._describe(topic)
        if described is None:
            raise self._no_topic(topic)
        return sorted(partition.id for partition in described.partitions)

    def replicas(self, topic: str) -> int:
        """The replicas that each partition of a topic has. Raises NoSuchTopic, ClusterError."""
        described = self._describe(topic)
        if described is None:
            raise self._no_topic(topic)
        return max((len(each.replicas) for each in described.partitions), default=0)

    def topic_id(self, topic: str) -> str | None:
        """The topic's id, which a later topic of its name does not have; None when there is no such topic."""
        described = self._describe(topic)
        return None if described is None else str(described.topic_id)

    def topic_settings(self, topic: str) -> dict[str, str]:
        """A topic's configuration, defaults included. Raises NoSuchTopic, ClusterError."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        future = self._admin.describe_configs([resource], request_timeout=self._timeout_seconds)[resource]
        found = self._of_topic(future, topic, f"read the settings of topic {topic}")
        return {name: entry.value for name, entry in found.items() if entry.value is not None}

    def set_topic_settings(self, topic: str, settings: Mapping[str, str]) -> None:
        """Set some of a topic's settings and leave the others. Raises NoSuchTopic, ClusterError."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        altered = self._admin.incremental_alter_configs([resource], request_timeout=self._timeout_seconds)
        self._of_topic(altered[resource], topic, f"change the settings of topic {topic}")

    def _of_topic(self, future: Any, topic: str, wanted: str) -> Any:
        """The value of a future. Raises NoSuchTopic, ClusterError."""
        try:
            return self._answers.awaited(future)
        except Exception as error:
            if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise self._no_topic(topic) from None
            raise self._answers.failure(wanted, error) from error

    def _no_topic(self, topic: str) -> NoSuchTopic:
        return NoSuchTopic(f"there is no topic {topic} at {self.bootstrap}")

    def delete_topic(self, topic: str) -> bool:
        """Delete a topic and its records; False when there is none. Raises ClusterError."""
        future = self._admin.delete_topics([topic], request_timeout=self._timeout_seconds)[topic]
        try:
            return self._answers.deleted(future, KafkaError.UNKNOWN_TOPIC_OR_PART)
        except (KafkaException, TimeoutError) as error:
            raise self._answers.failure(f"delete topic {topic}", error) from error

    def remove_topic(self, topic: str) -> bool:
        """Delete a topic and wait until it is gone; False when there was none. Raises ClusterError."""
        deleted = self.delete_topic(topic)
        deadline = time.monotonic() + TOPIC_GONE_SECONDS
        while self.topic_id(topic) is not None:
            if time.monotonic() > deadline:
                raise ClusterError(f"topic {topic} is still there at {self.bootstrap} after its deletion")
            time.sleep(0.05)
        return deleted

    def offsets_retention_ms(self) -> int | None:
        """How long offsets of a group without members are kept; None if the user may not see the setting."""
        brokers = self._described().nodes
        resource = ConfigResource(ConfigResource.Type.BROKER, str(brokers[0].id))
        future = self._admin.describe_configs([resource], request_timeout=self._timeout_seconds)[resource]
        try:
            minutes = self._answers.awaited(future)["offsets.retention.minutes"].value
        except KafkaException as error:
            if error.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                return None
            raise ClusterError(f"cannot read the settings of {self.bootstrap}: {error}") from error
        return int(minutes) * 60_000

    def _describe(self, name: str) -> TopicDescription | None:
        described = self._admin.describe_topics(
            TopicCollection([name]), request_timeout=self._timeout_seconds
        )
        try:
            found: TopicDescription = self._answers.awaited(described[name])
            return found
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise self._answers.failure(f"describe topic {name}", error) from error
        except TimeoutError as error:
            raise self._answers.failure(f"describe topic {name}", "no answer") from error

    def topic_names(self) -> list[str]:
        """The topics of the cluster, without Kafka's internal ones. Raises ClusterError."""
        try:
            topics = self._admin.list_topics(timeout=self._timeout_seconds).topics
        except KafkaException as error:
            raise self._answers.failure("list the topics", error) from error
        return sorted(name for name in topics if name not in _INTERNAL_TOPICS)

    def missing_topics(self, names: Sequence[str]) -> list[str]:
        """The topics among `names` that do not exist. Creates none. Raises ClusterError."""
        return [name for name in names if self._describe(name) is None]

    def start_positions(self, topic: str) -> dict[int, int]:
        """The first offset of each partition."""
        return self._offsets_at(
            topic,
            OffsetSpec.earliest(),  # type: ignore[no-untyped-call]
        )

    def end_positions(self, topic: str) -> dict[int, int]:
        """The offset after the last committed record of each partition."""
        return self._offsets_at(
            topic,
            OffsetSpec.latest(),  # type: ignore[no-untyped-call]
        )

    def positions_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """The first offset of each partition with that time or a later one; the end where there is none."""
        spec = OffsetSpec.for_timestamp(timestamp_ms)
        ends = self.end_positions(topic)  # first: records that come meanwhile are not before the time
        found = self._offsets_at(topic, spec)
        return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}

    def latest_timestamp_ms(self, topic: str) -> int | None:
        """An upper bound of the timestamps of a topic's records; None when it has no records.

        Apache Kafka includes the markers of transactions, whose timestamps are those of the broker's clock.
        """
        spec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
        times = [found.timestamp for found in self._list_offsets(topic, spec).values() if found.offset >= 0]
        return max(times, default=None)

    def ends_of(
        self, partitions: Iterable[tuple[str, int]], *, committed: bool = True
    ) -> dict[tuple[str, int], int]:
        """The offset after the last committed record of each partition, or after the last of all records."""
        spec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._offsets_of(partitions, spec, committed=committed)

    def offsets_since(
        self, partitions: Iterable[tuple[str, int]], timestamp_ms: int
    ) -> dict[tuple[str, int], int]:
        """The first offset of each partition with that time or a later one; without one it is left out."""
        found = self._offsets_of(partitions, OffsetSpec.for_timestamp(timestamp_ms), committed=True)
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def _offsets_of(
        self, partitions: Iterable[tuple[str, int]], spec: OffsetSpec, *, committed: bool
    ) -> dict[tuple[str, int], int]:
        wanted = {TopicPartition(topic, partition): spec for topic, partition in partitions}
        if not wanted:
            return {}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = self._admin.list_offsets(wanted, isolation_level=level, request_timeout=self._timeout_seconds)
        return {
            (place.topic, place.partition): self._answers.value(
                future, f"list offsets of {place.topic}"
            ).offset
            for place, future in asked.items()
        }

    def delete_records(self, topic: str, before: Positions) -> None:
        """Delete the records before these offsets. Raises ClusterError, also where the topic forbids it."""
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        if not wanted:
            return
        deleted = self._admin.delete_records(wanted, request_timeout=self._timeout_seconds)
        for future in deleted.values():
            self._answers.value(future, f"delete records of topic {topic}")

    def _offsets_at(self, topic: str, spec: OffsetSpec) -> dict[int, int]:
        return {partition: found.offset for partition, found in self._list_offsets(topic, spec).items()}

    def _list_offsets(self, topic: str, spec: OffsetSpec) -> dict[int, ListOffsetsResultInfo]:
        wanted = {TopicPartition(topic, partition): spec for partition in self.partitions(topic)}
        found = self._admin.list_offsets(
            wanted,
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self._timeout_seconds,
        )
        return {
            partition.partition: self._answers.value(future, f"list offsets of {topic}")
            for partition, future in found.items()
        }

    def groups(self, prefix: str = "") -> list[str]:
        """The consumer groups of all brokers whose names begin with `prefix`. Raises ClusterError."""
        return self._offsets.groups(prefix)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The offsets a group has committed for a topic; a partition without a commit is left out."""
        return {partition: found.offset for partition, found in self.commits(group, topic).items()}

    def commits(self, group: str, topic: str) -> dict[int, CommittedOffset]:
        """A group's commits for a topic, with their metadata; a partition without a commit is left out."""
        found = self.commits_of(group, [(topic, partition) for partition in self.partitions(topic)])
        return {partition: committed for (_, partition), committed in found.items()}

    def commits_of(
        self, group: str, partitions: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], CommittedOffset]:
        """A group's commits for partitions of any topics; a partition without a commit is left out."""
        return self._offsets.committed(group, partitions)

    def commit(self, group: str, topic: str, positions: Positions, metadata: str = "") -> None:
        """Commit offsets for a group that has no members; `metadata` is kept with each of them."""
        if positions:
            self._offsets.commit(group, topic, positions, metadata)

    def delete_group(self, group: str) -> bool:
        """Remove a group and its offsets; False when there is none. Raises ClusterError, also for members."""
        return self._offsets.delete_group(group)

    def lag(self, group: str, topic: str) -> int:
        """The number of a topic's records that a group has not committed yet, as lag tools count them."""
        committed = self.committed(group, topic)
        start = self.start_positions(topic)
        end = self.end_positions(topic)
        return sum(max(0, end[p] - max(committed.get(p, start[p]), start[p])) for p in end)

    def read(self, topic: str, since: Positions | None = None) -> Iterator[Message]:
        """The committed records of a topic from `since` (or its start) to its present end.

        Raises ClusterError, also when nothing arrives for a while.
        """
        start, end = self.start_positions(topic), self.end_positions(topic)
        begin = {p: max(start[p], (since or {}).get(p, start[p])) for p in end}
        return read(self._access, topic, begin, end)

    def consumer(self, properties: Mapping[str, Any] | None = None) -> Consumer:
        """A consumer outside any group that reads committed records, from the offsets that it is assigned.

        properties: librdkafka's, in place of the reader's own.
        """
        return reader(self._access, properties or {})

    def follow(self, topics: Sequence[str]) -> Consumer:
        """A consumer of all present and coming records of some topics. The caller closes it."""
        consumer = self.consumer()
        consumer.assign(
            [
                TopicPartition(topic, partition, OFFSET_BEGINNING)
                for topic in topics
                for partition in self.partitions(topic)
            ]
        )
        return consumer
