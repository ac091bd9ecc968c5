"""The image of the topic connect-status: the states of connectors and tasks, and the topics they use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.connect.core.ids import CONNECTOR, State, TaskId


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a connector or task. generation: of the group, as the worker knew it.

    revision: that of the work that the worker means (see ConfigImage.revision); None: it does not say.
    """

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A record: the status of a connector or task; None: it is deleted."""

    id: TaskId
    status: Status | None


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A record: a connector uses a topic, first seen by a task at a time; task None: it is forgotten."""

    topic: str
    connector: str
    task: int | None = None
    discovered_ms: int = 0


StatusRecord = TaskStatus | TopicStatus


class StatusImage:
    """Changed by `replay` alone."""

    def __init__(self) -> None:
        self._statuses: dict[str, dict[int, Status]] = {}
        self._topics: dict[str, dict[str, None]] = {}

    def status(self, id: TaskId) -> Status | None:
        """The last status of a connector or task."""
        return self._statuses.get(id.connector, {}).get(id.task)

    def tasks(self, connector: str) -> Sequence[tuple[int, Status]]:
        """The statuses of a connector's tasks by their numbers."""
        found = self._statuses.get(connector, {})
        return sorted((task, status) for task, status in found.items() if task != CONNECTOR)

    def topics(self, connector: str) -> Sequence[str]:
        """The topics that a connector has used since they were last reset."""
        return list(self._topics.get(connector, ()))

    @property
    def connectors(self) -> Iterable[str]:
        """The connectors that a record is known of."""
        return {**self._statuses, **self._topics}

    def replay(self, record: StatusRecord) -> None:
        """Take a record into the image."""
        match record:
            case TaskStatus(id, None):
                of_connector = self._statuses.get(id.connector, {})
                of_connector.pop(id.task, None)
                if not of_connector:
                    self._statuses.pop(id.connector, None)
            case TaskStatus(id, status) if status is not None:
                self._statuses.setdefault(id.connector, {})[id.task] = status
            case TopicStatus(topic, connector, None):
                topics = self._topics.get(connector, {})
                topics.pop(topic, None)
                if not topics:
                    self._topics.pop(connector, None)
            case TopicStatus(topic, connector):
                self._topics.setdefault(connector, {})[topic] = None


def tombstones(image: StatusImage, connector: str, is_gone: bool, task_count: int) -> list[StatusRecord]:
    """The records that take away what is there no more: a deleted connector's, or that of tasks it lost."""
    found: list[StatusRecord] = [
        TaskStatus(TaskId(connector, task), None)
        for task, _ in image.tasks(connector)
        if is_gone or task >= task_count
    ]
    if is_gone:
        if image.status(TaskId(connector, CONNECTOR)) is not None:
            found.append(TaskStatus(TaskId(connector, CONNECTOR), None))
        found += [TopicStatus(topic, connector) for topic in image.topics(connector)]
    return found
