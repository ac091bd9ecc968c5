"""Nodes in network namespaces that delay, lose and part: every acknowledged record is there, once."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from support.clients.cluster_load import RecordedProducer, check_nothing_lost, outcome_counts
from support.clients.cluster_wire import produce_to_leader
from support.clients.wire import WireClient, batch
from support.servers.clusters import ClusterPlan, NodeCluster, combined, start_cluster
from support.servers.network import HERE, Network, network, why_not_here

pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.timeout(600)]

NODES = [1, 2, 3]
TOPIC = "t"
PARTITIONS = 3
DELAY = {"delay_ms": 10.0, "jitter_ms": 8.0, "loss": 0.005, "duplication": 0.005}


@functools.cache
def missing() -> str | None:
    return why_not_here()


@pytest.fixture
def net() -> Iterator[Network]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with network(NODES) as running:
        yield running


@pytest.fixture
def netted(net: Network, cluster_kind: str, tmp_path: Path) -> Iterator[NodeCluster]:
    """Three combined nodes, each in its namespace."""
    plan = ClusterPlan(
        combined(3), {"min.insync.replicas": "2"}, host_of=net.host, command_prefix_of=net.inside
    )
    with start_cluster(cluster_kind, tmp_path / "nodes", plan) as running:
        running.create_topic(TOPIC, PARTITIONS)
        yield running
        net.join()


def report(cluster: NodeCluster, drill: str, producer: RecordedProducer, net: Network) -> None:
    figures = {
        "drill": drill,
        "cluster": cluster.name,
        "longest_silence_s": producer.longest_silences(),
        "packets": net.forwarded,
        "dropped": net.dropped,
        **outcome_counts(producer.history),
    }
    print(json.dumps(figures))


def others(*node_ids: int) -> list[int]:
    return [node_id for node_id in NODES if node_id not in node_ids]


def view_of(cluster: NodeCluster, of: int) -> list[int]:
    """The leaders that one node names."""
    return [each.leader_id for each in cluster.metadata(TOPIC, of=of).topics[0].partitions]


def wait_until_left_alone(cluster: NodeCluster, node_id: int) -> None:
    """The other two lead everything without this node."""
    rest = others(node_id)
    cluster.eventually(
        lambda: all(
            set(view_of(cluster, other)) <= set(rest) and cluster.quorum(of=other).leader_id in rest
            for other in rest
        ),
        f"{rest} go on without {node_id}",
        # a broker of Kafka's waits for half a minute for a controller that does not answer any more
        180,
    )


def calls_itself_leader(cluster: NodeCluster, node_id: int) -> bool:
    """Whether a node's controller answers as the leader of the quorum."""
    asked = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    with WireClient.connect(cluster.nodes[node_id].controller_bootstrap) as client:
        answer = client.call(DescribeQuorumRequest(topics=[asked]))
    if answer.error_code != ErrorCode.NONE:
        return False
    return bool(answer.topics[0].partitions[0].error_code == ErrorCode.NONE)


def test_a_slow_and_lossy_network(netted: NodeCluster, net: Network) -> None:
    with RecordedProducer(netted.bootstrap, TOPIC, PARTITIONS).running() as producer:
        producer.wait_for_more(100)
        net.set_weather(**DELAY)
        producer.wait_for_more(2_000)
        assert netted.create_topic("another", 6)
        net.set_weather(delay_ms=40.0, jitter_ms=30.0, loss=0.02)
        producer.wait_for_more(500)
        net.set_weather(delay_ms=0.0, jitter_ms=0.0, loss=0.0, duplication=0.0)
        netted.heal()
    check_nothing_lost(netted, producer)
    report(netted, "lossy network", producer, net)


def test_leaders_are_cut_off_from_the_others(netted: NodeCluster, net: Network) -> None:
    """The client reaches both sides: the one cut off must not acknowledge what the others do not have."""
    net.set_weather(delay_ms=2.0, jitter_ms=1.0)
    with RecordedProducer(netted.bootstrap, TOPIC, PARTITIONS).running() as producer:
        for _ in range(2):
            producer.wait_for_more(200)
            controller = netted.active_controller()
            for cut_off in (controller, others(controller)[0]):
                # when
                net.isolate(cut_off)
                wait_until_left_alone(netted, cut_off)
                # a client that may ask the one cut off may be told of old leaders for long: so it can't now
                net.isolate(cut_off, from_test=True)
                producer.wait_for_all_partitions(120)
                # then: it no longer leads its partitions
                net.join()
                netted.heal()
                producer.wait_for_more(200)
    check_nothing_lost(netted, producer)
    report(netted, "cut off", producer, net)


