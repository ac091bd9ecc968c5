"""Takes the metrics that clients push to this broker, and hands them to a collector and to scrapes.

The decisions are those of core/telemetry/. Large payloads are unfolded and parsed in a thread, two at a time.
Apache Kafka has a plugin for the receiver; here it is a collector (`ottla.telemetry.otlp.endpoint`), or
series of each client on the metrics endpoint (`ottla.telemetry.client.series.max`). Without either, as in
Kafka without a plugin, clients are not told of the two APIs, and a push all the same is admitted and dropped.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.config import MOST_SERIES_OF_A_CLIENT
from ottla.broker.parts import Background, Cluster, Loop
from ottla.config.errors import ConfigError
from ottla.config.telemetry_settings import OTLP_ENDPOINT, OtlpTarget, require_package
from ottla.core.image.image import CLIENT_METRICS_RESOURCE, MetadataDelta
from ottla.core.settings import broker_settings
from ottla.metrics.settings import LISTEN as METRICS_LISTEN
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.network.context import Connection, RequestContext
    from ottla.broker.network.server import Server
    from ottla.broker.telemetry.otlp_sender import OtlpSender
    from ottla.core.telemetry.client_series import ClientSeries
    from ottla.core.telemetry.instances import ClientAddress, ClientInstance, ClientInstances
    from ottla.protocol.messages.push_telemetry_request import PushTelemetryRequest

log = logging.getLogger("ottla.broker")

EXPIRE_MS: Final = 10_000
"""How often instances and series are looked at whose time may be over."""
INLINE_BYTES: Final = 2_048
"""Payloads up to here are read on the loop, in less time than a thread takes to be asked."""
THREADS: Final = 2
PACKAGE: Final = "opentelemetry.proto"


class TelemetryNode(Cluster, Loop, Background, Protocol):
    """The members of a node that client telemetry uses."""

    @property
    def server(self) -> Server:
        """The server of clients, which tells of connections that have closed."""
        ...


class ClientTelemetry:
    """The clients of one broker that push metrics, and the receivers. Used on the event loop only."""

    def __init__(self, node: TelemetryNode) -> None:
        """Raises ConfigError for receivers that can't be used."""
        self._node = node
        self._instances: ClientInstances | None = None
        self._threads = asyncio.Semaphore(THREADS)
        self.sender: OtlpSender | None = None
        """The way to the collector; None without one."""
        self.series: ClientSeries | None = None
        """The series for scrapes; None without."""
        target = OtlpTarget.of(node.config.layers)
        if target is not None:
            require_package(PACKAGE, OTLP_ENDPOINT.name)
            from ottla.broker.telemetry.otlp_sender import OtlpSender

            self.sender = OtlpSender(target)
        most = node.config[MOST_SERIES_OF_A_CLIENT]
        if most:
            if node.config[METRICS_LISTEN] is None:
                raise ConfigError(f"{MOST_SERIES_OF_A_CLIENT.name} is given, but no {METRICS_LISTEN.name}")
            require_package(PACKAGE, MOST_SERIES_OF_A_CLIENT.name)
            from ottla.core.telemetry.client_series import ClientSeries

            self.series = ClientSeries(most)

    @property
    def has_receivers(self) -> bool:
        """Whether metrics go anywhere, so that clients are told of the two APIs."""
        return self.sender is not None or self.series is not None

    @property
    def instances(self) -> ClientInstances:
        """The instances; made for the first request."""
        if self._instances is None:
            from ottla.core.telemetry.instances import ClientInstances

            self._instances = ClientInstances(self._node.config[broker_settings.TELEMETRY_MAX_BYTES])
            self._read_subscriptions(self._instances)
            self._node.server.on_closed.append(self._connection_closed)
        return self._instances

    def start(self) -> None:
        """Begin the background work."""
        if self.has_receivers:
            self._node.supervisor.every("expire-client-telemetry", lambda: EXPIRE_MS, self._expire)
        if self.sender is not None:
            self._node.supervisor.spawn("send-client-telemetry", self.sender.run())

    async def stop(self) -> None:
        """Send the pushes that wait, if that takes no longer than a moment. Clients have gone already."""
        if self.sender is not None:
            await self.sender.end()

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Take over changed subscriptions."""
        if delta.client_metrics_changed and self._instances is not None:
            self._read_subscriptions(self._instances)

    def _read_subscriptions(self, instances: ClientInstances) -> None:
        from ottla.core.telemetry.subscriptions import read_subscriptions

        configs = self._node.image.configs
        found, unusable = read_subscriptions(
            {name: values for (kind, name), values in configs.items() if kind == CLIENT_METRICS_RESOURCE}
        )
        for name in unusable:
            log.warning("client metrics subscription not understood, it matches no client name=%s", name)
        instances.take_subscriptions(found)

    # -- requests -----------------------------------------------------------------------------------

    def subscribe(self, context: RequestContext, instance_id: uuid.UUID) -> ClientInstance:
        """The instance of a client that asks for its subscription. Raises KafkaError."""
        return self.instances.subscribe(
            instance_id, _address(context), _connection(context), self._now_ms(), uuid.uuid4
        )

    async def push(self, context: RequestContext, request: PushTelemetryRequest) -> None:
        """Take a client's metrics. Raises KafkaError."""
        from ottla.core.telemetry.instances import Push

        instances = self.instances
        push = Push(
            request.client_instance_id,
            request.subscription_id,
            request.terminating,
            request.compression_type,
            len(request.metrics),
        )
        instance = instances.admit(push, _address(context), _connection(context), self._now_ms())
        if push.size_bytes and self.has_receivers:
            try:
                await self._receive(context, request, instance)
            except KafkaError as error:
                instances.refuse_payload(instance, error.code)
                self._node.server.flood_log.warn(
                    "client.telemetry",
                    f"client telemetry refused client={context.session.client_host} "
                    f"id={context.client_id} software={instance.client.client_software_name} "
                    f"version={instance.client.client_software_version} reason={error}",
                )
                raise
        instances.take_payload(instance)

    async def _receive(
        self, context: RequestContext, request: PushTelemetryRequest, instance: ClientInstance
    ) -> None:
        from ottla.broker.telemetry.payloads import read_payload
        from ottla.core.telemetry.instances import instance_life_ms
        from ottla.protocol.compression import Codec

        codec, metrics = Codec(request.compression_type), bytes(request.metrics)
        told = {key: value for key, value in instance.client._asdict().items() if value is not None}
        attributes = {
            **told,
            "principal": context.session.principal,
            "broker_id": str(self._node.node_id),
        }
        max_bytes = self._node.config[broker_settings.TELEMETRY_MAX_BYTES]
        with_points = self.series is not None
        if len(metrics) <= INLINE_BYTES and codec is Codec.NONE:
            payload = read_payload(codec, metrics, max_bytes, attributes, with_points=with_points)
        else:
            async with self._threads:
                payload = await asyncio.to_thread(
                    read_payload, codec, metrics, max_bytes, attributes, with_points=with_points
                )
        if self.sender is not None:
            self.sender.put(payload.otlp)
        if self.series is not None:
            self.series.take(instance.client, payload.points, self._now_ms(), instance_life_ms(instance))

    def _connection_closed(self, connection: Connection) -> None:
        self.instances.connection_closed(connection)

    async def _expire(self) -> None:
        now_ms = self._now_ms()
        if self._instances is not None:
            self._instances.expire(now_ms)
        if self.series is not None:
            self.series.expire(now_ms)

    def _now_ms(self) -> int:
        return int(self._node.loop.time() * 1000)


def _address(context: RequestContext) -> ClientAddress:
    from ottla.core.telemetry.instances import ClientAddress

    session = context.session
    port = None if session.connection is None else session.connection.client_port
    return ClientAddress(context.client_id, *session.client_software, session.client_host, port)


def _connection(context: RequestContext) -> Hashable:
    return context.session.connection or context.session
