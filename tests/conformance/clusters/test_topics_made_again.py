"""A topic is deleted and made again under its name: its leader epochs begin at 0 again, its id is another.

Clients that compare ids take the new topic's leaders. librdkafka 2.16 notices the new id and compares epochs
all the same: a producer that heard of epoch 1 of the old topic calls epoch 0 of the new one outdated, sends
to the old leader and is told NOT_LEADER_OR_FOLLOWER until its records time out
(https://github.com/confluentinc/librdkafka/issues/4898). It does so on Apache Kafka too. The drill of
crash/storage/test_topics_come_and_go.py therefore takes a new producer for each topic; once librdkafka is
mended, the test of the old one fails here.
"""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from support.clients.cluster_load import QUICK_CLIENT
from support.servers.clusters import NodeCluster

QUICK_PRODUCER = {**QUICK_CLIENT, "acks": "all", "message.timeout.ms": 30_000}


def delivery(producer: Producer, topic: str, value: bytes) -> KafkaError | None:
    """What became of a record: None if it was acknowledged."""
    outcome: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _message: Any) -> None:
        outcome.append(error)

    producer.produce(topic, value, on_delivery=delivered)
    assert producer.flush(60) == 0
    return outcome[0]


def make_again_after_an_election(nodes: NodeCluster, producer: Producer, topic: str) -> None:
    """The producer hears of leader 2, epoch 1; then the topic is made again with leader 1, epoch 0."""
    nodes.create_topic(topic, assignments=[[1, 2]])
    assert delivery(producer, topic, b"to leader 1, epoch 0") is None
    nodes.stop(1)
    nodes.wait_for_leader(topic, other_than=1)
    assert delivery(producer, topic, b"to leader 2, epoch 1") is None
    nodes.start(1)
    nodes.wait_until_in_sync()
    old = nodes.metadata(topic).topics[0]
    assert (old.partitions[0].leader_id, old.partitions[0].leader_epoch) == (2, 1)

    admin = AdminClient({"bootstrap.servers": nodes.bootstrap, **QUICK_CLIENT})
    admin.delete_topics([topic])[topic].result()
    nodes.create_topic(topic, assignments=[[1, 2]])

    def is_new_everywhere() -> bool:
        told = [nodes.metadata(topic, of=each.node_id).topics[0] for each in nodes.brokers]
        return len({each.topic_id for each in told} - {old.topic_id}) == 1 and all(
            each.partitions and (each.partitions[0].leader_id, each.partitions[0].leader_epoch) == (1, 0)
            for each in told
        )

    nodes.eventually(is_new_everywhere, "the new topic on every broker, led by 1 in epoch 0")


@pytest.mark.long
def test_a_new_producer_writes_to_a_topic_made_again(three_nodes: NodeCluster, unique_name: str) -> None:
    settings = {"bootstrap.servers": three_nodes.bootstrap, **QUICK_PRODUCER}
    make_again_after_an_election(three_nodes, Producer(settings), unique_name)

    assert delivery(Producer(settings), unique_name, b"of a client that knew no older epoch") is None


@pytest.mark.long
def test_librdkafka_takes_the_old_topics_leader_epoch_for_the_newer(
    three_nodes: NodeCluster, unique_name: str
) -> None:
    settings = {"bootstrap.servers": three_nodes.bootstrap, **QUICK_PRODUCER, "message.timeout.ms": 10_000}
    producer = Producer(settings)
    make_again_after_an_election(three_nodes, producer, unique_name)

    error = delivery(producer, unique_name, b"to leader 2, who leads no more")

    assert error is not None and error.code() == KafkaError._MSG_TIMED_OUT
