"""The HTTP API, in the shape of Cruise Control's (version 1 of its JSON).

    GET  /kafkacruisecontrol/state, /load, /partition_load, /kafka_cluster_state, /proposals, /user_tasks
    POST /kafkacruisecontrol/rebalance, /add_broker, /remove_broker, /demote_broker, /fix_offline_replicas,
         /topic_configuration, /rightsize, /stop_proposal_execution, /admin

Parameters stand in the query. Loads, the cluster's state and user tasks are tables of text unless `json=true`
is said, all else is JSON. `dryrun` is true unless it is said to be false. A request that takes longer than a
moment is answered with 202, its `User-Task-ID` and a cookie; the same request with one of these waits for the
rest. Reading needs the right to read everything, all else that to administer.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ottla.balance.core.anomalies import Switched
from ottla.balance.core.model import Purpose
from ottla.balance.execution.runner import RunOptions
from ottla.balance.planning import ReplicaWish, Wish
from ottla.balance.service import bodies, tables
from ottla.balance.service.cluster_state import state_body
from ottla.balance.service.engine import Engine
from ottla.balance.service.parameters import BROKERS, Parameters
from ottla.balance.service.user_tasks import Body, TaskFilter, UserTask, UserTasks
from ottla.client.clock import now_ms
from ottla.config.errors import UserError
from ottla.web.access_rules import Action
from ottla.web.application import json_answer, json_application
from ottla.web.callers import denied, grants_of
from ottla.web.errors import ApiError

ROOT: Final = "/kafkacruisecontrol"
TASK_HEADER: Final = "User-Task-ID"
SESSION_COOKIE: Final = "JSESSIONID"
VERSION_HEADER: Final = "Cruise-Control-Version"
VERSION: Final = "2.5.0"
"""Of the API, by which clients know that a task that goes on is told by a 202."""
BLOCK_SECONDS: Final = 10.0
"""A request waits so long for its work before it is told to come again."""

_PURPOSES: Final = {
    "rebalance": Purpose.BALANCE,
    "add_broker": Purpose.ADD,
    "remove_broker": Purpose.REMOVE,
    "demote_broker": Purpose.DEMOTE,
    "fix_offline_replicas": Purpose.FIX_OFFLINE,
    "topic_configuration": Purpose.REPLICAS,
}
_WITH_BROKERS: Final = frozenset({Purpose.ADD, Purpose.REMOVE, Purpose.DEMOTE})
_SUBSTATES: Final = ("monitor", "executor", "analyzer", "anomaly_detector")
Handler = Callable[[Request, Parameters], Awaitable[Response]]
Text = Callable[[Mapping[str, Any]], str]


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
            "partition_load": self._partition_load,
            "kafka_cluster_state": self._cluster_state,
            "proposals": self._proposals,
            "user_tasks": self._user_tasks,
        }
        posts: dict[str, Handler] = {name: self._planning(name) for name in _PURPOSES}
        posts |= {
            "rightsize": self._rightsize,
            "stop_proposal_execution": self._stop,
            "admin": self._admin,
        }
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

    async def _state(self, request: Request, given: Parameters) -> Response:
        engine = self._engine
        wanted = [one.lower() for one in given.words("substates")] or list(_SUBSTATES)
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
            "anomaly_detector": ("AnomalyDetectorState", bodies.detector_body(engine.detector, engine.last)),
        }
        return json_answer({**dict(parts[one] for one in wanted), "version": bodies.VERSION})

    async def _user_tasks(self, request: Request, given: Parameters) -> Response:
        which = TaskFilter(
            given.words("user_task_ids"),
            [one.lower() for one in given.words("endpoints")],
            given.words("client_ids"),
            [one.lower().replace("_", "") for one in given.words("types")],
        )
        most = given.whole("entries", 1)
        body = self._tasks.body(which, most, with_responses=given.flag("fetch_completed_task", False))
        return _answer(body, tables.tasks_text, given)

    async def _stop(self, request: Request, given: Parameters) -> Response:
        stopped = await self._engine.stop(at_once=given.flag("force_stop", False))
        message = "Proposal execution stopped." if stopped else "There was no ongoing proposal execution."
        return json_answer({"message": message, "version": bodies.VERSION})

    async def _admin(self, request: Request, given: Parameters) -> Response:
        removed = given.brokers("drop_recently_removed_brokers", required=False)
        demoted = given.brokers("drop_recently_demoted_brokers", required=False)
        switches = {
            kind: is_on
            for name, is_on in (("enable_self_healing_for", True), ("disable_self_healing_for", False))
            for kind in given.anomalies(name)
        }
        if not removed and not demoted and not switches:
            raise ApiError(400, 400, "admin needs something to do")
        body: Body = {"version": bodies.VERSION}
        if switches:
            detector = self._engine.detector
            body["selfHealingEnabledBefore"] = {kind.value: kind in detector.healed for kind in switches}
            for kind, is_on in switches.items():
                detector.step(Switched(now_ms(), kind, is_on))
            body["selfHealingEnabledAfter"] = {kind.value: is_on for kind, is_on in switches.items()}
        if removed or demoted:
            await self._engine.forget(removed, demoted)
            body["dropRecentBrokersRequest"] = (
                f"Recently removed: {sorted(self._engine.recently_removed())}, recently demoted: "
                f"{sorted(self._engine.recently_demoted())}"
            )
        return json_answer(body)

    # -- tasks ---------------------------------------------------------------------------------------------

    async def _load(self, request: Request, given: Parameters) -> Response:
        async def work() -> Body:
            model = (await self._engine.read()).model
            return bodies.load_body(model, model.loads())

        return await self._task(request, given, "Load", work, tables.load_text)

    async def _partition_load(self, request: Request, given: Parameters) -> Response:
        resource = (given.text("resource") or "disk").lower()
        if resource not in bodies.RESOURCES:
            raise ApiError(400, 400, f"resource={resource}: write one of {', '.join(bodies.RESOURCES)}")
        pattern, span, most = given.pattern("topic"), given.span("partition"), given.whole("entries", 0)

        async def work() -> Body:
            reading = await self._engine.read()
            return bodies.partition_load_body(reading, bodies.RESOURCES[resource], pattern, span, most)

        return await self._task(request, given, "PartitionLoad", work, tables.partition_load_text)

    async def _cluster_state(self, request: Request, given: Parameters) -> Response:
        pattern, verbose = given.pattern("topic"), given.flag("verbose", False)

        async def work() -> Body:
            return state_body(await self._engine.state(), pattern, verbose=verbose)

        return await self._task(request, given, "KafkaClusterState", work, tables.state_text)

    async def _proposals(self, request: Request, given: Parameters) -> Response:
        verbose = given.flag("verbose", False)
        wish = self._wish(Purpose.BALANCE, given)

        async def work() -> Body:
            return bodies.plan_body(await self._engine.plan(wish()), verbose=verbose)

        return await self._task(request, given, "Proposals", work)

    async def _rightsize(self, request: Request, given: Parameters) -> Response:
        growth = given.number("growth", 1.0)
        spare = given.whole("spare", 0) or 0

        async def work() -> Body:
            return bodies.size_body(await self._engine.size(growth, spare))

        return await self._task(request, given, "Rightsize", work)

    def _planning(self, name: str) -> Handler:
        purpose = _PURPOSES[name]

        async def answer(request: Request, given: Parameters) -> Response:
            wish = self._wish(purpose, given)
            is_dry, verbose = given.flag("dryrun", True), given.flag("verbose", False)
            ends_ongoing = given.flag("stop_ongoing_execution", False)
            options = self._run_options(given)

            async def work() -> Body:
                if ends_ongoing and not is_dry:
                    await self._engine.end_ongoing()
                found = await self._engine.plan(wish())
                if not is_dry:
                    await self._engine.carry_out(found, options)
                return bodies.plan_body(found, verbose=verbose)

            return await self._task(request, given, name, work)

        return answer

    def _wish(self, purpose: Purpose, given: Parameters) -> Callable[[], Wish]:
        """What is wanted, for when the plan is made: the journal is read by then. Raises ApiError."""
        brokers = given.brokers(BROKERS, required=True) if purpose in _WITH_BROKERS else ()
        goals, excluded = given.goals(), given.pattern("excluded_topics")
        destinations = given.brokers("destination_broker_ids", required=False)
        without_removed = given.flag("exclude_recently_removed_brokers", True)
        without_demoted = given.flag("exclude_recently_demoted_brokers", False)
        replicas = _replicas(given) if purpose is Purpose.REPLICAS else None

        def wish() -> Wish:
            removed = self._engine.recently_removed() if without_removed else frozenset[int]()
            demoted = self._engine.recently_demoted() if without_demoted else frozenset[int]()
            return Wish(purpose, brokers, goals, excluded, destinations, removed, demoted, replicas)

        return wish

    def _run_options(self, given: Parameters) -> RunOptions:
        """How the plan is carried out. Raises ApiError."""
        usual = self._engine.running
        return RunOptions(
            given.whole("concurrent_partition_movements_per_broker", 1) or usual.moves_per_broker,
            given.whole("max_partition_movements_in_cluster", 1) or usual.moves,
            given.whole("replication_throttle", 1) or usual.throttle,
        )

    async def _task(
        self,
        request: Request,
        given: Parameters,
        operation: str,
        work: Callable[[], Awaitable[Body]],
        text: Text | None = None,
    ) -> Response:
        """The outcome of work, or a word that it goes on, under an id by which it is asked for again.

        text: writes the outcome for those who want no JSON.
        """
        session = request.cookies.get(SESSION_COOKIE)
        task = self._known(request, session) or self._begun(request, work)
        done, _ = await asyncio.wait([task.work], timeout=BLOCK_SECONDS)
        if not done:
            progress = [{"operation": operation, "operationProgress": []}]
            answer = json_answer({"progress": progress, "version": bodies.VERSION}, 202)
            session = session or uuid.uuid4().hex
            self._tasks.wait_in(session, task)
            answer.set_cookie(SESSION_COOKIE, session, path=ROOT, httponly=True, samesite="strict")
        else:
            self._tasks.told(task)
            try:
                answer = _answer(task.work.result(), text, given)
            except UserError as problem:
                answer = _failed(500, str(problem))
        answer.headers[TASK_HEADER] = task.id
        return answer

    def _known(self, request: Request, session: str | None) -> UserTask | None:
        """The task that the request asks for again. Raises ApiError for an id of another request."""
        line, asked = _line(request), request.headers.get(TASK_HEADER)
        if asked is None:
            return None if session is None else self._tasks.of_session(session, line)
        task = self._tasks.get(asked)
        if task is None or task.line != line:
            raise ApiError(400, 400, f"there is no user task {asked} of this request")
        return task

    def _begun(self, request: Request, work: Callable[[], Awaitable[Body]]) -> UserTask:
        endpoint = request.url.path.rpartition("/")[2]
        client = request.client.host if request.client else ""
        return self._tasks.begin(_line(request), endpoint, client, work)


def _replicas(given: Parameters) -> ReplicaWish:
    """What is wanted of topics. Raises ApiError."""
    topics, factor = given.pattern("topic"), given.whole("replication_factor", 1)
    if topics is None or factor is None:
        raise ApiError(
            400, 400, "topic_configuration needs topic, a regular expression, and replication_factor"
        )
    return ReplicaWish(topics, factor, given.flag("skip_rack_awareness_check", False))


def _line(request: Request) -> str:
    return f"{request.method} {request.url.path}?{request.url.query}".rstrip("?")


def _answer(body: Body, text: Text | None, given: Parameters) -> Response:
    """JSON, or a table of text where there is one and no JSON is asked for."""
    wants_json = given.flag("json", False)
    return json_answer(body) if wants_json or text is None else PlainTextResponse(text(body))


def _told(name: str, handler: Handler, action: Action) -> Callable[[Request], Awaitable[Response]]:
    """The handler for those who may do this; its errors in Cruise Control's shape."""

    async def answer(request: Request) -> Response:
        if not grants_of(request.scope).allow_all(action):
            raise denied(request.scope, action, "everything")
        try:
            told = await handler(request, Parameters(name, request.query_params))
        except ApiError as problem:
            told = _failed(problem.status, problem.message)
        except UserError as problem:
            told = _failed(500, str(problem))
        told.headers[VERSION_HEADER] = VERSION
        return told

    return answer


def _failed(status: int, message: str) -> Response:
    return json_answer({"errorMessage": message, "stackTrace": "", "version": bodies.VERSION}, status)
