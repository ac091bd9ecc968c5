"""The HTTP API, in the shape of Cruise Control's (version 1 of its JSON).

    GET  /kafkacruisecontrol/state, /load, /proposals, /user_tasks
    POST /kafkacruisecontrol/rebalance, /add_broker, /remove_broker, /demote_broker, /fix_offline_replicas,
         /rightsize, /stop_proposal_execution

Parameters stand in the query. Answers are JSON, `json=true` or not. `dryrun` is true unless it is said to be
false. A request that takes longer than a moment is answered with 202 and its `User-Task-ID`; the same request
with that header waits for the rest. Reading needs the right to read everything, all else that to administer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.balance.core.model import Purpose
from ottla.balance.planning import Wish
from ottla.balance.service import bodies
from ottla.balance.service.engine import Engine
from ottla.balance.service.user_tasks import Body, UserTasks
from ottla.config.errors import UserError
from ottla.web.access_rules import Action
from ottla.web.application import json_answer, json_application
from ottla.web.callers import denied, grants_of
from ottla.web.errors import ApiError

ROOT: Final = "/kafkacruisecontrol"
TASK_HEADER: Final = "User-Task-ID"
BLOCK_SECONDS: Final = 10.0
"""A request waits so long for its work before it is told to come again."""
BROKERS: Final = "brokerid"

_PURPOSES: Final = {
    "rebalance": Purpose.BALANCE,
    "add_broker": Purpose.ADD,
    "remove_broker": Purpose.REMOVE,
    "demote_broker": Purpose.DEMOTE,
    "fix_offline_replicas": Purpose.FIX_OFFLINE,
}
_WITH_BROKERS: Final = frozenset({Purpose.ADD, Purpose.REMOVE, Purpose.DEMOTE})
_COMMON: Final = frozenset({"json", "reason"})
_PLANNED: Final = frozenset({"dryrun", "verbose", "replication_throttle"})
_PARAMETERS: Final[Mapping[str, frozenset[str]]] = {
    "state": frozenset({"substates"}),
    "load": frozenset({"allow_capacity_estimation"}),
    "proposals": frozenset({"verbose", "ignore_proposal_cache"}),
    "user_tasks": frozenset(),
    "rightsize": frozenset({"growth", "spare"}),
    "stop_proposal_execution": frozenset({"force_stop"}),
    **{
        name: _PLANNED | ({BROKERS} if purpose in _WITH_BROKERS else set())
        for name, purpose in _PURPOSES.items()
    },
}
"""What each request takes beside `json` and `reason`. Others are refused: to leave out excluded topics, or
goals, would move what was not meant.
"""
_SUBSTATES: Final = ("monitor", "executor", "analyzer", "anomaly_detector")


class HttpApi:
    """Answers requests about one cluster."""

    def __init__(self, engine: Engine, tasks: UserTasks) -> None:
        self._engine = engine
        self._tasks = tasks

    def application(self) -> Starlette:
        """The routes."""
        gets = {
            "state": self._state,
            "load": self._load,
            "proposals": self._proposals,
            "user_tasks": self._user_tasks,
        }
        posts: dict[str, Callable[[Request], Awaitable[Response]]] = {
            name: self._planning(name) for name in _PURPOSES
        }
        posts |= {"rightsize": self._rightsize, "stop_proposal_execution": self._stop}
        routes = [
            *(
                Route(f"{ROOT}/{name}", _told(name, each, Action.READ), methods=["GET"])
                for name, each in gets.items()
            ),
            *(
                Route(f"{ROOT}/{name}", _told(name, each, Action.ADMIN), methods=["POST"])
                for name, each in posts.items()
            ),
        ]
        return json_application(routes)

    # -- at once -------------------------------------------------------------------------------------------

    async def _state(self, request: Request) -> Response:
        engine = self._engine
        asked = request.query_params.get("substates", "")
        wanted = [one.strip().lower() for one in asked.split(",") if one.strip()] or list(_SUBSTATES)
        if unknown := [one for one in wanted if one not in _SUBSTATES]:
            raise ApiError(400, 400, f"there is no substate {unknown[0]}; there are {', '.join(_SUBSTATES)}")
        last = engine.last
        count = 0 if last is None else len(last.model.partitions)
        parts: dict[str, tuple[str, Mapping[str, Any]]] = {
            "monitor": (
                "MonitorState",
                {
                    "state": "RUNNING",
                    "monitoringCoveragePct": 100.0,
                    "numValidPartitions": count,
                    "numTotalPartitions": count,
                },
            ),
            "executor": (
                "ExecutorState",
                bodies.executor_body(engine.execution, engine.progress if engine.is_executing else None),
            ),
            "analyzer": ("AnalyzerState", bodies.analyzer_body(last)),
            "anomaly_detector": ("AnomalyDetectorState", bodies.healing_body(engine.heals)),
        }
        return json_answer({**dict(parts[one] for one in wanted), "version": bodies.VERSION})

    async def _user_tasks(self, request: Request) -> Response:
        return json_answer(self._tasks.body())

    async def _stop(self, request: Request) -> Response:
        stopped = await self._engine.stop(at_once=_flag(request, "force_stop", False))
        message = "Proposal execution stopped." if stopped else "There was no ongoing proposal execution."
        return json_answer({"message": message, "version": bodies.VERSION})

    # -- tasks ---------------------------------------------------------------------------------------------

    async def _load(self, request: Request) -> Response:
        async def work() -> Body:
            model = (await self._engine.read()).model
            return bodies.load_body(model, model.loads())

        return await self._task(request, "Load", work)

    async def _proposals(self, request: Request) -> Response:
        verbose = _flag(request, "verbose", False)

        async def work() -> Body:
            return bodies.plan_body(await self._engine.plan(Wish()), verbose=verbose)

        return await self._task(request, "Proposals", work)

    async def _rightsize(self, request: Request) -> Response:
        growth = _number(request, "growth", 1.0)
        spare = int(_number(request, "spare", 0.0))

        async def work() -> Body:
            return bodies.size_body(await self._engine.size(growth, spare))

        return await self._task(request, "Rightsize", work)

    def _planning(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        purpose = _PURPOSES[name]

        async def answer(request: Request) -> Response:
            wish = Wish(purpose, _brokers(request) if purpose in _WITH_BROKERS else ())
            is_dry, verbose = _flag(request, "dryrun", True), _flag(request, "verbose", False)
            throttle = _number(request, "replication_throttle", 0.0)

            async def work() -> Body:
                found = await self._engine.plan(wish)
                if not is_dry:
                    await self._engine.carry_out(found, int(throttle) or None)
                return bodies.plan_body(found, verbose=verbose)

            return await self._task(request, name, work)

        return answer

    async def _task(self, request: Request, operation: str, work: Callable[[], Awaitable[Body]]) -> Response:
        """The outcome of work, or a word that it goes on, under an id by which it is asked for again."""
        line = f"{request.method} {request.url.path}?{request.url.query}".rstrip("?")
        asked = request.headers.get(TASK_HEADER)
        task = None if asked is None else self._tasks.get(asked)
        if asked is not None and (task is None or task.line != line):
            raise ApiError(400, 400, f"there is no user task {asked} of this request")
        if task is None:
            task = self._tasks.begin(line, request.client.host if request.client else "", work)
        headers = {TASK_HEADER: task.id}
        done, _ = await asyncio.wait([task.work], timeout=BLOCK_SECONDS)
        if not done:
            progress = [{"operation": operation, "operationProgress": []}]
            answer = json_answer({"progress": progress, "version": bodies.VERSION}, 202)
        else:
            try:
                answer = json_answer(task.work.result())
            except UserError as problem:
                answer = _failed(500, str(problem))
        answer.headers.update(headers)
        return answer


def _told(
    name: str, handler: Callable[[Request], Awaitable[Response]], action: Action
) -> Callable[[Request], Awaitable[Response]]:
    """The handler for those who may do this; its errors in Cruise Control's shape."""
    taken = _PARAMETERS[name] | _COMMON

    async def answer(request: Request) -> Response:
        if not grants_of(request.scope).allow_all(action):
            raise denied(request.scope, action, "everything")
        try:
            if unknown := sorted(set(request.query_params) - taken):
                raise ApiError(
                    400, 400, f"{name} takes no parameter {unknown[0]}; it takes {', '.join(sorted(taken))}"
                )
            return await handler(request)
        except ApiError as problem:
            return _failed(problem.status, problem.message)
        except UserError as problem:
            return _failed(500, str(problem))

    return answer


def _failed(status: int, message: str) -> Response:
    return json_answer({"errorMessage": message, "stackTrace": "", "version": bodies.VERSION}, status)


def _flag(request: Request, name: str, default: bool) -> bool:
    """A parameter that is true or false. Raises ApiError."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise ApiError(400, 400, f"{name}={text}: write true or false")
    return text.lower() == "true"


def _number(request: Request, name: str, default: float) -> float:
    """A parameter that is a number from 0 on. Raises ApiError."""
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ApiError(400, 400, f"{name}={text}: write a number")
    return value


def _brokers(request: Request) -> tuple[int, ...]:
    """The brokers that are meant. Raises ApiError."""
    text = request.query_params.get(BROKERS, "")
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isascii() and word.isdecimal() for word in words):
        raise ApiError(400, 400, f"{BROKERS}={text}: write ids of brokers with commas between")
    return tuple(dict.fromkeys(map(int, words)))
