"""Consume, transform, produce: confluent-kafka and the Java clients put their offsets into transactions."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from support.clients.confluent import TIMEOUT_S, consumer, create_topic, poll_messages, produce, read_all
from support.java.java_tools import java_process
from support.servers.cluster import Cluster


@pytest.fixture
def topics(cluster: Cluster, unique_name: str) -> tuple[str, str]:
    """An input topic with ten records and an output topic."""
    source, sink = f"{unique_name}-in", f"{unique_name}-out"
    for topic in (source, sink):
        create_topic(cluster.bootstrap, topic)
    produce(cluster.bootstrap, source, [{"value": b"%d" % n} for n in range(10)])
    return source, sink


@pytest.fixture
def producer(cluster: Cluster, unique_name: str) -> Producer:
    return transactional_producer(cluster, unique_name)


def transactional_producer(cluster: Cluster, name: str) -> Producer:
    client = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": f"{name}-tx"})
    client.init_transactions(TIMEOUT_S)
    return client


def copy_some(reader: Consumer, writer: Producer, source: str, sink: str, count: int) -> None:
    """Copy the next records and their offsets within a transaction, which stays open."""
    writer.begin_transaction()
    read = poll_messages(reader, count)
    for message in read:
        writer.produce(sink, message.value())
    position = TopicPartition(source, 0, read[-1].offset() + 1)
    writer.send_offsets_to_transaction([position], reader.consumer_group_metadata(), TIMEOUT_S)


def committed(cluster: Cluster, group: str, topic: str) -> int:
    with consumer(cluster.bootstrap, group) as client:
        (position,) = client.committed([TopicPartition(topic, 0)], timeout=TIMEOUT_S)
        return int(position.offset)


def values(messages: list[Any]) -> list[int]:
    return [int(message.value()) for message in messages]


def test_offsets_are_committed_with_the_records(
    cluster: Cluster, unique_name: str, topics: tuple[str, str], producer: Producer
) -> None:
    source, sink = topics
    with consumer(cluster.bootstrap, unique_name) as reader:
        reader.subscribe([source])
        # when
        copy_some(reader, producer, source, sink, 4)
        producer.commit_transaction(TIMEOUT_S)
    # then
    assert committed(cluster, unique_name, source) == 4
    read = read_all(cluster.bootstrap, sink, 4, isolation_level="read_committed")
    assert values(read) == [0, 1, 2, 3]


def test_an_aborted_step_is_done_again(
    cluster: Cluster, unique_name: str, topics: tuple[str, str], producer: Producer
) -> None:
    source, sink = topics
    # given
    with consumer(cluster.bootstrap, unique_name) as reader:
        reader.subscribe([source])
        copy_some(reader, producer, source, sink, 4)
        producer.abort_transaction(TIMEOUT_S)
    # when: the next consumer of the group goes on from what is committed
    with consumer(cluster.bootstrap, unique_name) as reader:
        reader.subscribe([source])
        copy_some(reader, producer, source, sink, 10)
        producer.commit_transaction(TIMEOUT_S)
    # then
    assert committed(cluster, unique_name, source) == 10
    read = read_all(cluster.bootstrap, sink, 10, isolation_level="read_committed")
    assert values(read) == list(range(10))


def test_offsets_of_a_generation_that_is_over_are_refused(
    cluster: Cluster, unique_name: str, topics: tuple[str, str], producer: Producer
) -> None:
    source, sink = topics
    # given: a consumer that leaves the group between reading and committing
    with consumer(cluster.bootstrap, unique_name) as reader:
        reader.subscribe([source])
        poll_messages(reader, 1)
        metadata = reader.consumer_group_metadata()
    with consumer(cluster.bootstrap, unique_name) as other:
        other.subscribe([source])
        poll_messages(other, 1)
        # when
        producer.begin_transaction()
        producer.produce(sink, b"0")
        with pytest.raises(KafkaException) as refused:
            producer.send_offsets_to_transaction([TopicPartition(source, 0, 1)], metadata, TIMEOUT_S)
    # then
    error = refused.value.args[0]
    assert error.txn_requires_abort()
    assert error.code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)
    producer.abort_transaction(TIMEOUT_S)
    assert committed(cluster, unique_name, source) < 0


def test_a_producer_that_was_replaced_commits_no_offsets(
    cluster: Cluster, unique_name: str, topics: tuple[str, str], producer: Producer
) -> None:
    source, sink = topics
    with consumer(cluster.bootstrap, unique_name) as reader:
        reader.subscribe([source])
        copy_some(reader, producer, source, sink, 4)
        # when
        transactional_producer(cluster, unique_name)
        # then
        with pytest.raises(KafkaException) as fenced:
            producer.commit_transaction(TIMEOUT_S)
        assert fenced.value.args[0].fatal()
    assert committed(cluster, unique_name, source) < 0


@pytest.mark.java
@pytest.mark.parametrize("group_mode", [False, True], ids=["assigned", "subscribed"])
def test_the_java_clients_copy_exactly_once(
    cluster: Cluster, unique_name: str, topics: tuple[str, str], group_mode: bool
) -> None:
    source, sink = topics
    produce(cluster.bootstrap, source, [{"value": b"%d" % n} for n in range(10, 500)])
    # when: every third transaction or so is aborted
    arguments = [
        *("--broker-list", cluster.bootstrap),
        *("--input-topic", source, "--input-partition", "0", "--output-topic", sink),
        *("--consumer-group", unique_name, "--transactional-id", f"{unique_name}-copier"),
        *("--transaction-size", "40", "--max-messages", "500", "--enable-random-aborts"),
        *(("--group-mode",) if group_mode else ()),
    ]
    with java_process("org.apache.kafka.tools.TransactionalMessageCopier", *arguments) as copier:
        copier.communicate(timeout=60)
    # then
    assert committed(cluster, unique_name, source) == 500
    read = read_all(cluster.bootstrap, sink, 500, isolation_level="read_committed")
    assert values(read) == list(range(500))
