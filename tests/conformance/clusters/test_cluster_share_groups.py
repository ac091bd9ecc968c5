"""Share groups over several brokers: leaders, share coordinator and group coordinator on different nodes."""

from __future__ import annotations

from collections import Counter

import pytest

from support.clients.confluent import produce
from support.clients.share_consumers import poll_until, read_from_the_beginning, share_consumer
from support.servers.clusters import NodeCluster

PARTITIONS = 3


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
