"""Makes a Starlette application all of whose answers, errors included, are JSON of one media type."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla.web.errors import ApiError
from ottla.web.request_figures import note_route

log = logging.getLogger("ottla.web")


def json_answer(content: Any, status: int = 200, media_type: str = "application/json") -> Response:
    """`content` as JSON. Keys keep their order; a key that is not a str is a bug."""
    return Response(orjson.dumps(content), status, media_type=media_type)


def json_application(routes: Sequence[BaseRoute], media_type: str = "application/json") -> Starlette:
    """The application of these routes; unknown paths and methods, and internal errors, give JSON too.

    `media_type` is that of errors.
    """

    async def told(_request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return error_answer(error.status, error.error_code, error.message, media_type)

    async def of_http(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        phrase = HTTPStatus(error.status_code).phrase
        answer = error_answer(
            error.status_code, error.status_code, f"HTTP {error.status_code} {phrase}", media_type
        )
        answer.headers.update(error.headers or {})
        return answer

    async def unexpected(request: Request, error: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return error_answer(500, 50001, "Internal Server Error", media_type)

    for route in routes:
        if isinstance(route, Route):
            route.app = _Noted(route.path_format, route.app)
    handlers: dict[Any, Any] = {ApiError: told, HTTPException: of_http, Exception: unexpected}
    return Starlette(routes=list(routes), exception_handlers=handlers)


class _Noted:
    """A route's application, which notes the route for the service's figures."""

    __slots__ = ("_app", "_template")

    def __init__(self, template: str, app: ASGIApp) -> None:
        self._template = template
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        note_route(scope, self._template)
        await self._app(scope, receive, send)


def error_answer(status: int, error_code: int, message: str, media_type: str) -> Response:
    """An error in the form of all of Confluent's services."""
    return json_answer({"error_code": error_code, "message": message}, status, media_type)
