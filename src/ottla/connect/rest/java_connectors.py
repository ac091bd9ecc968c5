"""Connectors of Java's plugins among the others: calls are passed on to the Java worker, lists merged.

A class that ottla's catalog has is ottla's, any other one is looked for among the plugins of `plugin.path`. A
name belongs to one of the two: ottla's own connectors are asked first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from ottla.connect.java.connect import Answer
from ottla.connect.plugins.catalog import Kind
from ottla.connect.rest.connectors import wanted_lines
from ottla.connect.rest.endpoints import (
    MAX_BODY_BYTES,
    Endpoint,
    Extent,
    Operation,
    Worker,
    answer,
    connector_of,
    flag,
    may_read,
    nothing,
    parsed,
    path_text,
    require_connector,
)
from ottla.web.bodies import read_body
from ottla.web.passing_on import with_body

CLASS: Final = "connector.class"


class JavaCalls(Protocol):
    """The Java worker as it is asked here: see JavaConnect."""

    async def owns(self, connector: str) -> bool:
        """Whether a connector is the Java worker's."""

    async def connectors(self, expand: Sequence[str] = ()) -> Answer:
        """GET /connectors."""

    async def create(self, body: Any) -> Answer:
        """POST /connectors."""

    async def put(self, connector: str, config: Any) -> Answer:
        """PUT /connectors/C/config."""

    async def delete(self, connector: str) -> Answer:
        """DELETE /connectors/C."""

    async def plugins(self, connectors_only: bool = True) -> Answer:
        """GET /connector-plugins."""

    async def pass_on(self, method: str, path: Sequence[str], body: Any = None, query: Any = None) -> Answer:
        """Any other call."""


class JavaConnectors:
    """The operations of a worker, with Java's plugins and connectors in them."""

    def __init__(self, worker: Worker, java: JavaCalls) -> None:
        self._worker = worker
        self._java = java

    def around(self, operations: Iterable[Operation]) -> list[Operation]:
        """The same operations, of both kinds of connectors."""
        return [replace(each, endpoint=self._around(each)) for each in operations]

    def _around(self, operation: Operation) -> Endpoint:
        match operation.method, operation.path:
            case "GET", "/connectors":
                return partial(self._connectors, operation)
            case "POST", "/connectors":
                return partial(self._create, operation)
            case "GET", "/connector-plugins":
                return partial(self._plugins, operation)
            case _, path if path.startswith("/connector-plugins/"):
                return partial(self._plugin, operation)
            case "PUT", "/connectors/{connector}/config":
                return partial(self._put, operation)
            case "GET", "/connectors/{connector}/logs":
                return partial(self._logs, operation)
        if operation.extent is Extent.CONNECTOR:
            return partial(self._connector, operation)
        return operation.endpoint

    # -- lists ----------------------------------------------------------------------------------------

    async def _connectors(self, operation: Operation, request: Request) -> Response:
        ours = await operation.endpoint(request)
        expand = request.query_params.getlist("expand")
        javas = await self._java.connectors(expand)
        if not javas.is_success:
            return _passed(javas)
        found = parsed(bytes(ours.body))
        if isinstance(found, dict):
            return answer(
                {**{name: each for name, each in javas.body.items() if may_read(request, name)}, **found}
            )
        return answer(
            [*found, *(name for name in javas.body if may_read(request, name) and name not in found)]
        )

    async def _plugins(self, operation: Operation, request: Request) -> Response:
        ours = await operation.endpoint(request)
        javas = await self._java.plugins(flag(request, "connectorsOnly", True))
        if not javas.is_success:
            return _passed(javas)
        found = parsed(bytes(ours.body))
        known = {each["class"] for each in found}
        return answer([*found, *(each for each in javas.body if each["class"] not in known)])

    # -- plugins --------------------------------------------------------------------------------------

    async def _plugin(self, operation: Operation, request: Request) -> Response:
        if self._worker.herder.knows_plugin(path_text(request, "plugin")):
            return await operation.endpoint(request)
        return await self._pass_on(operation, request)

    def _is_javas(self, config: Any) -> bool:
        """Whether a configuration names a class that is none of ours."""
        named = config.get(CLASS) if isinstance(config, dict) else None
        return isinstance(named, str) and not self._worker.herder.knows_plugin(named, Kind.SOURCE, Kind.SINK)

    # -- connectors -----------------------------------------------------------------------------------

    async def _create(self, operation: Operation, request: Request) -> Response:
        body = await read_body(request, MAX_BODY_BYTES)
        request = with_body(request, body)
        given = parsed(body)
        name = given.get("name") if isinstance(given, dict) else None
        if not isinstance(name, str):
            return await operation.endpoint(request)
        if name.strip() not in self._worker.herder.image.connectors and (
            self._is_javas(given.get("config")) or await self._java.owns(name.strip())
        ):
            require_connector(request, name.strip())
            return _located(request, name.strip(), _passed(await self._java.create(given)))
        return await operation.endpoint(request)

    async def _put(self, operation: Operation, request: Request) -> Response:
        name = connector_of(request)
        if name in self._worker.herder.image.connectors:
            return await operation.endpoint(request)
        body = await read_body(request, MAX_BODY_BYTES)
        request = with_body(request, body)
        config = parsed(body)
        if self._is_javas(config) or await self._java.owns(name):
            return _located(request, name, _passed(await self._java.put(name, config)))
        return await operation.endpoint(request)

    async def _logs(self, operation: Operation, request: Request) -> Response:
        name, herder = connector_of(request), self._worker.herder
        if name in herder.image.connectors or not await self._java.owns(name):
            return await operation.endpoint(request)
        return answer(herder.log_lines(name, *wanted_lines(request), is_javas=True))

    async def _connector(self, operation: Operation, request: Request) -> Response:
        name = connector_of(request)
        if name in self._worker.herder.image.connectors or not await self._java.owns(name):
            return await operation.endpoint(request)
        if operation.method == "DELETE" and operation.path == "/connectors/{connector}":
            return _passed(await self._java.delete(name))
        return await self._pass_on(operation, request)

    async def _pass_on(self, operation: Operation, request: Request) -> Response:
        body = parsed(await read_body(request, MAX_BODY_BYTES)) if request.method != "GET" else None
        path = [
            path_text(request, part[1:-1]) if part.startswith("{") else part
            for part in operation.path.strip("/").split("/")
        ]
        query = {name: request.query_params.getlist(name) for name in request.query_params}
        return _passed(await self._java.pass_on(operation.method, path, body, query))


def _passed(given: Answer) -> Response:
    return nothing(given.status) if given.body is None else answer(given.body, given.status)


def _located(request: Request, name: str, made: Response) -> Response:
    if made.status_code == 201:
        made.headers["location"] = f"{request.base_url}connectors/{quote(name, safe='')}"
    return made
