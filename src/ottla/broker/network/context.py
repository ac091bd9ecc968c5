"""What a request handler is told about the request beside its body."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.broker.network.connection import ClientConnection


class RequestContext(NamedTuple):
    """One request's header and where it came from.

    A named tuple, not a frozen dataclass: one is made per request, and it costs a third as much.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    client_host: str
    listener_name: str
    principal: str = "User:ANONYMOUS"
    connection: ClientConnection | None = None
    """For what lives as long as it; None for a request that came another way."""
