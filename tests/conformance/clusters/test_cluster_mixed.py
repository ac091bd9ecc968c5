"""Nodes of ottla and of Apache Kafka in one cluster: brokers of both, and a quorum of both.

A migration without downtime needs this.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.broker.coordinators.coordinator_partitions import CHECKPOINT
from ottla.core.coordination.partitioning import older_partition_for, partition_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.record_batch import NewRecord, decode_records, encode_batch
from ottla.protocol.records.framing import encode_coordinator_key, encode_coordinator_value
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from ottla.protocol.records.offset_commit_value import OffsetCommitValue
from ottla.storage.checkpoints import uuid_to_text
from support.clients.cluster_load import RecordedProducer, check_nothing_lost
from support.clients.cluster_wire import produce_to_leader
from support.clients.confluent import read_all
from support.clients.named_states import draw_name, seed_of_this_run
from support.clients.wire import WireClient, batch
from support.servers.apache_kafka import CLUSTER_ID
from support.servers.clusters import (
    APACHE_KAFKA,
    BROKER,
    CONTROLLER,
    OTTLA,
    ClusterPlan,
    NodeCluster,
    NodePlan,
    start_cluster,
)

pytestmark = [pytest.mark.long, pytest.mark.java, pytest.mark.timeout(400)]

BROKERS = [1, 2, 3]
PARTITIONS = (0, 1, 2)


@pytest.fixture
def under_kafka(tmp_path: Path) -> Iterator[NodeCluster]:
    """Kafka's controller 101, Kafka's brokers 1 and 3, ottla's broker 2."""
    nodes = (
        NodePlan(101, (CONTROLLER,)),
        NodePlan(1, (BROKER,)),
        NodePlan(2, (BROKER,), kind=OTTLA),
        NodePlan(3, (BROKER,)),
    )
    settings = {
        "min.insync.replicas": "2",
        "offsets.topic.num.partitions": "13",
        "share.coordinator.state.topic.num.partitions": "5",
    }
    plan = ClusterPlan(nodes, settings, dynamic=True, heap="300m")
    with start_cluster(APACHE_KAFKA, tmp_path / "nodes", plan) as cluster:
        yield cluster


def test_an_ottla_broker_serves_under_kafkas_controller(under_kafka: NodeCluster) -> None:
    cluster = under_kafka
    # it observes the quorum and is registered
    assert {each.replica_id for each in cluster.quorum(of=2).observers} == set(BROKERS)
    assert cluster.metadata("", of=2).cluster_id == CLUSTER_ID
    # it leads and follows
    # one replica alone may commit; otherwise consumers read only what a follower knows to be committed
    cluster.create_topic(
        "t", assignments=[[1, 2, 3], [2, 1, 3], [3, 2, 1]], config={"min.insync.replicas": "1"}
    )
    for index in range(3):
        for number in range(10):
            answer = produce_to_leader(cluster, "t", index, batch(10))
            assert (answer.error_code, answer.base_offset) == (0, number * 10)
    cluster.wait_until_in_sync()
    assert len(read_all(cluster.bootstrap, "t", 300, PARTITIONS)) == 300
    # when Kafka's brokers die, it leads what they led, with all that was acknowledged
    cluster.kill(1)
    cluster.kill(3)
    cluster.eventually(
        lambda: all(each.leader_id == 2 for each in cluster.metadata("t").topics[0].partitions), "2 leads all"
    )
    assert len(read_all(cluster.nodes[2].bootstrap, "t", 300, PARTITIONS)) == 300
    # when they are back they follow it
    cluster.heal()
    # when it stops cleanly it gives them everything
    cluster.stop(2)
    assert all(each.leader_id in (1, 3) for each in cluster.metadata("t").topics[0].partitions)
    cluster.heal()


def test_nodes_of_both_kinds_die_under_load(under_kafka: NodeCluster) -> None:
    cluster = under_kafka
    cluster.create_topic("t", 6)
    with RecordedProducer(cluster.bootstrap, "t", 6).running() as producer:
        for victim in (2, 1, 2, 3):
            producer.wait_for_more(300)
            cluster.kill(victim)
            producer.wait_for_all_partitions()
            cluster.heal()
        producer.wait_for_more(100)
    check_nothing_lost(cluster, producer)


def test_one_quorum_of_both_kinds(tmp_path: Path) -> None:
    """Two of Kafka's voters and one of ottla's: each leads in its turn."""
    nodes = (
        NodePlan(101, (CONTROLLER,)),
        NodePlan(102, (CONTROLLER,)),
        NodePlan(103, (CONTROLLER,), kind=OTTLA),
        NodePlan(1, (BROKER,)),
        NodePlan(2, (BROKER,), kind=OTTLA),
    )
    settings = {"default.replication.factor": "2", "offsets.topic.replication.factor": "2"}
    plan = ClusterPlan(nodes, settings, heap="300m", cluster_id=CLUSTER_ID)
    with start_cluster(APACHE_KAFKA, tmp_path / "nodes", plan) as cluster:
        assert {each.replica_id for each in cluster.quorum().current_voters} == {101, 102, 103}
        led: set[int] = set()
        cluster.create_topic("t", 2, 2)
        for number in range(8):
            active = cluster.active_controller()
            led.add(active)
            cluster.create_topic(f"t-{number}", 2, 2)
            assert produce_to_leader(cluster, "t", 0, batch(1)).error_code == ErrorCode.NONE
            if led == {101, 102, 103} or {103} < led:
                break
            # when: the leader goes, another takes over
            cluster.kill(active)
            cluster.eventually(
                lambda active=active: cluster.quorum().leader_id not in (-1, active), "another leads"
            )
            cluster.start(active)
        assert 103 in led, f"ottla's controller never led: {led}"
        names = {each.name for each in cluster.metadata().topics}
        assert {f"t-{number}" for number in range(len(led))} <= names


