"""The ASGI application of a worker: the routes of all families, by paths that are still percent-encoded.

A connector's name may hold a slash: paths are routed as they came, and their parameters decoded.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

import ottla
from ottla.connect.rest.connectors import ConnectorRoutes
from ottla.connect.rest.endpoints import Extent, Operation, Worker, answer, routes_of
from ottla.connect.rest.java_connectors import JavaCalls, JavaConnectors
from ottla.connect.rest.loggers import LoggerRoutes
from ottla.connect.rest.plugins import PluginRoutes
from ottla.web.application import json_application

API_VERSION: Final = "4.3.1"
"""The version of Kafka Connect whose REST API this is."""


def connect_application(worker: Worker, java: JavaCalls | None = None) -> ASGIApp:
    """Answers Connect's REST API. java: the Java worker for plugins in jars, if there is one."""
    families = (RootRoutes(worker), ConnectorRoutes(worker), PluginRoutes(worker), LoggerRoutes(worker))
    operations = [operation for family in families for operation in family.operations()]
    if java is not None:
        operations = JavaConnectors(worker, java).around(operations)
    application = json_application(routes_of(worker, operations))
    application.router.redirect_slashes = False
    return _EncodedPaths(application)


@dataclass(frozen=True, slots=True)
class RootRoutes:
    """What a worker says of itself."""

    worker: Worker

    def operations(self) -> Sequence[Operation]:
        return (
            Operation("GET", "/", self.root, Extent.NOTHING),
            Operation("GET", "/health", self.health, Extent.NOTHING),
        )

    async def root(self, _request: Request) -> Response:
        return answer(
            {
                "version": API_VERSION,
                "commit": f"ottla-{ottla.__version__}",
                "kafka_cluster_id": self.worker.kafka_cluster_id,
            }
        )

    async def health(self, _request: Request) -> Response:
        status, word, sentence = self.worker.health()
        return answer({"status": word, "message": sentence}, status)


@dataclass(frozen=True, slots=True)
class _EncodedPaths:
    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = quote(scope.get("raw_path") or scope["path"].encode(), safe=string.punctuation)
            path = path.rstrip("/") or "/"
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await self.app(scope, receive, send)
