"""Makes brokers that are not started yet: their ports, their settings, their command lines."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ottla.testing.broker import RunningBroker
from ottla.testing.ports import ReservedPort
from ottla.testing.proxy import Proxy
from ottla.testing.server_process import ServerProcess

READY_PREFIX: Final = "ottla broker ready:"
CLIENTS: Final = "PLAINTEXT"
CONTROLLERS: Final = "CONTROLLER"
BROKERS: Final = "INTERNAL"
MAX_NODES: Final = 9
MAX_CONTROLLERS: Final = 3

#: A node that answers at once: internal topics of few partitions, groups that begin without a pause.
QUICK_SETTINGS: Final[Mapping[str, object]] = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "share.coordinator.state.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    # Records with timestamps of years ago are there until the test ends.
    "log.initial.task.delay.ms": 86_400_000,
}
#: The settings that a node is given here; a test's configuration leaves them out.
OWN_SETTINGS: Final = frozenset(
    {
        "node.id",
        "broker.id",
        "process.roles",
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "inter.broker.listener.name",
        "controller.listener.names",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "log.dir",
        "log.dirs",
    }
)


def single_node(config: Mapping[str, object], directory: Path, port: int, log_level: str) -> RunningBroker:
    """A broker of its own. Raises ValueError for one of OWN_SETTINGS, OSError for a taken port."""
    _require_free_settings(config)
    with ExitStack() as undo:
        public, inner = _ports(undo, port, 0)
        own = {
            **QUICK_SETTINGS,
            **_replicated(1),
            **config,
            "node.id": 1,
            "listeners": f"{CLIENTS}://{inner.address}",
            "advertised.listeners": f"{CLIENTS}://{public.address}",
        }
        broker = _node(1, (public, inner), own, directory, log_level)
        undo.pop_all()
        return broker


def cluster_nodes(
    count: int, config: Mapping[str, object], directory: Path, log_level: str
) -> list[RunningBroker]:
    """Brokers 1 to `count`, of which the first three are the controllers, or the first alone.

    Raises ValueError for a number or a setting that can't be, OSError.
    """
    if not 1 <= count <= MAX_NODES:
        raise ValueError(f"a cluster has 1 to {MAX_NODES} brokers, not {count}")
    _require_free_settings(config)
    controllers = range(1, (MAX_CONTROLLERS if count >= MAX_CONTROLLERS else 1) + 1)
    with ExitStack() as undo:
        ports = {node_id: _ports(undo, 0, 0, 0, 0) for node_id in range(1, count + 1)}
        voters = ",".join(f"{node_id}@{ports[node_id][3].address}" for node_id in controllers)
        brokers = []
        for node_id, (public, inner, between, control) in ports.items():
            listeners = [f"{CLIENTS}://{inner.address}", f"{BROKERS}://{between.address}"]
            if node_id in controllers:
                listeners.append(f"{CONTROLLERS}://{control.address}")
            own = {
                **QUICK_SETTINGS,
                **_replicated(min(count, 3)),
                **_NOTICED_SOON,
                **config,
                "node.id": node_id,
                "process.roles": "broker,controller" if node_id in controllers else "broker",
                "listeners": ",".join(listeners),
                "advertised.listeners": f"{CLIENTS}://{public.address},{BROKERS}://{between.address}",
                "listener.security.protocol.map": ",".join(
                    f"{name}:PLAINTEXT" for name in (CLIENTS, BROKERS, CONTROLLERS)
                ),
                "inter.broker.listener.name": BROKERS,
                "controller.listener.names": CONTROLLERS,
                "controller.quorum.voters": voters,
            }
            brokers.append(_node(node_id, ports[node_id], own, directory / f"node-{node_id}", log_level))
        undo.pop_all()
        return brokers


#: A dead or paused broker loses its partitions within seconds, not within Kafka's nine and thirty.
_NOTICED_SOON: Final[Mapping[str, object]] = {
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 3000,
    "replica.lag.time.max.ms": 3000,
}


def _replicated(factor: int) -> dict[str, object]:
    in_sync = max(1, factor - 1)
    return {
        "default.replication.factor": factor,
        "offsets.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.replication.factor": factor,
    }


def _require_free_settings(config: Mapping[str, object]) -> None:
    taken = sorted(OWN_SETTINGS & config.keys())
    if taken:
        raise ValueError(
            f"ottla.testing gives each broker its own {', '.join(taken)}: leave it out of config"
        )


def _ports(undo: ExitStack, *numbers: int) -> tuple[ReservedPort, ...]:
    ports = []
    for number in numbers:
        port = ReservedPort(number)
        undo.callback(port.release)
        ports.append(port)
    return tuple(ports)


def _node(
    node_id: int,
    ports: tuple[ReservedPort, ...],
    settings: Mapping[str, object],
    directory: Path,
    log_level: str,
) -> RunningBroker:
    """`ports`: the clients' at the proxy, the broker's behind it, then others that it listens on."""
    words = ["-m", "ottla", "broker", "--with-launcher", "--log-level", log_level]
    data = directory / "data"
    for name, value in {**settings, "log.dirs": data}.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        words += ["--set", f"{name}={text}"]
    for port in ports[1:]:
        port.lend()
    server = ServerProcess(f"broker {node_id}", words, READY_PREFIX, directory / "broker.log")
    return RunningBroker(node_id, ports, server, Proxy(ports[0], ports[1].number), data)
