"""Share groups over several brokers: leaders, share coordinator and group coordinator on different nodes."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import AcknowledgeType

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.record_batch import decode_records
from support.clients.confluent import produce
from support.clients.share_consumers import poll_until, read_from_the_beginning, share_consumer
from support.servers.clusters import NodeCluster

PARTITIONS = 3
GROUP_RESOURCE = 32
QUEUE_CONFIGS = {"errors.deadletterqueue.group.enable": "true"}


def consume(cluster: NodeCluster, group: str, topic: str, count: int) -> Counter[bytes]:
    """So many records, acknowledged: a poll acknowledges the records of the one before."""
    seen: Counter[bytes] = Counter()

    def poll() -> None:
        for message in client.poll(0.5):
            if message.error() is None:
                seen[message.value()] += 1

    with share_consumer(cluster, group, topic) as client:  # type: ignore[arg-type]
        poll_until(lambda: len(seen) >= count, poll)
        poll()
        client.commit_sync(10)
    return seen


def values(first: int, count: int) -> Counter[bytes]:
    return Counter(f"value {number}".encode() for number in range(first, first + count))


def produce_values(cluster: NodeCluster, topic: str, first: int, count: int) -> None:
    produce(
        cluster.bootstrap,
        topic,
        [
            {"value": f"value {number}", "partition": number % PARTITIONS}
            for number in range(first, first + count)
        ],
    )


def test_records_of_all_leaders_are_delivered_once(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, partitions=PARTITIONS)
    read_from_the_beginning(three_nodes.a_broker(), unique_name)  # type: ignore[arg-type]
    produce_values(three_nodes, topic, 0, 300)
    assert consume(three_nodes, unique_name, topic, 300) == values(0, 300)
    # records that were acknowledged through all the coordinators stay so
    produce_values(three_nodes, topic, 300, 30)
    assert consume(three_nodes, unique_name, topic, 30) == values(300, 30)


@pytest.mark.long
def test_states_outlive_any_node(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, partitions=PARTITIONS)
    read_from_the_beginning(three_nodes.a_broker(), unique_name)  # type: ignore[arg-type]
    produced = 0
    for node_id in (1, 2, 3):
        # given: everything so far is acknowledged
        produce_values(three_nodes, topic, produced, 30)
        assert consume(three_nodes, unique_name, topic, 30) == values(produced, 30)
        produced += 30
        # when: a node is restarted, with whatever it leads and coordinates
        three_nodes.restart(node_id)
        three_nodes.heal()


def reject_all(cluster: NodeCluster, group: str, topic: str, count: int) -> None:
    """Have a share consumer reject so many records."""
    rejected: set[bytes] = set()

    def poll() -> None:
        for message in client.poll(0.5):
            if message.error() is None:
                client.acknowledge(message, AcknowledgeType.REJECT)
                rejected.add(message.value())
        client.commit_sync(30.0)

    with share_consumer(cluster, group, topic, share_acknowledgement_mode="explicit") as client:  # type: ignore[arg-type]
        poll_until(lambda: len(rejected) >= count, poll)


def use_queue(cluster: NodeCluster, group: str, queue: str) -> None:
    """Give a group a topic for its dead letters, with copies."""
    values = {
        "errors.deadletterqueue.topic.name": queue,
        "errors.deadletterqueue.copy.record.enable": "true",
    }
    configs = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in values.items()]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=configs)
    with cluster.wire() as wire:
        answer = wire.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == ErrorCode.NONE


def copies(cluster: NodeCluster, queue: str, index: int) -> Counter[bytes | None]:
    """The values of the letters in one partition of a queue."""
    with cluster.wire(cluster.partition(queue, index).leader_id) as wire:
        batches = wire.read_batches(queue, index)
    return Counter(record.value for _, data in batches for record in decode_records(data))


def test_dead_letters_get_to_the_brokers_that_lead_their_queue(
    three_nodes: NodeCluster, unique_name: str
) -> None:
    """Given a queue whose partitions are all led by another broker than their sources, and which is to be on
    several brokers, when all records are rejected, then it has them all."""
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2], [2, 3], [3, 1]])
    queue = three_nodes.create_topic(
        f"dlq.{unique_name}",
        assignments=[[2, 3], [3, 1], [1, 2]],
        config={**QUEUE_CONFIGS, "min.insync.replicas": "2"},
    )
    read_from_the_beginning(three_nodes.a_broker(), unique_name)  # type: ignore[arg-type]
    use_queue(three_nodes, unique_name, queue)
    produce_values(three_nodes, topic, 0, 60)
    # when
    reject_all(three_nodes, unique_name, topic, 60)
    # then
    for index in range(PARTITIONS):
        wanted = Counter(f"value {number}".encode() for number in range(index, 60, PARTITIONS))
        three_nodes.eventually(
            lambda index=index, wanted=wanted: copies(three_nodes, queue, index) == wanted,  # type: ignore[misc]
            f"the letters are in {queue}-{index}",
        )


@pytest.mark.long
def test_dead_letters_wait_for_the_broker_that_leads_their_queue(
    three_nodes: NodeCluster, unique_name: str
) -> None:
    """Given a queue on one broker, when that is killed before records are rejected, then they are in it after
    its return."""
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2, 3], [2, 3, 1], [1, 3, 2]])
    queue = three_nodes.create_topic(f"dlq.{unique_name}", assignments=[[3]], config=QUEUE_CONFIGS)
    read_from_the_beginning(three_nodes.a_broker(), unique_name)  # type: ignore[arg-type]
    use_queue(three_nodes, unique_name, queue)
    produce_values(three_nodes, topic, 0, 30)
    # when
    three_nodes.kill(3)
    three_nodes.wait_until_fenced(3)
    reject_all(three_nodes, unique_name, topic, 30)
    three_nodes.start(3)
    # then
    wanted = {f"value {number}".encode() for number in range(30)}
    three_nodes.eventually(lambda: set(copies(three_nodes, queue, 0)) == wanted, "the letters are there")
