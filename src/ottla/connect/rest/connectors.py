"""/connectors: what there is, its states, and its changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from ottla.connect.core.config_records import RestartRequest
from ottla.connect.core.errors import Refused
from ottla.connect.core.ids import TargetState, TaskId
from ottla.connect.offsets.connector_offsets import BadOffsets, parse_offsets
from ottla.connect.rest.endpoints import (
    Extent,
    Operation,
    Worker,
    answer,
    config_of,
    connector_of,
    flag,
    json_body,
    may_read,
    nothing,
    parsed,
    require_connector,
    task_of,
)
from ottla.web.bodies import read_body
from ottla.web.errors import ApiError

NAME: Final = "name"
CONFIG: Final = "config"
INITIAL_STATE: Final = "initial_state"
INITIAL_STATES: Final = ("RUNNING", "PAUSED", "STOPPED")
LOG_LINES: Final = 100
_SIGNED: Final = {("POST", b"tasks"), ("PUT", b"fence")}
MAX_DIGITS: Final = 15


def is_signed(method: str, path: bytes) -> bool:
    """Whether requests of this path, still percent-encoded, come from other workers, which sign them."""
    return (method, path.rpartition(b"/")[2]) in _SIGNED and path.count(b"/") == 3


@dataclass(frozen=True, slots=True)
class ConnectorRoutes:
    """The family's endpoints."""

    worker: Worker

    def operations(self) -> Sequence[Operation]:
        one = "/connectors/{connector}"
        return (
            Operation("GET", "/connectors", self.connectors, Extent.SOME),
            Operation("POST", "/connectors", self.create, Extent.SOME, on_leader=True),
            Operation("GET", one, self.info),
            Operation("DELETE", one, self.delete, on_leader=True),
            Operation("GET", f"{one}/config", self.config),
            Operation("PUT", f"{one}/config", self.put, on_leader=True),
            Operation("PATCH", f"{one}/config", self.patch, on_leader=True),
            Operation("GET", f"{one}/status", self.status),
            Operation("POST", f"{one}/restart", self.restart, on_leader=True),
            Operation("PUT", f"{one}/pause", self.pause, on_leader=True),
            Operation("PUT", f"{one}/resume", self.resume, on_leader=True),
            Operation("PUT", f"{one}/stop", self.stop, on_leader=True),
            Operation("GET", f"{one}/tasks", self.tasks),
            Operation("POST", f"{one}/tasks", self.set_tasks, Extent.NOTHING),
            Operation("PUT", f"{one}/fence", self.fence, Extent.NOTHING),
            Operation("GET", f"{one}/tasks/{{task}}/status", self.task_status),
            Operation("POST", f"{one}/tasks/{{task}}/restart", self.restart_task, on_leader=True),
            Operation("GET", f"{one}/topics", self.topics),
            Operation("PUT", f"{one}/topics/reset", self.reset_topics),
            Operation("GET", f"{one}/offsets", self.offsets),
            Operation("PATCH", f"{one}/offsets", self.alter_offsets, on_leader=True),
            Operation("DELETE", f"{one}/offsets", self.reset_offsets, on_leader=True),
            Operation("GET", f"{one}/logs", self.logs),
            Operation("POST", f"{one}/signals", self.signal),
        )

    # -- queries --------------------------------------------------------------------------------------

    async def connectors(self, request: Request) -> Response:
        herder = self.worker.herder
        names = [name for name in herder.image.connectors if may_read(request, name)]
        if "expand" not in request.query_params:
            return answer(names)
        found: dict[str, Any] = {}
        for name in names:
            expanded: dict[str, Any] = {}
            try:
                for each in request.query_params.getlist("expand"):
                    if each == "status":
                        expanded["status"] = herder.status(name)
                    elif each == "info":
                        expanded["info"] = herder.info(name)
            except Refused:
                continue  # it is being made, or taken away
            found[name] = expanded
        return answer(found)

    async def info(self, request: Request) -> Response:
        return answer(self.worker.herder.info(connector_of(request)))

    async def config(self, request: Request) -> Response:
        return answer(self.worker.herder.config(connector_of(request)))

    async def status(self, request: Request) -> Response:
        return answer(self.worker.herder.status(connector_of(request)))

    async def tasks(self, request: Request) -> Response:
        return answer(self.worker.herder.tasks(connector_of(request)))

    async def task_status(self, request: Request) -> Response:
        return answer(self.worker.herder.task_status(connector_of(request), task_of(request)))

    async def topics(self, request: Request) -> Response:
        return answer(self.worker.herder.topics(connector_of(request)))

    async def offsets(self, request: Request) -> Response:
        return answer(await self.worker.herder.offsets(connector_of(request)))

    async def logs(self, request: Request) -> Response:
        """Not in Connect: lines of a connector's log, the last `lines`, or those behind `after`."""
        return answer(self.worker.herder.log_lines(connector_of(request), *wanted_lines(request)))

    # -- changes --------------------------------------------------------------------------------------

    async def create(self, request: Request) -> Response:
        body = _create_request(await json_body(request))
        name = body.get(NAME) or ""
        if not isinstance(name, str):
            raise ApiError(500, 500, "The name must be a text")
        name = name.strip()
        require_connector(request, name)
        config = _named(name, config_of(body.get(CONFIG)))
        state = body.get(INITIAL_STATE)
        info = await self.worker.herder.create(name, config, None if state is None else state.upper())
        return _created(request, name, info)

    async def put(self, request: Request) -> Response:
        name = connector_of(request)
        config = _named(name, config_of(await json_body(request)))
        is_new, info = await self.worker.herder.put(name, config)
        return _created(request, name, info) if is_new else answer(info)

    async def patch(self, request: Request) -> Response:
        name = connector_of(request)
        patch = config_of(await json_body(request))
        return answer(await self.worker.herder.patch(name, patch))

    async def delete(self, request: Request) -> Response:
        await self.worker.herder.delete(connector_of(request))
        return nothing(204)

    async def pause(self, request: Request) -> Response:
        await self.worker.herder.set_target(connector_of(request), TargetState.PAUSED)
        return nothing(202)

    async def resume(self, request: Request) -> Response:
        await self.worker.herder.set_target(connector_of(request), TargetState.STARTED)
        return nothing(202)

    async def stop(self, request: Request) -> Response:
        await self.worker.herder.set_target(connector_of(request), TargetState.STOPPED)
        return nothing(204)

    async def restart(self, request: Request) -> Response:
        with_tasks, only_failed = flag(request, "includeTasks"), flag(request, "onlyFailed")
        restart = RestartRequest(connector_of(request), with_tasks, only_failed)
        plan = await self.worker.herder.restart(restart)
        return answer(plan, 202) if with_tasks or only_failed else nothing(204)

    async def restart_task(self, request: Request) -> Response:
        await self.worker.herder.restart_task(TaskId(connector_of(request), task_of(request)))
        return nothing(204)

    async def reset_topics(self, request: Request) -> Response:
        self.worker.herder.reset_topics(connector_of(request))
        return nothing(202)

    async def alter_offsets(self, request: Request) -> Response:
        body = await json_body(request)
        if isinstance(body, dict) and not isinstance(body.get("offsets") or [], list):
            raise ApiError(500, 500, "The offsets must be a list")
        try:
            offsets = parse_offsets(body)
        except BadOffsets as problem:
            raise Refused(400, str(problem)) from None
        return answer(await self.worker.herder.alter_offsets(connector_of(request), offsets))

    async def signal(self, request: Request) -> Response:
        """Not in Connect: a signal for a connector of a database's changes."""
        return answer(await self.worker.herder.signal(connector_of(request), await json_body(request)), 202)

    async def reset_offsets(self, request: Request) -> Response:
        return answer(await self.worker.herder.reset_offsets(connector_of(request)))

    # -- between workers ------------------------------------------------------------------------------

    async def set_tasks(self, request: Request) -> Response:
        """The worker that runs a connector tells the leader its tasks."""
        body = await read_body(request)
        self.worker.herder.require_signed(body, request.headers.get("x-connect-authorization"))
        configs = parsed(body)
        if not isinstance(configs, list) or not all(isinstance(each, dict) for each in configs):
            raise ApiError(400, 400, "The tasks must be a list of configurations")
        known = [
            {name: text for name, text in config_of(each).items() if text is not None} for each in configs
        ]
        await self.worker.herder.set_tasks(connector_of(request), known)
        return nothing(200)

    async def fence(self, request: Request) -> Response:
        """A worker is about to start tasks of an exactly-once source."""
        body = await read_body(request)
        self.worker.herder.require_signed(body, request.headers.get("x-connect-authorization"))
        await self.worker.herder.fence(connector_of(request))
        return nothing(200)


