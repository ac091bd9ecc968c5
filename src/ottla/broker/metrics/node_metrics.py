"""The metrics endpoint of a node: its sources, its checks, its access and TLS. Made when metrics are on."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from ottla.broker.listeners import SSL, Listener
from ottla.broker.metrics.coordinators import CoordinatorMetrics, CoordinatorsNode
from ottla.broker.metrics.flushes import FlushMetrics
from ottla.broker.metrics.health import HealthNode, node_health
from ottla.broker.metrics.links import LinkMetrics, LinksNode
from ottla.broker.metrics.maintenance import MaintenanceMetrics, MaintenanceNode
from ottla.broker.metrics.metadata import MetadataMetrics, MetadataNode
from ottla.broker.metrics.network import LoopProbe, NetworkMetrics
from ottla.broker.metrics.partitions import PartitionMetrics, PartitionsNode
from ottla.broker.metrics.requests import MeteredHandlers, RequestMeters
from ottla.broker.metrics.telemetry import TelemetryMetrics, TelemetryNode
from ottla.broker.metrics.topics import TopicMetrics
from ottla.broker.parts import Loop
from ottla.broker.tls_settings import server_tls
from ottla.metrics.endpoint import MetricsEndpoint, endpoint_tls
from ottla.metrics.exposition import Exposition, Source
from ottla.metrics.process import process_source
from ottla.metrics.settings import LISTENER_NAME, MOST_CLIENTS, Address, EndpointOptions
from ottla.security.server_tls import ClientAuthentication
from ottla.security.watched_files import WatchedFiles

if TYPE_CHECKING:
    from typing import Protocol

    from ottla.broker.config import BrokerConfig
    from ottla.broker.network.dispatch import Handlers
    from ottla.broker.network.server import Server

    class MetricsNode(
        LinksNode,
        Loop,
        HealthNode,
        MetadataNode,
        PartitionsNode,
        MaintenanceNode,
        CoordinatorsNode,
        TelemetryNode,
        Protocol,
    ):
        """A node as its metrics see it."""

        @property
        def server(self) -> Server:
            """The connections."""
            ...


PROGRAM = "ottla broker"


class NodeMetrics:
    """The endpoint, and what stands behind it."""

    def __init__(self, node: MetricsNode, options: EndpointOptions) -> None:
        """Raises ConfigError for settings and files that can't be used."""
        self._node = node
        self.meters = RequestMeters(node.loop, node.config[MOST_CLIENTS])
        self._probe = LoopProbe(node.loop, self.meters.tick)
        self._flushes = FlushMetrics()
        self.exposition = Exposition([process_source(PROGRAM)])
        tls, asks = _tls(node.config) if options.address.uses_tls else (None, False)
        self.health = node_health(node)
        self._endpoint = MetricsEndpoint(
            PROGRAM, options, self.exposition, self.health, tls, asks_for_certificates=asks
        )

    def metered(self, handlers: Handlers[Any]) -> MeteredHandlers:
        """A table of handlers with meters around them."""
        return MeteredHandlers(handlers, self.meters)

    def bind(self) -> Address:
        """Take the port. Raises EndpointError."""
        return self._endpoint.bind()

    def abandon(self) -> None:
        """Let go of the port: the start has failed before `start`."""
        self._endpoint.abandon()

    async def start(self) -> None:
        """Serve; parts of the node add their metrics as they are opened."""
        await self._endpoint.start()
        self._node.controller_supervisor.spawn("probe-loop", self._probe.run())

    async def stop(self) -> None:
        """Serve no more."""
        await self._endpoint.stop()

    def metadata_opened(self) -> None:
        """Quorum and controller are there."""
        node = self._node
        metadata = MetadataMetrics(node)
        node.controller.add_listener(metadata.follow)
        node.quorum.on_flushed = self._flushes.observe
        network = NetworkMetrics(node.server, self._probe)
        self._add(network.read, self.meters.read, metadata.read, self._flushes.read)

    def partitions_opened(self) -> None:
        """The parts of a broker are there."""
        node = self._node
        self.meters.partitions = node.replication.partitions
        node.replication.logs.on_flushed = self._flushes.observe
        self._add(
            TopicMetrics(node.replication.partitions).read,
            PartitionMetrics(node).read,
            MaintenanceMetrics(node).read,
            CoordinatorMetrics(node).read,
            TelemetryMetrics(node).read,
            LinkMetrics(node).read,
        )

    def _add(self, *sources: Source) -> None:
        for source in sources:
            self.exposition.add(source)


def _tls(config: BrokerConfig) -> tuple[WatchedFiles[ssl.SSLContext], bool]:
    """The TLS of the endpoint, and whether it asks for certificates. Raises ConfigError."""
    tls = server_tls(config.layers, Listener(LISTENER_NAME, "", 0, SSL))
    return endpoint_tls(tls), tls.client_authentication is ClientAuthentication.REQUIRED
