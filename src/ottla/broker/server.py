"""Listeners: binds the sockets, keeps the set of connections, closes those that sleep too long."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ottla.broker.connection import RECEIVE_BUFFER_BYTES, ClientConnection, Dispatch
from ottla.broker.polling import Poller, look_seconds

log = logging.getLogger("ottla.broker")


class ListenError(Exception):
    """A listener's address can't be had; the message is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What a listener grants a client."""

    max_request_bytes: int
    max_connections: int
    idle_ms: int
    backlog: int


def bind(listener_name: str, host: str, port: int) -> socket.socket:
    """Bind the first address that `host` stands for; nothing listens yet. Raises ListenError.

    Binding comes first when a broker starts: a port in use is found before anything is written.
    """
    listener = None
    try:
        addresses = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE if not host else 0
        )
        # A name such as localhost stands for several: IPv4 first, which every client tries.
        addresses.sort(key=lambda each: each[0] != socket.AF_INET)
        family, kind, protocol, _, address = addresses[0]
        listener = socket.socket(family, kind, protocol)
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as problem:
        if listener is not None:
            listener.close()
        where = f"{host}:{port}"
        if problem.errno == errno.EADDRINUSE:
            raise ListenError(
                f"{where} is in use by another program: stop that one, or give another address with "
                f"--listen HOST:PORT"
            ) from problem
        raise ListenError(
            f"can't listen on {where} (listener {listener_name}): {problem.strerror or problem}"
        ) from problem
    return listener


class Server:
    """Accepts connections on bound sockets and hands their requests to each socket's `dispatch`."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._connections: set[ClientConnection] = set()
        self._servers: dict[str, asyncio.Server] = {}
        self._poller = Poller(asyncio.get_running_loop(), look_seconds())
        self._shared_receive = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        self.on_closed: Callable[[ClientConnection], None] | None = None
        """Told of every connection that is gone."""

    @property
    def connection_count(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    async def listen(self, listener_name: str, bound: socket.socket, dispatch: Dispatch) -> None:
        """Begin to accept on `bound`."""
        loop = asyncio.get_running_loop()
        # Windows' proactor loop reads in the background, into a buffer that nobody else may use meanwhile.
        shared = not type(loop).__name__.startswith("Proactor")

        def connect() -> ClientConnection:
            receive = self._shared_receive if shared else memoryview(bytearray(64 * 1024))
            connection = ClientConnection(
                loop,
                dispatch,
                listener_name,
                self._limits.max_request_bytes,
                receive,
                self._closed,
                self._poller.heard,
            )
            if len(self._connections) >= self._limits.max_connections:
                log.warning("connection refused reason=max.connections listener=%s", listener_name)
                loop.call_soon(connection.close)
            self._connections.add(connection)
            return connection

        server = await loop.create_server(connect, sock=bound, backlog=self._limits.backlog)
        self._servers[listener_name] = server

    async def close_idle(self) -> None:
        """Close connections that said nothing for connections.max.idle.ms and wait for nothing."""
        oldest = asyncio.get_running_loop().time() - self._limits.idle_ms / 1000
        for connection in list(self._connections):
            if connection.last_active < oldest and not connection.busy:
                connection.close()

    async def stop(self, listener_names: Collection[str] | None = None) -> None:
        """Stop accepting, then hang up on everybody, of these listeners or of all."""
        for name in list(self._servers):
            if listener_names is None or name in listener_names:
                self._servers.pop(name).close()
        for connection in list(self._connections):
            if listener_names is None or connection.listener_name in listener_names:
                connection.close()
        await asyncio.sleep(0)

    def _closed(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        if self.on_closed is not None:
            self.on_closed(connection)
