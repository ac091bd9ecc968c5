"""Requests that a broker does not answer itself: it hands on the active controller's answer (KIP-590)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.network.context import RequestContext
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node


async def forward(node: Node, context: RequestContext, request: Message) -> Message:
    """The active controller's answer, wherever it is."""
    return await node.controller_channel.forward(context, request)
