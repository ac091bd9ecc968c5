"""Makes each request of a service a span, and its context the current one while the request is handled.

A caller's trace goes on (`traceparent`); without one, a trace begins. Of the request, the span has method,
path (without the query, where secrets may stand) and status, nothing of bodies or of other headers.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla.tracing.trace_context import TraceContext, parse_traceparent, within
from ottla.tracing.tracer import SpanKind, Tracer

MAX_PATH_CHARACTERS: Final = 1_024
KNOWN_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Others are `HTTP` in a span's name: a client can't make names."""


class TracedRequests:
    """An application around another one, whose requests become spans."""

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        span = self._tracer.begin(
            method if method in KNOWN_METHODS else "HTTP",
            SpanKind.SERVER,
            _caller(scope),
            {
                "http.request.method": method if method in KNOWN_METHODS else "_OTHER",
                "url.path": scope["path"][:MAX_PATH_CHARACTERS],
                "url.scheme": scope["scheme"],
            },
        )

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                span.note({"http.response.status_code": message["status"]})
                if message["status"] >= 500:
                    span.fail(f"status {message['status']}")
            await send(message)

        try:
            with within(span.context):
                await self._app(scope, receive, sending)
        except BaseException as problem:
            span.fail(type(problem).__name__)
            raise
        finally:
            span.end()


def _caller(scope: Scope) -> TraceContext | None:
    """The caller's context, None without one."""
    parent, states = "", []
    for name, value in scope["headers"]:
        if name == b"traceparent":
            if parent:  # two are none
                return None
            parent = value.decode("latin-1")
        elif name == b"tracestate":
            states.append(value.decode("latin-1"))
    return parse_traceparent(parent, ",".join(states)) if parent else None


def traced(app: ASGIApp, tracer: Tracer | None, stack: AsyncExitStack) -> ASGIApp:
    """The application with its requests traced, if they are; `stack` closes the tracer when it is closed."""
    if tracer is None:
        return app
    stack.push_async_callback(asyncio.to_thread, tracer.close)
    return TracedRequests(app, tracer)