def test_brokers_of_both_kinds_keep_a_name_in_the_same_place(under_kafka: NodeCluster) -> None:
    cluster = under_kafka
    rng = random.Random(seed_of_this_run())
    names = [draw_name(rng) for _ in range(40)]
    share_keys = [
        f"{name.replace(':', '')}:{uuid_to_text(uuid.uuid4())}:{rng.randrange(9)}" for name in names
    ]
    cluster.create_topic("t", 1, 3)
    # every broker sends a client to the same one
    for key_type, keys in enumerate((names, names, share_keys)):

        def found(node_id: int, key_type: int = key_type, keys: list[str] = keys) -> dict[str, int]:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
            with cluster.wire(node_id) as wire:
                answer = wire.call(request)
            return {each.key: each.node_id for each in answer.coordinators if not each.error_code}

        cluster.eventually(
            lambda found=found: all(len(found(node_id)) == len(set(keys)) for node_id in BROKERS),  # noqa: B023
            "every key has a coordinator",
        )
        cluster.eventually(
            lambda found=found: found(1) == found(2) == found(3), "all brokers name the same coordinators"
        )
        assert len(set(found(2).values())) > 1, "else there was nothing to differ about"
    # and offsets that are committed through one are found through any other, wherever the coordinator is
    committed = {name: rng.randrange(1_000_000) for name in names}
    for name, offset in committed.items():
        with consumer(cluster.nodes[rng.choice(BROKERS)].bootstrap, name) as each:
            each.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
    for name, offset in committed.items():
        with consumer(cluster.nodes[rng.choice(BROKERS)].bootstrap, name) as each:
            assert [part.offset for part in each.committed([TopicPartition("t", 0)], 30)] == [offset]


@contextmanager
def consumer(bootstrap: str, group: str) -> Iterator[Consumer]:
    """A client of a group of which it is not a member."""
    made = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": "false"})
    try:
        yield made
    finally:
        made.close()


def test_offsets_left_with_a_broker_of_kafkas_come_home(under_kafka: NodeCluster) -> None:
    """An older ottla's offsets lie where Kafka leads by now: ottla's broker fetches them there."""
    cluster = under_kafka
    rng = random.Random(seed_of_this_run())
    cluster.create_topic("t", 1, 3)
    with consumer(cluster.bootstrap, "first") as each:  # makes the topic of groups
        each.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    cluster.wait_until_in_sync()
    led = {
        each.partition_index: each.leader_id
        for each in cluster.metadata("__consumer_offsets").topics[0].partitions
    }

    def is_between_both(name: str) -> bool:
        home, away = partition_for(name, len(led)), older_partition_for(name, len(led))
        return led[home] == 2 and led[away] != 2

    assert any(is_between_both(f"group-{number}") for number in range(1000)), led
    names: dict[str, int] = {}
    while len(names) < 5:
        name = draw_name(rng)
        if is_between_both(name):
            names[name] = rng.randrange(1_000_000)
    for name, offset in names.items():
        away = older_partition_for(name, len(led))
        value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=1)
        record = NewRecord(
            encode_coordinator_key(OffsetCommitKey(group=name, topic="t", partition=0)),
            encode_coordinator_value(value, 3),
            1_700_000_000_000,
        )
        address = cluster.nodes[led[away]].bootstrap
        with WireClient.connect(address, client_id="__admin_client") as wire:
            answer = wire.produce("__consumer_offsets", away, encode_batch([record]))
            assert answer.error_code == ErrorCode.NONE
    # when: ottla's broker loads its partitions
    cluster.stop(2)
    # what it has seen to be clean was so before the older one wrote
    (cluster.nodes[2].log_directory / CHECKPOINT).unlink()
    cluster.start(2)
    cluster.wait_until_in_sync()
    with cluster.wire(1) as wire:
        wire.call(ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=30_000))
    for home in {partition_for(name, len(led)) for name in names}:
        cluster.eventually(
            lambda home=home: cluster.partition("__consumer_offsets", home).leader_id == 2,
            "ottla leads what it led",
        )
    # then
    for name, offset in names.items():
        with consumer(cluster.nodes[rng.choice(BROKERS)].bootstrap, name) as each:
            assert [part.offset for part in each.committed([TopicPartition("t", 0)], 60)] == [offset]
    for name in names:
        away = older_partition_for(name, len(led))
        with cluster.wire(led[away]) as wire:
            last = {
                record.key: record.value
                for _, batch_bytes in wire.read_batches("__consumer_offsets", away)
                for record in decode_records(batch_bytes)
            }
        # and no broker has written to partitions of a coordinator of Kafka's
        assert last[encode_coordinator_key(OffsetCommitKey(group=name, topic="t", partition=0))] is not None
