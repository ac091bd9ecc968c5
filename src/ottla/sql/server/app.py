"""The server's ASGI application: ksqlDB's REST API, but for rows (rows/)."""

from __future__ import annotations

import time
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from ottla import __version__
from ottla.replicated.forwarding import ClientGone, HttpRequest, NoPrimary, PrimaryUnreachable
from ottla.sql.commands.command import Outcome
from ottla.sql.rows.bodies import (
    BAD_REQUEST,
    ENTITIES,
    NO_SUCH_COMMAND,
    generic_problem,
    json_object,
    properties_of,
    statement_problem,
    texts_of,
)
from ottla.sql.server.entities import command_status
from ottla.sql.server.node import FORWARDING, SqlNode
from ottla.sql.server.properties import is_valid
from ottla.sql.server.statements import Session, StatementError, Statements
from ottla.web.access_rules import Action
from ottla.web.application import json_answer, json_application
from ottla.web.bodies import read_body
from ottla.web.callers import denied, grants_of
from ottla.web.errors import ApiError
from ottla.web.passing_on import passed_on

MAX_BODY_BYTES: Final = 4 << 20
SEQUENCE_SECONDS: Final = 5.0


class SqlRoutes:
    """The routes of statements, and of what a server is."""

    def __init__(self, node: SqlNode, statements: Statements) -> None:
        self._node = node
        self._statements = statements

    def routes(self) -> list[BaseRoute]:
        """All of them."""
        return [
            Route("/", self._root),
            Route("/ksql", self._ksql, methods=["POST"]),
            Route("/ksql/terminate", self._terminate, methods=["POST"]),
            Route("/info", self._info),
            Route("/healthcheck", self._health),
            Route("/status", self._statuses),
            Route("/status/{kind}/{name:path}/{action}", self._status),
            Route("/clusterStatus", self._cluster),
            Route("/is_valid_property/{name:path}", self._property),
            Route("/v1/metadata", self._metadata),
            Route("/v1/metadata/id", self._metadata),
        ]

    # -- statements -----------------------------------------------------------------------------------

    async def _ksql(self, request: Request) -> Response:
        if not grants_of(request.scope).allow_all(Action.WRITE):
            raise denied(request.scope, Action.WRITE, "statements")
        body = await read_body(request, MAX_BODY_BYTES)
        if not self._node.is_primary:
            return await self._forwarded(request, body)
        given = json_object(body)
        script = given.get("ksql")
        if not isinstance(script, str):
            return json_answer(generic_problem(BAD_REQUEST, 'The request has no text "ksql"'), 400, ENTITIES)
        session = Session(properties_of(given, "streamsProperties"), texts_of(given, "sessionVariables"))
        await self._wait_for(given.get("commandSequenceNumber"))
        try:
            answer = json_answer(await self._statements.run(script, session), 200, ENTITIES)
        except StatementError as refused:
            found = statement_problem(refused.problem, refused.statement, refused.script, refused.before)
            answer = json_answer(found, 400, ENTITIES)
        answer.headers.update(FORWARDING.answered(request.headers, self._node.place))
        return answer

    async def _wait_for(self, number: Any) -> None:
        """A client's earlier command, stored through another server, has to be here first."""
        if isinstance(number, int) and number > self._node.state.number:
            await self._node.until_at(number, SEQUENCE_SECONDS)

    async def _forwarded(self, request: Request, body: bytes) -> Response:
        try:
            return await passed_on(request, body, HttpRequest, self._node.forwarder.forward)
        except NoPrimary as problem:
            raise ApiError(503, 50300, str(problem)) from None
        except PrimaryUnreachable as problem:
            raise ApiError(503, 50300, str(problem)) from None
        except ClientGone as problem:
            raise ApiError(400, BAD_REQUEST, str(problem)) from None

    async def _terminate(self, request: Request) -> Response:
        """End all queries and drop all streams and tables of the service."""
        if not grants_of(request.scope).allow_all(Action.ADMIN):
            raise denied(request.scope, Action.ADMIN, "the service")
        body = await read_body(request, MAX_BODY_BYTES)
        if not self._node.is_primary:
            return await self._forwarded(request, body)
        given = json_object(body) if body else {}
        topics = given.get("deleteTopicList") or []
        await self._statements.terminate_service(topics)
        return json_answer({"@type": "currentStatus", "status": "TERMINATED"}, 200, ENTITIES)

    # -- the server -----------------------------------------------------------------------------------

    async def _root(self, request: Request) -> Response:
        return RedirectResponse("/info", 307)

    async def _info(self, request: Request) -> Response:
        info = {
            "version": __version__,
            "kafkaClusterId": self._node.kafka_cluster_id,
            "ksqlServiceId": self._node.service_id,
            "serverStatus": "RUNNING" if self._node.state.problem is None else "DEGRADED",
        }
        return json_answer({"KsqlServerInfo": info}, 200, ENTITIES)

    async def _metadata(self, request: Request) -> Response:
        clusters = {"kafka-cluster": self._node.kafka_cluster_id, "ksql-cluster": self._node.service_id}
        return json_answer({"scope": {"path": [], "clusters": clusters}, "id": ""}, 200, ENTITIES)

    async def _health(self, request: Request) -> Response:
        kafka = await self._node.kafka_answers()
        details = {
            "metastore": {"isHealthy": self._node.is_ready},
            "kafka": {"isHealthy": kafka},
            "commandRunner": {"isHealthy": self._node.state.problem is None},
        }
        healthy = all(each["isHealthy"] for each in details.values())
        body = {"isHealthy": healthy, "details": details, "serverState": "READY"}
        return json_answer(body, 200 if healthy else 503, ENTITIES)

    async def _statuses(self, request: Request) -> Response:
        statuses = dict.fromkeys(self._node.state.commands, Outcome.SUCCESS.value)
        return json_answer({"commandStatuses": statuses}, 200, ENTITIES)

    async def _status(self, request: Request) -> Response:
        path = request.path_params
        id = f"{path['kind']}/{path['name']}/{path['action']}"
        plain = {each.replace("`", ""): each for each in self._node.state.commands}
        command = self._node.state.commands.get(plain.get(id.replace("`", ""), ""))
        if command is None:
            return json_answer(generic_problem(NO_SUCH_COMMAND, f"Command not found: {id}"), 404, ENTITIES)
        return json_answer(command_status(command), 200, ENTITIES)

    async def _cluster(self, request: Request) -> Response:
        now_ms = time.time_ns() // 1_000_000
        active = [each.id for each in self._node.state.queries.values()]
        hosts = {}
        for url in self._node.group.urls or (self._node.url,):
            runs = url == self._node.leadership.url
            stores = {id: {"activeStores": [id] if runs else [], "standByStores": []} for id in active}
            hosts[url.partition("://")[2]] = {
                "hostAlive": True,
                "lastStatusUpdateMs": now_ms,
                "activeStandbyPerQuery": stores,
                "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": now_ms},
            }
        return json_answer({"clusterStatus": hosts}, 200, ENTITIES)

    async def _property(self, request: Request) -> Response:
        name = request.path_params["name"]
        if is_valid(name):
            return json_answer(True, 200, ENTITIES)
        message = f"One or more properties overrides set locally are prohibited, or unknown: {name}"
        return json_answer(generic_problem(BAD_REQUEST, message), 400, ENTITIES)


def sql_application(routes: list[BaseRoute]) -> ASGIApp:
    """Answers the REST API."""
    application = json_application(routes, ENTITIES)

    async def refused(_request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return json_answer(generic_problem(error.error_code, error.message), error.status, ENTITIES)

    application.add_exception_handler(ApiError, refused)
    return application
