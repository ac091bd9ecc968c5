"""What a request handler is told about the request beside its body: its header, and whose session it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from ottla.broker.network.answer_memory import AnswerMemory

ANONYMOUS: Final = "User:ANONYMOUS"


class Connection(Protocol):
    """A client's connection as handlers see it: it may have closed, and its answers take memory."""

    @property
    def closed(self) -> bool:
        """Whether no answer reaches the client any more."""
        ...

    @property
    def answers(self) -> AnswerMemory:
        """What the answers of all connections of its server may take."""
        ...

    def __hash__(self) -> int: ...


class Session:
    """Who asks, and from where. Made once a connection; requests that came another way have their own."""

    __slots__ = ("client_host", "connection", "listener_name", "principal", "throttle_ms")

    def __init__(
        self,
        client_host: str,
        listener_name: str,
        principal: str = ANONYMOUS,
        connection: Connection | None = None,
    ) -> None:
        self.client_host = client_host
        self.listener_name = listener_name
        self.principal = principal
        self.connection = connection
        """For what lives as long as it; None for a request that came another way."""
        self.throttle_ms = 0
        """How long the client is told to wait after the request under way (a session has one at a time)."""


class RequestContext(NamedTuple):
    """One request's header and the session that it belongs to.

    A named tuple, not a frozen dataclass: one is made per request, and it costs a third as much.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    session: Session
