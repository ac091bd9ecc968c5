"""Puts the routes of both APIs together in one application."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla.rest.access import need_of, require
from ottla.rest.openapi import document_routes
from ottla.rest.operations import JSON, Api, Operation, routes_of
from ottla.rest.v2 import topics as v2_topics
from ottla.rest.v3 import acls, clusters, configs, consumer_groups, partitions, topics
from ottla.web.application import error_answer, json_application

# A path with `-` for any topic or broker comes before the paths with a name in its place.
ADMINISTRATION: Final[tuple[Operation, ...]] = (
    *v2_topics.OPERATIONS,
    *clusters.OPERATIONS,
    *configs.OPERATIONS,
    *partitions.OPERATIONS,
    *topics.OPERATIONS,
    *acls.OPERATIONS,
    *consumer_groups.OPERATIONS,
)

MAX_PATH_BYTES: Final = 16 << 10
ESCAPED_SLASH: Final = "\udc2f"
"""Not valid as text, so no client's path has it."""


def all_routes(api: Api, others: Sequence[BaseRoute]) -> list[BaseRoute]:
    """The routes of administration by `api`, those of `others`, and those of the OpenAPI document of both."""
    descriptions = [operation.description for operation in ADMINISTRATION]
    return [*routes_of(api, ADMINISTRATION), *others, *document_routes(descriptions)]


def rest_application(routes: Iterable[BaseRoute]) -> ASGIApp:
    """The application of these routes."""
    application: Starlette = json_application(_by_path(routes))
    application.router.redirect_slashes = False
    return _Paths(application)


class _Paths:
    """Takes a slash off the end of a path, and keeps escaped slashes within names apart from the path's.

    Starlette routes by the path that is unescaped already, where the two slashes look alike (members of
    groups have ids in base64). So the second travels as ESCAPED_SLASH until a route is found.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        raw: bytes = scope.get("raw_path") or b""
        if len(raw) > MAX_PATH_BYTES:
            too_long = error_answer(414, 414, "HTTP 414 URI Too Long", JSON)
            await too_long(scope, receive, send)
            return
        if b"%2f" in raw or b"%2F" in raw:
            segments = raw.decode("latin-1").split("/")
            path = "/".join(unquote(segment).replace("/", ESCAPED_SLASH) for segment in segments)
        if len(path) > 1 and path.endswith("/"):
            path = path.rstrip("/") or "/"
        if path != scope.get("path"):
            scope = {**scope, "path": path}
        await self._app(scope, receive, send)


class _ByMethod:
    """Answers the methods of one path, to callers who may; slashes within names are unescaped."""

    def __init__(self, path: str, apps: Mapping[str, ASGIApp]) -> None:
        self._apps = {method: (app, need_of(method, path)) for method, app in apps.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if ESCAPED_SLASH in scope["path"]:
            names = {name: value.replace(ESCAPED_SLASH, "/") for name, value in scope["path_params"].items()}
            scope = {**scope, "path": scope["path"].replace(ESCAPED_SLASH, "/"), "path_params": names}
        app, need = self._apps[scope["method"]]
        require(scope, need)
        await app(scope, receive, send)


def _by_path(routes: Iterable[BaseRoute]) -> list[Route]:
    """One route for each path, so that 405 names all methods that are allowed."""
    apps: dict[str, dict[str, ASGIApp]] = {}
    for route in routes:
        assert isinstance(route, Route), "neither mounts nor sockets"
        for method in route.methods or ():
            apps.setdefault(route.path, {})[method] = route.app
    return [
        Route(path, _ByMethod(path, by_method), methods=sorted(by_method)) for path, by_method in apps.items()
    ]
