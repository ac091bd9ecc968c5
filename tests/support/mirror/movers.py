"""Consumers that move from one cluster to the other and back: what they read, read again, and never lose."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from support.clients.confluent import eventually

TIMEOUT_S = 90.0
MOST_READ_AGAIN = 1_000
"""Records of a partition after a failover, as the issue says."""


@dataclass(slots=True)
class Log:
    """The committed records of a topic: value and offset by partition, in their order."""

    partitions: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(map(len, self.partitions.values()))

    def values(self) -> dict[int, list[bytes]]:
        """The values of each partition, in order."""
        return {partition: [value for _, value in found] for partition, found in self.partitions.items()}

    def before(self, partition: int, offset: int) -> set[bytes]:
        """The values before an offset."""
        return {value for at, value in self.partitions[partition] if at < offset}

    def since(self, partition: int, offset: int) -> set[bytes]:
        """The values from an offset on."""
        return {value for at, value in self.partitions[partition] if at >= offset}


def read_log(access: Mapping[str, str], topic: str) -> Log:
    """Everything that is committed in a topic now. access: properties of a client."""
    consumer = Consumer(
        {
            **access,
            "group.id": "log",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    log = Log()
    try:
        known = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        log.partitions = {each: [] for each in known}
        consumer.assign([TopicPartition(topic, each, 0) for each in known])
        left = set(known)
        deadline = time.monotonic() + TIMEOUT_S
        while left:
            assert time.monotonic() < deadline, f"{topic} is not read to its end"
            for message in consumer.consume(5_000, 0.2):
                error = message.error()
                if error is None:
                    log.partitions[message.partition()].append((message.offset(), message.value() or b""))
                elif error.name() == "_PARTITION_EOF":
                    left.discard(message.partition())
    finally:
        consumer.close()
    return log


def write(
    access: Mapping[str, str],
    topic: str,
    dice: random.Random,
    count: int,
    partitions: int,
    *,
    keys: int = 0,
    transactions: bool = True,
) -> None:
    """Write records of different values, partly in transactions, of which some abort. keys: how many."""
    written = 0
    while written < count:
        transactional = transactions and dice.random() < 0.5
        settings: dict[str, object] = {
            **access,
            "linger.ms": 5,
            "batch.num.messages": dice.choice((3, 50, 1000)),
        }
        if transactional:
            settings["transactional.id"] = f"t-{dice.getrandbits(60):x}"
        producer = Producer(settings)
        if transactional:
            producer.init_transactions(TIMEOUT_S)
            producer.begin_transaction()
        some = dice.randint(1, max(1, min(count - written, count // 5 + 1)))
        for _ in range(some):
            key = str(dice.randrange(keys)).encode() if keys else None
            value = f"{dice.getrandbits(64):016x}".encode()
            producer.produce(topic, value, key, partition=dice.randrange(partitions))
        assert producer.flush(TIMEOUT_S) == 0
        if transactional and dice.random() < 0.3:
            producer.abort_transaction(TIMEOUT_S)
        elif transactional:
            producer.commit_transaction(TIMEOUT_S)
        written += some


def committed(access: Mapping[str, str], group: str, topic: str, partitions: int) -> dict[int, int]:
    """The offsets of a group for a topic; -1001 where it has none."""
    consumer = Consumer({**access, "group.id": group})
    try:
        wanted = [TopicPartition(topic, each) for each in range(partitions)]
        return {each.partition: each.offset for each in consumer.committed(wanted, 20)}
    except KafkaException:
        return dict.fromkeys(range(partitions), -1001)
    finally:
        consumer.close()


def commit(access: Mapping[str, str], group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit offsets for a group without members."""
    consumer = Consumer({**access, "group.id": group})
    try:
        places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        for each in consumer.commit(offsets=places, asynchronous=False):
            assert each.error is None, each
    finally:
        consumer.close()


@dataclass(slots=True)
class Mover:
    """A group, and what it has read of a topic so far: all before its offsets on the cluster where it is.

    unread: what it has surely not read. Of a compacted topic the other cluster may have more records.
    """

    group: str
    read: dict[int, set[bytes]]
    unread: dict[int, set[bytes]]

    @classmethod
    def begin(cls, access: Mapping[str, str], group: str, topic: str, log: Log, dice: random.Random) -> Mover:
        """A group that stands at drawn places of a topic: at records, in holes, at the start, at the end."""
        offsets = {}
        for partition, records in log.partitions.items():
            end = records[-1][0] + 1 if records else 0
            offsets[partition] = dice.choice(
                (end, dice.randint(0, end), dice.randint(max(0, end - 300), end))
            )
        commit(access, group, topic, offsets)
        read = {each: log.before(each, offset) for each, offset in offsets.items()}
        return cls(group, read, {each: log.since(each, offset) for each, offset in offsets.items()})

    def moved(
        self,
        access: Mapping[str, str],
        topic: str,
        log: Callable[[], Log],
        most: int = MOST_READ_AGAIN,
        *,
        compacted: bool = False,
    ) -> dict[int, int]:
        """Wait until its offsets in the other cluster are near; they must never be ahead. The offsets.

        log: of the topic there. Partitions of which nothing was read may have no offset.
        """
        found: dict[int, int] = {}

        def is_near() -> bool:
            offsets = committed(access, self.group, topic, len(self.read))
            there = log()
            near = True
            for partition, read in self.read.items():
                offset = offsets[partition]
                if offset < 0:
                    near = near and not read & there.since(partition, 0)
                    continue
                before = there.before(partition, offset)
                skipped = before & self.unread[partition] if compacted else before - read
                assert not skipped, f"{self.group}: {len(skipped)} records of {topic}-{partition} are lost"
                again = there.since(partition, offset) & read
                near = near and len(again) <= most
            found.update(offsets)
            return near

        eventually(is_near, f"{self.group} is near its place in {topic}", TIMEOUT_S)
        return found

    def read_on(self, log: Log, offsets: Mapping[int, int], dice: random.Random) -> dict[int, int]:
        """Read further from offsets in the cluster where it is now, to drawn places; the new offsets."""
        after = {}
        for partition, records in log.partitions.items():
            start = max(0, offsets.get(partition, 0))
            end = records[-1][0] + 1 if records else 0
            after[partition] = dice.randint(min(start, end), end)
            some = {value for at, value in records if start <= at < after[partition]}
            self.read[partition] |= some
            self.unread[partition] -= some
        return after


def until_equal(wanted: Callable[[], object], found: Callable[[], object], told: str) -> None:
    """Wait until two things are the same."""
    eventually(lambda: wanted() == found(), told, TIMEOUT_S)


def names_of(topics: Sequence[str]) -> set[str]:
    """The topics that users see: without the mirrors', Connect's and Kafka's own."""
    return {each for each in topics if not each.endswith(".internal") and not each.startswith("__")}
