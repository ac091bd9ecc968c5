"""Metadata quorums in the test's own event loop: nodes with their directories, sockets and controllers."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from ottla.broker.authorization import OpenAuthorization
from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.broker.controller.controller import Controller
from ottla.broker.controller.metadata_formatting import format_directory
from ottla.broker.controller.metadata_quorum import MetadataQuorum
from ottla.broker.handlers.table import controller_table
from ottla.broker.network.dispatch import Dispatcher
from ottla.broker.network.server import Server, bind
from ottla.broker.peers.peers import PeerConnections
from ottla.core.decisions.decision import Decision
from ottla.core.image.image import MetadataImage
from ottla.core.quorum.api import ListenerEndpoint, ReplicaKey, Voter, VoterSet
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.partition_record import PartitionRecord
from ottla.protocol.records.remove_topic_record import RemoveTopicRecord
from ottla.protocol.records.topic_record import TopicRecord
from ottla.protocol.schema import Message
from ottla.storage.log_directory import LogDirectory
from support.core.metadata import directory_of
from support.servers.cluster import free_port

CLUSTER_ID = "J8aAPcfLQt2bqs1JT_rMgQ"
WAIT_S = 30
HOST = "127.0.0.1"

#: Elections in a fraction of a second; no record that a test did not ask for.
QUICK = {
    "controller.quorum.election.timeout.ms": "200",
    "controller.quorum.election.backoff.max.ms": "50",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.request.timeout.ms": "1500",  # above the 500 ms that a fetch waits
    "metadata.max.idle.interval.ms": "0",
    "internal.metadata.delete.delay.millis": "0",
}

#: For tests in which the leader stays: a disk that is busy for a second must not cost it its epoch.
PATIENT = {"controller.quorum.fetch.timeout.ms": "60000"}


class QuorumNode:
    """One node: `quorum` and `controller` while it runs."""

    def __init__(self, config: BrokerConfig, address: tuple[str, int] | None) -> None:
        self.config = config
        self.node_id = config.node_id
        self.authorization = OpenAuthorization()
        self.failures: list[BaseException] = []
        self._address = address
        self._tasks: set[asyncio.Task[Any]] = set()
        self.running = False
        self.directory: LogDirectory
        self.peers: PeerConnections
        self.server: Server
        self.quorum: MetadataQuorum
        self.controller: Controller

    @property
    def image(self) -> MetadataImage:
        """The image that ApiVersions reads."""
        return self.controller.image

    async def start(self) -> None:
        """Take part in the quorum."""
        self.directory = LogDirectory.open(
            self.config.log_directory, node_id=self.node_id, cluster_id=CLUSTER_ID
        )
        self.peers = PeerConnections(f"node-{self.node_id}")
        self.server = Server(self.config, lambda _, failure: self.failures.append(failure))
        self.quorum = MetadataQuorum.open(
            self.directory, self.config, self.peers, now_ms=now_ms, spawn=self._spawn
        )
        self.controller = await Controller.open(self.quorum, self.config, now_ms=now_ms, spawn=self._spawn)
        if self._address is not None:
            dispatcher = Dispatcher(cast(Broker, self), controller_table())
            await self.server.listen("CONTROLLER", bind("CONTROLLER", *self._address), dispatcher)
        self.quorum.start({})
        self.running = True

    async def stop(self) -> None:
        """A clean stop."""
        if self.running:
            self.running = False
            await self.controller.close()
            await self.quorum.close()
            await self._let_go()

    async def kill(self) -> None:
        """End as a killed process does: in the middle of everything; its files remain."""
        if self.running:
            self.running = False
            self.quorum._closed = self.controller._closed = True
            if self.quorum._timer is not None:
                self.quorum._timer.cancel()
            self.controller._resign("the node was killed")  # waiters hear that it is gone
            await self._let_go()

    async def _let_go(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.server.stop()
        self.peers.close()
        self.directory.close(clean=False)

    def _spawn(self, name: str, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.failures.append(failure)


class QuorumCluster:
    """Several nodes; tests kill and start them."""

    def __init__(self, nodes: Mapping[int, QuorumNode]) -> None:
        self.nodes = dict(nodes)

    def __getitem__(self, node_id: int) -> QuorumNode:
        return self.nodes[node_id]

    @property
    def running(self) -> list[QuorumNode]:
        """The nodes that run."""
        return [node for node in self.nodes.values() if node.running]

    def active(self) -> QuorumNode | None:
        """The active controller of the highest epoch."""
        found = [node for node in self.running if node.controller.active]
        return max(found, key=lambda node: node.controller.epoch, default=None)

    async def leader(self) -> QuorumNode:
        """The active controller, once there is one."""
        await wait_until(lambda: self.active() is not None)
        leader = self.active()
        assert leader is not None
        return leader

    async def caught_up(self, offset: int, nodes: Iterable[QuorumNode] | None = None) -> None:
        """Wait until all nodes have applied the record at `offset`."""
        for node in self.running if nodes is None else nodes:
            async with asyncio.timeout(WAIT_S):
                await node.controller.wait_for(offset)


@asynccontextmanager
async def running_quorum(
    path: Path,
    controllers: Iterable[int] = (1, 2, 3),
    *,
    observers: Iterable[int] = (),
    dynamic: bool = False,
    first_voters: Iterable[int] | None = None,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[QuorumCluster]:
    """Controllers that vote and brokers that observe; all are started, and must end without a failure.

    `dynamic`: the voters are in the log (kraft.version 1), else in the configuration; then `first_voters`
    says which of the controllers vote from the beginning, None for all.
    """
    controllers = tuple(controllers)
    first = controllers if first_voters is None else tuple(first_voters)
    ports = [free_port() for _ in controllers]
    addresses = {node_id: (HOST, port) for node_id, port in zip(controllers, ports, strict=True)}
    if dynamic:
        servers = ",".join(f"{host}:{port}" for host, port in addresses.values())
        where = {"controller.quorum.bootstrap.servers": servers}
    else:
        voters = ",".join(f"{node_id}@{host}:{port}" for node_id, (host, port) in addresses.items())
        where = {"controller.quorum.voters": voters}
    nodes: dict[int, QuorumNode] = {}
    for node_id in (*controllers, *observers):
        address = addresses.get(node_id)
        role = (
            {"process.roles": "broker", "listeners": f"PLAINTEXT://{HOST}:0"}
            if address is None
            else {"process.roles": "controller", "listeners": f"CONTROLLER://{HOST}:{address[1]}"}
        )
        data = path / str(node_id)
        values = {
            "node.id": str(node_id),
            "log.dirs": str(data),
            "controller.listener.names": "CONTROLLER",
            **role,
            **where,
            **QUICK,
            **(settings or {}),
        }
        nodes[node_id] = QuorumNode(BrokerConfig.from_mapping(values), address)
        if dynamic and node_id in first:
            format_directory(
                data,
                cluster_id=CLUSTER_ID,
                node_id=node_id,
                directory_id=directory_of(node_id),
                voters=voters_at({each: addresses[each] for each in first}),
                now_ms=now_ms(),
            )
    cluster = QuorumCluster(nodes)
    try:
        for node in cluster.nodes.values():
            await node.start()
        yield cluster
        for node in cluster.nodes.values():
            assert node.failures == []
    finally:
        for node in cluster.nodes.values():
            await node.kill()


def voters_at(addresses: Mapping[int, tuple[str, int]]) -> VoterSet:
    """Voters with the directories that `directory_of` tells."""
    return VoterSet(
        tuple(
            Voter(ReplicaKey(node_id, directory_of(node_id)), (ListenerEndpoint("CONTROLLER", host, port),))
            for node_id, (host, port) in addresses.items()
        )
    )


async def set_config(controller: Controller, name: str, value: str) -> int:
    """One change of the metadata, as the active controller makes it; the offset of its record."""
    record = ConfigRecord(resource_type=2, resource_name="orders", name=name, value=value)

    return await controller.submit(lambda image: Decision([record], image.last_offset + 1))


async def make_topic(node: QuorumNode, name: str) -> uuid.UUID:
    """Create a topic of one partition without a replica on any node; returns its id."""
    topic_id = uuid.uuid4()
    records: list[Message] = [
        TopicRecord(name=name, topic_id=topic_id),
        PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[77], isr=[77], leader=77),
    ]
    return await node.controller.submit(lambda image: Decision(records, topic_id))


async def remove_topic(node: QuorumNode, name: str) -> None:
    """The topic is gone."""
    record = RemoveTopicRecord(topic_id=node.controller.image.topics[name].topic_id)
    await node.controller.submit(lambda image: Decision([record], None))


def configs(node: QuorumNode) -> dict[str, str]:
    """The changes of `set_config` so far, as this node has them."""
    return dict(node.controller.image.configs.get((2, "orders"), {}))


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that other tasks bring about."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event of its own
            await asyncio.sleep(0.005)


def now_ms() -> int:
    """The time for records."""
    return time.time_ns() // 1_000_000
