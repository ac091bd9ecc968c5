"""The addresses of the controllers: `controller.quorum.voters` and `controller.quorum.bootstrap.servers`.

A node is alone when neither of the two names another node. Any other node must have a node.id that was
given, and a controller listener if it is a controller.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ottla.broker.listeners import CONTROLLER, META_ADDRESSES, Listeners, parse_address
from ottla.config.settings import Settings
from ottla.core.quorum.api import Address
from ottla.core.settings import broker_settings

MAX_NODE_ID: Final = 2**31 - 1
LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_VOTERS: Final = broker_settings.CONTROLLER_QUORUM_VOTERS.name
_BOOTSTRAP_SERVERS: Final = broker_settings.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS.name


class QuorumAddresses(NamedTuple):
    """The voters by node id, servers that know the quorum, and whether this node is all of the quorum."""

    voters: Mapping[int, Address]
    bootstrap_servers: tuple[Address, ...]
    alone: bool


def read_quorum_addresses(
    settings: Settings, node_id: int, roles: frozenset[str], listeners: Listeners
) -> QuorumAddresses:
    """The addresses, checked against the node's roles and listeners. Raises ConfigError."""
    voters = _read_voters(settings)
    servers = _read_bootstrap_servers(settings)
    is_controller = CONTROLLER in roles
    own = set(_own_addresses(listeners))
    alone = (
        is_controller
        and not voters.keys() - {node_id}
        and all((server.host.lower(), server.port) in own for server in servers)
    )
    _require_role(settings, node_id, voters, is_controller)
    if not is_controller and not voters and not servers:
        raise settings.refusal(
            "process.roles",
            "a node without the controller role has to know the controllers: give "
            f"{_BOOTSTRAP_SERVERS} (or {_VOTERS})",
        )
    if not alone:
        _require_place(settings, is_controller, listeners)
    return QuorumAddresses(voters, servers, alone)


def _read_voters(settings: Settings) -> dict[int, Address]:
    voters: dict[int, Address] = {}
    for voter in settings[broker_settings.CONTROLLER_QUORUM_VOTERS]:
        text, separator, address = voter.partition("@")
        parsed = parse_address(address)
        if not separator or not text.isdecimal() or len(text) > 10 or parsed is None:
            raise settings.refusal(_VOTERS, f"{voter!r} is not id@host:port")
        if int(text) > MAX_NODE_ID:
            raise settings.refusal(_VOTERS, f"{text} is too large for a node id")
        if parsed[0] in META_ADDRESSES:
            raise settings.refusal(_VOTERS, f"no node can connect to {voter}: give the address of the voter")
        if int(text) in voters:
            raise settings.refusal(_VOTERS, f"node {int(text)} is given twice")
        voters[int(text)] = Address(*parsed)
    return voters


def _read_bootstrap_servers(settings: Settings) -> tuple[Address, ...]:
    servers = []
    for server in settings[broker_settings.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS]:
        address = parse_address(server)
        if address is None:
            raise settings.refusal(_BOOTSTRAP_SERVERS, f"{server!r} is not host:port")
        servers.append(Address(*address))
    return tuple(servers)


def _own_addresses(listeners: Listeners) -> Iterator[tuple[str, int]]:
    """Every (host in lower case, port) that is known to lead to this node's own controller."""
    here = LOOPBACK_HOSTS | {socket.gethostname().lower()}
    for listener in (*listeners.controllers, listeners.controller):
        host = listener.host.lower()
        yield host, listener.port
        if host in here or host in META_ADDRESSES or not host:
            for name in here:
                yield name, listener.port


def _require_role(
    settings: Settings, node_id: int, voters: Mapping[int, Address], is_controller: bool
) -> None:
    if voters and is_controller and node_id not in voters:
        raise settings.refusal(
            _VOTERS, f"node.id={node_id} is a controller by process.roles, so it must be one of them"
        )
    if node_id in voters and not is_controller:
        raise settings.refusal(
            _VOTERS, f"node.id={node_id} is no controller by process.roles, so it can't be one of them"
        )


def _require_place(settings: Settings, is_controller: bool, listeners: Listeners) -> None:
    """A node among several needs an id of its own, and a controller an address for the other nodes."""
    if is_controller and not listeners.controllers:
        name = settings[broker_settings.CONTROLLER_LISTENER_NAMES][0]
        raise settings.refusal(
            "listeners",
            "a controller among several needs a listener that controller.listener.names names: "
            f"add {name}://host:port",
        )
    if not (settings.is_given("node.id") or settings.is_given("broker.id")):
        raise settings.refusal("node.id", "give each node of a cluster a number of its own")
