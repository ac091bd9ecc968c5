"""What every request to a service passes first: hosts, CORS, who sent it, gzip, and its end at a stop.

Theory of operation. A request that names a host of another machine is refused before anything else
(hosts.py). A preflight request of CORS is answered here; every other answer gets its headers of CORS. Then
the client has to prove who it is (security.py), before its body is read. Bodies and answers in gzip are
unfolded and compressed on their way (compression.py).

At a stop (`drain`) the requests under way get DRAIN_SECONDS. Those that are not done by then are cancelled:
a request whose answer has not begun is answered with 503, an answer that has begun is cut off, which its
client sees.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla.config.loopback import is_loopback
from ottla.web.access_rules import UNLIMITED
from ottla.web.application import error_answer
from ottla.web.callers import ANONYMOUS, with_caller
from ottla.web.compression import GzippedAnswer, UnfoldedBody, accepts_gzip
from ottla.web.cross_origin import CrossOrigin, Headers
from ottla.web.front_settings import HOSTS, FrontOptions
from ottla.web.hosts import AllowedHosts
from ottla.web.request_figures import Refusal, RequestFigures, RequestMeasure, carries_body, note_refusal

log = logging.getLogger("ottla.web")

DRAIN_SECONDS: Final = 3.0
"""How long requests under way may go on at a stop."""
JSON: Final = "application/json"
STOPPING: Final = "The service is stopping"
MAX_SHOWN_CHARACTERS: Final = 100
_READ: Final = frozenset(
    {
        b"host",
        b"origin",
        b"accept-encoding",
        b"authorization",
        b"content-encoding",
        b"access-control-request-method",
        b"access-control-request-headers",
    }
)
_OF_FOLDED_BODY: Final = frozenset({b"content-encoding", b"content-length"})


class Front:
    """Stands before a service's own application, for all of its listeners."""

    def __init__(
        self,
        app: ASGIApp,
        options: FrontOptions,
        listeners: Iterable[tuple[str, int]],
        figures: RequestFigures | None = None,
    ) -> None:
        """listeners: the addresses and ports that they are bound to. figures: None where none are kept."""
        own = () if options.host_name is None else (options.host_name,)
        self._app = app
        self._figures = figures
        self._on_loopback = frozenset(each for each in listeners if is_loopback(each[0]))
        self._hosts_of_loopback = AllowedHosts.of(options.hosts, own, loopback=True)
        self._hosts = AllowedHosts.of(options.hosts, own, loopback=False)
        self._cross_origin = CrossOrigin(options)
        self._compression = options.compression
        self._security = options.security
        self._is_signed = options.is_signed
        self._preflight_is_open = options.preflight_is_open
        self._under_way: set[asyncio.Task[None]] = set()
        self._none_left = asyncio.Event()
        self._cut_off = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "websocket":
            await self._keep_socket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        task = asyncio.current_task()
        assert task is not None, "the server runs each request as a task"
        figures = self._figures
        measure = None if figures is None else figures.begin(scope)
        if measure is not None and carries_body(scope["method"]):
            receive = measure.counted(receive)
        answer = _Answer(send, measure)
        self._under_way.add(task)
        try:
            await self._handle(scope, receive, answer)
        except asyncio.CancelledError:
            if not self._cut_off:
                raise
            task.uncancel()
            if not answer.begun:
                await error_answer(503, 503, STOPPING, JSON)(scope, receive, answer.send)
        finally:
            if figures is not None and measure is not None:
                figures.end(scope["method"], measure)
            self._under_way.discard(task)
            if not self._under_way:
                self._none_left.set()

    async def _keep_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket from its handshake, which may be refused as a request may, to its end."""
        task = asyncio.current_task()
        assert task is not None, "the server runs each WebSocket as a task"
        self._under_way.add(task)
        try:
            refusal, asked = await self._admitted_socket(scope)
            if refusal is not None:
                await refusal(scope, receive, send)
            else:
                await self._app(asked, receive, send)
        except asyncio.CancelledError:
            if not self._cut_off:
                raise
            task.uncancel()  # the server tells the client with its close
        finally:
            self._under_way.discard(task)
            if not self._under_way:
                self._none_left.set()

    async def _admitted_socket(self, scope: Scope) -> tuple[ASGIApp | None, Scope]:
        """The refusal of a handshake, None for none, and the scope that tells its client."""
        given = {name: value for name, value in scope["headers"] if name in _READ}
        host, origin = given.get(b"host"), given.get(b"origin")
        hosts = self._hosts_of_loopback if scope.get("server") in self._on_loopback else self._hosts
        if host is None or not hosts.allows(_text(host)):
            return _refused_host(scope, host) or error_answer(
                400, 400, "A handshake needs a host", JSON
            ), scope
        # A browser sends its user's credentials with a handshake of any page, and asks nobody.
        if origin is not None and not self._cross_origin.allows_page(_text(origin), _text(host or b"")):
            return error_answer(403, 403, "Pages of this origin may not connect", JSON), scope
        as_request = {**scope, "method": "GET", "scheme": "https" if scope["scheme"] == "wss" else "http"}
        if not self._asks_who(as_request):
            return None, scope
        assert self._security is not None
        caller = await self._security.admit(as_request, given)
        if isinstance(caller, Response):
            return caller, scope
        return None, with_caller(scope, caller, self._security.grants(caller))

    async def drain(self) -> None:
        """Wait until no request is under way, for DRAIN_SECONDS at most; then cut off those that are."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while self._under_way:
                    self._none_left.clear()
                    await self._none_left.wait()
        except TimeoutError:
            self._cut_off = True
            log.warning("%d requests were cut off, as they did not end in time", len(self._under_way))
            for task in self._under_way:
                task.cancel()

    async def _handle(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        given = {name: value for name, value in scope["headers"] if name in _READ}
        send: Send = answer.send
        host = given.get(b"host")
        hosts = self._hosts_of_loopback if scope.get("server") in self._on_loopback else self._hosts
        if host is None or not hosts.allows(_text(host)):
            refusal = _refused_host(scope, host)
            if refusal is not None:
                note_refusal(scope, Refusal.HOST)
                await refusal(scope, receive, send)
                return
        preflight = self._preflight(scope, given)
        if preflight is not None and self._preflight_is_open:
            await _send_preflight(preflight, send)
            return
        if self._cross_origin.enabled and preflight is None:
            origin = given.get(b"origin")
            answer.headers = self._cross_origin.answered(None if origin is None else _text(origin))
        if self._asks_who(scope):
            assert self._security is not None
            caller = await self._security.admit(scope, given)
            if isinstance(caller, Response):
                await caller(scope, receive, send)
                return
            grants = self._security.grants(caller)
            if caller is not ANONYMOUS or grants is not UNLIMITED:
                scope = with_caller(scope, caller, grants)
        if preflight is not None:
            await _send_preflight(preflight, send)
            return
        encoding = given.get(b"content-encoding", b"").strip().lower()
        if encoding in (b"gzip", b"x-gzip"):
            receive = UnfoldedBody(receive).receive
            scope = {**scope, "headers": [one for one in scope["headers"] if one[0] not in _OF_FOLDED_BODY]}
        elif encoding not in (b"", b"identity"):
            refused = error_answer(
                415, 415, f"Content-Encoding must be gzip, not {_text(encoding[:MAX_SHOWN_CHARACTERS])}", JSON
            )
            refused.headers["accept-encoding"] = "gzip"
            await refused(scope, receive, send)
            return
        accepted = given.get(b"accept-encoding")
        wanted = self._compression and accepted is not None and accepts_gzip(_text(accepted))
        if wanted and scope["method"] != "HEAD":
            send = GzippedAnswer(send).send
        await self._app(scope, receive, send)

    def _asks_who(self, scope: Scope) -> bool:
        """Whether the client has to prove who it is."""
        if self._security is None or (self._security.asks_nothing and scope["scheme"] == "http"):
            return False
        return not self._is_signed(scope["method"], scope.get("raw_path") or scope["path"].encode())

    def _preflight(self, scope: Scope, given: Mapping[bytes, bytes]) -> Headers | None:
        """The headers of the answer to a preflight request of an allowed origin, else None."""
        origin, method = given.get(b"origin"), given.get(b"access-control-request-method")
        if scope["method"] != "OPTIONS" or origin is None or method is None or not self._cross_origin.enabled:
            return None
        asked = given.get(b"access-control-request-headers", b"")
        return self._cross_origin.preflight(_text(origin), _text(method), _text(asked))


async def _send_preflight(headers: Headers, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _refused_host(scope: Scope, host: bytes | None) -> Response | None:
    """The answer to a request whose host is missing or not allowed; None for one of HTTP/1.0 without any."""
    if host is None:
        if scope["http_version"] == "1.0":
            return None
        return error_answer(400, 400, "A request of HTTP/1.1 must have a Host header", JSON)
    shown = _text(host)[:MAX_SHOWN_CHARACTERS]
    message = f"{shown!r} is not a host of this service; {HOSTS.name} may name it as one"
    return error_answer(421, 421, message, JSON)


class _Answer:
    """One answer on its way to the server; `headers` are added to its own."""

    __slots__ = ("_measure", "_send", "begun", "headers")

    def __init__(self, send: Send, measure: RequestMeasure | None) -> None:
        self._send = send
        self._measure = measure
        self.begun = False
        self.headers: Headers = []

    async def send(self, message: Message) -> None:
        """Takes the answer's messages in place of the server's `send`."""
        self.begun = True
        if self._measure is not None:
            self._measure.sent(message)
        if self.headers and message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *self.headers]}
        await self._send(message)


def _text(value: bytes) -> str:
    return value.decode("latin-1")
