"""A mirror under test: its connector and task in a host, as a worker runs them; what both clusters have."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from ottla.connect.host.codec import decode_event, encode
from ottla.connect.host.messages import Ended, Figures, Partitions, Role, Running, Start, Stop
from ottla.connect.host.offset_store import read_offsets
from ottla.connect.worker.fencing import fence_task
from support.connect.runs import Events, start

TIMEOUT_S: Final = 60.0
CLASS: Final = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class Copied(NamedTuple):
    """A record as readers see it, without its offset."""

    partition: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def content(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[Copied]:
    """The records of a topic in the order of each partition, up to the end of now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "content",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    found: list[Copied] = []
    try:
        partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        left = set(partitions)
        deadline = time.monotonic() + TIMEOUT_S
        while left:
            assert time.monotonic() < deadline, f"{topic} is not read to its end"
            for message in consumer.consume(5000, 0.2):
                if message.error() is not None:
                    if message.error().name() == "_PARTITION_EOF":
                        left.discard(message.partition())
                    continue
                found.append(
                    Copied(
                        message.partition(),
                        message.timestamp(),
                        message.key(),
                        message.value(),
                        tuple(message.headers() or ()),
                    )
                )
    finally:
        consumer.close()
    return sorted(found, key=lambda each: each.partition)


