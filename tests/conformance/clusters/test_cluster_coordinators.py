"""Coordinators of groups and transactions are where their partition's leader is, and move with it."""

from __future__ import annotations

from confluent_kafka import Producer, TopicPartition

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from support.clients.cluster_wire import TRANSACTION_KEY, coordinator_of, produce_to_leader
from support.clients.confluent import consumer, poll_messages, read_all
from support.clients.wire import WireClient, batch
from support.servers.clusters import NodeCluster

NODES = [1, 2, 3]
QUICK = {
    "reconnect_backoff_max_ms": 200,
    "retry_backoff_ms": 50,
    "topic_metadata_refresh_fast_interval_ms": 50,
}


def committed_offset(client: WireClient, group: str, topic: str) -> tuple[int, int]:
    """OffsetFetch of partition 0: the group's error and the offset."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    (found,) = client.call(request, 8).groups
    offsets = [
        each.committed_offset
        for each_topic in found.topics
        if each_topic.name == topic
        for each in each_topic.partitions
    ]
    return found.error_code, offsets[0] if offsets else -1


def test_only_the_coordinator_answers_for_a_group(three_nodes: NodeCluster, unique_name: str) -> None:
    coordinator = coordinator_of(three_nodes, unique_name)
    with three_nodes.wire(coordinator) as client:
        # it is asked before it has loaded the group
        three_nodes.eventually(lambda: committed_offset(client, unique_name, "t")[0] == 0, "it is loaded")
    for node_id in NODES:
        with three_nodes.wire(node_id) as client:
            error, _ = committed_offset(client, unique_name, "t")
            beat = client.call(HeartbeatRequest(group_id=unique_name, generation_id=1, member_id="m"))
        if node_id == coordinator:
            assert error == ErrorCode.NONE
            assert beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        else:
            assert error == ErrorCode.NOT_COORDINATOR
            assert beat.error_code == ErrorCode.NOT_COORDINATOR


def test_a_groups_offsets_outlive_its_coordinator(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name)
    group = unique_name
    coordinator = coordinator_of(three_nodes, group)
    assert produce_to_leader(three_nodes, topic, 0, batch(10)).error_code == ErrorCode.NONE
    # a session that outlives the election of a new coordinator, however busy the machine is
    with consumer(three_nodes.bootstrap, group, session_timeout_ms=30_000, **QUICK) as client:
        client.subscribe([topic])
        poll_messages(client, 10)
        client.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
        # when: the coordinator dies, and the member does not know
        three_nodes.kill(coordinator)
        three_nodes.eventually(
            lambda: coordinator_of(three_nodes, group) != coordinator, "another coordinates"
        )
        # then
        client.commit(offsets=[TopicPartition(topic, 0, 8)], asynchronous=False)
        (position,) = client.committed([TopicPartition(topic, 0)], 30)
        assert position.offset == 8
    moved_to = coordinator_of(three_nodes, group)
    with three_nodes.wire(moved_to) as wire:
        three_nodes.eventually(lambda: committed_offset(wire, group, topic) == (0, 8), "the offset is there")


def test_a_transaction_outlives_its_coordinator(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, partitions=2)
    coordinator = coordinator_of(three_nodes, unique_name, TRANSACTION_KEY)
    producer = Producer(
        {
            "bootstrap.servers": three_nodes.bootstrap,
            "transactional.id": unique_name,
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 50,
        }
    )
    producer.init_transactions(30)
    # given: one that is committed and one that is open
    producer.begin_transaction()
    producer.produce(topic, b"1", partition=0)
    producer.produce(topic, b"1", partition=1)
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"2", partition=0)
    producer.flush(30)
    # when
    three_nodes.stop(coordinator)
    # then: it goes on with another
    producer.produce(topic, b"2", partition=1)
    producer.commit_transaction(60)
    producer.begin_transaction()
    producer.produce(topic, b"3", partition=0)
    producer.abort_transaction(60)
    messages = read_all(three_nodes.bootstrap, topic, 4, (0, 1), isolation_level="read_committed")
    assert sorted((message.partition(), message.value()) for message in messages) == [
        (0, b"1"),
        (0, b"2"),
        (1, b"1"),
        (1, b"2"),
    ]
