"""The data directory of `ottla broker --brokers N`: which nodes it has, and where they listen.

    brokers.json    the cluster's id, how many brokers, the controllers' ports, the first voters
    node-1/ …       a log directory for each node, as any broker's

Brokers listen on the given port and those that follow it, the controllers behind them. A controller's port is
chosen once and kept: its quorum knows it by that port, and would not find it at another after a restart. So
brokers that come later pass over the controllers' ports.

Nodes 1 to 3 are the controllers, or node 1 alone when there are fewer than three brokers (two voters are lost
with either of them). The voters are in the metadata log (kraft.version 1), not in the configuration: a
quorum of one that grows to three must let the newcomers catch up before they count, or they would outvote the
only node that has the metadata. The first voters are formatted here, so that a new cluster has its quorum at
once; controllers that come later join it by themselves.

Order of writes: brokers.json, then the first voters' directories with the ids that it names, then
brokers.json again, which says that they are formatted. A kill in between is made good by the next start.
Once it is said they are never formatted again: a controller that has lost its directory is a new one.
"""

from __future__ import annotations

import json
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ottla.broker.controller.metadata_formatting import format_directory
from ottla.config.errors import UserError
from ottla.core.quorum.api import ListenerEndpoint, ReplicaKey, Voter, VoterSet
from ottla.protocol.schema import Message
from ottla.storage.checkpoints import uuid_from_text, uuid_to_text
from ottla.storage.files import replace_file, sync_directory
from ottla.storage.log_directory import META_PROPERTIES

LAYOUT_FILE: Final = "brokers.json"
LAYOUT_VERSION: Final = 1
MAX_LAYOUT_BYTES: Final = 64 * 1024
MAX_BROKERS: Final = 64
MAX_CONTROLLERS: Final = 3
LAST_PORT: Final = 65535
LOCAL_HOST: Final = "127.0.0.1"
"""Where controllers listen: all of them are on this machine."""


class LayoutError(UserError):
    """The directory does not fit the options; one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The content of brokers.json."""

    cluster_id: str
    brokers: int
    #: The controllers' ports by node id.
    controllers: Mapping[int, int]
    #: The first voters' directory ids by node id.
    first_voters: Mapping[int, uuid.UUID]
    formatted: bool = False

    @property
    def bootstrap_servers(self) -> str:
        """The controllers' addresses, for controller.quorum.bootstrap.servers."""
        return ",".join(f"{LOCAL_HOST}:{port}" for _, port in sorted(self.controllers.items()))

    def broker_ports(self, first_port: int) -> list[int]:
        """The brokers' ports in the order of their ids: from the first one on, but for the controllers'."""
        taken = set(self.controllers.values())
        ports: list[int] = []
        port = first_port
        while len(ports) < self.brokers:
            if port not in taken:
                ports.append(port)
            port += 1
        if ports[-1] > LAST_PORT:
            raise LayoutError(
                f"there are no {self.brokers} ports from {first_port} on: listen on a lower one"
            )
        return ports


def node_directory(directory: Path, node_id: int) -> Path:
    """The log directory of a node."""
    return directory / f"node-{node_id}"


def lay_out(
    directory: Path,
    brokers: int,
    first_port: int,
    cluster_id: str | None,
    listener: str,
    first_users: Callable[[], Sequence[Message]] = tuple,
) -> Layout:
    """Make or read the directory for so many brokers, and format the first voters.

    `first_port` 0: any free ports. `listener` names the controllers' listener. `first_users` gives those of a
    new cluster. Raises LayoutError, OSError, or LogDirectoryError.
    """
    existing = _read(directory)
    if existing is None:
        if (directory / META_PROPERTIES).exists():
            raise LayoutError(
                f"{directory} is the directory of a single broker: start it without --brokers, or name "
                "another directory"
            )
        directory.mkdir(parents=True, exist_ok=True)
        layout = new_layout(brokers, first_port, cluster_id or _new_cluster_id())
    else:
        _require_fitting(directory, existing, brokers, cluster_id)
        layout = grown_layout(existing, brokers, first_port)
    if layout != existing:
        _write(directory, layout)
    if not layout.formatted:
        _format(directory, layout, listener, first_users())
        layout = replace(layout, formatted=True)
        _write(directory, layout)
    return layout


def new_layout(brokers: int, first_port: int, cluster_id: str) -> Layout:
    """The layout of a new cluster."""
    ids = _controller_ids(brokers)
    ports = _ports_behind(first_port, brokers, len(ids), ())
    return Layout(
        cluster_id,
        brokers,
        dict(zip(ids, ports, strict=True)),
        {node_id: uuid.uuid4() for node_id in ids},
    )


def grown_layout(existing: Layout, brokers: int, first_port: int) -> Layout:
    """A layout with another number of brokers; new controllers get ports behind all others."""
    grown = replace(existing, brokers=brokers)
    new_ids = [node_id for node_id in _controller_ids(brokers) if node_id not in existing.controllers]
    if not new_ids:
        return grown
    ports = _ports_behind(first_port, brokers, len(new_ids), existing.controllers.values())
    return replace(grown, controllers={**existing.controllers, **dict(zip(new_ids, ports, strict=True))})


