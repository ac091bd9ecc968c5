"""Listeners: binds the sockets, keeps connections within their limits, closes those idle for too long."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.config import BrokerConfig
from ottla.broker.listeners import Listener
from ottla.broker.network.acceptor import Acceptor
from ottla.broker.network.answer_memory import AnswerMemory
from ottla.broker.network.connection import ClientConnection, Dispatch, Shared
from ottla.broker.network.connection_limits import ConnectionLimits, descriptor_limit, descriptor_share
from ottla.broker.network.flood_log import FloodLog
from ottla.broker.network.polling import Poller, look_seconds
from ottla.broker.network.request_memory import RequestMemory
from ottla.broker.supervisor import Supervisor
from ottla.config.setting import MAX_INT, Setting
from ottla.core.settings import broker_settings

if TYPE_CHECKING:
    from ottla.broker.network.security_events import SecurityEvents
    from ottla.broker.network.tls_connection import Handshakes, ListenerTls
    from ottla.core.quotas.address_rates import AddressRates

log = logging.getLogger("ottla.broker")

#: How often connections are looked at for their idleness, unless they may be idle for a shorter time.
IDLE_LOOK_SECONDS: Final = 10.0
#: The value of socket.*.buffer.bytes that leaves a buffer to the system.
SYSTEM_BUFFER: Final = -1
#: The start warns if the descriptors allow fewer connections than this.
FEW_CONNECTIONS: Final = 1000


class ListenError(Exception):
    """A listener's address can't be bound; the message is one line that says what to do."""


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


class _Group:
    """The listeners of the broker or those of the controller: neither can take the other's connections."""

    def __init__(self, config: BrokerConfig, names: Collection[str], shared: Shared) -> None:
        self.limits = ConnectionLimits(config, names, descriptor_share(descriptor_limit()))
        self.shared = shared
        self.slot_freed = asyncio.Event()
        self.connections: set[ClientConnection] = set()


