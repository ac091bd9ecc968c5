"""Requests to brokers, whose failures become ApiErrors."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any, Final, TypeVar

from ottla.client.access import ClusterAccess
from ottla.client.kafka_requests import (
    NodeConnections,
    NodeRefusesUser,
    NodeUnreachable,
    UnsupportedRequest,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message
from ottla.rest.admin.model import Node
from ottla.rest.kafka_errors import of_code, unreachable
from ottla.web.errors import ApiError

T = TypeVar("T")

CLIENT_ID: Final = "ottla-rest-admin"
TRY_SECONDS: Final = 3.0
"""How long a broker may take to answer where there are others to try."""


class BrokerRequests:
    """Requests to nodes, each of which ends within the access's timeout."""

    def __init__(self, access: ClusterAccess) -> None:
        self._connections = NodeConnections(access.with_client_id(CLIENT_ID))

    async def reach(self, nodes: Iterable[Node]) -> Node:
        """The first of the nodes that takes a connection. Raises ApiError when none does."""
        problem = unreachable("No broker of the cluster is known.")
        for node in nodes:
            try:
                await _told(self._connections.reach(node.host, node.port, TRY_SECONDS))
                return node
            except ApiError as refusal:
                problem = refusal
        raise problem

    async def ask(self, node: Node, request: Message, seconds: float | None = None) -> Any:
        """The node's response, within `seconds` if that is less than the access's timeout.

        Raises ApiError when the node can't be reached or does not serve the request.
        """
        return await _told(self._connections.ask(node.host, node.port, request, seconds))

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()


async def _told(asking: Awaitable[T]) -> T:
    try:
        return await asking
    except NodeUnreachable as problem:
        raise unreachable(str(problem)) from None
    except NodeRefusesUser as problem:
        raise of_code(ErrorCode.SASL_AUTHENTICATION_FAILED, str(problem)) from None
    except UnsupportedRequest:
        raise of_code(ErrorCode.UNSUPPORTED_VERSION) from None
