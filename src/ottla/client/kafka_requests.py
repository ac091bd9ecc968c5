"""Requests to single nodes: messages of ottla.protocol over connections that are kept.

A connection is opened when a node is first asked, shared by requests, and opened again after it broke. A
request goes out in the newest version that both sides speak.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ottla.client.access import Address, ClusterAccess
from ottla.client.connection import (
    ConnectionLost,
    NodeConnection,
    NodeRefusesUser,
    NodeUnreachable,
    connect_problem,
)
from ottla.client.errors import ClientOptionError
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.errors import ProtocolError
from ottla.protocol.schema import Message

__all__ = [
    "NodeConnections",
    "NodeRefusesUser",
    "NodeUnreachable",
    "Request",
    "RequestByVersion",
    "UnsupportedRequest",
]

T = TypeVar("T")

DEFAULT_TIMEOUT_MS: Final = 30_000
NEWEST: Final = {ApiKey.OFFSET_FETCH: 9, ApiKey.OFFSET_COMMIT: 9}
"""The newest version to ask in, where later ones have other fields: version 10 names topics by id."""


class UnsupportedRequest(Exception):
    """The node does not serve the request, or not in a version that can say it."""


@dataclass(frozen=True, slots=True)
class RequestByVersion:
    """A request whose fields depend on the version that the node speaks."""

    key: ApiKey
    at: Callable[[int], Message]

    def __repr__(self) -> str:
        return self.key.name


Request = Message | RequestByVersion


class NodeConnections:
    """Connections to nodes, at most one to each address. Requests end within the access's timeout.

    A node answers the requests of a connection in their order, so requests that may wait at the node, fetches
    above all, need connections of their own.
    """

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._timeout_seconds = (access.request_timeout_ms or DEFAULT_TIMEOUT_MS) / 1_000
        self._connections: dict[Address, NodeConnection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}

    async def reach(self, host: str, port: int, seconds: float) -> None:
        """Connect to a node within `seconds`. Raises NodeUnreachable, NodeRefusesUser."""
        address = Address(host, port)
        await self._within(address, self._connection(address), min(seconds, self._timeout_seconds))

    async def ask(self, host: str, port: int, request: Request, seconds: float | None = None) -> Any:
        """The node's response, within `seconds` if that is less than the access's timeout.

        Raises NodeUnreachable, NodeRefusesUser, UnsupportedRequest.
        """
        address = Address(host, port)
        seconds = self._timeout_seconds if seconds is None else min(seconds, self._timeout_seconds)
        return await self._within(address, self._asked(address, request), seconds)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))
        self._connections.clear()

    async def _asked(self, address: Address, request: Request) -> Any:
        connection = await self._connection(address)
        key, version, message = _versioned(request, connection.versions)
        try:
            return await connection.ask(key, version, message)
        except ValueError as problem:
            raise UnsupportedRequest(f"the node can't be asked this: {problem}") from None

    async def _within(self, address: Address, asking: Awaitable[T], seconds: float) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await asking
        except TimeoutError:
            # the node may be frozen, and the next request would wait as long
            self._hang_up(address)
            raise NodeUnreachable(f"The broker at {address} did not answer in time.") from None
        except (ConnectionLost, OSError, ProtocolError, ClientOptionError) as problem:
            raise NodeUnreachable(
                f"The broker at {address} cannot be reached: {connect_problem(problem)}"
            ) from None

    def _hang_up(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.hang_up()

    async def _connection(self, address: Address) -> NodeConnection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is not None and connection.outdated:
                self._hang_up(address)
                connection = None
            if connection is None or not connection.open:
                connection = await NodeConnection.to(address, self._access.connection())
                self._forget_closed()
                self._connections[address] = connection
            return connection

    def _forget_closed(self) -> None:
        """Forget connections that were closed: in time, brokers have had many addresses."""
        self._connections = {
            address: connection for address, connection in self._connections.items() if connection.open
        }
        self._opening = {
            address: lock
            for address, lock in self._opening.items()
            if lock.locked() or address in self._connections
        }


def _versioned(request: Request, versions: dict[int, tuple[int, int]]) -> tuple[ApiKey, int, Message]:
    """The request in the newest common version. Raises UnsupportedRequest when there is none."""
    key = request.key if isinstance(request, RequestByVersion) else request.API_KEY
    assert key is not None
    api = ApiKey(key)
    least, most = versions.get(api, (0, -1))
    version = min(most, NEWEST.get(api, APIS[api].latest_stable_version))
    if version < max(least, APIS[api].min_version):
        raise UnsupportedRequest(f"the node serves no version of {api.name} that this client has")
    return api, version, request.at(version) if isinstance(request, RequestByVersion) else request
