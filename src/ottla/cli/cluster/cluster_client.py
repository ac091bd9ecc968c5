"""A client of any server of a cluster, for commands whose requests every broker answers or forwards."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Final, TypeVar

from ottla.client.access import ClusterAccess
from ottla.client.kafka_requests import (
    NodeConnections,
    NodeRefusesUser,
    NodeUnreachable,
    UnsupportedRequest,
)
from ottla.config.errors import UserError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message

T = TypeVar("T", bound=Message)

CLIENT_ID: Final = "ottla-cli"
CONNECT_SECONDS: Final = 10.0
"""For a server to take the connection, before the next one is asked."""


class CommandError(UserError):
    """The command can't do what the user asked for; one line that says why."""


class ClusterClient:
    """Asks a cluster for the length of a command: the first bootstrap server that answers."""

    def __init__(self, access: ClusterAccess) -> None:
        """Raises ClientOptionError for settings that can't be, before any server is asked."""
        access.aiokafka()
        self._servers = access.addresses()
        self._connections = NodeConnections(access.with_client_id(CLIENT_ID))

    async def ask(self, request: Message, answer: type[T]) -> T:
        """The answer, of that type, of the first server that gives one. Raises CommandError."""
        problems = []
        for host, port in self._servers:
            try:
                await self._connections.reach(host, port, CONNECT_SECONDS)
                response = await self._connections.ask(host, port, request)
            except (NodeUnreachable, UnsupportedRequest) as problem:
                problems.append(str(problem))
                continue
            except NodeRefusesUser as problem:
                raise CommandError(f"{host}:{port} refuses the user: {problem}") from None
            assert isinstance(response, answer)
            return response
        raise CommandError("; ".join(dict.fromkeys(problems)))

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()


@contextlib.asynccontextmanager
async def cluster_client(access: ClusterAccess) -> AsyncIterator[ClusterClient]:
    """A client for the length of a command. Raises ClientOptionError."""
    client = ClusterClient(access)
    try:
        yield client
    finally:
        await client.close()


def require_success(error_code: int, message: str | None, subject: str = "") -> None:
    """Raises CommandError for an error code; its line begins with the subject, a topic's name say."""
    if error_code != ErrorCode.NONE:
        error = ErrorCode(error_code)
        prefix = f"{subject}: " if subject else ""
        raise CommandError(f"{prefix}{error.name}: {message or error.message}")
