"""The image of the topic connect-configs: connectors, their tasks, and the states they are to be in.

Theory of operation. Task configurations stand in records of their own and count once a commit names their
number. Compaction may take the older of two sets away while its commit is still there, so a set can be
incomplete: then the connector is inconsistent, and has no tasks until its next whole set. The rules are those
of Java's workers, which may write and read the same topic.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.connect.core.config_records import (
    ConfigRecord,
    ConnectorConfig,
    OffsetsGeneration,
    Properties,
    SessionKey,
    Target,
    TaskConfig,
    TaskCount,
    TasksCommit,
)
from ottla.connect.core.ids import CONNECTOR, TargetState, TaskId


class ConfigImage:
    """Changed by `replay` alone."""

    def __init__(self) -> None:
        self._connectors: dict[str, Properties] = {}
        self._targets: dict[str, TargetState] = {}
        self._tasks: dict[str, dict[int, Properties]] = {}
        self._deferred: dict[str, dict[int, Properties]] = {}
        self._counts: dict[str, int] = {}
        self._task_generations: dict[str, int] = {}
        self._fences: dict[str, int] = {}
        self._fenced_counts: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._config_offsets: dict[str, int] = {}
        self._generation_offsets: dict[str, int] = {}
        self._inconsistent: set[str] = set()
        self._pending_fencing: set[str] = set()
        self.session_key: SessionKey | None = None
        self.offset = -1
        """Of the last record that was replayed."""

    # -- queries --------------------------------------------------------------------------------------

    @property
    def connectors(self) -> Sequence[str]:
        """The names of all connectors."""
        return list(self._connectors)

    def __contains__(self, connector: str) -> bool:
        return connector in self._connectors

    def config(self, connector: str) -> Properties | None:
        """A connector's configuration, with references to secrets in place of them."""
        return self._connectors.get(connector)

    def target(self, connector: str) -> TargetState:
        """The state that a connector is to be in."""
        return self._targets.get(connector, TargetState.STARTED)

    def task_count(self, connector: str) -> int:
        """The number of a connector's tasks; 0 while its set is incomplete."""
        return 0 if connector in self._inconsistent else self._counts.get(connector, 0)

    def task_configs(self, connector: str) -> Sequence[Properties]:
        """The configurations of a connector's tasks in their order."""
        found = self._tasks.get(connector, {})
        return [found[task] for task in range(self.task_count(connector))]

    def task_config(self, connector: str, task: int) -> Properties | None:
        """One task's configuration."""
        return self._tasks[connector][task] if 0 <= task < self.task_count(connector) else None

    def is_inconsistent(self, connector: str) -> bool:
        """Whether the last set of task configurations was not whole."""
        return connector in self._inconsistent

    def task_generation(self, connector: str) -> int:
        """The offset of the record that committed the present tasks, -1 without any."""
        return self._task_generations.get(connector, -1)

    def fence(self, connector: str) -> int:
        """A number that grows with each fencing of the connector's former tasks; 0: there was none."""
        return self._fences.get(connector, 0)

    def fenced_count(self, connector: str) -> int | None:
        """How many tasks may have producers since the last fencing; None: there was none."""
        return self._fenced_counts.get(connector)

    def is_pending_fencing(self, connector: str) -> bool:
        """Whether new task configurations came after the last fencing."""
        return connector in self._pending_fencing

    def generation(self, connector: str) -> int:
        """How often the connector's offsets were changed by hand."""
        return self._generations.get(connector, 0)

    def revision(self, id: TaskId) -> int:
        """The offset of the last record that changed the work of a connector or task, -1 without any.

        The same on every worker, whatever compaction has taken away: each such record is its key's last one.
        """
        offsets = self._config_offsets if id.task == CONNECTOR else self._task_generations
        return max(offsets.get(id.connector, -1), self._generation_offsets.get(id.connector, -1))

    # -- replay ---------------------------------------------------------------------------------------

    def replay(self, record: ConfigRecord, offset: int) -> None:
        """Take a record into the image."""
        self.offset = offset
        match record:
            case ConnectorConfig(connector, None):
                self._remove(connector)
            case ConnectorConfig(connector, properties) if properties is not None:
                self._connectors[connector] = properties
                self._config_offsets[connector] = offset
                self._targets.setdefault(connector, TargetState.STARTED)
            case TaskConfig(connector, task, properties):
                self._deferred.setdefault(connector, {})[task] = properties
            case TasksCommit(connector, tasks):
                self._commit(connector, tasks, offset)
            case Target(connector, None):
                self._targets.pop(connector, None)
            case Target(connector, state) if state is not None:
                self._targets[connector] = state
            case TaskCount(connector, tasks):
                self._fenced_counts[connector] = tasks
                self._fences[connector] = offset
                self._pending_fencing.discard(connector)
            case OffsetsGeneration(connector, generation):
                self._generations[connector] = generation
                self._generation_offsets[connector] = offset
            case SessionKey():
                self.session_key = record
            case _:
                pass  # requests: they change nothing that lasts

    def _remove(self, connector: str) -> None:
        self._connectors.pop(connector, None)
        self._config_offsets.pop(connector, None)
        for each in (self._counts, self._tasks, self._deferred, self._task_generations):
            each.pop(connector, None)
        self._inconsistent.discard(connector)

    def _commit(self, connector: str, tasks: int, offset: int) -> None:
        if connector not in self._connectors:
            # It was deleted, and compaction has taken the records away that told so.
            self._remove(connector)
            return
        deferred = self._deferred.pop(connector, {})
        if all(task in deferred for task in range(tasks)):
            self._tasks.setdefault(connector, {}).update(deferred)
            self._inconsistent.discard(connector)
        else:
            self._inconsistent.add(connector)
        self._counts[connector] = tasks
        self._task_generations[connector] = offset
        self._pending_fencing.add(connector)


def all_of(image: ConfigImage) -> list[TaskId]:
    """All connectors and tasks that some worker is to run."""
    connectors = sorted(image.connectors)
    tasks = [TaskId(name, task) for name in connectors for task in range(image.task_count(name))]
    return [*(TaskId(name, CONNECTOR) for name in connectors), *tasks]
