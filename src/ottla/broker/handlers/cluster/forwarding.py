"""Requests that a broker does not answer itself: it hands on the active controller's answer (KIP-590)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.network.context import RequestContext
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node


async def forward(node: Node, context: RequestContext, request: Message) -> Message:
    """The active controller's answer, wherever it is.

    The controller can't reach the client's connection: what it says of throttling is done here.
    """
    answer = await node.controller_channel.forward(context, request)
    throttle_ms = getattr(answer, "throttle_time_ms", 0)
    if throttle_ms:
        node.client_quotas.throttle(context.session, throttle_ms)
    return answer
