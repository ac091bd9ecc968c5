"""The configurations of a connector's tasks: source partitions spread over them, or copies for a sink."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.connect.core.config_records import Properties

PARTITIONS: Final = "ottla.partitions"
"""In a task's configuration: its source partitions as JSON."""
TASK_CLASS: Final = "task.class"
TASKS_MAX: Final = "tasks.max"
CLASS: Final = "connector.class"
DEFAULT_TASKS_MAX: Final = 1


def tasks_max(config: Properties) -> int:
    """The most tasks that a connector may have; its configuration was validated."""
    try:
        return max(1, int(config.get(TASKS_MAX, DEFAULT_TASKS_MAX)))
    except ValueError:
        return DEFAULT_TASKS_MAX


def source_tasks(
    config: Properties, task_class: str, partitions: Sequence[Mapping[str, Any]], most: int
) -> list[dict[str, str]]:
    """The tasks of a source: its partitions in turn, in an order of their own."""
    texts = sorted({json.dumps(each, sort_keys=True, separators=(",", ":")) for each in partitions})
    count = min(most, len(texts))
    return [
        {**config, TASK_CLASS: task_class, PARTITIONS: f"[{','.join(texts[task::count])}]"}
        for task in range(count)
    ]


def sink_tasks(config: Properties, task_class: str, count: int) -> list[dict[str, str]]:
    """The tasks of a sink, whose group shares the topics' partitions among them."""
    return [{**config, TASK_CLASS: task_class} for _ in range(count)]


def split(task: Properties) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """A task's configuration without the keys of planning, and its source partitions."""
    config = {name: value for name, value in task.items() if name not in (PARTITIONS, TASK_CLASS)}
    try:
        found = json.loads(task.get(PARTITIONS, "[]"))
    except ValueError:
        found = []
    return config, [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def is_planned_from(config: Properties, task: Properties) -> bool:
    """Whether a task's configuration is that of a plan of this connector's configuration."""
    planned = {PARTITIONS, TASK_CLASS}
    return all(
        config.get(name) == task.get(name) for name in (config.keys() | task.keys()) if name not in planned
    )


def task_class(connector_class: str) -> str:
    """The name of the class of a connector's tasks, which people see in their configurations."""
    return connector_class.removesuffix("Connector") + "Task"
