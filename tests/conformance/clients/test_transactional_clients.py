"""Transactions as clients in wide use make them: commit, abort, fence, and offsets with the records."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer
from kafka.consumer.group import KafkaConsumer
from kafka.errors import ProducerFencedError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonPartition

from support.clients.confluent import create_topic, eventually, produce
from support.clients.transaction_wire import TransactionalProducer
from support.clients.wire import WireClient
from support.java.java_tools import run_java
from support.servers.cluster import Cluster

TIMEOUT_S = 30.0
FENCED = {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}


def read_committed(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    """The values that a consumer gets with isolation.level=read_committed, until there are `count`."""

    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, isolation_level="read_committed")
        await consumer.start()
        try:
            partition = AioPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            values: list[bytes] = []
            async with asyncio.timeout(TIMEOUT_S):
                while len(values) < count:
                    values += [record.value async for record in _some(consumer)]
            # records behind them, if there are any
            values += [record.value async for record in _some(consumer)]
            return values
        finally:
            await consumer.stop()

    return asyncio.run(read())


async def _some(consumer: AIOKafkaConsumer) -> Any:
    for records in (await consumer.getmany(timeout_ms=300)).values():
        for record in records:
            yield record


# --- confluent-kafka (librdkafka) ---------------------------------------------------------------------------


def confluent(cluster: Cluster, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    return producer


def test_confluent_kafka_commits_aborts_and_is_fenced(cluster: Cluster, unique_name: str) -> None:
    # given
    topic = create_topic(cluster.bootstrap, unique_name)
    producer = confluent(cluster, unique_name)
    for value, end in ((b"1", "commit"), (b"2", "abort"), (b"3", "commit")):
        producer.begin_transaction()
        producer.produce(topic, value=value, partition=0)
        getattr(producer, f"{end}_transaction")(TIMEOUT_S)
    # when: another one takes over in the middle of a transaction
    producer.begin_transaction()
    producer.produce(topic, value=b"lost", partition=0)
    producer.flush(TIMEOUT_S)
    other = confluent(cluster, unique_name)
    # then
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(TIMEOUT_S)
    assert fenced.value.args[0].name() in FENCED
    assert fenced.value.args[0].fatal()
    other.begin_transaction()
    other.produce(topic, value=b"4", partition=0)
    other.commit_transaction(TIMEOUT_S)
    assert read_committed(cluster, topic, 3) == [b"1", b"3", b"4"]


# --- aiokafka: version 0 of the transaction APIs -----------------------------------------------------------


def test_aiokafka_commits_aborts_and_is_fenced(cluster: Cluster, unique_name: str) -> None:
    async def scenario() -> None:
        producers = [
            AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=unique_name)
            for _ in range(2)
        ]
        first, other = producers
        try:
            await first.start()
            async with first.transaction():
                await first.send_and_wait(topic, b"1", partition=0)
            await first.begin_transaction()
            await first.send_and_wait(topic, b"2", partition=0)
            await first.abort_transaction()
            # when
            await first.begin_transaction()
            await first.send_and_wait(topic, b"lost", partition=0)
            await other.start()
            # then
            with pytest.raises(ProducerFenced):
                await first.commit_transaction()
            async with other.transaction():
                await other.send_and_wait(topic, b"3", partition=0)
        finally:
            for producer in producers:
                await producer.stop()

    # given
    topic = create_topic(cluster.bootstrap, unique_name)
    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert read_committed(cluster, topic, 2) == [b"1", b"3"]


def test_aiokafka_commits_offsets_with_its_records(cluster: Cluster, unique_name: str) -> None:
    async def scenario() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=unique_name)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap, group_id=unique_name, enable_auto_commit=False
        )
        partition = AioPartition(source, 0)
        await producer.start()
        await consumer.start()
        try:
            consumer.assign([partition])
            async with producer.transaction():
                await producer.send_and_wait(target, b"copied", partition=0)
                await producer.send_offsets_to_transaction({partition: 2}, unique_name)
            # The commit is answered before the group's coordinator has its marker.
            for _ in range(1_000):
                if await consumer.committed(partition) is not None:
                    break
                await asyncio.sleep(0.01)
            assert await consumer.committed(partition) == 2
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({partition: 3}, unique_name)
            await producer.abort_transaction()
            assert await consumer.committed(partition) == 2
        finally:
            await consumer.stop()
            await producer.stop()

    # given
    source = create_topic(cluster.bootstrap, f"{unique_name}-in")
    target = create_topic(cluster.bootstrap, f"{unique_name}-out")
    produce(cluster.bootstrap, source, [{"value": value} for value in (b"a", b"b", b"c")])
    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert read_committed(cluster, target, 1) == [b"copied"]


# --- kafka-python ------------------------------------------------------------------------------------------


def python_producer(cluster: Cluster, name: str) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=name)
    producer.init_transactions()
    return producer


def test_kafka_python_commits_aborts_and_is_fenced(cluster: Cluster, unique_name: str) -> None:
    # given
    topic = create_topic(cluster.bootstrap, unique_name)
    producer = python_producer(cluster, unique_name)
    for value, end in ((b"1", "commit"), (b"2", "abort")):
        producer.begin_transaction()
        producer.send(topic, value=value, partition=0)
        producer.flush(TIMEOUT_S)
        getattr(producer, f"{end}_transaction")()
    # when
    producer.begin_transaction()
    producer.send(topic, value=b"lost", partition=0)
    producer.flush(TIMEOUT_S)
    other = python_producer(cluster, unique_name)
    # then
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()
    other.begin_transaction()
    other.send(topic, value=b"3", partition=0)
    other.commit_transaction()
    other.close(TIMEOUT_S)
    producer.close(0)
    assert read_committed(cluster, topic, 2) == [b"1", b"3"]


def test_kafka_python_commits_offsets_with_its_records(cluster: Cluster, unique_name: str) -> None:
    # given
    source = create_topic(cluster.bootstrap, f"{unique_name}-in")
    target = create_topic(cluster.bootstrap, f"{unique_name}-out")
    produce(cluster.bootstrap, source, [{"value": value} for value in (b"a", b"b", b"c")])
    partition = PythonPartition(source, 0)
    producer = python_producer(cluster, unique_name)
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap, group_id=unique_name, enable_auto_commit=False
    )
    consumer.assign([partition])
    # when
    producer.begin_transaction()
    producer.send(target, value=b"copied", partition=0)
    producer.send_offsets_to_transaction({partition: OffsetAndMetadata(2, "", -1)}, unique_name)
    producer.commit_transaction()
    # then
    eventually(lambda: consumer.committed(partition) == 2, "the group has its offset")
    producer.close(TIMEOUT_S)
    consumer.close()
    assert read_committed(cluster, target, 1) == [b"copied"]


# --- Java ---------------------------------------------------------------------------------------------------


@pytest.mark.java
def test_the_java_producer_makes_transactions_of_version_2(cluster: Cluster, unique_name: str) -> None:
    # given
    topic = create_topic(cluster.bootstrap, unique_name)
    # when: it finds transaction.version 2 finalized
    done = run_java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", "300", "--record-size", "10", "--throughput", "1000"),
        *("--transactional-id", unique_name, "--transaction-duration-ms", "50"),
        *("--bootstrap-server", cluster.bootstrap),
    )
    # then
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(read_committed(cluster, topic, 300)) == 300
    with WireClient.connect(cluster.bootstrap) as client:
        described = TransactionalProducer(client, unique_name).described()
        assert described.transaction_state == "CompleteCommit"
        assert described.producer_epoch >= 2, "every end has raised the epoch"


@pytest.mark.java
def test_the_transactions_command_lists_and_describes(cluster: Cluster, unique_name: str) -> None:
    # given
    confluent(cluster, unique_name)
    command = ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", cluster.bootstrap)
    # when
    listed = run_java(*command, "list")
    described = run_java(*command, "describe", "--transactional-id", unique_name)
    # then
    rows = [line.split() for line in listed.stdout.splitlines()]
    assert [row[1::2] for row in rows if row and row[0] == unique_name] == [["1", "Empty"]]
    assert [row.split()[4] for row in described.stdout.splitlines() if unique_name in row] == ["Empty"]
