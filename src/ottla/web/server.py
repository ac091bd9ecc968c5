"""The life of one service: it starts, listens over HTTP, says that it is ready, and stops cleanly.

Theory of operation. A service's addresses are bound first, as the service may have to announce one to other
instances. The sockets listen only once the service has started, so every client that can connect is served.
At a stop the service ends the requests that would go on for long, all others run to their end (front.py gives
them DRAIN_SECONDS), no further ones are taken, and then the service itself stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import uvicorn
from starlette.types import ASGIApp

from ottla.tracing.tracer import Tracer
from ottla.web.errors import ServiceError
from ottla.web.front import Front
from ottla.web.front_settings import FrontOptions
from ottla.web.http_protocol import BoundedHttpProtocol
from ottla.web.request_figures import RequestFigures
from ottla.web.security import Security
from ottla.web.service_metrics import Observed, ServiceRuns, ServicesMetrics
from ottla.web.tls_acceptor import TlsAcceptor
from ottla.web.traced_requests import traced

STOP_REQUESTS_SECONDS: Final = 5
"""For connections that stay open although no request is under way: longer than the front's DRAIN_SECONDS."""
IDLE_CONNECTION_SECONDS: Final = 60
CONNECTIONS: Final = 4_096
"""The most concurrent requests of a service; a further one is answered with 503."""
BACKLOG: Final = 1_024

TLS_SCHEMES: Final = frozenset({"https", "mqtts", "wss"})
"""Those of addresses with TLS; a service with its own protocol has others than HTTP's."""
_ANYWHERE: Final = frozenset({"", "0.0.0.0", "::"})

Context = Callable[[], ssl.SSLContext]
"""Gives the TLS of a listener for a new connection."""


class Listener(NamedTuple):
    """A bound socket, what is spoken there, and its TLS if it has any."""

    bound: socket.socket
    address: HttpAddress
    context: Context | None


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """The address on which a service listens. listener: the name of the listener, in lower case."""

    host: str
    port: int
    scheme: str = "http"
    listener: str = ""

    @property
    def url(self) -> str:
        """The URL for clients on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.host, self.host)
        return (
            f"{self.scheme}://[{host}]:{self.port}" if ":" in host else f"{self.scheme}://{host}:{self.port}"
        )

    def host_for_peers(self, given: str | None) -> str:
        """The host at which other machines reach this one. given: by the settings, if they do."""
        host = given or self.host
        return socket.gethostname() if host in _ANYWHERE else host

    @property
    def tls_listener(self) -> str | None:
        """The name of the listener, None if it has no TLS."""
        return self.listener if self.scheme in TLS_SCHEMES else None

    @classmethod
    def parse(cls, text: str) -> HttpAddress:
        """Parse `HOST:PORT` or `[HOST]:PORT`, with or without `http://` or `https://` before it.

        Raises ServiceError.
        """
        scheme, separator, rest = text.partition("://")
        if separator and scheme not in ("http", "https"):
            raise ServiceError(f"{text!r} is not HOST:PORT")
        if not separator:
            scheme, rest = "http", text
        host, separator, port = rest.rstrip("/").rpartition(":")
        if not separator or not port.isdecimal() or not int(port) <= 65_535 or "/" in host:
            raise ServiceError(f"{text!r} is not HOST:PORT")
        return cls(host.removeprefix("[").removesuffix("]"), int(port), scheme, scheme)


class Running(Protocol):
    """What every service has, whatever its clients speak."""

    @property
    def name(self) -> str:
        """The name of its `ottla` command."""

    @property
    def front(self) -> FrontOptions:
        """The options of the front of its listeners."""

    def observed(self, figures: RequestFigures) -> Observed:
        """Ways to look into it, from before its start on. figures: those of its requests."""

    async def start(self, address: HttpAddress) -> None:
        """Get ready to answer at `address`, which is bound already: the first of several.

        Raises ServiceError.
        """

    async def failed(self) -> str:
        """Wait until the service can't go on; returns the reason."""

    def end_requests(self) -> None:
        """End requests that would go on for long, with right answers: the service is about to stop."""

    async def stop(self) -> None:
        """Release all resources; also after a `start` that raised."""


