"""Topics are deleted and made again under load while their logs are flushed, cut, cleaned and searched.

The short test ends a broker in the middle of a cleaning. The drill does all of it at once for minutes
(OTTLA_DRILL_SECONDS, ten minutes by default), on one broker and on three, with kills of brokers and of the
processes that clean: no broker ends by itself, no offset is given twice, and all that was acknowledged to the
topic as it is now can be read, its last record too.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.record_batch import decode_records, iterate_headers
from support.clients.cluster_load import QUICK_CLIENT
from support.clients.wire import ConnectionClosed, WireClient, batch, wait_for
from support.servers.cluster import ServerError
from support.servers.clusters import ClusterPlan, NodeCluster, combined
from support.servers.ottla_broker import OttlaBroker
from support.servers.processes import cleaning_processes

StartNodes = Callable[[ClusterPlan], AbstractContextManager[NodeCluster]]

PARTITIONS = 2
NAMED_BYTES = 40
"""So much of a value tells it from all others."""
DRILL_SECONDS = float(os.environ.get("OTTLA_DRILL_SECONDS", "600"))
FLUSH_SECONDS = 120
"""How long a producer may take to get its answers, restarts of brokers included."""
SETTINGS = {
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "20",
    "log.segment.delete.delay.ms": "50",
    "log.cleaner.backoff.ms": "20",
    "log.flush.offset.checkpoint.interval.ms": "50",
    "replica.high.watermark.checkpoint.interval.ms": "50",
    "auto.create.topics.enable": "false",
}
SMALL = {"segment.bytes": "1048576"}
CONFIGS = (
    {**SMALL, "flush.messages": "1"},
    {**SMALL, "flush.ms": "1", "retention.bytes": "2000000"},
    {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    {**SMALL, "retention.ms": "1000", "cleanup.policy": "compact,delete"},
)
NAMES = ("orders", "payments", "shipments")
KEEPS_ALL = CONFIGS[0]


# --- the end of a broker that is cleaning ---------------------------------------------------------------


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs /proc")
@pytest.mark.parametrize("whom", ["the broker alone", "all processes at once"])
def test_a_broker_that_is_ended_while_it_cleans_says_nothing_of_it(whom: str, tmp_path: Path) -> None:
    settings = {**SETTINGS, "log.cleaner.io.max.bytes.per.second": "20000"}
    with OttlaBroker.start(tmp_path / "data", settings=settings) as broker:
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic("t", config=CONFIGS[2])
            for _ in range(30):
                assert client.produce("t", 0, batch(10, os.urandom(10_000))).error_code == 0
        wait_for(lambda: bool(cleaning_processes(broker.pid)))
        (child,) = cleaning_processes(broker.pid)

        if whom == "all processes at once":
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)

        assert broker.stop() == 0
        output = broker.server.log_path.read_text()
        assert "Traceback" not in output and "never retrieved" not in output and "Exception" not in output
        assert not Path(f"/proc/{child}").exists()


# --- the drill ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Topic:
    """A topic as it was made last, and what was acknowledged to it since."""

    name: str
    config: dict[str, str]
    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)
    given_twice: list[str] = field(default_factory=list)

    def note(self, partition: int, offset: int, value: bytes) -> None:
        known = self.acknowledged.setdefault((partition, offset), value)
        if known != value:
            self.given_twice.append(f"{self.name}-{partition} offset {offset}: {known!r} and {value!r}")


class Drill:
    """Everything that happens to a cluster's topics. One thread for each kind of trouble."""

    def __init__(self, cluster: NodeCluster, seed: int) -> None:
        self.cluster = cluster
        self.dice = random.Random(seed)
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUICK_CLIENT})
        self.ended = threading.Event()
        self.problems: list[str] = []
        self.counts: dict[str, int] = {}
        self.replicas = min(2, len(cluster.brokers))

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # -- the topics' lives, each in a thread ---------------------------------------------------------

    def lives(self, name: str) -> None:
        """Make, fill, read, delete, again and again; the deletion comes while the noise goes on."""
        number = 0
        settings = {"acks": "all", "linger.ms": 1, **QUICK_CLIENT}
        while not self.ended.is_set():
            topic = Topic(name, self.dice.choice(CONFIGS))
            self.make(topic)
            # One that heard of a later epoch of the old topic may never find a leader (librdkafka#4898).
            producer = Producer({"bootstrap.servers": self.cluster.bootstrap, **settings})
            for _ in range(self.dice.randint(1, 8)):
                for _ in range(self.dice.choice((1, 20, 100))):
                    number += 1
                    self.send(producer, topic, b"%s/%d/" % (name.encode(), number) + b"x" * 3000)
                left = producer.flush(FLUSH_SECONDS)
                assert not left, f"{name}: {left} records without an answer\n{self.cluster.metadata(name)}"
            self.check(topic)
            self.delete(topic)
            self.count("lives")

    @staticmethod
    def send(producer: Producer, topic: Topic, value: bytes) -> None:
        def acknowledged(error: Any, message: Any) -> None:
            if error is None:
                topic.note(message.partition(), message.offset(), value[:NAMED_BYTES])

        while True:
            try:
                producer.produce(topic.name, value, key=value[-3:], on_delivery=acknowledged)
                break
            except (BufferError, KafkaException):  # the client has not heard of the new topic yet
                producer.poll(0.05)
        producer.poll(0)

    def make(self, topic: Topic) -> None:
        new = NewTopic(topic.name, PARTITIONS, self.replicas, config=topic.config)
        self.patiently(lambda: self.admin.create_topics([new])[topic.name].result(), "already exists")
        # A broker that has not heard of the deletion yet takes records for the old topic, by its name.
        self.cluster.eventually(lambda: self.is_known_everywhere(topic.name), "the new topic on every broker")

    def is_known_everywhere(self, name: str) -> bool:
        told = [self.cluster.metadata(name, of=each.node_id) for each in self.cluster.brokers if each.serving]
        return len({each.topics[0].topic_id for each in told}) == 1 and not told[0].topics[0].error_code

    def delete(self, topic: Topic) -> None:
        self.patiently(lambda: self.admin.delete_topics([topic.name])[topic.name].result(), "Unknown topic")

    def patiently(self, call: Callable[[], object], done: str) -> None:
        """Ask until it is done; brokers may be away, and the answer to what was carried out lost."""
        deadline = time.monotonic() + 120
        while True:
            try:
                call()
                return
            except KafkaException as problem:
                if done.lower() in str(problem).lower():
                    return
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def check(self, topic: Topic) -> None:
        """Every acknowledged record is there, except those that retention and compaction may remove."""
        assert not topic.given_twice, topic.given_twice
        for partition in range(PARTITIONS):
            start, found = self.contents(topic.name, partition)
            wanted = {
                offset: value
                for (where, offset), value in topic.acknowledged.items()
                if where == partition and offset >= start
            }
            wrong = [each for each in wanted if found.get(each, wanted[each])[:NAMED_BYTES] != wanted[each]]
            assert not wrong, f"{topic.name}-{partition}: other records at {wrong[:5]}"
            if topic.config == KEEPS_ALL:
                missing = sorted(wanted.keys() - found.keys())
                assert not missing, f"{topic.name}-{partition}: acknowledged and gone: {missing[:5]}"
                assert not wanted or start == 0

    def contents(self, topic: str, partition: int) -> tuple[int, dict[int, bytes]]:
        """Where a partition starts, and its records by offset, asked of its leader."""
        deadline = time.monotonic() + 120
        while True:
            try:
                leader = self.cluster.partition(topic, partition).leader_id
                with self.cluster.wire(leader) as client:
                    return read_to_the_end(client, topic, partition)
            except (NotYet, AssertionError, ConnectionClosed, OSError, ServerError, LookupError) as problem:
                assert time.monotonic() < deadline, f"{topic}-{partition} can't be read: {problem!r}"
                time.sleep(0.05)

    # -- trouble ---------------------------------------------------------------------------------------

    def noise(self) -> None:
        """Records that are not counted, to the topics that there are at the moment.

        Each producer outlives many topics, so that it knows leaders of old ones. It ends after seconds, as it
        may never find the leaders of new ones (librdkafka#4898).
        """
        settings = {"acks": "1", "queue.buffering.max.kbytes": 20_000, "message.timeout.ms": 2_000}
        while not self.ended.is_set():
            producer = Producer({"bootstrap.servers": self.cluster.bootstrap, **settings, **QUICK_CLIENT})
            end = time.monotonic() + self.dice.uniform(1, 10)
            while time.monotonic() < end and not self.ended.is_set():
                with contextlib.suppress(BufferError, KafkaException):
                    producer.produce(self.dice.choice(NAMES), os.urandom(20_000), key=os.urandom(1))
                producer.poll(0.001)
            producer.purge()
            producer.flush(5)

    def searches(self) -> None:
        """By old and new times, in whatever topic there is."""
        with reading(self.cluster) as consumer:
            while not self.ended.is_set():
                when = int(time.time() * 1000) - self.dice.choice((0, 500, 5_000, 10**9))
                wanted = [TopicPartition(self.dice.choice(NAMES), index, when) for index in range(PARTITIONS)]
                with contextlib.suppress(KafkaException):
                    consumer.offsets_for_times(wanted, timeout=2)
                    self.count("searches")

    def kills_of_cleaners(self) -> None:
        while not self.ended.wait(self.dice.uniform(0, 2)):
            for node in self.cluster.brokers:
                if node.running:
                    with contextlib.suppress(OSError):
                        for child in cleaning_processes(node.pid):
                            os.kill(child, signal.SIGKILL)
                            self.count("kills of cleaners")

    def restarts(self) -> None:
        """One broker at a time, killed or stopped."""
        while not self.ended.wait(self.dice.uniform(5, 25)):
            node_id = self.dice.choice(self.cluster.brokers).node_id
            if self.dice.random() < 0.5:
                self.cluster.kill(node_id)
                self.count("kills of brokers")
            else:
                self.cluster.stop(node_id)
                self.count("stops of brokers")
            self.cluster.start(node_id)
            self.cluster.wait_until_in_sync()

    # -- all of it -------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        troubles: list[Callable[[], None]] = [
            *(self._life_of(name) for name in NAMES),
            self.noise,
            self.searches,
            self.kills_of_cleaners,
            self.restarts,
        ]
        threads = [threading.Thread(target=self._watched, args=(each,), daemon=True) for each in troubles]
        for thread in threads:
            thread.start()
        self.ended.wait(seconds)
        self.ended.set()
        for thread in threads:
            thread.join(180)
            assert not thread.is_alive(), "a part of the drill hangs"

    def _life_of(self, name: str) -> Callable[[], None]:
        return lambda: self.lives(name)

    def _watched(self, trouble: Callable[[], None]) -> None:
        try:
            trouble()
        except BaseException as problem:
            self.problems.append(repr(problem))
            print(f"{time.strftime('%X')} {problem!r}")
            self.ended.set()


