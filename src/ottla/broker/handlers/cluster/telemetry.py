"""Clients' metrics (KIP-714): GetTelemetrySubscriptions (API key 71) 0 and PushTelemetry (72) 0.

Any client may use both, as in Kafka. Errors are answered without a throttle time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.network.context import RequestContext
from ottla.core.settings import broker_settings
from ottla.core.telemetry.instances import ACCEPTED_COMPRESSION_TYPES
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from ottla.protocol.messages.push_telemetry_request import PushTelemetryRequest
from ottla.protocol.messages.push_telemetry_response import PushTelemetryResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node


def get_telemetry_subscriptions(
    node: Node, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """The metrics that a client is to push, and its id if it had none."""
    instance = node.telemetry.subscribe(context, request.client_instance_id)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED_COMPRESSION_TYPES),
        push_interval_ms=instance.requested.push_interval_ms,
        telemetry_max_bytes=node.config[broker_settings.TELEMETRY_MAX_BYTES],
        delta_temporality=True,
        requested_metrics=list(instance.requested.metrics),
    )


async def push_telemetry(
    node: Node, context: RequestContext, request: PushTelemetryRequest
) -> PushTelemetryResponse:
    """Take a client's metrics."""
    await node.telemetry.push(context, request)
    return PushTelemetryResponse()


HANDLERS = {
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: get_telemetry_subscriptions,
    ApiKey.PUSH_TELEMETRY: push_telemetry,
}