class HttpService(Running, Protocol):
    """A service over HTTP: an ASGI application, and its work besides answering requests."""

    @property
    def app(self) -> ASGIApp:
        """The application, which may be called once the service is started."""


@runtime_checkable
class Listening(Protocol):
    """The part of a service with a protocol of its own that takes its connections."""

    async def listen(self, listeners: Sequence[Listener]) -> None:
        """Accept at these sockets; the service's `end_requests` ends that."""

    async def ended(self) -> str:
        """Wait until no connection is accepted any more, for a reason that is returned."""

    async def drain(self) -> None:
        """Return once clients have their last answers, after `end_requests`; within bounds."""


class SocketService(Running, Listening, Protocol):
    """A service with a protocol of its own."""


Service = HttpService | SocketService


async def serve(
    service: Service,
    bound: Sequence[socket.socket],
    addresses: Sequence[HttpAddress],
    ready: Callable[[str], None],
    metrics: ServicesMetrics | None = None,
) -> str:
    """Start a service and answer at all of `bound` until it can't go on; returns the reason.

    Cancelling stops it cleanly. `addresses`: those of `bound`, with their real ports. `ready` is called with
    a line once the service answers. metrics: where the run is watched, if anywhere. Closes `bound`. Raises
    ServiceError if the service can't start.
    """
    async with AsyncExitStack() as stack:
        for each in bound:
            stack.callback(each.close)
        runs = (
            None if metrics is None else stack.enter_context(metrics.run_of(service.name, service.observed))
        )
        stack.push_async_callback(service.stop)
        security = service.front.security
        if security is not None:
            security.require_known_clients(
                service.name, [(each.host, each.port, each.tls_listener) for each in addresses]
            )
        contexts = [_context(security, each) for each in addresses]
        await service.start(addresses[0])
        if isinstance(service, Listening):
            listeners = map(Listener, bound, addresses, contexts)
            answering = await _listen_for(stack, service, list(listeners))
        else:
            answering = await _listen(stack, service, list(zip(bound, contexts, strict=True)), runs)
        failing = asyncio.create_task(service.failed(), name=f"{service.name} failed")
        stack.push_async_callback(cancel, failing)
        watched: list[asyncio.Task[str]] = [answering, failing]
        if security is not None:
            watched.append(asyncio.create_task(_watch(security), name=f"{service.name} security"))
            stack.push_async_callback(cancel, watched[-1])
        if runs is not None:
            runs.ready()
        ready(f"ottla {service.name} ready at {', '.join(each.url for each in addresses)}")
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        reason = done.pop().result()
        if runs is not None:
            runs.state = reason
        return reason


def _context(security: Security | None, address: HttpAddress) -> Context | None:
    """The TLS of an address, None if it has none. Raises ConfigError."""
    listener = address.tls_listener
    if listener is None:
        return None
    if security is None:
        raise ServiceError(f"there are no settings of TLS for {address.url}")
    watched = security.tls_context(listener)
    return lambda: watched.value


async def _watch(security: Security) -> str:
    await security.run()
    return "files of certificates and users are no longer looked at"


def bind(name: str, addresses: Sequence[HttpAddress]) -> list[socket.socket]:
    """Sockets bound to these addresses, not listening yet, for the service `name`. Raises ServiceError."""
    bound: list[socket.socket] = []
    with contextlib.ExitStack() as stack:
        for address in addresses:
            bound.append(_bind(name, address))
            stack.callback(bound[-1].close)
        stack.pop_all()
    return bound


def _bind(name: str, address: HttpAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address.host, address.port))
    except OSError as problem:
        bound.close()
        raise ServiceError(
            f"ottla {name} can't listen on {address.host}:{address.port}: {problem.strerror}"
        ) from None
    bound.setblocking(False)
    return bound


