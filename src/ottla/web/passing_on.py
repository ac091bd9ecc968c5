"""Requests that are passed on whole to another instance of the service, whose answer is given as its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from ottla.tracing.trace_context import request_headers
from ottla.web.bodies import hung_up

R = TypeVar("R")


class PassedAnswer(Protocol):
    """The other instance's answer."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def body(self) -> bytes: ...


async def passed_on(
    request: Request,
    body: bytes,
    make: Callable[[str, bytes, Mapping[str, str], bytes], R],
    forward: Callable[[R, Callable[[], Awaitable[None]]], Awaitable[PassedAnswer]],
) -> Response:
    """The answer to a request whose body was read. Raises what `forward` raises.

    make: of its method, path and query as they came, headers and body. forward: passes that on, until what it
    is given ends: the client has hung up then.
    """
    path: bytes = request.scope.get("raw_path") or request.url.path.encode()
    query: bytes = request.scope["query_string"]
    target = path + (b"?" + query if query else b"")
    whole = make(request.method, target, {**request.headers, **request_headers()}, body)
    answer = await forward(whole, partial(hung_up, request))
    return Response(answer.body, answer.status, dict(answer.headers))


def with_body(request: Request, body: bytes) -> Request:
    """The same request, whose body was read, with the body still to be read."""
    given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return given.pop() if given else await request.receive()

    return Request(request.scope, receive)
