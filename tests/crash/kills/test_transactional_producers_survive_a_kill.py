"""kill -9 of a broker under transactional load: each committed record is read once, and no other."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from support.clients.transaction_wire import TransactionalProducer, coordinator_ready
from support.clients.wire import WireClient, wait_for
from support.servers.ottla_broker import OttlaBroker

TOPIC = "t"
PARTITIONS = 3
KILLS = 4
TRANSACTIONS_BETWEEN_KILLS = 12
TIMEOUT_S = 60.0
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LATEST = -1


class Load:
    """One transactional producer that tries every transaction until it knows how it ended."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 20,
            "log_level": 0,
        }
        self._name = transactional_id
        self._producer = self._new()
        self.committed: list[str] = []
        self.aborted: list[str] = []
        self.number = 0

    def _new(self) -> Producer:
        producer = Producer(self._settings)
        producer.init_transactions(TIMEOUT_S)
        return producer

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.transaction()

    def transaction(self) -> None:
        """Every fourth one is aborted. One whose commit failed for good has another go with other values."""
        self.number += 1
        wants_commit = self.number % 4 != 0
        values = [f"{self._name}-{self.number}-{place}" for place in range(5)]
        try:
            self._producer.begin_transaction()
            for place, value in enumerate(values):
                self._producer.produce(TOPIC, value=value, partition=(self.number + place) % PARTITIONS)
            if wants_commit:
                self._end(lambda: self._producer.commit_transaction(TIMEOUT_S))
                self.committed += values
            else:
                self._end(lambda: self._producer.abort_transaction(TIMEOUT_S))
                self.aborted += values
        except KafkaException as problem:
            error = problem.args[0]
            if error.txn_requires_abort():
                # Only if the coordinator says that it did not commit.
                self._end(lambda: self._producer.abort_transaction(TIMEOUT_S))
                self.aborted += values
            else:
                raise

    @staticmethod
    def _end(end: object) -> None:
        while True:
            try:
                end()  # type: ignore[operator]
                return
            except KafkaException as problem:
                if not problem.args[0].retriable():
                    raise


def read_committed(bootstrap: str) -> list[str]:
    """Every value that a read_committed consumer is given, up to the end of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    values, ended = [], set()
    consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
    while len(ended) < PARTITIONS:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "no end of the partitions: a transaction hangs"
        if message.error():
            ended.add(message.partition())
        else:
            values.append(message.value().decode())
    consumer.close()
    return values


def everything_is_stable(client: WireClient, partition: int) -> bool:
    """Whether a read_committed consumer comes as far as any other."""
    ends = []
    for isolation_level in (READ_UNCOMMITTED, READ_COMMITTED):
        index = ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
        topics = [ListOffsetsTopic(name=TOPIC, partitions=[index])]
        answer = client.call(ListOffsetsRequest(isolation_level=isolation_level, topics=topics), 7)
        ends.append(answer.topics[0].partitions[0].offset)
    return ends[0] == ends[1] and ends[0] > 1


@pytest.mark.timeout(180)
def test_under_kills_of_the_broker_every_transaction_is_read_once_or_never(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker:
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic(TOPIC, PARTITIONS)
        loads = [Load(broker.bootstrap, name) for name in ("red", "blue")]
        stop = threading.Event()
        threads = [threading.Thread(target=load.run, args=(stop,)) for load in loads]
        for thread in threads:
            thread.start()
        try:
            for _ in range(KILLS):
                # when: the broker dies in the middle
                before = [load.number for load in loads]
                wait_for(
                    lambda before=before: all(
                        load.number >= number + TRANSACTIONS_BETWEEN_KILLS
                        for load, number in zip(loads, before, strict=True)
                    )
                )
                broker.server.kill()
                broker.server.start()
        finally:
            stop.set()
            for thread in threads:
                thread.join(TIMEOUT_S)
        # then
        assert not any(thread.is_alive() for thread in threads)
        counts = Counter(read_committed(broker.bootstrap))
        for load in loads:
            assert load.number > KILLS * TRANSACTIONS_BETWEEN_KILLS
            assert [value for value in load.committed if counts[value] != 1] == []
            assert [value for value in load.aborted if counts[value]] == []
        assert sum(counts.values()) == sum(len(load.committed) for load in loads)


@pytest.mark.parametrize("committed", [True, False])
def test_markers_that_a_kill_has_left_out_are_written_at_the_next_start(
    tmp_path: Path, committed: bool
) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker:
        # given: a transaction in many partitions, and the broker killed when its end was answered
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic(TOPIC, 20)
            coordinator_ready(client, "x")
            producer = TransactionalProducer(client, "x", v2=True)
            assert producer.initialise() is ErrorCode.NONE
            for index in range(20):
                producer.sequence = 0
                assert producer.produce(TOPIC, b"1", index) is ErrorCode.NONE
            answer = producer.end(committed=committed)
            broker.server.kill()
            assert answer.error_code == ErrorCode.NONE
        # when
        broker.server.start()
        # then
        with WireClient.connect(broker.bootstrap) as client:
            coordinator_ready(client, "x")
            after = TransactionalProducer(client, "x", v2=True)
            after.wait_for_state("CompleteCommit" if committed else "CompleteAbort")
            for index in range(20):
                wait_for(lambda index=index: everything_is_stable(client, index))


def test_a_transaction_that_a_kill_has_interrupted_goes_on(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker:
        # given
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic(TOPIC)
            coordinator_ready(client, "x")
            producer = TransactionalProducer(client, "x", v2=True)
            assert producer.initialise() is ErrorCode.NONE
            assert producer.produce(TOPIC, b"1") is ErrorCode.NONE
        # when
        broker.server.kill()
        broker.server.start()
        # then
        with WireClient.connect(broker.bootstrap) as client:
            coordinator_ready(client, "x")
            producer.client = client
            assert producer.described().transaction_state == "Ongoing"
            assert producer.produce(TOPIC, b"2") is ErrorCode.NONE
            producer.commit()
            assert producer.epoch == 1
            producer.wait_for_state("CompleteCommit")
            assert everything_is_stable(client, 0)
