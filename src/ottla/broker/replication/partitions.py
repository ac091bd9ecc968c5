"""The partitions that this broker holds, found by topic name or id; those that it leads are kept apart.

Every produce and fetch begins here, so a look-up that succeeds is two steps in dictionaries and reads no
metadata. One that fails asks the metadata for the reason: the client learns whether to look for another
leader or for the topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ottla.broker.replication.partition import Partition, Traffic
from ottla.protocol.errors import ErrorCode, NotLeaderOrFollower, UnknownTopicId, UnknownTopicOrPartition

if TYPE_CHECKING:
    from ottla.broker.parts import Cluster

_NOTHING: Mapping[int, Partition] = {}
_NO_TRAFFIC: Final = Traffic()
_ORDINARY: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Errors that Apache Kafka does not count as failed requests."""
_BEFORE_THE_LOG: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
"""Errors of produced batches that Apache Kafka finds before it counts an append."""


class Refusals:
    """The partitions of produce and fetch requests that were refused: by error, and by topic.

    Names that are no topic's are counted together: clients can think of any number of them.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.produce: Counter[int] = Counter()
        self.fetch: Counter[int] = Counter()
        self.failed_produces: Counter[str | None] = Counter()
        """By topic; of the kinds that Apache Kafka counts, which leaves out what clients do wrong often."""
        self.refused_appends: Counter[str | None] = Counter()
        """By topic; all that Apache Kafka counts as requests to produce to a partition."""
        self.failed_fetches: Counter[str | None] = Counter()

    def count_produce(self, topic: str | UUID, code: int) -> None:
        """A partition of a produce request was refused."""
        self.produce[code] += 1
        if code in _BEFORE_THE_LOG:
            return
        known = self._known(topic)
        self.refused_appends[known] += 1
        if code not in _ORDINARY:
            self.failed_produces[known] += 1

    def count_fetch(self, topic: str | UUID | None, code: int) -> None:
        """A partition of a fetch request was refused, or with None the request as a whole."""
        self.fetch[code] += 1
        if code not in _ORDINARY:
            self.failed_fetches[self._known(topic)] += 1

    def forget_topic(self, name: str) -> None:
        """A topic is deleted: its failures count among those of no topic."""
        for failed in (self.failed_produces, self.failed_fetches, self.refused_appends):
            failed[None] += failed.pop(name, 0)

    def _known(self, topic: str | UUID | None) -> str | None:
        image = self._cluster.image
        known = image.topics_by_id.get(topic) if isinstance(topic, UUID) else image.topics.get(topic or "")
        return None if known is None else known.name


class Partitions:
    """All partitions with a replica on this broker. Iteration gives every one of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._held: dict[str, dict[int, Partition]] = {}
        self._held_by_id: dict[UUID, dict[int, Partition]] = {}
        self._led: dict[str, dict[int, Partition]] = {}
        self._led_by_id: dict[UUID, dict[int, Partition]] = {}
        self._serves_followed = False
        self.gone: dict[str, Traffic] = {}
        """The traffic of replicas that have left this broker, by topic: its counters must not go back."""
        self.refusals = Refusals(cluster)
        self.follower_fetches: Counter[int] = Counter()
        """The fetches of followers, by version of the request."""
        self.gone_topics = Traffic()
        """That of topics that are deleted."""

    # -- look-up ------------------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        """The partition as its leader. Raises UnknownTopicOrPartition or NotLeaderOrFollower."""
        try:
            return self._led[topic][index]
        except KeyError:
            pass
        known = self._cluster.image.topics.get(topic)
        if known is None or index not in known.partitions:
            raise UnknownTopicOrPartition()
        raise NotLeaderOrFollower()

    def partition_by_id(self, topic_id: UUID, index: int) -> Partition:
        """Like `partition`. Raises UnknownTopicId when no topic has that id."""
        try:
            return self._led_by_id[topic_id][index]
        except KeyError:
            pass
        known = self._cluster.image.topics_by_id.get(topic_id)
        if known is None:
            raise UnknownTopicId()
        return self.partition(known.name, index)

    def replica(self, topic: str | UUID, index: int) -> Partition:
        """The partition, led or followed here (KIP-392). Raises as `partition` and `partition_by_id`."""
        if self._serves_followed:
            by_index = self._held_by_id.get(topic) if isinstance(topic, UUID) else self._held.get(topic)
            held = None if by_index is None else by_index.get(index)
            if held is not None:
                return held
        if isinstance(topic, UUID):
            return self.partition_by_id(topic, index)
        return self.partition(topic, index)

    def __iter__(self) -> Iterator[Partition]:
        for by_index in self._held.values():
            yield from by_index.values()

    def held(self, topic: str, index: int) -> Partition | None:
        """The partition if a replica of it is open here, whatever its role."""
        return self._held.get(topic, _NOTHING).get(index)

    def of_topic(self, topic: str) -> Collection[Partition]:
        """The topic's partitions that are open here."""
        return self._held.get(topic, _NOTHING).values()

    def of_topic_id(self, topic_id: UUID) -> list[Partition]:
        """The same of the topic with an id."""
        return list(self._held_by_id.get(topic_id, _NOTHING).values())

    def led_by_topic(self) -> Iterator[list[Partition]]:
        """The partitions that this broker leads, topic by topic; roles may change between two topics."""
        for by_index in list(self._led.values()):
            yield list(by_index.values())

    # -- changes, by the roles alone ----------------------------------------------------------------

    def serve_followed(self) -> None:
        """The broker has taken its roles: consumers may read from followers from now on."""
        self._serves_followed = True

    def add(self, partition: Partition) -> None:
        """A replica was opened."""
        self._held.setdefault(partition.topic, {})[partition.index] = partition
        self._held_by_id.setdefault(partition.topic_id, {})[partition.index] = partition

    def lead(self, partition: Partition) -> None:
        """This broker leads the partition now."""
        self._led.setdefault(partition.topic, {})[partition.index] = partition
        self._led_by_id.setdefault(partition.topic_id, {})[partition.index] = partition

    def resign(self, partition: Partition) -> None:
        """This broker leads the partition no more."""
        self._led.get(partition.topic, {}).pop(partition.index, None)
        self._led_by_id.get(partition.topic_id, {}).pop(partition.index, None)

    def remove(self, partition: Partition) -> None:
        """The replica is gone from here."""
        self.gone[partition.topic] = partition.traffic.plus(self.gone.get(partition.topic, _NO_TRAFFIC))
        self._held.get(partition.topic, {}).pop(partition.index, None)
        self._held_by_id.get(partition.topic_id, {}).pop(partition.index, None)

    def forget_topic(self, topic_id: UUID, name: str) -> None:
        """A topic is deleted, and its partitions are removed."""
        self.gone_topics = self.gone_topics.plus(self.gone.pop(name, _NO_TRAFFIC))
        self.refusals.forget_topic(name)
        for by_id in (self._held_by_id, self._led_by_id):
            by_id.pop(topic_id, None)
        for by_name in (self._held, self._led):
            by_name.pop(name, None)