def test_a_node_cut_off_acknowledges_nothing(netted: NodeCluster, net: Network) -> None:
    topic = netted.create_topic("one", assignments=[[1, 2, 3]])
    assert produce_to_leader(netted, topic, 0, batch(3)).error_code == ErrorCode.NONE
    # when
    net.isolate(1)
    with netted.wire(1) as client:
        refused = client.produce(topic, 0, batch(1, b"lost"))
    # then: time is up before the others have it
    assert refused.error_code in (
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )
    wait_until_left_alone(netted, 1)
    netted.eventually(lambda: netted.partition(topic, of=2).leader_id in (2, 3), "another leads")
    with netted.wire(netted.partition(topic, of=2).leader_id) as client:
        netted.eventually(
            lambda: client.produce(topic, 0, batch(1, b"kept")).base_offset == 3, "it goes on after the three"
        )
    # when: it is back, records that only it had are gone everywhere
    net.join()
    netted.wait_for_isr(topic, 0, NODES)
    netted.heal()
    leader = netted.partition(topic).leader_id
    with netted.wire(leader) as client:
        logs = [bytes(data) for _, data in client.read_batches(topic, 0)]
    assert len(logs) == 2
    assert not any(b"lost" in data for data in logs)
    # the copy on the node that was cut off is the same
    with netted.wire(1) as client:
        assert [bytes(data) for _, data in client.read_batches(topic, 0)] == logs


def test_one_direction_is_gone(netted: NodeCluster, net: Network) -> None:
    with RecordedProducer(netted.bootstrap, TOPIC, PARTITIONS).running() as producer:
        for deaf in (netted.active_controller(), *others(netted.active_controller())[:1]):
            producer.wait_for_more(200)
            # when: it is heard and hears nothing
            net.separate([*others(deaf), HERE], [deaf], both_ways=False)
            producer.wait_for_all_partitions(120)
            net.join()
            netted.heal()
        producer.wait_for_more(200)
    check_nothing_lost(netted, producer)
    report(netted, "one direction", producer, net)


def test_two_nodes_do_not_see_each_other_and_the_third_sees_both(netted: NodeCluster, net: Network) -> None:
    with RecordedProducer(netted.bootstrap, TOPIC, PARTITIONS).running() as producer:
        for a, b in itertools.combinations(NODES, 2):
            producer.wait_for_more(200)
            net.separate([a], [b])
            producer.wait_for_all_partitions(120)
            producer.wait_for_more(200, 120)
            net.join()
            netted.heal()
    check_nothing_lost(netted, producer)
    report(netted, "one link", producer, net)


def test_the_network_parts_and_joins_again_and_again(netted: NodeCluster, net: Network) -> None:
    net.set_weather(delay_ms=2.0, jitter_ms=1.0, loss=0.002)
    with RecordedProducer(netted.bootstrap, TOPIC, PARTITIONS).running() as producer:
        for turn in range(8):
            net.isolate(NODES[turn % 3], from_test=turn % 2 == 0)
            producer.wait_for_more(60, 120)
            net.join()
            producer.wait_for_more(60, 120)
        netted.heal()
        producer.wait_for_all_partitions()
    check_nothing_lost(netted, producer)
    report(netted, "flapping", producer, net)


def test_everybody_is_alone_for_a_while(netted: NodeCluster, net: Network) -> None:
    with RecordedProducer(netted.bootstrap, TOPIC, PARTITIONS).running() as producer:
        producer.wait_for_more(200)
        before = netted.quorum().leader_epoch
        for node_id in NODES:
            net.isolate(node_id)
        netted.eventually(
            lambda: not any(calls_itself_leader(netted, node_id) for node_id in NODES),
            "nobody calls itself the leader",
        )
        net.join()
        netted.heal()
        producer.wait_for_all_partitions()
        assert netted.quorum().leader_epoch > before
    check_nothing_lost(netted, producer)
    report(netted, "all alone", producer, net)
