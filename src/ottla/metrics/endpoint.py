"""The HTTP endpoint of a process: /metrics, /healthz and /readyz, on the loop that it is started on.

It reads GET and HEAD requests and nothing else, and everything that a client can make it hold has a bound:
the bytes of a request's head, the connections, the time of a request, of a silence and of an answer that
isn't taken. One scrape is written at a time, in slices (exposition.py); others wait for it.

On loopback whoever reaches it may read; there only requests that name an address or this machine are
answered, so that no page whose DNS name was turned to 127.0.0.1 reads along. Beyond loopback see access.py:
a caller who has not proved who he is gets the state of /healthz and /readyz, as load balancers ask for it,
without the reasons.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.config.errors import ConfigError, UserError
from ottla.config.loopback import is_loopback
from ottla.metrics.access import Access, Busy, require_known_readers
from ottla.metrics.exposition import OPEN_METRICS, TEXT, Exposition
from ottla.metrics.health import Health, Report
from ottla.metrics.settings import Address, EndpointOptions
from ottla.security.key_stores import KeyStoreError
from ottla.security.server_tls import ServerTls
from ottla.security.watched_files import WATCH_SECONDS, WatchedFiles

log = logging.getLogger("ottla.metrics")

MOST_HEAD_BYTES: Final = 8 * 1024
MOST_CONNECTIONS: Final = 32
HEAD_SECONDS: Final = 10.0
"""From a request's first byte to its last."""
IDLE_SECONDS: Final = 150.0
"""Between two requests: Prometheus asks every minute, on one connection."""
WRITE_SECONDS: Final = 30.0
FLUSH_LOOK_SECONDS: Final = 0.01
PIECE_BYTES: Final = 64 * 1024
BACKLOG: Final = 64

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class EndpointError(UserError):
    """The endpoint can't be served; one line that says why."""