@contextlib.contextmanager
def reading(cluster: NodeCluster) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "drill",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            **QUICK_CLIENT,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


class NotYet(Exception):
    """The partition can't be read at the moment."""


def read_to_the_end(client: WireClient, topic: str, partition: int) -> tuple[int, dict[int, bytes]]:
    """Where the partition starts, and its records by offset. Raises NotYet."""
    earliest = ListOffsetsPartition(partition_index=partition, timestamp=-2)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[earliest])])
    told = client.call(request, 6).topics[0].partitions[0]
    if told.error_code:
        raise NotYet(ErrorCode(told.error_code).name)
    found: dict[int, bytes] = {}
    offset = told.offset
    while True:
        answer = client.fetch(topic, [partition], offset)[partition]
        if answer.error_code:  # retention may have deleted what was to be read next
            raise NotYet(ErrorCode(answer.error_code).name)
        before = offset
        data = bytes(answer.records or b"")
        for at, header in iterate_headers(data):
            for record in decode_records(data[at : at + header.size_bytes]):
                assert record.offset not in found, f"offset {record.offset} came twice"
                found[record.offset] = record.value or b""
            offset = header.next_offset
        if offset >= answer.high_watermark:
            return told.offset, found
        if offset == before:
            raise NotYet(f"nothing at {offset}, the high watermark is {answer.high_watermark}")


@pytest.mark.long
@pytest.mark.timeout(DRILL_SECONDS + 600)
@pytest.mark.parametrize("brokers", [1, 3])
def test_drill(brokers: int, start_nodes: StartNodes) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    with start_nodes(ClusterPlan(combined(brokers), SETTINGS)) as cluster:
        drill = Drill(cluster, seed)
        drill.run(DRILL_SECONDS)

        print(drill.counts)
        assert not drill.problems, drill.problems
        for node in cluster.brokers:
            assert node.running
            assert "Traceback" not in node.log_text()
        assert drill.counts["lives"] > 3
