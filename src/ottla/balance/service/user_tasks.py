"""The tasks that HTTP requests begin: found again by their id, bounded in number."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.clock import now_ms
from ottla.web.errors import ApiError

MAX_ACTIVE: Final = 25
MAX_KEPT: Final = 200

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class UserTask:
    """A request's work. line: the request, `POST /kafkacruisecontrol/rebalance?…`."""

    id: str
    line: str
    client: str
    started_ms: int
    work: asyncio.Task[Body]

    @property
    def status(self) -> str:
        """In Cruise Control's words."""
        if not self.work.done():
            return "Active"
        failed = self.work.cancelled() or self.work.exception() is not None
        return "CompletedWithError" if failed else "Completed"


class UserTasks:
    """The tasks of one service."""

    def __init__(self) -> None:
        self._tasks: dict[str, UserTask] = {}

    def begin(self, line: str, client: str, work: Callable[[], Awaitable[Body]]) -> UserTask:
        """Begin a request's work. Raises ApiError if too many are under way."""
        if sum(not one.work.done() for one in self._tasks.values()) >= MAX_ACTIVE:
            raise ApiError(503, 503, f"There are already {MAX_ACTIVE} active user tasks")
        self._forget()

        async def run() -> Body:
            return await work()

        task = UserTask(
            str(uuid.uuid4()),
            line,
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

    def get(self, task_id: str) -> UserTask | None:
        """A task by its id."""
        return self._tasks.get(task_id)

    def body(self) -> Body:
        """All tasks, the newest first."""
        return {
            "userTasks": [
                {
                    "UserTaskId": one.id,
                    "RequestURL": one.line,
                    "ClientIdentity": one.client,
                    "StartMs": str(one.started_ms),
                    "Status": one.status,
                }
                for one in reversed(self._tasks.values())
            ],
            "version": 1,
        }

    async def close(self) -> None:
        """End all work."""
        works = [one.work for one in self._tasks.values()]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
