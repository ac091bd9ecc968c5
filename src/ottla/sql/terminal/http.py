"""One HTTP request to the first server that takes it; the answer as a whole, or read as it comes."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from ottla.client.errors import ClusterError
from ottla.client.registry.wire import shown
from ottla.client.rest_access import RestAccess

CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 120.0
"""A server waits for the statements before, and for its query host, that long at most."""
MAX_ANSWER_BYTES: Final = 64 << 20
JSON: Final = "application/json"


class SqlUnreachable(ClusterError):
    """No server answers."""


class SqlRefusal(ClusterError):
    """A server refuses a request. status: of HTTP; told: the JSON of its answer, or nothing."""

    def __init__(self, status: int, message: str, told: dict[str, Any]) -> None:
        super().__init__(message, status)
        self.status = status
        self.message = message
        self.told = told

    @property
    def entities(self) -> list[dict[str, Any]]:
        """The results of the statements of the request that were carried out before this one was refused."""
        found = self.told.get("entities")
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked. body: is sent as JSON; accept: the media type that is wanted."""

    method: str
    path: str
    body: Any = None
    accept: str = JSON


@dataclass(slots=True)
class Reply:
    """An answer that has begun. read: the next bytes, none at its end; end: any thread may call it."""

    status: int
    read: Callable[[], bytes]
    end: Callable[[], None]


class Http:
    """Asks servers, in turn until one answers. Raises SqlUnreachable, SqlRefusal."""

    def __init__(self, access: RestAccess) -> None:
        self.access = access
        self.answer_seconds: float = ANSWER_SECONDS
        """How long `whole` waits for an answer."""
        self._context: ssl.SSLContext | None = None

    def whole(self, request: Request) -> Any:
        """The JSON of an answer; None for one without content."""
        reply = self.begun(request, self.answer_seconds)
        try:
            data = _all_of(reply)
        except (OSError, http.client.HTTPException) as problem:
            told = str(problem) or type(problem).__name__
            raise SqlUnreachable(f"the answer of {self.access.shown} broke off: {told}") from None
        finally:
            reply.end()
        try:
            return json.loads(data) if data.strip() else None
        except (ValueError, RecursionError):
            raise SqlUnreachable(f"{self.access.shown} is no server of SQL: its answer is not JSON") from None

    def begun(self, request: Request, read_seconds: float | None = None) -> Reply:
        """An answer of which the head has come. read_seconds: how long to wait for bytes; None: for ever."""
        problems = []
        for url in self.access.urls:
            connection = self._connection(url)
            try:
                connection.connect()
            except OSError as problem:
                problems.append(f"{shown(url)}: {problem.strerror or problem}")
                continue
            try:
                reply = self._asked(connection, url, request, read_seconds)
            except (OSError, http.client.HTTPException) as problem:
                connection.close()
                told = str(problem) or type(problem).__name__
                if isinstance(problem, TimeoutError):
                    told = f"no answer in {read_seconds or CONNECT_SECONDS:g} seconds"
                problems.append(f"{shown(url)}: {told}")
                if request.method == "GET":
                    continue
                break  # it may have been carried out
            if reply.status >= 300:
                raise self._refusal(reply, request, url)
            return reply
        raise SqlUnreachable(f"no server of SQL answers at {'; '.join(problems)}")

    def _connection(self, url: str) -> http.client.HTTPConnection:
        parts = urlsplit(url)
        assert parts.hostname is not None
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=CONNECT_SECONDS)
        if self._context is None:
            from ottla.client.tls_context import tls_context

            self._context = tls_context(self.access.tls)
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=CONNECT_SECONDS, context=self._context
        )

    def _asked(
        self,
        connection: http.client.HTTPConnection,
        url: str,
        request: Request,
        read_seconds: float | None,
    ) -> Reply:
        channel: socket.socket = connection.sock  # the response takes it from the connection
        channel.settimeout(read_seconds)
        headers = {"Accept": request.accept, "Connection": "close"}
        data = None
        if request.body is not None:
            headers["Content-Type"] = JSON
            data = json.dumps(request.body).encode()
        authorization = self.access.authorization_for(url)
        if authorization is not None:
            headers["Authorization"] = authorization
        connection.request(request.method, urlsplit(url).path + request.path, body=data, headers=headers)
        response = connection.getresponse()

        def end() -> None:
            with contextlib.suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits in a read
            connection.close()

        return Reply(response.status, lambda: response.read1(1 << 16), end)

    def _refusal(self, reply: Reply, request: Request, url: str) -> SqlRefusal:
        try:
            data = _all_of(reply)
        except (OSError, http.client.HTTPException, ClusterError):
            data = b""
        finally:
            reply.end()
        try:
            told = json.loads(data)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict):
            told = {}
        default = f"{shown(url)} answers {reply.status} to {request.path}"
        if reply.status == 401 and not told.get("message"):
            default += ": it wants credentials"
        return SqlRefusal(reply.status, str(told.get("message") or default), told)


def _all_of(reply: Reply) -> bytes:
    data = bytearray()
    while part := reply.read():
        data += part
        if len(data) > MAX_ANSWER_BYTES:
            raise SqlUnreachable(f"an answer has more than {MAX_ANSWER_BYTES:,} bytes")
    return bytes(data)
