"""Offsets that groups have committed: read, committed from outside, and deleted with their group.

Offsets are never read by an AdminClient: librdkafka 2.16 crashes in it when a broker answers that it is not
ready as the coordinator, or not the coordinator any more. A consumer of the group asks for them; it never
joins.

Neither gives a commit's metadata exactly. librdkafka 2.16 copies them without a NUL at the end, and the
Python client reads on to the next one: stray bytes of the memory behind may follow, or make it raise
UnicodeDecodeError. So a text that ottla commits shows its own end (JSON, an id of fixed length), and its
readers pass over the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from ottla.client.access import ClusterAccess
from ottla.client.answers import Answers
from ottla.client.errors import ClusterError


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's commit for a partition: the next offset to read, and the text that was committed with it.

    The text may be followed by stray characters, see the module.
    """

    offset: int
    metadata: str


def metadata_of(commit: TopicPartition) -> str:
    """The metadata of a commit that librdkafka has read, perhaps followed by stray characters."""
    try:
        return commit.metadata or ""
    except UnicodeDecodeError as problem:
        return problem.object.decode(errors="replace")


class GroupOffsets:
    """The groups of a cluster and their offsets. Every call is bounded in time; raises ClusterError."""

    def __init__(self, access: ClusterAccess, admin: AdminClient, answers: Answers) -> None:
        self._access = access
        self._admin = admin
        self._answers = answers

    def groups(self, prefix: str) -> list[str]:
        """The consumer groups of all brokers whose names begin with `prefix`."""

        def ask() -> Any:
            timeout = self._answers.timeout_seconds
            result = self._answers.awaited(self._admin.list_consumer_groups(request_timeout=timeout))
            if result.errors:
                # A broker that did not answer would look like one without groups.
                raise KafkaException(result.errors[0])
            return result.valid

        listed = self._answers.of_coordinator(ask, "list the groups")
        return sorted(group.group_id for group in listed if group.group_id.startswith(prefix))

    def committed(
        self, group: str, partitions: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], CommittedOffset]:
        """A group's commits for partitions of any topics; a partition without a commit is left out."""
        wanted = [TopicPartition(topic, partition) for topic, partition in partitions]
        consumer = Consumer(
            self._access.librdkafka(
                {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
            )
        )
        reading = f"read the offsets of group {group}"
        try:
            found = self._answers.of_coordinator(
                lambda: consumer.committed(wanted, self._answers.timeout_seconds), reading
            )
        finally:
            consumer.close()
        for partition in found:
            if partition.error is not None:
                raise ClusterError(f"cannot {reading}: {partition.error}")
        return {
            (partition.topic, partition.partition): CommittedOffset(partition.offset, metadata_of(partition))
            for partition in found
            if partition.offset >= 0
        }

    def commit(self, group: str, topic: str, positions: Mapping[int, int], metadata: str) -> None:
        """Commit offsets for a group that has no members; `metadata` is kept with each of them."""
        offsets = [
            TopicPartition(topic, partition, offset, metadata) for partition, offset in positions.items()
        ]
        request = ConsumerGroupTopicPartitions(group, offsets)

        def ask() -> None:
            altered = self._admin.alter_consumer_group_offsets(
                [request], request_timeout=self._answers.timeout_seconds
            )
            for partition in self._answers.awaited(altered[group]).topic_partitions:
                if partition.error is not None:
                    raise KafkaException(partition.error)

        self._answers.of_coordinator(ask, f"commit offsets of group {group}")

    def delete_group(self, group: str) -> bool:
        """Remove a group and its offsets; False when there is none. Raises ClusterError, also for members."""

        def ask() -> bool:
            deleted = self._admin.delete_consumer_groups(
                [group], request_timeout=self._answers.timeout_seconds
            )
            return self._answers.deleted(deleted[group], KafkaError.GROUP_ID_NOT_FOUND)

        return self._answers.of_coordinator(ask, f"delete group {group}")
