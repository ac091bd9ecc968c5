"""Load on a cluster whose nodes die: producers and copiers that record the answers they get, and readers."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from support.clients.histories import (
    History,
    Outcome,
    Partition,
    Poll,
    Send,
    duplicates,
    lost_writes,
    values_that_changed,
)
from support.java.java_tools import java_process
from support.servers.clusters import NodeCluster

TIMEOUT_S = 60.0
# A client that finds its new leader as soon as there is one.
QUICK_CLIENT = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "socket.connection.setup.timeout.ms": 3000,
    # librdkafka takes its time to see that a connection to a paused process is none
    "socket.timeout.ms": 6000,
    "log_level": 0,
}


@dataclass(slots=True)
class RecordedProducer:
    """An idempotent producer that sends to all partitions in turn until it is told to stop.

    history: every send and its acknowledgement. acknowledged_at: when, by partition. failures: what the
    client said of records that it gave up.
    """

    bootstrap: str
    topic: str
    partitions: int
    name: str = "p"
    pause_s: float = 0.002
    history: History = field(default_factory=History)
    acknowledged_at: dict[Partition, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: list[str] = field(default_factory=list)
    acknowledged: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @contextmanager
    def running(self) -> Iterator[RecordedProducer]:
        """Sends while the block runs; at its end all that was sent is acknowledged or given up."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join(3 * TIMEOUT_S)
        assert not self._thread.is_alive(), "the producer hangs"

    def wait_for_more(self, count: int = 100, timeout_s: float = TIMEOUT_S) -> None:
        """Until so many more are acknowledged."""
        expected = self.acknowledged + count
        deadline = time.monotonic() + timeout_s
        while self.acknowledged < expected:
            assert time.monotonic() < deadline, f"{self.acknowledged} of {expected} acknowledged"
            assert self._thread is not None and self._thread.is_alive(), "the producer ended"
            time.sleep(0.01)

    def wait_for_all_partitions(self, timeout_s: float = TIMEOUT_S) -> None:
        """Until every partition has acknowledged something that was sent after now."""
        now = time.monotonic()
        deadline = now + timeout_s
        waiting = {(self.topic, index) for index in range(self.partitions)}
        while waiting:
            waiting = {
                each for each in waiting if not any(at > now for at in self.acknowledged_at[each][-1:])
            }
            assert time.monotonic() < deadline, f"nothing acknowledged in {waiting}"
            time.sleep(0.01)

    def longest_silences(self) -> dict[int, float]:
        """By partition the longest time in seconds between two acknowledgements."""
        return {
            index: round(max((b - a for a, b in pairwise(times)), default=0.0), 3)
            for (_, index), times in sorted(self.acknowledged_at.items())
        }

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": 180_000,
                "request.timeout.ms": 5000,
                **QUICK_CLIENT,
            }
        )
        number = 0
        while not self._stop.is_set():
            index = number % self.partitions
            sent = self.history.send(f"{self.name}-{number}", (self.topic, index), None)
            number += 1

            def on_delivery(error: KafkaError | None, message: Message, sent: Send = sent) -> None:
                if error is not None:
                    self.failures.append(str(error))
                    # unknown whether it is there: only a broker's refusal shows that it is not
                    return
                self.acknowledged_at[sent.partition].append(time.monotonic())
                self.acknowledged += 1
                offset = message.offset()
                if offset is None or offset < 0:
                    # a retry that the broker knows already: it is there, and where is not said
                    sent.outcome = Outcome.DONE
                else:
                    self.history.acknowledged(sent, offset)

            while True:
                try:
                    producer.produce(self.topic, sent.value, partition=index, on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(self.pause_s)
        producer.flush(2 * TIMEOUT_S)


def read_to_the_end(
    bootstrap: str, topic: str, partitions: int, *, committed_only: bool = False
) -> list[Poll]:
    """The records that a consumer gets of each partition, up to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **QUICK_CLIENT,
        }
    )
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    polls = {index: Poll((topic, index), committed_only, 0, []) for index in range(partitions)}
    ended: set[int] = set()
    deadline = time.monotonic() + 2 * TIMEOUT_S
    try:
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"no end of {set(polls) - ended} of {topic}"
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                polls[message.partition()].records.append((message.offset(), message.value().decode()))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    finally:
        consumer.close()
    return list(polls.values())


def out_of_order(history: History, final: Sequence[Poll]) -> list[str]:
    """An idempotent producer's records stand in each partition in the order in which they were sent."""
    sent = {value: number for number, value in enumerate(history.sends)}
    found = []
    for poll in final:
        numbers = [sent[value] for _, value in poll.records if value in sent]
        found += [f"{poll.partition}: {b} after {a}" for a, b in pairwise(numbers) if b < a]
    return found


def check_nothing_lost(cluster: NodeCluster, producer: RecordedProducer) -> None:
    """Every acknowledged record is there, once, at its acknowledged place, in the producer's order."""
    final = read_to_the_end(cluster.bootstrap, producer.topic, producer.partitions)
    history = producer.history
    for poll in final:
        history.poll(poll.partition, poll.records, committed_only=False)
    assert producer.failures == []
    assert lost_writes(history, final) == []
    assert duplicates(history) == []
    assert values_that_changed(history) == []
    assert out_of_order(history, final) == []
    counts = Counter(value for poll in final for _, value in poll.records)
    assert [value for value, count in counts.items() if count != 1] == []
    assert set(counts) <= set(history.sends)


# --- Kafka's VerifiableProducer -----------------------------------------------------------------------------


@dataclass(slots=True)
class VerifiableProducer:
    """The lines that Kafka's VerifiableProducer has printed so far."""

    process: subprocess.Popen[str]
    history: History = field(default_factory=History)
    errors: list[dict[str, Any]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def read(self) -> None:
        """Takes its lines until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.startswith("{"):
                continue
            event = json.loads(line)
            if event["name"] == "producer_send_success":
                sent = self.history.send(event["value"], (event["topic"], event["partition"]), None)
                self.history.acknowledged(sent, event["offset"])
            elif event["name"] == "producer_send_error":
                self.errors.append(event)
        self.ended.set()

    def wait_for_more(self, count: int) -> None:
        expected = len(self.history.acks) + count
        deadline = time.monotonic() + TIMEOUT_S
        while len(self.history.acks) < expected and not self.ended.is_set():
            assert time.monotonic() < deadline, f"{len(self.history.acks)} of {expected}"
            time.sleep(0.01)


@contextmanager
def verifiable_producer(
    cluster: NodeCluster, topic: str, directory: Path, *, messages: int, per_second: int
) -> Iterator[VerifiableProducer]:
    """Kafka's VerifiableProducer, idempotent, that tries each record for two minutes."""
    config = directory / "producer.properties"
    config.write_text(
        "retries=2147483647\nenable.idempotence=true\ndelivery.timeout.ms=120000\n"
        "request.timeout.ms=5000\nreconnect.backoff.max.ms=200\nlinger.ms=5\n"
    )
    arguments = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--acks", "-1")
    limits = ("--max-messages", str(messages), "--throughput", str(per_second))
    with java_process(
        "org.apache.kafka.tools.VerifiableProducer", *arguments, *limits, "--command-config", str(config)
    ) as process:
        producer = VerifiableProducer(process)
        reader = threading.Thread(target=producer.read, daemon=True)
        reader.start()
        yield producer
        reader.join(4 * TIMEOUT_S)
        assert producer.ended.is_set(), "VerifiableProducer hangs"


# --- consume, transform, produce exactly once ---------------------------------------------------------------


# librdkafka's send_offsets_to_transaction waits without end for a group coordinator that it has cached and
# that has left the metadata (its issues 5511 and 5456), until the cache is old and some connection ends.
FORGETS_COORDINATORS = {"metadata.max.age.ms": 2_000, "connections.max.idle.ms": 5_000}


@dataclass(slots=True)
class Copier:
    """Copies one topic to another in transactions, with its offsets in them, until it is told to stop."""

    bootstrap: str
    source: str
    target: str
    group: str
    name: str
    committed: int = 0
    aborted: int = 0
    reborn: int = 0
    failure: BaseException | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join(3 * TIMEOUT_S)
        assert not self._thread.is_alive(), f"{self.name} hangs"
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._live()
                self.reborn += 1
        except BaseException as problem:
            self.failure = problem

    def _live(self) -> None:
        """One producer's life, which ends when it is fenced or told to stop."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.name,
                "transaction.timeout.ms": 20_000,
                **QUICK_CLIENT,
                **FORGETS_COORDINATORS,
            }
        )
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 500,
                **QUICK_CLIENT,
            }
        )
        try:
            self._patiently(lambda: producer.init_transactions(TIMEOUT_S))
            consumer.subscribe([self.source])
            while not self._stop.is_set():
                messages = [
                    each for each in consumer.consume(25, 0.2) if each is not None and each.error() is None
                ]
                if messages and not self._transaction(producer, consumer, messages):
                    _rewind(consumer)
        except KafkaException as problem:
            if not problem.args[0].fatal():
                raise
        finally:
            consumer.close()

    def _transaction(self, producer: Producer, consumer: Consumer, messages: list[Message]) -> bool:
        producer.begin_transaction()
        try:
            for message in messages:
                producer.produce(self.target, message.value(), message.key())
            offsets = _next_offsets(messages)
            self._patiently(
                lambda: producer.send_offsets_to_transaction(
                    offsets, consumer.consumer_group_metadata(), TIMEOUT_S
                )
            )
            self._patiently(lambda: producer.commit_transaction(TIMEOUT_S))
            self.committed += 1
            return True
        except KafkaException as problem:
            if not problem.args[0].txn_requires_abort():
                raise
            self._patiently(lambda: producer.abort_transaction(TIMEOUT_S))
            self.aborted += 1
            return False

    @staticmethod
    def _patiently(act: Any) -> None:
        deadline = time.monotonic() + 3 * TIMEOUT_S
        while True:
            try:
                act()
                return
            except KafkaException as problem:
                if not problem.args[0].retriable() or time.monotonic() > deadline:
                    raise


def _next_offsets(messages: Sequence[Message]) -> list[TopicPartition]:
    ends: dict[tuple[str, int], int] = {}
    for message in messages:
        place = (message.topic(), message.partition())
        ends[place] = max(ends.get(place, 0), message.offset() + 1)
    return [TopicPartition(topic, index, offset) for (topic, index), offset in ends.items()]


def _rewind(consumer: Consumer) -> None:
    """Seek back to the committed offset of each assigned partition."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            committed = consumer.committed(consumer.assignment(), TIMEOUT_S)
            break
        except KafkaException:
            if time.monotonic() > deadline:
                raise
    for partition in committed:
        offset = partition.offset if partition.offset >= 0 else OFFSET_BEGINNING
        try:
            consumer.seek(TopicPartition(partition.topic, partition.partition, offset))
        except KafkaException:
            # taken away meanwhile: its new owner starts at the committed offset
            continue


def outcome_counts(history: History) -> dict[str, int]:
    """The number of acknowledged sends, and of sends whose outcome the client does not know."""
    done = sum(send.outcome is Outcome.DONE for send in history.sends.values())
    return {"acknowledged": done, "unknown": len(history.sends) - done}
