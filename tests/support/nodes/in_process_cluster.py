"""Several nodes in the test's own process and event loop, each on ports of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from support.servers.cluster import NO_RETENTION, free_port

BOTH, BROKER, CONTROLLER = "broker,controller", "broker", "controller"
WAIT_S = 30

#: Elections and sessions as short as the wire allows; the rest as it comes.
QUICK = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "100",
    "controller.quorum.fetch.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "2000",
    "offsets.topic.num.partitions": "2",
    **NO_RETENTION,
}


@dataclass(slots=True)
class Nodes:
    """A cluster's nodes by id; those that run have a `Broker`."""

    directory: Path
    roles: Mapping[int, str]
    settings: Mapping[str, str]
    listener_name: str = "PLAINTEXT"
    ports: dict[int, tuple[int, int]] = field(default_factory=dict)
    running: dict[int, Broker] = field(default_factory=dict)
    failures: dict[int, list[str]] = field(default_factory=dict)

    def config(self, node_id: int, overrides: Mapping[str, str] | None = None) -> BrokerConfig:
        """A node's server.properties."""
        broker_port, controller_port = self.ports[node_id]
        roles = self.roles[node_id]
        voters = [
            f"{each}@127.0.0.1:{self.ports[each][1]}" for each in self.ports if CONTROLLER in self.roles[each]
        ]
        listeners = []
        if BROKER in roles:
            listeners.append(f"{self.listener_name}://127.0.0.1:{broker_port}")
        if CONTROLLER in roles:
            listeners.append(f"CONTROLLER://127.0.0.1:{controller_port}")
        return BrokerConfig.from_mapping(
            {
                "node.id": str(node_id),
                "process.roles": roles,
                "listeners": ",".join(listeners),
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": ",".join(voters),
                "log.dirs": str(self.directory / str(node_id)),
                **QUICK,
                **self.settings,
                **(overrides or {}),
            }
        )

    async def start(self, *node_ids: int) -> None:
        """Start nodes at the same time; all are ready when this returns."""

        async def start(node_id: int) -> None:
            self.failures[node_id] = []
            broker = await Broker.start(
                self.config(node_id), on_failure=lambda: self.failures[node_id].append("a part failed")
            )
            self.running[node_id] = broker

        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*(start(node_id) for node_id in node_ids))

    async def stop(self, *node_ids: int) -> None:
        """Stop nodes at the same time."""
        await asyncio.gather(*(self.running.pop(node_id).stop() for node_id in node_ids))

    @property
    def active(self) -> Broker | None:
        """The active controller."""
        return next((each for each in self.running.values() if each.controller.active), None)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds."""
        async with asyncio.timeout(WAIT_S):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@asynccontextmanager
async def nodes(
    directory: Path,
    roles: Mapping[int, str],
    settings: Mapping[str, str] | None = None,
    listener_name: str = "PLAINTEXT",
) -> AsyncIterator[Nodes]:
    """Nodes that are configured for each other and not started; those that run at the end are stopped."""
    cluster = Nodes(directory, roles, settings or {}, listener_name)
    for node_id in roles:
        cluster.ports[node_id] = (free_port(), free_port())
    try:
        yield cluster
        assert not any(cluster.failures.values()), cluster.failures
    finally:
        # Brokers first: without a controller each would wait five seconds for leave to go.
        await cluster.stop(*(each for each in cluster.running if CONTROLLER not in roles[each]))
        await cluster.stop(*cluster.running)
