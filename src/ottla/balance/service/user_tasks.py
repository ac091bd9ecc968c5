"""The tasks that HTTP requests begin: found again by their id or in their session, bounded in number.

A session is a cookie: a client that keeps cookies and sends the same request again waits for the task that it
began before, as Cruise Control's own client does. Once the outcome was told, the same request begins anew.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ottla.client.clock import now_ms
from ottla.web.errors import ApiError

MAX_ACTIVE: Final = 25
MAX_KEPT: Final = 200
COMPLETED_WITH_ERROR: Final = "CompletedWithError"

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class UserTask:
    """A request's work. line: the request, `POST /kafkacruisecontrol/rebalance?…`; endpoint: `rebalance`."""

    id: str
    line: str
    endpoint: str
    client: str
    started_ms: int
    work: asyncio.Task[Body]

    @property
    def status(self) -> str:
        """In Cruise Control's words."""
        if not self.work.done():
            return "Active"
        return COMPLETED_WITH_ERROR if self.has_failed else "Completed"

    @property
    def has_failed(self) -> bool:
        """Whether its work has ended with an error."""
        return self.work.done() and (self.work.cancelled() or self.work.exception() is not None)

    def body(self, *, with_response: bool) -> Body:
        """The task as JSON. with_response: with the answer of one that is done, as text."""
        body: Body = {
            "UserTaskId": self.id,
            "RequestURL": self.line,
            "ClientIdentity": self.client,
            "StartMs": str(self.started_ms),
            "Status": self.status,
        }
        if with_response and self.work.done():
            failed = self.has_failed
            body["originalResponse"] = (
                COMPLETED_WITH_ERROR if failed else orjson.dumps(self.work.result()).decode()
            )
        return body


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which tasks are told: of these ids, endpoints, clients and states, all where there are none."""

    ids: Collection[str] = ()
    endpoints: Collection[str] = ()
    clients: Collection[str] = ()
    states: Collection[str] = ()

    def takes(self, task: UserTask) -> bool:
        """Whether a task is told."""
        pairs = (
            (self.ids, task.id),
            (self.endpoints, task.endpoint),
            (self.clients, task.client),
            (self.states, task.status.lower()),
        )
        return all(not wanted or value in wanted for wanted, value in pairs)


class UserTasks:
    """The tasks of one service."""

    def __init__(self) -> None:
        self._tasks: dict[str, UserTask] = {}
        self._waiting: dict[tuple[str, str], UserTask] = {}

    def begin(self, line: str, endpoint: str, client: str, work: Callable[[], Awaitable[Body]]) -> UserTask:
        """Begin a request's work. Raises ApiError if too many are under way."""
        if sum(not one.work.done() for one in self._tasks.values()) >= MAX_ACTIVE:
            raise ApiError(503, 503, f"There are already {MAX_ACTIVE} active user tasks")
        self._forget()

        async def run() -> Body:
            return await work()

        task = UserTask(
            str(uuid.uuid4()),
            line,
            endpoint,
            client,
            now_ms(),
            asyncio.create_task(run(), name=f"user task {line}"),
        )
        self._tasks[task.id] = task
        return task

    def _forget(self) -> None:
        for one in list(self._tasks.values()):
            if len(self._tasks) < MAX_KEPT:
                return
            if one.work.done():
                del self._tasks[one.id]
                self.told(one)

    def get(self, task_id: str) -> UserTask | None:
        """A task by its id."""
        return self._tasks.get(task_id)

    def of_session(self, session: str, line: str) -> UserTask | None:
        """The task of the same request of this session, whose outcome was not told yet."""
        return self._waiting.get((session, line))

    def wait_in(self, session: str, task: UserTask) -> None:
        """The session asks for the task again."""
        self._waiting[session, task.line] = task

    def told(self, task: UserTask) -> None:
        """The task's outcome was told: no session waits for it any more."""
        for key in [key for key, one in self._waiting.items() if one is task]:
            del self._waiting[key]

    def body(self, which: TaskFilter, most: int | None, *, with_responses: bool) -> Body:
        """The tasks of a filter, the newest first."""
        found = [one for one in reversed(self._tasks.values()) if which.takes(one)]
        return {"userTasks": [one.body(with_response=with_responses) for one in found[:most]], "version": 1}

    async def close(self) -> None:
        """End all work."""
        works = [one.work for one in self._tasks.values()]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
