"""Requests of this broker to another one, by its node id.

Brokers reach each other at the inter-broker listener that each has registered. One that is fenced, or not
registered, counts as not there: its answers may be outdated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.parts import Cluster
from ottla.broker.peers.peers import PeerAddress, PeerUnreachable
from ottla.core.settings import broker_settings
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.peers.peers import PeerConnections


class PeersNode(Cluster, Protocol):
    """The members of a node that requests to other brokers use."""

    @property
    def peers(self) -> PeerConnections:
        """Connections to other nodes."""
        ...


class AsksBrokers(Protocol):
    """Asks other brokers by their node ids."""

    async def ask(
        self, purpose: str, node_id: int, request: Message, *, timeout_ms: int | None = None
    ) -> Message:
        """As `BrokerRequests.ask`."""
        ...


def address_of_broker(node: Cluster, node_id: int) -> PeerAddress | None:
    """The address at which another broker listens for brokers; None while it is not there."""
    registered = node.image.brokers.get(node_id)
    if registered is None or registered.fenced:
        return None
    endpoint = registered.endpoint(node.config.inter_broker_listener_name)
    return None if endpoint is None else PeerAddress(endpoint.host, endpoint.port)


class BrokerRequests:
    """Asks other brokers over this node's connections to them."""

    def __init__(self, cluster: Cluster, peers: PeerConnections) -> None:
        self._cluster = cluster
        self._peers = peers

    async def ask(
        self, purpose: str, node_id: int, request: Message, *, timeout_ms: int | None = None
    ) -> Message:
        """The other broker's answer, awaited for `timeout_ms` (else request.timeout.ms).

        Requests of one purpose are answered in order. Raises PeerUnreachable, also when it is not there.
        """
        address = address_of_broker(self._cluster, node_id)
        if address is None:
            raise PeerUnreachable(f"broker {node_id} is not there")
        if timeout_ms is None:
            timeout_ms = self._cluster.config[broker_settings.REQUEST_TIMEOUT_MS]
        return await self._peers.ask(purpose, address, request, timeout_ms=timeout_ms)