async def cancel(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait for its end, with any result."""
    task.cancel()
    await asyncio.wait([task])


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that leaves signals to the process, which may run several."""

    def __init__(
        self,
        config: uvicorn.Config,
        listeners: Sequence[tuple[socket.socket, Context | None]],
        figures: RequestFigures | None,
        takes_http2: bool,
    ) -> None:
        super().__init__(config)
        self._figures = figures
        self._takes_http2 = takes_http2
        self.ready = asyncio.Event()
        self._listeners = listeners

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's own for given sockets, but with a context of TLS for each."""
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()

        def make_protocol() -> BoundedHttpProtocol:
            made = BoundedHttpProtocol(self.config, self.server_state, self.lifespan.state, loop)
            made.figures = self._figures
            made.takes_http2 = self._takes_http2
            return made

        backlog = self.config.backlog
        self.servers = []
        for listening, context in self._listeners:
            if context is None:
                made: Any = await loop.create_server(make_protocol, sock=listening, backlog=backlog)
            else:
                offered = _offering_http2(context) if self._takes_http2 else context
                made = TlsAcceptor(listening, make_protocol, offered, backlog)
            self.servers.append(made)
        self.started = True
        self.ready.set()


def _offering_http2(context: Context) -> Context:
    """The context, which lets clients choose HTTP/2 in the handshake (RFC 7301)."""

    def offering() -> ssl.SSLContext:
        found = context()
        found.set_alpn_protocols(["h2", "http/1.1"])
        return found

    return offering


async def _listen_for(
    stack: AsyncExitStack, service: SocketService, listeners: Sequence[Listener]
) -> asyncio.Task[str]:
    """Let a service take connections until the stack is closed; the task ends when it no longer does."""

    async def end() -> None:
        service.end_requests()
        await service.drain()
        await cancel(task)

    await service.listen(listeners)
    task = asyncio.create_task(service.ended(), name=f"{service.name} listening")
    stack.push_async_callback(end)
    return task


def _tracer(service: HttpService) -> Tracer | None:
    """The tracer of a service's requests; None where they are not traced. Raises ConfigError."""
    options = service.front
    if options.tracing is None:
        return None
    return Tracer(f"ottla-{service.name}", options.tracing, options.traces_ratio)


async def _listen(
    stack: AsyncExitStack,
    service: HttpService,
    bound: Sequence[tuple[socket.socket, Context | None]],
    runs: ServiceRuns | None,
) -> asyncio.Task[str]:
    """Answer requests at these sockets until the stack is closed; the task ends when the server does."""
    sockets = [each for each, _ in bound]
    figures = None if runs is None else runs.figures
    front = Front(service.app, service.front, [each.getsockname()[:2] for each in sockets], figures)
    sockets_options: dict[str, Any] = {"ws": "none"}
    if service.front.websockets:
        from ottla.web.websocket_protocol import (  # a library that other services do not need
            MESSAGE_BYTES,
            PING_SECONDS,
            CountedWebSocket,
        )

        sockets_options = {
            "ws": partial(CountedWebSocket, figures=figures),
            "ws_max_size": MESSAGE_BYTES,
            "ws_ping_interval": PING_SECONDS,
            "ws_ping_timeout": PING_SECONDS,
        }
    config = uvicorn.Config(
        traced(front, _tracer(service), stack),
        http=BoundedHttpProtocol,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_CONNECTION_SECONDS,
        timeout_graceful_shutdown=STOP_REQUESTS_SECONDS,
        limit_concurrency=CONNECTIONS,
        backlog=BACKLOG,
        **sockets_options,
    )
    server = _Uvicorn(config, bound, figures, service.front.http2)

    async def serve() -> str:
        await server.serve(sockets)
        return f"the HTTP server of ottla {service.name} has ended"

    task = asyncio.create_task(serve(), name=f"{service.name} http")

    async def end() -> None:
        service.end_requests()
        server.should_exit = True
        await front.drain()
        await asyncio.wait([task])

    stack.push_async_callback(end)
    ready = asyncio.create_task(server.ready.wait())
    await asyncio.wait([ready, task], return_when=asyncio.FIRST_COMPLETED)
    await cancel(ready)
    if task.done():
        raise ServiceError(f"ottla {service.name}: {task.exception() or task.result()}")
    return task