class _Request(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    keeps_alive: bool


class _Answer(NamedTuple):
    status: int
    body: bytes | list[bytes]
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


class _Refused(Exception):
    """A request that is answered by an error, after which the connection ends."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def endpoint_tls(tls: ServerTls) -> WatchedFiles[ssl.SSLContext]:
    """The TLS of an endpoint, whose files are read again when they change. Raises ConfigError."""
    try:
        return WatchedFiles("the TLS of the metrics", tls.paths, tls.context)
    except KeyStoreError as problem:
        raise ConfigError(f"the metrics can't be served by https: {problem}") from None


class MetricsEndpoint:
    """The endpoint of a process. `bind`, then `start` on a loop, then `stop` on the same."""

    def __init__(
        self,
        program: str,
        options: EndpointOptions,
        exposition: Exposition,
        health: Health,
        tls: WatchedFiles[ssl.SSLContext] | None = None,
        *,
        asks_for_certificates: bool = False,
    ) -> None:
        """program: its name, for messages. tls: given where the address has https://.

        Raises ConfigError for an address that would be open to other machines, and for files that can't be
        used.
        """
        self._program = program
        self._options = options
        self._exposition = exposition
        self._health = health
        self._tls = tls if options.address.uses_tls else None
        self._is_loopback = options.address.host == "localhost" or is_loopback(options.address.host)
        require_known_readers(
            program,
            options,
            is_loopback=self._is_loopback,
            asks_for_certificates=self._tls is not None and asks_for_certificates,
        )
        self._access = Access(options)
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._context = None if self._tls is None else self._tls.value
        self._connections: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._scrape = asyncio.Lock()
        self.refused_connections = 0

    def bind(self) -> Address:
        """Take the port, before anything else is started; the address with it. Raises EndpointError."""
        address = self._options.address
        try:
            found = socket.getaddrinfo(
                address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            # An empty host is every interface: by IPv6's socket, where there is one, IPv4 comes along.
            family, kind, protocol, _, place = sorted(found, key=lambda each: each[0] != socket.AF_INET6)[0]
            bound = socket.socket(family, kind, protocol)
            try:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6 and not address.host:
                    bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                bound.bind(place)
                bound.setblocking(False)
            except BaseException:
                bound.close()
                raise
        except OSError as problem:
            raise EndpointError(
                f"{self._program} can't serve its metrics at {address.url}: {problem.strerror or problem}"
            ) from None
        self._socket = bound
        return address._replace(port=bound.getsockname()[1])

    async def start(self) -> None:
        """Serve from now on."""
        if self._socket is None:
            self.bind()
        await self._listen()
        if self._tls is not None or self._access.asks:
            self._watching = asyncio.get_running_loop().create_task(self._watch(), name="metrics-files")

    async def stop(self) -> None:
        """Serve no more; requests that are under way are given up."""
        if self._watching is not None:
            self._watching.cancel()
        if self._server is not None:
            self._server.close()
        if self._socket is not None:
            self._socket.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def abandon(self) -> None:
        """Let go of the port of an endpoint that is not started."""
        if self._socket is not None:
            self._socket.close()

    async def _listen(self) -> None:
        assert self._socket is not None
        self._server = await asyncio.start_server(
            self._connected,
            sock=self._socket.dup(),
            limit=MOST_HEAD_BYTES,
            backlog=BACKLOG,
            ssl=self._context,
            ssl_handshake_timeout=None if self._context is None else HEAD_SECONDS,
        )

    async def _watch(self) -> None:
        """Look at the files of readers and keys. New keys are those of connections from then on."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            await asyncio.to_thread(self._refresh)
            if self._tls is not None and self._tls.value is not self._context:
                self._context = self._tls.value
                if self._server is not None:
                    self._server.close()
                await self._listen()

    def _refresh(self) -> None:
        self._access.refresh()
        if self._tls is not None:
            self._tls.refresh()

    # -- connections ----------------------------------------------------------------------------------

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MOST_CONNECTIONS:
            self.refused_connections += 1
            writer.write(_head(_Answer(503, b""), 0, keeps_alive=False))
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer), name="metrics-connection")
        self._connections.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("a request for metrics failed", exc_info=failure)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer_next(reader, writer):
                pass
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client has gone, is silent, or doesn't take its answer
        finally:
            # Not close(): an answer that isn't taken would be waited for without end.
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()
            else:
                writer.close()

    async def _answer_next(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read and answer a request; whether another one may follow."""
        is_head = False
        try:
            request = await _read(reader)
            is_head = request.method == "HEAD"
            answer = await self._answer(request)
            keeps_alive = request.keeps_alive
        except _Refused as refused:
            answer = _Answer(refused.status, f"{refused}\n".encode())
            keeps_alive = False
        pieces = answer.body if isinstance(answer.body, list) else [answer.body]
        writer.write(_head(answer, sum(map(len, pieces)), keeps_alive=keeps_alive))
        async with asyncio.timeout(WRITE_SECONDS):
            if not is_head:
                for piece in pieces:
                    for start in range(0, len(piece), PIECE_BYTES):
                        writer.write(piece[start : start + PIECE_BYTES])
                        await writer.drain()
            await writer.drain()
            if not keeps_alive:
                await _flushed(writer)
        return keeps_alive

    # -- requests -------------------------------------------------------------------------------------

    async def _answer(self, request: _Request) -> _Answer:
        if request.method not in ("GET", "HEAD"):
            return _Answer(405, b"GET and HEAD only\n", headers=(("Allow", "GET, HEAD"),))
        if self._is_loopback and not _is_safe_host(request.headers.get("host", "")):
            return _Answer(421, b"name this machine by its address or as localhost\n")
        try:
            is_known = await self._access.allows(request.headers.get("authorization", ""))
        except Busy:
            return _Answer(503, b"too many credentials wait for being checked\n")
        match request.path:
            case "/healthz":
                return _health(await self._health.is_alive(), is_known)
            case "/readyz":
                return _health(await self._health.is_ready(), is_known)
        if not is_known:
            return _Answer(401, b"Unauthorized\n", headers=(("WWW-Authenticate", self._access.challenge),))
        match request.path:
            case "/metrics":
                return await self._metrics(
                    "application/openmetrics-text" in request.headers.get("accept", "")
                )
            case "/":
                return _Answer(200, f"{self._program}: /metrics, /healthz, /readyz\n".encode())
            case _:
                return _Answer(404, b"there are /metrics, /healthz and /readyz\n")

    async def _metrics(self, open_metrics: bool) -> _Answer:
        async with self._scrape:
            pieces = []
            for piece in self._exposition.slices(open_metrics=open_metrics):
                pieces.append(piece)
                await asyncio.sleep(0)
        return _Answer(200, pieces, OPEN_METRICS if open_metrics else TEXT)


def _health(report: Report, is_known: bool) -> _Answer:
    return _Answer(
        200 if report.is_well else 503, report.body(with_reasons=is_known), "application/json; charset=utf-8"
    )


async def _flushed(writer: asyncio.StreamWriter) -> None:
    """Wait until the last bytes have left the process: the connection is closed next.

    Not by a limit of 0 and `drain`: TLS transports of asyncio would pause for ever.
    """
    while writer.transport.get_write_buffer_size():  # noqa: ASYNC110
        await asyncio.sleep(FLUSH_LOOK_SECONDS)


async def _read(reader: asyncio.StreamReader) -> _Request:
    """The next request. Raises _Refused, TimeoutError after a silence, IncompleteReadError at the end."""
    async with asyncio.timeout(IDLE_SECONDS):
        first = await reader.readexactly(1)
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            head = first + await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise _Refused(431, f"a request's head has at most {MOST_HEAD_BYTES} bytes") from None
    except TimeoutError:
        raise _Refused(408, f"a request takes at most {HEAD_SECONDS:g} s") from None
    line, *fields = head[:-4].decode("latin-1").split("\r\n")
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/"):
        raise _Refused(400, "this is no request of HTTP")
    method, target, version = words
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise _Refused(505, "HTTP/1.1 and HTTP/1.0 only")
    headers: dict[str, str] = {}
    for field in fields:
        name, colon, value = field.partition(":")
        if not colon or not name or name != name.strip():
            raise _Refused(400, "a header can't be read")
        headers[name.lower()] = value.strip()
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise _Refused(400, "requests have no body here")
    connection = headers.get("connection", "").lower()
    keeps_alive = connection != "close" and (version == "HTTP/1.1" or connection == "keep-alive")
    return _Request(method, target.partition("?")[0], headers, keeps_alive)


def _head(answer: _Answer, length: int, *, keeps_alive: bool) -> bytes:
    fields = [
        ("Content-Type", answer.content_type),
        ("Content-Length", str(length)),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        *answer.headers,
        *(() if keeps_alive else (("Connection", "close"),)),
    ]
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n{lines}\r\n".encode("latin-1")


def _is_safe_host(host: str) -> bool:
    """Whether no foreign DNS can have led a browser here under this name; HTTP/1.0 may go without one."""
    name = host.rpartition(":")[0] if host.count(":") == 1 else host
    name = name.partition("]")[0].removeprefix("[").lower().rstrip(".")
    if not name or name in ("localhost", socket.gethostname().lower()) or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