def _controller_ids(brokers: int) -> range:
    return range(1, (MAX_CONTROLLERS if brokers >= MAX_CONTROLLERS else 1) + 1)


def _ports_behind(first_port: int, brokers: int, count: int, taken: Iterable[int]) -> list[int]:
    """Ports for controllers: those that follow on behind the brokers', or free ones for port 0."""
    if first_port == 0:
        return free_ports(count)
    used = set(taken)
    # Brokers pass over ports of controllers, so they reach that much further.
    first = first_port + brokers + sum(port >= first_port for port in used)
    ports = [port for port in range(first, first + count + len(used)) if port not in used][:count]
    if ports[-1] > LAST_PORT:
        raise LayoutError(f"there are no {brokers + count} ports from {first_port} on: listen on a lower one")
    return ports


def free_ports(count: int, host: str = LOCAL_HOST) -> list[int]:
    """Ports on which no process listens now, all different."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((host, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _require_fitting(directory: Path, existing: Layout, brokers: int, cluster_id: str | None) -> None:
    if cluster_id is not None and cluster_id != existing.cluster_id:
        raise LayoutError(
            f"{directory} belongs to cluster {existing.cluster_id}, not to {cluster_id}: name another "
            "directory"
        )
    last_controller = max(existing.controllers)
    if brokers < last_controller:
        raise LayoutError(
            f"{directory} has nodes 1 to {last_controller} as its quorum: give --brokers {last_controller} "
            "at least"
        )
    left = [
        each for each in range(brokers + 1, existing.brokers + 1) if node_directory(directory, each).exists()
    ]
    if left:
        names = ", ".join(f"node-{each}" for each in left)
        raise LayoutError(
            f"{directory} has {existing.brokers} brokers: give --brokers {existing.brokers}, or move the "
            f"partitions of the others away and remove {names}"
        )


def _format(directory: Path, layout: Layout, listener: str, first_users: Sequence[Message]) -> None:
    voters = VoterSet(
        tuple(
            Voter(
                ReplicaKey(node_id, directory_id),
                (ListenerEndpoint(listener, LOCAL_HOST, layout.controllers[node_id]),),
            )
            for node_id, directory_id in sorted(layout.first_voters.items())
        )
    )
    for node_id, directory_id in layout.first_voters.items():
        format_directory(
            node_directory(directory, node_id),
            cluster_id=layout.cluster_id,
            node_id=node_id,
            directory_id=directory_id,
            voters=voters,
            now_ms=time.time_ns() // 1_000_000,
            first_users=first_users,
        )
    sync_directory(directory)


def _new_cluster_id() -> str:
    # A command line would take one that begins with a dash for an option.
    return next(filter(lambda text: not text.startswith("-"), iter(_random_id, "")))


def _random_id() -> str:
    return uuid_to_text(uuid.uuid4())


# -- the file ---------------------------------------------------------------------------------------------


def _write(directory: Path, layout: Layout) -> None:
    content = {
        "version": LAYOUT_VERSION,
        "cluster.id": layout.cluster_id,
        "brokers": layout.brokers,
        "controllers": {str(node_id): port for node_id, port in layout.controllers.items()},
        "first.voters": {str(node_id): uuid_to_text(each) for node_id, each in layout.first_voters.items()},
        "formatted": layout.formatted,
    }
    replace_file(directory / LAYOUT_FILE, (json.dumps(content, indent=2) + "\n").encode(), sync=True)


def _read(directory: Path) -> Layout | None:
    path = directory / LAYOUT_FILE
    try:
        with path.open("rb") as file:
            text = file.read(MAX_LAYOUT_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise LayoutError(f"{path}: can't read it: {problem.strerror or problem}") from None
    try:
        return _parse(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise LayoutError(
            f"{path} is damaged ({problem!r}): put a good copy in its place, or name another directory"
        ) from None


def _parse(content: Any) -> Layout:
    version = content["version"]
    if version != LAYOUT_VERSION:
        raise ValueError(f"version {version}, this ottla reads {LAYOUT_VERSION}")
    controllers = _by_id(content["controllers"], _port)
    first_voters = _by_id(content["first.voters"], uuid_from_text)
    if not controllers or not first_voters.keys() <= controllers.keys():
        raise ValueError("controllers and first voters do not fit")
    brokers, cluster_id, formatted = content["brokers"], content["cluster.id"], content["formatted"]
    if not isinstance(brokers, int) or not 1 <= brokers <= MAX_BROKERS or not isinstance(cluster_id, str):
        raise ValueError("brokers or cluster.id")
    return Layout(cluster_id, brokers, controllers, first_voters, bool(formatted))


def _by_id(texts: Mapping[str, Any], parse: Callable[[Any], Any]) -> dict[int, Any]:
    return {int(node_id): parse(text) for node_id, text in texts.items()}


def _port(value: Any) -> int:
    if not isinstance(value, int) or not 0 < value <= LAST_PORT:
        raise ValueError(f"{value!r} is no port")
    return value