def _create_request(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, dict):
        raise ApiError(500, 500, 'The body must be {"name": …, "config": {…}}')
    unknown = [name for name in body if name not in (NAME, CONFIG, INITIAL_STATE)]
    if unknown:
        raise ApiError(500, 500, f"The body has unknown fields: {', '.join(unknown)[:200]}")
    state = body.get(INITIAL_STATE)
    if state is not None and (not isinstance(state, str) or state.upper() not in INITIAL_STATES):
        raise ApiError(500, 500, f"{INITIAL_STATE} must be one of {', '.join(INITIAL_STATES)}")
    return body


def _named(name: str, config: dict[str, str | None]) -> dict[str, str | None]:
    """The configuration with the connector's name in it. Raises Refused where it has another."""
    included = config.get(NAME)
    if included is None:
        config[NAME] = name
    elif included != name:
        raise Refused(
            400,
            f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})",
        )
    return config


def _created(request: Request, name: str, info: Mapping[str, Any]) -> Response:
    made = answer(info, 201)
    made.headers["location"] = f"{request.base_url}connectors/{quote(name, safe='')}"
    return made


def wanted_lines(request: Request) -> tuple[int, int | None]:
    """How many lines of a log are asked for, and behind which number."""
    count = _number(request, "lines")
    return LOG_LINES if count is None else count, _number(request, "after")


def _number(request: Request, name: str) -> int | None:
    """A number of the query, None for none."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else None
