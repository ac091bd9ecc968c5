"""Three brokers on this node, of either side: started alike, killed, and asked when they serve again.

What a broker answers after a kill is asked over the wire by one client for both sides, without the patience
of a real client's library: what is measured is the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import processes
from bench.errors import BenchError
from bench.servers import BROKER_SETTINGS, KAFKA_HEAP, System
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from support.clients.wire import ConnectionClosed, WireClient, batch
from support.servers.cluster import ServerError
from support.servers.clusters import (
    APACHE_KAFKA,
    OTTLA,
    ClusterPlan,
    NodeCluster,
    combined,
    end_cluster,
    prepare_cluster,
)

BROKERS = 3
KINDS = {System.KAFKA: APACHE_KAFKA, System.OTTLA: OTTLA}
TIMEOUT_SECONDS = 120.0
POLL_SECONDS = 0.005
METADATA_VERSION, PRODUCE_VERSION = 12, 12

CLUSTER_SETTINGS = {
    **BROKER_SETTINGS,
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.replication.factor": "3",
    "auto.leader.rebalance.enable": "false",
}
# A dead broker is noticed after the session's timeout less what had passed since its last heartbeat: the more
# often it beats, the less that is luck.
FAILOVER_SETTINGS = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "500"}
_TROUBLE = (OSError, ConnectionClosed, ServerError, LookupError)


@dataclass(frozen=True, slots=True)
class ClusterServer:
    """A cluster that runs, as clients see it."""

    system: System
    nodes: NodeCluster

    @property
    def bootstrap(self) -> str:
        return self.nodes.bootstrap

    def check_running(self) -> None:
        for node in self.nodes.nodes.values():
            if not node.running:
                raise BenchError(
                    f"{self.system.title}, node {node.node_id}, ended by itself:\n{node.server.log_tail()}"
                )

    def cpu_seconds(self) -> float:
        self.check_running()
        return sum(processes.cpu_seconds(node.pid) for node in self.nodes.nodes.values())


@contextmanager
def serve_cluster(
    system: System, workspace: Path, *, settings: Mapping[str, str] | None = None
) -> Iterator[ClusterServer]:
    """Three combined nodes for the length of the block; `settings` go over CLUSTER_SETTINGS."""
    plan = ClusterPlan(combined(BROKERS), heap=KAFKA_HEAP, quick_start=False, conformance_settings=False)
    plan = plan.with_settings({**CLUSTER_SETTINGS, **(settings or {})})
    try:
        nodes = prepare_cluster(KINDS[system], workspace / "data", plan)
    except ServerError as error:
        raise BenchError(f"{system.title}: {error}") from error
    try:
        try:
            nodes.start(*nodes.nodes)
            nodes.wait_until_unfenced()
        except (ServerError, AssertionError) as error:
            raise BenchError(f"{system.title}: {error}") from error
        yield ClusterServer(system, nodes)
    finally:
        end_cluster(nodes)


# --- how long it takes --------------------------------------------------------------------------------


def failover_seconds(server: ClusterServer, topic: str, *, of_controller: bool) -> float:
    """Kill -9 the leader of a partition; until a write of acks=all to it is acknowledged.

    of_controller: the leader is the active controller too, or is not. Afterwards the cluster is whole again.
    """
    nodes = server.nodes
    active = nodes.active_controller()
    victim = active if of_controller else next(each for each in nodes.nodes if each != active)
    others = [each for each in nodes.nodes if each != victim]
    nodes.create_topic(topic, assignments=[[victim, *others]], config={"min.insync.replicas": "2"})
    _write_until_acknowledged(nodes, topic, nodes.nodes)
    began = time.perf_counter()
    nodes.kill(victim)
    seconds = _write_until_acknowledged(nodes, topic, others) - began
    nodes.heal()
    return seconds


def _write_until_acknowledged(nodes: NodeCluster, topic: str, alive: Sequence[int]) -> float:
    """Ask the living for the leader and write to it, again and again; when it was acknowledged."""
    record = batch(1)

    def written() -> bool:
        for asked in alive:
            leader = nodes.partition(topic, 0, of=asked).leader_id
            if leader in alive:
                with nodes.wire(leader) as client:
                    return bool(client.produce(topic, 0, record).error_code == ErrorCode.NONE)
        return False

    return _until(written, "a write is acknowledged")


def create_partitions_seconds(server: ClusterServer, topic: str, partitions: int) -> float:
    """From the request for a topic of three replicas until every partition has acknowledged a write."""
    nodes = server.nodes
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=topic, num_partitions=partitions, replication_factor=BROKERS)],
        timeout_ms=int(TIMEOUT_SECONDS * 1000),
    )
    began = time.perf_counter()
    with _patient(nodes) as client:
        answer = client.call(request)
    if answer.topics[0].error_code != ErrorCode.NONE:
        raise BenchError(f"{server.system.title} created no topic: {answer.topics[0]}")
    left = set(range(partitions))

    def all_written() -> bool:
        with _patient(nodes) as client:
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
            (found,) = client.call(asked, METADATA_VERSION).topics
        by_leader: dict[int, list[int]] = {}
        for each in found.partitions:
            if each.partition_index in left and each.leader_id >= 0:
                by_leader.setdefault(each.leader_id, []).append(each.partition_index)
        for leader, indexes in by_leader.items():
            left.difference_update(_write_to_all(nodes, topic, leader, indexes))
        return not left

    return _until(all_written, f"{partitions} partitions are written to") - began


def _write_to_all(nodes: NodeCluster, topic: str, leader: int, indexes: Sequence[int]) -> list[int]:
    """One request with a record for each of these partitions; those that acknowledged it."""
    record = batch(1)
    data = [PartitionProduceData(index=index, records=record) for index in indexes]
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )
    with _patient(nodes, leader) as client:
        answer = client.call(request, PRODUCE_VERSION)
    return [
        each.index
        for found in answer.responses
        for each in found.partition_responses
        if each.error_code == ErrorCode.NONE
    ]


def controller_failover_seconds(server: ClusterServer, topic: str) -> float:
    """Kill -9 the active controller; until the next topic is created."""
    nodes = server.nodes
    victim = nodes.active_controller()
    others = [each for each in nodes.nodes if each != victim]
    began = time.perf_counter()
    nodes.kill(victim)

    def created() -> bool:
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=others)
        new = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=[assignment])
        with _patient(nodes, others[0]) as client:
            answer = client.call(CreateTopicsRequest(topics=[new], timeout_ms=30_000))
        done = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        return answer.topics[0].error_code in done

    seconds = _until(created, "a topic is created") - began
    nodes.heal()
    return seconds


@contextmanager
def _patient(nodes: NodeCluster, node_id: int | None = None) -> Iterator[WireClient]:
    """A connection with a long timeout for answers."""
    with nodes.wire(node_id) as client:
        client.connection.settimeout(TIMEOUT_SECONDS)
        yield client


def _until(condition: Callable[[], bool], described: str) -> float:
    """Wait until the condition holds; returns the time (perf_counter). Raises BenchError."""
    deadline = time.perf_counter() + TIMEOUT_SECONDS
    while time.perf_counter() < deadline:
        try:
            if condition():
                return time.perf_counter()
        except _TROUBLE:
            pass  # not up yet: asked again until the deadline
        time.sleep(POLL_SECONDS)
    raise BenchError(f"not within {TIMEOUT_SECONDS} s: {described}")
