"""Replicas of a partition: their records, the in-sync set, elections, reads from followers."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from ottla.protocol.errors import ErrorCode
from support.clients.cluster_wire import (
    PREFERRED,
    consumer_fetch,
    describe_partitions,
    elect,
    end_offset_of_epoch,
    list_offset,
    produce_to_leader,
)
from support.clients.confluent import read_all
from support.clients.wire import batch
from support.servers.clusters import NodeCluster

NODES = [1, 2, 3]


def follower_has(cluster: NodeCluster, node_id: int, topic: str, end: int) -> bool:
    """Whether a follower serves everything below `end` (KIP-392: a consumer may ask it)."""
    with cluster.wire(node_id) as client:
        answer = consumer_fetch(client, topic)
    return bool(answer.error_code == ErrorCode.NONE and answer.high_watermark >= end)


@pytest.mark.parametrize("acks", [1, -1], ids=["acks=1", "acks=all"])
def test_followers_have_the_leaders_records(three_nodes: NodeCluster, unique_name: str, acks: int) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[2, 3, 1]])
    for number in range(5):
        answer = produce_to_leader(three_nodes, topic, 0, batch(10, b"%d" % number), acks)
        assert (answer.error_code, answer.base_offset) == (0, number * 10)
    for node_id in NODES:
        three_nodes.eventually(
            lambda node_id=node_id: follower_has(three_nodes, node_id, topic, 50), f"{node_id} has all"
        )
    copies = []
    for node_id in NODES:
        with three_nodes.wire(node_id) as client:
            copies.append(bytes(consumer_fetch(client, topic).records))
    assert copies[0] == copies[1] == copies[2]
    assert len(copies[0]) > 0


def test_acknowledged_by_all_means_committed(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2, 3]])
    with three_nodes.wire(1) as client:
        for number in range(20):
            assert client.produce(topic, 0, batch(1), -1).base_offset == number
            assert list_offset(client, topic).offset == number + 1


def test_too_few_in_sync(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(
        unique_name, assignments=[[1, 2, 3]], config={"min.insync.replicas": "3"}
    )
    assert produce_to_leader(three_nodes, topic, 0, batch(1)).error_code == ErrorCode.NONE
    # when: a clean stop takes the broker out of the in-sync set at once
    three_nodes.stop(3)
    three_nodes.wait_for_isr(topic, 0, [1, 2])
    # then
    refused = produce_to_leader(three_nodes, topic, 0, batch(1))
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce_to_leader(three_nodes, topic, 0, batch(1), acks=1).error_code == ErrorCode.NONE
    # when
    three_nodes.start(3)
    three_nodes.wait_for_isr(topic, 0, NODES)
    # then
    assert produce_to_leader(three_nodes, topic, 0, batch(1)).base_offset == 2


def test_the_leader_stops_and_another_leads_at_once(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[2, 1, 3]])
    assert produce_to_leader(three_nodes, topic, 0, batch(7)).error_code == ErrorCode.NONE
    # when
    three_nodes.stop(2)
    # then: it has given its leadership away before it went
    partition = three_nodes.partition(topic)
    assert partition.leader_id in (1, 3)
    assert partition.leader_epoch == 1
    assert sorted(partition.isr_nodes) == [1, 3]
    assert list(partition.offline_replicas) == [2]
    assert 2 not in {each.node_id for each in three_nodes.metadata("").brokers}
    answer = produce_to_leader(three_nodes, topic, 0, batch(3))
    assert (answer.error_code, answer.base_offset) == (0, 7)
    with three_nodes.wire(partition.leader_id) as client:
        assert (
            consumer_fetch(client, topic, current_leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
        )
        ended = end_offset_of_epoch(client, topic, 0, 0)
        assert (ended.error_code, ended.leader_epoch, ended.end_offset) == (0, 0, 7)
    # when: it comes back, it follows
    three_nodes.start(2)
    three_nodes.wait_for_isr(topic, 0, NODES)
    assert three_nodes.partition(topic).leader_id == partition.leader_id
    # and leads again when it is asked to
    with three_nodes.wire() as client:
        assert elect(client, PREFERRED, topic, 0) == {0: ErrorCode.NONE}
        three_nodes.eventually(lambda: three_nodes.partition(topic).leader_id == 2, "the preferred leads")
        assert elect(client, PREFERRED, topic, 0) == {0: ErrorCode.ELECTION_NOT_NEEDED}
        assert elect(client, PREFERRED, topic, 5) == {5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert produce_to_leader(three_nodes, topic, 0, batch(1)).base_offset == 10


def test_a_preferred_leader_that_is_away_is_not_elected(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[3, 1, 2]])
    three_nodes.stop(3)
    with three_nodes.wire() as client:
        assert elect(client, PREFERRED, topic, 0) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def test_a_consumer_is_sent_to_its_rack(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2]])
    assert produce_to_leader(three_nodes, topic, 0, batch(4)).error_code == ErrorCode.NONE
    three_nodes.eventually(lambda: follower_has(three_nodes, 2, topic, 4), "the follower has all")
    with three_nodes.wire(1) as client:
        # there is a replica in rack 2, none in rack 3, and rack 1 is the leader's
        three_nodes.eventually(
            lambda: consumer_fetch(client, topic, rack="rack-2").preferred_read_replica == 2, "sent to 2"
        )
        sent = consumer_fetch(client, topic, rack="rack-2")
        assert (sent.error_code, sent.preferred_read_replica, bytes(sent.records or b"")) == (0, 2, b"")
        for rack in ("rack-1", "rack-3", ""):
            answer = consumer_fetch(client, topic, rack=rack)
            assert answer.preferred_read_replica == -1
            assert len(answer.records) > 0
    messages = read_all(three_nodes.bootstrap, topic, 4, client_rack="rack-2")
    assert [message.offset() for message in messages] == [0, 1, 2, 3]


def test_a_dead_leader_loses_nothing_acknowledged(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(
        unique_name, assignments=[[3, 1, 2]], config={"min.insync.replicas": "2"}
    )
    for number in range(10):
        answer = produce_to_leader(three_nodes, topic, 0, batch(2, b"%d" % number))
        assert answer.error_code == ErrorCode.NONE
    # when
    three_nodes.kill(3)
    leader = three_nodes.wait_for_leader(topic, other_than=3)
    # then
    assert leader == 1
    with three_nodes.wire(leader) as client:
        three_nodes.eventually(lambda: list_offset(client, topic).offset == 20, "the end is known")
        (partition,) = describe_partitions(client, [topic]).topics[0].partitions
        assert partition.leader_epoch >= 1
        assert 3 not in partition.isr_nodes
        assert list(partition.offline_replicas) == [3]
    assert produce_to_leader(three_nodes, topic, 0, batch(1)).base_offset == 20
    three_nodes.start(3)
    three_nodes.wait_for_isr(topic, 0, NODES)
    three_nodes.eventually(lambda: follower_has(three_nodes, 3, topic, 21), "3 has all")


@pytest.mark.long
def test_a_follower_that_hangs_leaves_the_in_sync_set(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2, 3]])
    active = three_nodes.active_controller()
    hanging = next(node_id for node_id in (2, 3) if node_id != active)
    three_nodes.pause(hanging)
    # acks=all waits for it until it is out of the set
    producer = Producer(
        {"bootstrap.servers": three_nodes.bootstrap, "message.timeout.ms": 60_000, "log_level": 0}
    )
    errors: list[object] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None]
    three_nodes.wait_for_isr(topic, 0, set(NODES) - {hanging})
    three_nodes.resume(hanging)
    three_nodes.wait_for_isr(topic, 0, NODES)
    three_nodes.eventually(lambda: follower_has(three_nodes, hanging, topic, 1), "it has all again")