def make_topic(
    bootstrap: str, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Make a topic, and wait until it is there."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, partitions, 1, config=dict(config or {}))
    for made in admin.create_topics([new]).values():
        made.result(TIMEOUT_S)


def grow_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Give a topic more partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for grown in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        grown.result(TIMEOUT_S)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic, and wait until nobody sees it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for gone in admin.delete_topics([topic]).values():
        gone.result(TIMEOUT_S)
    until(lambda: topic not in admin.list_topics(timeout=TIMEOUT_S).topics, f"{topic} is gone")


def topic_config(bootstrap: str, topic: str) -> dict[str, str | None]:
    """The settings of a topic that are its own."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {name: each.value for name, each in found.items() if each.source == 1}


def random_records(rng: random.Random, count: int) -> Iterator[tuple[Any, ...]]:
    """Key, value, headers, timestamp."""
    for _ in range(count):
        key = rng.choice([None, rng.randbytes(rng.randint(0, 30)), str(rng.randint(0, 9)).encode()])
        value = rng.choice([None, b"", rng.randbytes(rng.randint(1, 400)), b"x" * rng.randint(1, 3000)])
        headers = [
            (f"h{rng.randint(0, 3)}", rng.choice([None, b"", rng.randbytes(5)]))
            for _ in range(rng.choice([0, 0, 1, 4]))
        ]
        yield key, value, headers, 1_700_000_000_000 + rng.randint(-(10**9), 10**9)


def fill(bootstrap: str, topic: str, rng: random.Random, records: int = 1_000) -> None:
    """Write records with every codec, some in transactions, of which some are aborted."""
    written = 0
    while written < records:
        count = rng.randint(1, max(records // 4, 1))
        written += count
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "compression.type": rng.choice(CODECS),
            "batch.num.messages": rng.choice([1, 7, 500]),
            "linger.ms": rng.choice([0, 5]),
        }
        transactional = rng.random() < 0.5
        if transactional:
            settings["transactional.id"] = f"fill-{rng.getrandbits(64):x}"
        producer = Producer(settings)
        if transactional:
            producer.init_transactions(TIMEOUT_S)
            producer.begin_transaction()
        for key, value, headers, timestamp_ms in random_records(rng, count):
            producer.produce(topic, value, key, headers=headers, timestamp=timestamp_ms)
            producer.poll(0)
        assert producer.flush(TIMEOUT_S) == 0
        if transactional:
            if rng.random() < 0.4:
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)


def until(condition: Any, described: str, timeout_s: float = TIMEOUT_S) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not so within {timeout_s} s: {described}"
        time.sleep(0.05)


class HostProcess(Events):
    """A host process with the installed plugins, which can be killed."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ottla.connect.host", "--engine", "python"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):
                self.tell(decode_event(line))

    def give(self, order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(encode(order))
        self.process.stdin.flush()

    def kill(self) -> None:
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """End the host as a worker does."""
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait(TIMEOUT_S)


class Mirror:
    """A mirror from one cluster to another: a host process, with a connector and one task for each plan."""

    def __init__(
        self,
        source: str,
        target: str,
        directory: Path,
        config: Mapping[str, str] | None = None,
        *,
        exactly_once: bool = True,
        name: str = "mirror",
        worker: Mapping[str, str] | None = None,
    ) -> None:
        self.source, self.target, self.name = source, target, name
        self.log = directory / f"{name}.log"
        self.config = {
            "name": name,
            "connector.class": CLASS,
            "source.cluster.alias": "a",
            "target.cluster.alias": "b",
            "source.cluster.bootstrap.servers": source,
            "target.cluster.bootstrap.servers": target,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "refresh.topics.interval.seconds": "1",
            "sync.topic.configs.interval.seconds": "1",
            "sync.topic.acls.interval.seconds": "1",
            **(config or {}),
        }
        self.worker = {
            "exactly.once.source.support": "enabled" if exactly_once else "disabled",
            "offset.storage.topic": f"{name}-offsets-internal",
            "offset.storage.partitions": "3",
            "group.id": f"{name}-group",
            **(worker or {}),
        }
        self.host: HostProcess | None = None
        self.task: Start | None = None
        self._connector: Start | None = None

    @contextmanager
    def running(self) -> Iterator[Mirror]:
        """The mirror, while the block runs."""
        self.begin()
        try:
            yield self
        finally:
            self.close()

    def begin(self) -> None:
        """A new host with the connector and its task; the worker's topic of offsets is made before."""
        topic = self.worker["offset.storage.topic"]
        if topic not in AdminClient({"bootstrap.servers": self.target}).list_topics(timeout=TIMEOUT_S).topics:
            make_topic(self.target, topic, 3, {"cleanup.policy": "compact"})
        self.host = HostProcess(self.log)
        self._connector = self._start(Role.CONNECTOR)
        self.host.give(self._connector)
        self.follow()

    def close(self) -> None:
        if self.host is not None:
            self.host.close()

    def follow(self) -> None:
        """Run a task with the partitions that the connector told last, in place of the task before."""
        assert self.host is not None and self._connector is not None
        self.host.wait(self._connector.run, Partitions)
        told: list[Partitions] = self.host.of(self._connector.run, Partitions)
        if self.task is not None and not self.host.of(self.task.run, Ended) and self.is_running:
            self.host.give(Stop(self.task.run))
            self.host.wait(self.task.run, Ended)
        order = self._start(Role.SOURCE_TASK, told[-1].partitions)
        if self.worker["exactly.once.source.support"] == "enabled":
            asyncio.run(fence_task(self.name, 0, order.config, order.worker))  # as the runtime does
        self.task = Start(
            order.run, order.role, order.config, order.worker, order.partitions, read_offsets(order)
        )
        if order.partitions:
            self.host.give(self.task)
            self.host.wait(self.task.run, Running)

    def revive(self) -> None:
        """Run the task again if it has ended, as the runtime does."""
        assert self.host is not None and self.task is not None
        if self.host.of(self.task.run, Ended):
            self.task = None
            self.follow()

    @property
    def is_running(self) -> bool:
        """Whether the present task was begun in the present host."""
        assert self.host is not None and self.task is not None
        return bool(self.host.of(self.task.run, Running))

    def wait_for_partitions(self, count: int) -> None:
        """Wait until the connector tells so many partitions, then run the task with them."""
        assert self.host is not None and self._connector is not None
        host, run = self.host, self._connector.run
        until(lambda: len(host.of(run, Partitions)[-1].partitions) == count, f"{count} partitions")
        self.follow()

    def stop_task(self) -> None:
        """End the task in order."""
        assert self.host is not None and self.task is not None
        self.host.give(Stop(self.task.run))
        ended: Ended = self.host.wait(self.task.run, Ended)
        assert ended.trace is None, ended.trace

    def figures(self) -> Figures:
        """The figures that the task told last."""
        assert self.host is not None and self.task is not None
        found: Figures = self.host.wait(self.task.run, Figures)
        return self.host.of(self.task.run, Figures)[-1] or found

    def _start(self, role: Role, partitions: Sequence[Mapping[str, Any]] = ()) -> Start:
        return start(self.target, self.name, role, self.config, worker=self.worker, partitions=partitions)


def assert_same(source: Sequence[Copied], target: Sequence[Copied]) -> None:
    """All records of the source once, in the order of their partitions."""
    if list(source) == list(target):
        return
    missing = Counter(source) - Counter(target)
    more = Counter(target) - Counter(source)
    assert not missing and not more, (
        f"{sum(missing.values())} are missing, {sum(more.values())} too many: {[*missing][:2]} {[*more][:2]}"
    )
    raise AssertionError("the records have another order")


def wait_for_same(source: str, topic: str, target: str, remote: str, timeout_s: float = TIMEOUT_S) -> None:
    """Wait until the target has as many committed records as the source; they have to be the same."""
    wanted = content(source, topic)
    deadline = time.monotonic() + timeout_s
    found = content(target, remote)
    while len(found) < len(wanted) and time.monotonic() < deadline:
        time.sleep(0.2)
        found = content(target, remote)
    assert_same(wanted, found)
