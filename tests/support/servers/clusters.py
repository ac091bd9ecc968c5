"""Clusters of several nodes, ottla's and Apache Kafka's alike: a process a node, started, killed, paused.

`start_cluster(kind, directory, plan)` gives a `NodeCluster` for the length of a block. A plan says which
nodes there are; both kinds get the same `server.properties`. Kafka's directories are formatted before,
ottla's nodes format theirs. Waits are bounded and ask the brokers over the wire.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from support.clients.wire import ConnectionClosed, WireClient
from support.servers.apache_kafka import READY_TEXT, format_directory, server_command
from support.servers.cluster import CONFORMANCE_SETTINGS, ServerError, ServerProcess, free_port

OTTLA, APACHE_KAFKA = "ottla", "apache-kafka"
KINDS = (OTTLA, APACHE_KAFKA)
TIMEOUT_S = 60.0
POLL_S = 0.02
END_TIMEOUT_S = 15.0
LOCALHOST = "127.0.0.1"
CONTROLLER, BROKER = "controller", "broker"

# Over CONFORMANCE_SETTINGS: everything thrice, and a dead or slow broker is noticed in seconds.
CLUSTER_SETTINGS: Mapping[str, str] = {
    **CONFORMANCE_SETTINGS,
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "4000",
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.replication.factor": "3",
    "auto.create.topics.enable": "false",
    # elections of preferred leaders are asked for, where a test wants one
    "auto.leader.rebalance.enable": "false",
}


@dataclass(frozen=True, slots=True)
class NodePlan:
    """A node that a cluster shall have, and what it is given over the cluster's settings.

    kind: whose it is, if it is not of the cluster's kind.
    """

    node_id: int
    roles: tuple[str, ...] = (BROKER, CONTROLLER)
    rack: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The plan of a cluster.

    dynamic: `controller.quorum.bootstrap.servers` in place of `controller.quorum.voters`; the first
    controller is the quorum, and others observe until they are added. start_now: the nodes that start with
    the cluster; None for all. cluster_id: said to ottla's nodes, which choose one by the voters otherwise
    (Kafka's have CLUSTER_ID). conformance_settings: CLUSTER_SETTINGS under all others. host_of,
    command_prefix_of: where a node runs, for nodes in network namespaces. java_flags_of: of Kafka's nodes.
    """

    nodes: tuple[NodePlan, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    dynamic: bool = False
    start_now: tuple[int, ...] | None = None
    heap: str = "512m"
    quick_start: bool = True
    cluster_id: str | None = None
    conformance_settings: bool = True
    host_of: Callable[[int], str] = lambda node_id: LOCALHOST
    command_prefix_of: Callable[[int], Sequence[str]] = lambda node_id: ()
    java_flags_of: Callable[[int], Sequence[str]] = lambda node_id: ()

    def with_settings(self, settings: Mapping[str, str]) -> ClusterPlan:
        """The same with these settings too."""
        return replace(self, settings={**self.settings, **settings})


def combined(count: int = 3, *, racks: Sequence[str | None] = ()) -> tuple[NodePlan, ...]:
    """Nodes 1 to `count`, each broker and controller."""
    return tuple(
        NodePlan(number + 1, rack=racks[number] if number < len(racks) else None) for number in range(count)
    )


def separate(controllers: int = 3, brokers: int = 3) -> tuple[NodePlan, ...]:
    """Brokers 1 to `brokers`, and controllers from 101 on."""
    return (
        *(NodePlan(number + 101, (CONTROLLER,)) for number in range(controllers)),
        *(NodePlan(number + 1, (BROKER,)) for number in range(brokers)),
    )


@dataclass(slots=True)
class ClusterNode:
    """A node's process and where it listens. `directory` holds `logs`, `server.properties`, `server.log`."""

    kind: str
    plan: NodePlan
    host: str
    port: int
    controller_port: int
    directory: Path
    server: ServerProcess
    paused: bool = False

    @property
    def node_id(self) -> int:
        return self.plan.node_id

    @property
    def is_broker(self) -> bool:
        return BROKER in self.plan.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.plan.roles

    @property
    def running(self) -> bool:
        return self.server.running

    @property
    def serving(self) -> bool:
        """Whether requests to it can be answered."""
        return self.running and not self.paused

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def controller_bootstrap(self) -> str:
        return f"{self.host}:{self.controller_port}"

    @property
    def properties(self) -> Path:
        return self.directory / "server.properties"

    @property
    def log_directory(self) -> Path:
        return self.directory / "logs"

    @property
    def pid(self) -> int:
        return self.server.process.pid

    def log_text(self) -> str:
        """All that the process wrote."""
        return self.server.log_path.read_text(encoding="utf-8", errors="replace")


@dataclass(slots=True)
class NodeCluster:
    """A cluster of several nodes: the tests' actions on it, and their requests."""

    name: str
    plan: ClusterPlan
    directory: Path
    nodes: dict[int, ClusterNode]

    # --- who is there -----------------------------------------------------------------------------------

    @property
    def brokers(self) -> list[ClusterNode]:
        return [node for node in self.nodes.values() if node.is_broker]

    @property
    def controllers(self) -> list[ClusterNode]:
        return [node for node in self.nodes.values() if node.is_controller]

    @property
    def bootstrap(self) -> str:
        """All brokers, for a client."""
        return ",".join(node.bootstrap for node in self.brokers)

    @property
    def controller_bootstrap(self) -> str:
        """All controllers, for a tool with --bootstrap-controller."""
        return ",".join(node.controller_bootstrap for node in self.controllers)

    def a_broker(self, *, but: Iterable[int] = ()) -> ClusterNode:
        """A broker that serves."""
        left_out = set(but)
        for node in self.brokers:
            if node.serving and node.node_id not in left_out:
                return node
        raise ServerError("no broker serves")

    @contextmanager
    def wire(self, node_id: int | None = None) -> Iterator[WireClient]:
        """A connection to a broker; to any that serves without `node_id`."""
        node = self.a_broker() if node_id is None else self.nodes[node_id]
        with WireClient.connect(node.bootstrap) as client:
            yield client

    # --- what is done to it -----------------------------------------------------------------------------

    def start(self, *node_ids: int) -> None:
        """Start these nodes at once, and wait until each says that it is ready."""
        started = [self.nodes[node_id] for node_id in node_ids if not self.nodes[node_id].running]
        for node in started:
            node.server.launch()
        for node in started:
            try:
                node.server.wait_until_ready()
            except ServerError as problem:
                raise ServerError(
                    f"{self.name}, node {node.node_id}: {problem}\n{self.log_tails()}"
                ) from None

    def launch(self, *node_ids: int) -> None:
        """Start these nodes and do not wait: one that has no majority is never ready."""
        for node_id in node_ids:
            self.nodes[node_id].server.launch()

    def kill(self, node_id: int) -> None:
        """kill -9."""
        node = self.nodes[node_id]
        node.server.kill()
        node.paused = False

    def stop(self, *node_ids: int) -> None:
        """SIGTERM to these nodes at once, and wait for their ends."""
        nodes = [self.nodes[node_id] for node_id in node_ids]
        with ThreadPoolExecutor(max(1, len(nodes))) as threads:
            codes = list(threads.map(lambda node: node.server.stop(), nodes))
        # A JVM that ends by SIGTERM says 128 + 15, after its shutdown hooks have run.
        for node, code in zip(nodes, codes, strict=True):
            clean = (0, 143) if node.kind == APACHE_KAFKA else (0,)
            assert code in clean, f"node {node.node_id} stopped with {code}\n{node.server.log_tail()}"

    def restart(self, node_id: int) -> None:
        """Start a node again on its directory, ports and settings; stops it cleanly first if it runs."""
        if self.nodes[node_id].running:
            self.stop(node_id)
        self.start(node_id)

    def pause(self, node_id: int) -> None:
        """SIGSTOP: the node neither answers nor knows."""
        node = self.nodes[node_id]
        os.kill(node.pid, signal.SIGSTOP)
        node.paused = True

    def resume(self, node_id: int) -> None:
        """SIGCONT."""
        node = self.nodes[node_id]
        os.kill(node.pid, signal.SIGCONT)
        node.paused = False

    def heal(self) -> None:
        """Every node of the cluster runs, every broker is unfenced, every partition has all its replicas."""
        for node in self.nodes.values():
            if node.paused:
                self.resume(node.node_id)
        planned = self.nodes if self.plan.start_now is None else self.plan.start_now
        self.start(*(node_id for node_id in planned if not self.nodes[node_id].running))
        self.wait_until_unfenced()
        self.wait_until_in_sync()

    # --- what is asked of it ----------------------------------------------------------------------------

    def metadata(self, topic: str | None = None, *, of: int | None = None) -> Any:
        """The Metadata answer of a broker; about all topics without one."""
        topics = None if topic is None else [MetadataRequestTopic(name=topic)]
        with self.wire(of) as client:
            return client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)

    def partition(self, topic: str, index: int = 0, *, of: int | None = None) -> Any:
        """A partition, by Metadata. Raises LookupError if it is unknown."""
        (answer,) = self.metadata(topic, of=of).topics
        for each in answer.partitions:
            if each.partition_index == index:
                return each
        raise LookupError(f"{topic}-{index}: {answer}")

    def describe(self, *, include_fenced: bool = False, of: int | None = None) -> Any:
        """The DescribeCluster answer."""
        with self.wire(of) as client:
            return client.call(DescribeClusterRequest(include_fenced_brokers=include_fenced))

    def quorum(self, *, of: int | None = None) -> Any:
        """The metadata partition, by DescribeQuorum."""
        asked = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
        with self.wire(of) as client:
            answer = client.call(DescribeQuorumRequest(topics=[asked]))
        assert answer.error_code == ErrorCode.NONE, answer
        (partition,) = answer.topics[0].partitions
        return partition

    def active_controller(self) -> int:
        """The node id of the active controller, waited for."""
        found: list[int] = []

        def known() -> bool:
            found[:] = [self.quorum().leader_id]
            return found[0] >= 0 and self.nodes[found[0]].running

        self.eventually(known, "an active controller")
        return found[0]

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int = 3,
        config: Mapping[str, str] | None = None,
        assignments: Sequence[Sequence[int]] = (),
    ) -> str:
        """Create a topic, wait until every broker knows its leaders, and return its name."""
        new = CreatableTopic(
            name=topic,
            num_partitions=-1 if assignments else partitions,
            replication_factor=-1 if assignments else replication_factor,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                for index, replicas in enumerate(assignments)
            ],
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in (config or {}).items()],
        )
        with self.wire() as client:
            answer = client.call(CreateTopicsRequest(topics=[new], timeout_ms=30_000))
        assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0]
        self.wait_for_leaders(topic, len(assignments) or partitions)
        return topic

    # --- bounded waits ----------------------------------------------------------------------------------

    def eventually(self, condition: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> float:
        """Ask again and again until `condition` holds; the seconds that it took.

        A broker that hangs up or does not answer counts as not yet. Fails after `timeout_s`.
        """
        began = time.monotonic()
        last: object = None
        while time.monotonic() - began < timeout_s:
            try:
                if condition():
                    return time.monotonic() - began
                last = None
            except (OSError, ConnectionClosed, LookupError, ServerError) as problem:
                last = problem
            time.sleep(POLL_S)
        raise AssertionError(f"{self.name}: not within {timeout_s} s: {what} ({last})\n{self.log_tails()}")

    def wait_until_unfenced(self, *node_ids: int) -> None:
        """Every serving broker says that these (all that serve, without any) are alive."""
        serving = [node.node_id for node in self.brokers if node.serving]
        expected = set(node_ids or serving)

        def agreed() -> bool:
            return all(
                expected <= {broker.node_id for broker in self.metadata("", of=asked).brokers}
                for asked in serving
            )

        self.eventually(agreed, f"brokers {expected} are unfenced")

    def wait_until_fenced(self, node_id: int) -> float:
        """Every serving broker says that this one is gone; the seconds that it took."""
        return self.eventually(
            lambda: all(
                node_id not in {broker.node_id for broker in self.metadata("", of=node.node_id).brokers}
                for node in self.brokers
                if node.serving and node.node_id != node_id
            ),
            f"broker {node_id} is fenced",
        )

    def wait_for_leaders(self, topic: str, partitions: int) -> None:
        """Every serving broker knows a leader of each partition of the topic."""

        def known() -> bool:
            for node in self.brokers:
                if node.serving:
                    (answer,) = self.metadata(topic, of=node.node_id).topics
                    found = [each for each in answer.partitions if each.leader_id >= 0]
                    if len(found) != partitions:
                        return False
            return True

        self.eventually(known, f"leaders of {partitions} partitions of {topic}")

    def wait_for_leader(self, topic: str, index: int = 0, *, other_than: int = -1) -> int:
        """The leader of a partition once it is another one than this."""
        found: list[int] = []

        def known() -> bool:
            found[:] = [self.partition(topic, index).leader_id]
            return found[0] >= 0 and found[0] != other_than

        self.eventually(known, f"a leader of {topic}-{index} other than {other_than}")
        return found[0]

    def wait_for_isr(self, topic: str, index: int, isr: Iterable[int]) -> float:
        """Every serving broker says that this is the in-sync set; the seconds that it took."""
        expected = sorted(isr)

        def holds() -> bool:
            return all(
                sorted(self.partition(topic, index, of=node.node_id).isr_nodes) == expected
                for node in self.brokers
                if node.serving
            )

        return self.eventually(holds, f"the in-sync set of {topic}-{index} is {expected}")

    def wait_until_in_sync(self) -> None:
        """Every partition of every topic has a leader and all its replicas in sync."""

        def holds() -> bool:
            return all(
                each.leader_id >= 0 and sorted(each.isr_nodes) == sorted(each.replica_nodes)
                for topic in self.metadata().topics
                for each in topic.partitions
            )

        self.eventually(holds, "every partition is in sync")

    def log_tails(self, lines: int = 12) -> str:
        """The last lines of every node."""
        return "\n".join(
            f"--- node {node.node_id}\n{node.server.log_tail(lines)}" for node in self.nodes.values()
        )


@contextmanager
def start_cluster(kind: str, directory: Path, plan: ClusterPlan) -> Iterator[NodeCluster]:
    """A cluster that runs while the block does; what still runs at its end is stopped, all at once."""
    cluster = prepare_cluster(kind, directory, plan)
    try:
        now = tuple(cluster.nodes) if plan.start_now is None else plan.start_now
        cluster.start(*now)
        if now:
            cluster.wait_until_unfenced()
        yield cluster
    finally:
        end_cluster(cluster)


def end_cluster(cluster: NodeCluster) -> None:
    """Stop all that runs; kill what does not stop, as a quorum without its majority may not."""
    for node in cluster.nodes.values():
        if node.paused:
            with contextlib.suppress(OSError):
                cluster.resume(node.node_id)
    # Brokers first: their controlled shutdown needs the controllers.
    for group in (
        [node for node in cluster.nodes.values() if node.is_broker],
        [node for node in cluster.nodes.values() if not node.is_broker],
    ):
        running = [node for node in group if node.running]
        for node in running:
            node.server.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + END_TIMEOUT_S
        for node in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.server.process.wait(max(0.1, deadline - time.monotonic()))
            node.server.kill()


def prepare_cluster(kind: str, directory: Path, plan: ClusterPlan) -> NodeCluster:
    """Choose ports, write every node's server.properties, format Kafka's directories; start nothing."""
    ports = {each.node_id: (free_port(), free_port()) for each in plan.nodes}
    controllers = [each.node_id for each in plan.nodes if CONTROLLER in each.roles]
    addresses = {number: f"{plan.host_of(number)}:{ports[number][1]}" for number in controllers}

    def quorum_of(node_id: int) -> dict[str, str]:
        if not plan.dynamic:
            voters = ",".join(f"{number}@{address}" for number, address in addresses.items())
            return {"controller.quorum.voters": voters}
        # the first controller begins alone
        known = addresses.values() if node_id != next(iter(addresses), None) else [addresses[node_id]]
        return {"controller.quorum.bootstrap.servers": ",".join(known)}

    nodes: dict[int, ClusterNode] = {}
    for each in plan.nodes:
        properties = {**quorum_of(each.node_id), **_properties(directory, plan, each, ports[each.node_id])}
        nodes[each.node_id] = _prepare_node(
            each.kind or kind, directory, plan, each, ports[each.node_id], properties
        )
    to_format = [node for node in nodes.values() if node.kind == APACHE_KAFKA]
    with ThreadPoolExecutor(len(nodes)) as threads:
        list(threads.map(lambda node: _format(node, plan, controllers), to_format))
    return NodeCluster(kind, plan, directory, nodes)


def _properties(directory: Path, plan: ClusterPlan, node: NodePlan, ports: tuple[int, int]) -> dict[str, str]:
    host = plan.host_of(node.node_id)
    listeners = []
    if BROKER in node.roles:
        listeners.append(f"PLAINTEXT://{host}:{ports[0]}")
    if CONTROLLER in node.roles:
        listeners.append(f"CONTROLLER://{host}:{ports[1]}")
    found = {
        "process.roles": ",".join(node.roles),
        "node.id": str(node.node_id),
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(directory / f"node-{node.node_id}" / "logs"),
        **(CLUSTER_SETTINGS if plan.conformance_settings else {}),
        **plan.settings,
    }
    if node.rack is not None:
        found["broker.rack"] = node.rack
    return {**found, **node.settings}


def _prepare_node(
    kind: str,
    directory: Path,
    plan: ClusterPlan,
    node: NodePlan,
    ports: tuple[int, int],
    properties: Mapping[str, str],
) -> ClusterNode:
    home = directory / f"node-{node.node_id}"
    home.mkdir(parents=True, exist_ok=True)
    path = home / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
    if kind == OTTLA:
        command = [sys.executable, "-m", "ottla", "broker", "--config", str(path), "--log-level", "info"]
        command += ["--cluster-id", plan.cluster_id] if plan.cluster_id is not None else []
        ready = "ready"
    else:
        # Compiled by the first compiler alone a JVM starts in half the time.
        quick = ("-XX:TieredStopAtLevel=1",) if plan.quick_start else ()
        command = server_command(path, plan.heap, (*quick, *plan.java_flags_of(node.node_id)))
        ready = READY_TEXT
    server = ServerProcess(
        [*plan.command_prefix_of(node.node_id), *command],
        ready,
        home / "server.log",
        start_timeout_s=120,
        stop_timeout_s=60,
    )
    return ClusterNode(kind, node, plan.host_of(node.node_id), ports[0], ports[1], home, server)


def _format(node: ClusterNode, plan: ClusterPlan, controllers: Sequence[int]) -> None:
    arguments: tuple[str, ...] = ()
    if plan.dynamic and node.is_controller:
        arguments = ("--standalone" if node.node_id == controllers[0] else "--no-initial-controllers",)
    format_directory(node.properties, *arguments)