class Server:
    """Accepts connections on bound sockets and hands their requests to each socket's `dispatch`."""

    def __init__(self, config: BrokerConfig, on_failure: Callable[[str, BaseException], None]) -> None:
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._poller = Poller(self._loop, look_seconds())
        self._supervisor = Supervisor(on_failure)
        self._accepting: dict[str, tuple[asyncio.Task[Any], socket.socket]] = {}
        self._dispatches: dict[str, Dispatch] = {}
        self._wrap: Callable[[Dispatch], Dispatch] | None = None
        self._client_listeners = {listener.name for listener in config.listeners}
        self._clients = self._group(config.listeners)
        self._controllers = self._group(config.controller_listeners)
        self.flood_log = FloodLog(self._loop, log)
        """For log lines that clients can cause."""
        self._handshakes: Handshakes | None = None
        self.audit: SecurityEvents | None = None
        """Is told of clients that prove who they are by certificates; set before `listen`."""
        self._look_for_idle_at = 0.0
        self.on_closed: list[Callable[[ClientConnection], None]] = []
        """Each is told of every connection that is gone."""

    def _group(self, listeners: Sequence[Listener]) -> _Group:
        max_request_bytes = self._config[broker_settings.SOCKET_REQUEST_MAX_BYTES]
        shared = Shared(
            self._loop,
            max_request_bytes=max_request_bytes,
            memory=RequestMemory(self._config[broker_settings.QUEUED_MAX_REQUEST_BYTES], max_request_bytes),
            answers=AnswerMemory(self._loop),
            on_close=self._closed,
            heard=self._poller.heard,
        )
        return _Group(self._config, [listener.name for listener in listeners], shared)

    @property
    def groups(self) -> Iterator[tuple[str, Sequence[str], ConnectionLimits, Shared]]:
        """The two kinds of listeners: name, the listeners' names, their connections, their memory."""
        for name, listeners, group in (
            ("broker", self._config.listeners, self._clients),
            ("controller", self._config.controller_listeners, self._controllers),
        ):
            yield name, [each.name for each in listeners], group.limits, group.shared

    def _group_of(self, listener_name: str) -> _Group:
        return self._clients if listener_name in self._client_listeners else self._controllers

    async def listen(
        self,
        listener_name: str,
        bound: socket.socket,
        dispatch: Dispatch,
        unauthenticated_request_bytes: int | None = None,
        tls: ListenerTls | None = None,
    ) -> None:
        """Begin to accept on `bound`.

        unauthenticated_request_bytes: the largest request of a client before it is authenticated.
        tls: that of the listener, None for plaintext.
        """
        group = self._group_of(listener_name)
        limits = group.limits
        if limits.max_connections < self._config[broker_settings.MAX_CONNECTIONS] < MAX_INT or (
            limits.max_connections < FEW_CONNECTIONS
        ):
            log.warning(
                "connections are bounded by the process's descriptors listener=%s connections=%d "
                "descriptors=%d",
                listener_name,
                limits.max_connections,
                descriptor_limit(),
            )

        self._dispatches[listener_name] = dispatch

        async def adopt(accepted: socket.socket, address: str) -> None:
            connection = ClientConnection(
                self._loop,
                self._dispatch_of(listener_name),
                listener_name,
                address,
                group.shared,
                unauthenticated_request_bytes,
            )
            group.connections.add(connection)
            try:
                self._prepare(accepted)
                if tls is None:
                    await self._loop.connect_accepted_socket(lambda: connection, accepted)
                else:
                    await self._connect_with_tls(connection, accepted, tls)
            except OSError:  # gone again
                accepted.close()
                self._closed(connection)
            self._close_excess(group)

        def refuse(address: str) -> None:
            self.flood_log.warn(
                "per.ip",
                f"connection refused client={address} listener={listener_name} reason=max.connections.per.ip "
                f"limit={limits.limit_of_address(address)}",
            )

        bound.setblocking(False)
        # Connections inherit it; set on them it would be too late for the window.
        self._size_buffer(bound, socket.SO_RCVBUF, broker_settings.SOCKET_RECEIVE_BUFFER_BYTES)
        bound.listen(self._config[broker_settings.SOCKET_LISTEN_BACKLOG_SIZE])
        acceptor = Acceptor(listener_name, bound, limits, group.slot_freed, adopt, refuse)
        task = self._supervisor.spawn(f"accept-{listener_name}", acceptor.run())
        self._accepting[listener_name] = (task, bound)

    async def _connect_with_tls(
        self, connection: ClientConnection, accepted: socket.socket, tls: ListenerTls
    ) -> None:
        # Imported where it is used: a start without TLS does not pay for it.
        from ottla.broker.network.tls_connection import Handshakes, TlsConnection

        if self._handshakes is None:
            self._handshakes = Handshakes(self._loop, self.flood_log, self.audit)
        protocol = TlsConnection(connection, tls, self._handshakes)
        try:
            await self._handshakes.begin(protocol)
            if connection.closed:  # to make room, meanwhile
                raise ConnectionAbortedError
            await self._loop.connect_accepted_socket(lambda: protocol, accepted)
        except BaseException:
            self._handshakes.end(protocol)
            accepted.close()
            raise

    def limit_addresses(self, rates: AddressRates) -> None:
        """Refuse connections that come too early for the rate of their address."""
        self._clients.limits.address_rates = rates
        self._controllers.limits.address_rates = rates

    def wrap_dispatch(self, wrap: Callable[[Dispatch], Dispatch] | None) -> None:
        """Put something around what each of the broker's listeners does with requests; None takes it off."""
        self._wrap = wrap
        for connection in self._clients.connections:
            connection.dispatch_by(self._dispatch_of(connection.listener_name))

    def _dispatch_of(self, listener_name: str) -> Dispatch:
        dispatch = self._dispatches[listener_name]
        if self._wrap is None or listener_name not in self._client_listeners:
            return dispatch
        return self._wrap(dispatch)

    def _prepare(self, accepted: socket.socket) -> None:
        """Set the socket's options as Kafka does; the event loop adds TCP_NODELAY."""
        accepted.setblocking(False)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._size_buffer(accepted, socket.SO_SNDBUF, broker_settings.SOCKET_SEND_BUFFER_BYTES)

    def _size_buffer(self, of: socket.socket, option: int, setting: Setting[int]) -> None:
        """Size a buffer as it was configured; by default the system does it, as it goes.

        Kafka's default of 100 KiB costs four times the CPU of a system that decides itself (measured with
        requests of 0.9 MB), because each of them comes in many small pieces.
        """
        size_bytes = self._config[setting]
        if setting.name in self._config.static and size_bytes != SYSTEM_BUFFER:
            of.setsockopt(socket.SOL_SOCKET, option, size_bytes)

    def tend_interval_ms(self) -> int:
        """The time until `tend` is due again: less while a connection waits for memory."""
        groups = (self._clients.shared, self._controllers.shared)
        return 200 if any(each.memory.short or each.answers.over for each in groups) else 1000

    async def tend(self) -> None:
        """Do the regular work: close idle and surplus connections, hurry those that keep others waiting."""
        now = self._loop.time()
        if now >= self._look_for_idle_at:
            await self.close_idle()
        for group in (self._clients, self._controllers):
            self._close_excess(group)
            group.shared.memory.hurry(now)
            group.shared.answers.hurry(now)

    async def close_idle(self) -> None:
        """Close connections that neither sent nor read for connections.max.idle.ms and wait for no answer."""
        now = self._loop.time()
        idle = self._config[broker_settings.CONNECTIONS_MAX_IDLE_MS] / 1000
        self._look_for_idle_at = now + min(IDLE_LOOK_SECONDS, max(idle, 0) / 2)
        for connection in [*self._clients.connections, *self._controllers.connections]:
            connection.close_if_login_is_late(now)
            if idle >= 0:  # negative: no connection is idle too long
                connection.close_if_idle_since(now - idle)

    def _close_excess(self, group: _Group) -> None:
        """Make room for the brokers' own listener, or for a limit that was lowered."""
        surplus = group.limits.excess
        if surplus == 0:
            return
        others = [each for each in group.connections if not group.limits.is_protected(each.listener_name)]
        others.sort(key=lambda each: each.last_active)
        for connection in others[:surplus]:
            self.flood_log.warn(
                "excess",
                f"connection closed client={connection.client_host} listener={connection.listener_name} "
                f"reason=max.connections limit={group.limits.max_connections}",
            )
            connection.abort()
            self._closed(connection)

    async def stop(self, listener_names: Collection[str] | None = None) -> None:
        """Stop accepting, then close the connections of these listeners, or of all."""
        for name in list(self._accepting):
            if listener_names is None or name in listener_names:
                task, bound = self._accepting.pop(name)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                bound.close()
        for connection in [*self._clients.connections, *self._controllers.connections]:
            if listener_names is None or connection.listener_name in listener_names:
                connection.close()
        await asyncio.sleep(0)

    def _closed(self, connection: ClientConnection) -> None:
        group = self._group_of(connection.listener_name)
        if connection not in group.connections:
            return  # it was let go before the event loop said so
        group.connections.remove(connection)
        group.limits.remove(connection.listener_name, connection.client_host)
        group.slot_freed.set()
        for told in self.on_closed:
            told(connection)
